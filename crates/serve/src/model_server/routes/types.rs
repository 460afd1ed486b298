//! What the server's own endpoints are asked and answer.

use crate::fault::Fault;
use crate::model_server::devices::DeviceText;
use crate::model_server::registry::CameFrom;
use crate::openai::{Check, MAX_TOKENS, Stop, within};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most steps of a computation.
const MAX_STEPS: u32 = 100_000;

/// What is answered to what could be done.
#[derive(Debug, Serialize, ToSchema)]
pub struct Envelope<T> {
    /// `true`.
    pub success: bool,
    /// For people.
    pub message: String,
    /// What came of it.
    pub data: T,
}

impl<T> Envelope<T> {
    /// It was done.
    pub fn done(message: impl Into<String>, data: T) -> Envelope<T> {
        Envelope { success: true, message: message.into(), data }
    }
}

/// Where a model comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelSource {
    /// A hub with the layout of Hugging Face's.
    #[default]
    Huggingface,
}

/// Asks for a download.
#[derive(Debug, Deserialize, ToSchema)]
pub struct DownloadRequest {
    /// `OWNER/NAME`, as the hub has it.
    pub model_name: String,
    /// Where it comes from.
    pub source: Option<ModelSource>,
}

/// What came of a download.
#[derive(Debug, Serialize, ToSchema)]
pub struct DownloadData {
    /// The model.
    pub model_name: String,
    /// Its folder; null while it is on its way.
    #[schema(required)]
    pub model_path: Option<String>,
    /// Where it comes from.
    pub source: ModelSource,
    /// Whether it was there before.
    pub already_downloaded: bool,
    /// Whether it is still on its way.
    pub in_progress: bool,
    /// Whether the model only takes its time.
    pub emulated: bool,
}

/// Where a model is to be brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadTarget {
    /// Host memory.
    #[default]
    Dram,
}

/// Asks for a model to be brought into host memory.
#[derive(Debug, Deserialize, ToSchema)]
pub struct LoadRequest {
    /// The model.
    pub model_name: String,
    /// Where to.
    pub target: Option<LoadTarget>,
    /// Where it is to run later; only checked here.
    pub device: Option<DeviceText>,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoadData {
    /// The model.
    pub model_name: String,
    /// Where it is.
    pub target: LoadTarget,
    /// Its folder; an emulated model has none.
    #[schema(required)]
    pub model_path: Option<String>,
    /// Where it is to run.
    pub device: String,
    /// Whether it was there before.
    pub already_loaded: bool,
    /// Where it was before.
    pub came_from: CameFrom,
    /// What it took, in seconds.
    pub load_time: f64,
    /// Whether the model only takes its time.
    pub emulated: bool,
}

/// Asks for an instance.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ServeRequest {
    /// The model.
    pub model_name: String,
    /// Where it is to run: `auto` where nothing is said.
    pub device: Option<DeviceText>,
}

/// An instance.
#[derive(Debug, Serialize, ToSchema)]
pub struct InstanceData {
    /// Six letters and digits.
    pub instance_id: String,
    /// Its model.
    pub model_name: String,
    /// What sort of work it does.
    pub model_type: String,
    /// Where it runs.
    pub device: String,
    /// The same, one by one.
    pub devices: Vec<String>,
    /// Where calls go: the port of this server, which serves all instances.
    pub port: u16,
    /// The same as an address.
    pub url: String,
    /// The path that calls go to.
    pub endpoint: String,
    /// Where its weights were before it was started.
    pub came_from: CameFrom,
    /// Since when it serves.
    pub created_at: String,
    /// `serving`, or `stopping` while those who use it get their answers.
    pub state: String,
    /// Calls that are being worked on.
    pub running: usize,
    /// Calls that wait.
    pub waiting: usize,
    /// Whether it only takes its time.
    pub emulated: bool,
}

/// Where a model is to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OffloadTarget {
    /// Out of host memory.
    #[default]
    Disk,
    /// Back to host memory.
    Dram,
}

/// Asks for all instances of a model to be stopped.
#[derive(Debug, Deserialize, ToSchema)]
pub struct OffloadRequest {
    /// The model.
    pub model_name: String,
    /// Where it is to go.
    pub target: Option<OffloadTarget>,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub struct OffloadData {
    /// The model.
    pub model_name: String,
    /// Where it is.
    pub target: OffloadTarget,
    /// How many instances were stopped.
    pub instances_stopped: usize,
    /// Which.
    pub instance_ids: Vec<String>,
    /// Whether the model only takes its time.
    pub emulated: bool,
}

/// An instance that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedData {
    /// Which.
    pub instance_id: String,
    /// Its model.
    pub model_name: String,
    /// Where calls went.
    pub port: u16,
    /// Whether it only took its time.
    pub emulated: bool,
}

/// What a model is given.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
pub struct CallData {
    /// What is to be continued, embedded or painted.
    pub prompt: Option<String>,
    /// Most tokens of the answer; 64 where nothing is said.
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_tokens: Option<u32>,
    /// The same; `max_tokens` goes before it.
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_length: Option<u32>,
    /// The same; the other two go before it.
    #[schema(minimum = 1, maximum = 16777216)]
    pub max_new_tokens: Option<u32>,
    /// How freely tokens are drawn; 0, as where nothing is said, takes the likeliest.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Only the likeliest tokens with this share are drawn from.
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f64>,
    /// For every random choice.
    #[schema(minimum = 0, maximum = 4294967295_i64)]
    pub seed: Option<u32>,
    /// What ends the answer.
    pub stop: Option<Stop>,
    /// Steps of an image model.
    #[schema(minimum = 1, maximum = 100000)]
    pub steps: Option<u32>,
    /// How closely an image model follows the prompt.
    #[schema(minimum = 0, maximum = 1000)]
    pub guidance_scale: Option<f64>,
}

