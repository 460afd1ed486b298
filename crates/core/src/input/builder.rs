//! Builds scenarios in code.

use super::diagnostic::Diagnostic;
use super::faults::{Faults, Path};
use super::fields::{NumberRange, not_negative};
use super::timestamp::MAX_STAMP;
use super::validate::Lacking;
use super::validity;
use super::{Code, Severity};
use crate::cost::execution_span;
use crate::id::{ModelId, WorkflowId};
use crate::scenario::Mode;
use crate::scenario::{BatchingSpec, ClusterSpec, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use crate::time::Span;
use serde_json::{Map, Value};

/// Stands for a model or workflow that nobody has added; it never leaves the builder.
const UNKNOWN: u32 = u32::MAX;

/// A scenario under construction. Models, workflows and requests are added one after the other; other calls apply to
/// the one that was added last.
///
/// Things refer to one another by name, and have to be added before they are referred to. Mistakes are reported all at once, by
/// [`build`](ScenarioBuilder::build).
///
/// ```
/// use gswarm_core::input::Scenario;
///
/// let scenario = Scenario::builder()
///     .gpus(4)
///     .model("llm", 1, 16.0, 8.0)
///     .run_time(2.0)
///     .batching(&[(1, 1.0), (8, 2.5)])
///     .model("painter", 2, 24.0, 12.0)
///     .workflow("poster")
///     .node("write", "llm")
///     .node("paint", "painter")
///     .edge("write", "paint")
///     .request("r1", "poster")
///     .arrival(0.5)
///     .time("paint", 30.0)
///     .deadline(90.0)
///     .build()
///     .unwrap();
/// assert_eq!(scenario.workflows[0].edges, [(0, 1)]);
/// ```
///
/// All that is wrong is found together:
///
/// ```
/// use gswarm_core::input::Scenario;
///
/// let found = Scenario::builder()
///     .model("llm", 0, 16.0, 8.0)
///     .workflow("chat")
///     .node("answer", "lllm")
///     .build()
///     .unwrap_err();
/// let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
/// assert_eq!(paths, ["workflows.chat.nodes[0].model", "models.llm.gpus_required"]);
/// assert_eq!(found[0].hint.as_deref(), Some("did you mean `llm`?"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScenarioBuilder {
    /// What was added so far. It may be changed by hand: `build` checks all of it.
    pub scenario: Scenario,
    faults: Faults,
}

impl Scenario {
    /// Begins a scenario in code.
    #[must_use]
    pub fn builder() -> ScenarioBuilder {
        ScenarioBuilder::default()
    }
}

/// The cluster.
impl ScenarioBuilder {
    /// The number of GPUs.
    #[must_use]
    pub fn gpus(mut self, gpus: u32) -> ScenarioBuilder {
        self.scenario.cluster.gpus = Some(gpus);
        self
    }

    /// Replaces all settings of the cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: ClusterSpec) -> ScenarioBuilder {
        self.scenario.cluster = cluster;
        self
    }
}

/// Models.
impl ScenarioBuilder {
    /// Adds a model that holds so many consecutive GPUs, with this many GB of weights over all of them, and that takes so
    /// many seconds to load onto empty GPUs.
    #[must_use]
    pub fn model(self, id: &str, gpus: u32, memory_gb: f64, load_seconds: f64) -> ScenarioBuilder {
        self.model_spec(ModelSpec {
            id: id.to_owned(),
            name: id.to_owned(),
            memory_gb,
            gpus_required: gpus,
            load_time_seconds: load_seconds,
            ..ModelSpec::default()
        })
    }

    /// Adds a model with all its settings.
    #[must_use]
    pub fn model_spec(mut self, model: ModelSpec) -> ScenarioBuilder {
        self.scenario.models.push(model);
        self
    }

    /// The mean execution time of the model, in seconds; requests that give a time of their own do not need it.
    #[must_use]
    pub fn run_time(self, seconds: f64) -> ScenarioBuilder {
        self.of_model("run_time", |model| model.inference_time_mean = Some(seconds))
    }

    /// The mean number of tokens that the model writes, and its pace: its execution time where no mean is given.
    #[must_use]
    pub fn tokens(self, mean: f64, per_second: f64) -> ScenarioBuilder {
        self.of_model("tokens", |model| {
            (model.token_mean, model.tokens_per_second) = (Some(mean), Some(per_second));
        })
    }

    /// Lets the model batch: by how much executions slow down at some batch sizes, the largest last.
    #[must_use]
    pub fn batching(self, slowdown: &[(u32, f64)]) -> ScenarioBuilder {
        let max_batch = slowdown.last().map_or(1, |&(batch, _)| batch);
        let batching = BatchingSpec::new(max_batch, slowdown.to_vec());
        self.of_model("batching", |model| model.batching = Some(batching))
    }

