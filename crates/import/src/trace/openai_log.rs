//! Access logs of OpenAI-compatible servers and of what stands before them: one JSON object a line, with when, which model
//! and how many tokens, under the names that are in use, at the top or inside `response`, `request`, `body` or `usage`.

use super::mooncake::lines;
use super::{MAX_STAMP, MAX_TOKENS, Trace};
use crate::File;
use gswarm_core::input::Code;
use gswarm_core::input::document::{
    Document, Item, Kind, Path, Scalar, Shown, calendar, not_negative, quantity, wrong_type,
};

const MOMENTS: [&str; 8] =
    ["timestamp", "time", "ts", "@timestamp", "created", "created_at", "start_time", "startTime"];
const PROMPTS: [&str; 2] = ["prompt_tokens", "input_tokens"];
const ANSWERS: [&str; 2] = ["completion_tokens", "output_tokens"];
const STATUSES: [&str; 2] = ["status", "status_code"];
/// Mappings that one of the fields may stand in.
const INSIDE: [&str; 4] = ["usage", "response", "request", "body"];
/// Numbers above it are milliseconds: as seconds they would be later than the year 5000.
const MILLISECONDS: f64 = 1e11;

pub(super) fn read(file: &mut File<'_>, trace: &mut Trace) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        let failed = find(line, &STATUSES, 3)
            .is_some_and(|status| matches!(status.scalar(), Some(Scalar::Number(code)) if code >= 400.0));
        let at = required(file, line, &path, &MOMENTS).and_then(|item| moment(file, item, &path, trace));
        if failed {
            trace.unanswered += 1;
            continue;
        }
        let model = required(file, line, &path, &["model"]).map(Item::text).unwrap_or_default();
        let read = find(line, &PROMPTS, 3)
            .map_or(Some(0.0), |item| quantity(item, &path, not_negative(MAX_TOKENS, ""), &mut file.faults));
        let written = required(file, line, &path, &ANSWERS)
            .and_then(|item| quantity(item, &path, not_negative(MAX_TOKENS, ""), &mut file.faults));
        if let (Some(at), Some(read), Some(written), false) = (at, read, written, model.is_empty()) {
            trace.push(at, model, read, written);
        }
    }
}

/// A scalar under one of these names, at the top or inside what may hold it.
fn find<'t>(map: Item<'t>, names: &[&str], depth: u32) -> Option<Item<'t>> {
    let is_scalar = |item: &Item<'t>| item.scalar().is_some();
    let here = names.iter().find_map(|name| map.get(name).filter(is_scalar));
    here.or_else(|| {
        let inside = INSIDE.iter().filter_map(|name| map.get(name)).filter(|item| item.kind() == Kind::Map);
        inside.into_iter().find_map(|item| find(item, names, depth.checked_sub(1)?))
    })
}

fn required<'t>(file: &mut File<'_>, line: Item<'t>, path: &Path<'_>, names: &[&str]) -> Option<Item<'t>> {
    let found = find(line, names, 3);
    if found.is_none() {
        let message = format_args!("field `{}` is missing", names[0]);
        let hint = (names.len() > 1).then(|| format!("other names for it: {}", names[1..].join(", ")));
        file.faults.add_hinted(Code::Missing, line.at(), path, message, hint);
    }
    found
}

fn moment(file: &mut File<'_>, item: Item<'_>, path: &Path<'_>, trace: &mut Trace) -> Option<i64> {
    trace.dated = true;
    if let Some(Scalar::Text) = item.scalar() {
        return calendar(item.text())
            .map_err(|reason| {
                let message = format_args!("bad timestamp `{}`: {}", Shown(item.text()), Shown(&reason));
                file.faults.add(Code::BadTimestamp, item.at(), path, message);
            })
            .ok();
    }
    let value = quantity(item, path, not_negative(MAX_STAMP * 1e3, ""), &mut file.faults)?;
    let seconds = if value > MILLISECONDS { value / 1e3 } else { value };
    Some((seconds * 1e6).round() as i64)
}
