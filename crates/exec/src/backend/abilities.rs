//! The OpenAI API features of a server, known before anything is sent to it, so that an unsupported request is refused
//! before a model is loaded for it.

/// How much of the OpenAI API a server has for a model, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// None: requests become calls with texts and plain settings.
    #[default]
    Calls,
    /// That of gswarm's own models: the fields they know, and no others.
    Own,
    /// All of it: fields are passed on as they are, those that nobody knows here too.
    OpenAi,
    /// It computes nothing, and takes whatever could be computed.
    Emulated,
}

/// What a server can do with a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallAbilities {
    /// How much of the API it has.
    pub dialect: Dialect,
    /// What sort of model it is, where the server knows: `llm`, `embedding`, ...
    pub kind: Option<String>,
    /// Most tokens of prompt and answer together, where that is known.
    pub context: Option<u32>,
    /// Whether chats with tools are refused, because the model's template does not know any.
    pub lacks_tools: bool,
}

impl CallAbilities {
    /// Those of servers that pass on what they are sent.
    #[must_use]
    pub fn of(dialect: Dialect) -> CallAbilities {
        CallAbilities { dialect, ..CallAbilities::default() }
    }
}
