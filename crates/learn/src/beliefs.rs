//! A predictor at work in a run: what it says of every node of a scenario, and what it learns as executions end.

use crate::model::{GroupId, History, Memory, Online, Prediction, Predictor, Rows};
use crate::nodes::NodeEncoder;
use gswarm_core::belief::{Belief, Estimate, Learner, Observation, TAIL};
use gswarm_core::cost::execution_span;
use gswarm_core::input::{Diagnostic, RequestSpec, Scenario};
use gswarm_core::{Gpus, Instance, ModelId, Span, TaskId};
use std::sync::Arc;

/// What a predictor says of all nodes of a scenario, by the number of the task.
#[derive(Clone, Debug)]
pub struct Predicted {
    predictions: Vec<Prediction>,
    estimates: Vec<Estimate>,
}

impl Predicted {
    /// Asks the predictor for every node, as if each ran alone; `file` names it in messages.
    pub fn of(file: &str, predictor: &Predictor, scenario: &Scenario) -> Result<Predicted, Vec<Diagnostic>> {
        let encoder = NodeEncoder::new(file, predictor)?;
        let (mut rows, mut row) = (Rows::new(predictor.features().len()), Vec::new());
        for request in &scenario.requests {
            let nodes = scenario.workflows[usize::from(request.workflow)].nodes.len();
            for node in 0..nodes {
                encoder.encode(scenario, request, node, 1, &mut row);
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
        Ok(Predicted { predictions, estimates })
    }

    /// What is expected of each task.
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
    pub fn new(file: &str, predictor: Predictor) -> Result<OneByOne, Vec<Diagnostic>> {
        let encoder = NodeEncoder::new(file, &predictor)?;
        Ok(OneByOne { predictor, encoder })
    }

    /// What a node is expected to take alone on its replica; `None` of a model that the
    /// predictor was not trained on, where it tells models apart: what it would say is true of the others.
    ///
    /// # Panics
    /// If the request or the node is none of the scenario's.
    pub fn expected(&self, scenario: &Scenario, request: &RequestSpec, node: usize) -> Option<Span> {
        if !self.encoder.knows_model_of(scenario, request, node) {
            return None;
        }
        let mut row = Vec::new();
        self.encoder.encode(scenario, request, node, 1, &mut row);
        Some(execution_span(self.predictor.predict_row(&row).mean.max(0.0)).max(Span(1)))
    }
}

/// Corrections of a predictor's answers as executions end: of each model, and of a model on the GPUs where it was seen to
/// differ.
pub struct Corrections {
    predictor: Predictor,
    /// Of what was predicted before the run, which is what policies go by.
    online: Online,
    /// Of what is expected when an execution begins, where what its model took of late tells of it.
    late: Option<Late>,
    predicted: Arc<Predicted>,
    gpus: u32,
    /// Executions, by group.
    seen: Vec<u32>,
}

/// What models took of late, and corrections of what is expected by it.
struct Late {
    memory: Memory,
    online: Online,
    /// By model.
    histories: Vec<History>,
    /// By how much errors were smaller by it than without, lately and by model: where it only was so in training, it is let be.
    gains: Vec<f64>,
}

/// The share of the gains so far that counts beside the newest one.
const LATELY: f64 = 0.98;

/// A model on one window is believed to be a case of its own after so many executions there.
const ENOUGH: u32 = 40;

impl Corrections {
    /// With nothing seen; `predicted` is what the predictor said of the problem.
    pub fn new(predictor: &Predictor, predicted: Arc<Predicted>, instance: &Instance) -> Corrections {
        let gpus = instance.cluster.gpus;
        let groups = instance.models.len() * (gpus as usize + 1);
        let models = instance.models.len();
        let late = predictor.history().map(|memory| Late {
            memory,
            online: Online::new(predictor),
            histories: vec![History::default(); models],
            gains: vec![0.0; models],
        });
        Corrections {
            predictor: predictor.clone(),
            online: Online::new(predictor),
            late,
            predicted,
            gpus,
            seen: vec![0; groups],
        }
    }

    fn group(&self, model: ModelId, gpus: Option<Gpus>) -> GroupId {
        GroupId(model.0 * (self.gpus + 1) + gpus.map_or(0, |gpus| gpus.first.0 + 1))
    }

    /// The model on these GPUs, where it was seen to be another case there than anywhere else; else the model anywhere.
    fn nearest_group(&self, online: &Online, model: ModelId, gpus: Option<Gpus>) -> GroupId {
        let anywhere = self.group(model, None);
        let here = gpus.map(|_| self.group(model, gpus));
        here.filter(|&here| self.seen[here.0 as usize] >= ENOUGH && online.differs(here, anywhere))
            .unwrap_or(anywhere)
    }

    /// What was predicted of a task, as if its own time were the mean: where the request gave one, that is what the truth is
    /// compared with. `None` of a request that came in later and is not one of those that were predicted.
    fn told(&self, task: TaskId, own: Span) -> Option<Prediction> {
        let before = self.predicted.predictions.get(task.index())?;
        Some(times(before, own.seconds() / before.mean.max(1e-9)))
    }
}

impl Late {
    /// What is expected now of what was predicted before.
    fn expected(&self, model: ModelId, told: &Prediction) -> Prediction {
        times(told, self.histories[model.index()].factor(&self.memory))
    }
}

fn times(prediction: &Prediction, factor: f64) -> Prediction {
    Prediction { mean: prediction.mean * factor, scale: prediction.scale * factor, correction: 1.0 }
}

/// Learns what an execution of a group took; how far off its correction was.
fn observe(online: &mut Online, group: GroupId, told: Prediction, took: Span) -> f64 {
    let corrected = online.correct(group, told);
    online.observe(group, &corrected, took.seconds());
    (corrected.mean - took.seconds()).abs()
}

impl Learner for Corrections {
    fn observe(&mut self, _: &Instance, seen: &Observation) {
        let Some(told) = self.told(seen.task, seen.estimated) else { return };
        for gpus in [None, Some(seen.gpus)] {
            let group = self.group(seen.model, gpus);
            let without = observe(&mut self.online, group, told, seen.took);
            if let Some(late) = &mut self.late {
                let expected = late.expected(seen.model, &told);
                let with = observe(&mut late.online, group, expected, seen.took);
                let gain = &mut late.gains[seen.model.index()];
                *gain = *gain * LATELY + without - with;
            }
            self.seen[group.0 as usize] += 1;
        }
        if let Some(late) = &mut self.late {
            late.histories[seen.model.index()].add(seen.took.seconds(), told.mean, late.memory.newest);
        }
    }

    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief {
        let group = self.nearest_group(&self.online, model, gpus);
        Belief { factor: self.online.correction(group), spread: None }
    }

    fn estimate(&self, instance: &Instance, task: TaskId, gpus: Gpus) -> Estimate {
        let (own, model) = (instance.execution(task), instance.model_of(task));
        let Some(told) = self.told(task, own) else {
            return Estimate { mean: own, low: own, high: own };
        };
        let (online, told) = match &self.late {
            Some(late) if late.gains[model.index()] >= 0.0 => (&late.online, late.expected(model, &told)),
            _ => (&self.online, told),
        };
        let group = self.nearest_group(online, model, Some(gpus));
        let told = online.correct(group, told);
        let quantile = |p: f64| execution_span(online.quantile(&self.predictor, group, &told, p).max(0.0));
        let (low, high) = (quantile(TAIL), quantile(1.0 - TAIL));
        Estimate { mean: execution_span(told.mean.max(0.0)), low: low.min(high), high }
    }
}
