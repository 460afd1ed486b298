use crate::support::{Place, inputs, root};

#[test]
fn every_good_example_runs_and_passes_the_check() {
    for name in ["text_to_image", "batching", "memory_residency"] {
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
