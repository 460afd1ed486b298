//! Parts of a request's address, with faults in the manner of the OpenAI API.

use crate::fault::{Fault, OpenAiFault};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

/// What stands behind the question mark.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = OpenAiFault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Params<T>, OpenAiFault> {
        let read = Query::try_from_uri(&parts.uri);
        let Query(value) = read.map_err(|error| Fault::invalid(error.body_text()))?;
        Ok(Params(value))
    }
}

/// A name in the path.
pub(crate) struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = OpenAiFault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, OpenAiFault> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = read.map_err(|error| Fault::invalid(error.body_text()))?;
        Ok(Named(name))
    }
}
