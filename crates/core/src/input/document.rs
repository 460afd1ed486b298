//! Any JSON or YAML file, for those who read formats of others: values that know their place in the text, and faults that
//! are all reported at once, like those of gswarm's own files.

use super::text::{self, Form};
use super::tree::Tree;

pub use super::config::choice;
pub use super::cycle::{Cycle, cycles};
pub use super::faults::{Faults, Path, Shown};
pub use super::fields::{
    Limits, Slot, duplicate_key, fields_among, fields_or, keep, not_negative, positive, quantity, text,
    wrong_type,
};
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
}

/// The bytes without a byte-order mark, which is what places count from.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    text::without_mark(bytes)
}
