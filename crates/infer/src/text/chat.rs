//! Chat messages to a prompt, by the model's own template where it has one.

use super::apart::{self, Renderer};
use crate::error::{Error, Result};
use crate::files;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Steps that a template may take; real ones take some thousands.
const FUEL: u64 = 10_000_000;

const MAX_TEMPLATE_BYTES: u64 = 4 << 20;

/// One message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
    /// What else the template may read: `tool_calls`, `tool_call_id`, `name`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub more: Map<String, Value>,
}

impl Message {
    /// A message that only says something.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), more: Map::new() }
    }
}

/// A chat, and what else its template is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chat {
    /// What was said so far.
    pub messages: Vec<Message>,
    /// Tools that the model may call, as the OpenAI API describes them.
    pub tools: Vec<Value>,
    /// Further values for the template.
    pub settings: Map<String, Value>,
}

impl From<Vec<Message>> for Chat {
    fn from(messages: Vec<Message>) -> Chat {
        Chat { messages, ..Chat::default() }
    }
}

/// How chats become prompts.
pub struct ChatTemplate {
    /// The model's template; without one, each message is a line that its role begins.
    template: Option<Template>,
    bos: String,
    eos: String,
}

struct Template {
    environment: Environment<'static>,
    source: String,
    renderer: Renderer,
}

impl Template {
    fn new(source: String, path: &Path) -> Result<Template> {
        Ok(Template {
            environment: environment(source.clone(), path)?,
            source,
            renderer: Renderer::default(),
        })
    }
}

impl ChatTemplate {
    /// Reads `chat_template.jinja` or the template in `tokenizer_config.json`, where there is one.
    pub(crate) fn read(folder: &Path) -> Result<ChatTemplate> {
        let path = folder.join("tokenizer_config.json");
        let config = files::read_json_if_there(&path)?.unwrap_or_default();
        let file = folder.join("chat_template.jinja");
        let (source, path) = match file.exists() {
            true => {
                let bytes = files::read(&file, MAX_TEMPLATE_BYTES)?;
                let text =
                    String::from_utf8(bytes).map_err(|_| Error::invalid(&file, "this is not UTF-8 text"))?;
                (Some(text), file)
            }
            false => (template(&config), path),
        };
        let template = source.map(|source| Template::new(source, &path)).transpose()?;
        Ok(ChatTemplate { template, bos: token(&config, "bos_token"), eos: token(&config, "eos_token") })
    }

    /// The prompt of a chat, ending where the assistant's answer begins.
    pub fn prompt(&self, chat: &Chat) -> Result<String> {
        let refuse =
            |what: &str| Err(Error::Request(format!("the model's chat template does not support {what}")));
        if !chat.tools.is_empty() && !self.knows_tools() {
            return refuse("tools");
        }
        let Some(template) = &self.template else {
            return if chat.settings.is_empty() { Ok(plain(&chat.messages)) } else { refuse("settings") };
        };
        let said = |message: &Message| {
            let mut said = message.more.clone();
            said.insert("role".to_owned(), message.role.clone().into());
            said.insert("content".to_owned(), message.content.clone().into());
            said
        };
        let mut values = json!({
            "messages": chat.messages.iter().map(said).collect::<Vec<_>>(),
            "add_generation_prompt": true,
            "bos_token": self.bos,
            "eos_token": self.eos,
        });
        if !chat.tools.is_empty() {
            values["tools"] = json!(chat.tools);
        }
        chat.settings.iter().for_each(|(name, value)| values[name] = value.clone());
        if apart::is_apart() {
            return template.renderer.render(&template.source, &values);
        }
        render(&template.environment, &values)
    }

    /// Whether the model's template tells it which tools it may call.
    #[must_use]
    pub fn knows_tools(&self) -> bool {
        self.template.as_ref().is_some_and(|template| template.source.contains("tools"))
    }

    /// Whether prompts still need the tokens that begin a text; the model's own template writes them itself.
    pub(crate) fn needs_special_tokens(&self) -> bool {
        self.template.is_none()
    }
}

/// The text that a template makes of values.
pub(super) fn render(environment: &Environment<'_>, values: &Value) -> Result<String> {
    let refuse = |error: minijinja::Error| {
        let reason = error.detail().map_or_else(|| error.to_string(), str::to_string);
        Error::Request(format!("the model's chat template rejects these messages: {reason}"))
    };
    let template = environment.get_template("chat").map_err(refuse)?;
    template.render(for_template(values)).map_err(refuse)
}

