//! The OpenAI API: each call is a request of one node, scheduled among all others.

use super::{Front, Shared, waiting};
use crate::extract::Named;
use crate::fault::Fault;
use crate::guard::CALLER;
use crate::openai::schema::{self, CallTarget, Endpoint};
use crate::openai::{
    ChatChoice, ChatRequest, CompletionChoice, CompletionRequest, EmbeddingRequest, ModelCard, ModelList,
    ModelLoad, ModelLoadStatus, RerankRequest, StreamEvent, TextAnswer, TokenizeRequest, checked,
};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gswarm_core::ModelId;
use gswarm_exec::backend::Dialect;
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::service::{Client, Refusal, StorageFault, Ticket};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::timeout;

/// The header that says how urgent a call is: a whole number, higher first.
pub const PRIORITY: &str = "x-gswarm-priority";
/// The header of an answer that says what the queue calls the request.
const REQUEST: &str = "x-gswarm-request";

/// The models that can be called.
#[utoipa::path(get, path = "/v1/models", responses((status = 200, body = ModelList)))]
pub(super) async fn models(State(front): State<Shared>) -> Json<ModelList> {
    let states = front.client.ask(super::swap::states).await.unwrap_or_default();
    let states = states.into_iter().map(|(state, _)| Some(state)).chain(std::iter::repeat(None));
    let models = front.client.scenario.models.iter().zip(states);
    let data = models.map(|(model, state)| card(&front, &model.id, state)).collect();
    Json(ModelList { object: "list".to_owned(), data })
}

/// One of them.
#[utoipa::path(get, path = "/v1/models/{model}", params(("model" = String, Path)),
    responses((status = 200, body = ModelCard), (status = 404)))]
pub(super) async fn model(State(front): State<Shared>, Named(model): Named) -> Response {
    match model_of(&front.client, &model) {
        Ok(known) => {
            let states = front.client.ask(super::swap::states).await.unwrap_or_default();
            let state = states.get(usize::from(known)).map(|(state, _)| *state);
            Json(card(&front, &model, state)).into_response()
        }
        Err(fault) => fault.openai(),
    }
}

/// A model by any of its names.
pub(super) fn model_of(client: &Client, name: &str) -> Result<ModelId, Fault> {
    client.model(name).ok_or_else(|| unknown(client, name))
}

fn card(front: &Front, id: &str, state: Option<ModelLoad>) -> ModelCard {
    ModelCard {
        id: id.to_owned(),
        object: "model".to_owned(),
        created: front.started,
        owned_by: "gswarm".to_owned(),
        emulated: None,
        status: state.map(|value| ModelLoadStatus { value }),
    }
}

/// A chat.
#[utoipa::path(post, path = "/v1/chat/completions", request_body = ChatRequest,
    responses((status = 200, description = "server-sent events with `stream`",
               content((TextAnswer<ChatChoice> = "application/json"), (StreamEvent = "text/event-stream"))),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn chat(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Chat, &headers, &body).await
}

/// A text to be continued.
#[utoipa::path(post, path = "/v1/completions", request_body = CompletionRequest,
    responses((status = 200, description = "server-sent events with `stream`",
               content((TextAnswer<CompletionChoice> = "application/json"), (StreamEvent = "text/event-stream"))),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn completions(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Completions, &headers, &body).await
}

