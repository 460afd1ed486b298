//! The exact search: what it finds and proves is what enumeration and a general solver find.

use crate::support::{Problem, makespan};
use gswarm_core::cost::SwitchRule;
use gswarm_core::input::{Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::plan::{Plan, Planned, Proof, SearchLimits, TimedPlan, improve};
use gswarm_core::policy::{Follow, carry_out};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Instance, TaskId, Time};
use proptest::prelude::*;

fn planned(instance: &Instance, rounds: u64) -> Planned {
    improve(instance, &SearchLimits { rounds, seed: 3, ..SearchLimits::default() }, &mut |_| {})
}

/// The shortest of all plans: every order in which inputs come first, every window.
fn enumerated(instance: &Instance) -> Time {
    fn grow(instance: &Instance, plan: &mut Plan, best: &mut Time) {
        if plan.0.len() == instance.tasks() {
            *best = (*best).min(TimedPlan::of(instance, plan).makespan);
        }
        let placed = |plan: &Plan, task: TaskId| plan.0.iter().any(|&(other, _)| other == task);
        for task in instance.task_ids() {
            if placed(plan, task) || instance.predecessors(task).any(|before| !placed(plan, before)) {
                continue;
            }
            for window in instance.models[instance.model_of(task)].windows() {
                plan.0.push((task, window));
                grow(instance, plan, best);
                plan.0.pop();
            }
        }
    }
    let mut best = Time::NEVER;
    grow(instance, &mut Plan::default(), &mut best);
    best
}

prop_compose! {
    /// Five tasks at the most, on three GPUs at the most: all their plans can be listed.
    fn tiny()(
        gpus in 1u32..4,
        models in proptest::collection::vec((1u32..3, 1.0f64..70.0, 0.5f64..60.0), 1..4),
        nodes in proptest::collection::vec((any::<u32>(), prop_oneof![0.5f64..20.0, Just(4.0)]), 1..6),
        cuts in any::<u8>(), edges in any::<u32>(), by_load_time in any::<bool>(),
    ) -> Problem {
        let mut problem = Problem::on(gpus);
        if by_load_time {
            problem.cluster.switch.rule = SwitchRule::LoadTime;
        }
        for (place, &(width, gb, load)) in models.iter().enumerate() {
            problem = problem.model(&format!("m{place}"), width.min(gpus), gb, load);
        }
        // Cut into requests, each a workflow of its own.
        let mut first = 0;
        for last in 0..nodes.len() {
            if last + 1 < nodes.len() && cuts >> last & 1 == 0 {
                continue;
            }
            let part = &nodes[first..=last];
            let kinds: Vec<u32> = part.iter().map(|node| node.0 % models.len() as u32).collect();
            let pairs = (0..part.len() as u32).flat_map(|to| (0..to).map(move |from| (from, to)));
            let kept: Vec<(u32, u32)> = pairs.enumerate().filter(|(at, _)| edges >> (at + first) & 1 == 1).map(|(_, pair)| pair).collect();
            let workflow = problem.builder.scenario.workflows.len() as u32;
            let times: Vec<f64> = part.iter().map(|node| node.1).collect();
            problem = problem.workflow(&kinds, &kept).request(workflow, 0.0, &times);
            first = last + 1;
        }
        problem
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_exact_search_agrees_with_enumeration(problem in tiny()) {
        let instance = problem.build();
        let plan = planned(&instance, 4);
        let best = enumerated(&instance);
        prop_assert_eq!(Time(plan.makespan.0), best, "by {}, proof {:?}", plan.found_by, plan.proof);
        let mut policy = carry_out(&instance, &plan);
        let log = simulate(&instance, &mut *policy, &SimOptions::default(), &mut |_| {}).unwrap();
        prop_assert!(gswarm_core::check::check_log(&instance, &log, None).is_empty());
        prop_assert_eq!(makespan(&log), plan.makespan);
    }
}

/// A model that executes nothing makes no load cheaper: the large one is loaded straight onto the empty GPUs.
#[test]
fn no_plan_loads_a_small_model_only_to_make_the_next_load_cheaper() {
    let problem = Problem::on(2).model("small", 1, 1.0, 2.0).model("large", 2, 70.0, 80.0);
    let instance = problem.workflow(&[1], &[]).request(0, 0.0, &[10.0]).build();
    let plan = planned(&instance, 1);
    assert_eq!(plan.makespan.seconds(), 80.0 + 10.0);
    assert!(plan.proof.is_some());
    let log =
        simulate(&instance, &mut Follow::new(&instance, &plan.plan), &SimOptions::default(), &mut |_| {})
            .unwrap();
    assert!(gswarm_core::check::check_log(&instance, &log, None).is_empty());
    assert_eq!(makespan(&log), plan.makespan);
    assert!(log.loads.is_empty());
}

/// Requests that are alike are not tried in every order: 24 of them are proved at once.
#[test]
fn requests_that_are_alike_are_proved_at_once() {
    let mut problem =
        Problem::on(3).model("a", 1, 8.0, 5.0).model("b", 1, 14.0, 9.0).workflow(&[0, 1], &[(0, 1)]);
    for _ in 0..12 {
        problem = problem.request(0, 0.0, &[4.0, 3.0]);
    }
    let plan = planned(&problem.build(), 10);
    assert!(plan.proof.is_some(), "{} s", plan.makespan.seconds());
}

/// Problems whose shortest schedule a general solver knows: see `tests/optimum/make.py`.
#[test]
fn optima_of_a_general_solver_are_found_and_proved() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/optimum");
    let mut seen = 0;
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "json")) {
        let name = path.file_name().unwrap().to_string_lossy();
        let text: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let instance = instance_of(&text);
        let plan = planned(&instance, ROUNDS);
        let optimum = text["optimum"].as_f64().unwrap();
        assert_eq!(plan.makespan.seconds(), optimum, "{name}: by {}", plan.found_by);
        assert!(plan.proof.is_some(), "{name} is not proved");
        seen += 1;
    }
    assert!(seen >= 10, "{seen} problems");
}

