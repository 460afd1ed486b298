//! Fields of a configuration, each checked as it is taken out.

use crate::error::{Error, Result};
use serde_json::Value;
use std::path::Path;

/// The fields of one object, with the file's name for complaints.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) path: &'a Path,
    pub(super) json: &'a Value,
}

impl<'a> Fields<'a> {
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::invalid(self.path, reason)
    }

    fn given(&self, key: &str) -> Option<&'a Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn architecture(&self) -> &'a str {
        let named = self.json.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
        named.unwrap_or_default()
    }

    pub(super) fn nested(&self, key: &str) -> Option<Fields<'a>> {
        self.given(key).filter(|value| value.is_object()).map(|json| Fields { path: self.path, json })
    }

    /// A size of at least one; without a default it has to be there.
    pub(super) fn size(&self, key: &str, default: Option<usize>, most: u64) -> Result<usize> {
        let Some(value) = self.given(key) else {
            return default.ok_or_else(|| self.wrong(format!("{key} is missing")));
        };
        match value.as_u64() {
            Some(size) if (1..=most).contains(&size) => Ok(size as usize),
            _ => Err(self.wrong(format!("{key} is {value}, not a whole number from 1 to {most}"))),
        }
    }

    pub(super) fn positive(&self, key: &str, default: f64) -> Result<f64> {
        let Some(value) = self.given(key) else { return Ok(default) };
        match value.as_f64() {
            Some(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(self.wrong(format!("{key} is {value}, not a number above zero"))),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        let Some(value) = self.given(key) else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.wrong(format!("{key} is {value}, not true or false")))
    }

    pub(super) fn word(&self, key: &str, default: &'a str, known: &[&str]) -> Result<&'a str> {
        let word = self.given(key).map_or(Some(default), Value::as_str).unwrap_or_default();
        match known.contains(&word) {
            true => Ok(word),
            false => Err(Error::unsupported(self.path, format!("{key} {word}"))),
        }
    }

    /// One token, several, or none.
    pub(super) fn tokens(&self, key: &str, vocab_size: usize) -> Result<Vec<u32>> {
        let values: Vec<&Value> = match self.given(key) {
            None => Vec::new(),
            Some(Value::Array(list)) => list.iter().collect(),
            Some(value) => vec![value],
        };
        let token = |value: &Value| match value.as_u64() {
            Some(id) if id < vocab_size as u64 => Ok(id as u32),
            _ => Err(self.wrong(format!("{key} {value} is outside the vocabulary of {vocab_size} tokens"))),
        };
        values.into_iter().map(token).collect()
    }
}
