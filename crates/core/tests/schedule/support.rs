//! Small problems, built by hand or drawn at random, and runs of them that are always checked.

use gswarm_core::bound::lower_bound;
use gswarm_core::check::check_log;
use gswarm_core::cost::{SwitchCost, SwitchRule};
use gswarm_core::input::{BatchingSpec, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use gswarm_core::instance::{Cluster, Instance, Mode, Residency};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::sim::{SimError, SimOptions, simulate};
use gswarm_core::{ModelId, Span, Time, WorkflowId};

/// The seed of every run.
pub const SEED: u64 = 7;

/// A problem under construction.
#[derive(Clone, Debug)]
pub struct Problem {
    pub scenario: Scenario,
    pub cluster: Cluster,
    pub mode: Mode,
}

impl Problem {
    /// `gpus` GPUs, one model each, switching at 16 GB/s plus 2 s.
    pub fn on(gpus: u32) -> Problem {
        Problem {
            scenario: Scenario::default(),
            cluster: Cluster {
                gpus,
                gpus_per_server: None,
                gpu_memory_gb: 80.0,
                gpu_memory_given: false,
                switch: SwitchCost { rule: SwitchRule::Transfer, pcie_gb_per_s: 16.0, overhead_seconds: 2.0 },
                residency: Residency::Single,
            },
            mode: Mode::Offline,
        }
    }

    pub fn model(mut self, id: &str, gpus: u32, memory_gb: f64, load: f64) -> Problem {
        self.scenario.models.push(ModelSpec {
            id: id.into(),
            name: id.into(),
            memory_gb,
            gpus_required: gpus,
            load_time_seconds: load,
            inference_time_mean: Some(1.0),
            ..ModelSpec::default()
        });
        self
    }

    /// Lets the model added last batch.
    pub fn batching(mut self, slowdown: &[(u32, f64)]) -> Problem {
        let spec = self.scenario.models.last_mut().expect("a model");
        spec.batching =
            Some(BatchingSpec { max_batch: slowdown.last().unwrap().0, slowdown: slowdown.to_vec() });
        self
    }

    /// Lets each execution of the model added last take memory beside its weights.
    pub fn slot(mut self, gb: f64) -> Problem {
        self.scenario.models.last_mut().expect("a model").memory_gb_per_slot = Some(gb);
        self
    }

    /// Has the model added last take its time to leave.
    pub fn unload(mut self, seconds: f64) -> Problem {
        self.scenario.models.last_mut().expect("a model").unload_time_seconds = Some(seconds);
        self
    }

    /// A workflow whose nodes are named n0, n1, ... with these models.
    pub fn workflow(mut self, models: &[u32], edges: &[(u32, u32)]) -> Problem {
        let id = format!("w{}", self.scenario.workflows.len());
        let node = |(place, &model): (usize, &u32)| NodeSpec {
            id: format!("n{place}"),
            model: ModelId(model),
            inputs: vec![],
            outputs: vec![],
            config_options: vec![],
        };
        self.scenario.workflows.push(WorkflowSpec {
            name: id.clone(),
            id,
            nodes: models.iter().enumerate().map(node).collect(),
            edges: edges.to_vec(),
        });
        self
    }

    pub fn request(mut self, workflow: u32, arrival: f64, times: &[f64]) -> Problem {
        self.scenario.requests.push(RequestSpec {
            id: format!("r{}", self.scenario.requests.len()),
            timestamp: Some((arrival * 1e6) as i64),
            workflow: WorkflowId(workflow),
            times: times.iter().map(|&seconds| Some(Span::from_seconds(seconds))).collect(),
            priority: 0,
            deadline: None,
            input_data: Default::default(),
            node_configs: Default::default(),
            metadata: Default::default(),
        });
        self
    }

    pub fn build(&self) -> Instance {
        Instance::build(&self.scenario, self.cluster.clone(), self.mode).expect("feasible")
    }

    pub fn build_for(&self, kind: PolicyKind) -> Instance {
        let mut cluster = self.cluster.clone();
        cluster.residency = kind.residency(cluster.residency);
        Instance::build(&self.scenario, cluster, self.mode).expect("feasible")
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
