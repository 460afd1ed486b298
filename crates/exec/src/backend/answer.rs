//! Failed answers with a success status. A server that is put to sleep answers 200 with half a text, and a gateway may
//! return another model's answer: such answers are failed calls.
//!
//! Answers are looked at as text and passed on as they are, but for the name of the model.

use super::BackendError;
use super::http::brief;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ops::Range;

/// Reasons to finish that say that the text is not whole.
const BROKEN_OFF: [&str; 2] = ["abort", "error"];
/// Events after which a stream has come to its end, where it has no `[DONE]`: of the Anthropic API and the newer ones of OpenAI.
const LAST_EVENTS: [&str; 6] = [
    "message_stop",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "image_generation.completed",
    "speech.audio.done",
];
/// The longest line of a stream.
const LONGEST_LINE: usize = 64 << 20;

/// Whether a reason to finish says that the text is whole.
pub(super) fn is_whole(reason: &str) -> Result<(), BackendError> {
    if BROKEN_OFF.contains(&reason) {
        return Err(BackendError::Failed(format!(
            "the server cut off the answer (finish_reason `{reason}`)"
        )));
    }
    Ok(())
}

/// What an answer is held against.
#[derive(Clone, Copy)]
pub(super) struct Expected<'e> {
    /// What the server calls the model.
    pub name: &'e str,
    /// What the server calls the models of the run.
    pub names: &'e [String],
}

/// The parts of an answer that are looked at.
#[derive(Deserialize)]
struct Seen<'t> {
    #[serde(borrow, default)]
    model: Option<&'t RawValue>,
    #[serde(borrow, default)]
    error: Option<&'t RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'t RawValue>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(borrow, default)]
    data: Option<Vec<&'t RawValue>>,
    /// What sort of event it is, where events have sorts.
    #[serde(default, rename = "type")]
    sort: Option<serde_json::Value>,
    /// As llama.cpp ends streams of its own endpoints.
    #[serde(default)]
    stop: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    finish_reason: Option<serde_json::Value>,
}

impl<'t> Seen<'t> {
    fn of(text: &'t str) -> Result<Seen<'t>, BackendError> {
        let unusable = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Data => format!("the answer is not of the expected form ({error})"),
            _ => "the answer is not JSON".to_owned(),
        };
        serde_json::from_str(text)
            .map_err(|error| BackendError::Failed(format!("{}: `{}`", unusable(error), brief(text))))
    }

    fn keeps(&self, expected: Expected<'_>) -> Result<(), BackendError> {
        if let Some(error) = self.error {
            let said = super::http::reason(&format!("{{\"error\": {}}}", error.get()));
            return Err(BackendError::Failed(format!("the server reports an error: {}", brief(&said))));
        }
        for choice in self.choices.iter().flatten() {
            choice.finish_reason.as_ref().and_then(|reason| reason.as_str()).map_or(Ok(()), is_whole)?;
        }
        let Some(name) = self.name() else { return Ok(()) };
        // Servers also answer with a path or an alias. The name of another model of the run is no alias, unless the model was
        // asked for by the number of its instance.
        let wanted = expected.name;
        let asked_by_name = expected.names.iter().any(|name| name == wanted);
        if asked_by_name && name != wanted && expected.names.contains(&name) {
            return Err(BackendError::Failed(format!("`{name}` answered in place of `{wanted}`")));
        }
        Ok(())
    }

    fn name(&self) -> Option<String> {
        serde_json::from_str(self.model?.get()).ok()
    }

    /// Where the name of the model is in the text.
    fn place_of_name(&self, text: &str) -> Option<Range<usize>> {
        let raw = self.model.filter(|_| self.name().is_some())?.get();
        let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        Some(start..start + raw.len())
    }

