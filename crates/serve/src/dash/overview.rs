//! How things stand, in the form that the page reads.

use gswarm_core::input::{ModelSpec, WorkflowSpec};
use gswarm_core::policy::PolicyKind;
use gswarm_core::{Span, Time};
use gswarm_exec::chronicle::{Chronicle, Counts, Minutes};
use gswarm_exec::scene::Scene;
use serde_json::{Value, json};

/// What does not change while something is watched.
#[derive(Clone, Debug)]
pub struct About {
    /// `serve`, `run` or `log`.
    pub source: &'static str,
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
    /// The workflows, as [`workflows`] tells them.
    pub workflows: Value,
}

/// How it stands now: copied in one go, and put into words elsewhere.
pub struct Present {
    /// The time that it is.
    pub now: Time,
    /// `running`, `stopping`, `finished`, `interrupted` or `waiting for servers`.
    pub state: &'static str,
    /// Why, where there is more to say.
    pub why: Option<String>,
    /// What is on the GPUs.
    pub gpus: Value,
    /// The servers.
    pub backends: Value,
    /// The models, and who waits for them.
    pub models: Value,
    /// Requests that have not ended.
    pub open: usize,
    /// Nodes that could run and do not.
    pub waiting_nodes: usize,
    /// Nodes that run.
    pub running_nodes: usize,
    /// What happened since the start.
    pub counts: Counts,
    /// What happened of late.
    pub minutes: Minutes,
}

impl Present {
    /// Looks at an engine.
    #[must_use]
    pub fn of(scene: &Scene<'_>, chronicle: &Chronicle, open: usize) -> Present {
        Present {
            now: scene.now,
            state: "running",
            why: None,
            gpus: scene.gpus(),
            backends: Value::Array(Vec::new()),
            models: scene.models(),
            open,
            waiting_nodes: scene.ready.len(),
            running_nodes: scene.running_nodes(),
            counts: chronicle.counts(),
            minutes: chronicle.minutes(),
        }
    }

    /// As the page reads it.
    #[must_use]
    pub fn told(self, about: &About) -> Value {
        let Counts { completed, failed, cancelled, executions, loads, evictions, retries } = self.counts;
        // Of what is over, the last minute is of no more interest than any other.
        let whole = matches!(self.state, "finished" | "interrupted") && self.minutes.is_whole();
        let latency = self.minutes.latency(self.now, (!whole).then_some(Span(60_000_000)));
        let policies: Vec<&str> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        json!({
            "source": about.source, "title": about.title, "version": env!("CARGO_PKG_VERSION"),
            "started_at": about.started_at, "now": self.now.seconds(), "state": self.state, "why": self.why,
            "policy": about.policy,
            "can": {"submit": about.can_submit, "cancel": about.can_submit, "what_if": about.can_what_if},
            "gpus": self.gpus, "backends": self.backends,
            "counts": {
                "open": self.open, "waiting_nodes": self.waiting_nodes, "running_nodes": self.running_nodes,
                "completed": completed, "failed": failed, "cancelled": cancelled, "executions": executions,
                "loads": loads, "evictions": evictions, "retries": retries,
            },
            "latency": latency, "minutes": self.minutes.json(self.now), "models": self.models, "workflows": about.workflows,
            "policies": policies,
        })
    }
}

/// Workflows, as the page reads them: what each wants to be told, and which node waits for which.
#[must_use]
pub fn workflows(models: &[ModelSpec], workflows: &[WorkflowSpec]) -> Value {
    let of = |workflow: &WorkflowSpec| {
        let is_written = |name: &String| workflow.nodes.iter().any(|node| node.outputs.contains(name));
        let mut inputs: Vec<&String> = Vec::new();
        for name in workflow.nodes.iter().flat_map(|node| &node.inputs) {
            if !is_written(name) && !inputs.contains(&name) {
                inputs.push(name);
            }
        }
        let nodes = workflow.nodes.iter().zip(0..).map(|(node, place)| {
            let before = workflow.edges.iter().filter(|&&(_, to)| to == place);
            let after: Vec<&str> =
                before.map(|&(from, _)| workflow.nodes[from as usize].id.as_str()).collect();
            json!({"node": node.id, "model": models[usize::from(node.model)].id, "after": after})
        });
        json!({"id": workflow.id, "name": workflow.name, "inputs": inputs, "nodes": nodes.collect::<Vec<_>>()})
    };
    workflows.iter().map(of).collect()
}
