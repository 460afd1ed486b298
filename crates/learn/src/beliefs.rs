//! A predictor at work in a run: what it says of every node of a scenario, and what it learns as executions end.

use crate::model::{GroupId, Online, Prediction, Predictor, Rows};
use crate::nodes::{History, NodeEncoder};
use gswarm_core::belief::{Belief, Estimate, Learner, Observation, TAIL};
use gswarm_core::cost::execution_span;
use gswarm_core::input::{Diagnostic, RequestSpec, Scenario};
use gswarm_core::{Gpus, Instance, ModelId, Span, TaskId, WorkflowId};
use std::collections::HashMap;
use std::sync::Arc;

/// What a predictor says of all nodes of a scenario, by the number of the task.
#[derive(Clone, Debug)]
pub struct Predicted {
    predictions: Vec<Prediction>,
    estimates: Vec<Estimate>,
    /// The rows, and the place of the history in each, where the predictor asks for one: it is known once a run has seen something.
    rows: Option<(usize, Rows)>,
}

impl Predicted {
    /// Asks the predictor for every node, as if each ran alone; `file` names it in messages.
    ///
    /// # Errors
    /// Features that no node has.
    pub fn of(file: &str, predictor: &Predictor, scenario: &Scenario) -> Result<Predicted, Vec<Diagnostic>> {
        let encoder = NodeEncoder::new(file, predictor)?;
        let (mut rows, mut row) = (Rows::new(predictor.features().len()), Vec::new());
        let nothing_seen = History::default();
        for request in &scenario.requests {
            let nodes = scenario.workflows[usize::from(request.workflow)].nodes.len();
            for node in 0..nodes {
                encoder.encode(scenario, request, node, 1, &nothing_seen, &mut row);
                rows.push(&row);
            }
        }
        let predictions = predictor.predict(&rows);
        let estimate = |prediction: &Prediction| {
            let quantile = |p: f64| execution_span(predictor.quantile(prediction, p).max(0.0));
            let (low, high) = (quantile(TAIL), quantile(1.0 - TAIL));
            Estimate { mean: execution_span(prediction.mean.max(0.0)), low: low.min(high), high }
        };
        let estimates = predictions.iter().map(estimate).collect();
        let rows = encoder.history().map(|place| (place, rows));
        Ok(Predicted { estimates, predictions, rows })
    }

    /// What is expected of each task.
    #[must_use]
    pub fn estimates(&self) -> &[Estimate] {
        &self.estimates
    }
}

/// A predictor that is asked for nodes of requests as they come.
pub struct OneByOne {
    predictor: Predictor,
    encoder: NodeEncoder,
}

impl OneByOne {
    /// `file` names the predictor in messages.
    ///
    /// # Errors
    /// Features that no node has.
    pub fn new(file: &str, predictor: Predictor) -> Result<OneByOne, Vec<Diagnostic>> {
        let encoder = NodeEncoder::new(file, &predictor)?;
        Ok(OneByOne { predictor, encoder })
    }

    /// What a node is expected to take alone on its replica, nothing having been seen of it yet; `None` of a model that the
    /// predictor was not trained on, where it tells models apart: what it would say is true of the others.
    ///
    /// # Panics
    /// If the request or the node is none of the scenario's.
    #[must_use]
    pub fn expected(&self, scenario: &Scenario, request: &RequestSpec, node: usize) -> Option<Span> {
        if !self.encoder.knows_model_of(scenario, request, node) {
            return None;
        }
        let mut row = Vec::new();
        self.encoder.encode(scenario, request, node, 1, &History::default(), &mut row);
        Some(execution_span(self.predictor.predict_row(&row).mean.max(0.0)).max(Span(1)))
    }
}

/// Corrections of a predictor's answers as executions end: of each model, and of each model on each GPU once enough was seen
/// of it there.
pub struct Corrections {
    predictor: Predictor,
    /// Of what was predicted before the run, which is what policies go by.
    online: Online,
    /// Of what is predicted when an execution begins, the history of its node known.
    at_start: Online,
    predicted: Arc<Predicted>,
    histories: HashMap<(WorkflowId, u32), History>,
    gpus: u32,
    /// Executions, by group.
    seen: Vec<u32>,
}

