use crate::support::Place;

const LOG: &str = "baseline_execution_log.json";

fn checked() -> Place {
    let place = Place::with_work("simple", 10);
    place.run("run --policy baseline --quiet @work").code(0);
    place
}

#[test]
fn a_good_log_passes_and_a_damaged_one_does_not() {
    let place = checked();
    let check = format!("check {LOG} @work");
    place.run(&check).code(0);
    let quiet = place.run(&format!("{check} --quiet")).code(0);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));

    let mut log = place.json(LOG);
    log["executions"].as_array_mut().unwrap().pop();
    place.write(LOG, &log.to_string());
    let found = place.run(&format!("{check} --save-report r.txt")).code(1).says("violation");
    assert_eq!(found.out.trim(), place.read("r.txt").trim());
    place.run(&format!("{check} --quiet")).code(1);
    let json = place.run(&format!("{check} --json")).json(1);
    assert!(!json["violations"].as_array().unwrap().is_empty());
}

#[test]
fn both_forms_of_a_log_pass() {
    let place = checked();
    place.run("run --policy baseline --quiet --format jsonl --mode online @work").code(0);
    place.run("check baseline_execution_log.jsonl @work").code(0);
}

#[test]
fn nonsense_is_a_violation_and_no_crash() {
    let place = checked();
    for text in ["", "{", "[]", "null", "{\"schema\": 1}", "\u{0}\u{1}"] {
        place.write("bad.json", text);
        place.run("check bad.json @work").code(1);
    }
}

#[test]
fn a_report_needs_a_folder_that_is_there() {
    let place = checked();
    let check = format!("check {LOG} @work");
    place.run(&format!("{check} --save-report none/r.txt")).code(2).says("no folder none");
    place.run(&format!("{check} --save-report work")).code(2).says("is a folder");
    assert!(!place.path("none").exists());
}

#[test]
fn a_cluster_that_cannot_be_is_a_violation() {
    let place = checked();
    let log = place.json(LOG);
    let check = "check bad.json --json @work".to_owned();
    let gpus = [
        serde_json::json!([]),
        serde_json::json!([-1]),
        serde_json::json!([0]),
        serde_json::json!([0, 1, 2]),
        serde_json::json!("many"),
        serde_json::json!([4_294_967_295_u32]),
        serde_json::json!([1e300]),
    ];
    for bad in gpus {
        let mut damaged = log.clone();
        damaged["summary"]["gpus"] = bad.clone();
        place.write("bad.json", &damaged.to_string());
        let json = place.run(&check).json(1);
        assert_eq!(json["valid"], false, "{bad}");
    }
    for (field, bad) in [("pcie_gb_per_s", 0.0), ("pcie_gb_per_s", 1e-300), ("gpu_memory_gb", -1.0)] {
        let mut damaged = log.clone();
        damaged["summary"]["cluster"][field] = bad.into();
        place.write("bad.json", &damaged.to_string());
        let out = place.run(&check).code(1).out;
        assert!(out.contains("C-SUM-CLUSTER"), "{field} {bad}: {out}");
    }
    let mut damaged = log.clone();
    damaged["summary"].as_object_mut().unwrap().remove("gpus");
    place.write("bad.json", &damaged.to_string());
    let done = place.run(&check);
    assert!(done.code < 2, "{}", done.err);
}

#[test]
fn what_differs_from_the_log_is_named_by_its_flag() {
    let place = checked();
    let done = place.run(&format!("check {LOG} --gpus 5 --mode online @work")).code(0);
    let done =
        done.says("--gpus: the run was made with 8, the flag says 5").says("--mode: the run was offline");
    assert!(!done.err.contains("configuration"), "{}", done.err);
    place.run("check --help").code(0).out.find("log's summary does not say").unwrap();
}
