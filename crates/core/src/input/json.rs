//! JSON and JSON Lines into a [`Tree`]. The grammar is jiter's; which containers are open is kept here, without recursion.

use super::code::Code;
use super::text::TextFault;
use super::tree::{Kind, Tree};
use jiter::{Jiter, JiterError, JiterErrorType, JiterResult, JsonErrorType, Peek};

/// How deep mappings and lists may be nested.
pub const MAX_DEPTH: usize = 128;

/// Reads the first value of a JSON text; where more follows it, the place where that starts.
pub(super) fn one(tree: &mut Tree<'_>) -> Result<Option<usize>, TextFault> {
    let mut reader = Reader::new(tree);
    reader.value()?;
    Ok(reader.next())
}

/// Several values one after the other become one list. A line that is no JSON is reported, and the next line that
/// starts an object is where reading goes on.
pub(super) fn lines(tree: &mut Tree<'_>, faults: &mut Vec<TextFault>) {
    let list = tree.open(Kind::Seq, 0);
    let mut reader = Reader::new(tree);
    let mut count = 0;
    while let Some(line) = reader.next() {
        let start = reader.tree.len();
        match reader.value() {
            Ok(()) => count += 1,
            Err(fault) => {
                faults.push(fault);
                reader.tree.truncate(start);
                let Some(line_end) = reader.source[line..].find("\n{") else { break };
                reader.seek(line + line_end + 1);
            }
        }
    }
    tree.close(list, count);
}

struct Reader<'a, 't> {
    source: &'a str,
    json: Jiter<'a>,
    /// Where in the source the text of `json` starts.
    base: usize,
    tree: &'t mut Tree<'a>,
    open: Vec<Open>,
}

struct Open {
    index: usize,
    children: u32,
    is_map: bool,
}

impl<'a, 't> Reader<'a, 't> {
    fn new(tree: &'t mut Tree<'a>) -> Reader<'a, 't> {
        let source = tree.source();
        let json = Jiter::new(source.as_bytes()).with_allow_inf_nan();
        Reader { source, json, base: 0, tree, open: Vec::new() }
    }

    fn seek(&mut self, to: usize) {
        self.json = Jiter::new(&self.source.as_bytes()[to..]).with_allow_inf_nan();
        self.base = to;
        self.open.clear();
    }

    fn at(&self) -> usize {
        self.base + self.json.current_index()
    }

    /// Where the next thing stands that is not blank, if there is any.
    fn next(&mut self) -> Option<usize> {
        self.json.peek().ok().map(|_| self.at())
    }

    fn value(&mut self) -> Result<(), TextFault> {
        let mut next = self.json.peek().map_err(|error| self.fault(error))?;
        loop {
            let mut inner = match next {
                Peek::Array | Peek::Object => self.start(next)?,
                _ => {
                    self.scalar(next).map_err(|error| self.fault(error))?;
                    None
                }
            };
            // A value is complete; with it the containers that it is the last of.
            next = loop {
                if let Some(next) = inner {
                    break next;
                }
                let Some(top) = self.open.last_mut() else { return Ok(()) };
                top.children += 1 + u32::from(top.is_map);
                let is_map = top.is_map;
                inner = self.step(is_map, false).map_err(|error| self.fault(error))?;
            };
        }
    }

    /// Opens a container; what its first value starts with, or nothing where it has none and is closed again.
    fn start(&mut self, container: Peek) -> Result<Option<Peek>, TextFault> {
        if self.open.len() == MAX_DEPTH {
            return Err(TextFault::too_deep(self.at()));
        }
        let is_map = container == Peek::Object;
        let index = self.tree.open(if is_map { Kind::Map } else { Kind::Seq }, self.at());
        self.open.push(Open { index, children: 0, is_map });
        self.step(is_map, true).map_err(|error| self.fault(error))
    }

