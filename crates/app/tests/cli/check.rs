use crate::support::{Place, inputs};
use serde_json::Value;

const LOG: &str = "baseline_execution_log.json";

fn checked() -> Place {
    let place = Place::with_work("simple", 10);
    place.run(&format!("run --policy baseline --quiet {}", inputs("work"))).code(0);
    place
}

#[test]
fn a_good_log_passes_and_a_damaged_one_does_not() {
    let place = checked();
    let check = format!("check {LOG} {}", inputs("work"));
    place.run(&check).code(0);
    let quiet = place.run(&format!("{check} --quiet")).code(0);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));

    let mut log: Value = serde_json::from_str(&place.read(LOG)).unwrap();
    log["executions"].as_array_mut().unwrap().pop();
    place.write(LOG, &log.to_string());
    let found = place.run(&format!("{check} --save-report reports/r.txt")).code(1).says("violation");
    assert_eq!(found.out.trim(), place.read("reports/r.txt").trim());
    place.run(&format!("{check} --quiet")).code(1);
    let json: Value = serde_json::from_str(&place.run(&format!("{check} --json")).code(1).out).unwrap();
    assert!(!json["violations"].as_array().unwrap().is_empty());
}

#[test]
fn both_forms_of_a_log_pass() {
    let place = checked();
    place
        .run(&format!("run --policy baseline --quiet --format jsonl --mode online {}", inputs("work")))
        .code(0);
    place.run(&format!("check baseline_execution_log.jsonl {}", inputs("work"))).code(0);
}

#[test]
fn nonsense_is_a_violation_and_no_crash() {
    let place = checked();
    for text in ["", "{", "[]", "null", "{\"schema\": 1}", "\u{0}\u{1}"] {
        place.write("bad.json", text);
        place.run(&format!("check bad.json {}", inputs("work"))).code(1);
    }
}