/// Problems of 20 to 60 nodes that are cut out of a schedule without a gap: no shorter one can hold their work.
#[test]
fn schedules_without_a_gap_are_found_again() {
    for (seed, (nodes, gpus)) in
        [(20, 2), (24, 3), (30, 2), (30, 4), (40, 3), (50, 4), (60, 3)].into_iter().enumerate()
    {
        let (problem, length) = cut_from_a_full_schedule(nodes, gpus, 0, seed as u64);
        let instance = problem.build();
        assert_eq!(instance.tasks(), nodes);
        let plan = planned(&instance, ROUNDS);
        assert_eq!(plan.makespan.seconds(), length, "{nodes} nodes on {gpus} GPUs, by {}", plan.found_by);
        assert!(plan.proof.is_some());
    }
}

/// The same with a switch on every GPU: at the end all of them together execute a model that needs them all.
///
/// No schedule is shorter. Every GPU takes part in all of the wide work and holds two models at least if it does anything
/// else, which costs it a cold load and a switch (all models are of one size). So each has no more time for the narrow work
/// than here, where it has no pause; and a GPU that does none of it leaves more to the others.
#[test]
fn schedules_with_a_switch_and_no_gap_are_found_and_proved() {
    for (seed, (nodes, gpus, wide)) in
        [(20, 2, 4), (25, 3, 5), (30, 2, 6), (30, 4, 5), (40, 3, 8), (60, 4, 10)].into_iter().enumerate()
    {
        let (problem, length) = cut_from_a_full_schedule(nodes, gpus, wide, seed as u64);
        let instance = problem.build();
        assert_eq!(instance.tasks(), nodes);
        let plan = planned(&instance, ROUNDS);
        assert_eq!(plan.makespan.seconds(), length, "{nodes} nodes on {gpus} GPUs, by {}", plan.found_by);
        assert!(plan.proof.is_some(), "{nodes} nodes on {gpus} GPUs");
    }
}

