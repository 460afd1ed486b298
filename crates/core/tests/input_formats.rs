//! Formats, encodings and files that mean harm.

use gswarm_core::input::{Code, Reading, Severity, Source, read_config, read_scenario, render};
use gswarm_core::instance::Mode;
use std::fmt::Write;

const CONFIG: &str = r#"{"models": {"m": {"memory_gb": 14, "gpus_required": 1, "load_time_seconds": 30,
"inference_time_mean": 8.5}}, "workflows": {"w": {"nodes": [{"id": "a", "model": "m"}]}}}"#;

fn config(bytes: impl AsRef<[u8]>) -> Reading {
    read_config(Source { name: "config", bytes: bytes.as_ref() })
}

fn requests(bytes: impl AsRef<[u8]>) -> Reading {
    let config = Source { name: "config", bytes: CONFIG.as_bytes() };
    read_scenario(config, Source { name: "requests", bytes: bytes.as_ref() }, Mode::Offline)
}

fn found(reading: &Reading) -> Vec<(Code, u32)> {
    reading.diagnostics.iter().map(|d| (d.code, d.line.unwrap_or(0))).collect()
}

fn count(reading: &Reading) -> usize {
    reading.scenario.as_ref().unwrap_or_else(|| panic!("{}", render(&reading.diagnostics))).requests.len()
}

#[test]
fn json_yaml_and_json_lines_are_told_apart_by_content() {
    let one = r#"{"request_id": "a", "workflow_id": "w"}"#;
    let two = r#"{"request_id": "b", "workflow_id": "w"}"#;
    assert_eq!(count(&requests(one)), 1);
    assert_eq!(count(&requests(format!("{one}\n{two}\n"))), 2);
    assert_eq!(count(&requests(format!("{one}\r\n\r\n{two}"))), 2);
    assert_eq!(count(&requests(format!("[{one}, {two}]"))), 2);
    assert_eq!(count(&requests(format!("{{\"requests\": [{one}, {two}]}}"))), 2);
    assert_eq!(count(&requests(format!("\u{feff}{{\"requests\": [{one}]}}"))), 1);
    assert_eq!(count(&requests("\u{feff}requests:\n- {request_id: a, workflow_id: w}")), 1);
    assert_eq!(count(&requests("{requests: [{request_id: a, workflow_id: w},]} # flow")), 1);
    assert_eq!(
        count(&requests("requests:\n- &a {request_id: a, workflow_id: w}\n- {<<: *a, request_id: b}")),
        2
    );
}

#[test]
fn lines_at_fault_do_not_hide_the_others() {
    let lines = "{\"request_id\": \"a\", \"workflow_id\": \"w\"}\n{\"request_id\": }\n\
                 {\"request_id\": \"a\", \"workflow_id\": \"v\"}\n{\"request_id\": \"c\", \"workf";
    let expected =
        [(Code::Syntax, 2), (Code::Duplicate, 3), (Code::UnknownWorkflow, 3), (Code::Truncated, 4)];
    assert_eq!(found(&requests(lines)), expected);
    let first = "{\"request_id\": }\n{\"request_id\": \"a\", \"workflow_id\": \"w\"}\n";
    assert_eq!(found(&requests(first)), [(Code::Syntax, 1)]);
}

#[test]
fn texts_that_make_no_sense() {
    let table: &[(&[u8], Code, u32)] = &[
        (b"", Code::NoContent, 1),
        (b" \n\n", Code::NoContent, 1),
        (b"models:\n  \xff: 1", Code::NotUtf8, 2),
        (b"\xff\xfem\0o\0", Code::NotUtf8, 1),
        (b"{\"models\": {\n\"m\": {", Code::Truncated, 2),
        (b"{\"models\": {\n\"m\": 1e", Code::Truncated, 2),
        (b"{\"models\": \n\"caf\n", Code::Syntax, 2),
        (b"models:\n  m: {memory_gb: 1,\n", Code::Truncated, 2),
        (b"models:\n  m: \"abc\n", Code::Truncated, 2),
        (b"{\"models\": {}}\n{\"models\": {}}", Code::SeveralDocuments, 2),
        (b"[]", Code::WrongType, 1),
        (b"just text", Code::WrongType, 1),
        (b"models:\n\tm: 1", Code::Syntax, 2),
        (b"a: &a [*a]", Code::Aliases, 1),
        (b"? [a]\n: 1", Code::WrongType, 1),
        (b"a: *nowhere", Code::Syntax, 1),
    ];
    for (bytes, code, line) in table {
        let reading = config(bytes);
        assert!(
            found(&reading).contains(&(*code, *line)),
            "{:?}: {:#?}",
            bytes.escape_ascii().to_string(),
            reading.diagnostics
        );
        assert!(reading.scenario.is_none());
    }
}

#[test]
fn both_files_are_checked_even_where_one_is_unreadable() {
    let config = Source { name: "config", bytes: b"{" };
    let text = b"requests: [{request_id: a, workflow_id: w, priority: x}]";
    let reading = read_scenario(config, Source { name: "requests", bytes: text }, Mode::Online);
    assert_eq!(found(&reading), [(Code::Truncated, 1), (Code::NoTimestamp, 1), (Code::WrongType, 1)]);
}

