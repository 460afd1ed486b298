//! The trait of adapters: how to query one kind of server. The common rules are in [`super::managed`].

use super::BackendError;
use super::abilities::{CallAbilities, Dialect};
use super::http::{ForwardResult, Http};
use super::preflight::Preflight;
use crate::call::Call;
use crate::forward::{Forward, Relay};
use gswarm_core::{Gpus, ModelId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// A model as its server knows it.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// Its name there.
    pub name: String,
    /// What its weights take by the configuration, in GB.
    pub memory_gb: f64,
}

/// Where a model stands.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelState {
    /// It is not there.
    Absent,
    /// It is on its way, or leaving: neither can be called or told to go.
    Moving,
    /// It can be called.
    There,
    /// It is there in parts, takes memory, and cannot be used as it is; and why.
    Broken(String),
    /// It is not there because its load failed; and why.
    Failed(String),
}

/// What a server holds, or several that are one to the scheduler.
#[derive(Debug, Default, PartialEq)]
pub struct Held {
    /// By their handles.
    pub handles: Vec<String>,
    /// Those of several servers that do not answer, and why: what they hold is not known.
    pub silent: BTreeMap<String, String>,
}

impl Held {
    /// What several servers say together, by their names. One that says nothing of use is as silent as one that does not
    /// answer. They are gone where none of them answers.
    pub fn of(
        said: impl IntoIterator<Item = (String, Result<Vec<String>, BackendError>)>,
    ) -> Result<Held, BackendError> {
        let (mut held, mut somebody_answers, mut unwell) = (Held::default(), false, None);
        for (name, said) in said {
            match said {
                Ok(handles) => {
                    somebody_answers = true;
                    held.handles.extend(handles);
                }
                Err(BackendError::Gone(why)) => drop(held.silent.insert(name, why)),
                Err(error) => {
                    held.silent.insert(name, error.to_string());
                    unwell = unwell.or(Some(error));
                }
            }
        }
        match (held.silent.first_key_value(), unwell) {
            (Some((_, why)), None) if !somebody_answers => Err(BackendError::Gone(why.clone())),
            (Some(_), Some(error)) if !somebody_answers => Err(error),
            _ => Ok(held),
        }
    }
}

impl FromIterator<String> for Held {
    fn from_iter<I: IntoIterator<Item = String>>(handles: I) -> Held {
        Held { handles: handles.into_iter().collect(), silent: BTreeMap::new() }
    }
}

/// Where weights come from, or go, for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightTier {
    /// Disk, as far as anybody knows.
    Disk,
    /// The memory of the host.
    Host,
    /// They were on the device already.
    Device,
}

impl WeightTier {
    /// `disk`, `host` or `device`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WeightTier::Disk => "disk",
            WeightTier::Host => "host",
            WeightTier::Device => "device",
        }
    }
}

/// A model that a server was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Brought {
    /// What it is known by from now on: its name, or whatever the server calls it.
    pub handle: String,
    /// Where its weights come from, where the server tells that of each load; else it is the server's [tier](Api::tier).
    pub tier: Option<WeightTier>,
}

impl<H: Into<String>> From<H> for Brought {
    fn from(handle: H) -> Brought {
        Brought { handle: handle.into(), tier: None }
    }
}

/// What a load or an unload took.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTime {
    /// Which.
    pub model: ModelId,
    /// Where.
    pub gpus: Gpus,
    /// Whether it was a load.
    pub load: bool,
    /// Where the weights came from, or went.
    pub tier: WeightTier,
    /// In seconds.
    pub seconds: f64,
}

/// Who is told what loads and unloads took.
pub type LoadRecorder = Arc<dyn Fn(&LoadTime) + Send + Sync>;

/// How a server is asked. A model that was brought is known by its handle from then on.
#[async_trait::async_trait]
pub trait Api: Send + Sync {
    /// Whether models go to the GPUs that are named. Otherwise a server holds a model once, wherever it likes.
    fn places(&self) -> bool {
        false
    }

    /// Whether models cannot be told to go: then nothing is done, and nothing is expected of it.
    fn keeps_all(&self) -> bool {
        false
    }

    /// Whether the server of this model is one of several, and none of the others is worse off without it: where it falls,
    /// only what needs it waits until it is back, or is brought again.
    fn is_one_of_many(&self, _handle: &str) -> bool {
        false
    }

    /// Where weights are while their model is not there.
    fn tier(&self) -> WeightTier {
        WeightTier::Disk
    }

    /// Asks for a model; it may come later. `gpus` are those that the server [can be told](Api::places).
    async fn bring(&self, name: &str, gpus: Gpus) -> Result<Brought, BackendError>;

    /// Asks for it to go; it may go later.
    async fn release(&self, handle: &str) -> Result<(), BackendError>;

    /// Where it stands.
    async fn look(&self, handle: &str) -> Result<ModelState, BackendError>;

    /// All that is there, is coming or is going.
    async fn held(&self) -> Result<Held, BackendError>;

    /// What is wrong with it, asked before anything is loaded. These models of it are used.
    async fn preflight(&self, _wanted: &[ServedModel]) -> Preflight {
        super::preflight::of_any(self).await
    }

    /// Somebody who called at `asked` was told that the model is not there, whatever was believed of it. For those whose
    /// servers do not tell where their models stand.
    fn denied(&self, _handle: &str, _asked: Instant) {}

    /// Calls it.
    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError>;

    /// Where requests in the form of the OpenAI API can be passed on to, and what the model is called there.
    fn passes_on(&self, _handle: &str) -> Option<(Http, String)> {
        None
    }

    /// What can be done with such requests for a model, by its name there.
    fn abilities(&self, _name: &str) -> CallAbilities {
        CallAbilities::of(Dialect::OpenAi)
    }

    /// The file with what the process that serves a model said last, by the model's name there.
    fn output(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Passes a request in the form of the OpenAI API on, and its answer back as it comes.
    async fn forward(
        &self,
        handle: &str,
        forward: &Forward,
        relay: &mut Relay,
    ) -> Result<ForwardResult, BackendError> {
        match self.passes_on(handle) {
            Some((http, name)) => http.pass_on(forward, &name, relay).await,
            None => Ok(ForwardResult::Unknown),
        }
    }
}
