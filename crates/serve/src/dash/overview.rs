//! The overview, in the form that the page reads.

use gswarm_core::input::{ModelSpec, WorkflowSpec};
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::Stats;
use gswarm_core::{Span, Time};
use gswarm_exec::chronicle::{Chronicle, Minutes};
use gswarm_exec::scene::Scene;
use gswarm_exec::wire::{
    Abilities, BackendStatus, Counts, GpuStatus, LatencySummary, ModelStatus, Overview, OverviewSource,
    RunState, SlowRequestRow, WorkflowLatency, WorkflowNode, WorkflowOutline,
};

/// What does not change while something is watched.
#[derive(Clone, Debug)]
pub struct DashboardAbout {
    /// A service, a run or a log.
    pub source: OverviewSource,
    /// What is watched, in a word or two.
    pub title: String,
    /// When it began, in seconds since 1970, where that is known.
    pub started_at: Option<f64>,
    /// The policy's name.
    pub policy: String,
    /// Whether requests can be brought and taken back here.
    pub can_submit: bool,
    /// Whether it can be asked what would be.
    pub can_what_if: bool,
    /// The workflows, as [`workflows`] describes them.
    pub workflows: Vec<WorkflowOutline>,
}

/// How it stands now: copied in one go, and put into words elsewhere.
pub struct Present {
    /// The time that it is.
    pub now: Time,
    /// What it is doing.
    pub state: RunState,
    /// Why, where there is more to say.
    pub why: Option<String>,
    /// What is on the GPUs.
    pub gpus: Vec<GpuStatus>,
    /// The servers.
    pub backends: Vec<BackendStatus>,
    /// The models, and who waits for them.
    pub models: Vec<ModelStatus>,
    /// What is open, and totals since the start.
    pub counts: Counts,
    /// What happened of late.
    pub minutes: Minutes,
    /// How fast its clock goes.
    pub speed: f64,
    /// Latency of the whole run, where it is over.
    pub whole: Option<Stats>,
    /// Latency by workflow.
    pub workflow_latency: Vec<WorkflowLatency>,
    /// The slowest requests.
    pub slowest: Vec<SlowRequestRow>,
}

impl Present {
    /// Looks at an engine.
    #[must_use]
    pub fn of(scene: &Scene<'_>, chronicle: &Chronicle, open: usize) -> Present {
        Present {
            now: scene.now,
            state: RunState::Running,
            why: None,
            gpus: scene.gpus(),
            backends: Vec::new(),
            models: scene.models(),
            counts: Counts {
                open: open as u64,
                waiting_nodes: scene.ready.len() as u64,
                running_nodes: scene.running_nodes() as u64,
                ..chronicle.counts()
            },
            minutes: chronicle.minutes(),
            speed: 1.0,
            whole: None,
            workflow_latency: chronicle.by_workflow(scene.view.instance()),
            slowest: chronicle.slowest(scene.view.instance()),
        }
    }

    /// As the page reads it.
    #[must_use]
    pub fn told(self, about: &DashboardAbout) -> Overview {
        const LAST_MINUTE: Span = Span(60_000_000);
        // Of what is over, the last minute is of no more interest than any other.
        let latency = match self.whole {
            Some(Stats { count, median, p99, .. }) => {
                let known = |value| (count > 0).then_some(value);
                LatencySummary { window_seconds: None, p50: known(median), p99: known(p99) }
            }
            None => self.minutes.latency(self.now, Some(LAST_MINUTE)),
        };
        Overview {
            source: about.source,
            title: about.title.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: about.started_at,
            now: self.now.seconds(),
            speed: self.speed,
            state: self.state,
            why: self.why,
            policy: about.policy.clone(),
            can: Abilities { submit: about.can_submit, cancel: about.can_submit, what_if: about.can_what_if },
            gpus: self.gpus,
            backends: self.backends,
            counts: self.counts,
            latency,
            workflow_latency: self.workflow_latency,
            slowest: self.slowest,
            minutes: self.minutes.series(self.now),
            models: self.models,
            workflows: about.workflows.clone(),
            policies: PolicyKind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        }
    }
}

/// Workflows, as the page reads them: what each wants to be told, and which node waits for which.
#[must_use]
pub fn workflows(models: &[ModelSpec], workflows: &[WorkflowSpec]) -> Vec<WorkflowOutline> {
    let of = |workflow: &WorkflowSpec| {
        let is_written = |name: &String| workflow.nodes.iter().any(|node| node.outputs.contains(name));
        let mut inputs: Vec<String> = Vec::new();
        for name in workflow.nodes.iter().flat_map(|node| &node.inputs) {
            if !is_written(name) && !inputs.contains(name) {
                inputs.push(name.clone());
            }
        }
        let nodes = workflow.nodes.iter().zip(0..).map(|(node, place)| {
            let before = workflow.edges.iter().filter(|&&(_, to)| to == place);
            WorkflowNode {
                node: node.id.clone(),
                model: models[usize::from(node.model)].id.clone(),
                after: before.map(|&(from, _)| workflow.nodes[from as usize].id.clone()).collect(),
            }
        });
        let nodes = nodes.collect();
        WorkflowOutline { id: workflow.id.clone(), name: workflow.name.clone(), inputs, nodes }
    };
    workflows.iter().map(of).collect()
}
