//! Text from tokens as they come. A character may take several tokens, and some tokenizers write a word differently at
//! the beginning of a text, so that a token alone does not say what it adds.

use super::tokenizer::TextTokenizer;
use crate::error::Result;

/// Turns tokens into pieces of text; the pieces together are the text of the tokens together.
#[derive(Default)]
pub(crate) struct Pieces {
    tokens: Vec<u32>,
    /// What is decoded begins here: one clean place before the last one, to have what stands before the new text.
    from: usize,
    /// Up to here all text is given out.
    clean: usize,
    /// Bytes of the text from `from` on that are given out.
    given: usize,
}

impl Pieces {
    /// The text that this token adds; empty while a character is incomplete.
    pub(crate) fn push(&mut self, token: u32, tokenizer: &TextTokenizer) -> Result<String> {
        self.tokens.push(token);
        let text = tokenizer.decode(&self.tokens[self.from..])?;
        // A mark of what is no character at the end may yet become one; those before it stay what they are.
        let whole = text.strip_suffix(char::REPLACEMENT_CHARACTER).unwrap_or(&text);
        let piece = whole.get(self.given..).unwrap_or_default().to_string();
        self.given = self.given.max(whole.len());
        if whole.len() == text.len() {
            self.from = self.clean;
            self.clean = self.tokens.len();
            self.given = tokenizer.decode(&self.tokens[self.from..])?.len();
        }
        Ok(piece)
    }

    /// What is left when no more tokens come.
    pub(crate) fn finish(&mut self, tokenizer: &TextTokenizer) -> Result<String> {
        let text = tokenizer.decode(&self.tokens[self.from..])?;
        let rest = text.get(self.given..).unwrap_or_default().to_string();
        self.given = text.len();
        Ok(rest)
    }

    /// How many tokens there were.
    pub(crate) fn count(&self) -> usize {
        self.tokens.len()
    }
}
