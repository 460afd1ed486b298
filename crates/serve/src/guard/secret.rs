//! A token that never appears in what is printed or logged.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

/// A token. Only its hash is kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    hash: [u8; 32],
    length: usize,
}

impl Secret {
    /// The fewest characters of a token.
    pub const LEAST: usize = 16;

    /// From its text, without the white space around it that files end with.
    #[must_use]
    pub fn new(text: &str) -> Secret {
        let text = text.trim();
        Secret { hash: Sha256::digest(text).into(), length: text.len() }
    }

    /// Whether `given` is the token. Takes the same time whatever is given: lengths and beginnings cannot be guessed from it.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        let hash: [u8; 32] = Sha256::digest(given).into();
        self.hash.ct_eq(&hash).into()
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = Secret::new("0123456789abcdef\n");
        assert!(token.is(b"0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef\n", "0123456789abcdef0"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn nothing_of_it_is_shown() {
        let shown = format!("{:?}", Secret::new("0123456789abcdef"));
        assert!(!shown.contains("0123") && !shown.contains("16"), "{shown}");
    }
}
