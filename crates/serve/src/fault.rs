//! What is answered when something cannot be done: one type, in the two forms that clients know.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The status of the answer.
    pub status: StatusCode,
    /// For programs: what exactly is wrong, as in `model_not_found`.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// The part of the request that is at fault, as in `messages[0].role`.
    pub param: Option<String>,
    /// Seconds after which it is worth trying again.
    pub retry_after: Option<u32>,
}

/// The code of the OpenAI API for too many requests: clients wait and try again.
const RATE_LIMIT: &str = "rate_limit_exceeded";

impl Fault {
    /// Any fault.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { status, code, message: message.into(), param: None, retry_after: None }
    }

    /// The request itself is wrong (400).
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// A part of the request is wrong (400).
    pub fn param(param: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { param: Some(param.into()), ..Fault::invalid(message) }
    }

    /// What the request speaks of is not there (404).
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, code, message)
    }

    /// It cannot be done in the state that things are in (409).
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::CONFLICT, code, message)
    }

    /// A queue is full (429): worth trying again.
    pub fn full(message: impl Into<String>) -> Fault {
        Fault { retry_after: Some(1), ..Fault::new(StatusCode::TOO_MANY_REQUESTS, RATE_LIMIT, message) }
    }

    /// The server cannot take it now (503): worth trying again.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Fault {
        Fault { retry_after: Some(1), ..Fault::new(StatusCode::SERVICE_UNAVAILABLE, code, message) }
    }

    /// A part of the request is well understood, and this server cannot do it (422).
    pub fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Fault {
        let fault = Fault::new(StatusCode::UNPROCESSABLE_ENTITY, "not_supported", message);
        Fault { param: Some(param.into()), ..fault }
    }

    /// A fault of the server (500).
    pub fn internal(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// As the OpenAI API answers it.
    pub fn openai(self) -> Response {
        let body = OpenAiError { error: self.detail() };
        self.with_headers((self.status, Json(body)).into_response())
    }

    /// As the model server answers it.
    pub fn envelope(self) -> Response {
        let body = FailedEnvelope {
            success: false,
            message: self.message.clone(),
            data: None,
            error: self.detail(),
        };
        self.with_headers((self.status, Json(body)).into_response())
    }

    /// In the form that callers of this path know.
    pub fn for_path(self, path: &str) -> Response {
        if path.starts_with("/standalone") { self.envelope() } else { self.openai() }
    }

    fn detail(&self) -> ErrorDetail {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        ErrorDetail {
            message: self.message.clone(),
            kind: kind.to_string(),
            param: self.param.clone(),
            code: Some(self.code.to_string()),
        }
    }

    fn with_headers(&self, mut response: Response) -> Response {
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// An error of the OpenAI-compatible endpoints.
#[derive(Clone, Debug, Serialize, serde::Deserialize, ToSchema)]
pub struct OpenAiError {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, Serialize, serde::Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// For people.
    pub message: String,
    /// The sort of error, as in `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The part of the request that is at fault.
    #[schema(required)]
    pub param: Option<String>,
    /// What exactly is wrong, for programs.
    #[schema(required)]
    pub code: Option<String>,
}

/// What the other endpoints answer when something cannot be done.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FailedEnvelope {
    /// `false`.
    pub success: bool,
    /// For people.
    pub message: String,
    /// Nothing.
    #[schema(required)]
    pub data: Option<Value>,
    /// For programs.
    pub error: ErrorDetail,
}

/// A fault of an OpenAI-compatible endpoint.
#[derive(Debug)]
pub struct OpenAiFault(pub Fault);

impl From<Fault> for OpenAiFault {
    fn from(fault: Fault) -> OpenAiFault {
        OpenAiFault(fault)
    }
}

impl IntoResponse for OpenAiFault {
    fn into_response(self) -> Response {
        self.0.openai()
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        self.envelope()
    }
}
