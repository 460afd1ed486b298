//! Checks of a server before a run: whether it answers, is of its kind, knows the models and can put them to sleep.

use super::BackendError;
use super::api::{Api, ServedModel};
use super::http::Http;
use super::openai::listed;
use gswarm_core::input::Code;
use serde_json::Value;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The code, which says whether it is an error.
    pub code: Code,
    /// What is wrong, and where.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

/// What was found of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// What is wrong with it.
    pub findings: Vec<Finding>,
    /// Why it cannot be told yet: it does not answer, or is not ready to.
    pub silent: Option<String>,
}

impl Preflight {
    /// Adds a finding.
    pub fn add(&mut self, code: Code, what: impl Into<String>, fix: impl Into<String>) {
        self.findings.push(Finding { code, what: what.into(), fix: fix.into() });
    }

    /// Adds what was found elsewhere.
    pub fn join(&mut self, other: Preflight) {
        self.findings.extend(other.findings);
        self.silent = self.silent.take().or(other.silent);
    }

    /// What was asked, or that a server is silent or a stranger.
    pub fn heard<T>(&mut self, result: Result<T, BackendError>) -> Option<T> {
        match result {
            Ok(value) => return Some(value),
            Err(BackendError::Gone(why) | BackendError::Unwell(why)) => self.silent = Some(why),
            Err(error @ BackendError::TimedOut(_)) => self.silent = Some(error.to_string()),
            Err(error) => {
                let fix = "correct `kind` or `url`: another program may listen there";
                self.add(Code::ServerStranger, error.to_string(), fix);
            }
        }
        None
    }

    /// Whether these models are among those that a server lists.
    pub fn lists(&mut self, wanted: &[ServedModel], known: &[String], same: impl Fn(&str, &str) -> bool) {
        for model in wanted.iter().filter(|one| !known.iter().any(|other| same(other, &one.name))) {
            let shown: Vec<&str> = known.iter().take(10).map(String::as_str).collect();
            let has = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
            let fix = "give the name that the server uses with `as`, or start the server with the model";
            self.add(Code::ModelNotListed, format!("it has no model `{}`; it lists {has}", model.name), fix);
        }
    }

    /// Whether a model takes more than the configuration says, by what its server says.
    pub fn takes(&mut self, model: &ServedModel, bytes: u64) {
        let gb = bytes as f64 / 1e9;
        // Files have a little more than weights.
        if gb > 1.05 * model.memory_gb + 0.05 {
            let what = format!(
                "`{}` takes {gb:.1} GB on the server, but {} GB in the configuration",
                model.name, model.memory_gb
            );
            self.add(Code::LargerOnServer, what, "correct `memory_gb`");
        }
    }
}

/// What can be told of every server: whether it answers as its kind does.
pub async fn of_any<A: Api + ?Sized>(api: &A) -> Preflight {
    let mut found = Preflight::default();
    if let Some(held) = found.heard(api.held().await) {
        found.silent = held.silent.into_values().next();
    }
    found
}

/// What can be told of a server that lists its models as OpenAI's interface does. `true` where it answers.
pub async fn lists_openai(found: &mut Preflight, http: &Http, wanted: &[ServedModel]) -> bool {
    let Some(known) = found.heard(listed(http).await) else { return false };
    found.lists(wanted, &known, |one, other| one == other);
    true
}

/// Whether a server frees memory when it sleeps, by a place in what it says of itself. Alone on its GPUs it need not.
pub async fn sleeps(found: &mut Preflight, http: &Http, ask: (&str, &str), shares: bool, flag: &str) {
    // Where it does not say, nothing is known.
    let Ok(info) = http.get(ask.0).await else { return };
    if info.pointer(ask.1).and_then(Value::as_bool) == Some(false) {
        let code = if shares { Code::SleepOff } else { Code::SleepUnneeded };
        let what = format!("{}: it frees no memory when it sleeps", http.address());
        found.add(code, what, format!("start it with `{flag}`"));
    }
}
