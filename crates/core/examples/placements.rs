//! `static` on the published files and on drawn cases: makespans, server efficiency and the time to plan.
//!
//! `cargo run --release -p gswarm-core --example placements -- FOLDER` with the folder of the published files.

use gswarm_core::input::{ClusterSpec, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Deployment, Mode, Residency, Routing};
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Gpus, Instance, ModelId};
use std::path::Path;
use std::sync::Arc;

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the published files");
    println!("case                   makespan s   mean s    P99 s   on one server   planned in ms");
    let cases = [
        ("simple", 8, None, Mode::Offline),
        ("simple", 32, None, Mode::Offline),
        ("simple", 8, Some(4), Mode::Offline),
        ("simple", 16, Some(4), Mode::Offline),
        ("simple", 32, Some(8), Mode::Offline),
        ("complex", 8, None, Mode::Offline),
        ("complex", 32, None, Mode::Offline),
        ("complex", 16, Some(8), Mode::Offline),
        ("complex", 32, Some(8), Mode::Offline),
        ("complex", 64, Some(8), Mode::Offline),
        ("simple", 32, Some(4), Mode::Online),
        ("simple", 16, Some(4), Mode::Online),
        ("complex", 128, Some(8), Mode::Online),
    ];
    for (name, gpus, per, mode) in cases {
        let scenario = published(&folder, name, mode);
        let instance = instance(&scenario, gpus, per, mode);
        run(&format!("{name} {gpus}/{} {}", per.unwrap_or(gpus), mode.name()), &instance);
    }
    let large = large();
    run("200 models 1024/8", &instance(&large, 1024, Some(8), Mode::Offline));
    run("200 models 1024", &instance(&large, 1024, None, Mode::Offline));
    for mode in [Mode::Offline, Mode::Online] {
        let mut all = Vec::new();
        for seed in 1..=20 {
            let instance = small(seed, mode);
            let (ours, best, tried) = beside_all(&instance);
            println!("small {} {seed}: {ours:.1} s, best of {tried} placements {best:.1} s", mode.name());
            all.push(ours / best);
        }
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let worst = all.iter().copied().fold(0.0, f64::max);
        println!("small {}: mean {mean:.3}, worst {worst:.3}", mode.name());
    }
    for (label, scenario) in two_servers() {
        run(&label, &instance(&scenario, 4, Some(2), Mode::Offline));
    }
}

fn published(folder: &str, name: &str, mode: Mode) -> Scenario {
    let read = |file: String| std::fs::read(Path::new(folder).join(file)).expect("a published file");
    let (config, requests) = (read(format!("{name}_config.json")), read(format!("{name}_requests.yaml")));
    let source = |bytes| Source { name, bytes };
    read_scenario(source(&config), source(&requests), mode).scenario.expect("valid")
}

fn instance(scenario: &Scenario, gpus: u32, per: Option<u32>, mode: Mode) -> Instance {
    let spec = ClusterSpec { gpus: Some(gpus), gpus_per_server: per, ..scenario.cluster.clone() };
    let cluster = Cluster { residency: Residency::Memory, ..Cluster::from_spec(&spec).expect("GPUs") };
    Instance::build(scenario, cluster, mode).expect("feasible")
}

fn run(label: &str, instance: &Instance) {
    let begun = used();
    let mut policy = PolicyKind::Static.build(instance, &BuildContext::default());
    let planned = used() - begun;
    let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("runs");
    let violations = gswarm_core::check::check_log(instance, &log, None);
    assert!(violations.is_empty(), "{label}: {violations:?}");
    let found = metrics(instance, &log);
    println!(
        "{label:22} {:10.1} {:8.1} {:8.1} {:14.1}% {planned:12.1}",
        found.makespan.seconds(),
        found.request_latency.mean,
        found.request_latency.p99,
        found.servers.server_efficiency * 100.0
    );
}

/// A generator of numbers that anybody can repeat.
fn numbers(seed: u64) -> impl FnMut(u64, u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |from, to| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (state >> 33) % (to - from + 1)
    }
}

/// 200 models in 100 workflows.
fn large() -> Scenario {
    let mut draw = numbers(7);
    let mut builder = Scenario::builder().gpus(1024);
    for model in 0..200 {
        let gpus = [1, 1, 1, 2, 4][draw(0, 4) as usize];
        let memory = f64::from(gpus) * draw(8, 60) as f64;
        builder = builder.model(&format!("m{model}"), gpus, memory, 20.0).run_time(draw(1, 30) as f64);
    }
    for workflow in 0..100 {
        builder = builder.workflow(&format!("w{workflow}"));
        let nodes = draw(2, 5);
        for node in 0..nodes {
            builder = builder.node(&format!("n{node}"), &format!("m{}", draw(0, 199)));
        }
        for node in 1..nodes {
            builder = builder.edge(&format!("n{}", node - 1), &format!("n{node}"));
        }
    }
    for request in 0..20_000 {
        builder = builder.request(&format!("r{request}"), &format!("w{}", draw(0, 99)));
    }
    builder.build().expect("valid")
}

