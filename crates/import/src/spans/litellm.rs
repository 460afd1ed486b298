//! Logs of LiteLLM, one JSON object a line or a list: what its callbacks write and what its table of spend holds. Calls of one
//! trace, or of one session, are a request.

use super::{Span, count, moment, text};
use crate::File;
use crate::trace::lines;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Item, Kind, Path, wrong_type};

pub(super) fn read(file: &mut File<'_>, spans: &mut Vec<Span>) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        call(file, line, &path, spans);
    }
}

fn call(file: &mut File<'_>, line: Item<'_>, path: &Path<'_>, spans: &mut Vec<Span>) {
    let metadata = line.get("metadata").filter(|metadata| metadata.kind() == Kind::Map);
    let first = |names: &[&str]| {
        let inside = [Some(line), metadata];
        inside.into_iter().flatten().find_map(|item| names.iter().find_map(|name| text(item.get(name))))
    };
    let started = line.get("startTime").or_else(|| line.get("start_time"));
    let ended = line.get("endTime").or_else(|| line.get("end_time"));
    let start = moment(file, started, "startTime", line.at(), path);
    let end = moment(file, ended, "endTime", line.at(), path);
    let Some(model) = first(&["model", "model_group"]) else {
        return file.faults.add(Code::Missing, line.at(), path, format_args!("field `model` is missing"));
    };
    let (Some(start), Some(end)) = (start, end) else { return };
    let number = spans.len();
    let id = first(&["id", "request_id", "litellm_call_id"]).unwrap_or_else(|| format!("call {number}"));
    let trace = first(&["trace_id", "litellm_trace_id", "session_id", "litellm_session_id"]);
    let operation = first(&["call_type"]).unwrap_or_default();
    let usage = |name: &str| {
        let inside =
            [Some(line), line.get("usage"), line.get("response").and_then(|response| response.get("usage"))];
        inside.into_iter().flatten().find_map(|item| count(item.get(name)))
    };
    let status = first(&["status"]).unwrap_or_default().to_ascii_lowercase();
    spans.push(Span {
        // A call without a trace is a request of its own.
        trace: trace.unwrap_or_else(|| format!("alone {number} {id}")),
        parent: first(&["parent_id", "parent_otel_span"]).unwrap_or_default(),
        name: first(&["agent_name", "generation_name"]).unwrap_or_default(),
        model: Some(model),
        prompt_tokens: usage("prompt_tokens"),
        answer_tokens: usage("completion_tokens"),
        failed: matches!(status.as_str(), "failure" | "failed" | "error"),
        at: line.at(),
        operation,
        id,
        start,
        end,
        ..Span::default()
    });
}