    /// Memory of each execution in addition to the weights, in GB over all its GPUs.
    #[must_use]
    pub fn slot_memory(self, gb: f64) -> ScenarioBuilder {
        self.of_model("slot_memory", |model| model.memory_gb_per_slot = Some(gb))
    }

    /// Measured unload time of the model, in seconds.
    #[must_use]
    pub fn unload_time(self, seconds: f64) -> ScenarioBuilder {
        self.of_model("unload_time", |model| model.unload_time_seconds = Some(seconds))
    }

    fn of_model(mut self, what: &str, change: impl FnOnce(&mut ModelSpec)) -> ScenarioBuilder {
        match self.scenario.models.last_mut() {
            Some(model) => change(model),
            None => self.too_early(what, "model"),
        }
        self
    }
}

/// Workflows.
impl ScenarioBuilder {
    /// Adds a workflow.
    #[must_use]
    pub fn workflow(mut self, id: &str) -> ScenarioBuilder {
        let (id, name) = (id.to_owned(), id.to_owned());
        self.scenario.workflows.push(WorkflowSpec { id, name, ..WorkflowSpec::default() });
        self
    }

    /// Adds a node that calls this model to the workflow.
    #[must_use]
    pub fn node(self, id: &str, model: &str) -> ScenarioBuilder {
        self.of_workflow("node", |workflow, models, path, faults| {
            let known = models.iter().position(|known| known.id == model).map(ModelId::from);
            if known.is_none() {
                let nodes = path.key("nodes", 0);
                let node = nodes.index(workflow.nodes.len(), 0);
                validity::unknown_model(model, models, 0, &node.key("model", 0), faults);
            }
            workflow.nodes.push(NodeSpec::new(id, known.unwrap_or(ModelId(UNKNOWN))));
        })
    }

    /// Has the node `to` of the workflow wait for what the node `from` writes.
    #[must_use]
    pub fn edge(self, from: &str, to: &str) -> ScenarioBuilder {
        self.of_workflow("edge", |workflow, _, path, faults| {
            let edges = path.key("edges", 0);
            let edge = edges.index(workflow.edges.len(), 0);
            let [from, to] = [("from", from), ("to", to)].map(|(field, name)| {
                let known = workflow.nodes.iter().position(|node| node.id == name);
                if known.is_none() {
                    validity::unknown_node(name, &workflow.nodes, 0, &edge.key(field, 0), faults);
                }
                known.map_or(UNKNOWN, |node| node as u32)
            });
            workflow.edges.push((from, to));
        })
    }

    fn of_workflow(
        mut self,
        what: &str,
        change: impl FnOnce(&mut WorkflowSpec, &[ModelSpec], &Path<'_>, &mut Faults),
    ) -> ScenarioBuilder {
        let Scenario { models, workflows, .. } = &mut self.scenario;
        let root = Path::root();
        let all = root.key("workflows", 0);
        match workflows.last_mut() {
            Some(workflow) => {
                let id = workflow.id.clone();
                change(workflow, models, &all.key(&id, 0), &mut self.faults);
            }
            None => self.too_early(what, "workflow"),
        }
        self
    }
}

/// Requests.
impl ScenarioBuilder {
    /// Adds a request that runs this workflow.
    #[must_use]
    pub fn request(mut self, id: &str, workflow: &str) -> ScenarioBuilder {
        let Scenario { workflows, requests, .. } = &mut self.scenario;
        let known = workflows.iter().position(|known| known.id == workflow).map(WorkflowId::from);
        if known.is_none() {
            let root = Path::root();
            let all = root.key("requests", 0);
            let request = all.index(requests.len(), 0);
            validity::unknown_workflow(
                workflow,
                workflows,
                0,
                &request.key("workflow_id", 0),
                &mut self.faults,
            );
        }
        requests.push(RequestSpec::new(id, known.unwrap_or(WorkflowId(UNKNOWN))));
        self
    }

    /// When the request arrives, in seconds; what counts is how far apart requests are.
    #[must_use]
    pub fn arrival(self, seconds: f64) -> ScenarioBuilder {
        self.of_request("arrival", |request, _, path, faults| {
            let limits = not_negative(MAX_STAMP, " seconds");
            let seconds = checked(seconds, limits, &path.key("timestamp", 0), faults);
            request.timestamp = seconds.map(|seconds| (seconds * 1e6).round() as i64);
        })
    }