#[test]
fn nesting_and_aliases_are_bounded() {
    for open in ["[", "{\"a\":", "- ", "{a: ", "[[{"] {
        let reading = config(open.repeat(100_000));
        assert!(
            found(&reading).iter().any(|&(code, _)| code == Code::TooDeep),
            "{open}: {:?}",
            found(&reading)
        );
    }
    let block = (0..2_000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    assert_eq!(found(&config(block))[0].0, Code::TooDeep);
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..60 {
        let alias = format!("*a{}", level - 1);
        let _ = writeln!(bomb, "a{level}: &a{level} [{}]", [alias.as_str(); 10].join(", "));
    }
    assert_eq!(found(&config(bomb))[0].0, Code::Aliases);
}

fn chain(nodes: usize, closed: bool) -> String {
    let mut text = String::from(
        "{\"models\": {\"m\": {\"memory_gb\": 1, \"gpus_required\": 1, \"load_time_seconds\": 1}}, \
         \"workflows\": {\"w\": {\"nodes\": [",
    );
    for node in 0..nodes {
        let _ = write!(text, "{}{{\"id\": \"n{node}\", \"model\": \"m\"}}", if node > 0 { "," } else { "" });
    }
    text.push_str("], \"edges\": [");
    for node in 0..nodes - usize::from(!closed) {
        let comma = if node > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{{\"from\": \"n{node}\", \"to\": \"n{}\"}}", (node + 1) % nodes);
    }
    text + "]}}}"
}

#[test]
fn a_million_nodes_are_read() {
    let reading = config(chain(1_000_000, false));
    assert_eq!(reading.scenario.unwrap().workflows[0].edges.len(), 999_999);
    let reading = config(chain(1_000_000, true));
    assert_eq!(found(&reading), [(Code::Cycle, 1)]);
    let message = &reading.diagnostics[0].message;
    assert_eq!(message, "cycle: n0 -> n1 -> n2 -> n3 -> ... (999994 more) ... -> n999998 -> n999999 -> n0");
}

#[test]
fn findings_are_capped_when_kept_and_when_shown() {
    let list = "{},".repeat(30_000);
    let reading = requests(format!("{{\"requests\": [{}]}}", list.trim_end_matches(',')));
    assert_eq!(reading.diagnostics.len(), 10_001);
    let last = reading.diagnostics.last().unwrap();
    assert_eq!((last.code, last.severity), (Code::LeftOut, Severity::Warning));
    assert_eq!(last.message, "50000 more errors in this file not shown");
    let text = render(&reading.diagnostics);
    assert!(text.ends_with("... and 9951 more (total: at least 10000 errors, 1 warning)\n"), "{text}");
    assert_eq!(text.matches("error[").count(), 50);
}

#[test]
fn many_warnings_do_not_hide_an_error() {
    let fields = (0..20_000).fold(String::new(), |text, number| text + &format!("\"f{number}\": 1, "));
    let text = CONFIG.replacen("{\"models\"", &format!("{{{fields}\"models\""), 1);
    let reading = config(&text);
    assert!(reading.scenario.is_some());
    assert_eq!(reading.diagnostics.len(), 10_001);
    let reading = config(text.replace("8.5", "-8.5"));
    assert!(reading.diagnostics.iter().any(|d| d.code == Code::NotPositive));
}

#[test]
fn a_diagnostic_reads_well() {
    let text = CONFIG.replace("\"model\": \"m\"", "\"model\": \"mm\"").replace("\"m\":", "\"mmm\":");
    assert_eq!(
        config(text).diagnostics[0].to_string(),
        "error[E104]: unknown model `mm`\n  --> config:2:82 (workflows.w.nodes[0].model)\n  hint: did you mean `mmm`?"
    );
}

#[test]
fn missing_times_are_reported_once_a_node_and_name_what_is_lacking() {
    let config = CONFIG.replace("\"inference_time_mean\"", "\"token_mean\"");
    let config = Source { name: "config", bytes: config.as_bytes() };
    let lines = (0..500).fold(String::new(), |text, number| {
        text + &format!("{{\"request_id\": \"r{number}\", \"workflow_id\": \"w\"}}\n")
    });
    let reading = read_scenario(config, Source { name: "requests", bytes: lines.as_bytes() }, Mode::Offline);
    assert_eq!(found(&reading), [(Code::NoTime, 2)]);
    let message = &reading.diagnostics[0].message;
    assert!(message.contains("model `m` lacks `inference_time_mean`, and `tokens_per_second`"), "{message}");
    assert!(message.contains("500 requests give none either"), "{message}");
    // A configuration alone may rely on its requests.
    assert!(read_config(config).scenario.is_some());
}

#[test]
fn timestamps_and_ids_keep_their_meaning() {
    let text = "requests:\n- {request_id: 007, workflow_id: w, timestamp: 2024-01-01T10:00:00}\n\
                - {request_id: '7', workflow_id: w, timestamp: 2024-01-01T12:00:00.5+02:00}\n\
                - {request_id: 1e3, workflow_id: w, timestamp: '2024-01-01T10:00:01Z'}\n";
    let scenario = requests(text).scenario.unwrap();
    let ids: Vec<&str> = scenario.requests.iter().map(|request| request.id.as_str()).collect();
    assert_eq!(ids, ["007", "7", "1e3"]);
    let first = scenario.requests[0].timestamp.unwrap();
    assert_eq!(first, 1_704_103_200_000_000);
    let after: Vec<i64> =
        scenario.requests.iter().map(|request| request.timestamp.unwrap() - first).collect();
    assert_eq!(after, [0, 500_000, 1_000_000]);
    let mixed = text.replace("'2024-01-01T10:00:01Z'", "5");
    assert_eq!(found(&requests(mixed)), [(Code::MixedTimestamps, 4)]);
}
