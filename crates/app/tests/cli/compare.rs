use crate::support::Place;
use gswarm_core::compare::SweepRow;
use gswarm_learn::Table;

fn rows(place: &Place, folder: &str) -> Vec<SweepRow> {
    let text = place.read(&format!("{folder}/rows.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn gpus_are_those_of_the_configuration_unless_given() {
    let place = Place::with_work("simple", 5);
    let line = "compare --policies baseline,lru --quiet @work";
    place.run(line).code(0);
    let gpus: Vec<u32> = rows(&place, "comparison").iter().map(|row| row.gpus).collect();
    assert_eq!(gpus, [8, 8]);
    let config = place.read("work/config.yaml");
    place.write("work/config.yaml", &config.replacen("  gpus: 8\n", "", 1));
    place
        .run(&format!("{line} --out other"))
        .code(2)
        .says("the number of GPUs is not given")
        .says("--gpus N,...");
}

#[test]
fn every_run_is_a_row_and_says_what_the_run_by_itself_says() {
    let place = Place::with_work("simple", 20);
    let line =
        "compare --policies baseline,offline,planned --gpus 4,8 --mode both --seeds 1..2 @work".to_owned();
    let told = place.run(&line).code(0).out;
    let rows = rows(&place, "comparison");
    // `planned` and `offline` plan batches.
    assert_eq!(rows.len(), 2 * 2 * (3 + 1), "{told}");
    for row in rows.iter().filter(|row| row.seed == 1) {
        let run = format!(
            "run --policy {} --gpus {} --mode {} --seed 1 --json @work",
            row.policy, row.gpus, row.mode
        );
        let metrics = place.run(&run).json(0);
        // `planned` searches longer when it is alone.
        if row.policy != "planned" {
            assert_eq!(metrics["makespan_seconds"].as_f64(), row.makespan_seconds, "{}", row.policy);
            assert_eq!(metrics["model_switches"].as_u64(), row.model_switches);
        }
        assert!(row.makespan_seconds >= row.lower_bound_seconds && row.failed_requests == Some(0));
    }
    for name in ["comparison.csv", "comparison.parquet"] {
        let table = Table::read_file(&place.path("comparison").join(name)).unwrap();
        assert_eq!((table.rows(), table.columns()[0].name.as_str()), (rows.len(), "input"), "{name}");
        assert!(table.column("speedup_over_baseline").is_some(), "{name}");
    }
    let best = told.lines().find(|line| line.contains("planned") && line.contains("| 4 ")).unwrap();
    assert!(
        best.split('|').nth(3).unwrap().trim().ends_with('*'),
        "planned is never worse than the others: {best}"
    );
    assert!(told.contains("work, offline") && told.contains("work, online"), "{told}");
}

#[test]
fn a_stream_is_ordered_by_latency_and_the_verdict_names_the_winner() {
    let place = Place::with_work("complex", 20);
    let line = "compare --policies baseline,lru,adaptive,random --gpus 8,16 --mode online @work";
    let told = place.run(line).code(0).out;
    let report = place.run(&format!("{line} --json")).json(0);
    let runs = report["runs"].as_array().unwrap();
    let p99 = |run: &serde_json::Value| run["latency_p99_seconds"].as_f64().unwrap();
    for (gpus, win) in [8, 16].iter().zip(report["verdicts"][0]["wins"].as_array().unwrap()) {
        let mut of: Vec<_> = runs.iter().filter(|run| run["gpus"] == *gpus).collect();
        of.sort_by(|one, other| p99(one).total_cmp(&p99(other)));
        let order: Vec<&str> = of.iter().map(|run| run["policy"].as_str().unwrap()).collect();
        let rows = told.lines().filter(|line| line.starts_with(&format!("| {gpus} ")));
        let shown: Vec<&str> = rows.map(|row| row.split('|').nth(2).unwrap().trim()).collect();
        assert_eq!(shown, order, "{told}");
        let usable = of.iter().find(|run| run["policy"] != "random" && run["policy"] != "lru").unwrap();
        assert_eq!((&win["policy"], &win["seconds"]), (&usable["policy"], &usable["latency_p99_seconds"]));
        assert!(of.iter().all(|run| run["slowest"].as_array().unwrap().len() == 10));
        assert!(of.iter().all(|run| !run["workflows"].as_array().unwrap().is_empty()));
    }
    assert!(told.contains("Lowest P99 latency: ") && told.contains("10 slowest requests under"), "{told}");
    assert!(told.contains("P99 latency by workflow on 16 GPUs"), "{told}");
    assert!(
        told.lines().take_while(|line| !line.contains(" runs, ")).all(|line| line.chars().count() <= 100),
        "{told}"
    );
    assert!(!told.contains("late %"), "no request has a deadline: {told}");
    // Nothing but the object is printed, and it is as typed.
    let report: gswarm_cli_report::CompareReport = serde_json::from_value(report).unwrap();
    assert_eq!(report.runs.len(), 8);
}

/// What `gswarm compare --json` prints, as a program would read it.
mod gswarm_cli_report {
    use gswarm_core::compare::{ComparisonVerdict, SweepRow};

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct CompareReport {
        pub runs: Vec<SweepRow>,
        #[allow(dead_code)]
        pub verdicts: Vec<ComparisonVerdict>,
        #[allow(dead_code)]
        pub files: Vec<std::path::PathBuf>,
    }
}

#[test]
fn an_interrupted_comparison_goes_on_and_another_is_kept_apart() {
    let place = Place::with_work("simple", 20);
    let line = |gpus: &str| format!("compare --policies baseline,lru --gpus {gpus} --quiet @work");
    place.run(&line("4,8")).code(0);
    let whole = place.read("comparison/rows.jsonl");
    // As an interruption leaves it: a row less, and half of another.
    let kept: Vec<&str> = whole.lines().take(2).collect();
    let half = &whole.lines().nth(2).unwrap()[..40];
    place.write("comparison/rows.jsonl", &format!("{}\n{half}", kept.join("\n")));
    place.run(&line("4,8")).code(0);
    let again = rows(&place, "comparison");
    assert_eq!(again.len(), 4);
    let is_kept = |line: &&str| place.read("comparison/rows.jsonl").contains(*line);
    assert!(kept.iter().all(is_kept), "what has been run is not run again: its times are the same");
    // More of the same is added to it.
    place.run(&line("4,8,16")).code(0);
    assert_eq!(rows(&place, "comparison").len(), 6);
    let other = format!("{} --gpu-memory-gb 96", line("4"));
    place
        .run(&format!("{other} --out comparison"))
        .code(2)
        .says("belongs to other inputs or another cluster");
    // Without a folder each set of inputs has its own, which it finds again.
    for _ in 0..2 {
        place.run(&other).code(0);
        assert_eq!(rows(&place, "comparison-2").len(), 2);
    }
    assert_eq!(rows(&place, "comparison").len(), 6);
    assert!(!place.path("comparison-3").exists());
}

#[test]
fn what_cannot_be_run_is_said_and_the_rest_is_compared() {
    let place = Place::with_work("complex", 10);
    let told = place.run("compare --policies baseline --gpus 1,32 @work").code(0).out;
    assert!(told.contains("cannot run") && told.contains("1 cannot be run on so few GPUs"), "{told}");
    let rows = rows(&place, "comparison");
    assert!(
        rows.iter().any(|row| row.infeasible.is_some())
            && rows.iter().any(|row| row.makespan_seconds.is_some())
    );
    place.run("compare --gpus 4 --config a --config b --requests c").code(2).says("cannot be paired");
    place
        .run("compare --gpus 4 --policies best --config a --requests c")
        .code(2)
        .says("give `all`, or some of");
    place
        .run("compare --gpus 4 --config a --requests b --config c --requests d")
        .code(2)
        .says("cannot read a")
        .says("cannot read d");
}

#[test]
fn a_comparison_becomes_a_page_with_its_figures() {
    let place = Place::with_work("simple", 20);
    let line = "compare --policies baseline,offline,lru --gpus 4,8 --mode both @work".to_owned();
    place.run(&line).code(0);
    let rows = rows(&place, "comparison");
    let done = place.run("report comparison --out page.html --markdown page.md --svg charts").code(0);
    assert!(done.out.contains("Wrote page.html"), "{}", done.out);
    let (page, text) = (place.read("page.html"), place.read("page.md"));
    for row in &rows {
        let makespan = row.makespan_seconds.unwrap();
        assert!(
            page.contains(&format!("data-key=\"{makespan}\"")),
            "{} on {}: {makespan}",
            row.policy,
            row.gpus
        );
    }
    assert!(text.contains(&format!("{} runs compared", rows.len())), "{text}");
    for chart in ["makespan-1", "speedup-1", "p99-2", "overhead-2"] {
        assert!(place.path("charts").join(format!("{chart}.svg")).is_file(), "{chart}");
    }
    place.write("comparison/rows.jsonl", "nothing\n");
    let refused = place.run("report comparison").code(2);
    assert!(refused.err.contains("R005") && refused.err.contains("hint"), "{}", refused.err);
}