    /// How long the request's execution of this node takes, in seconds; otherwise it is what its model gives.
    #[must_use]
    pub fn time(self, node: &str, seconds: f64) -> ScenarioBuilder {
        self.of_request("time", |request, workflows, path, faults| {
            let field = path.key("node_execution_times", 0);
            let path = field.key(node, 0);
            let time = checked(seconds, validity::limits(field.name()), &path, faults).map(execution_span);
            // That there is no such workflow was said when the request was added.
            let Some(workflow) = workflows.get(request.workflow.index()) else { return };
            let Some(place) = workflow.nodes.iter().position(|known| known.id == node) else {
                return validity::no_such_node(node, workflow, 0, &path, faults);
            };
            request.times.resize(workflow.nodes.len(), None);
            request.times[place] = time;
        })
    }

    /// How long its nodes take, in seconds and in the order of the workflow's nodes.
    #[must_use]
    pub fn times(self, seconds: &[f64]) -> ScenarioBuilder {
        self.of_request("times", |request, _, path, faults| {
            let field = path.key("node_execution_times", 0);
            let time = |(place, &seconds): (usize, &f64)| {
                let limits = validity::limits(field.name());
                checked(seconds, limits, &field.index(place, 0), faults).map(execution_span)
            };
            request.times = seconds.iter().enumerate().map(time).collect();
        })
    }

    /// How urgent the request is, higher first; 0 otherwise.
    #[must_use]
    pub fn priority(self, priority: i32) -> ScenarioBuilder {
        self.of_request("priority", |request, _, _, _| request.priority = priority)
    }

    /// Within how many seconds of its arrival the request should be done.
    #[must_use]
    pub fn deadline(self, seconds: f64) -> ScenarioBuilder {
        self.of_request("deadline", |request, _, path, faults| {
            let path = path.key("deadline_seconds", 0);
            let seconds = checked(seconds, validity::limits(path.name()), &path, faults);
            request.deadline = seconds.map(Span::from_seconds);
        })
    }

    /// What the request gives the workflow to read under this name.
    #[must_use]
    pub fn input(self, name: &str, value: impl Into<Value>) -> ScenarioBuilder {
        self.of_request("input", |request, _, _, _| {
            request.input_data.insert(name.to_owned(), value.into());
        })
    }

    /// The options that the request sets for a node.
    #[must_use]
    pub fn options(self, node: &str, options: Map<String, Value>) -> ScenarioBuilder {
        self.of_request("options", |request, _, _, _| {
            request.node_configs.insert(node.to_owned(), Value::Object(options));
        })
    }

    fn of_request(
        mut self,
        what: &str,
        change: impl FnOnce(&mut RequestSpec, &[WorkflowSpec], &Path<'_>, &mut Faults),
    ) -> ScenarioBuilder {
        let Scenario { workflows, requests, .. } = &mut self.scenario;
        let root = Path::root();
        let all = root.key("requests", 0);
        let path = all.index(requests.len().saturating_sub(1), 0);
        match requests.last_mut() {
            Some(request) => change(request, workflows, &path, &mut self.faults),
            None => self.too_early(what, "request"),
        }
        self
    }
}

impl ScenarioBuilder {
    /// The scenario, where nothing is wrong with it; it may be without requests.
    ///
    /// # Errors
    /// All that is wrong, as [`Scenario::validate`] says it.
    pub fn build(self) -> Result<Scenario, Vec<Diagnostic>> {
        self.build_for(Mode::Offline, Lacking::Nothing)
    }

    /// The same for a run in this mode, where something else supplies what is `lacking`.
    ///
    /// # Errors
    /// All that is wrong, as [`Scenario::validate_for`] says it.
    pub fn build_for(self, mode: Mode, lacking: Lacking) -> Result<Scenario, Vec<Diagnostic>> {
        let ScenarioBuilder { mut scenario, faults } = self;
        let mut found = Vec::new();
        faults.unlocated("builder", &mut found);
        let is_known =
            |one: &Diagnostic| found.iter().any(|known| known.code == one.code && known.path == one.path);
        let more: Vec<Diagnostic> =
            scenario.validate_for(mode, lacking).into_iter().filter(|one| !is_known(one)).collect();
        found.extend(more);
        if found.iter().any(|one| one.severity == Severity::Error) {
            return Err(found);
        }
        for workflow in &mut scenario.workflows {
            let mut seen = rustc_hash::FxHashSet::default();
            workflow.edges.retain(|&edge| seen.insert(edge));
        }
        Ok(scenario)
    }

    /// Something is said of the last one of a kind of which there is none yet.
    fn too_early(&mut self, what: &str, kind: &str) {
        let message =
            format_args!("`{what}` applies to the {kind} that was added last, but none has been added");
        self.faults.add(Code::Missing, 0, &Path::root(), message);
    }
}

/// A number within its limits. Times are checked here: a number of microseconds can no longer say that it was none.
fn checked(value: f64, limits: NumberRange, path: &Path<'_>, faults: &mut Faults) -> Option<f64> {
    limits.check(value, &value.to_string(), 0, path, faults)
}
