//! Shared by the tests of all crates: how they wait, how they skip, and how they damage files. CONTRIBUTING.md has the rules.

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A guard against hanging. Nothing is asserted about time: a test that reaches this has hung.
pub const LIMIT: Duration = Duration::from_secs(120);

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Names the file that `cargo xtask test` collects skipped tests in.
const SKIPPED: &str = "GSWARM_SKIPPED_TESTS";

/// Waits until something holds. `what` says what was waited for when it never does.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "this never happened: {what}");
        std::thread::sleep(POLL);
    }
}

/// Waits for the end of a process.
#[track_caller]
pub fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("the process ends", || {
        status = child.try_wait().expect("a process can be asked whether it has ended");
        status.is_some()
    });
    status.expect("it has ended")
}

/// Counts this test as skipped, because something that it needs is missing. The caller returns. Fails under CI, which has
/// everything that tests need.
#[track_caller]
pub fn skip(why: &str) {
    let on_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!on_ci, "CI is set, so this test must not be skipped: {why}");
    skip_on_ci_too(why);
}

/// As [`skip`], for what is not part of CI by design, such as servers that take long to build.
pub fn skip_on_ci_too(why: &str) {
    let line = format!("{}: {why}", test());
    println!("SKIPPED: {line}");
    if let Some(path) = std::env::var_os(SKIPPED) {
        let file = std::fs::File::options().append(true).create(true).open(path);
        // One write a line, so that lines of tests that run at the same time stay whole.
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("the list of skipped tests can be written");
    }
}

/// The name of the test that runs: as nextest gives it, or that of its thread.
fn test() -> String {
    match (std::env::var("NEXTEST_BINARY_ID"), std::env::var("NEXTEST_TEST_NAME")) {
        (Ok(binary), Ok(test)) => format!("{binary} {test}"),
        _ => std::thread::current().name().unwrap_or("a test").to_owned(),
    }
}

/// The value with one part of it replaced or removed, in every way and place.
#[must_use]
pub fn damaged(value: &Value) -> Vec<(String, Value)> {
    let mut pointers = Vec::new();
    collect(value, String::new(), &mut pointers);
    let others = [
        Value::Null,
        json!(true),
        json!(""),
        json!("text"),
        json!(-1),
        json!(0),
        json!(1),
        json!(2.5),
        json!(10_000_000_000_000u64),
        json!([]),
        json!({}),
        json!({"from": true}),
    ];
    let mut all = Vec::new();
    for pointer in &pointers {
        for other in &others {
            let mut copy = value.clone();
            *copy.pointer_mut(pointer).expect("its own place") = other.clone();
            all.push((format!("{pointer} = {other}"), copy));
        }
        if let Some((parent, key)) = pointer.rsplit_once('/') {
            let mut copy = value.clone();
            if let Some(fields) = copy.pointer_mut(parent).and_then(Value::as_object_mut) {
                fields.remove(&key.replace("~1", "/").replace("~0", "~"));
                all.push((format!("without {pointer}"), copy));
            }
        }
    }
    all
}

/// The places of all parts of a value, as JSON pointers.
fn collect(value: &Value, at: String, pointers: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                collect(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), pointers);
            }
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(place, item)| collect(item, format!("{at}/{place}"), pointers));
        }
        _ => {}
    }
    pointers.push(at);
}

/// An item of a list in generated documentation: lines of at most 118 columns, those after the first indented by two spaces.
#[must_use]
pub fn list_item(text: &str) -> String {
    let mut lines = vec!["-".to_owned()];
    for word in text.split_whitespace() {
        if lines[lines.len() - 1].chars().count() + 1 + word.chars().count() > 118 {
            lines.push(" ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
