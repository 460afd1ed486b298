//! Names from files, made fit for a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// A text on one line and without anything that a terminal would obey: control characters are written as Rust escapes
/// them. Text without any is handed back as it is.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for one in text.chars() {
        if one.is_control() {
            let _ = write!(out, "{}", one.escape_debug());
        } else if steers(one) {
            let _ = write!(out, "{}", one.escape_unicode());
        } else {
            out.push(one);
        }
    }
    Cow::Owned(out)
}

/// Whether [`shown`] has nothing to do.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        || !text.chars().any(|one| one.is_control() || steers(one))
}

/// Characters that break lines or turn the direction of writing.
fn steers(one: char) -> bool {
    matches!(one, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::shown;
    use std::borrow::Cow;

    #[test]
    fn only_what_a_terminal_obeys_is_escaped() {
        let rows = [
            ("m\u{1b}[31mX", "m\\u{1b}[31mX"),
            ("r\n1\t\r", "r\\n1\\t\\r"),
            ("\u{7f}\u{9b}2J", "\\u{7f}\\u{9b}2J"),
            ("a\u{202e}b\u{2028}", "a\\u{202e}b\\u{2028}"),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(text), expected);
        }
        for text in ["", "req_001", "\"quoted\" \\ back", "模型 é"] {
            assert!(matches!(shown(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
