//! Text to tokens and back.

pub(crate) mod apart;
pub(crate) mod chat;
pub(crate) mod pieces;
pub(crate) mod stop;
pub(crate) mod tokenizer;
