//! Streams made to order: the presets of the generator at any size and load.

use gswarm_core::Instance;
use gswarm_core::Span;
use gswarm_core::generate::{
    Arrivals, Format, Preset, RequestOptions, requests, write_config, write_requests,
};
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_config, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use std::fmt;

/// A stream.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Models and workflows.
    pub preset: Preset,
    /// Requests.
    pub count: u32,
    /// GPUs.
    pub gpus: u32,
    /// What is asked of the GPUs while requests arrive, as a share of what they can execute without any load.
    pub load: f64,
    /// How requests are spread.
    pub arrivals: Arrivals,
    /// Decides everything else.
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { preset, count, gpus, load, arrivals, seed } = self;
        let (preset, arrivals) = (preset.name(), arrivals.name());
        write!(f, "{preset}/{count} {gpus} GPUs, load {load}, {arrivals}, seed {seed}")
    }
}

impl Case {
    /// The problem.
    pub fn build(&self) -> Instance {
        // The times do not depend on the arrivals, so that the work is known before the duration is.
        let work = gpu_seconds(&self.build_within(1.0));
        self.build_within(work / (f64::from(self.gpus) * self.load))
    }

    /// The problem with all arrivals within so many seconds, whatever load that makes.
    pub fn build_within(&self, duration: f64) -> Instance {
        let config = config(self.preset);
        let bare = read_config(Source { name: "config.json", bytes: &config }).scenario.expect("valid");
        let options = RequestOptions {
            count: self.count,
            duration: Span::from_seconds(duration),
            arrivals: self.arrivals,
            mix: Vec::new(),
            seed: self.seed,
        };
        let mut text = Vec::new();
        let drawn = requests(&bare, &options).expect("times are given");
        write_requests(drawn, Format::Json, &mut text).expect("memory");
        let scenario = read(&config, &text);
        let spec = ClusterSpec { gpus: Some(self.gpus), ..scenario.cluster.clone() };
        let cluster = Cluster::from_spec(&spec).expect("GPUs are given");
        Instance::build(&scenario, cluster, Mode::Online).expect("feasible")
    }
}

fn config(preset: Preset) -> Vec<u8> {
    let mut text = Vec::new();
    write_config(&preset.config(), Format::Json, &mut text).expect("memory");
    text
}

fn read(config: &[u8], requests: &[u8]) -> Scenario {
    let (config, requests) =
        (Source { name: "config.json", bytes: config }, Source { name: "requests.json", bytes: requests });
    read_scenario(config, requests, Mode::Online).scenario.expect("what is generated is valid")
}

fn gpu_seconds(instance: &Instance) -> f64 {
    let gpus = |task| f64::from(instance.models[instance.model_of(task)].gpus);
    instance.task_ids().map(|task| instance.execution(task).seconds() * gpus(task)).sum()
}
