//! Models that run in this process, on the CPU.

use super::{Busy, EmbedInput, EngineOutcome, Forecast, TextStream, fault, in_thread, seconds};
use crate::fault::Fault;
use gswarm_infer::{
    EmbeddingModel, EngineOptions, Error, GenerateRequest, InferenceEngine, LanguageModel, ModelKind, Prompt,
    Weights,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Bytes of text that a token has at the very most: longer texts need not be counted to be too long.
const BYTES_PER_TOKEN: usize = 64;

/// An instance of a model.
#[derive(Clone)]
pub enum EmbeddedEngine {
    /// A thread that generates for many calls at once.
    Language(Arc<InferenceEngine>),
    /// Embeds in threads, as many as there are places.
    Embedding(Arc<Embedder>),
}

/// An embedding model and its queue.
pub struct Embedder {
    model: EmbeddingModel,
    places: Semaphore,
    at_once: usize,
    inside: AtomicUsize,
    most: usize,
}

impl EmbeddedEngine {
    /// Starts an instance over weights that are in memory. Takes a moment: the pace is measured.
    pub fn start(weights: &Weights, options: EngineOptions) -> gswarm_infer::Result<EmbeddedEngine> {
        match weights.config().kind() {
            ModelKind::Language => {
                let engine = InferenceEngine::start(LanguageModel::from_weights(weights)?, options)?;
                Ok(EmbeddedEngine::Language(Arc::new(engine)))
            }
            ModelKind::Embedding => {
                let at_once = std::thread::available_parallelism().map_or(1, usize::from);
                Ok(EmbeddedEngine::Embedding(Arc::new(Embedder {
                    model: EmbeddingModel::from_weights(weights)?,
                    places: Semaphore::new(at_once),
                    at_once,
                    inside: AtomicUsize::new(0),
                    most: at_once + options.max_waiting,
                })))
            }
        }
    }

    /// What it is doing.
    pub fn busy(&self) -> Busy {
        match self {
            EmbeddedEngine::Language(engine) => {
                let load = engine.load();
                Busy { running: load.running, waiting: load.waiting }
            }
            EmbeddedEngine::Embedding(embedder) => {
                let inside = embedder.inside.load(Ordering::Relaxed);
                let running = inside.min(embedder.at_once);
                Busy { running, waiting: inside - running }
            }
        }
    }

    /// Begins a text.
    pub async fn generate(&self, request: GenerateRequest) -> Result<TextStream, Fault> {
        let engine = self.language()?;
        check_length(&request, engine.options().max_context)?;
        // Reading a prompt into tokens takes a processor's time.
        let completion = in_thread(move || engine.submit(&request)).await?;
        Ok(TextStream::Embedded(completion))
    }

    /// Vectors of texts.
    pub async fn embed(&self, input: EmbedInput) -> Result<EngineOutcome, Fault> {
        let EmbeddedEngine::Embedding(embedder) = self else { return Err(no_embedding()) };
        let embedder = Arc::clone(embedder);
        if let EmbedInput::Texts(texts) = &input {
            embedder.check_length(texts)?;
        }
        let _inside = Inside::enter(&embedder)?;
        let start = Instant::now();
        let _place = embedder.places.acquire().await.map_err(|_| fault(Error::Stopped))?;
        let model = embedder.model.clone();
        let embed = move || match input {
            EmbedInput::Texts(texts) => model.embed(&texts),
            EmbedInput::Tokens(texts) => model.embed_tokens(&texts),
        };
        let done = in_thread(embed).await?;
        Ok(EngineOutcome { vectors: done.vectors, tokens: done.tokens, seconds: seconds(start.elapsed()) })
    }

    /// The tokens of a text, and how many the model can hold.
    pub async fn tokenize(&self, text: String) -> Result<(Vec<u32>, usize), Fault> {
        match self.clone() {
            EmbeddedEngine::Language(engine) => {
                let most = engine.options().max_context;
                let tokens = in_thread(move || engine.model().tokenizer().encode(&text, true)).await?;
                Ok((tokens, most))
            }
            EmbeddedEngine::Embedding(embedder) => {
                let most = embedder.model.config().max_positions;
                Ok((in_thread(move || embedder.model.tokenizer().encode(&text, true)).await?, most))
            }
        }
    }

    /// How long a text would take if it came now.
    pub async fn forecast_text(&self, request: GenerateRequest) -> Result<Forecast, Fault> {
        let engine = self.language()?;
        check_length(&request, engine.options().max_context)?;
        let found = in_thread(move || engine.estimate(&request)).await?;
        let (prompt_tokens, new_tokens) = (Some(found.prompt_tokens), Some(found.new_tokens));
        Ok(Forecast { seconds: found.seconds, prompt_tokens, new_tokens })
    }

    /// How long vectors would take if the texts came now.
    pub async fn forecast_embedding(&self, texts: Vec<String>) -> Result<Forecast, Fault> {
        let EmbeddedEngine::Embedding(embedder) = self else { return Err(no_embedding()) };
        embedder.check_length(&texts)?;
        let model = embedder.model.clone();
        let found = in_thread(move || model.estimate(&texts)).await?;
        // Those before it have to end first, one place each.
        let ahead = self.busy().waiting as f64 / embedder.at_once as f64;
        let seconds = found.seconds * (1.0 + ahead);
        Ok(Forecast { seconds, prompt_tokens: Some(found.prompt_tokens), new_tokens: None })
    }

    fn language(&self) -> Result<Arc<InferenceEngine>, Fault> {
        match self {
            EmbeddedEngine::Language(engine) => Ok(Arc::clone(engine)),
            EmbeddedEngine::Embedding(_) => Err(Fault::invalid("an embedding model does not generate text")),
        }
    }
}

fn no_embedding() -> Fault {
    Fault::invalid("a language model does not make embeddings")
}

/// Refuses what is too long whatever its tokens are, before anybody counts them.
fn check_length(request: &GenerateRequest, max_context: usize) -> Result<(), Fault> {
    let (length, most) = match &request.prompt {
        Prompt::Text(text) => (text.len(), max_context * BYTES_PER_TOKEN),
        Prompt::Chat(chat) => {
            (chat.messages.iter().map(|message| message.content.len()).sum(), max_context * BYTES_PER_TOKEN)
        }
        Prompt::Tokens(tokens) => (tokens.len(), max_context),
    };
    match length > most {
        true => {
            let message =
                format!("This model's maximum context length is {max_context} tokens: the prompt is longer");
            Err(Fault { code: "context_length_exceeded", ..Fault::invalid(message) })
        }
        false => Ok(()),
    }
}

impl Embedder {
    fn check_length(&self, texts: &[String]) -> Result<(), Fault> {
        let most = self.model.config().max_positions;
        match texts.iter().position(|text| text.len() > most * BYTES_PER_TOKEN) {
            Some(at) => Err(Fault::invalid(format!("text {at} is too long: the model takes {most} tokens"))),
            None => Ok(()),
        }
    }
}

/// Counts a call as long as it lasts.
struct Inside<'e>(&'e Embedder);

impl<'e> Inside<'e> {
    fn enter(embedder: &'e Embedder) -> Result<Inside<'e>, Fault> {
        let one_more = |inside: usize| (inside < embedder.most).then_some(inside + 1);
        match embedder.inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Inside(embedder)),
            Err(inside) => Err(fault(Error::Full { waiting: inside - embedder.at_once })),
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}
