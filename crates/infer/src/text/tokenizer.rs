//! A model's tokenizer.

use crate::error::{Error, Result};
use crate::files;
use crate::form::TokenBytes;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokenizers::Tokenizer;

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be one of the tokenizers' library over a file: then the file is at fault, and is said
/// to be.
#[must_use]
pub fn is_panic_expected() -> bool {
    EXPECTED.get()
}

/// Calls the library, which panics over some files that it should refuse. `None` where it did.
fn calmly<T>(call: impl FnOnce() -> T) -> Option<T> {
    let before = EXPECTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(call));
    EXPECTED.set(before);
    done.ok()
}

/// Most bytes of a `tokenizer.json`.
const MAX_BYTES: u64 = 256 << 20;

/// The tokenizer of a model, with every token inside the model's vocabulary.
pub struct TextTokenizer {
    inner: Tokenizer,
    /// The bytes of its tokens, once somebody asks for them.
    bytes: OnceLock<Option<Arc<TokenBytes>>>,
}

impl TextTokenizer {
    pub(crate) fn read(path: &Path, vocab_size: usize) -> Result<TextTokenizer> {
        let bytes = files::read(path, MAX_BYTES)?;
        let unusable = || Error::invalid(path, "this tokenizer cannot be used: its library fails on it");
        calmly(|| TextTokenizer::parse(&bytes, path, vocab_size)).ok_or_else(unusable)?
    }

    fn parse(bytes: &[u8], path: &Path, vocab_size: usize) -> Result<TextTokenizer> {
        let mut inner = Tokenizer::from_bytes(bytes)
            .map_err(|error| Error::invalid(path, format!("this is not a tokenizer: {error}")))?;
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
        Ok(TextTokenizer { inner, bytes: OnceLock::new() })
    }

    /// The tokens of a text; `special` adds those that the model wants around a text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let gives_up = || Error::Request("the model's tokenizer fails on this text".to_owned());
        let encoded = calmly(|| self.inner.encode_fast(text, special)).ok_or_else(gives_up)?;
        let encoded =
            encoded.map_err(|error| Error::Request(format!("the text cannot be tokenised: {error}")))?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The bytes that each token adds to a text, where the tokenizer tells.
    pub(crate) fn token_bytes(&self) -> Option<Arc<TokenBytes>> {
        let read = || calmly(|| TokenBytes::of(&self.inner)).flatten().map(Arc::new);
        self.bytes.get_or_init(read).clone()
    }

    /// The text of tokens; special ones have none.
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        let gives_up = || Error::Compute("the model's tokenizer fails on these tokens".to_owned());
        let text = calmly(|| self.inner.decode(tokens, true)).ok_or_else(gives_up)?;
        text.map_err(|error| Error::Compute(format!("the tokens cannot be decoded: {error}")))
    }
}
