//! The OpenAI-compatible endpoints, over the same instances.

use super::call::{finished, reason};
use super::stream::{self, Choice};
use crate::fault::{Fault, OpenAiError, OpenAiFault};
use crate::model_server::ModelServer;
use crate::model_server::gate::Pass;
use crate::model_server::instance::ModelInstance;
use crate::openai::{
    AssistantMessage, Body, ChatChoice, ChatRequest, CompletionChoice, CompletionRequest, Embedding,
    EmbeddingList, EmbeddingRequest, ModelCard, ModelList, Role, Sampling, TextAnswer, TextInput, Usage,
    Vector,
};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use gswarm_infer::{GenerateRequest, Message, Prompt};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Tokens of a completion where nothing is said, as the API has it.
const USUAL_TOKENS: u32 = 16;
/// Answers of one request, over all of its prompts.
const MAX_ANSWERS: usize = 128;

/// The models that are serving
#[utoipa::path(get, path = "/v1/models", tag = "openai", responses((status = 200, body = ModelList)))]
pub(super) async fn models(State(server): State<ModelServer>) -> Json<ModelList> {
    Json(ModelList { object: "list".to_string(), data: cards(&server).into_values().collect() })
}

/// One of them
#[utoipa::path(get, path = "/v1/models/{model}", tag = "openai", params(("model" = String, Path)),
    responses((status = 200, body = ModelCard), (status = 404, body = OpenAiError)))]
pub(super) async fn model(
    State(server): State<ModelServer>,
    model: Result<Path<String>, PathRejection>,
) -> Result<Json<ModelCard>, OpenAiFault> {
    // A name that is no text is nobody's.
    let model = model.map_or_else(|_| String::new(), |Path(model)| model);
    let card = cards(&server).remove(&model);
    card.map(Json).ok_or_else(|| {
        Fault::not_found(
            "model_not_found",
            format!("no instance serves `{model}`: GET /v1/models lists those that do"),
        )
        .into()
    })
}

fn cards(server: &ModelServer) -> BTreeMap<String, ModelCard> {
    let mut cards: BTreeMap<String, ModelCard> = BTreeMap::new();
    for instance in server.registry().instances() {
        cards.entry(instance.model.clone()).or_insert_with(|| ModelCard {
            id: instance.model.clone(),
            object: "model".to_string(),
            created: instance.created.as_second().unsigned_abs(),
            owned_by: "gswarm".to_string(),
            emulated: instance.is_emulated().then_some(true),
        });
    }
    cards
}

/// Continue texts
#[utoipa::path(post, path = "/v1/completions", tag = "openai", request_body = CompletionRequest, responses(
    (status = 200, content((TextAnswer<CompletionChoice> = "application/json"), (crate::openai::StreamEvent = "text/event-stream"))),
    (status = 400, body = OpenAiError), (status = 404, body = OpenAiError), (status = 409, body = OpenAiError),
    (status = 413, body = OpenAiError), (status = 415, body = OpenAiError), (status = 429, body = OpenAiError),
    (status = 503, body = OpenAiError)))]
pub(super) async fn completions(
    State(server): State<ModelServer>,
    Body(request): Body<CompletionRequest>,
) -> Result<Response, OpenAiFault> {
    refuse("logprobs", request.logprobs.is_some())?;
    refuse("best_of", request.best_of.is_some_and(|count| count != 1))?;
    let sampling = drawn(request.sampling())?;
    let prompts: Vec<Prompt> = match &request.prompt {
        TextInput::Text(text) => vec![Prompt::Text(text.clone())],
        TextInput::Texts(texts) => texts.iter().cloned().map(Prompt::Text).collect(),
        TextInput::Tokens(tokens) => vec![Prompt::Tokens(tokens.clone())],
        TextInput::TokenLists(lists) => lists.iter().cloned().map(Prompt::Tokens).collect(),
    };
    let echo = request.echo == Some(true);
    refuse("echo", echo && prompts.iter().any(|prompt| matches!(prompt, Prompt::Tokens(_))))?;
    let most = Some(request.max_tokens.unwrap_or(USUAL_TOKENS));
    let call = Call::begin(&server, &request.model, prompts, most, &sampling, echo).await?;
    let head = Head::new("cmpl-", &call.instance);
    if sampling.stream {
        return Ok(stream::completion(head, call, sampling.includes_usage()).into_response());
    }
    let (done, usage) = call.finish().await?;
    let choice = |(index, (text, reason))| CompletionChoice {
        index: index as u32,
        text,
        logprobs: None,
        finish_reason: Some(reason),
    };
    let choices = done.into_iter().enumerate().map(choice).collect();
    Ok(Json(head.answer("text_completion", choices, Some(usage))).into_response())
}

