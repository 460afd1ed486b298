//! Results of OpenAI's batch API: one JSON object a line, with the answer in `response.body`. All requests of a batch
//! arrive at its start.

use super::mooncake::lines;
use super::{MAX_TOKENS, Trace};
use crate::File;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Kind, Path, not_negative, quantity, wrong_type};

pub(super) fn read(file: &mut File<'_>, trace: &mut Trace) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        let response = line.get("response").filter(|response| response.kind() == Kind::Map);
        let status =
            response.and_then(|response| response.get("status_code")).map_or("200", |code| code.text());
        if line.get("error").is_some_and(|error| !error.is_null()) || !status.starts_with('2') {
            trace.unanswered += 1;
            continue;
        }
        let Some(body) = response.and_then(|response| response.get("body")) else {
            let message = format_args!("field `response.body` is missing");
            let hint = "import the batch's output file: its input does not say how many tokens were written"
                .to_owned();
            file.faults.add_hinted(Code::Missing, line.at(), &path, message, Some(hint));
            continue;
        };
        let usage = |names: [&str; 2], file: &mut File<'_>| {
            let usage = body.get("usage")?;
            let found = names.iter().find_map(|name| usage.get(name))?;
            quantity(found, &path, not_negative(MAX_TOKENS, ""), &mut file.faults)
        };
        let read = usage(["prompt_tokens", "input_tokens"], file).unwrap_or(0.0);
        // Embeddings write nothing: what they read is their work.
        let written = usage(["completion_tokens", "output_tokens"], file).unwrap_or(1.0);
        match body.get("model").map(|model| model.text()).filter(|model| !model.is_empty()) {
            Some(model) => trace.push(0, model, read, written),
            None => {
                file.faults.add(Code::Missing, line.at(), &path, format_args!("field `model` is missing"))
            }
        }
    }
    trace.notes.push("All requests of a batch arrive at its start".to_owned());
}
