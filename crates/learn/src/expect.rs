//! What a run is told to expect of run times, and what is true: predictors, noise, drift and learning, put together.

use crate::beliefs::{Corrections, Predicted};
use crate::model::Predictor;
use gswarm_core::Instance;
use gswarm_core::belief::{Estimate, Learner, Recent};
use gswarm_core::input::{Diagnostic, Scenario};
use gswarm_core::truth::{Drift, Noise, TrueTimes, Truth, TruthSpec};
use std::sync::Arc;

/// A predictor that was read, and what it says of a problem.
#[derive(Debug)]
pub struct PredictorSource {
    /// Its file, as the log names it.
    pub name: String,
    /// Its file's content.
    pub bytes: Vec<u8>,
    predictor: Predictor,
    predicted: Arc<Predicted>,
}

impl PredictorSource {
    /// A predictor from the content of its file.
    pub fn read(
        name: String,
        bytes: Vec<u8>,
        scenario: &Scenario,
    ) -> Result<PredictorSource, Vec<Diagnostic>> {
        let predictor = Predictor::from_bytes(&name, &bytes)?;
        let predicted = Predicted::of(&name, &predictor, scenario)?;
        Ok(PredictorSource { name, bytes, predictor, predicted: Arc::new(predicted) })
    }

    /// What it says of each task.
    pub fn estimates(&self) -> &[Estimate] {
        self.predicted.estimates()
    }

    /// Has `instance` believe it, of nodes whose requests give no time; or of all.
    pub fn tell(&self, scenario: &Scenario, instance: &mut Instance, all: bool) {
        instance.believe_predicted(scenario, self.estimates(), all);
    }
}

/// Whether the requests leave nothing for a predictor to say.
pub fn all_timed(scenario: &Scenario) -> bool {
    scenario.given_times().all(|time| time.is_some())
}

/// What a run is to expect, and to meet.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// What true times are drawn around the estimates by.
    pub noise: Option<Noise>,
    /// What changes on the way.
    pub drift: Vec<Drift>,
    /// What is true where a predictor is used.
    pub truth: Option<TrueTimes>,
    /// Whether to learn from what executions take.
    pub learn: bool,
    /// Whether policies know the means only, and not how far off they may be.
    pub means_only: bool,
}

/// What comes of it.
#[derive(Clone, Debug, Default)]
pub struct Beliefs {
    /// How true times come about, where they are not the estimates.
    pub spec: Option<TruthSpec>,
    /// The true times.
    pub truth: Truth,
    /// Whether to learn.
    pub learn: bool,
    /// What predicted the estimates.
    pub source: Option<Arc<PredictorSource>>,
    /// A predictor that was named, and not asked: the requests give every node a time.
    pub unused: Option<String>,
}

impl Expectations {
    /// Has a problem expect it.
    pub fn apply(
        &self,
        source: Option<PredictorSource>,
        scenario: &Scenario,
        instance: &mut Instance,
        seed: u64,
    ) -> Result<Beliefs, String> {
        let times = self.truth.unwrap_or_default();
        let used = times == TrueTimes::Requests || !all_timed(scenario);
        let unused = source.as_ref().filter(|_| !used).map(|source| source.name.clone());
        let source = source.filter(|_| used).map(Arc::new);
        let given = (times == TrueTimes::Requests).then(|| instance.clone());
        if let Some(source) = &source {
            source.tell(scenario, instance, times == TrueTimes::Requests);
        }
        let spec = TruthSpec { noise: self.noise, seed, drift: self.drift.clone(), times };
        let truth = Truth::new(&spec, instance, given.as_ref().unwrap_or(instance))?;
        if let Some(noise) = self.noise.filter(|_| !self.means_only) {
            instance.models.iter_mut().for_each(|model| model.spread = noise.sigma());
        }
        let spec = (!truth.is_estimate()).then_some(spec);
        Ok(Beliefs { spec, truth, learn: self.learn, source, unused })
    }
}

impl Beliefs {
    /// The name of what predicted the estimates.
    pub fn predictor(&self) -> Option<String> {
        self.source.as_ref().map(|source| source.name.clone())
    }

    /// Who watches what executions take.
    pub fn learner(&self, instance: &Instance) -> Option<Box<dyn Learner>> {
        if !self.learn {
            return None;
        }
        Some(match &self.source {
            Some(source) => {
                Box::new(Corrections::new(&source.predictor, Arc::clone(&source.predicted), instance))
            }
            None => Box::new(Recent::new()),
        })
    }
}
