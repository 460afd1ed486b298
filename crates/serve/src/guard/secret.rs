//! A token that never appears in what is printed or logged.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// A token, or several, one for each caller. Only their hashes are kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    hashes: Vec<[u8; 32]>,
    /// Of the shortest.
    length: usize,
}

impl Secret {
    /// The fewest characters of a token.
    pub const LEAST: usize = 16;

    /// From a text with a token in each line, without the white space around it.
    #[must_use]
    pub fn new(text: &str) -> Secret {
        let tokens = || text.lines().map(str::trim).filter(|token| !token.is_empty());
        let length = tokens().map(str::len).min().unwrap_or(0);
        Secret { hashes: tokens().map(|token| Sha256::digest(token).into()).collect(), length }
    }

    /// Whether `given` is a token.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        self.which(given).is_some()
    }

    /// The place of the token that was given. Takes the same time whatever is given: lengths and beginnings cannot be guessed
    /// from it.
    pub(super) fn which(&self, given: &[u8]) -> Option<usize> {
        let hash: [u8; 32] = Sha256::digest(given).into();
        let (mut found, mut place) = (Choice::from(0), 0_u64);
        for (at, known) in (0..).zip(&self.hashes) {
            let is_it = known.ct_eq(&hash);
            place.conditional_assign(&at, is_it);
            found |= is_it;
        }
        bool::from(found).then_some(place as usize)
    }

    pub(super) fn count(&self) -> usize {
        self.hashes.len()
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
    fn each_line_is_a_token() {
        let tokens = Secret::new("0123456789abcdef\n\n  fedcba9876543210f \r\n");
        assert_eq!((tokens.count(), tokens.length()), (2, 16));
        assert_eq!(tokens.which(b"0123456789abcdef"), Some(0));
        assert_eq!(tokens.which(b"fedcba9876543210f"), Some(1));
        assert_eq!(tokens.which(b""), None);
    }

    #[test]
    fn nothing_of_it_is_shown() {
        let shown = format!("{:?}", Secret::new("0123456789abcdef"));
        assert!(!shown.contains("0123") && !shown.contains("16"), "{shown}");
    }
}
