//! From the bytes of a request to its type, with the name of what is wrong.

use super::schema::{self, Endpoint};
use crate::fault::{Fault, OpenAiFault};
use crate::guard::JSON_ONLY;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

/// What is read from JSON, checked by [`Check`], and answered in the manner of the OpenAI API where it is wrong.
#[derive(Clone, Debug)]
pub struct Body<T>(pub T);

/// What an endpoint is asked.
pub trait Asked {
    /// Which.
    const ENDPOINT: Endpoint;
}

/// What has ranges that types do not say.
pub trait Check {
    /// The first thing that is out of its range.
    fn check(&self) -> Result<(), Fault>;
}

impl<T: DeserializeOwned + Check + Asked, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = OpenAiFault;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, OpenAiFault> {
        let bytes = json_bytes(request, state).await?;
        schema::own(T::ENDPOINT, &parse(&bytes)?)?;
        Ok(Body(checked(&bytes)?))
    }
}

/// A value from JSON, within its ranges.
pub(crate) fn checked<T: DeserializeOwned + Check>(bytes: &[u8]) -> Result<T, Fault> {
    let value: T = parse(bytes)?;
    value.check()?;
    Ok(value)
}

/// The bytes of a body that says that it is JSON.
pub(crate) async fn json_bytes<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Fault> {
    says_json(request.headers())?;
    Bytes::from_request(request, state).await.map_err(|error| Fault::invalid(error.to_string()))
}

/// That a body says that it is JSON. Without this any page in a browser could send one.
pub(crate) fn says_json(headers: &HeaderMap) -> Result<(), Fault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", JSON_ONLY))
}

/// A value from JSON; what is wrong is said with the path of the field that it is wrong with.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match inner.is_data() {
            false => Fault::invalid(format!("the body is not JSON: {inner}")),
            true if path == "." => Fault::invalid(inner.to_string()),
            true => {
                let message = format!("{path}: {inner}");
                Fault::param(path, message)
            }
        }
    })?;
    reader.end().map_err(|error| Fault::invalid(format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// That a number lies within a range.
pub(crate) fn within(name: &str, value: Option<f64>, least: f64, most: f64) -> Result<(), Fault> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(Fault::param(name, format!("{name} must be a number from {least} to {most}")))
        }
        _ => Ok(()),
    }
}
