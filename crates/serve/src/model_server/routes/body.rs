//! What requests carry, read and checked.

use crate::fault::Fault;
use crate::model_server::registry::no_instance;
use crate::openai::{Check, json_bytes, parse};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// A body in JSON, answered in the server's own form where it is wrong.
pub struct JsonBody<T>(pub T);

impl<T: DeserializeOwned + Check, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, Fault> {
        let value: T = parse(&json_bytes(request, state).await?)?;
        value.check()?;
        Ok(JsonBody(value))
    }
}

/// The instance that a path names.
pub struct InstanceId(pub String);

impl<S: Send + Sync> FromRequestParts<S> for InstanceId {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<InstanceId, Fault> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(id)) if id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Ok(InstanceId(id))
            }
            Ok(Path(id)) => Err(no_instance(&id)),
            Err(_) => Err(no_instance("?")),
        }
    }
}
