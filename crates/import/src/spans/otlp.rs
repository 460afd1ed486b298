//! OpenTelemetry spans as OTLP JSON: one export, or one a line, as collectors write files. Calls of models follow the semantic
//! conventions of `gen_ai`, or those of OpenInference and of older instrumentations.

use super::{Span, count, text};
use crate::File;
use crate::trace::lines;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Item, Kind, Path, Shown, wrong_type};

const MODELS: [&str; 5] = [
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.model_name",
    "llm.request.model",
    "embedding.model_name",
];
const PROMPTS: [&str; 4] = [
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
];
const ANSWERS: [&str; 4] = [
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
];
const OPERATIONS: [&str; 3] = ["gen_ai.operation.name", "llm.request.type", "openinference.span.kind"];
/// Operations that name a model and call none themselves.
const AROUND: [&str; 8] =
    ["invoke_agent", "create_agent", "execute_tool", "agent", "chain", "tool", "invoke_workflow", "workflow"];

pub(super) fn read(file: &mut File<'_>, spans: &mut Vec<Span>) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    let mut exports = 0;
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        let resources = either(line, "resourceSpans", "resource_spans");
        exports += usize::from(resources.is_some());
        for resource in resources.into_iter().flat_map(Item::items) {
            let scopes = either(resource, "scopeSpans", "scope_spans");
            let scopes = scopes.or_else(|| resource.get("instrumentationLibrarySpans"));
            for listed in scopes.into_iter().flat_map(Item::items).filter_map(|scope| scope.get("spans")) {
                listed.items().for_each(|item| one(file, item, &path, spans));
            }
        }
    }
    if exports == 0 && !file.faults.has_errors() {
        let message = format_args!("this is not an OTLP export: there is no `resourceSpans`");
        file.faults.add(Code::OtherKind, 0, &root, message);
    }
}

fn either<'t>(item: Item<'t>, name: &str, other: &str) -> Option<Item<'t>> {
    item.get(name).or_else(|| item.get(other))
}

fn one(file: &mut File<'_>, item: Item<'_>, path: &Path<'_>, spans: &mut Vec<Span>) {
    if item.kind() != Kind::Map {
        return wrong_type(item, path, "a span", &mut file.faults);
    }
    let id = |name, other| text(either(item, name, other)).unwrap_or_default();
    let start = nanoseconds(file, item, ["startTimeUnixNano", "start_time_unix_nano"], path);
    let end = nanoseconds(file, item, ["endTimeUnixNano", "end_time_unix_nano"], path);
    let (trace, own) = (id("traceId", "trace_id"), id("spanId", "span_id"));
    for (name, given) in [("traceId", &trace), ("spanId", &own)] {
        if given.is_empty() {
            file.faults.add(Code::Missing, item.at(), path, format_args!("field `{name}` is missing"));
        }
    }
    let (Some(start), Some(end)) = (start, end) else { return };
    let first = |names: &[&str]| names.iter().find_map(|name| attribute(item, name));
    let operation = text(first(&OPERATIONS)).unwrap_or_default();
    let is_around = AROUND.contains(&operation.to_ascii_lowercase().as_str());
    let links = item.get("links").into_iter().flat_map(Item::items);
    spans.push(Span {
        parent: id("parentSpanId", "parent_span_id"),
        name: id("name", "name"),
        model: text(first(&MODELS)).filter(|_| !is_around),
        prompt_tokens: count(first(&PROMPTS)),
        answer_tokens: count(first(&ANSWERS)),
        failed: item.get("status").and_then(|status| status.get("code")).is_some_and(is_error),
        needs: links.filter_map(|link| text(either(link, "spanId", "span_id"))).collect(),
        node: text(attribute(item, "gswarm.node")),
        index: count(attribute(item, "gswarm.node_index")),
        workflow: text(attribute(item, "gswarm.workflow")),
        at: item.at(),
        id: own,
        operation,
        trace,
        start,
        end,
    });
}

/// A moment in microseconds.
fn nanoseconds(file: &mut File<'_>, item: Item<'_>, names: [&str; 2], path: &Path<'_>) -> Option<i64> {
    let Some(found) = either(item, names[0], names[1]) else {
        file.faults.add(Code::Missing, item.at(), path, format_args!("field `{}` is missing", names[0]));
        return None;
    };
    let micros = found
        .text()
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|nanoseconds| i64::try_from(nanoseconds / 1000).ok());
    if micros.is_none() {
        let message =
            format_args!("`{}` is `{}`, but must be nanoseconds since 1970", names[0], Shown(found.text()));
        file.faults.add(Code::BadTimestamp, found.at(), path, message);
    }
    micros
}

fn is_error(code: Item<'_>) -> bool {
    matches!(code.text(), "2" | "STATUS_CODE_ERROR")
}

/// The value of an attribute, whatever its type.
fn attribute<'t>(span: Item<'t>, name: &str) -> Option<Item<'t>> {
    let listed = span.get("attributes")?.items();
    let found = listed.into_iter().find(|one| one.get("key").is_some_and(|key| key.text() == name))?;
    found.get("value")?.entries().next().map(|(_, value)| value)
}
