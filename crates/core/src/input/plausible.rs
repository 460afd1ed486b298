//! Implausible but valid values in a scenario. Runs accept them; `gswarm validate` warns about them.

use super::code::Code;
use super::diagnostic::Diagnostic;
use super::faults::{Faults, Path, Shown};
use crate::cluster::DEFAULT_GPU_MEMORY_GB;
use crate::scenario::{ModelSpec, Scenario, WorkflowSpec};

/// Longest time of one load or execution that needs no second look, in seconds.
const LONG_SECONDS: f64 = 3600.0;
/// Longest time from the first to the last arrival that needs no second look, in days.
const LONG_DAYS: f64 = 31.0;
const MICROSECONDS_PER_DAY: f64 = 86_400e6;

impl Scenario {
    /// Warnings about implausible but valid values, such as a language model without batching. `names` are those
    /// of the configuration and the requests.
    ///
    /// ```
    /// use gswarm_core::input::{Code, Scenario};
    ///
    /// let scenario = Scenario::builder()
    ///     .model("llm", 1, 500.0, 8.0)
    ///     .workflow("chat")
    ///     .node("answer", "llm")
    ///     .request("r1", "chat")
    ///     .time("answer", 2.5)
    ///     .build()
    ///     .unwrap();
    /// assert_eq!(scenario.plausibility(["config.yaml", "requests.yaml"])[0].code, Code::TooBigForGpus);
    /// ```
    #[must_use]
    pub fn plausibility(&self, names: [&str; 2]) -> Vec<Diagnostic> {
        let [mut config, mut requests] = [Faults::default(), Faults::default()];
        let root = Path::root();
        let models = root.key("models", 0);
        for model in &self.models {
            let path = models.key(&model.id, 0);
            batching(model, &path, &mut config);
            deviations(model, &path, &mut config);
            self.fits(model, &path, &mut config);
            for (field, seconds) in [
                ("load_time_seconds", Some(model.load_time_seconds)),
                ("inference_time_mean", model.inference_time_mean),
            ] {
                long(seconds.unwrap_or(0.0), &path.key(field, 0), &mut config);
            }
        }
        let workflows = root.key("workflows", 0);
        for workflow in &self.workflows {
            unconnected(workflow, &workflows.key(&workflow.id, 0), &mut config);
        }
        self.arrivals(&mut requests);
        let list = root.key("requests", 0);
        for (place, request) in self.requests.iter().enumerate() {
            let (path, nodes) = (list.index(place, 0), &self.workflows[request.workflow.index()].nodes);
            let times = path.key("node_execution_times", 0);
            for (node, time) in nodes.iter().zip(&request.times) {
                long(time.map_or(0.0, |time| time.seconds()), &times.key(&node.id, 0), &mut requests);
            }
        }
        let mut found = Vec::new();
        config.unlocated(names[0], &mut found);
        requests.unlocated(names[1], &mut found);
        found
    }

    /// Whether a model fits onto its GPUs, and these into the cluster.
    fn fits(&self, model: &ModelSpec, path: &Path<'_>, faults: &mut Faults) {
        let gpu = self.cluster.gpu_memory_gb.unwrap_or(DEFAULT_GPU_MEMORY_GB);
        let width = model.gpus_required.max(1);
        let each = (model.memory_gb + model.memory_gb_per_slot.unwrap_or(0.0)) / f64::from(width);
        if each > gpu {
            let needed = ((model.memory_gb + model.memory_gb_per_slot.unwrap_or(0.0)) / gpu).ceil();
            let message = format_args!(
                "model `{}` needs {each:.1} GB on each of its {width} GPUs, but a GPU has {gpu} GB",
                Shown(&model.id)
            );
            let server = self.cluster.gpus_per_server.or(self.cluster.gpus);
            let hint = match server {
                Some(server) if needed > f64::from(server) => format!(
                    "it is larger than a whole server of {server} GPUs: quantise it, or use GPUs with more memory"
                ),
                _ => format!("set `gpus_required` to {needed} or more"),
            };
            faults.add_hinted(Code::TooBigForGpus, 0, &path.key("memory_gb", 0), message, Some(hint));
        }
        if let Some(gpus) = self.cluster.gpus.filter(|&gpus| width > gpus) {
            let message =
                format_args!("model `{}` needs {width} GPUs, but the cluster has {gpus}", Shown(&model.id));
            let hint = Some("give the cluster more GPUs, or lower `gpus_required`".to_owned());
            faults.add_hinted(Code::TooBigForGpus, 0, &path.key("gpus_required", 0), message, hint);
        }
    }