/// Calls an instance.
#[derive(Debug, Deserialize, ToSchema)]
pub struct CallRequest {
    /// The instance again; has to be the one of the path.
    pub instance_id: Option<String>,
    /// What it is given.
    pub data: CallData,
}

/// What came of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallAnswer {
    /// Which instance answered.
    pub instance_id: String,
    /// Its model.
    pub model_name: String,
    /// What sort of work it does.
    pub model_type: String,
    /// Where calls go.
    pub port: u16,
    /// The text of a language model, or what an emulated model has to say.
    #[schema(required)]
    pub response: Option<String>,
    /// The vector of an embedding model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Vec<f32>>,
    /// Where an image lies: emulated models paint none.
    #[schema(required)]
    pub image_path: Option<String>,
    /// Tokens of the prompt.
    #[schema(required)]
    pub prompt_tokens: Option<usize>,
    /// Tokens of the answer.
    #[schema(required)]
    pub new_tokens: Option<usize>,
    /// `stop` or `length`.
    #[schema(required)]
    pub finish_reason: Option<String>,
    /// What it took, in seconds; for emulated models those of the model, whatever the speed.
    pub execution_time: f64,
    /// Of which it waited for a place.
    pub waiting_time: f64,
    /// Whether nothing was computed.
    pub emulated: bool,
}

/// Asks how long a call would take.
#[derive(Debug, Deserialize, ToSchema)]
pub struct EstimateRequest {
    /// The model; has to be the instance's where the path names one.
    pub model_name: Option<String>,
    /// Where it would run.
    pub device: Option<DeviceText>,
    /// The instance; has to be the one of the path, where that has one.
    pub instance_id: Option<String>,
    /// What it would be given.
    #[serde(default)]
    pub data: CallData,
}

/// How long a call would take if it came now.
#[derive(Debug, Serialize, ToSchema)]
pub struct EstimateData {
    /// In seconds; for emulated models those of the model, whatever the speed.
    pub estimated_execution_time: f64,
    /// `seconds`.
    pub unit: String,
    /// The model.
    pub model_name: String,
    /// The instance that it was reckoned for, where there is one.
    #[schema(required)]
    pub instance_id: Option<String>,
    /// What sort of work it does.
    pub model_type: String,
    /// What it was reckoned from.
    pub data_features: DataFeatures,
    /// When.
    pub timestamp: String,
    /// Whether the model only takes its time.
    pub emulated: bool,
}

/// What an estimate was reckoned from.
#[derive(Debug, Serialize, ToSchema)]
pub struct DataFeatures {
    /// Tokens to be read.
    #[schema(required)]
    pub prompt_tokens: Option<usize>,
    /// Tokens to be written, if nothing ends the answer sooner.
    #[schema(required)]
    pub new_tokens: Option<usize>,
    /// Steps of an image model.
    #[schema(required)]
    pub steps: Option<u32>,
    /// How closely an image model follows the prompt.
    #[schema(required)]
    pub guidance_scale: Option<f64>,
}

impl CallData {
    /// Most tokens of the answer, by the names that backends know too (`MOST_TOKENS` of `gswarm_exec`), in their order: the same
    /// options of a node mean the same on every server.
    fn most_by_name(&self) -> [(&'static str, Option<u32>); 3] {
        [
            ("data.max_tokens", self.max_tokens),
            ("data.max_length", self.max_length),
            ("data.max_new_tokens", self.max_new_tokens),
        ]
    }

    /// Most tokens of the answer, where it is said.
    pub(super) fn most_tokens(&self) -> Option<u32> {
        self.most_by_name().into_iter().find_map(|(_, most)| most)
    }
}

impl Check for CallData {
    fn check(&self) -> Result<(), Fault> {
        for (name, most) in self.most_by_name() {
            within(name, most.map(f64::from), 1.0, f64::from(MAX_TOKENS))?;
        }
        within("data.temperature", self.temperature, 0.0, 2.0)?;
        within("data.top_p", self.top_p, 0.0, 1.0)?;
        within("data.steps", self.steps.map(f64::from), 1.0, f64::from(MAX_STEPS))?;
        within("data.guidance_scale", self.guidance_scale, 0.0, 1000.0)?;
        match self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.list().len() > 16 || stop.list().iter().any(String::is_empty))
        {
            true => Err(Fault::param("data.stop", "stop takes at most 16 strings, none of them empty")),
            false => Ok(()),
        }
    }
}

impl Check for CallRequest {
    fn check(&self) -> Result<(), Fault> {
        self.data.check()
    }
}

impl Check for EstimateRequest {
    fn check(&self) -> Result<(), Fault> {
        self.data.check()
    }
}

macro_rules! nothing_to_check {
    ($($name:ty),*) => {$(
        impl Check for $name {
            fn check(&self) -> Result<(), Fault> {
                Ok(())
            }
        }
    )*};
}
nothing_to_check!(DownloadRequest, LoadRequest, ServeRequest, OffloadRequest);
