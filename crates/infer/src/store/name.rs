//! Names of models.

use crate::error::{Error, Result};

const MAX_BYTES: usize = 96;

/// `NAME` or `OWNER/NAME`, of letters, digits, `.`, `_` and `-`, as hubs have them.
pub(super) fn check(name: &str) -> Result<()> {
    let refuse = |reason| Err(Error::Name { name: name.chars().take(MAX_BYTES).collect(), reason });
    if name.split('/').count() > 2 {
        return refuse("it has more than two parts");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return refuse("a part of it is empty");
        }
        if part.len() > MAX_BYTES {
            return refuse("a part of it is longer than 96 characters");
        }
        if part.starts_with('.') {
            return refuse("a part of it begins with a dot");
        }
        if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return refuse("it may have letters, digits, `.`, `_`, `-` and one `/`");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn names_of_hubs_are_taken() {
        for name in ["tiny-llm", "meta-llama/Llama-3.2-1B", "a", "a_b/c.d", "x..y"] {
            assert!(check(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_not() {
        let long = "a".repeat(97);
        for name in [
            "",
            "/",
            "..",
            ".",
            "../x",
            "a/..",
            "a/../b",
            "/etc/passwd",
            "a//b",
            "a/b/c",
            "a\\b",
            "C:",
            "a b",
            "ä",
            "a\0b",
            ".hidden",
            "a/.git",
            "~",
            "%2e%2e",
            &long,
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
