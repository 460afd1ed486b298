use crate::support::{Place, inputs, root};

#[test]
fn every_good_example_runs_and_passes_the_check() {
    for name in ["text_to_image", "batching", "memory_residency", "mixed"] {
        let (place, folder) = (Place::new(), root().join("examples").join(name));
        let inputs = inputs(folder.to_str().unwrap());
        for mode in ["offline", "online"] {
            place.run(&format!("run --policy baseline --mode {mode} --quiet {inputs}")).code(0);
            place.run(&format!("check baseline_execution_log.json {inputs}")).code(0);
        }
    }
}

#[test]
fn the_broken_example_reports_every_fault_at_once() {
    let (place, folder) = (Place::new(), root().join("examples/broken"));
    let done = place.run(&format!("run --policy baseline {}", inputs(folder.to_str().unwrap()))).code(2);
    for part in ["memory_gb", "gpus_required", "panter", "painter", "yesterday", "lop", "one"] {
        assert!(done.err.contains(part), "`{part}` is not in\n{}", done.err);
    }
    assert!(place.names().is_empty());
}

#[test]
fn models_that_share_memory_are_switched_less() {
    let (place, folder) = (Place::new(), root().join("examples/memory_residency"));
    let switches = |residency: &str| {
        let inputs = inputs(folder.to_str().unwrap());
        let done = place
            .run(&format!("run --policy baseline --gpus 1 --residency {residency} --json {inputs}"))
            .code(0);
        let metrics: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        metrics["model_switches"].as_u64().unwrap()
    };
    assert_eq!(switches("memory"), 0);
    assert!(switches("single") > 0);
}

#[test]
fn a_batch_fills_the_gaps_of_a_stream_and_no_deadline_is_missed() {
    let (place, folder) = (Place::new(), root().join("examples/mixed"));
    let inputs = inputs(folder.to_str().unwrap());
    let metrics = |policy: &str| -> serde_json::Value {
        let done = place.run(&format!("run --policy {policy} --mode online --json {inputs}")).code(0);
        serde_json::from_str(&done.out).unwrap()
    };
    let (adaptive, lru) = (metrics("adaptive"), metrics("lru"));
    assert_eq!(adaptive["deadline_misses"], 0);
    assert_eq!(adaptive["completed_requests"], 36);
    // The stream ends at 108 s; the batch alone would take 96 s on two GPUs.
    assert!(adaptive["makespan_seconds"].as_f64().unwrap() < 180.0, "{adaptive}");
    assert!(adaptive["makespan_seconds"].as_f64() <= lru["makespan_seconds"].as_f64());
}

#[test]
fn the_objective_is_chosen_by_name_and_refused_where_it_has_no_effect() {
    let (place, folder) = (Place::new(), root().join("examples/mixed"));
    let inputs = inputs(folder.to_str().unwrap());
    for objective in ["mean", "p99", "balanced"] {
        let flags = format!("--objective {objective} --max-collate-wait 60");
        place.run(&format!("run --policy adaptive --mode online --quiet {flags} {inputs}")).code(0);
    }
    place.run(&format!("run --policy adaptive --objective median {inputs}")).code(2).says("balanced");
    place.run(&format!("run --policy adaptive --max-collate-wait=-1 {inputs}")).code(2).says("zero or more");
    let refused = place.run(&format!("run --policy lru --mode online --objective p99 {inputs}")).code(2);
    refused.says("policy `lru` does not take --objective").says("`adaptive` does");
}
