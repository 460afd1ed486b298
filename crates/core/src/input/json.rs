//! JSON and JSON Lines into a [`Tree`], without recursion.

use super::code::Code;
use super::text::TextFault;
use super::tree::{Kind, Tree};

/// How deep mappings and lists may be nested.
pub(super) const MAX_DEPTH: usize = 128;

/// Reads the first value of a JSON text; where more follows it, the place where that starts.
pub(super) fn one(tree: &mut Tree<'_>) -> Result<Option<usize>, TextFault> {
    let mut parser = Parser::new(tree);
    parser.value()?;
    parser.blanks();
    Ok((parser.pos < parser.bytes.len()).then_some(parser.pos))
}

/// Several values one after the other become one list. A line that is no JSON is reported, and the next line that
/// starts an object is where reading goes on.
pub(super) fn lines(tree: &mut Tree<'_>, faults: &mut Vec<TextFault>) {
    let list = tree.open(Kind::Seq, 0);
    let mut parser = Parser::new(tree);
    let mut count = 0;
    loop {
        parser.blanks();
        if parser.pos == parser.bytes.len() {
            break;
        }
        let (start, line) = (parser.tree.len(), parser.pos);
        match parser.value() {
            Ok(()) => count += 1,
            Err(fault) => {
                parser.tree.truncate(start);
                parser.skip_to_next_object(line);
                faults.push(fault);
            }
        }
    }
    tree.close(list, count);
}

struct Parser<'a, 't> {
    bytes: &'a [u8],
    source: &'a str,
    pos: usize,
    tree: &'t mut Tree<'a>,
    open: Vec<Open>,
}

struct Open {
    index: usize,
    children: u32,
    is_map: bool,
}