/// Answer in a chat
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", request_body = ChatRequest, responses(
    (status = 200, content((TextAnswer<ChatChoice> = "application/json"), (crate::openai::StreamEvent = "text/event-stream"))),
    (status = 400, body = OpenAiError), (status = 404, body = OpenAiError), (status = 409, body = OpenAiError),
    (status = 413, body = OpenAiError), (status = 415, body = OpenAiError), (status = 429, body = OpenAiError),
    (status = 503, body = OpenAiError)))]
pub(super) async fn chat(
    State(server): State<ModelServer>,
    Body(request): Body<ChatRequest>,
) -> Result<Response, OpenAiFault> {
    refuse("logprobs", request.logprobs == Some(true))?;
    refuse("response_format", request.response_format.as_ref().is_some_and(|format| format.kind != "text"))?;
    let sampling = drawn(request.sampling())?;
    let said = |(at, message): (usize, &crate::openai::ChatMessage)| {
        Ok(Message { role: message.role.name().to_string(), content: message.text(at)? })
    };
    let messages = request.messages.iter().enumerate().map(said).collect::<Result<Vec<_>, Fault>>()?;
    let (prompts, most) = (vec![Prompt::Chat(messages)], request.token_limit());
    let call = Call::begin(&server, &request.model, prompts, most, &sampling, false).await?;
    let head = Head::new("chatcmpl-", &call.instance);
    if sampling.stream {
        return Ok(stream::chat(head, call, sampling.includes_usage()).into_response());
    }
    let (done, usage) = call.finish().await?;
    let choice = |(index, (text, reason))| ChatChoice {
        index: index as u32,
        message: AssistantMessage { role: Role::Assistant, content: Some(text) },
        logprobs: None,
        finish_reason: Some(reason),
    };
    let choices = done.into_iter().enumerate().map(choice).collect();
    Ok(Json(head.answer("chat.completion", choices, Some(usage))).into_response())
}

/// Make vectors of texts
#[utoipa::path(post, path = "/v1/embeddings", tag = "openai", request_body = EmbeddingRequest, responses(
    (status = 200, body = EmbeddingList),
    (status = 400, body = OpenAiError), (status = 404, body = OpenAiError), (status = 409, body = OpenAiError),
    (status = 413, body = OpenAiError), (status = 415, body = OpenAiError), (status = 429, body = OpenAiError),
    (status = 503, body = OpenAiError)))]
pub(super) async fn embeddings(
    State(server): State<ModelServer>,
    Body(request): Body<EmbeddingRequest>,
) -> Result<Json<EmbeddingList>, OpenAiFault> {
    let texts = match request.input {
        TextInput::Text(text) => vec![text],
        TextInput::Texts(texts) => texts,
        TextInput::Tokens(_) | TextInput::TokenLists(_) => {
            return Err(Fault::param("input", "token inputs are not supported: send texts").into());
        }
    };
    let (instance, _pass) = enter(&server, &request.model)?;
    let done = instance.embed(texts).await?;
    let length = done.vectors.first().map_or(0, Vec::len);
    if request.dimensions.is_some_and(|wanted| wanted as usize != length) {
        let message = format!("the vectors of this model have {length} dimensions");
        return Err(Fault::param("dimensions", message).into());
    }
    let format = request.encoding_format.unwrap_or_default();
    let embedding = |(index, values)| Embedding {
        object: "embedding".to_string(),
        index: index as u32,
        embedding: Vector::new(values, format),
    };
    Ok(Json(EmbeddingList {
        object: "list".to_string(),
        data: done.vectors.into_iter().enumerate().map(embedding).collect(),
        model: instance.model.clone(),
        usage: Usage::new(done.tokens, 0),
        emulated: instance.is_emulated().then_some(true),
    }))
}

