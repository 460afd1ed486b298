//! Small problems, built by hand or drawn at random, and runs of them that are always checked.

use gswarm_core::bound::lower_bound;
use gswarm_core::check::check_log;
use gswarm_core::input::{Lacking, Scenario, ScenarioBuilder};
use gswarm_core::instance::{Cluster, Instance, Mode, Residency};
use gswarm_core::log::{ExecutionLog, Status};
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::sim::{SimError, SimOptions, simulate};
use gswarm_core::{Gpus, Span, Time};

/// The seed of every run.
pub const SEED: u64 = 7;

/// A scenario under construction, and where and how it is run. Models, workflows and requests go by number here.
#[derive(Clone, Debug)]
pub struct Problem {
    pub builder: ScenarioBuilder,
    pub cluster: Cluster,
    pub mode: Mode,
}

impl Problem {
    /// `gpus` GPUs, one model each, switching at 16 GB/s plus 2 s.
    pub fn on(gpus: u32) -> Problem {
        let builder = Scenario::builder().gpus(gpus);
        let cluster = Cluster::from_spec(&builder.scenario.cluster).expect("GPUs");
        Problem { builder, cluster, mode: Mode::Offline }
    }

    fn add(mut self, add: impl FnOnce(ScenarioBuilder) -> ScenarioBuilder) -> Problem {
        self.builder = add(self.builder);
        self
    }

    pub fn model(self, id: &str, gpus: u32, memory_gb: f64, load: f64) -> Problem {
        self.add(|builder| builder.model(id, gpus, memory_gb, load).run_time(1.0))
    }

    pub fn batching(self, slowdown: &[(u32, f64)]) -> Problem {
        self.add(|builder| builder.batching(slowdown))
    }

    pub fn slot(self, gb: f64) -> Problem {
        self.add(|builder| builder.slot_memory(gb))
    }

    pub fn unload(self, seconds: f64) -> Problem {
        self.add(|builder| builder.unload_time(seconds))
    }

    /// A workflow whose nodes are named n0, n1, ... with these models.
    pub fn workflow(self, models: &[u32], edges: &[(u32, u32)]) -> Problem {
        self.add(|mut builder| {
            let names: Vec<String> = builder.scenario.models.iter().map(|model| model.id.clone()).collect();
            let id = format!("w{}", builder.scenario.workflows.len());
            builder = builder.workflow(&id);
            for (place, &model) in models.iter().enumerate() {
                builder = builder.node(&format!("n{place}"), &names[model as usize]);
            }
            edges
                .iter()
                .fold(builder, |builder, (from, to)| builder.edge(&format!("n{from}"), &format!("n{to}")))
        })
    }

    pub fn request(self, workflow: u32, arrival: f64, times: &[f64]) -> Problem {
        self.add(|builder| {
            let id = format!("r{}", builder.scenario.requests.len());
            builder.request(&id, &format!("w{workflow}")).arrival(arrival).times(times)
        })
    }

    /// What was added, which is valid.
    pub fn scenario(&self) -> Scenario {
        self.builder.clone().build_for(self.mode, Lacking::Nothing).expect("a valid scenario")
    }

    pub fn build(&self) -> Instance {
        Instance::build(&self.scenario(), self.cluster.clone(), self.mode).expect("feasible")
    }

    pub fn build_for(&self, kind: PolicyKind) -> Instance {
        let mut cluster = self.cluster.clone();
        cluster.residency = kind.residency(cluster.residency);
        Instance::build(&self.scenario(), cluster, self.mode).expect("feasible")
    }
}

/// Runs a policy; the log has passed the checker.
pub fn run(instance: &Instance, kind: PolicyKind, options: &SimOptions) -> Result<ExecutionLog, SimError> {
    let spec = PolicySpec::default_of(kind).with_rounds(1);
    let log =
        simulate(instance, &mut *spec.build(instance, &BuildContext::seeded(SEED)), options, &mut |_| {})?;
    let violations = check_log(instance, &log, None);
    assert!(violations.is_empty(), "{}: {violations:?}", kind.name());
    Ok(log)
}

/// Runs a policy on a problem that has nothing wrong with it: all nodes are done, and not sooner than the bound allows.
pub fn run_all(instance: &Instance, kind: PolicyKind) -> ExecutionLog {
    let log = run(instance, kind, &SimOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
    assert_eq!(log.executions.len(), instance.tasks(), "{}", kind.name());
    let bound = lower_bound(instance);
    assert!(makespan(&log) >= bound, "{}: {} is below the bound {bound}", kind.name(), makespan(&log));
    log
}

pub fn makespan(log: &ExecutionLog) -> Span {
    log.executions.iter().map(|execution| execution.end.since(Time::ZERO)).max().unwrap_or_default()
}

/// Loads whose model executes nothing on some GPU before another model takes its place there: (model, GPU, end of the load).
pub fn decoys(instance: &Instance, log: &ExecutionLog) -> Vec<(String, u32, Time)> {
    let begun = |one: &gswarm_core::log::Execution| Time(one.start.0.saturating_sub(one.switch.0));
    let mut found = Vec::new();
    for load in log.loads.iter().filter(|load| load.status == Status::Completed) {
        for gpu in load.gpus.iter() {
            let here = |gpus: Gpus| gpus.iter().any(|other| other == gpu);
            let after = log.executions.iter().filter(|one| here(one.gpus) && begun(one) >= load.end);
            let of_others = after.clone().filter(|one| instance.model_of(one.task) != load.model);
            let loads = log.loads.iter().filter(|one| here(one.gpus) && one.start >= load.end);
            let replaced = match instance.cluster.residency {
                Residency::Single => of_others.map(begun).chain(loads.map(|one| one.start)).min(),
                Residency::Memory => None,
            };
            let is_of_use = after
                .filter(|one| instance.model_of(one.task) == load.model)
                .any(|one| replaced.is_none_or(|at| begun(one) <= at));
            if !is_of_use {
                found.push((instance.models[load.model].name.clone(), gpu.0, load.end));
            }
        }
    }
    found
}
