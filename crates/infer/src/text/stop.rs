//! Strings that end an answer. They may come in pieces, so text that could be the beginning of one is held back.

/// Looks for the strings in text as it comes.
pub(crate) struct StopStrings {
    strings: Vec<String>,
    held: String,
}

impl StopStrings {
    /// Empty strings are none.
    pub(crate) fn new(strings: &[String]) -> StopStrings {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        StopStrings { strings, held: String::new() }
    }

    /// The text that can be given out now, and the string that ended it, if one did.
    pub(crate) fn push(&mut self, piece: &str) -> (String, Option<String>) {
        self.held.push_str(piece);
        let hits = self.strings.iter().filter_map(|string| Some((self.held.find(string.as_str())?, string)));
        if let Some((at, string)) = hits.min_by_key(|(at, _)| *at) {
            let string = string.clone();
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), Some(string));
        }
        let keep = self.strings.iter().map(|string| overlap(&self.held, string)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// What was held back, when no more text comes.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes at the end of `text` that are a beginning of `string`.
fn overlap(text: &str, string: &str) -> usize {
    let beginnings = string.char_indices().map(|(at, _)| at).filter(|&at| at > 0);
    beginnings.filter(|&at| text.ends_with(&string[..at])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(strings: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let strings: Vec<String> = strings.iter().map(|string| string.to_string()).collect();
        let mut stop = StopStrings::new(&strings);
        let mut text = String::new();
        for piece in pieces {
            let (given, hit) = stop.push(piece);
            text += &given;
            if hit.is_some() {
                return (text, hit);
            }
        }
        (text + &stop.finish(), None)
    }

    #[test]
    fn a_string_in_pieces_is_found_and_not_given_out() {
        assert_eq!(run(&["END"], &["a E", "N", "D b"]), ("a ".to_string(), Some("END".to_string())));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]), ("a".to_string(), Some("aab".to_string())));
        assert_eq!(run(&["é!"], &["né", "!"]), ("n".to_string(), Some("é!".to_string())));
    }

    #[test]
    fn the_earliest_wins_and_beginnings_come_out_in_the_end() {
        assert_eq!(run(&["y", "x"], &["axby"]), ("a".to_string(), Some("x".to_string())));
        assert_eq!(run(&["END", ""], &["a EN", "x EN"]), ("a ENx EN".to_string(), None));
        assert_eq!(run(&[], &["a", "b"]), ("ab".to_string(), None));
    }

    #[test]
    fn nothing_is_held_back_without_need() {
        let mut stop = StopStrings::new(&["END".to_string()]);
        assert_eq!(stop.push("text E"), ("text ".to_string(), None));
        assert_eq!(stop.push("a"), ("Ea".to_string(), None));
    }
}