/// What this server cannot do is refused, not passed over: the answer would be another than was asked for.
fn refuse(param: &str, given: bool) -> Result<(), Fault> {
    match given {
        true => Err(Fault::param(param, format!("this server does not support this value of `{param}`"))),
        false => Ok(()),
    }
}

/// How answers are drawn, where this server can.
fn drawn(sampling: Sampling) -> Result<Sampling, Fault> {
    sampling.penalty().map_or(Ok(()), |name| refuse(name, true)).map(|()| sampling)
}

/// Goes into the least busy instance of a model.
fn enter(server: &ModelServer, model: &str) -> Result<(Arc<ModelInstance>, Pass), Fault> {
    let instance = server.registry().instance_of(model).ok_or_else(|| {
        let shown: String = model.chars().take(100).collect();
        let message = format!("the model `{shown}` is not serving: POST /standalone/serve starts it");
        Fault { param: Some("model".to_string()), ..Fault::not_found("model_not_found", message) }
    })?;
    let pass = instance.enter()?;
    Ok((instance, pass))
}

/// What answers begin with.
pub(super) struct Head {
    pub id: String,
    pub created: u64,
    pub model: String,
    pub emulated: Option<bool>,
}

impl Head {
    fn new(prefix: &str, instance: &ModelInstance) -> Head {
        Head {
            id: format!("{prefix}{:016x}", random()),
            created: Timestamp::now().as_second().unsigned_abs(),
            model: instance.model.clone(),
            emulated: instance.is_emulated().then_some(true),
        }
    }

    pub(super) fn answer<C>(&self, object: &str, choices: Vec<C>, usage: Option<Usage>) -> TextAnswer<C> {
        TextAnswer {
            id: self.id.clone(),
            object: object.to_string(),
            created: self.created,
            model: self.model.clone(),
            choices,
            usage,
            emulated: self.emulated,
        }
    }
}

/// All answers of one request, on their way.
pub(super) struct Call {
    pub instance: Arc<ModelInstance>,
    pub pass: Pass,
    pub choices: Vec<Choice>,
}

impl Call {
    async fn begin(
        server: &ModelServer,
        model: &str,
        prompts: Vec<Prompt>,
        max_tokens: Option<u32>,
        sampling: &Sampling,
        echo: bool,
    ) -> Result<Call, Fault> {
        let (instance, pass) = enter(server, model)?;
        let answers = sampling.n.unwrap_or(1);
        if prompts.len() * answers as usize > MAX_ANSWERS {
            let message = format!("a request can ask for at most {MAX_ANSWERS} answers");
            return Err(Fault::param("n", message));
        }
        let seed = sampling.seed.map_or_else(random, |seed| seed as u64);
        let mut choices = Vec::new();
        for prompt in prompts {
            for nth in 0..answers {
                let request = GenerateRequest {
                    prompt: prompt.clone(),
                    // Without a limit, until the model ends or can hold no more.
                    max_tokens: max_tokens.map_or(usize::MAX, |count| count as usize),
                    temperature: sampling.temperature.unwrap_or(1.0),
                    top_p: sampling.top_p.unwrap_or(1.0),
                    seed: seed.wrapping_add(u64::from(nth)),
                    stop: sampling.stop.clone(),
                    ignore_eos: sampling.ignore_eos,
                };
                let prefix = match &prompt {
                    Prompt::Text(text) if echo => text.clone(),
                    _ => String::new(),
                };
                let generation = instance.generate(request).await?;
                choices.push(Choice { generation, prefix, counts_prompt: nth == 0 });
            }
        }
        Ok(Call { instance, pass, choices })
    }

    /// Text and reason of each answer, and the tokens of all.
    async fn finish(self) -> Result<(Vec<(String, String)>, Usage), Fault> {
        let (mut done, mut prompt_tokens, mut new_tokens) = (Vec::new(), 0, 0);
        for choice in self.choices {
            let finished = finished(choice.generation).await?;
            prompt_tokens += if choice.counts_prompt { finished.prompt_tokens } else { 0 };
            new_tokens += finished.new_tokens;
            done.push((choice.prefix + &finished.text, reason(&finished.reason)));
        }
        Ok((done, Usage::new(prompt_tokens, new_tokens)))
    }
}

/// A number that differs from time to time.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
