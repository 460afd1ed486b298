//! A predictor at work in a run: what it says of every node of a scenario, and what it learns as executions end.

use crate::model::{GroupId, Online, Prediction, Predictor, Rows};
use crate::nodes::{History, NodeEncoder};
use gswarm_core::belief::{Belief, Estimate, Learner, Observation, TAIL};
use gswarm_core::cost::execution_span;
use gswarm_core::input::{Diagnostic, RequestSpec, Scenario};
use gswarm_core::{Gpus, Instance, ModelId, Span};
use std::sync::Arc;

/// What a predictor says of all nodes of a scenario, by the number of the task.
#[derive(Clone, Debug)]
pub struct Predicted {
    predictions: Vec<Prediction>,
    estimates: Vec<Estimate>,
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
        Ok(Predicted { estimates: predictions.iter().map(estimate).collect(), predictions })
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
    online: Online,
    predicted: Arc<Predicted>,
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
        Corrections { online: Online::new(predictor), predicted, gpus, seen: vec![0; groups] }
    }

    fn group(&self, model: ModelId, gpus: Option<Gpus>) -> GroupId {
        GroupId(model.0 * (self.gpus + 1) + gpus.map_or(0, |gpus| gpus.first.0 + 1))
    }
}

impl Learner for Corrections {
    fn observe(&mut self, _instance: &Instance, seen: &Observation) {
        // A request that came in later is not one of those that were predicted.
        let Some(&asked) = self.predicted.predictions.get(seen.task.index()) else { return };
        // Where the request gave its own time, that is what the truth is compared with.
        let own = seen.estimated.seconds();
        let told = Prediction { mean: own, scale: asked.scale * own / asked.mean.max(1e-9), correction: 1.0 };
        for gpus in [None, Some(seen.gpus)] {
            let group = self.group(seen.model, gpus);
            let told = self.online.correct(group, told);
            self.online.observe(group, &told, seen.took.seconds());
            self.seen[group.0 as usize] += 1;
        }
    }

    fn belief(&self, model: ModelId, gpus: Option<Gpus>) -> Belief {
        let here =
            gpus.map(|_| self.group(model, gpus)).filter(|group| self.seen[group.0 as usize] >= ENOUGH);
        let group = here.unwrap_or_else(|| self.group(model, None));
        Belief { factor: self.online.correction(group), spread: None }
    }
}
