//! The command from start to end, reading of inputs, and the engine by itself: `cargo bench --bench speed`.
//!
//! The command is measured by the clock, the others by processor time.

#[allow(dead_code)]
mod support;

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use gswarm_core::engine::{Decision, View};
use gswarm_core::generate::{Format, RequestOptions, requests, write_requests};
use gswarm_core::input::{ModelSpec, NodeSpec, RequestSpec, Scenario, Source, WorkflowSpec, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_core::policy::Policy;
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{Gpus, ModelId, Span, TaskId};
use std::collections::VecDeque;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use support::{blank_request, complex, cpu_time, instance};

criterion_main!(benches);
criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4))
        .without_plots();
    targets = process, reading, engine
}

/// From process start to logs written: `complex` on 8 GPUs under `baseline`.
fn process(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the logs");
    let mut group = criterion.benchmark_group("process");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    let generated = ["--preset", "complex", "--requests", "1000", "--seed", "1", "--out"];
    let work = folder.path().join("work");
    let status = gswarm().arg("generate").args(generated).arg(&work).output().expect("gswarm starts").status;
    assert!(status.success());
    let mut measure = |name: &str, config: &Path, requests: &Path| {
        let mut command = gswarm();
        command
            .args(["run", "--policy", "baseline", "--gpus", "8", "--mode", "offline", "--quiet", "--config"]);
        command.arg(config).arg("--requests").arg(requests).arg("--out").arg(folder.path().join(name));
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert!(command.output().expect("gswarm starts").status.success()));
        });
    };
    measure("complex preset, 1000 requests", &work.join("config.yaml"), &work.join("requests.yaml"));
    let shared = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gswarm"));
    let (config, requests) = (shared.join("complex_config.json"), shared.join("complex_requests.yaml"));
    if config.exists() && requests.exists() {
        measure("complex files", &config, &requests);
    } else {
        println!("process/complex files: skipped, {} is not there", shared.display());
    }
    group.finish();
}

/// Processor time of some calls; giving back their results is not counted.
fn on_processor<T>(times: u64, mut work: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let start = cpu_time();
        let result = black_box(work());
        let took = cpu_time() - start;
        drop(result);
        took
    };
    (0..times).map(once).sum()
}

fn gswarm() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gswarm"))
}

/// Request files of the `complex` preset, in each form.
fn reading(criterion: &mut Criterion) {
    let (config, bare) = complex();
    let draw = |count| {
        let options = RequestOptions { count, seed: 1, ..RequestOptions::default() };
        requests(&bare, &options).expect("presets have times")
    };
    let write = |count, format| {
        let mut text = Vec::new();
        write_requests(draw(count), format, &mut text).expect("memory can be written to");
        text
    };
    let lines = draw(50_000).map(|one| serde_json::to_string(&one).expect("requests are JSON") + "\n");
    let forms = [
        ("JSON", write(50_000, Format::Json), 50_000),
        ("JSON Lines", lines.collect::<String>().into_bytes(), 50_000),
        ("YAML", write(10_000, Format::Yaml), 10_000),
    ];
    let mut group = criterion.benchmark_group("read");
    group.sampling_mode(SamplingMode::Flat);
    for (name, text, count) in &forms {
        group.throughput(Throughput::BytesDecimal(text.len() as u64));
        group.bench_function(*name, |bencher| {
            let read = || {
                let config = Source { name: "config", bytes: &config };
                read_scenario(config, Source { name, bytes: text }, Mode::Online)
            };
            assert_eq!(read().scenario.map_or(0, |scenario| scenario.requests.len()), *count);
            bencher.iter_custom(|times| on_processor(times, read));
        });
    }
    group.finish();
}

/// Events a second with a policy that does next to nothing: chains of ten nodes, one model, 64 GPUs. The small case stays in
/// the processor's cache, the large one does not.
fn engine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    group.sampling_mode(SamplingMode::Flat);
    for requests in [500, 20_000] {
        let instance = instance(chains(requests, 10), 64);
        let run = |events: &mut u64| {
            let free = (0..64).rev().map(|gpu| Gpus::new(gpu, 1)).collect();
            let mut policy = Trivial { free, ready: VecDeque::new() };
            let count = &mut |at: gswarm_core::sim::SimProgress| *events = at.events;
            simulate(&instance, &mut policy, &SimOptions::default(), count).expect("it ends")
        };
        let mut events = 0;
        run(&mut events);
        group.throughput(Throughput::Elements(events));
        group.bench_function(format!("events, {} nodes, trivial policy", requests * 10), |bencher| {
            bencher.iter_custom(|times| on_processor(times, || run(&mut 0)));
        });
    }
    group.finish();
}

/// First ready, first served, on whichever GPU fell free last.
struct Trivial {
    free: Vec<Gpus>,
    ready: VecDeque<TaskId>,
}

impl Policy for Trivial {
    fn ready(&mut self, task: TaskId, _: &View<'_>) {
        self.ready.push_back(task);
    }

    fn freed(&mut self, gpus: Gpus, _: &View<'_>) {
        self.free.push(gpus);
    }

    fn decide(&mut self, _: &View<'_>) -> Option<Decision> {
        let gpus = self.free.pop()?;
        let Some(task) = self.ready.pop_front() else {
            self.free.push(gpus);
            return None;
        };
        Some(Decision::Start { task, gpus })
    }
}

/// `count` requests, each a chain of `length` nodes of the same model, none as long as another.
fn chains(count: usize, length: usize) -> Scenario {
    let model = ModelSpec {
        id: "m".into(),
        name: "m".into(),
        memory_gb: 14.0,
        gpus_required: 1,
        load_time_seconds: 1.0,
        ..ModelSpec::default()
    };
    let node = |number: usize| NodeSpec::new(format!("n{number}"), ModelId(0));
    let workflow = WorkflowSpec {
        id: "w".into(),
        name: "w".into(),
        nodes: (0..length).map(node).collect(),
        edges: (1..length as u32).map(|number| (number - 1, number)).collect(),
    };
    let times = |request: usize| {
        (0..length)
            .map(move |node| Some(Span(1_000_000 + ((request * length + node) * 7919 % 1_000_003) as u64)))
    };
    let request =
        |number: usize| RequestSpec { times: times(number).collect(), ..blank_request(format!("r{number}")) };
    Scenario {
        models: vec![model],
        workflows: vec![workflow],
        requests: (0..count).map(request).collect(),
        ..Scenario::default()
    }
}
