//! Whether a request can be carried out, known from the request and the model alone.

use super::{Endpoint, Own, Param, ParameterShape};
use crate::fault::Fault;
use gswarm_exec::backend::{CallAbilities, Dialect};
use serde_json::{Map, Value};

/// Who is asked.
#[derive(Clone, Copy, Debug)]
pub struct CallTarget<'t> {
    /// The model, as the request names it.
    pub model: &'t str,
    /// Its type by the configuration.
    pub kind: Option<&'t str>,
    /// What its servers can do.
    pub abilities: &'t CallAbilities,
}

/// Whether a model can be asked this. Nothing is sent for it, and no model is moved.
pub fn admit(endpoint: Endpoint, body: &Map<String, Value>, target: CallTarget<'_>) -> Result<(), Fault> {
    suits(endpoint, target)?;
    shapes(endpoint, body)?;
    match target.abilities.dialect {
        Dialect::OpenAi | Dialect::Emulated => {}
        Dialect::Calls => as_calls(endpoint, body)?,
        Dialect::Own => {
            own(endpoint, body)?;
            let fits = target.abilities.lacks_tools && is_given(body.get("tools"));
            if fits {
                return Err(unsupported("tools", "the model's chat template does not support tools"));
            }
            let asked = ["max_completion_tokens", "max_tokens"];
            let asked = asked.into_iter().find_map(|name| Some((name, body.get(name)?.as_u64()?)));
            if let (Some((name, tokens)), Some(context)) = (asked, target.abilities.context)
                && tokens >= u64::from(context)
            {
                let message = format!(
                    "This model's maximum context length is {context} tokens, but {name} asks for {tokens}"
                );
                return Err(Fault { code: "context_length_exceeded", ..Fault::param(name, message) });
            }
        }
    }
    Ok(())
}

/// Whether gswarm's own models can carry it out: what they do not know is refused, not passed over.
pub fn own(endpoint: Endpoint, body: &Map<String, Value>) -> Result<(), Fault> {
    if !endpoint.is_own() {
        let message = format!("gswarm's own models do not support {}", endpoint.path());
        return Err(unsupported("model", &message));
    }
    shapes(endpoint, body)?;
    for (name, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        match param(endpoint, name) {
            Some(Param { own: Own::Honoured | Own::Ignored, .. }) => {}
            Some(Param { own: Own::Refused(neutral), note, .. }) => {
                let is_neutral =
                    |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|one| one == *value);
                if neutral.is_empty() || !neutral.split('|').any(is_neutral) {
                    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
                    let message = format!("this model does not support this value of `{name}`{note}");
                    return Err(unsupported(name, &message));
                }
            }
            None => return Err(unsupported(name, &format!("there is no parameter `{name}`"))),
        }
    }
    Ok(())
}

/// What servers without this API can be told: texts and plain settings.
fn as_calls(endpoint: Endpoint, body: &Map<String, Value>) -> Result<(), Fault> {
    const TEXTS: [&str; 6] = ["model", "messages", "prompt", "input", "stop", "stream_options"];
    const NOT_ONE: [&str; 5] = ["n", "logprobs", "top_logprobs", "echo", "best_of"];
    if !matches!(endpoint, Endpoint::Chat | Endpoint::Completions | Endpoint::Embeddings) {
        let message = format!("the model's server does not support {}", endpoint.path());
        return Err(unsupported("model", &message));
    }
    for (name, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        let plain =
            param(endpoint, name).map_or(!value.is_object() && !value.is_array(), |it| it.shape.is_plain());
        let neutral = matches!(value, Value::Bool(false)) || value.as_u64() == Some(1);
        let is_text = TEXTS.contains(&name.as_str());
        if (!plain && !is_text) || (NOT_ONE.contains(&name.as_str()) && !neutral) {
            return Err(unsupported(
                name,
                &format!("the model's server does not support this value of `{name}`"),
            ));
        }
    }
    Ok(())
}

fn suits(endpoint: Endpoint, target: CallTarget<'_>) -> Result<(), Fault> {
    let kind = target.abilities.kind.as_deref().or(target.kind);
    match kind.filter(|kind| !endpoint.suits(kind)) {
        None => Ok(()),
        Some(kind) => {
            let shown: String = target.model.chars().take(100).collect();
            let message = format!(
                "`{shown}` is a model of type {kind}; {} needs type {}",
                endpoint.path(),
                endpoint.needs()
            );
            Err(Fault::param("model", message))
        }
    }
}

/// What is known has to be of its type, and what is needed has to be there.
fn shapes(endpoint: Endpoint, body: &Map<String, Value>) -> Result<(), Fault> {
    for (name, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        if let Some(param) = param(endpoint, name)
            && !is_of(param.shape, value)
        {
            let message = format!("{name} must be {}", param.shape.name());
            return Err(Fault::param(name, message));
        }
    }
    let needed: &[&str] = match endpoint {
        Endpoint::Chat => &["messages"],
        Endpoint::Completions | Endpoint::Images => &["prompt"],
        Endpoint::Embeddings | Endpoint::Speech => &["input"],
        Endpoint::Rerank => &["query", "documents"],
        Endpoint::Tokenize | Endpoint::Responses => &[],
    };
    for &name in needed {
        match body.get(name) {
            None | Some(Value::Null) => return Err(Fault::param(name, format!("{name} is missing"))),
            Some(Value::Array(list)) if list.is_empty() => {
                return Err(Fault::param(name, format!("{name} is empty")));
            }
            Some(_) => {}
        }
    }
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    for (at, message) in messages.enumerate() {
        if !message.get("role").is_some_and(Value::is_string) {
            let place = format!("messages[{at}].role");
            let why = format!("{place} is missing: a message has a role, such as `user`");
            return Err(Fault::param(place, why));
        }
    }
    Ok(())
}

fn is_of(shape: ParameterShape, value: &Value) -> bool {
    let whole = || {
        value.as_i64().is_some()
            || value.as_u64().is_some()
            || value.as_f64().is_some_and(|it| it.fract() == 0.0)
    };
    match shape {
        ParameterShape::Flag => value.is_boolean(),
        ParameterShape::Whole => whole(),
        ParameterShape::Number => value.is_number(),
        ParameterShape::Text => value.is_string(),
        ParameterShape::TextOrList => value.is_string() || value.is_array(),
        ParameterShape::TextOrObject => value.is_string() || value.is_object(),
        ParameterShape::List => value.is_array(),
        ParameterShape::Object => value.is_object(),
        ParameterShape::FlagOrWhole => value.is_boolean() || whole(),
    }
}

fn param(endpoint: Endpoint, name: &str) -> Option<&'static Param> {
    endpoint.params().find(|param| param.name == name)
}

fn is_given(value: Option<&Value>) -> bool {
    value.is_some_and(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
}

fn unsupported(name: &str, message: &str) -> Fault {
    Fault { code: "unsupported_parameter", ..Fault::param(name, message) }
}
