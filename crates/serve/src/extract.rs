//! Parts of a request's address, with faults in the manner of the OpenAI API.

use crate::fault::{Fault, OpenAiFault};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::Uri;
use axum::http::request::Parts;
use gswarm_exec::backend::escaped;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

/// What stands behind the question mark.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = OpenAiFault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Params<T>, OpenAiFault> {
        let read = Query::try_from_uri(&parts.uri);
        let Query(value) = read.map_err(|error| at_fault::<T>(&parts.uri, &error.body_text()))?;
        Ok(Params(value))
    }
}

/// Which part of a list.
#[derive(Deserialize, IntoParams)]
pub(crate) struct Page {
    /// Requests to leave out at the front.
    from: Option<usize>,
    /// Most requests to be answered; default 100, at most 1000.
    limit: Option<usize>,
}

impl Page {
    /// How many to leave out, and how many to answer at most.
    pub fn bounds(&self) -> (usize, usize) {
        (self.from.unwrap_or(0), self.limit.unwrap_or(100).min(1000))
    }
}

/// Which parameter is at fault, what was given for it and what is expected: the first that cannot be read by itself.
fn at_fault<T: DeserializeOwned>(uri: &Uri, parser_says: &str) -> Fault {
    let given = Query::<Vec<(String, String)>>::try_from_uri(uri).map_or(Vec::new(), |Query(pairs)| pairs);
    for (place, (name, value)) in given.iter().enumerate() {
        let shown: String = value.chars().take(LONGEST_SHOWN).collect();
        if given[..place].iter().any(|(earlier, _)| earlier == name) {
            return Fault::param(name.clone(), format!("`{name}` is given more than once"));
        }
        let alone = format!("/?{}={}", escaped(name), escaped(value)).parse::<Uri>();
        let Some(error) = alone.ok().and_then(|alone| Query::<T>::try_from_uri(&alone).err()) else {
            continue;
        };
        if let Some(expected) = expected(&error.body_text()) {
            let message = format!("`{name}` is `{shown}`, but must be {expected}");
            return Fault::param(name.clone(), message);
        }
    }
    Fault::invalid(format!("the query string cannot be read: {parser_says}"))
}

/// What a parameter has to be, by what the parser says of it; `None` where it says something of another.
fn expected(parser_says: &str) -> Option<String> {
    if parser_says.contains("missing field") {
        return None;
    }
    let known = [
        ("too large to fit", "a smaller number"),
        ("too small to fit", "a larger number"),
        ("integer", "a whole number, 0 or more"),
        ("digit", "a whole number, 0 or more"),
        ("float", "a number"),
        ("`true` or `false`", "`true` or `false`"),
    ];
    let found = known.iter().find(|(words, _)| parser_says.contains(words));
    let choices = || parser_says.split_once("expected ").map(|(_, choices)| choices.to_owned());
    Some(found.map(|(_, words)| (*words).to_owned()).or_else(choices).unwrap_or("something else".to_owned()))
}

/// How much of a value a message repeats, in characters.
const LONGEST_SHOWN: usize = 100;

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct All {
        #[serde(rename = "limit")]
        _limit: Option<u32>,
        #[serde(rename = "wait")]
        _wait: Option<f64>,
        #[serde(rename = "all")]
        _all: Option<bool>,
    }

    #[test]
    fn a_mistake_is_told_with_its_name_what_was_given_and_what_is_expected() {
        for (query, param, says) in [
            ("limit=abc", "limit", "`limit` is `abc`, but must be a whole number"),
            ("wait=1&limit=-1", "limit", "`limit` is `-1`, but must be a whole number, 0 or more"),
            ("limit=", "limit", "`limit` is ``, but must be a whole number"),
            ("limit=99999999999", "limit", "a smaller number"),
            ("limit=2&wait=s%20oon", "wait", "`wait` is `s oon`, but must be a number"),
            ("all=maybe", "all", "`true` or `false`"),
            ("limit=1&limit=2", "limit", "`limit` is given more than once"),
        ] {
            let uri: Uri = format!("/v1/queue?{query}").parse().unwrap();
            let error = Query::<All>::try_from_uri(&uri).unwrap_err();
            let fault = at_fault::<All>(&uri, &error.body_text());
            assert_eq!(fault.param.as_deref(), Some(param), "{query}: {fault}");
            assert!(fault.message.contains(says), "{query}: {fault}");
        }
    }
}
