//! Reading either form of a log. What cannot be read becomes a violation with its line; nothing here panics or gives up
//! before the end of the file.

use super::columns_read::{self, MAGIC};
use super::published::into_ours;
use super::raw::{self, Number, Raw, Text};
use super::summary::{Claims, ClusterClaims};
use super::{LogFile, Record, SCHEMA};
use crate::violation::{Place, Violation, ViolationCode};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The fields of the whole file, each still as text.
pub(super) type Fields<'a> = std::collections::BTreeMap<Cow<'a, str>, &'a RawValue>;

pub(super) fn read_bytes(bytes: &[u8]) -> LogFile {
    if bytes.starts_with(MAGIC) {
        let mut reader = Reader::default();
        columns_read::read(bytes, &mut reader);
        return reader.finish();
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => read(text),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
            let mut reader = Reader::default();
            reader.fault(ViolationCode::File, line, "the file is not UTF-8 text");
            reader.finish()
        }
    }
}

pub(super) fn read(text: &str) -> LogFile {
    let mut reader = Reader::default();
    let (first, rest) = text.trim_start().split_once('\n').unwrap_or((text.trim_start(), ""));
    let header = without_nan(first);
    let header = serde_json::from_str::<Fields>(&header);
    let says_header =
        header.as_ref().is_ok_and(|fields| fields.get("kind").is_some_and(|kind| kind.get() == "\"header\""));
    if header.is_ok() && (!rest.trim().is_empty() || says_header) {
        reader.lines(text);
    } else {
        reader.document(text);
    }
    reader.finish()
}

/// Why a text is no JSON document, in words that help whoever gave the wrong file.
fn not_json(text: &str, error: &serde_json::Error) -> String {
    let text = text.trim();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(first) = first else { return "the file is empty".into() };
    let key =
        |line: &str| line.split_once(':').is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
    if !first.starts_with(['{', '[', '"']) && (first == "---" || first.starts_with("- ") || key(first)) {
        return "the file looks like YAML; a log is JSON or JSON Lines".into();
    }
    format!("the file is not a JSON object ({error}); a log is JSON or JSON Lines")
}

fn has_nan(text: &str) -> bool {
    text.contains("NaN") || text.contains("Infinity")
}

/// Python writes `NaN` and `Infinity`, which are not JSON: as strings they can be read, and judged as numbers later.
fn without_nan(text: &str) -> Cow<'_, str> {
    if !has_nan(text) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest, mut in_string) = (String::with_capacity(text.len()), text, false);
    while let Some(first) = rest.chars().next() {
        let word = ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| rest.starts_with(word));
        let taken = match word {
            Some(word) if !in_string => {
                out.push('"');
                out.push_str(word);
                out.push('"');
                rest = &rest[word.len()..];
                continue;
            }
            _ if in_string && first == '\\' => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
            _ => first.len_utf8(),
        };
        in_string ^= first == '"';
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

#[derive(Default)]
pub(super) struct Reader {
    pub log: LogFile,
    numbers: FxHashMap<Arc<str>, u32>,
}

impl Reader {
    fn finish(self) -> LogFile {
        self.log
    }

    pub fn fault(&mut self, code: ViolationCode, line: u32, message: impl Into<String>) {
        self.log.faults.push(Violation::new(code, Place::line(line), message));
    }

