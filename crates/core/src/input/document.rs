//! Any JSON or YAML file, for readers of other formats: values know their place in the text, and all faults are
//! reported at once, as for gswarm's own files.

use super::text::{self, Form, MAX_BYTES};
use super::tree::Tree;

pub use super::config::choice;
pub use super::cycle::{Cycle, cycles};
pub use super::faults::{Faults, Path, Shown};
pub use super::fields::{
    NumberRange, Slot, duplicate_key, fields_among, fields_or, keep, not_negative, positive, quantity, text,
    wrong_type,
};
pub use super::json::MAX_DEPTH;
pub use super::timestamp::calendar;
pub use super::tree::{Item, Kind, Scalar};

/// The parsed text of one file.
#[derive(Debug)]
pub struct Document<'a>(Tree<'a>);

impl<'a> Document<'a> {
    /// One JSON or YAML document; `None` where the text makes no sense, which is reported.
    pub fn parse(bytes: &'a [u8], faults: &mut Faults) -> Option<Document<'a>> {
        text::parse(bytes, Form::Single, faults).map(Document)
    }

    /// JSON objects, one a line, as one list: also where there is one line alone.
    pub fn parse_lines(bytes: &'a [u8], faults: &mut Faults) -> Option<Document<'a>> {
        text::parse(bytes, Form::SingleOrLines, faults).map(Document)
    }

    /// Its outermost value.
    #[must_use]
    pub fn root(&self) -> Item<'_> {
        self.0.root()
    }

    pub(super) fn tree(&self) -> &Tree<'a> {
        &self.0
    }
}

/// A document that is put together from values, and was never text: one value, with those inside it behind it.
#[derive(Debug, Default)]
pub struct DocumentBuilder(Tree<'static>);

impl DocumentBuilder {
    /// A scalar: [`Kind::Quoted`] for text, [`Kind::Plain`] for what JSON writes without quotes.
    pub fn scalar(&mut self, kind: Kind, text: &str) {
        self.0.own_scalar(kind, self.0.len(), text);
    }

    /// Begins a list or a mapping; its values follow, those of a mapping by turns with their keys.
    pub fn open(&mut self, kind: Kind) -> Opened {
        Opened(self.0.open(kind, self.0.len()))
    }

    /// Ends it after so many values, keys counted in.
    pub fn close(&mut self, opened: Opened, values: usize) {
        self.0.close(opened.0, values as u32);
    }

    /// The document; `None` where it has more text than a file may have.
    #[must_use]
    pub fn finish(self) -> Option<Document<'static>> {
        (self.0.own_text() <= MAX_BYTES).then_some(Document(self.0))
    }
}

/// A list or a mapping that is not ended yet.
#[must_use]
#[derive(Debug)]
pub struct Opened(usize);

/// The bytes without a byte-order mark, which is what places count from.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    text::without_mark(bytes)
}
