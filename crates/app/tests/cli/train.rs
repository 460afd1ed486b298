use crate::support::{Place, inputs};
use std::fmt::Write;

/// A table of runs whose time follows from size and device, and from a little noise.
fn table(rows: usize) -> String {
    let mut text = String::from("task,size,device,run_seconds\n");
    let mut state = 7_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    for row in 0..rows {
        let size = 100.0 + 4_900.0 * random();
        let (device, rate) = if random() < 0.5 { ("cpu", 5e5) } else { ("gpu", 4e6) };
        let _ = writeln!(
            text,
            "t{row},{size:.0},{device},{:.5}",
            (0.1 + size * size / rate) * (0.9 + 0.2 * random())
        );
    }
    text
}

const SMALL: &str = "--trees 20 --depth 5";

#[test]
fn a_model_is_trained_tested_and_written() {
    let place = Place::new();
    place.write("runs.csv", &table(400));
    let line = format!("train --data runs.csv --target run_seconds --out run.model {SMALL}");
    let done = place.run(&line).code(0);
    for part in ["gradient_boosting", "test", "cross-validation", "90% hold", "size", "wrote run.model"] {
        assert!(done.out.contains(part), "`{part}` is not in\n{}", done.out);
    }
    assert!(done.out.contains("`task` is left out"), "{}", done.out);
    assert_eq!(place.names(), ["run.model", "runs.csv"]);
    let first = std::fs::read(place.path("run.model")).unwrap();
    place.run(&format!("{line} --quiet")).code(0);
    assert_eq!(std::fs::read(place.path("run.model")).unwrap(), first, "the same seed gives the same file");
}

#[test]
fn every_kind_reports_in_json() {
    let place = Place::new();
    place.write("runs.csv", &table(300));
    for kind in ["random_forest", "gradient_boosting", "linear", "last_two"] {
        let done = place
            .run(&format!("train --model {kind} --data runs.csv --target run_seconds --json {SMALL}"))
            .code(0);
        let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(report["model"], kind);
        let r2 = report["test"]["r2"].as_f64().unwrap();
        assert!(r2 > if kind.contains("or") || kind.contains("boost") { 0.9 } else { 0.3 }, "{kind}: {r2}");
        assert!(report["cross_validation"]["r2"].as_array().is_some_and(|folds| folds.len() == 5));
        assert!(report["learning_curve"].as_array().is_some_and(|curve| !curve.is_empty()));
    }
    assert_eq!(place.names(), ["runs.csv"]);
}

#[test]
fn data_that_cannot_be_learned_from_is_refused() {
    let place = Place::new();
    let good = table(100);
    let add = |name: &str, cell: &dyn Fn(&str) -> String| {
        let mut lines = good.lines();
        let mut text = format!("{},{name}\n", lines.next().unwrap());
        lines.for_each(|line| text.push_str(&format!("{line},{}\n", cell(line))));
        text
    };
    let seconds = |line: &str| line.rsplit(',').next().unwrap().parse::<f64>().unwrap();
    let cases = [
        ("", "E006"),
        ("a,run_seconds\n1\n", "E502"),
        (&good.replacen(",gpu,", ",gpu,-", 1), "E202"),
        (
            &add("label", &|_| "1".to_owned())
                .replace("run_seconds", "other")
                .replace("label", "run_seconds"),
            "E504",
        ),
        (&add("milliseconds", &|line| format!("{:.2}", seconds(line) * 1e3)), "E505"),
        (&good.lines().take(30).collect::<Vec<_>>().join("\n"), "E503"),
        ("{\"executions\": []}", "--config"),
    ];
    for (text, part) in cases {
        place.write("runs.csv", text);
        place.run("train --data runs.csv --target run_seconds --out run.model").code(2).says(part);
        assert_eq!(place.names(), ["runs.csv"], "{part}");
    }
    place.write("runs.csv", &good);
    place.run("train --data runs.csv --target seconds").code(2).says("E102").says("run_seconds");
    place.run("train --data runs.csv").code(2).says("--target");
    place.run("train --data runs.csv --target run_seconds --model oracle").code(2).says("last_two");
    place.run("train --data none.csv --target run_seconds").code(2).says("none.csv");
    place.run("train --data runs.csv --target run_seconds --learning-rate 2").code(2).says("1 at most");
}

#[test]
fn a_place_that_cannot_be_written_leaves_nothing_behind() {
    let place = Place::new();
    place.write("runs.csv", &table(100));
    let line = format!("train --data runs.csv --target run_seconds {SMALL} --out");
    place.run(&format!("{line} none/run.model")).code(2).says("there is no folder");
    place.run(&format!("{line} /dev/full")).code(2).says("no regular file");
    std::fs::create_dir(place.path("run.model")).unwrap();
    place.run(&format!("{line} run.model")).code(2).says("folder");
    assert_eq!(place.names(), ["run.model", "runs.csv"]);
}

#[test]
fn execution_times_are_learned_from_a_run_of_our_own() {
    let place = Place::with_work("simple", 60);
    place.run(&format!("run --policy baseline --gpus 4 --out logs --quiet {}", inputs("work"))).code(0);
    let line =
        format!("train --data logs/baseline_execution_log.json {} --out nodes.model {SMALL}", inputs("work"));
    let done = place.run(&format!("{line} --json")).code(0);
    let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(report["target"], "execution_time");
    assert!(place.path("nodes.model").exists());
    place
        .run("train --data logs/baseline_execution_log.json --config work/config.yaml")
        .code(2)
        .says("--requests");
}
