//! The OpenAI-compatible endpoints, over the same instances.

use super::call::{finished_with_chances, reason};
use super::stream::{self, Choice};
use super::tools;
use crate::fault::{Fault, OpenAiError, OpenAiFault};
use crate::model_server::ModelServer;
use crate::model_server::engines::EmbedInput;
use crate::model_server::gate::Pass;
use crate::model_server::instance::ModelInstance;
use crate::openai::{
    AssistantMessage, Body, ChatChoice, ChatLogprobs, ChatRequest, CompletionChoice, CompletionRequest,
    Embedding, EmbeddingList, EmbeddingRequest, ModelCard, ModelList, RerankAnswer, RerankRequest,
    RerankUsage, Role, Sampling, TextAnswer, TextInput, TextLogprobs, TokenizeAnswer, TokenizeRequest, Usage,
    Vector,
};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use gswarm_infer::{AnswerForm, Chat, GenerateRequest, Message, Prompt, TokenChance};
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
            status: None,
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
    let sampling = request.sampling();
    let prompts: Vec<Prompt> = match &request.prompt {
        TextInput::Text(text) => vec![Prompt::Text(text.clone())],
        TextInput::Texts(texts) => texts.iter().cloned().map(Prompt::Text).collect(),
        TextInput::Tokens(tokens) => vec![Prompt::Tokens(tokens.clone())],
        TextInput::TokenLists(lists) => lists.iter().cloned().map(Prompt::Tokens).collect(),
    };
    let echo = request.echo == Some(true);
    if echo && prompts.iter().any(|prompt| matches!(prompt, Prompt::Tokens(_))) {
        return Err(Fault::param("echo", "echo needs a text prompt, not tokens").into());
    }
    // The API's usual length is not something that was asked for.
    let most = Limit {
        tokens: Some(request.max_tokens.unwrap_or(USUAL_TOKENS)),
        exact: request.max_tokens.is_some(),
    };
    let told = (most, request.logprobs, sampling.form()?);
    let call = Call::begin(&server, &request.model, prompts, told, &sampling, echo).await?;
    let head = Head::new("cmpl-", &call.instance);
    if sampling.stream {
        return Ok(stream::completion(head, call, sampling.includes_usage()).into_response());
    }
    let (done, usage) = call.finish().await?;
    let choice = |(index, one): (usize, Whole)| CompletionChoice {
        index: index as u32,
        logprobs: request.logprobs.map(|_| TextLogprobs::new(&one.chances, one.offset)),
        text: one.text,
        finish_reason: Some(one.reason),
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
    let sampling = request.sampling();
    let said = |(at, message): (usize, &crate::openai::ChatMessage)| {
        let (role, content) = (message.role.name().to_string(), message.text(at)?);
        Ok(Message { role, content, more: message.more() })
    };
    let messages = request.messages.iter().enumerate().map(said).collect::<Result<Vec<_>, Fault>>()?;
    let (tools, settings) = (request.tools(), request.chat_template_kwargs.clone().unwrap_or_default());
    let calls_tools = !tools.is_empty();
    let chat = Chat { messages, tools, settings };
    let most = Limit { tokens: request.token_limit(), exact: request.token_limit().is_some() };
    let prompts = vec![Prompt::Chat(chat)];
    let told = (most, request.told(), request.form()?);
    let call = Call::begin(&server, &request.model, prompts, told, &sampling, false).await?;
    let head = Head::new("chatcmpl-", &call.instance);
    if sampling.stream {
        return Ok(stream::chat(head, call, sampling.includes_usage(), calls_tools).into_response());
    }
    let (done, usage) = call.finish().await?;
    let choice = |(index, one): (usize, Whole)| {
        let (content, tool_calls) = tools::apart(one.text, calls_tools);
        let reason = if tool_calls.is_some() { "tool_calls".to_string() } else { one.reason };
        let content_of = |chances: &[TokenChance]| chances.iter().map(Into::into).collect();
        ChatChoice {
            index: index as u32,
            message: AssistantMessage { role: Role::Assistant, content, tool_calls },
            logprobs: request.told().map(|_| ChatLogprobs { content: content_of(&one.chances) }),
            finish_reason: Some(reason),
        }
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
    let input = match request.input {
        TextInput::Text(text) => EmbedInput::Texts(vec![text]),
        TextInput::Texts(texts) => EmbedInput::Texts(texts),
        TextInput::Tokens(tokens) => EmbedInput::Tokens(vec![tokens]),
        TextInput::TokenLists(lists) => EmbedInput::Tokens(lists),
    };
    let (instance, _pass) = enter(&server, &request.model)?;
    let done = instance.embed(input).await?;
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

/// Put texts in the order of how well they answer a query
#[utoipa::path(post, path = "/v1/rerank", tag = "openai", request_body = RerankRequest, responses(
    (status = 200, body = RerankAnswer),
    (status = 400, body = OpenAiError), (status = 404, body = OpenAiError), (status = 409, body = OpenAiError),
    (status = 413, body = OpenAiError), (status = 415, body = OpenAiError), (status = 429, body = OpenAiError),
    (status = 503, body = OpenAiError)))]
