//! From the bytes of a file to its [`Tree`]: encoding, and which format it is.

use super::code::Code;
use super::faults::{Faults, Path};
use super::fields;
use super::json;
use super::tree::{Kind, Tree};
use super::yaml;

/// Largest file. Offsets have 32 bits, and what YAML's escapes write out can be half as long again as the text.
pub const MAX_BYTES: usize = 1 << 31;

/// A fault of the text itself, before anything is known of its meaning.
#[derive(Debug)]
pub(super) struct TextFault {
    pub code: Code,
    /// Offset in bytes.
    pub at: usize,
    pub message: String,
}

impl TextFault {
    pub fn new(code: Code, at: usize, message: String) -> TextFault {
        TextFault { code, at, message }
    }

    pub fn too_deep(at: usize) -> TextFault {
        let message = format!("mappings and lists are nested more than {} levels deep", json::MAX_DEPTH);
        TextFault::new(Code::TooDeep, at, message)
    }

    /// The place is just after the last thing that is there.
    pub fn truncated(source: &str, expected: &str) -> TextFault {
        TextFault::new(Code::Truncated, source.trim_end().len(), format!("the file ends early: {expected}"))
    }
}

/// What a file may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One document.
    Single,
    /// One document, or several JSON objects one after the other, which then are one list.
    SingleOrLines,
}

/// Takes a byte-order mark off. Offsets count from after it.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// The tree of a file; `None` where its text makes no sense at all.
pub(super) fn parse<'a>(bytes: &'a [u8], form: Form, faults: &mut Faults) -> Option<Tree<'a>> {
    let root = Path::root();
    let source = match decode(bytes) {
        Ok(source) => source,
        Err(fault) => {
            let utf16 = bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF");
            let hint = match fault.code {
                Code::NotUtf8 if utf16 => Some("the file looks like UTF-16; save it as UTF-8".to_owned()),
                Code::NotUtf8 => Some("is it the right file? Input files are UTF-8 text".to_owned()),
                _ => None,
            };
            faults.add_hinted(fault.code, fault.at as u32, &root, format_args!("{}", fault.message), hint);
            return None;
        }
    };
    let mut found = Vec::new();
    let tree = read(source, form, &mut found);
    for fault in found {
        let hint = foreign_syntax(source, fault.at).filter(|_| fault.code != Code::NoContent);
        let hint = hint.map(str::to_owned);
        faults.add_hinted(fault.code, fault.at as u32, &root, format_args!("{}", fault.message), hint);
    }
    tree.filter(|tree| tree.len() > 0)
}

/// What people are used to from other formats, in the line of a fault or in the two before it.
fn foreign_syntax(source: &str, at: usize) -> Option<&'static str> {
    let end = source.get(at..)?.find('\n').map_or(source.len(), |length| at + length);
    source[..end].lines().rev().take(3).find_map(|line| {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        if text.starts_with("//") || line.contains(" // ") || text.starts_with("/*") {
            Some(fields::NO_COMMENT)
        } else if indent.contains('\t') {
            Some("YAML must be indented with spaces: replace the tab")
        } else {
            None
        }
    })
}

fn decode(bytes: &[u8]) -> Result<&str, TextFault> {
    let bytes = without_mark(bytes);
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; the limit is 2 GiB", bytes.len());
        return Err(TextFault::new(Code::TooBig, 0, message));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("byte {:#04x} at offset {at} is not part of UTF-8 text", bytes[at]);
        TextFault::new(Code::NotUtf8, at, message)
    })
}

fn read<'a>(source: &'a str, form: Form, faults: &mut Vec<TextFault>) -> Option<Tree<'a>> {
    if !matches!(source.trim_start().as_bytes().first(), Some(b'{' | b'[')) {
        return yaml::parse(source).map_err(|fault| faults.push(fault)).ok();
    }
    let mut tree = Tree::new(source);
    match json::one(&mut tree) {
        Ok(None) => Some(tree),
        Ok(Some(next)) => {
            let is_lines = tree.root().kind() == Kind::Map && source[next..].starts_with('{');
            if form == Form::SingleOrLines && is_lines {
                tree = Tree::new(source);
                json::lines(&mut tree, faults);
                return Some(tree);
            }
            several(source, next, faults)
        }
        Err(fault) if fault.code == Code::Syntax => {
            if form == Form::SingleOrLines && looks_like_lines(source) {
                let mut tree = Tree::new(source);
                json::lines(&mut tree, faults);
                return Some(tree);
            }
            flow_yaml(source, fault, faults)
        }
        Err(fault) => {
            faults.push(fault);
            None
        }
    }
}

/// What JSON refuses may be YAML's brackets, with bare words, comments or a comma too many. Where it is not that
/// either, the reader that came further says what is wrong.
fn flow_yaml<'a>(source: &'a str, json: TextFault, faults: &mut Vec<TextFault>) -> Option<Tree<'a>> {
    match yaml::parse(source) {
        Ok(tree) => Some(tree),
        Err(yaml) => {
            faults.push(if yaml.at > json.at { yaml } else { json });
            None
        }
    }
}

/// More follows a complete JSON value: YAML may still make sense of it, such as a comment at the end.
fn several<'a>(source: &'a str, at: usize, faults: &mut Vec<TextFault>) -> Option<Tree<'a>> {
    let message = "unexpected text after the end of the document".to_owned();
    flow_yaml(source, TextFault::new(Code::SeveralDocuments, at, message), faults)
}

/// Whether the second line starts an object as the first does: then a fault in the first line is one line's fault.
fn looks_like_lines(source: &str) -> bool {
    let mut lines = source.lines().filter(|line| !line.trim().is_empty());
    let starts_object = |line: &str| line.starts_with('{') && line.len() > 1;
    lines.next().is_some_and(starts_object) && lines.next().is_some_and(starts_object)
}
