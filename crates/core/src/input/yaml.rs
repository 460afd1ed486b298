//! YAML into a [`Tree`]: the one file that knows the YAML parser.

use super::code::Code;
use super::json::MAX_DEPTH;
use super::text::TextFault;
use super::tree::{Kind, Tree};
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError};
use std::collections::{HashMap, HashSet};

/// How many values the aliases of a file may stand for, all together.
const MAX_COPIED: usize = 1_000_000;

/// The one document of a YAML text.
pub(super) fn parse(source: &str) -> Result<Tree<'_>, TextFault> {
    let mut builder = Builder {
        tree: Tree::new(source),
        open: Vec::new(),
        anchors: HashMap::new(),
        copied: 0,
        has_root: false,
    };
    for next in Parser::new_from_str(source) {
        let (event, span) = next.map_err(|error| scan_fault(source, &error))?;
        let at = span.start.byte_offset().unwrap_or(0);
        builder.event(event, at)?;
    }
    if !builder.has_root || (builder.tree.len() == 1 && builder.tree.root().text().is_empty()) {
        return Err(TextFault::new(Code::NoContent, 0, "the file has no content".to_owned()));
    }
    Ok(builder.tree)
}

struct Builder<'a> {
    tree: Tree<'a>,
    open: Vec<Open>,
    /// The node of each anchor.
    anchors: HashMap<usize, usize>,
    copied: usize,
    has_root: bool,
}

struct Open {
    index: usize,
    children: u32,
    is_map: bool,
    /// Whether a `<<` stands among its keys.
    merges: bool,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: Event<'a>, at: usize) -> Result<(), TextFault> {
        match event {
            Event::DocumentStart(..) if self.has_root => {
                let message = "a second document starts here".to_owned();
                return Err(TextFault::new(Code::SeveralDocuments, at, message));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
                let plain = style == ScalarStyle::Plain && !is_text;
                if plain && text == "<<" && self.in_key() {
                    self.open.iter_mut().next_back().into_iter().for_each(|top| top.merges = true);
                }
                self.anchor(anchor);
                self.scalar(if plain { Kind::Plain } else { Kind::Quoted }, at, &text);
                self.value_done();
            }
            Event::SequenceStart(_, anchor, _) => self.start(Kind::Seq, anchor, at)?,
            Event::MappingStart(_, anchor, _) => self.start(Kind::Map, anchor, at)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(top) = self.open.pop() {
                    let children = if top.merges { self.merge(&top)? } else { top.children };
                    self.tree.close(top.index, children);
                }
                self.value_done();
            }
            Event::Alias(id) => {
                self.alias(id, at)?;
                self.value_done();
            }
            _ => {}
        }
        Ok(())
    }

    fn in_key(&self) -> bool {
        self.open.last().is_some_and(|top| top.is_map && top.children % 2 == 0)
    }

    fn value_done(&mut self) {
        match self.open.last_mut() {
            Some(top) => top.children += 1,
            None => self.has_root = true,
        }
    }

    fn anchor(&mut self, id: usize) {
        if id > 0 {
            self.anchors.insert(id, self.tree.len());
        }
    }

    fn scalar(&mut self, kind: Kind, at: usize, text: &str) {
        // Most scalars are slices of the source; where one lies in it says so without another look at it.
        let source = self.tree.source();
        let offset = (text.as_ptr() as usize).wrapping_sub(source.as_ptr() as usize);
        if source.get(offset..offset.saturating_add(text.len())) == Some(text) {
            self.tree.scalar(kind, at, offset, text.len());
        } else {
            self.tree.own_scalar(kind, at, text);
        }
    }

    fn start(&mut self, kind: Kind, anchor: usize, at: usize) -> Result<(), TextFault> {
        if self.in_key() {
            return Err(container_as_key(at));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(TextFault::too_deep(at));
        }
        self.anchor(anchor);
        let index = self.tree.open(kind, at);
        self.open.push(Open { index, children: 0, is_map: kind == Kind::Map, merges: false });
        Ok(())
    }

    fn alias(&mut self, id: usize, at: usize) -> Result<(), TextFault> {
        let target = self.anchors.get(&id).copied().filter(|&node| !self.tree.is_open(node));
        let Some(target) = target else {
            return Err(TextFault::new(Code::Aliases, at, "an alias contains itself".to_owned()));
        };
        if self.in_key() && matches!(self.tree.item(target).kind(), Kind::Seq | Kind::Map) {
            return Err(container_as_key(at));
        }
        let depth = depth(&self.tree, target);
        if self.open.len() + depth > MAX_DEPTH {
            return Err(TextFault::too_deep(at));
        }
        self.copied += self.tree.copy(target, at);
        self.within_budget(at)
    }

    fn within_budget(&self, at: usize) -> Result<(), TextFault> {
        if self.copied <= MAX_COPIED {
            return Ok(());
        }
        let message = format!("the aliases up to here expand to more than {MAX_COPIED} values");
        Err(TextFault::new(Code::Aliases, at, message))
    }

    /// Replaces `<<: mapping` by those entries of the mapping whose keys are not there yet. Returns the number of
    /// children that the mapping then has.
    fn merge(&mut self, top: &Open) -> Result<u32, TextFault> {
        self.tree.close(top.index, top.children);
        let map = self.tree.item(top.index);
        let is_merge = |key: &super::tree::Item<'_>| key.kind() == Kind::Plain && key.text() == "<<";
        let mut parts = Vec::new();
        let mut names = HashSet::new();
        for (key, value) in map.entries().filter(|(key, _)| !is_merge(key)) {
            names.insert(key.text());
            parts.extend([key.index(), value.index()]);
        }
        for (key, value) in map.entries().filter(|(key, _)| is_merge(key)) {
            let sources = if value.kind() == Kind::Seq { value.items().collect() } else { vec![value] };
            for source in sources {
                if source.kind() != Kind::Map {
                    let message = "`<<` takes a mapping, or a list of mappings".to_owned();
                    return Err(TextFault::new(Code::WrongType, key.at() as usize, message));
                }
                for (key, value) in source.entries().filter(|(key, _)| names.insert(key.text())) {
                    parts.extend([key.index(), value.index()]);
                }
            }
        }
        self.tree.replace_children(top.index, &parts);
        Ok(parts.len() as u32)
    }
}

/// Levels of containers of the node at `index`, itself included.
fn depth(tree: &Tree<'_>, index: usize) -> usize {
    let item = tree.item(index);
    if matches!(item.kind(), Kind::Plain | Kind::Quoted) {
        return 0;
    }
    1 + item.items().map(|child| depth(tree, child.index())).max().unwrap_or(0)
}

fn container_as_key(at: usize) -> TextFault {
    let message = "the key of a mapping must be text, not a list or a mapping".to_owned();
    TextFault::new(Code::WrongType, at, message)
}

fn scan_fault(source: &str, error: &ScanError) -> TextFault {
    let at = error.marker().byte_offset().unwrap_or(0).min(source.len());
    let at_end = at >= source.trim_end().len();
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => TextFault::too_deep(at),
        // These two are found only at the end of the text, but tell where the bracket or quote was opened.
        ErrorKind::UnclosedFlowCollection { .. } | ErrorKind::UnclosedQuotedScalar => {
            TextFault::truncated(source, &error.info())
        }
        _ if at_end => TextFault::truncated(source, &error.info()),
        _ => TextFault::new(Code::Syntax, at, format!("invalid YAML: {}", error.info())),
    }
}
