use crate::support::*;
use gswarm_core::Span;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::size::{Measure, SizeError, SizeQuestion, Sizing, Target, Traffic, Verdict, size};

/// Twelve requests of 10 s, one node each; the model takes a second to load.
fn scenario(every: f64, gpus: u32) -> Scenario {
    (0..12)
        .fold(
            Scenario::builder().model("a", gpus, 14.0, 1.0).workflow("one").node("x", "a"),
            |builder, id| {
                builder.request(&format!("r{id}"), "one").arrival(f64::from(id) * every).times(&[10.0])
            },
        )
        .build()
        .unwrap()
}

fn ask(
    scenario: &Scenario,
    mode: Mode,
    targets: &[(Measure, f64)],
    max_gpus: u32,
) -> Result<Sizing, SizeError> {
    let targets: Vec<Target> = targets
        .iter()
        .map(|&(measure, seconds)| Target::time(measure, Span::from_seconds(seconds)))
        .collect();
    let (cluster, policy) = (cluster(1, None), PolicySpec::default_of(PolicyKind::Baseline));
    let question = SizeQuestion {
        scenario,
        cluster: &cluster,
        mode,
        policy: &policy,
        seed: 0,
        targets: &targets,
        max_gpus,
    };
    size(&question, &mut |_| {})
}

fn fewest(sizing: &Sizing) -> Option<u32> {
    match sizing.verdict {
        Verdict::Met { gpus, .. } => Some(gpus),
        _ => None,
    }
}

#[test]
fn the_fewest_gpus_for_a_makespan_are_those_of_the_sum() {
    let scenario = scenario(0.0, 1);
    // n GPUs take 1 + 10 x ceil(12 / n).
    for (seconds, gpus) in
        [(121.0, 1), (61.0, 2), (60.0, 3), (41.0, 3), (31.0, 4), (21.0, 6), (20.0, 12), (11.0, 12)]
    {
        let sizing = ask(&scenario, Mode::Offline, &[(Measure::Makespan, seconds)], 64).unwrap();
        assert_eq!(fewest(&sizing), Some(gpus), "{seconds}");
        assert!(sizing.least <= gpus && sizing.tried.contains(&gpus));
        let point = sizing.points.iter().find(|point| point.gpus == gpus).unwrap();
        assert!(point.met && point.makespan <= seconds && point.bound <= Some(point.makespan));
    }
}

#[test]
fn a_target_below_the_floor_says_what_the_floor_is() {
    let sizing = ask(&scenario(0.0, 1), Mode::Offline, &[(Measure::Makespan, 10.9)], 64).unwrap();
    let Verdict::BelowFloor { floor, .. } = sizing.verdict else { panic!("{:?}", sizing.verdict) };
    assert_eq!(floor, Span::from_seconds(11.0));
    for measure in [Measure::Mean, Measure::P99] {
        // Only the first requests wait for the load: by the time that others arrive, it can be over.
        let sizing = ask(&scenario(5.0, 1), Mode::Online, &[(measure, 9.0)], 64).unwrap();
        let Verdict::BelowFloor { floor, .. } = sizing.verdict else { panic!("{:?}", sizing.verdict) };
        assert_eq!(floor, if measure == Measure::Mean { Span(10_083_333) } else { Span::from_seconds(10.0) });
    }
}

#[test]
fn a_limit_that_is_too_small_is_told_from_a_policy_that_does_not_reach_it() {
    let sizing = ask(&scenario(0.0, 1), Mode::Offline, &[(Measure::Makespan, 31.0)], 3).unwrap();
    assert!(matches!(sizing.verdict, Verdict::BeyondLimit { .. }), "{:?}", sizing.verdict);
    // 10.05 s on average is above the floor only if nobody but the first waits for a load; each GPU has one.
    let sizing = ask(&scenario(5.0, 1), Mode::Online, &[(Measure::P99, 10.5)], 16).unwrap();
    assert_eq!(sizing.verdict, Verdict::NotFound);
    assert!(sizing.tried.contains(&16));
}

#[test]
fn several_targets_are_kept_at_once() {
    let scenario = scenario(5.0, 1);
    let makespan = fewest(&ask(&scenario, Mode::Online, &[(Measure::Makespan, 100.0)], 64).unwrap()).unwrap();
    let p99 = fewest(&ask(&scenario, Mode::Online, &[(Measure::P99, 12.0)], 64).unwrap()).unwrap();
    let both = [(Measure::Makespan, 100.0), (Measure::P99, 12.0)];
    let both = fewest(&ask(&scenario, Mode::Online, &both, 64).unwrap()).unwrap();
    assert_eq!(both, makespan.max(p99));
    // A request each 5 s, 10 s long: two GPUs work all the time, a third takes up what the loads delay.
    assert!((2..=3).contains(&p99), "{p99}");
}

