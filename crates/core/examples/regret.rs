//! What not knowing run times costs:
//! `cargo run --release -p gswarm-core --example regret -- [batch|stream|deadlines]... [simple8|complex16|...]... [SEEDS]`.
//!
//! The published files' times are the estimates; true times are drawn around them. Regret is how much longer a run takes (a
//! batch its makespan, a stream its mean latency) than the same policy's with all times known beforehand, in percent, over
//! seeds; behind it, the standard error. Every log has passed the check.

use gswarm_core::belief::{Learner, Recent};
use gswarm_core::check::check_run;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::plan::{Plan, SearchLimits, improve};
use gswarm_core::policy::{Adaptive, AdaptiveParams, Follow, Objective, Policy};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate_learning};
use gswarm_core::truth::{Drift, Noise, Truth, TruthSpec};
use gswarm_core::{Instance, RequestId, Span, Time};
use rayon::prelude::*;
use std::path::PathBuf;

fn published(name: &str, mode: Mode) -> Option<Scenario> {
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gswarm"));
    let folder = std::env::var_os("GSWARM_DATA").map_or(beside, PathBuf::from);
    let config = std::fs::read(folder.join(format!("{name}_config.json"))).ok()?;
    let requests = std::fs::read(folder.join(format!("{name}_requests.yaml"))).ok()?;
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    read_scenario(config, requests, mode).scenario
}

fn on(scenario: &Scenario, gpus: u32, mode: Mode) -> Instance {
    let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
    let cluster = Cluster::from_spec(&spec).expect("GPUs are given");
    Instance::build(scenario, cluster, mode).expect("feasible")
}

/// What the estimates do not know beside the noise.
#[derive(Clone, Copy, PartialEq)]
enum Unknown {
    Nothing,
    /// Every other model takes half as long again, the others a quarter less.
    Bias,
    /// After a quarter of the time the first half of the models takes 1.6 times as long.
    Drift,
}

impl Unknown {
    const ALL: [Unknown; 3] = [Unknown::Nothing, Unknown::Bias, Unknown::Drift];

    fn name(self) -> &'static str {
        match self {
            Unknown::Nothing => "",
            Unknown::Bias => ", bias",
            Unknown::Drift => ", drift",
        }
    }

    fn drift(self, instance: &Instance, makespan: f64) -> Vec<Drift> {
        let of = |(place, name): (usize, &String)| {
            let (factor, at) = match self {
                Unknown::Nothing => return None,
                Unknown::Bias => (if place % 2 == 0 { 1.5 } else { 0.75 }, 0.0),
                Unknown::Drift if place < instance.models.len() / 2 => (1.6, makespan / 4.0),
                Unknown::Drift => return None,
            };
            Some(Drift { model: Some(name.clone()), factor, at: Time::ZERO + Span::from_seconds(at) })
        };
        instance.models.iter().map(|model| &model.name).enumerate().filter_map(of).collect()
    }
}

/// What a policy is told.
#[derive(Clone, Copy)]
struct Arm {
    name: &'static str,
    quantiles: bool,
    learns: bool,
    strict: bool,
}

const ARMS: [Arm; 5] = [
    Arm { name: "strictly by the plan", quantiles: false, learns: false, strict: true },
    Arm { name: "means", quantiles: false, learns: false, strict: false },
    Arm { name: "quantiles", quantiles: true, learns: false, strict: false },
    Arm { name: "learning", quantiles: false, learns: true, strict: false },
    Arm { name: "quantiles, learning", quantiles: true, learns: true, strict: false },
];

/// An instance in which the spread of times is known.
fn told(instance: &Instance, noise: Option<Noise>) -> Instance {
    let mut told = instance.clone();
    told.models.iter_mut().for_each(|model| model.spread = noise.map_or(0.0, Noise::sigma));
    told
}

fn run(instance: &Instance, policy: &mut dyn Policy, truth: &Truth, learns: bool) -> ExecutionLog {
    let mut learner = Recent::new();
    let learner = learns.then_some(&mut learner as &mut dyn Learner);
    let options = SimOptions { truth: truth.clone(), ..SimOptions::default() };
    let log = simulate_learning(instance, policy, learner, &options, &mut |_| {}).expect("it ends");
    let violations = check_run(instance, truth, &log, None);
    assert!(violations.is_empty(), "{violations:?}");
    log
}

fn plan_of(instance: &Instance) -> Plan {
    let limits = SearchLimits { rounds: 8, seed: 1, ..SearchLimits::default() };
    improve(instance, &limits, &mut |_| {}).plan
}

fn makespan(instance: &Instance, log: &ExecutionLog) -> f64 {
    metrics(instance, log).makespan.seconds()
}

fn mean_and_error(values: &[f64]) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    format!("{mean:.2} ±{:.2}", (variance / count).sqrt())
}