    fn is_finished(&self) -> bool {
        let sort = self.sort.as_ref().and_then(serde_json::Value::as_str);
        let is_last = sort.is_some_and(|sort| LAST_EVENTS.contains(&sort));
        let stops = self.stop.as_ref().and_then(serde_json::Value::as_bool) == Some(true);
        let mut choices = self.choices.iter().flatten();
        is_last
            || stops
            || choices.any(|choice| choice.finish_reason.as_ref().is_some_and(|why| !why.is_null()))
    }
}

/// The text with another name of the model.
fn renamed(text: &str, seen: &Seen<'_>, shown: &str) -> String {
    match seen.place_of_name(text) {
        Some(place) if seen.name().as_deref() != Some(shown) => {
            let name = serde_json::Value::from(shown);
            format!("{}{name}{}", &text[..place.start], &text[place.end..])
        }
        _ => text.to_owned(),
    }
}

/// Checks a whole answer, and returns it with the model called `shown`.
pub(super) fn whole(text: &str, expected: Expected<'_>, shown: &str) -> Result<String, BackendError> {
    let seen = Seen::of(text)?;
    seen.keeps(expected)?;
    let is_empty = seen.choices.as_ref().map(Vec::is_empty).or(seen.data.as_ref().map(Vec::is_empty));
    if is_empty.unwrap_or(false) {
        return Err(BackendError::Failed(format!("the answer is empty: `{}`", brief(text))));
    }
    Ok(renamed(text, &seen, shown))
}

/// An answer that comes piece by piece, as server-sent events.
pub(super) struct EventStream<'e> {
    expected: Expected<'e>,
    shown: &'e str,
    /// The asker was promised how many tokens there are.
    wants_usage: bool,
    has_usage: bool,
    /// It says that it has come to its end.
    is_ended: bool,
    line: Vec<u8>,
}

