//! One JSON object a line: `{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}`, with
//! milliseconds from the start.

use super::{MAX_STAMP, MAX_TOKENS, Trace};
use crate::File;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Item, Kind, Path, not_negative, quantity, wrong_type};

pub(super) fn read(file: &mut File<'_>, trace: &mut Trace) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        let mut number = |name: &str, max: f64, unit: &'static str| {
            let path = path.key(name, line.at());
            match line.get(name) {
                Some(item) => quantity(item, &path, not_negative(max, unit), &mut file.faults),
                None => {
                    file.faults.add(
                        Code::Missing,
                        line.at(),
                        &path,
                        format_args!("field `{name}` is missing"),
                    );
                    None
                }
            }
        };
        let at = number("timestamp", MAX_STAMP * 1e3, " milliseconds");
        let read = number("input_length", MAX_TOKENS, "");
        let written = number("output_length", MAX_TOKENS, "");
        if let (Some(at), Some(read), Some(written)) = (at, read, written) {
            let before = trace.rows.len();
            trace.push((at * 1e3).round() as i64, "llm", read, written);
            let listed = line.get("hash_ids").into_iter().flat_map(Item::items);
            let blocks: Vec<u64> = listed.filter_map(|id| id.text().parse().ok()).collect();
            trace.rows[before..].iter_mut().for_each(|row| row.blocks.clone_from(&blocks));
        }
    }
}

/// The lines of a file of JSON lines, or the one object that it is.
pub(crate) fn lines<'t>(document: &'t Document<'_>) -> impl Iterator<Item = Item<'t>> {
    let root = document.root();
    let is_list = root.kind() == Kind::Seq;
    let one = (!is_list).then_some(root);
    one.into_iter().chain(is_list.then(|| root.items()).into_iter().flatten())
}