/// A value as templates have it.
fn for_template(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => ().into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().unwrap_or(f64::NAN).into(), minijinja::Value::from)
        }
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().map(for_template).collect::<Vec<_>>().into(),
        Value::Object(fields) => minijinja::Value::from_pairs(
            fields.iter().map(|(key, value)| (key.as_str(), for_template(value))),
        ),
    }
}

fn plain(messages: &[Message]) -> String {
    let lines = messages.iter().map(|message| format!("{}: {}\n", message.role, message.content));
    lines.chain(["assistant:".to_string()]).collect()
}

/// A text, or a list of named ones, of which `default` is taken.
fn template(config: &Value) -> Option<String> {
    match config.get("chat_template")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let named = list.iter().find(|entry| entry["name"] == "default").or(list.first())?;
            named["template"].as_str().map(str::to_string)
        }
        _ => None,
    }
}

/// A special token: its text, or an object with it.
fn token(config: &Value, key: &str) -> String {
    let value = &config[key];
    value.as_str().or_else(|| value["content"].as_str()).unwrap_or_default().to_string()
}

pub(super) fn environment(source: String, path: &Path) -> Result<Environment<'static>> {
    let mut environment = Environment::new();
    // As the library that models are published with has it.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| Error::Compute(error.to_string()))?);
    environment.set_fuel(Some(FUEL));
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_function(
        "raise_exception",
        |reason: String| -> std::result::Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, reason))
        },
    );
    let added = environment.add_template_owned("chat", source);
    added.map_err(|error| Error::invalid(path, format!("its chat template is damaged: {error}")))?;
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(source: Option<&str>) -> ChatTemplate {
        let template = source.map(|source| Template::new(source.to_string(), "t".as_ref()).unwrap());
        ChatTemplate { template, bos: "<s>".to_string(), eos: "</s>".to_string() }
    }

    fn said(role: &str, content: &str) -> Message {
        Message::new(role, content)
    }

    fn chat_of(messages: &[Message]) -> Chat {
        Chat::from(messages.to_vec())
    }

    #[test]
    fn without_a_template_each_message_is_a_line() {
        let prompt = chat(None).prompt(&chat_of(&[said("system", "Be brief."), said("user", "Hi")])).unwrap();
        assert_eq!(prompt, "system: Be brief.\nuser: Hi\nassistant:");
    }

    #[test]
    fn templates_as_models_have_them() {
        let source = "{{ bos_token }}{% for message in messages %}\n    \
            {% if message['role'] not in ['system', 'user'] %}{{ raise_exception('no such role') }}{% endif %}\n\
            <|{{ message.role }}|>{{ message['content'].strip() }}{{ eos_token }}\n{% endfor %}\n\
            {% if add_generation_prompt %}<|assistant|>{% endif %}";
        let template = chat(Some(source));
        let prompt = template.prompt(&chat_of(&[said("user", " Hi \n")])).unwrap();
        assert_eq!(prompt, "<s><|user|>Hi</s>\n<|assistant|>");
        let error = template.prompt(&chat_of(&[said("tool", "x")])).unwrap_err();
        assert!(error.to_string().contains("no such role"), "{error}");
    }

    #[test]
    fn tools_and_settings_go_to_templates_that_know_them() {
        let source = "{% if tools %}{{ tools[0].function.name }};{% endif %}{{ mood }};\
            {% for message in messages %}{{ message.content }}{{ message.tool_call_id }}{% endfor %}";
        let mut asked = chat_of(&[said("user", "x")]);
        asked.messages[0].more.insert("tool_call_id".to_owned(), "7".into());
        asked.tools = vec![json!({"type": "function", "function": {"name": "now"}})];
        asked.settings.insert("mood".to_owned(), "calm".into());
        assert_eq!(chat(Some(source)).prompt(&asked).unwrap(), "now;calm;x7");
        let error = chat(Some("{{ messages }}")).prompt(&asked).unwrap_err();
        assert!(error.to_string().contains("does not support tools"), "{error}");
        let error = chat(None).prompt(&Chat { tools: Vec::new(), ..asked }).unwrap_err();
        assert!(error.to_string().contains("does not support settings"), "{error}");
    }

    #[test]
    fn a_template_that_does_not_end_is_stopped() {
        let source =
            "{% for a in range(9999) %}{% for b in range(9999) %}{{ a * b }}{% endfor %}{% endfor %}";
        assert!(chat(Some(source)).prompt(&chat_of(&[said("user", "x")])).is_err());
        let error = environment("{% for %}".to_string(), "the file".as_ref()).unwrap_err();
        assert!(error.to_string().contains("the file"), "{error}");
    }
}
