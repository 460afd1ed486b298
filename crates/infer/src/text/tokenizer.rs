//! A model's tokenizer.

use crate::error::{Error, Result};
use crate::files;
use std::path::Path;
use tokenizers::Tokenizer;

/// Most bytes of a `tokenizer.json`.
const MAX_BYTES: u64 = 256 << 20;

/// The tokenizer of a model, with every token inside the model's vocabulary.
pub struct TextTokenizer {
    inner: Tokenizer,
}

impl TextTokenizer {
    pub(crate) fn read(path: &Path, vocab_size: usize) -> Result<TextTokenizer> {
        let bytes = files::read(path, MAX_BYTES)?;
        let mut inner = Tokenizer::from_bytes(&bytes)
            .map_err(|error| Error::invalid(path, format!("this is no tokenizer: {error}")))?;
        let largest = inner.get_vocab(true).into_values().max();
        let Some(largest) = largest else {
            return Err(Error::invalid(path, "it has no tokens"));
        };
        if largest as usize >= vocab_size {
            let reason =
                format!("it has a token {largest}, where config.json has a vocabulary of {vocab_size}");
            return Err(Error::invalid(path, reason));
        }
        // Files of embedding models often cut and pad texts; what is too long is said here, and nothing is padded.
        let whole = inner.with_truncation(None).map(drop);
        whole.map_err(|error| Error::invalid(path, error.to_string()))?;
        inner.with_padding(None);
        Ok(TextTokenizer { inner })
    }

    /// The tokens of a text; `special` adds those that the model wants around a text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let encoded = self.inner.encode_fast(text, special);
        let encoded = encoded.map_err(|error| Error::Request(format!("the text has no tokens: {error}")))?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text of tokens; special ones have none.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        let text = self.inner.decode(tokens, true);
        text.map_err(|error| Error::Compute(format!("tokens without a text: {error}")))
    }
}