    /// Goes on to the first or next value of the innermost container, past its key; without another one closes it.
    fn step(&mut self, is_map: bool, is_first: bool) -> JiterResult<Option<Peek>> {
        let from = self.at();
        let next = match (is_map, is_first) {
            (false, true) => self.json.known_array()?,
            (false, false) => self.json.array_step()?,
            (true, _) => {
                let key = if is_first { self.json.known_object()? } else { self.json.next_key()? };
                match key {
                    Some(key) => {
                        // Between the last value, or the opening bracket, and the key there is a comma at most.
                        let quote = self.source[from..].find('"').map_or(from, |offset| from + offset);
                        text(self.tree, self.source, quote, key);
                        Some(self.json.peek()?)
                    }
                    None => None,
                }
            }
        };
        if next.is_none()
            && let Some(top) = self.open.pop()
        {
            self.tree.close(top.index, top.children);
        }
        Ok(next)
    }

    fn scalar(&mut self, peek: Peek) -> JiterResult<()> {
        let at = self.at();
        match peek {
            Peek::String => {
                text(self.tree, self.source, at, self.json.known_str()?);
                return Ok(());
            }
            Peek::True | Peek::False => _ = self.json.known_bool(peek)?,
            Peek::Null => self.json.known_null()?,
            // What is no number either is refused as no value at all.
            _ => _ = self.json.known_number_bytes(peek)?,
        }
        self.tree.scalar(Kind::Plain, at, at, self.at() - at);
        Ok(())
    }

    fn fault(&self, error: JiterError) -> TextFault {
        let JiterErrorType::JsonError(kind) = error.error_type else {
            unreachable!("only what was seen to be next is asked for");
        };
        let expected = match kind {
            JsonErrorType::EofWhileParsingList => "`,` or `]` was expected",
            JsonErrorType::EofWhileParsingObject => "a key, `:`, `,` or `}` was expected",
            JsonErrorType::EofWhileParsingString => "the end of a string was expected",
            JsonErrorType::EofWhileParsingValue => "a value was expected",
            _ => {
                let at = self.source.floor_char_boundary(self.base + error.index);
                let found =
                    self.source[at..].chars().next().map(|found| format!(" at `{}`", found.escape_debug()));
                let message = format!("invalid JSON: {kind}{}", found.unwrap_or_default());
                return TextFault::new(Code::Syntax, at, message);
            }
        };
        TextFault::truncated(self.source, expected)
    }
}

/// Adds a string whose opening quote is at `at`; where it has escapes, `text` is not what the source says.
fn text(tree: &mut Tree<'_>, source: &str, at: usize, text: &str) {
    if source[at + 1..].starts_with(text) {
        tree.scalar(Kind::Quoted, at, at + 1, text.len());
    } else {
        tree.own_scalar(Kind::Quoted, at, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepts(text: &str) -> bool {
        matches!(one(&mut Tree::new(text)), Ok(None))
    }

    fn serde_accepts(text: &str) -> bool {
        match serde_json::from_str::<serde_json::Value>(text) {
            Ok(_) => true,
            // Numbers are measured when a field asks for them.
            Err(error) => error.to_string().starts_with("number out of range"),
        }
    }

    #[test]
    fn the_grammar_at_its_edges() {
        for text in
            ["-0", "1e5", "1E-05", "[]", "{}", " [1 , 2 ] ", r#""\ud83d\ude00""#, r#"{"a":{"b":[{}]}}"#]
        {
            assert!(accepts(text) && serde_accepts(text), "{text}");
        }
        let wrong = [
            "",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "[1,]",
            "{,}",
            "{\"a\"}",
            "[1 2]",
            "tru",
            "\"\\x\"",
            "\"\\ud83d\"",
            "]",
            "{\"a\":1]",
            "\"\n\"",
            "[",
            "1 1",
        ];
        for text in wrong {
            assert!(!accepts(text) && !serde_accepts(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn accepts_what_serde_json_accepts(text in r#"([\[\]{},:"\\0-9eE+.a-f -]|true|null|"[a-z]"|\\u00e9){0,12}"#) {
            prop_assert_eq!(accepts(&text), serde_accepts(&text), "{}", text);
        }
    }
}
