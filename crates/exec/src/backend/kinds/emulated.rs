//! A backend that only takes its time: loads take what the cost rules say, calls what their estimates say, and calls that
//! share a replica slow one another down by the model's curve. For trying a cluster of any size on a laptop.

use super::adapter::*;
use crate::backend::sharing::SharedReplica;
use crate::clock::Clock;
use gswarm_core::{ModelId, Span};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

described! {
    /// Settings of `emulated` servers.
    pub struct EmulatedSpec {
        /// How many times faster than real time. All servers of a run have the same speed, which is 1 for those that are not
        /// emulated.
        pub speed: f64 = 1.0, Shape::Number(positive(1e6, ""));
    }
}

impl ServerKind for EmulatedSpec {
    const ABOUT: KindInfo = KindInfo {
        name: "emulated",
        reach: Reach::Nowhere,
        fields: EmulatedSpec::FIELDS,
        defaults: EmulatedSpec::defaults,
        protocol: ["waiting", "nothing", "everything", "waiting: [live.md](live.md)"],
        example: r#"Emulated servers, for trying a cluster of any size on a laptop, 100 times faster than real time:
```yaml
backends:
  - {kind: emulated, speed: 100}
```"#,
    };

    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
        let slowdown = link.models.iter().map(|model| model.slowdown.clone()).collect();
        Ok(Arc::new(EmulatedBackend::new(link.clock.clone(), slowdown)))
    }
}

/// Servers that exist only in time.
pub struct EmulatedBackend {
    clock: Clock,
    /// Slowdown per batch size in millionths, by model.
    slowdown: Vec<Vec<u32>>,
    replicas: Mutex<FxHashMap<Replica, Arc<SharedReplica>>>,
}

impl EmulatedBackend {
    /// For models with these slowdowns (see [`gswarm_core::instance::Model::slowdown`]), by model.
    #[must_use]
    pub fn new(clock: Clock, slowdown: Vec<Vec<u32>>) -> EmulatedBackend {
        EmulatedBackend { clock, slowdown, replicas: Mutex::default() }
    }

    fn company(&self, replica: Replica) -> Arc<SharedReplica> {
        let slowdown = &self.slowdown[replica.model.index()];
        let new = || Arc::new(SharedReplica::new(self.clock.clone(), slowdown.clone()));
        Arc::clone(locked(&self.replicas).entry(replica).or_insert_with(new))
    }
}

/// A vector of length one that is the same for the same text and means nothing.
fn stand_in(text: &str) -> Vec<f64> {
    let angle = |number: u64| (FxBuildHasher.hash_one((text, number)) >> 11) as f64;
    let raw: Vec<f64> = (0..8).map(|number| angle(number).sin()).collect();
    let length = raw.iter().map(|value| value * value).sum::<f64>().sqrt();
    raw.iter().map(|value| value / length).collect()
}

#[async_trait::async_trait]
impl Backend for EmulatedBackend {
    async fn load(&self, _replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.clock.sleep(expected).await;
        Ok(())
    }

    async fn unload(&self, _replica: Replica) -> Result<(), BackendError> {
        // What taking a model off costs is part of what bringing the next one costs.
        Ok(())
    }

    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        if self.slowdown[replica.model.index()].len() == 1 {
            self.clock.sleep(call.estimate).await;
        } else {
            self.company(replica).share(call.estimate).await;
        }
        let mut answer = json!({"emulated": true, "call": call.name});
        if Wants::of(call) == Wants::Embedding {
            let prompt = call.prompt();
            // Words stand for tokens.
            let tokens = prompt.split_whitespace().count().max(1);
            answer["embedding"] = json!(stand_in(&prompt));
            answer["usage"] = json!({"prompt_tokens": tokens, "total_tokens": tokens});
        }
        Ok(answer)
    }

    fn abilities(&self, _model: ModelId) -> CallAbilities {
        CallAbilities::of(Dialect::Emulated)
    }

    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}
