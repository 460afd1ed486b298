//! Exports of Langfuse: observations, or traces with their observations, as a list or one a line.

use super::{Span, count, moment, text};
use crate::File;
use crate::trace::lines;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Item, Kind, Path, wrong_type};

/// Types of observations that call a model.
const CALLS: [&str; 2] = ["GENERATION", "EMBEDDING"];

pub(super) fn read(file: &mut File<'_>, spans: &mut Vec<Span>) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    let mut seen = 0;
    for (place, line) in lines(&document).enumerate() {
        seen += each(file, line, &root.index(place, line.at()), None, spans);
    }
    if seen == 0 && !file.faults.has_errors() {
        let message = format_args!("this is not a Langfuse export: there are no observations");
        file.faults.add(Code::OtherKind, 0, &root, message);
    }
}

/// An observation, or what holds some: a page of them, or a trace. Says how many there were.
fn each(
    file: &mut File<'_>,
    item: Item<'_>,
    path: &Path<'_>,
    trace: Option<Item<'_>>,
    spans: &mut Vec<Span>,
) -> usize {
    if item.kind() == Kind::Seq {
        return item.items().map(|one| each(file, one, path, trace, spans)).sum();
    }
    if item.kind() != Kind::Map {
        wrong_type(item, path, "a mapping", &mut file.faults);
        return 0;
    }
    if let Some(observations) = item.get("observations").filter(|list| list.kind() == Kind::Seq) {
        return observations.items().map(|one| each(file, one, path, Some(item), spans)).sum();
    }
    if let Some(data) = item.get("data").filter(|data| data.kind() == Kind::Seq) {
        return data.items().map(|one| each(file, one, path, trace, spans)).sum();
    }
    observation(file, item, path, trace, spans);
    1
}

fn observation(
    file: &mut File<'_>,
    item: Item<'_>,
    path: &Path<'_>,
    around: Option<Item<'_>>,
    spans: &mut Vec<Span>,
) {
    let first = |names: &[&str]| names.iter().find_map(|name| text(item.get(name)));
    let kind = first(&["type"]).unwrap_or_default().to_ascii_uppercase();
    let trace = first(&["traceId", "trace_id"]).or_else(|| text(around?.get("id")));
    let Some(trace) = trace else {
        return file.faults.add(Code::Missing, item.at(), path, format_args!("field `traceId` is missing"));
    };
    let started = item.get("startTime").or_else(|| item.get("start_time"));
    let Some(start) = moment(file, started, "startTime", item.at(), path) else { return };
    let ended = item.get("endTime").or_else(|| item.get("end_time")).filter(|end| !end.is_null());
    let is_call = CALLS.contains(&kind.as_str());
    // Events, and spans that were never ended, are points in time.
    let end = match ended {
        Some(_) => moment(file, ended, "endTime", item.at(), path),
        None if is_call => moment(file, None, "endTime", item.at(), path),
        None => Some(start),
    };
    let Some(end) = end else { return };
    let usage = |names: &[&str]| {
        let inside = ["usageDetails", "usage_details", "usage"].iter().filter_map(|name| item.get(name));
        let inside = inside.filter(|usage| usage.kind() == Kind::Map).chain([item]);
        inside.into_iter().find_map(|usage| names.iter().find_map(|name| count(usage.get(name))))
    };
    let named = |item: Item<'_>| text(item.get("name"));
    let name = first(&["name"]).or_else(|| named(around?)).unwrap_or_default();
    let id = first(&["id"]).unwrap_or_else(|| format!("{trace} {}", spans.len()));
    spans.push(Span {
        parent: first(&["parentObservationId", "parent_observation_id"]).unwrap_or_default(),
        model: first(&["model", "providedModelName", "internalModelId"]).filter(|_| is_call),
        operation: if kind == "EMBEDDING" { "embeddings".to_owned() } else { String::new() },
        prompt_tokens: usage(&["input", "promptTokens", "prompt_tokens", "inputUsage"]),
        answer_tokens: usage(&["output", "completionTokens", "completion_tokens", "outputUsage"]),
        failed: first(&["level"]).is_some_and(|level| level.eq_ignore_ascii_case("error")),
        workflow: None,
        at: item.at(),
        trace,
        name,
        id,
        start,
        end,
        ..Span::default()
    });
}
