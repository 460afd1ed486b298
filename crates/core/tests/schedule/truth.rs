//! True times that are not the estimates: every policy copes with any of them, every log passes the check, in memory and read
//! back, and what is drawn depends on the seed alone.

use crate::properties::problem;
use crate::support::{Problem, SEED, run};
use gswarm_core::belief::{Estimate, Recent};
use gswarm_core::bound::best_bound;
use gswarm_core::check::{ViolationCode, check, check_run};
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::log_file::{LogFile, Summary, write_json};
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::sim::{SimOptions, simulate, simulate_learning};
use gswarm_core::truth::{Drift, Noise, TrueTimes, Truth, TruthSpec};
use gswarm_core::{Instance, Span, Time};
use proptest::prelude::*;

fn noisy(deviation: f64, seed: u64) -> TruthSpec {
    TruthSpec { noise: Noise::lognormal(deviation), seed, ..TruthSpec::default() }
}

fn with(truth: Truth) -> SimOptions {
    SimOptions { truth, ..SimOptions::default() }
}

/// Runs a policy that learns as it goes.
fn learn(instance: &Instance, kind: PolicyKind, truth: &Truth) -> ExecutionLog {
    let spec = PolicySpec::default_of(kind).with_rounds(1);
    let (mut learner, mut policy) = (Recent::new(), spec.build(instance, &BuildContext::seeded(SEED)));
    simulate_learning(instance, &mut *policy, Some(&mut learner), &with(truth.clone()), &mut |_| {})
        .unwrap_or_else(|error| panic!("{}: {error}", kind.name()))
}

fn summary_of(instance: &Instance, log: &ExecutionLog, spec: &TruthSpec, truth: &Truth) -> Summary {
    let bound = best_bound(&truth.known(instance));
    let info = RunInfo {
        policy: "any".into(),
        truth: Some(spec.clone()),
        seed: Some(spec.seed),
        lower_bound: Some(bound.value),
        bound: Some(bound.claim(instance)),
        ..RunInfo::default()
    };
    summary(instance, &metrics(instance, log), info)
}

/// The log as a file, read back.
fn file_of(instance: &Instance, log: &ExecutionLog, summary: &Summary) -> LogFile {
    let mut bytes = Vec::new();
    write_json(instance, log, summary, &mut bytes).unwrap();
    LogFile::read_bytes(&bytes)
}

proptest! {
    #[test]
    fn every_policy_copes_with_every_truth(
        problem in problem(), deviation in 0.0f64..2.0, seed in any::<u64>(),
        factor in 0.2f64..5.0, at in 0u64..100_000_000, one_model in any::<bool>(), learns in any::<bool>(), spread in 0.0f64..1.0,
    ) {
        let model = one_model.then(|| "m0".to_owned());
        let spec = TruthSpec { drift: vec![Drift { model, factor, at: Time(at) }], ..noisy(deviation, seed) };
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode)) {
            let mut instance = problem.build_for(kind);
            instance.models.iter_mut().for_each(|model| model.spread = spread);
            let truth = Truth::new(&spec, &instance, &instance).unwrap();
            let go = || if learns { learn(&instance, kind, &truth) } else {
                let spec = PolicySpec::default_of(kind).with_rounds(1);
                simulate(&instance, &mut *spec.build(&instance, &BuildContext::seeded(SEED)), &with(truth.clone()), &mut |_| {})
                    .unwrap_or_else(|error| panic!("{}: {error}", kind.name()))
            };
            let log = go();
            prop_assert_eq!(log.executions.len(), instance.tasks(), "{}", kind.name());
            prop_assert_eq!(&log, &go(), "{} is not deterministic", kind.name());
            let summary = summary_of(&instance, &log, &spec, &truth);
            let violations = check_run(&instance, &truth, &log, Some(&summary));
            prop_assert!(violations.is_empty(), "{}: {violations:?}", kind.name());
            let violations = check(&instance, &file_of(&instance, &log, &summary));
            let violations: Vec<_> = violations.into_iter().filter(|one| one.code != ViolationCode::Assignment).collect();
            prop_assert!(violations.is_empty(), "{}: {violations:?}", kind.name());
        }
    }

    #[test]
    fn without_noise_nothing_changes(problem in problem(), seed in any::<u64>()) {
        let spec = noisy(0.0, seed);
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode)) {
            let instance = problem.build_for(kind);
            let truth = Truth::new(&spec, &instance, &instance).unwrap();
            prop_assert!(truth.is_estimate());
            let plain = run(&instance, kind, &SimOptions::default()).unwrap();
            prop_assert_eq!(&run(&instance, kind, &with(truth)).unwrap(), &plain, "{}", kind.name());
        }
    }
}

fn chain(requests: u32) -> Problem {
    let problem = Problem::on(2).model("a", 1, 8.0, 1.0).model("b", 1, 16.0, 2.0);
    let problem = problem.workflow(&[0, 1], &[(0, 1)]);
    (0..requests).fold(problem, |problem, _| problem.request(0, 0.0, &[10.0, 5.0]))
}

#[test]
fn the_check_tells_a_draw_from_another() {
    let instance = chain(4).build();
    let spec = noisy(0.5, 3);
    let truth = Truth::new(&spec, &instance, &instance).unwrap();
    let context = BuildContext::default();
    let mut policy = PolicyKind::Baseline.build(&instance, &context);
    let log = simulate(&instance, &mut *policy, &with(truth.clone()), &mut |_| {}).unwrap();
    let codes = |spec: &TruthSpec| {
        let summary = summary_of(&instance, &log, spec, &truth);
        check(&instance, &file_of(&instance, &log, &summary))
    };
    assert_eq!(codes(&spec), []);
    for other in [noisy(0.5, 4), noisy(0.2, 3), TruthSpec::default()] {
        let found = codes(&other);
        let about_work = |code| matches!(code, ViolationCode::WorkLittle | ViolationCode::WorkMuch);
        assert!(found.iter().any(|one| about_work(one.code)), "{other:?}: {found:?}");
    }
}

