//! What is being made of the files: a scenario that grows, and notes of what was assumed.

use gswarm_core::input::{ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use gswarm_core::{ModelId, Span, WorkflowId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value};

/// A scenario while it is made. Ids stay unique: a second model of the same id is the first one.
#[derive(Default)]
pub struct Draft {
    pub scenario: Scenario,
    pub notes: Notes,
    pub heavy: Heavy,
    models: FxHashMap<String, ModelId>,
    workflows: FxHashSet<String>,
}

/// Nodes that take GPU time, by how well they were understood.
#[derive(Default)]
pub struct Heavy {
    /// A loader leads to them, or the command line gives their time.
    pub understood: usize,
    /// Classes of nodes that run a model which nothing says anything of.
    pub guessed: Vec<String>,
    /// Classes of nodes that have a vendor's service compute something.
    pub vendors: Vec<String>,
}

impl Heavy {
    /// What is to be said of them; a sentence each.
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        let all = self.understood + self.guessed.len();
        if all > 0 {
            let share = 100.0 * self.understood as f64 / all as f64;
            said.push(format!("Heavy nodes understood: {} of {all} ({share:.0}%)", self.understood));
        }
        if !self.guessed.is_empty() {
            let what = "Heavy nodes whose model and time are guesses, 4 s each (give times with --time CLASS=SECONDS)";
            said.push(format!("{what}: {}", counted(&self.guessed)));
        }
        if !self.vendors.is_empty() {
            said.push(format!("Nodes that call a vendor's service are left out: {}", counted(&self.vendors)));
        }
        said
    }

    /// The classes that call vendors, if any do.
    pub fn vendors(&self) -> Option<String> {
        (!self.vendors.is_empty()).then(|| counted(&self.vendors))
    }
}

/// Names with how often each is there.
fn counted(names: &[String]) -> String {
    let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let shown = counts.iter().map(|(name, count)| format!("{name} ({count})"));
    shown.collect::<Vec<_>>().join(", ")
}

/// One node with its time and the values that its request sets for it.
pub struct DraftNode {
    pub id: String,
    pub model: ModelId,
    pub seconds: f64,
    pub config: Map<String, Value>,
}

impl Draft {
    /// The model of this id; what `make` gives where there is none yet.
    pub fn model(&mut self, id: &str, make: impl FnOnce(&mut Notes) -> ModelSpec) -> ModelId {
        if let Some(&known) = self.models.get(id) {
            return known;
        }
        let number = ModelId::from(self.scenario.models.len());
        self.models.insert(id.to_owned(), number);
        let mut model = make(&mut self.notes);
        if model.name.is_empty() {
            model.name = id.to_owned();
        }
        self.scenario.models.push(ModelSpec { id: id.to_owned(), ..model });
        number
    }

    /// A workflow; where its id is taken, a number is put behind it.
    pub fn workflow(&mut self, id: &str, nodes: &[DraftNode], edges: Vec<(u32, u32)>) -> WorkflowId {
        let wanted = if id.trim().is_empty() { "workflow" } else { id.trim() };
        let mut unique = wanted.to_owned();
        for number in 2.. {
            if self.workflows.insert(unique.clone()) {
                break;
            }
            unique = format!("{wanted}_{number}");
        }
        let spec = |node: &DraftNode| NodeSpec {
            config_options: node.config.keys().cloned().collect(),
            ..NodeSpec::new(node.id.clone(), node.model)
        };
        let number = WorkflowId::from(self.scenario.workflows.len());
        self.scenario.workflows.push(WorkflowSpec {
            name: unique.clone(),
            id: unique,
            nodes: nodes.iter().map(spec).collect(),
            edges,
        });
        number
    }

    /// Requests of one workflow, a fixed time apart.
    pub fn requests(&mut self, workflow: WorkflowId, nodes: &[DraftNode], count: u32, every: f64) {
        for number in 0..count {
            self.request(workflow, nodes, (f64::from(number) * every * 1e6).round() as i64);
        }
    }

