//! What the OpenAI-compatible endpoints accept: one table of every parameter, by endpoint. Requests are checked against it before
//! anything is scheduled, the documentation is written from it, and each row is tested.

mod check;
mod params;

pub use check::{CallTarget, admit, own};
pub use params::PARAMS;

use std::fmt::Write;

/// An endpoint that takes a request for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/rerank`.
    Rerank,
    /// `/tokenize`.
    Tokenize,
    /// `/v1/responses`.
    Responses,
    /// `/v1/images/generations`.
    Images,
    /// `/v1/audio/speech`.
    Speech,
}

impl Endpoint {
    /// All of them, in the order of the documentation.
    pub const ALL: [Endpoint; 8] = [
        Endpoint::Chat,
        Endpoint::Completions,
        Endpoint::Embeddings,
        Endpoint::Rerank,
        Endpoint::Tokenize,
        Endpoint::Responses,
        Endpoint::Images,
        Endpoint::Speech,
    ];

    /// Its path.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Endpoint::Chat => "/v1/chat/completions",
            Endpoint::Completions => "/v1/completions",
            Endpoint::Embeddings => "/v1/embeddings",
            Endpoint::Rerank => "/v1/rerank",
            Endpoint::Tokenize => "/tokenize",
            Endpoint::Responses => "/v1/responses",
            Endpoint::Images => "/v1/images/generations",
            Endpoint::Speech => "/v1/audio/speech",
        }
    }

    /// Whether models of a type answer there. A type that nobody knows may do anything.
    #[must_use]
    pub fn suits(self, kind: &str) -> bool {
        use Endpoint::{Chat, Completions, Embeddings, Images, Rerank, Responses, Speech, Tokenize};
        let able: &[Endpoint] = match kind {
            "llm" | "vlm" => &[Chat, Completions, Responses, Tokenize],
            "embedding" => &[Embeddings, Rerank, Tokenize],
            "rerank" | "reranker" => &[Rerank, Tokenize],
            "image_generation" => &[Images],
            "tts" | "speech" => &[Speech],
            _ => return true,
        };
        able.contains(&self)
    }

    /// The type of model that it is for.
    #[must_use]
    pub fn needs(self) -> &'static str {
        match self {
            Endpoint::Chat | Endpoint::Completions | Endpoint::Responses => "llm",
            Endpoint::Embeddings => "embedding",
            Endpoint::Rerank => "embedding or reranker",
            Endpoint::Tokenize => "llm or embedding",
            Endpoint::Images => "image_generation",
            Endpoint::Speech => "tts",
        }
    }

    /// Whether gswarm's own models answer there.
    #[must_use]
    pub fn is_own(self) -> bool {
        !matches!(self, Endpoint::Responses | Endpoint::Images | Endpoint::Speech)
    }

    /// The parameters that it has.
    pub fn params(self) -> impl Iterator<Item = &'static Param> {
        PARAMS.iter().filter(move |param| param.at.contains(&self))
    }
}

/// The type of a parameter; null is as if it were not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterShape {
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A text or a list.
    TextOrList,
    /// A text or an object.
    TextOrObject,
    /// A list.
    List,
    /// An object.
    Object,
    /// `true`, `false` or a whole number.
    FlagOrWhole,
}

impl ParameterShape {
    /// For messages and the documentation.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ParameterShape::Flag => "true or false",
            ParameterShape::Whole => "a whole number",
            ParameterShape::Number => "a number",
            ParameterShape::Text => "a string",
            ParameterShape::TextOrList => "a string or a list",
            ParameterShape::TextOrObject => "a string or an object",
            ParameterShape::List => "a list",
            ParameterShape::Object => "an object",
            ParameterShape::FlagOrWhole => "true, false or a whole number",
        }
    }

    /// Whether a call of a server without this API can have it among its settings.
    #[must_use]
    pub fn is_plain(self) -> bool {
        matches!(
            self,
            ParameterShape::Flag | ParameterShape::Whole | ParameterShape::Number | ParameterShape::Text
        )
    }
}

/// What gswarm's own models do with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// They go by it.
    Honoured,
    /// They cannot do it: 400, unless it is one of these values (JSON), which ask for nothing.
    Refused(&'static str),
    /// It does not bear on the answer.
    Ignored,
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The OpenAI API.
    OpenAi,
    /// vLLM's extension of it, which other servers share in part.
    Vllm,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The endpoints that have it.
    pub at: &'static [Endpoint],
    /// Who has it.
    pub origin: Origin,
    /// Its type.
    pub shape: ParameterShape,
    /// What gswarm's own models do with it.
    pub own: Own,
    /// A value, as JSON, that asks for something.
    pub sample: &'static str,
    /// A word on it.
    pub note: &'static str,
}

/// The table of the documentation, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    for endpoint in Endpoint::ALL {
        let _ = writeln!(text, "### `POST {}`\n", endpoint.path());
        if !endpoint.is_own() {
            text.push_str("gswarm's own models do not support this endpoint: such calls are refused.\n\n");
        }
        text.push_str(
            "| parameter | of | servers with the API | own models | note |\n|---|---|---|---|---|\n",
        );
        for param in endpoint.params() {
            let own = match param.own {
                _ if !endpoint.is_own() => "refused",
                Own::Honoured => "honoured",
                Own::Refused("") => "refused",
                Own::Refused(_) => "refused unless neutral",
                Own::Ignored => "ignored",
            };
            let neutral = match param.own {
                Own::Refused(neutral) if !neutral.is_empty() && endpoint.is_own() => {
                    format!("neutral: `{}`", neutral.replace('|', "`, `"))
                }
                _ => String::new(),
            };
            let note: Vec<&str> =
                [param.note, &neutral].into_iter().filter(|text| !text.is_empty()).collect();
            let origin = if param.origin == Origin::OpenAi { "OpenAI" } else { "vLLM" };
            let _ =
                writeln!(text, "| `{}` | {origin} | passed on | {own} | {} |", param.name, note.join("; "));
        }
        text.push('\n');
    }
    text
}