#[test]
fn predictions_and_the_times_of_the_requests_stand_apart() {
    let given = chain(4).build();
    let mut instance = given.clone();
    let twice = |task| {
        let mean = given.execution(task).times(2.0);
        Some(Estimate { mean, low: mean.times(0.5), high: mean.times(1.5) })
    };
    instance.believe(twice);
    for times in [TrueTimes::Requests, TrueTimes::Estimates] {
        let spec = TruthSpec { times, ..TruthSpec::default() };
        let truth = Truth::new(&spec, &instance, &given).unwrap();
        let context = BuildContext::default();
        let mut policy = PolicyKind::Adaptive.build(&instance, &context);
        let log = simulate(&instance, &mut *policy, &with(truth.clone()), &mut |_| {}).unwrap();
        let bound = best_bound(&truth.known(&instance));
        let info = RunInfo {
            truth: Some(spec),
            predictor: Some("twice".into()),
            lower_bound: Some(bound.value),
            bound: Some(bound.claim(&instance)),
            ..RunInfo::default()
        };
        let summary = summary(&instance, &metrics(&instance, &log), info);
        assert_eq!(check_run(&instance, &truth, &log, Some(&summary)), []);
        let file = file_of(&instance, &log, &summary);
        // Whoever checks has the inputs, and not the predictor.
        assert_eq!(check(&given, &file), [], "{times:?}");
        let record = &file.executions[0];
        let (estimate, low, high) = (record.estimated_time, record.predicted_low, record.predicted_high);
        assert_eq!((estimate, low, high), (Some(20.0), Some(10.0), Some(30.0)));
        let length = if times == TrueTimes::Requests { 10.0 } else { 20.0 };
        assert_eq!(record.execution_time, Some(length));
    }
}

#[test]
fn learning_comes_to_the_mean_and_follows_a_change() {
    let instance = chain(400).build();
    for factor in [0.5, 1.3, 2.0] {
        let late = Time(1_500_000_000);
        let spec = TruthSpec {
            drift: vec!["a=1.5@0".parse().unwrap(), Drift { model: Some("a".into()), factor, at: late }],
            ..noisy(0.2, 5)
        };
        let truth = Truth::new(&spec, &instance, &instance).unwrap();
        let mut learner = Recent::new();
        let context = BuildContext::default();
        let mut policy = PolicyKind::Adaptive.build(&instance, &context);
        let mut believed = Vec::new();
        let options = with(truth);
        let log =
            simulate_learning(&instance, &mut *policy, Some(&mut learner), &options, &mut |_| {}).unwrap();
        assert!(log.executions.iter().all(|one| one.status == Status::Completed));
        use gswarm_core::belief::Learner;
        for model in [0, 1] {
            believed.push(learner.belief(gswarm_core::ModelId(model), None));
        }
        let (a, b) = (believed[0], believed[1]);
        assert!((a.factor / (1.5 * factor) - 1.0).abs() < 0.1, "{factor}: {a:?}");
        assert!((b.factor - 1.0).abs() < 0.1, "{factor}: {b:?}");
        let spread = gswarm_core::belief::sigma_of(0.2);
        assert!((b.spread.unwrap() / spread - 1.0).abs() < 0.4, "{b:?}");
    }
    assert_eq!(instance.execution(gswarm_core::TaskId(0)), Span(10_000_000), "estimates stay what they were");
}

/// Times that requests give are exact; a model's mean varies by its standard deviation.
#[test]
fn deviations_of_the_configuration_are_the_noise_of_times_that_requests_do_not_give() {
    let builder = (0..2000).fold(
        gswarm_core::input::Scenario::builder()
            .gpus(2)
            .model("m", 1, 8.0, 5.0)
            .run_time(10.0)
            .workflow("solo")
            .node("n", "m"),
        |builder, number| {
            let builder = builder.request(&format!("r{number}"), "solo");
            if number % 2 == 0 { builder.times(&[10.0]) } else { builder }
        },
    );
    let mut scenario = builder.build().unwrap();
    scenario.models[0].inference_time_std = Some(3.0);
    let cluster = gswarm_core::instance::Cluster::from_spec(&scenario.cluster).unwrap();
    let instance = Instance::build(&scenario, cluster, gswarm_core::instance::Mode::Offline).unwrap();
    let times = |noise: Noise| -> Vec<f64> {
        let spec = TruthSpec { noise: Some(noise), seed: 7, ..TruthSpec::default() };
        let truth = Truth::new(&spec, &instance, &instance).unwrap();
        instance.task_ids().map(|task| truth.time(&instance, task, Time::ZERO).seconds()).collect()
    };
    assert!(times(Noise::None).iter().all(|&time| time == 10.0));
    let drawn = times(Noise::Config);
    let (given, varied): (Vec<_>, Vec<_>) = drawn.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    assert!(given.iter().all(|&time| time == 10.0));
    let mean = varied.iter().sum::<f64>() / varied.len() as f64;
    let deviation =
        (varied.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / varied.len() as f64).sqrt();
    // The draws are fixed by the seed; the bounds are four standard errors wide.
    assert!((mean - 10.0).abs() < 0.4, "{mean}");
    assert!((deviation - 3.0).abs() < 0.5, "{deviation}");
}