impl<'e> EventStream<'e> {
    pub fn new(expected: Expected<'e>, shown: &'e str, wants_usage: bool) -> EventStream<'e> {
        let (has_usage, is_ended, line) = (false, false, Vec::new());
        EventStream { expected, shown, wants_usage, has_usage, is_ended, line }
    }

    /// What of it can be passed on after another piece: whole lines.
    pub fn piece(&mut self, piece: &[u8]) -> Result<Vec<u8>, BackendError> {
        let mut out = Vec::with_capacity(piece.len() + self.line.len());
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.line.extend_from_slice(&rest[..=end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take(&line, &mut out)?;
        }
        if self.line.len() + rest.len() > LONGEST_LINE {
            return Err(BackendError::Failed(format!("a line of the answer exceeds {LONGEST_LINE} bytes")));
        }
        self.line.extend_from_slice(rest);
        Ok(out)
    }

    /// The rest of it, once there are no more pieces.
    pub fn end(mut self) -> Result<Vec<u8>, BackendError> {
        let (line, mut out) = (std::mem::take(&mut self.line), Vec::new());
        self.take(&line, &mut out)?;
        if !self.is_ended {
            return Err(BackendError::Failed("the answer ended early".to_owned()));
        }
        if self.wants_usage && !self.has_usage {
            return Err(BackendError::Failed("the answer lacks the requested `usage`".to_owned()));
        }
        Ok(out)
    }

    fn take(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), BackendError> {
        let text = std::str::from_utf8(line).ok();
        let said = text.and_then(|text| text.strip_prefix("data:"));
        let Some((text, said)) = text.zip(said.map(str::trim)) else {
            out.extend_from_slice(line);
            return Ok(());
        };
        if said == "[DONE]" {
            self.is_ended = true;
            out.extend_from_slice(line);
            return Ok(());
        }
        match Seen::of(said) {
            Ok(seen) => {
                seen.keeps(self.expected)?;
                self.has_usage |= seen.usage.is_some();
                // Some servers leave the last line out.
                self.is_ended |= seen.is_finished();
                out.extend_from_slice(text.replacen(said, &renamed(said, &seen, self.shown), 1).as_bytes());
            }
            // Not of the form that is looked at: whoever asked may know it.
            Err(_) => out.extend_from_slice(line),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["org/a", "org/b"].map(str::to_owned).to_vec()
    }

    fn judged(text: &str) -> Result<String, String> {
        let names = names();
        whole(text, Expected { name: "org/a", names: &names }, "mine").map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_no_success_fails() {
        for (text, why) in [
            (r#"{"choices": [{"text": "half", "finish_reason": "abort"}]}"#, "`abort`"),
            (
                r#"{"choices": [{"text": "a", "finish_reason": "stop"}, {"text": "", "finish_reason": "error"}]}"#,
                "`error`",
            ),
            (r#"{"choices": []}"#, "empty"),
            (r#"{"data": [], "model": "org/a"}"#, "empty"),
            (r#"{"error": {"message": "engine is dead"}}"#, "engine is dead"),
            (r#"{"model": "org/b", "choices": [{"text": "t"}]}"#, "`org/b` answered in place of `org/a`"),
            (r#"{"choices": 7}"#, "not of the expected form"),
            ("<html>", "not JSON"),
        ] {
            let found = judged(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn aliases_pass_and_the_name_becomes_that_which_was_asked_for() {
        for name in ["org/a", "/models/a-7b", "a:latest"] {
            let text = format!(
                r#"{{"id": 1.50, "model": "{name}", "choices": [{{"text": "\"model\": \"x\"", "finish_reason": "length"}}]}}"#
            );
            assert_eq!(judged(&text), Ok(text.replacen(name, "mine", 1)));
        }
        let without = r#"{"choices": [{"text": "t", "finish_reason": null}], "error": null}"#;
        assert_eq!(judged(without), Ok(without.to_owned()));
    }

    #[test]
    fn streams_of_other_forms_have_ends_too() {
        let names = names();
        let ends = |last: &str| {
            let mut stream = EventStream::new(Expected { name: "org/a", names: &names }, "mine", false);
            let text = format!("event: x\ndata: {{\"type\":\"delta\",\"stop\":false}}\n\ndata: {last}\n\n");
            stream.piece(text.as_bytes()).and_then(|_| stream.end()).is_ok()
        };
        for last in [
            r#"{"type":"message_stop"}"#,
            r#"{"type":"response.completed"}"#,
            r#"{"content":"","stop":true}"#,
        ] {
            assert!(ends(last), "{last}");
        }
        assert!(!ends(r#"{"type":"content_block_delta"}"#));
    }

    /// However a stream is cut into pieces, what is passed on is the same.
    #[test]
    fn streams_are_judged_line_by_line() {
        let whole = "data: {\"model\":\"org/a\",\"choices\":[{\"delta\":{\"content\":\"h\u{e9}\"}}]}\r\n\r\n: note\n\
                     data: {\"model\":\"org/a\",\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{}}\n\ndata: [DONE]\n\n";
        let names = names();
        let run = |text: &str, size: usize, wants_usage: bool| -> Result<String, String> {
            let mut stream = EventStream::new(Expected { name: "org/a", names: &names }, "mine", wants_usage);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                out.extend(stream.piece(piece).map_err(|error| error.to_string())?);
            }
            out.extend(stream.end().map_err(|error| error.to_string())?);
            Ok(String::from_utf8(out).unwrap())
        };
        for size in [1, 2, 3, 7, 1000] {
            assert_eq!(run(whole, size, true), Ok(whole.replace("org/a", "mine")), "{size}");
            assert!(run(&whole.replace("stop", "abort"), size, true).unwrap_err().contains("abort"));
            assert!(run(&whole.replace("\"usage\"", "\"other\""), size, true).unwrap_err().contains("usage"));
            assert!(run(&whole.replace("\"usage\"", "\"other\""), size, false).is_ok());
            let cut = &whole[..whole.find(": note").unwrap()];
            assert!(run(cut, size, false).unwrap_err().contains("ended early"));
        }
    }
}
