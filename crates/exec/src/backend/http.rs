//! The HTTP client of all adapters: limits on time and size, no redirects, a token that is never shown, and failures
//! classified by how to handle them.

use super::BackendError;
use super::answer::{self, EventStream, Expected};
use crate::forward::{Forward, RawCall, Relay};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use std::sync::{Arc, Once};
use std::time::Duration;

/// The longest answer that is read.
const MOST_BYTES: usize = 64 << 20;
/// The longest piece of an answer that a message repeats, in characters.
const MOST_SHOWN: usize = 300;

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HttpLimits {
    /// Until a connection stands.
    pub connect: Duration,
    /// Until a question is answered.
    pub answer: Duration,
    /// Until a model is there.
    pub load: Duration,
    /// Until it is gone.
    pub unload: Duration,
}

/// A server.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    base: String,
    token: Option<String>,
    limits: HttpLimits,
    /// What the server calls the models of the run.
    names: Arc<[String]>,
}

/// What came of a request that was passed on.
pub enum ForwardResult {
    /// It was answered, and the answer has gone back.
    Answered,
    /// Something is wrong with it, or not there: what was asked for, or the model. Nothing has gone back yet.
    Refused {
        /// As HTTP numbers it.
        status: u16,
        /// The sort of the answer.
        kind: String,
        /// The answer.
        text: String,
        /// The same as a reason.
        why: String,
    },
    /// The server knows no such API.
    Unknown,
}