/// Texts to be embedded.
#[utoipa::path(post, path = "/v1/embeddings", request_body = EmbeddingRequest,
    responses((status = 200, description = "as the OpenAI API answers"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn embeddings(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Embeddings, &headers, &body).await
}

/// Texts to be put in order.
#[utoipa::path(post, path = "/v1/rerank", request_body = RerankRequest,
    responses((status = 200, description = "as vLLM, Jina and Cohere answer"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn rerank(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Rerank, &headers, &body).await
}

/// The tokens of a text.
#[utoipa::path(post, path = "/tokenize", request_body = TokenizeRequest,
    responses((status = 200, description = "as vLLM answers"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn tokenize(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Tokenize, &headers, &body).await
}

/// An answer in the form of the Responses API.
#[utoipa::path(post, path = "/v1/responses", request_body = Object,
    responses((status = 200, description = "as the OpenAI API answers"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn responses(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Responses, &headers, &body).await
}

/// A picture to be made.
#[utoipa::path(post, path = "/v1/images/generations", request_body = Object,
    responses((status = 200, description = "as the OpenAI API answers"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn images(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Images, &headers, &body).await
}

/// A text to be spoken.
#[utoipa::path(post, path = "/v1/audio/speech", request_body = Object,
    responses((status = 200, description = "as the OpenAI API answers"),
              (status = 400), (status = 404), (status = 413), (status = 415), (status = 429), (status = 502), (status = 503), (status = 504)))]
pub(super) async fn speech(State(front): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    relay(&front, Endpoint::Speech, &headers, &body).await
}

async fn relay(front: &Front, endpoint: Endpoint, headers: &HeaderMap, body: &[u8]) -> Response {
    match admitted(front, endpoint, headers, body).await {
        Ok((ticket, silence)) => answer(&front.client, ticket, silence).await,
        Err(fault) => fault.openai(),
    }
}

/// Takes a call on, once it is known that its model can answer it: what is wrong moves no model.
async fn admitted(
    front: &Front,
    endpoint: Endpoint,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<(Ticket, Option<Duration>), Fault> {
    crate::openai::says_json(headers)?;
    let body: Map<String, Value> = crate::openai::parse(bytes)?;
    let model = asked_for(&front.client, &body)?;
    let priority = priority_of(headers)?;
    let silence = waiting::silence(headers)?;
    let spec = &front.client.scenario.models[usize::from(model)];
    let abilities = front.client.abilities(model);
    schema::admit(endpoint, &body, CallTarget { model: &spec.id, kind: spec.kind.as_deref(), abilities })?;
    if abilities.dialect == Dialect::Own {
        ranges(endpoint, bytes)?;
    }
    let estimate = front.client.estimate(model, &body);
    let forward = Forward { path: endpoint.path(), kind: spec.kind.clone(), body, estimate, raw: None };
    let client = front.client.on_behalf_of(caller(headers));
    let silence = silence.filter(|_| forward.streams());
    let ticket = client.call(model, forward, priority).await.map_err(|refusal| refused(&refusal))?;
    Ok((ticket, silence))
}

/// That what gswarm's own models are asked is of its type and within its range.
fn ranges(endpoint: Endpoint, bytes: &[u8]) -> Result<(), Fault> {
    match endpoint {
        Endpoint::Chat => {
            let chat: ChatRequest = checked(bytes)?;
            chat.messages.iter().enumerate().try_for_each(|(at, message)| message.text(at).map(drop))
        }
        Endpoint::Completions => checked::<CompletionRequest>(bytes).map(drop),
        Endpoint::Embeddings => checked::<EmbeddingRequest>(bytes).map(drop),
        Endpoint::Rerank => checked::<RerankRequest>(bytes).map(drop),
        Endpoint::Tokenize => checked::<TokenizeRequest>(bytes).map(drop),
        Endpoint::Responses | Endpoint::Images | Endpoint::Speech => Ok(()),
    }
}

fn asked_for(client: &Client, body: &Map<String, Value>) -> Result<ModelId, Fault> {
    let name = match body.get("model") {
        Some(Value::String(name)) => name,
        Some(_) => return Err(Fault::param("model", "model must be the name of a model")),
        None => return Err(Fault::param("model", "model is missing: use one of /v1/models")),
    };
    let model = model_of(client, name)?;
    match client.cannot_run(model) {
        // Nothing that could be evicted would help: it is said at once.
        Some(why) => Err(Fault { code: "model_does_not_fit", ..Fault::param("model", why) }),
        None => Ok(model),
    }
}

fn unknown(client: &Client, name: &str) -> Fault {
    let known: Vec<&str> = client.scenario.models.iter().map(|model| model.id.as_str()).take(20).collect();
    let shown: String = name.chars().take(100).collect();
    let message = format!("there is no model `{shown}`; the models are {}", known.join(", "));
    Fault { param: Some("model".to_owned()), ..Fault::not_found("model_not_found", message) }
}

/// On whose behalf a request is made, as the guard has it.
pub(super) fn caller(headers: &HeaderMap) -> &str {
    headers.get(CALLER).and_then(|name| name.to_str().ok()).unwrap_or_default()
}

fn priority_of(headers: &HeaderMap) -> Result<i32, Fault> {
    let Some(value) = headers.get(PRIORITY) else { return Ok(0) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| Fault::param(PRIORITY, format!("{PRIORITY} must be a whole number")))
}

/// How a refusal is answered.
pub(super) fn refused(refusal: &Refusal) -> Fault {
    let why = refusal.to_string();
    match refusal {
        Refusal::Full { .. } => Fault::full(why),
        Refusal::Share { .. } => Fault { code: "over_fair_share", ..Fault::full(why) },
        Refusal::Stopping => Fault::unavailable("stopping", why),
        Refusal::Taken => Fault::conflict("request_exists", why),
        Refusal::Storage(trouble) => match trouble.fault {
            StorageFault::Full => {
                let fault = Fault::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", why);
                Fault { retry_after: Some(1), ..fault }
            }
            StorageFault::Gone => Fault::unavailable("storage_gone", why),
            StorageFault::Damaged => Fault::unavailable("storage_damaged", why),
        },
    }
}

/// Answers as the model's server does. A stream that is still silent after `silence` begins without it.
pub(super) async fn answer(client: &Client, ticket: Ticket, silence: Option<Duration>) -> Response {
    let Ticket { number, mut answering } = ticket;
    let mut line = Line { client: client.clone(), ticket: number, over: false };
    let head = match silence {
        Some(silence) => match timeout(silence, &mut answering.head).await {
            Ok(head) => head,
            Err(_) => {
                let response = waiting::stream(client.clone(), line, answering, silence).await;
                return with_number(response, number);
            }
        },
        None => (&mut answering.head).await,
    };
    let head = match head {
        Ok(Ok(head)) => head,
        Ok(Err(why)) => {
            line.hung_up();
            return Fault::new(StatusCode::BAD_GATEWAY, "backend_failed", why).openai();
        }
        Err(_) => {
            line.hung_up();
            return Fault::unavailable("stopping", "the service ended before the call did").openai();
        }
    };
    let pieces =
        futures_util::stream::unfold((answering.pieces, line), |(mut pieces, mut line)| async move {
            if line.over {
                return None;
            }
            match pieces.recv().await {
                Some(Piece::Data(data)) => Some((Ok(data), (pieces, line))),
                Some(Piece::End) => {
                    line.hung_up();
                    None
                }
                None => {
                    line.hung_up();
                    Some((Err(std::io::Error::other("the answer was cut off")), (pieces, line)))
                }
            }
        });
    let status = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let kind = HeaderValue::from_str(&head.content_type);
    let kind = kind.unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let mut response = (status, Body::from_stream(pieces)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    with_number(response, number)
}

/// The answer, with what the queue calls its request.
fn with_number(mut response: Response, number: u64) -> Response {
    let name = HeaderValue::from_str(&format!("call-{number}"));
    name.into_iter().for_each(|name| drop(response.headers_mut().insert(REQUEST, name)));
    response
}

/// Somebody who holds the line: when they go before the answer is whole, the call is ended.
pub(super) struct Line {
    client: Client,
    pub ticket: u64,
    over: bool,
}

impl Line {
    /// There is nothing left to end.
    pub fn hung_up(&mut self) {
        self.over = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.over {
            self.client.hang_up(self.ticket);
        }
    }
}
