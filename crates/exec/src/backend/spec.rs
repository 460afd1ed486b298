//! The servers of a cluster, as a file describes them.

use super::field::{Described, Field, Shape, described};
use super::kinds::{BackendKind, ServerSpec};
use gswarm_core::input::MAX_GPUS;
use gswarm_core::input::document::positive;
use gswarm_core::time::MAX_SECONDS;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The servers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackendsFile {
    /// In order of preference, where several could serve.
    pub backends: Vec<BackendSpec>,
}

impl BackendsFile {
    /// The same, with the output of programs that are started in a folder of this one, unless the file says where.
    #[must_use]
    pub fn logging_to(&self, folder: &Path) -> BackendsFile {
        let mut file = self.clone();
        for backend in &mut file.backends {
            if let ServerSpec::Command(command) = &mut backend.server {
                command.logs.get_or_insert_with(|| folder.join("servers").display().to_string());
            }
        }
        file
    }
}

/// One server, or several that are one to the scheduler because they share GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendSpec {
    /// What messages call it; its kind where none is given.
    pub name: Option<String>,
    /// Its GPUs, as the cluster numbers them: `3`, or `0-7`; all of them where none are given.
    pub gpus: Option<String>,
    /// The models that it serves, by their names in the configuration; all of them, under their own names, where none
    /// are given.
    pub models: BTreeMap<String, ModelAt>,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// Its kind, with the settings that only this kind has.
    pub server: ServerSpec,
}

/// A model as a server knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelAt {
    /// Its name there; the same as in the configuration where none is given.
    pub name: Option<String>,
    /// Where it listens, if it has a server of its own.
    pub url: Option<String>,
}

/// The fields of every server.
pub const COMMON: &[Field] = &[
    field("kind", Shape::Name, "One of the kinds above."),
    field("name", Shape::Text, "What messages call the server. Defaults to its kind."),
    field("gpus", Shape::Gpus, "Its GPUs, as the cluster numbers them: `3`, or `0-7`. Defaults to all."),
    field(
        "models",
        Shape::Models,
        "The models that it serves, each with its name there (`llm7b: \"org/llama-7b\"`) or as `{as: NAME, url: ADDRESS}`. Defaults to all models, under their own names. `url` is for kinds with an address for each model: see the examples.",
    ),
    field("description", Shape::Text, "Ignored."),
];

const fn field(name: &'static str, shape: Shape, help: &'static str) -> Field {
    Field { name, shape, required: None, help }
}

described! {
    /// How a server is reached.
    pub struct Endpoint {
        /// Where it listens, without `/v1`.
        pub url: Option<String> = None, Shape::Address;
        /// The environment variable that holds its token. The token is sent as `Authorization: Bearer`. It is not kept in the
        /// journal and is removed from messages.
        pub token_env: Option<String> = None, Shape::Name;
        /// Time limits in seconds.
        pub timeouts: Timeouts = Timeouts::default(), Shape::Fields(Timeouts::FIELDS);
    }
}

described! {
    /// Time limits in seconds; the driver of a run has limits of its own beside them.
    pub struct Timeouts {
        /// until a connection stands
        pub connect: f64 = 5.0, SECONDS;
        /// until a question about its state is answered; a server that takes longer counts as gone, so raise it for servers
        /// that do not answer while they compute
        pub answer: f64 = 30.0, SECONDS;
        /// until a model can be called
        pub load: f64 = 600.0, SECONDS;
        /// until a model is gone
        pub unload: f64 = 60.0, SECONDS;
    }
}

const SECONDS: Shape = Shape::Number(positive(MAX_SECONDS, " s"));

/// How text models are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Calls {
    /// As a conversation, with the model's template.
    #[default]
    Chat,
    /// As a text to continue, for models that have no template.
    Completions,
}

impl Calls {
    /// The words for it in files.
    pub const SHAPE: Shape = Shape::Choice(&["chat", "completions"]);
}

/// At which addresses a kind of server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// At none: nothing is asked.
    Nowhere,
    /// At ports that gswarm chooses when it starts the server.
    Started,
    /// At one address.
    One,
    /// At one address, or one for each model.
    OneOrEach,
    /// At one address for each model: a server holds one model.
    Each,
}

/// A kind of server, as files and the documentation describe it.
pub struct KindInfo {
    /// As files spell it.
    pub name: &'static str,
    /// At which addresses it is reached.
    pub reach: Reach,
    /// The fields that not all kinds have, and that are not about how it is reached.
    pub fields: &'static [Field],
    /// What is used for those that are left out.
    pub defaults: fn() -> Value,
    /// In Markdown: what a load is, an unload, where the state of a model is read, and what a call is.
    pub protocol: [&'static str; 4],
    /// In Markdown: a sentence, and a file of servers.
    pub example: &'static str,
}

impl BackendKind {
    /// As files spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// Whether one process holds one model, so that each model has an address of its own.
    #[must_use]
    pub fn holds_one_model(self) -> bool {
        self.about().reach == Reach::Each
    }

    /// The fields of such a server that not all kinds have.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let about = self.about();
        let reached = Endpoint::FIELDS.iter().filter(move |field| match about.reach {
            Reach::Nowhere => false,
            Reach::Started => field.name != "url",
            Reach::One | Reach::OneOrEach | Reach::Each => true,
        });
        reached.chain(about.fields)
    }

    /// The kinds that have a field.
    pub fn having(field: &str) -> impl Iterator<Item = BackendKind> {
        BackendKind::ALL.iter().copied().filter(move |kind| kind.fields().any(|one| one.name == field))
    }
}

impl BackendSpec {
    /// A server of a kind, with the defaults of all fields.
    #[must_use]
    pub fn of(kind: BackendKind) -> BackendSpec {
        BackendSpec::with(ServerSpec::of(kind))
    }

    /// A server with settings of its kind, and the defaults of all other fields.
    #[must_use]
    pub fn with(server: impl Into<ServerSpec>) -> BackendSpec {
        let (name, gpus, models) = (None, None, BTreeMap::new());
        BackendSpec { name, gpus, models, endpoint: Endpoint::default(), server: server.into() }
    }

    /// What messages call it.
    #[must_use]
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.server.kind().name().to_owned())
    }
}

/// The first and the last of the GPUs that a text names, if it names any.
#[must_use]
pub fn gpu_range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < MAX_GPUS).then_some((first, last))
}