fn install_crypto() {
    static PROVIDER: Once = Once::new();
    // Somebody else may have installed one before: either will do.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

impl Http {
    /// The server at `base`, which is asked with a token where there is one.
    pub fn new(base: &str, token: Option<&str>, limits: HttpLimits) -> Result<Http, String> {
        install_crypto();
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value = value.map_err(|_| "the token cannot be sent in a header".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(limits.connect)
            .redirect(reqwest::redirect::Policy::none())
            // Many servers close what has been idle for five seconds, and a request on its way meets a closed door.
            .pool_idle_timeout(Duration::from_secs(2))
            .default_headers(headers);
        let here = ["//localhost", "//127.", "//[::1]"];
        if here.iter().any(|host| base.contains(host)) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| format!("cannot talk to servers: {error}"))?;
        let (base, token) = (base.to_owned(), token.map(str::to_owned));
        Ok(Http { client, base, token, limits, names: Arc::default() })
    }

    /// A client for others than model servers.
    pub(crate) fn client(connect: Duration) -> Result<reqwest::Client, String> {
        install_crypto();
        reqwest::Client::builder().connect_timeout(connect).build().map_err(|error| error.to_string())
    }

    /// The same server, which calls the models of the run by these names.
    #[must_use]
    pub fn naming(self, names: Vec<String>) -> Http {
        Http { names: names.into(), ..self }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.base
    }

    /// A question about its state. A server that does not answer in time is gone.
    pub async fn get(&self, path: &str) -> Result<Value, BackendError> {
        self.ask(Method::GET, path, None).await
    }

    /// The same with a body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, BackendError> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// A question of any other sort.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, BackendError> {
        let limit = self.limits.answer;
        let text = self.send(method, path, body, Some(limit)).await.map_err(|error| match error {
            BackendError::TimedOut(after) => self.gone(&format!("no answer after {after:.1} s")),
            other => other,
        })?;
        parse(&text)
    }

    /// A request that takes as long as a load does. The answer may be anything: the state tells what came of it.
    pub async fn order(&self, path: &str, body: &Value, limit: Duration) -> Result<String, BackendError> {
        self.send(Method::POST, path, Some(body), Some(limit)).await
    }

    /// A call of a model: whoever makes it limits its time.
    pub async fn call(&self, path: &str, body: &Value) -> Result<Value, BackendError> {
        parse(&self.send(Method::POST, path, Some(body), None).await?)
    }

    /// A call in the form of the OpenAI API. What the server calls a success and is none fails.
    pub async fn complete(&self, path: &str, body: &Value, model: &str) -> Result<Value, BackendError> {
        let text = self.send(Method::POST, path, Some(body), None).await?;
        parse(&answer::whole(&text, Expected { name: model, names: &self.names }, model)?)
    }

    /// Passes a request on as it is, and whatever is answered back as it comes.
    async fn pass_raw(&self, raw: &RawCall, relay: &mut Relay) -> Result<ForwardResult, BackendError> {
        let method = Method::from_bytes(raw.method.as_bytes())
            .map_err(|_| BackendError::Refused(format!("`{}` is not an HTTP method", raw.method)))?;
        let mut request = self.client.request(method, format!("{}{}", self.base, raw.path));
        if let Some(kind) = &raw.content_type {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.body(raw.body.clone());
        let mut response = request.send().await.map_err(|error| self.broken(&error))?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        relay.head(response.status().as_u16(), kind.unwrap_or("application/octet-stream"));
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            relay.piece(chunk).await;
        }
        Ok(ForwardResult::Answered)
    }

    /// Passes somebody's request on, and its answer back as it comes. An answer that says that the request is at fault is
    /// theirs; one that says that the server is, is not. One that may speak of the model is not passed back yet.
    pub async fn pass_on(
        &self,
        forward: &Forward,
        model: &str,
        relay: &mut Relay,
    ) -> Result<ForwardResult, BackendError> {
        if let Some(raw) = &forward.raw {
            return self.pass_raw(raw, relay).await;
        }
        let mut body = forward.body.clone();
        body.insert("model".to_owned(), Value::from(model));
        let request = self.client.post(format!("{}{}", self.base, forward.path)).json(&body);
        let mut response = request.send().await.map_err(|error| self.broken(&error))?;
        let status = response.status();
        if !status.is_success() && !matches!(self.refused(status, ""), BackendError::Refused(_)) {
            return Err(self.refused(status, &self.text(response).await?));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or("application/json").to_owned();
        if let StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND = status {
            let text = self.text(response).await?;
            let why = self.refused(status, &text).to_string();
            return Ok(ForwardResult::Refused { status: status.as_u16(), kind, text, why });
        }
        let expected = Expected { name: model, names: &self.names };
        let shown = forward.body.get("model").and_then(Value::as_str).unwrap_or(model);
        if status.is_success() && kind.starts_with("application/json") {
            let text = answer::whole(&self.text(response).await?, expected, shown)?;
            relay.head(status.as_u16(), &kind);
            relay.piece(text).await;
        } else if status.is_success() && kind.starts_with("text/event-stream") {
            let mut stream = EventStream::new(expected, shown, forward.wants_usage());
            while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
                let lines = stream.piece(&chunk)?;
                // What fails before anything has gone back can be asked for elsewhere.
                if !lines.is_empty() {
                    relay.head(status.as_u16(), &kind);
                    relay.piece(lines).await;
                }
            }
            let rest = stream.end()?;
            relay.head(status.as_u16(), &kind);
            if !rest.is_empty() {
                relay.piece(rest).await;
            }
        } else {
            relay.head(status.as_u16(), &kind);
            while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
                relay.piece(chunk).await;
            }
        }
        Ok(ForwardResult::Answered)
    }

    /// Whether an address answers with success, whatever it says.
    pub async fn answers(&self, path: &str) -> Result<(), BackendError> {
        self.send(Method::GET, path, None, Some(self.limits.answer)).await.map(|_| ())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        limit: Option<Duration>,
    ) -> Result<String, BackendError> {
        let mut request: RequestBuilder = self.client.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.json(body);
        }
        let work = async {
            let response = request.send().await.map_err(|error| self.broken(&error))?;
            let status = response.status();
            let text = self.text(response).await?;
            if status.is_success() { Ok(text) } else { Err(self.refused(status, &text)) }
        };
        match limit {
            None => work.await,
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .unwrap_or(Err(BackendError::TimedOut(limit.as_secs_f64()))),
        }
    }

    async fn text(&self, mut response: Response) -> Result<String, BackendError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broken(&error))? {
            if bytes.len() + chunk.len() > MOST_BYTES {
                return Err(BackendError::Failed(format!("the answer exceeds {MOST_BYTES} bytes")));
            }
            bytes.extend_from_slice(&chunk);
        }
        String::from_utf8(bytes).map_err(|_| BackendError::Failed("the answer is not UTF-8 text".to_owned()))
    }

    /// A connection that could not be made or was cut.
    fn broken(&self, error: &reqwest::Error) -> BackendError {
        let mut reason: &dyn std::error::Error = error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        if error.is_builder() {
            return BackendError::Failed(format!("the request cannot be sent: {reason}"));
        }
        self.gone(&reason.to_string())
    }

    fn gone(&self, why: &str) -> BackendError {
        BackendError::Gone(format!("{}: {}", self.base, self.shown(why)))
    }

    fn refused(&self, status: StatusCode, text: &str) -> BackendError {
        let said = self.shown(&reason(text));
        let message = format!("{} answers {}: {said}", self.base, status.as_u16());
        BackendError::of_status(status.as_u16(), message)
    }

    /// What a server said, on one line, not too long, and without the token.
    fn shown(&self, text: &str) -> String {
        let text = match &self.token {
            Some(token) if !token.is_empty() => text.replace(token, "***"),
            _ => text.to_owned(),
        };
        brief(&text)
    }
}

/// A text on one line, and not too long.
pub fn brief(text: &str) -> String {
    let mut shown: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST_SHOWN).collect();
    if text.trim().chars().count() > MOST_SHOWN {
        shown.push_str("...");
    }
    shown
}

fn parse(text: &str) -> Result<Value, BackendError> {
    serde_json::from_str(text)
        .map_err(|_| BackendError::Failed(format!("the answer is not JSON: `{}`", brief(text))))
}

/// What an error says, in the forms that servers have for it.
#[must_use]
pub fn reason(text: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let places = ["/error/message", "/error", "/message", "/detail"];
    let said = places.iter().find_map(|place| value.pointer(place)?.as_str());
    said.map_or_else(|| text.to_owned(), str::to_owned)
}

/// What the answer has at a place, or that it lacks it.
pub fn field<'v, T>(
    answer: &'v Value,
    place: &str,
    read: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<T, BackendError> {
    let found = answer.pointer(place).and_then(read);
    found.ok_or_else(|| {
        let shown = brief(&answer.to_string());
        BackendError::Failed(format!("the answer has no usable `{}`: {shown}", place.trim_start_matches('/')))
    })
}

/// A name as a part of a path.
pub fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let parts = name
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    parts.collect()
}