impl<'a, 't> Parser<'a, 't> {
    fn new(tree: &'t mut Tree<'a>) -> Parser<'a, 't> {
        let source = tree.source();
        Parser { bytes: source.as_bytes(), source, pos: 0, tree, open: Vec::new() }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    fn skip_to_next_object(&mut self, from: usize) {
        self.open.clear();
        self.pos = from;
        while let Some(line_end) = self.bytes[self.pos..].iter().position(|&b| b == b'\n') {
            self.pos += line_end + 1;
            if self.peek() == Some(b'{') {
                return;
            }
        }
        self.pos = self.bytes.len();
    }

    fn value(&mut self) -> Result<(), TextFault> {
        loop {
            self.blanks();
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if self.start(open == b'{')? {
                        continue;
                    }
                }
                Some(b'"') => self.string()?,
                Some(_) => self.word()?,
                None => return Err(self.unexpected("a value")),
            }
            // A value is complete; with it the containers that it is the last of.
            loop {
                let Some(top) = self.open.last_mut() else { return Ok(()) };
                top.children += 1 + u32::from(top.is_map);
                let is_map = top.is_map;
                self.blanks();
                match self.peek() {
                    Some(b',') => {
                        self.pos += 1;
                        if is_map {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_map => self.finish(),
                    Some(b']') if !is_map => self.finish(),
                    _ if is_map => return Err(self.unexpected("`,` or `}`")),
                    _ => return Err(self.unexpected("`,` or `]`")),
                }
            }
        }
    }

    /// Opens a container; whether it has any child, whose value comes next.
    fn start(&mut self, is_map: bool) -> Result<bool, TextFault> {
        if self.open.len() == MAX_DEPTH {
            return Err(TextFault::too_deep(self.pos));
        }
        let index = self.tree.open(if is_map { Kind::Map } else { Kind::Seq }, self.pos);
        self.open.push(Open { index, children: 0, is_map });
        self.pos += 1;
        self.blanks();
        match self.peek() {
            Some(b'}') if is_map => self.finish(),
            Some(b']') if !is_map => self.finish(),
            _ if is_map => {
                self.key()?;
                return Ok(true);
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    fn finish(&mut self) {
        self.pos += 1;
        if let Some(top) = self.open.pop() {
            self.tree.close(top.index, top.children);
        }
    }

    fn key(&mut self) -> Result<(), TextFault> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        self.string()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.pos += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), TextFault> {
        let (at, start) = (self.pos, self.pos + 1);
        self.pos = start;
        self.skip_to_special();
        if self.peek() == Some(b'"') {
            self.tree.scalar(Kind::Quoted, at, start, self.pos - start);
            self.pos += 1;
            return Ok(());
        }
        let mut text = String::from(&self.source[start..self.pos]);
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => {
                    let message = "a control character stands unescaped in a string".to_owned();
                    return Err(TextFault::new(Code::Syntax, self.pos, message));
                }
                None => return Err(self.unexpected("the end of a string")),
            }
            let from = self.pos;
            self.skip_to_special();
            text.push_str(&self.source[from..self.pos]);
        }
        self.pos += 1;
        self.tree.own_scalar(Kind::Quoted, at, &text);
        Ok(())
    }

    fn skip_to_special(&mut self) {
        let special = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < 0x20;
        let rest = &self.bytes[self.pos..];
        self.pos += rest.iter().position(special).unwrap_or(rest.len());
    }

    fn escape(&mut self) -> Result<char, TextFault> {
        let at = self.pos;
        self.pos += 2;
        let simple = match self.bytes.get(at + 1) {
            Some(&byte @ (b'"' | b'\\' | b'/')) => byte as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(at),
            Some(_) => return Err(bad_escape(at)),
            None => {
                self.pos = self.bytes.len();
                return Err(self.unexpected("the end of a string"));
            }
        };
        Ok(simple)
    }

    fn unicode(&mut self, at: usize) -> Result<char, TextFault> {
        let high = self.hex(at)?;
        if !(0xD800..0xDC00).contains(&high) {
            return char::from_u32(high).ok_or_else(|| bad_escape(at));
        }
        if !self.bytes[self.pos..].starts_with(b"\\u") {
            return Err(bad_escape(at));
        }
        self.pos += 2;
        let low = self.hex(at)?;
        let pair = 0x10000 + ((high - 0xD800) << 10) + low.wrapping_sub(0xDC00);
        if (0xDC00..0xE000).contains(&low) { char::from_u32(pair) } else { None }
            .ok_or_else(|| bad_escape(at))
    }

    fn hex(&mut self, at: usize) -> Result<u32, TextFault> {
        let digits = self.bytes.get(self.pos..self.pos + 4).ok_or_else(|| bad_escape(at))?;
        self.pos += 4;
        digits.iter().try_fold(0, |value, &digit| {
            let digit = (digit as char).to_digit(16).ok_or_else(|| bad_escape(at))?;
            Ok(value * 16 + digit)
        })
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), TextFault> {
        let start = self.pos;
        let in_word = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        self.pos += self.bytes[start..].iter().take_while(|&byte| in_word(byte)).count();
        let word = &self.bytes[start..self.pos];
        let known: [&[u8]; 6] = [b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"];
        if is_number(word) || known.contains(&word) {
            self.tree.scalar(Kind::Plain, start, start, self.pos - start);
            return Ok(());
        }
        let cut_off = self.pos == self.bytes.len()
            && !word.is_empty()
            && (known.iter().any(|known| known.starts_with(word)) || is_number(&[word, b"0"].concat()));
        if !cut_off {
            self.pos = start;
        }
        Err(self.unexpected("a value"))
    }

    /// What stands here is not what was expected; at the end of the text that means that the text was cut off.
    fn unexpected(&self, expected: &str) -> TextFault {
        match self.source[self.pos.min(self.source.len())..].chars().next() {
            None => TextFault::truncated(self.source, &format!("{expected} was expected")),
            Some(found) => {
                let message = format!("invalid JSON: expected {expected}, found `{}`", found.escape_debug());
                TextFault::new(Code::Syntax, self.pos, message)
            }
        }
    }
}

fn bad_escape(at: usize) -> TextFault {
    TextFault::new(Code::Syntax, at, "invalid JSON: a string has an escape that does not exist".to_owned())
}

/// Whether `word` is a number by the grammar of JSON.
fn is_number(word: &[u8]) -> bool {
    let digits = |from: usize| word[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(word.first() == Some(&b'-'));
    let whole = digits(sign);
    if whole == 0 || (whole > 1 && word[sign] == b'0') {
        return false;
    }
    let mut at = sign + whole;
    if word.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = word.get(at) {
        at += 1 + usize::from(matches!(word.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == word.len()
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