/// A model on one window is believed to be a case of its own after so many executions there.
const ENOUGH: u32 = 40;

impl Corrections {
    /// With nothing seen; `predicted` is what the predictor said of the problem.
    #[must_use]
    pub fn new(predictor: &Predictor, predicted: Arc<Predicted>, instance: &Instance) -> Corrections {
        let gpus = instance.cluster.gpus;
        let groups = instance.models.len() * (gpus as usize + 1);
        Corrections {
            predictor: predictor.clone(),
            online: Online::new(predictor),
            at_start: Online::new(predictor),
            predicted,
            histories: HashMap::new(),
            gpus,
            seen: vec![0; groups],
        }
    }

    fn group(&self, model: ModelId, gpus: Option<Gpus>) -> GroupId {
        GroupId(model.0 * (self.gpus + 1) + gpus.map_or(0, |gpus| gpus.first.0 + 1))
    }

    /// The model on these GPUs, where enough was seen of it there; else the model anywhere.
    fn nearest_group(&self, model: ModelId, gpus: Option<Gpus>) -> GroupId {
        let here =
            gpus.map(|_| self.group(model, gpus)).filter(|group| self.seen[group.0 as usize] >= ENOUGH);
        here.unwrap_or_else(|| self.group(model, None))
    }

    /// What the predictor says of a task with the history of its node, and without; `None` of a request that came in later
    /// and is not one of those that were predicted.
    fn asked(&self, instance: &Instance, task: TaskId) -> Option<(Prediction, Prediction)> {
        let before = *self.predicted.predictions.get(task.index())?;
        let history = self.histories.get(&node(instance, task)).map_or(f64::NAN, History::mean);
        let now = match &self.predicted.rows {
            Some((place, rows)) if !history.is_nan() => {
                let mut row = rows.row(task.index()).to_vec();
                row[*place] = history;
                self.predictor.predict_row(&row)
            }
            _ => before,
        };
        Some((now, before))
    }
}

/// Runs of the same node of the same workflow have a history in common.
fn node(instance: &Instance, task: TaskId) -> (WorkflowId, u32) {
    (instance.requests[instance.request_of(task)].workflow, instance.node_of(task))
}

/// Where the request gave its own time, that is what the truth is compared with: the prediction as if that were its mean.
fn told(asked: &Prediction, before: &Prediction, own: Span) -> Prediction {
    let by = own.seconds() / before.mean.max(1e-9);
    Prediction { mean: asked.mean * by, scale: asked.scale * by, correction: 1.0 }
}

impl Learner for Corrections {
    fn observe(&mut self, instance: &Instance, seen: &Observation) {
        let Some((now, before)) = self.asked(instance, seen.task) else { return };
        let took = seen.took.seconds();
        for gpus in [None, Some(seen.gpus)] {
            let group = self.group(seen.model, gpus);
            for (online, asked) in [(&mut self.online, &before), (&mut self.at_start, &now)] {
                let told = online.correct(group, told(asked, &before, seen.estimated));
                online.observe(group, &told, took);
            }
            self.seen[group.0 as usize] += 1;
        }
        self.histories.entry(node(instance, seen.task)).or_default().add(took);
    }

    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief {
        Belief { factor: self.online.correction(self.nearest_group(model, gpus)), spread: None }
    }

    fn estimate(&self, instance: &Instance, task: TaskId, gpus: Gpus) -> Estimate {
        let own = instance.execution(task);
        let Some((now, before)) = self.asked(instance, task) else {
            return Estimate { mean: own, low: own, high: own };
        };
        let group = self.nearest_group(instance.model_of(task), Some(gpus));
        let told = self.at_start.correct(group, told(&now, &before, own));
        let quantile =
            |p: f64| execution_span(self.at_start.quantile(&self.predictor, group, &told, p).max(0.0));
        let (low, high) = (quantile(TAIL), quantile(1.0 - TAIL));
        Estimate { mean: execution_span(told.mean.max(0.0)), low: low.min(high), high }
    }
}
