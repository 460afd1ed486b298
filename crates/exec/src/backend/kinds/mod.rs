//! The kinds of servers. To add one: write its adapter with its settings in a file of this folder, and its two lines here.

mod command;
mod emulated;
pub mod gswarm;
mod kserve;
mod llamacpp;
mod ollama;
mod openai;
mod sglang;
mod vllm;

pub use emulated::EmulatedBackend;
pub use gswarm::InstanceDevice;

use super::Backend;
use super::connect::ServerLink;
use super::read::GivenFields;
use super::spec::KindInfo;
use gswarm_core::input::document::Faults;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What adapters use: `use super::adapter::*`.
mod adapter {
    pub(super) use super::ServerKind;
    pub(super) use crate::backend::abilities::{CallAbilities, Dialect};
    pub(super) use crate::backend::answer::is_whole;
    pub(super) use crate::backend::api::ServedModel;
    pub(super) use crate::backend::api::{Api, Brought, Held, ModelState, WeightTier};
    pub(super) use crate::backend::connect::ServerLink;
    pub(super) use crate::backend::field::{Described, Shape, described};
    pub(super) use crate::backend::http::{Http, HttpLimits, brief, escaped, field};
    pub(super) use crate::backend::managed::locked;
    pub(super) use crate::backend::openai::{
        MOST_TOKENS, Servers, Wants, call_openai, listed, settings, vector, with_promised_usage,
    };
    pub(super) use crate::backend::preflight::{Preflight, lists_openai, sleeps};
    pub(super) use crate::backend::spec::{Calls, KindInfo, Reach};
    pub(super) use crate::backend::{Backend, BackendError, Replica};
    pub(super) use crate::call::Call;
    pub(super) use futures_util::future::join_all;
    pub(super) use gswarm_core::Gpus;
    pub(super) use gswarm_core::input::Code;
    pub(super) use gswarm_core::input::document::{not_negative, positive};
    pub(super) use serde_json::{Map, Value, json};
    pub(super) use std::collections::{BTreeMap, BTreeSet};
    pub(super) use std::sync::{Arc, Mutex};
    pub(super) use std::time::{Duration, Instant};
}

/// The settings of one kind of server.
pub trait ServerKind {
    /// The kind.
    const ABOUT: KindInfo;

    /// Reports what is wrong with the settings beyond what their description says.
    fn check(&self, _given: &GivenFields<'_>, _faults: &mut Faults) {}

    /// The server, ready to be called; nothing is sent to it yet.
    fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String>;
}

/// All kinds, in the order in which messages and the documentation list them.
macro_rules! registry {
    ($($kind:ident($module:ident::$spec:ident),)*) => {
        $(pub use $module::$spec;)*

        /// The kinds of servers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum BackendKind {
            $(#[doc = concat!("See [`", stringify!($spec), "`].")] $kind,)*
        }

        impl BackendKind {
            /// Every kind.
            pub const ALL: &'static [BackendKind] = &[$(BackendKind::$kind,)*];

            /// What files and the documentation say of it.
            #[must_use]
            pub fn about(self) -> &'static KindInfo {
                match self {
                    $(BackendKind::$kind => &<$spec as ServerKind>::ABOUT,)*
                }
            }
        }

        /// A server's kind with the settings that only this kind has.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum ServerSpec {
            $(#[doc = concat!("See [`", stringify!($spec), "`].")] $kind($spec),)*
        }

        impl ServerSpec {
            /// The defaults of a kind.
            #[must_use]
            pub fn of(kind: BackendKind) -> ServerSpec {
                match kind {
                    $(BackendKind::$kind => ServerSpec::$kind($spec::default()),)*
                }
            }

            /// The settings of a kind from the values of its fields.
            pub fn from_fields(kind: BackendKind, fields: Map<String, Value>) -> serde_json::Result<ServerSpec> {
                let fields = Value::Object(fields);
                match kind {
                    $(BackendKind::$kind => serde_json::from_value(fields).map(ServerSpec::$kind),)*
                }
            }

            /// The kind.
            #[must_use]
            pub fn kind(&self) -> BackendKind {
                match self {
                    $(ServerSpec::$kind(_) => BackendKind::$kind,)*
                }
            }

            pub(super) fn check(&self, given: &GivenFields<'_>, faults: &mut Faults) {
                match self {
                    $(ServerSpec::$kind(spec) => spec.check(given, faults),)*
                }
            }

            pub(super) fn connect(&self, link: ServerLink<'_>) -> Result<Arc<dyn Backend>, String> {
                match self {
                    $(ServerSpec::$kind(spec) => spec.connect(link),)*
                }
            }
        }

        $(impl From<$spec> for ServerSpec {
            fn from(spec: $spec) -> ServerSpec {
                ServerSpec::$kind(spec)
            }
        })*
    };
}

registry! {
    Emulated(emulated::EmulatedSpec),
    Gswarm(gswarm::GswarmSpec),
    OpenAi(openai::OpenAiSpec),
    Vllm(vllm::VllmSpec),
    Sglang(sglang::SglangSpec),
    Ollama(ollama::OllamaSpec),
    LlamaCpp(llamacpp::LlamaCppSpec),
    KServe(kserve::KServeSpec),
    Command(command::CommandSpec),
}