    /// Whether the requests arrive over a likely length of time.
    fn arrivals(&self, faults: &mut Faults) {
        let stamps = || self.requests.iter().filter_map(|request| request.timestamp);
        let (Some(first), Some(last)) = (stamps().min(), stamps().max()) else { return };
        let days = last.saturating_sub(first) as f64 / MICROSECONDS_PER_DAY;
        if days > LONG_DAYS {
            let root = Path::root();
            let message = format_args!("the requests arrive over {days:.0} days");
            let hint =
                Some("timestamps are seconds: if these are milliseconds, divide them by 1000".to_owned());
            faults.add_hinted(Code::LongSpan, 0, &root.key("requests", 0), message, hint);
        }
    }
}

/// A language model that serves one request at a time.
fn batching(model: &ModelSpec, path: &Path<'_>, faults: &mut Faults) {
    let writes = model.kind.as_deref() == Some("llm") || model.tokens_per_second.is_some();
    if writes && model.batching.is_none() {
        let message = format_args!(
            "language model `{}` has no `batching`: it serves one call at a time",
            Shown(&model.id)
        );
        let hint = "model servers batch calls: add `batching: {max_batch: 32, slowdown: [[1, 1.0], [8, 1.2], [32, 1.8]]}`, \
                    or measure it with `gswarm calibrate`";
        faults.add_hinted(Code::NoBatching, 0, path, message, Some(hint.to_owned()));
    }
}

/// A standard deviation without the mean that it belongs to.
fn deviations(model: &ModelSpec, path: &Path<'_>, faults: &mut Faults) {
    let by_tokens = model.token_mean.is_some() && model.tokens_per_second.is_some();
    let unused = [
        (
            "inference_time_std",
            model.inference_time_std,
            model.inference_time_mean.is_some(),
            "`inference_time_mean`",
        ),
        (
            "token_std",
            model.token_std,
            by_tokens && model.inference_time_mean.is_none(),
            "`token_mean` and `tokens_per_second`, and no `inference_time_mean`",
        ),
    ];
    for (field, given, used, needs) in unused {
        if given.is_some_and(|given| given > 0.0) && !used {
            let message = format_args!("`{field}` of model `{}` has no effect", Shown(&model.id));
            let hint = Some(format!("it needs {needs}; otherwise remove it"));
            faults.add_hinted(Code::UnusedDeviation, 0, &path.key(field, 0), message, hint);
        }
    }
}

/// A load or an execution of hours.
fn long(seconds: f64, path: &Path<'_>, faults: &mut Faults) {
    if seconds > LONG_SECONDS {
        let message = format_args!("a time of {:.1} hours", seconds / 3600.0);
        let hint = Some("times are seconds: if this is milliseconds, divide it by 1000".to_owned());
        faults.add_hinted(Code::LongTime, 0, path, message, hint);
    }
}

/// Nodes that no edge joins to the rest of their workflow.
fn unconnected(workflow: &WorkflowSpec, path: &Path<'_>, faults: &mut Faults) {
    if workflow.nodes.len() < 2 {
        return;
    }
    let mut joined = vec![false; workflow.nodes.len()];
    for &(from, to) in &workflow.edges {
        (joined[from as usize], joined[to as usize]) = (true, true);
    }
    let alone: Vec<String> = (workflow.nodes.iter().zip(&joined))
        .filter(|(_, joined)| !**joined)
        .map(|(node, _)| format!("`{}`", Shown(&node.id)))
        .collect();
    if !alone.is_empty() {
        let message = format_args!(
            "no edge joins {} to another node of workflow `{}`: nodes without edges start at once",
            alone.join(", "),
            Shown(&workflow.id)
        );
        let hint = Some(
            "if one node needs the output of another, add an edge: `edges: [{from: a, to: b}]`".to_owned(),
        );
        faults.add_hinted(Code::Unconnected, 0, &path.key("edges", 0), message, hint);
    }
}