fn row(case: &str, cells: impl Iterator<Item = String>) {
    println!("| {case} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

/// The truth where all is known: with no drift by time, which nobody could plan with.
fn known(instance: &Instance, truth: &Truth, by: &ExecutionLog) -> Instance {
    // What each task took in a run is what it takes for whoever knows everything, but for tasks near a change.
    let mut times: Vec<Span> = instance.task_ids().map(|task| instance.execution(task)).collect();
    for one in &by.executions {
        times[one.task.index()] = truth.time(instance, one.task, one.start);
    }
    instance.retimed(|task| times[task.index()])
}

fn batches(seeds: u64, wanted: &dyn Fn(&str) -> bool) {
    println!("\n**Makespan of batches**, regret in percent\n");
    let heads = ["policy", "strictly by the plan", "means", "quantiles", "learning", "quantiles, learning"];
    row("case", heads.into_iter().map(str::to_owned));
    row("---", heads.iter().map(|_| "---".to_owned()));
    for (name, gpus) in [("simple", 8), ("simple", 16), ("complex", 16), ("complex", 32)] {
        if !wanted(&format!("{name}{gpus}")) {
            continue;
        }
        let Some(scenario) = published(name, Mode::Offline) else { return println!("the data is not there") };
        let instance = on(&scenario, gpus, Mode::Offline);
        let plan = plan_of(&instance);
        let usual = makespan(
            &instance,
            &run(&instance, &mut Follow::new(&instance, &plan), &Truth::default(), false),
        );
        for noise in [0.2, 0.5].map(Noise::lognormal) {
            for unknown in Unknown::ALL {
                let drift = unknown.drift(&instance, usual);
                let of_seed = |seed: u64| {
                    let spec = TruthSpec { noise, seed, drift: drift.clone(), ..TruthSpec::default() };
                    let truth = Truth::new(&spec, &instance, &instance).expect("its models are there");
                    let strict = run(&instance, &mut Follow::new(&instance, &plan).strictly(), &truth, false);
                    let known = known(&instance, &truth, &strict);
                    let (plain, clear) = (Truth::default(), plan_of(&known));
                    let best =
                        makespan(&known, &run(&known, &mut Follow::new(&known, &clear), &plain, false));
                    let params = AdaptiveParams::default();
                    let seen =
                        makespan(&known, &run(&known, &mut Adaptive::new(&known, &params), &plain, false));
                    ARMS.map(|arm| {
                        let told = told(&instance, noise.filter(|_| arm.quantiles));
                        let mut follow = Follow::new(&told, &plan);
                        if arm.strict {
                            follow = follow.strictly();
                        }
                        let planned = makespan(&told, &run(&told, &mut follow, &truth, arm.learns));
                        let adaptive = run(&told, &mut Adaptive::new(&told, &params), &truth, arm.learns);
                        [(planned / best - 1.0) * 100.0, (makespan(&told, &adaptive) / seen - 1.0) * 100.0]
                    })
                };
                let found: Vec<_> = (1..=seeds).into_par_iter().map(of_seed).collect();
                for (place, policy) in ["planned", "adaptive"].into_iter().enumerate() {
                    let case = format!(
                        "{name} {gpus}, {:.0}%{}",
                        noise.map_or(0.0, Noise::share) * 100.0,
                        unknown.name()
                    );
                    let cells = (0..ARMS.len()).map(|arm| {
                        let of_arm: Vec<f64> = found.iter().map(|arms| arms[arm][place]).collect();
                        if place == 1 && ARMS[arm].strict { String::new() } else { mean_and_error(&of_arm) }
                    });
                    row(&case, std::iter::once(policy.to_owned()).chain(cells));
                }
            }
        }
    }
}

fn streams(seeds: u64) {
    println!("\n**Mean latency of streams under `adaptive --objective mean`**, regret in percent\n");
    let heads: Vec<&str> = ARMS.iter().filter(|arm| !arm.strict).map(|arm| arm.name).collect();
    row("case", heads.iter().map(|&name| name.to_owned()));
    row("---", heads.iter().map(|_| "---".to_owned()));
    for (name, gpus) in [("simple", 32), ("simple", 128), ("complex", 256), ("complex", 384)] {
        let Some(scenario) = published(name, Mode::Online) else { return };
        let instance = on(&scenario, gpus, Mode::Online);
        for noise in [0.2, 0.5].map(Noise::lognormal) {
            for unknown in Unknown::ALL {
                let of_seed = |seed: u64| {
                    let truth = drawn(&instance, noise, seed, unknown);
                    let params = AdaptiveParams { objective: Objective::Mean, ..AdaptiveParams::default() };
                    let first = run(&instance, &mut Adaptive::new(&instance, &params), &truth, false);
                    let known = known(&instance, &truth, &first);
                    let best = run(&known, &mut Adaptive::new(&known, &params), &Truth::default(), false);
                    let best = metrics(&known, &best).request_latency.mean;
                    ARMS.map(|arm| {
                        let told = told(&instance, noise.filter(|_| arm.quantiles));
                        let log = run(&told, &mut Adaptive::new(&told, &params), &truth, arm.learns);
                        (metrics(&told, &log).request_latency.mean / best - 1.0) * 100.0
                    })
                };
                let found: Vec<_> = (1..=seeds).into_par_iter().map(of_seed).collect();
                let case = format!(
                    "{name} {gpus}, {:.0}%{}",
                    noise.map_or(0.0, Noise::share) * 100.0,
                    unknown.name()
                );
                row(
                    &case,
                    (1..ARMS.len())
                        .map(|arm| mean_and_error(&found.iter().map(|arms| arms[arm]).collect::<Vec<_>>())),
                );
            }
        }
    }
}

/// What is true of a stream whose times vary, and change in a way that nobody is told of.
fn drawn(instance: &Instance, noise: Option<Noise>, seed: u64, unknown: Unknown) -> Truth {
    let drift = unknown.drift(instance, 3600.0);
    let spec = TruthSpec { noise, seed, drift, ..TruthSpec::default() };
    Truth::new(&spec, instance, instance).expect("its models are there")
}

/// Deadlines of so many times what a request takes at least, with its loads.
const TIGHT: [f64; 2] = [1.5, 2.5];

fn deadlines(seeds: u64) {
    println!("\n**Deadlines missed in streams under `adaptive`**, in percent of the requests\n");
    let heads: Vec<&str> = ARMS.iter().filter(|arm| !arm.strict).map(|arm| arm.name).collect();
    row("case", std::iter::once("all known").chain(heads.iter().copied()).map(str::to_owned));
    row("---", std::iter::once(&"").chain(&heads).map(|_| "---".to_owned()));
    for (name, gpus) in [("simple", 64), ("complex", 256)] {
        let Some(scenario) = published(name, Mode::Online) else { return };
        for tight in TIGHT {
            let mut instance = on(&scenario, gpus, Mode::Online);
            for id in (0..instance.requests.len()).map(RequestId::from) {
                let path: f64 = instance.tasks_of(id).map(|task| instance.execution(task).seconds()).sum();
                instance.requests[id].deadline = Some(Span::from_seconds(tight * path + 60.0));
            }
            for noise in [0.2, 0.5].map(Noise::lognormal) {
                for unknown in [Unknown::Nothing, Unknown::Bias] {
                    let missed = |instance: &Instance, log: &ExecutionLog| {
                        let mut ends = vec![Time::ZERO; instance.requests.len()];
                        for one in &log.executions {
                            let end = &mut ends[instance.request_of(one.task).index()];
                            *end = (*end).max(one.end);
                        }
                        let late = instance.requests.iter().zip(&ends);
                        let late =
                            late.filter(|(one, end)| **end > one.arrival + one.deadline.unwrap_or_default());
                        late.count() as f64 / ends.len() as f64 * 100.0
                    };
                    let of_seed = |seed: u64| {
                        let truth = drawn(&instance, noise, seed, unknown);
                        let (params, plain) = (AdaptiveParams::default(), Truth::default());
                        let known = truth.known(&instance);
                        let best =
                            missed(&known, &run(&known, &mut Adaptive::new(&known, &params), &plain, false));
                        let arms = ARMS.map(|arm| {
                            let told = told(&instance, noise.filter(|_| arm.quantiles));
                            missed(&told, &run(&told, &mut Adaptive::new(&told, &params), &truth, arm.learns))
                        });
                        (best, arms)
                    };
                    let found: Vec<_> = (1..=seeds).into_par_iter().map(of_seed).collect();
                    let share = noise.map_or(0.0, Noise::share) * 100.0;
                    let case = format!("{name} {gpus}, {tight} x, {share:.0}%{}", unknown.name());
                    let best = mean_and_error(&found.iter().map(|one| one.0).collect::<Vec<_>>());
                    let arms = (1..ARMS.len())
                        .map(|arm| mean_and_error(&found.iter().map(|one| one.1[arm]).collect::<Vec<_>>()));
                    row(&case, std::iter::once(best).chain(arms));
                }
            }
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(10);
    let parts = ["batch", "stream", "deadlines"];
    let words = words.iter().map(String::as_str).filter(|word| word.parse::<u64>().is_err());
    let (chosen, cases): (Vec<&str>, Vec<&str>) = words.partition(|word| parts.contains(word));
    let wanted = |part: &str| chosen.is_empty() || chosen.contains(&part);
    if wanted("batch") {
        batches(seeds, &|case| cases.is_empty() || cases.contains(&case));
    }
    if wanted("stream") {
        streams(seeds);
    }
    if wanted("deadlines") {
        deadlines(seeds);
    }
}