#[test]
fn fewer_gpus_than_a_model_needs_are_not_tried() {
    let sizing = ask(&scenario(0.0, 3), Mode::Offline, &[(Measure::Makespan, 1000.0)], 64).unwrap();
    assert_eq!((sizing.least_possible, fewest(&sizing)), (3, Some(3)));
    assert!(sizing.points.iter().all(|point| point.gpus >= 3));
    let error = ask(&scenario(0.0, 3), Mode::Offline, &[(Measure::Makespan, 1000.0)], 2).unwrap_err();
    assert!(matches!(error, SizeError::Infeasible(2, _)));
}

#[test]
fn no_number_below_the_answer_that_suits_the_widest_model_is_missed() {
    // A model on 3 GPUs: 3 k GPUs hold k replicas, and one or two more are of no use.
    let scenario = scenario(0.0, 3);
    for (seconds, gpus) in [(61.0, 6), (41.0, 9), (31.0, 12), (21.0, 18)] {
        let sizing = ask(&scenario, Mode::Offline, &[(Measure::Makespan, seconds)], 64).unwrap();
        assert_eq!(fewest(&sizing), Some(gpus), "{seconds}");
    }
}

/// A stream of requests at these moments, numbered by their execution time.
fn stream(arrivals: &[f64]) -> Scenario {
    let builder = Scenario::builder().model("a", 1, 14.0, 1.0).workflow("one").node("x", "a");
    let add = |builder: gswarm_core::input::ScenarioBuilder, (id, at): (usize, &f64)| {
        builder.request(&format!("r{id}"), "one").arrival(*at).times(&[1.0 + id as f64])
    };
    arrivals.iter().enumerate().fold(builder, add).build().unwrap()
}

fn traffic_of(scenario: &Scenario, multiple: f64) -> Traffic {
    let instance = Instance::build(scenario, cluster(4, None), Mode::Online).unwrap();
    Traffic::of(scenario, &instance, multiple, false)
}

#[test]
fn resampled_traces_have_every_request_equally_often_and_are_drawn_from_the_seed() {
    let arrivals: Vec<f64> = (0..50).map(|id| f64::from(id) * 2.0).collect();
    let scenario = stream(&arrivals);
    let traffic = traffic_of(&scenario, 2.0);
    assert_eq!(traffic.requests_per_trace(), 100.0);
    let period = traffic.period().seconds();
    assert!((99.9..101.0).contains(&period), "{period}");
    let drawn = traffic.draw(7, Span::from_seconds(30.0), 3);
    let mut times: Vec<_> = drawn
        .requests
        .iter()
        .zip(&drawn.trace_of)
        .filter(|(_, trace)| trace.is_some())
        .map(|(one, _)| one.times[0])
        .collect();
    times.sort_unstable();
    let mut expected: Vec<_> = scenario.requests.iter().flat_map(|one| [one.times[0]; 6]).collect();
    expected.sort_unstable();
    assert_eq!(times, expected, "three traces of twice the traffic");
    let at: Vec<i64> = drawn.requests.iter().filter_map(|one| one.timestamp).collect();
    assert!(at.is_sorted() && drawn.trace_of.is_sorted());
    assert!(drawn.measured_from >= 28.0, "{}", drawn.measured_from);
    let same = |seed| {
        let other = traffic.draw(seed, Span::from_seconds(30.0), 3);
        other
            .requests
            .iter()
            .map(|one| (one.timestamp, one.times[0]))
            .eq(drawn.requests.iter().map(|one| (one.timestamp, one.times[0])))
    };
    assert!(same(7) && !same(8));
    let thin = traffic_of(&scenario, 0.5).draw(1, Span::ZERO, 10).requests.len();
    assert!((200..300).contains(&thin), "{thin}");
}

#[test]
fn a_trace_with_a_peak_keeps_its_shape_and_one_without_does_not_get_any() {
    let mut even = stream(&(0..400).map(|id| f64::from(id) + f64::from(id % 7) / 10.0).collect::<Vec<_>>());
    even.requests.iter_mut().for_each(|one| one.times = vec![Some(Span::from_seconds(5.0))]);
    assert!(!traffic_of(&even, 1.0).has_shape());
    // Nine in ten arrive in the second half.
    let mut peak: Vec<f64> = (0..40).map(|id| f64::from(id) * 5.0).collect();
    peak.extend((0..360).map(|id| 200.0 + f64::from(id) * 0.55));
    let scenario = stream(&peak);
    let traffic = traffic_of(&scenario, 1.0);
    assert!(traffic.has_shape());
    let drawn = traffic.draw(3, Span::ZERO, 1);
    let early = drawn.requests.iter().filter(|one| one.timestamp.unwrap() < 200_000_000).count();
    assert!(early < 60, "{early}");
}