/// 3 to 5 models on 2 to 4 GPUs.
fn small(seed: u64, mode: Mode) -> Instance {
    let mut draw = numbers(seed);
    let (models, gpus) = (draw(3, 5), draw(2, 4) as u32);
    let mut builder = Scenario::builder().gpus(gpus);
    let mut times = Vec::new();
    for model in 0..models {
        times.push(draw(2, 20) as f64);
        builder =
            builder.model(&format!("m{model}"), 1, draw(20, 45) as f64, draw(5, 20) as f64).run_time(1.0);
    }
    let mut chains = Vec::new();
    for workflow in 0..draw(2, 3) {
        builder = builder.workflow(&format!("w{workflow}"));
        let chain: Vec<u64> = (0..draw(1, 3)).map(|_| draw(0, models - 1)).collect();
        for (node, model) in chain.iter().enumerate() {
            builder = builder.node(&format!("n{node}"), &format!("m{model}"));
        }
        for node in 1..chain.len() {
            builder = builder.edge(&format!("n{}", node - 1), &format!("n{node}"));
        }
        chains.push(chain);
    }
    let count = if mode == Mode::Offline { 60 } else { 400 };
    let drawn: Vec<usize> = (0..count).map(|_| draw(0, chains.len() as u64 - 1) as usize).collect();
    let work: f64 = drawn.iter().flat_map(|&at| &chains[at]).map(|&model| times[model as usize]).sum();
    let gap = work / f64::from(gpus) / 0.6 / count as f64;
    let mut at = 0.0;
    for (request, workflow) in drawn.into_iter().enumerate() {
        builder = builder.request(&format!("r{request}"), &format!("w{workflow}")).arrival(at);
        let factor = |draw: &mut dyn FnMut(u64, u64) -> u64| draw(50, 150) as f64 / 100.0;
        let takes: Vec<f64> =
            chains[workflow].iter().map(|&model| times[model as usize] * factor(&mut draw)).collect();
        builder = builder.times(&takes);
        at -= gap * (draw(1, 1_000_000) as f64 / 1e6).ln();
    }
    let scenario = builder.build_for(mode, gswarm_core::input::Lacking::Nothing).expect("valid");
    instance(&scenario, gpus, None, mode)
}

/// What `static` makes of a case, and what the best of all placements would.
fn beside_all(instance: &Instance) -> (f64, f64, usize) {
    let measure = |deployment: Option<Deployment>| {
        let mut instance = instance.clone();
        instance.deployment = deployment.map(Arc::new);
        let mut policy = PolicyKind::Static.build(&instance, &BuildContext::default());
        let log = simulate(&instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("runs");
        let found = metrics(&instance, &log);
        match instance.mode {
            Mode::Offline => found.makespan.seconds(),
            Mode::Online => found.request_latency.p99,
        }
    };
    let ours = measure(None);
    let used: std::collections::BTreeSet<ModelId> =
        instance.task_ids().map(|task| instance.model_of(task)).collect();
    let used: Vec<ModelId> = used.into_iter().collect();
    let fits = |set: &u32| {
        let of = used.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, &model)| model);
        of.map(|model| instance.models[model].memory_per_gpu).sum::<u64>() <= 80_000
    };
    let sets: Vec<u32> = (1..1u32 << used.len()).filter(fits).collect();
    let gpus = instance.cluster.gpus;
    let mut stack: Vec<Vec<u32>> = vec![Vec::new()];
    let (mut best, mut tried) = (f64::INFINITY, 0);
    while let Some(chosen) = stack.pop() {
        if chosen.len() < gpus as usize {
            let from = chosen.last().copied().unwrap_or(0);
            stack.extend(sets.iter().filter(|&&set| set >= from).map(|&set| [&chosen[..], &[set]].concat()));
        } else if chosen.iter().fold(0, |all, set| all | set) == (1 << used.len()) - 1 {
            let on = |(gpu, set): (u32, &u32)| {
                let set = *set;
                let of = used.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
                of.map(move |(_, &model)| (model, Gpus::new(gpu, 1))).collect::<Vec<_>>()
            };
            let replicas = (0..).zip(&chosen).flat_map(on).collect();
            let deployment = Deployment { replicas, fits: true, routing: Routing::Whole };
            best = best.min(measure(Some(deployment)));
            tried += 1;
        }
    }
    (ours, best.min(ours), tried)
}

/// Milliseconds that this process has had a processor for.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1e6
}

/// The case of two servers with the workflows a->b and c->d, and drawn ones in which models fill their GPUs.
fn two_servers() -> Vec<(String, Scenario)> {
    let cluster = ClusterSpec {
        gpus: Some(4),
        gpus_per_server: Some(2),
        gpu_memory_gb: Some(80.0),
        ..ClusterSpec::default()
    };
    (0..41u64)
        .map(|seed| {
            let mut draw = numbers(seed);
            let fixed = seed == 0;
            let mut builder = Scenario::builder().cluster(cluster.clone());
            for name in ["a", "b", "c", "d"] {
                let (memory, time) = if fixed { (60, 5) } else { (draw(45, 75), draw(2, 12)) };
                builder = builder.model(name, 1, memory as f64, 10.0).run_time(time as f64);
            }
            let pairs = [[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")], [("a", "d"), ("b", "c")]];
            let pairs = pairs[if fixed { 0 } else { draw(0, 2) as usize }];
            for (place, (from, to)) in pairs.iter().enumerate() {
                builder =
                    builder.workflow(&format!("w{place}")).node("n0", from).node("n1", to).edge("n0", "n1");
            }
            for request in 0..60 {
                let workflow = if fixed { request % 2 } else { draw(0, 1) };
                builder = builder.request(&format!("r{request}"), &format!("w{workflow}"));
            }
            let label = if fixed { "two servers".to_owned() } else { format!("drawn pair {seed}") };
            (label, builder.build().expect("valid"))
        })
        .collect()
}