    /// A request at a moment, in microseconds, that runs its nodes as they are in the draft.
    pub fn request(&mut self, workflow: WorkflowId, nodes: &[DraftNode], at: i64) {
        let configs = nodes.iter().filter(|node| !node.config.is_empty());
        let spec = RequestSpec {
            node_configs: configs.map(|node| (node.id.clone(), Value::Object(node.config.clone()))).collect(),
            ..plain_request(
                format!("req_{}", self.scenario.requests.len() + 1),
                at,
                workflow,
                nodes.iter().map(|node| Some(span(node.seconds))).collect(),
            )
        };
        self.scenario.requests.push(spec);
    }

    /// Every model that gives no time of its own gets the mean of what its nodes take, so that the configuration can be
    /// used without these requests as well.
    pub fn fill_mean_times(&mut self) {
        let mut sums = vec![(0.0, 0_u32); self.scenario.models.len()];
        for request in &self.scenario.requests {
            let nodes = &self.scenario.workflows[request.workflow.index()].nodes;
            for (node, time) in nodes.iter().zip(&request.times) {
                let sum = &mut sums[node.model.index()];
                *sum = (sum.0 + time.map_or(0.0, Span::seconds), sum.1 + 1);
            }
        }
        for (model, (sum, count)) in self.scenario.models.iter_mut().zip(sums) {
            let is_timed = model.inference_time_mean.is_some() || model.token_mean.is_some();
            if !is_timed && count > 0 {
                model.inference_time_mean = Some((sum / f64::from(count) * 1e6).round().max(1.0) / 1e6);
            }
        }
    }
}

/// A request with times and nothing else.
pub fn plain_request(id: String, at: i64, workflow: WorkflowId, times: Vec<Option<Span>>) -> RequestSpec {
    RequestSpec { timestamp: Some(at), times, ..RequestSpec::new(id, workflow) }
}

/// To the microsecond, and at least one.
pub fn span(seconds: f64) -> Span {
    gswarm_core::cost::execution_span(seconds)
}

/// A number as files show it: a whole one without a point.
pub fn shown_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// Ids of which no two are the same: a second one gets a number.
pub fn unique(mut ids: Vec<String>) -> Vec<String> {
    let mut seen = FxHashSet::default();
    for id in &mut ids {
        let wanted = if id.trim().is_empty() { "node".to_owned() } else { id.trim().to_owned() };
        *id = wanted.clone();
        for number in 2.. {
            if seen.insert(id.clone()) {
                break;
            }
            *id = format!("{wanted}_{number}");
        }
    }
    ids
}

/// What was assumed: each sentence once, in the order in which they came up. Those about many things name the things.
#[derive(Default)]
pub struct Notes {
    said: Vec<(String, Vec<String>)>,
}

/// How many things one note names.
const NAMED: usize = 40;

impl Notes {
    pub fn say(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if !self.said.iter().any(|(said, _)| *said == sentence) {
            self.said.push((sentence, Vec::new()));
        }
    }

    /// A sentence that holds for several things, which it ends with.
    pub fn say_of(&mut self, sentence: &str, thing: impl Into<String>) {
        let thing = thing.into();
        let found = self.said.iter_mut().find(|(said, things)| said == sentence && !things.is_empty());
        match found {
            Some((_, things)) if things.contains(&thing) => {}
            Some((_, things)) => things.push(thing),
            None => self.said.push((sentence.to_owned(), vec![thing])),
        }
    }

    pub fn finish(self) -> Vec<String> {
        let sentence = |(said, things): (String, Vec<String>)| {
            if things.is_empty() {
                return said;
            }
            let more = things.len().saturating_sub(NAMED);
            let mut listed = things[..things.len() - more].join(", ");
            if more > 0 {
                listed.push_str(&format!(", and {more} more"));
            }
            format!("{said}: {listed}")
        };
        let one_line = |text: String| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.said.into_iter().map(sentence).map(one_line).collect()
    }
}