pub(super) async fn rerank(
    State(server): State<ModelServer>,
    Body(request): Body<RerankRequest>,
) -> Result<Json<RerankAnswer>, OpenAiFault> {
    let (instance, _pass) = enter(&server, &request.model)?;
    let texts = [request.query.clone()].into_iter().chain(request.documents.clone()).collect();
    let done = instance.embed(EmbedInput::Texts(texts)).await?;
    Ok(Json(RerankAnswer {
        id: format!("rerank-{:016x}", random()),
        model: instance.model.clone(),
        usage: RerankUsage { total_tokens: done.tokens as u64 },
        results: request.ranked(&done.vectors),
    }))
}

/// The tokens of a text
#[utoipa::path(post, path = "/tokenize", tag = "openai", request_body = TokenizeRequest, responses(
    (status = 200, body = TokenizeAnswer),
    (status = 400, body = OpenAiError), (status = 404, body = OpenAiError), (status = 409, body = OpenAiError),
    (status = 413, body = OpenAiError), (status = 415, body = OpenAiError)))]
pub(super) async fn tokenize(
    State(server): State<ModelServer>,
    Body(request): Body<TokenizeRequest>,
) -> Result<Json<TokenizeAnswer>, OpenAiFault> {
    let (instance, _pass) = enter(&server, &request.model)?;
    let (tokens, max_model_len) = instance.tokenize(request.prompt).await?;
    Ok(Json(TokenizeAnswer { count: tokens.len(), max_model_len, tokens }))
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
        (most, told, form): (Limit, Option<u32>, Option<AnswerForm>),
        sampling: &Sampling,
        echo: bool,
    ) -> Result<Call, Fault> {
        let tuning = sampling.tuning(told)?;
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
                    max_tokens: most.tokens.map_or(usize::MAX, |count| count as usize),
                    exact: most.exact,
                    tuning: tuning.clone(),
                    temperature: sampling.temperature.unwrap_or(1.0),
                    top_p: sampling.top_p.unwrap_or(1.0),
                    seed: seed.wrapping_add(u64::from(nth)),
                    stop: sampling.stop.clone(),
                    ignore_eos: sampling.ignore_eos,
                    form: form.clone(),
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

    /// Each answer, and the tokens of all.
    async fn finish(self) -> Result<(Vec<Whole>, Usage), Fault> {
        let (mut done, mut prompt_tokens, mut new_tokens) = (Vec::new(), 0, 0);
        for choice in self.choices {
            let (finished, chances) = finished_with_chances(choice.generation).await?;
            prompt_tokens += if choice.counts_prompt { finished.prompt_tokens } else { 0 };
            new_tokens += finished.new_tokens;
            let (offset, reason) = (choice.prefix.chars().count(), reason(&finished.reason));
            done.push(Whole { text: choice.prefix + &finished.text, reason, chances, offset });
        }
        Ok((done, Usage::new(prompt_tokens, new_tokens)))
    }
}

/// Most tokens of an answer.
#[derive(Clone, Copy)]
struct Limit {
    /// How many, where there is a limit.
    tokens: Option<u32>,
    /// Whether fewer would be another answer than was asked for.
    exact: bool,
}

/// A whole answer.
struct Whole {
    text: String,
    reason: String,
    chances: Vec<TokenChance>,
    /// Where its own text begins, in characters.
    offset: usize,
}

/// A number that differs from time to time.
fn random() -> u64 {
    RandomState::new().hash_one(())
}