    /// The form with everything in one JSON object.
    fn document(&mut self, text: &str) {
        let text = without_nan(text);
        let fields: Fields = match serde_json::from_str(&text) {
            Ok(fields) => fields,
            Err(error) => {
                return self.fault(ViolationCode::File, error.line().max(1) as u32, not_json(&text, &error));
            }
        };
        if !fields.contains_key("executions") && !fields.contains_key("summary") {
            let message = "a JSON object without `summary` and `executions` is not an execution log";
            return self.fault(ViolationCode::File, 1, message);
        }
        self.head(&fields);
        if !fields.contains_key("executions") {
            self.fault(ViolationCode::File, 1, "the log has no `executions`");
        }
        for (name, kind) in
            [("executions", ""), ("loads", "load"), ("lost_gpus", "lost_gpu"), ("unloads", "unload")]
        {
            let Some(list) = fields.get(name).map(|list| list.get()) else { continue };
            let mut lines = Lines { text: &text, at: 0, line: 1 };
            if let Some(items) = list.strip_prefix('[') {
                self.items(items, &mut lines, kind);
            } else if list != "null" {
                let line = lines.of(list);
                self.fault(ViolationCode::File, line, format!("`{name}` is not a list"));
            }
        }
    }

    /// The records of a list that is known to be JSON, from behind its opening bracket: each is read where it stands, so
    /// that the text is gone through once and not once more to cut it up.
    fn items(&mut self, items: &str, lines: &mut Lines<'_>, kind: &str) {
        self.expect(items.len(), kind);
        let mut rest = items;
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            if rest.is_empty() || rest.starts_with(']') {
                return;
            }
            let line = lines.of(rest);
            let mut one = serde_json::Deserializer::from_str(rest).into_iter::<Raw>();
            let (read, length) = (one.next(), one.byte_offset());
            match read {
                Some(Ok(raw)) => {
                    self.record(raw, line, Some(kind));
                    rest = &rest[length..];
                }
                // Not a record: taken as a whole, to go on behind it.
                _ => {
                    let mut one = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
                    let Some(Ok(text)) = one.next() else { return };
                    self.parse(text.get(), line, Some(kind));
                    rest = &rest[one.byte_offset()..];
                }
            }
        }
    }

    /// Makes room for the records in so many bytes of text; no more than the text itself takes, whatever is in it.
    fn expect(&mut self, bytes: usize, kind: &str) {
        if kind.is_empty() {
            self.log.executions.reserve(bytes / size_of::<Record>().max(256));
        }
    }

    /// The form with a header line and then one record a line.
    fn lines(&mut self, text: &str) {
        let mut header = false;
        self.expect(text.len(), "");
        let plain = !has_nan(text);
        for (line, text) in (1..).zip(text.lines()) {
            // Line by line, so that a damaged one does not spoil those behind it.
            let text = if plain { Cow::Borrowed(text.trim()) } else { without_nan(text.trim()) };
            if text.is_empty() {
            } else if header {
                self.parse(&text, line, None);
            } else {
                header = true;
                match serde_json::from_str::<Fields>(&text) {
                    Ok(fields)
                        if ["kind", "schema", "summary"].iter().any(|&name| fields.contains_key(name)) =>
                    {
                        self.head(&fields);
                    }
                    Ok(_) => {
                        self.fault(ViolationCode::File, line, "the first line is not the header of a log")
                    }
                    Err(error) => self.fault(ViolationCode::File, line, format!("the header line: {error}")),
                }
            }
        }
    }

    /// `schema` and `summary`, and what a static run may have put beside the summary.
    pub fn head(&mut self, fields: &Fields) {
        if let Some(schema) = fields.get("schema") {
            match serde_json::from_str::<u64>(schema.get()) {
                Ok(version) if (1..=SCHEMA).contains(&version) => self.log.schema = Some(version),
                _ => {
                    let message = format!("schema {} (known: 1 to {SCHEMA})", schema.get());
                    self.fault(ViolationCode::Schema, 1, message);
                }
            }
        }
        let summary =
            fields.get("summary").map(|summary| serde_json::from_str::<Map<String, Value>>(summary.get()));
        let mut summary = match summary {
            Some(Ok(summary)) => summary,
            Some(Err(_)) => {
                self.fault(ViolationCode::Record, 1, "`summary` is not an object");
                return;
            }
            None => {
                self.fault(ViolationCode::Field, 1, "the log has no `summary`");
                return;
            }
        };
        for name in DEPLOYMENT {
            if let (None, Some(beside)) = (summary.get(name), fields.get(name)) {
                summary.insert(name.into(), serde_json::from_str(beside.get()).unwrap_or(Value::Null));
            }
        }
        if self.log.schema.is_none() {
            if let Some(switches) = fields.get("total_model_switches") {
                let switches = serde_json::from_str(switches.get()).unwrap_or(Value::Null);
                summary.entry("total_model_switches").or_insert(switches);
            }
            into_ours(&mut summary);
        }
        self.claims(summary);
    }

    fn claims(&mut self, mut summary: Map<String, Value>) {
        self.gpus(&mut summary);
        let traits = ["cluster", "timing", "status", "cold_loads"];
        if self.log.schema.is_none()
            && !self.log.faults.iter().any(|fault| fault.code == ViolationCode::Schema)
            && let Some(name) = traits.into_iter().find(|&name| summary.contains_key(name))
        {
            let message = format!(
                "the log has no `schema`, but its summary has `{name}`, which only logs with a schema have"
            );
            self.fault(ViolationCode::Schema, 1, message);
        }
        let per_server = summary.contains_key("gpus_per_server");
        if !per_server && self.log.schema.is_some() {
            self.fault(ViolationCode::Field, 1, "the summary has no `gpus_per_server`");
        }
        self.log.claims = Claims {
            policy: self.take(&mut summary, "policy", true),
            mode: self.take(&mut summary, "mode", true),
            simulate: self.take(&mut summary, "simulate", false),
            timing: self.take(&mut summary, "timing", false),
            truth: self.take(&mut summary, "truth", false),
            predictor: self.take(&mut summary, "predictor", false),
            learn: self.take(&mut summary, "learn", false),
            seed: self.take(&mut summary, "seed", false),
            status: self.take(&mut summary, "status", false),
            gpus: self.take(&mut summary, "gpus", true),
            gpus_per_server: per_server.then(|| self.take(&mut summary, "gpus_per_server", false)),
            cluster: self.rules(&mut summary),
            total_requests: self.take(&mut summary, "total_requests", true),
            completed_requests: self.take(&mut summary, "completed_requests", true),
            total_nodes_executed: self.take(&mut summary, "total_nodes_executed", true),
            makespan: self.number(&mut summary, "makespan", true),
            model_switches: self.take(&mut summary, "model_switches", true),
            cold_loads: self.take(&mut summary, "cold_loads", true),
            total_switch_time: self.number(&mut summary, "total_switch_time", true),
            lower_bound: self.number(&mut summary, "lower_bound", false),
            bound: self.take(&mut summary, "bound", false),
            gap_percent: self.number(&mut summary, "gap_percent", false),
            gpu_assignments: self.take(&mut summary, "gpu_assignments", false),
            server_assignments: self.take(&mut summary, "server_assignments", false),
            server_efficiency: self.number(&mut summary, "server_efficiency", false),
            intra_server_workflows: self.take(&mut summary, "intra_server_workflows", false),
            inter_server_workflows: self.take(&mut summary, "inter_server_workflows", false),
            cross_server_communications: self.take(&mut summary, "cross_server_communications", false),
        };
    }

    /// The GPUs may be given as a count. A count that no run has is not taken on.
    fn gpus(&mut self, summary: &mut Map<String, Value>) {
        let most = u64::from(super::MOST_GPUS);
        let count = match summary.get("gpus") {
            Some(Value::Number(count)) => count.as_u64(),
            Some(Value::Array(list)) if list.is_empty() => Some(0),
            _ => return,
        };
        match count.filter(|count| (1..=most).contains(count)) {
            Some(count) => drop(summary.insert("gpus".into(), (0..count).collect())),
            None => {
                let said = summary.insert("gpus".into(), Value::Null).unwrap_or_default();
                let message = format!("the summary's `gpus` is {said}; a run has 1 to {most}");
                self.fault(ViolationCode::Record, 1, message);
            }
        }
    }

    /// The rules of the run: a log with a schema states all of them.
    fn rules(&mut self, summary: &mut Map<String, Value>) -> Option<ClusterClaims> {
        let rules: ClusterClaims = self.take(summary, "cluster", true)?;
        let missing = [
            ("gpu_memory_gb", rules.gpu_memory_gb.is_none()),
            ("pcie_gb_per_s", rules.pcie_gb_per_s.is_none()),
            ("switch_overhead_seconds", rules.switch_overhead_seconds.is_none()),
            ("switch_cost", rules.switch_cost.is_none()),
            ("residency", rules.residency.is_none()),
        ];
        let missing: Vec<&str> = missing.into_iter().filter(|one| one.1).map(|one| one.0).collect();
        if self.log.schema.is_some() && !missing.is_empty() {
            let message = format!("the summary's `cluster` has no `{}`", missing.join("`, `"));
            self.fault(ViolationCode::Field, 1, message);
        }
        Some(rules)
    }

    fn number(&mut self, summary: &mut Map<String, Value>, name: &str, required: bool) -> Option<f64> {
        self.take::<Number>(summary, name, required).map(|Number(number)| number)
    }

    fn take<T: DeserializeOwned>(
        &mut self,
        summary: &mut Map<String, Value>,
        name: &str,
        required: bool,
    ) -> Option<T> {
        match summary.remove(name) {
            None | Some(Value::Null) => {
                if required && self.log.schema.is_some() {
                    self.fault(ViolationCode::Field, 1, format!("the summary has no `{name}`"));
                }
                None
            }
            Some(value) => match serde_json::from_str(&value.to_string()) {
                Ok(value) => Some(value),
                Err(error) => {
                    self.fault(ViolationCode::Record, 1, format!("the summary's `{name}`: {error}"));
                    None
                }
            },
        }
    }

    fn parse(&mut self, text: &str, line: u32, kind: Option<&str>) {
        match serde_json::from_str(text) {
            Ok(raw) => self.record(raw, line, kind),
            Err(error) => {
                let why = raw::explain(text, &error);
                self.fault(ViolationCode::Record, line, format!("a record cannot be read: {why}"));
            }
        }
    }

    fn record(&mut self, raw: Raw<'_>, line: u32, kind: Option<&str>) {
        let kind = kind.unwrap_or(raw.kind.as_ref().map_or("", |Text(kind)| kind));
        let list = match kind {
            "" | "execution" => 0,
            "load" => 1,
            "lost_gpu" => 2,
            "unload" => 3,
            other => {
                return self.fault(
                    ViolationCode::Record,
                    line,
                    format!("a record of unknown kind `{other}`"),
                );
            }
        };
        let record = raw.record(line, |name| self.intern(name));
        match list {
            0 => self.log.executions.push(record),
            1 => self.log.loads.push(record),
            2 => self.log.lost_gpus.push(record),
            _ => self.log.unloads.push(record),
        }
    }

    pub fn intern(&mut self, Text(text): Text<'_>) -> u32 {
        if let Some(&number) = self.numbers.get(text.as_ref()) {
            return number;
        }
        let (number, name) = (self.log.names.len() as u32, Arc::<str>::from(text));
        self.log.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }
}

const DEPLOYMENT: [&str; 6] = [
    "gpu_assignments",
    "server_assignments",
    "server_efficiency",
    "intra_server_workflows",
    "inter_server_workflows",
    "cross_server_communications",
];

/// Line numbers of parts of a text, asked for in rising order.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line on which `part`, a slice of the text, begins.
    fn of(&mut self, part: &str) -> u32 {
        let offset = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if let Some(between) = self.text.as_bytes().get(self.at..offset) {
            self.line += between.iter().filter(|&&byte| byte == b'\n').count() as u32;
            self.at = offset;
        }
        self.line
    }
}
