//! Inference on the CPU: decoder language models and embedding models in Hugging Face layout (`config.json`,
//! `tokenizer.json`, `model.safetensors`), from a local folder.
//!
//! A model goes through three stages, each a type of its own:
//!
//! 1. on disk: [`Store`] is a folder of models, [`ModelFolder`] one of them;
//! 2. in host memory: [`Weights`] holds its tensors and its tokenizer, and counts their bytes;
//! 3. serving: [`LanguageModel`] under an [`InferenceEngine`], which batches requests as they come, or [`EmbeddingModel`].
//!
//! Instances made from the same [`Weights`] share the tensors, which nobody changes; what an instance has of its own are
//! its thread, its queue and the key-value caches of what it is generating.
//!
//! A request gets the same tokens whatever shares its batch, bit for bit: `linear.rs` says how.
//!
//! ```no_run
//! use gswarm_infer::{InferenceEngine, EngineOptions, GenerateRequest, LanguageModel, Store, Weights};
//!
//! # fn main() -> Result<(), gswarm_infer::Error> {
//! let store = Store::open("models")?;
//! let weights = Weights::load(store.model("tiny-llm")?.path())?;
//! let engine = InferenceEngine::start(LanguageModel::from_weights(&weights)?, EngineOptions::default())?;
//! let answer = engine.submit(&GenerateRequest::text("Once upon a time"))?.wait()?;
//! println!("{}", answer.text);
//! # Ok(())
//! # }
//! ```

mod config;
mod decoder;
mod encoder;
mod engine;
mod error;
mod files;
mod form;
pub mod init;
mod linear;
mod rates;
mod request;
mod sample;
mod store;
mod text;
mod weights;

pub use config::{DecoderConfig, EncoderConfig, ModelConfig, ModelKind};
pub use decoder::{LanguageModel, Sequence};
pub use encoder::{EmbeddingModel, Embeddings};
pub use engine::{EngineLoad, EngineOptions, InferenceEngine};
pub use error::{Error, Result};
pub use form::AnswerForm;
pub use rates::TimeEstimate;
pub use request::{
    FinishReason, FinishedGeneration, GenerateRequest, GenerationEvent, Prompt, RunningCompletion,
    SamplingTuning, TokenChance,
};
pub use store::{ModelFolder, Store, StoreEntry};
pub use text::apart::{render_chats, render_chats_with};
pub use text::chat::{Chat, ChatTemplate, Message};
pub use text::tokenizer::{TextTokenizer, is_panic_expected};
pub use weights::Weights;