/// Each GPU loads a model of its own, then executes without a pause until 125 s; then, if there are `wide` tasks, all of
/// them load a model that needs them all and execute those. Chains of tasks that follow one another become requests.
fn cut_from_a_full_schedule(nodes: usize, gpus: u32, wide: usize, seed: u64) -> (Problem, f64) {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (bits >> 33) % below
    };
    let (load, length) = (5, 125);
    let mut problem = Problem::on(gpus);
    // (start, end, GPU) of each task.
    let mut tasks: Vec<(u64, u64, u32)> = Vec::new();
    for gpu in 0..gpus {
        // Replacing a model costs more than loading one, so that no detour pays.
        problem = problem.model(&format!("m{gpu}"), 1, 40.0, load as f64);
        let narrow = nodes - wide;
        let count = narrow / gpus as usize + usize::from((gpu as usize) < narrow % gpus as usize);
        let mut cuts: Vec<u64> = Vec::new();
        while cuts.len() + 1 < count {
            let cut = load + 1 + draw(length - load - 1);
            if !cuts.contains(&cut) {
                cuts.push(cut);
            }
        }
        cuts.extend([load, length]);
        cuts.sort_unstable();
        tasks.extend(cuts.windows(2).map(|pair| (pair[0], pair[1], gpu)));
    }
    let mut end = length;
    if wide > 0 {
        problem = problem.model("wide", gpus, 40.0, load as f64);
        // (40 + 40) / 16 + 2 s.
        end += 7;
        for _ in 0..wide {
            let start = end;
            end += 1 + draw(9);
            tasks.push((start, end, gpus));
        }
    }
    tasks.sort_unstable();
    while let Some(&first) = tasks.first() {
        tasks.remove(0);
        let mut chain = vec![first];
        while chain.len() < 4 && draw(3) > 0 {
            let after = chain[chain.len() - 1].1;
            let Some(next) = tasks.iter().position(|task| task.0 >= after) else { break };
            chain.push(tasks.remove(next));
        }
        let models: Vec<u32> = chain.iter().map(|task| task.2).collect();
        let edges: Vec<(u32, u32)> = (1..chain.len() as u32).map(|to| (to - 1, to)).collect();
        let times: Vec<f64> = chain.iter().map(|task| (task.1 - task.0) as f64).collect();
        let workflow = problem.builder.scenario.workflows.len() as u32;
        problem = problem.workflow(&models, &edges).request(workflow, 0.0, &times);
    }
    (problem, end as f64)
}

/// Enough for every problem here; the hardest decides.
const ROUNDS: u64 = 80;

fn instance_of(text: &serde_json::Value) -> Instance {
    let (config, requests) = (text["config"].to_string(), text["requests"].to_string());
    let config = Source { name: "config", bytes: config.as_bytes() };
    let requests = Source { name: "requests", bytes: requests.as_bytes() };
    let reading = read_scenario(config, requests, Mode::Offline);
    let scenario = reading.scenario.expect("valid input");
    let cluster = Cluster::from_spec(&scenario.cluster).expect("a number of GPUs");
    Instance::build(&scenario, cluster, Mode::Offline).expect("feasible")
}

/// What was proved by search says so: no gap, the bound raised to the plan, in its file too, which passes the check.
#[test]
fn a_plan_that_is_proved_has_no_gap() {
    let mut proved = 0;
    for seed in 0..6u32 {
        let mut problem = Problem::on(2).model("a", 1, 14.0, 10.0).model("b", 1, 26.0, 20.0);
        problem = problem.workflow(&[0, 1], &[(0, 1)]).workflow(&[1, 0], &[(0, 1)]);
        for request in 0..3 {
            let time = |by: u32| f64::from(3 + (seed * 7 + request * 5 + by * 11) % 17);
            problem = problem.request(request % 2, 0.0, &[time(0), time(1)]);
        }
        let instance = problem.build();
        let plan = planned(&instance, 50);
        let Some(proof) = plan.proof else { continue };
        assert_eq!((plan.gap(), plan.lower_bound()), (0.0, plan.makespan));
        let mut file = Vec::new();
        gswarm_core::plan::file::write(&instance, &plan, &mut file).unwrap();
        let evidence = gswarm_core::verify::Evidence::read(&file);
        let spec = gswarm_core::input::ClusterSpec { gpus: Some(2), ..problem.scenario().cluster };
        assert_eq!(evidence.violations(&problem.scenario(), &spec, Mode::Offline, None), []);
        proved += u32::from(proof == Proof::Search && plan.bound.value < plan.makespan);
    }
    assert!(proved > 0, "none was proved by search");
}
