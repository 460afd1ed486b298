//! Accuracy and speed of the predictors beside scikit-learn, xgboost and lightgbm, on the same splits of the same files.
//!
//! `cargo bench -p gswarm-learn --bench peers`. The peers are found in `target/peers/learn`:
//! `python3 -m venv target/peers/learn && target/peers/learn/bin/pip install pandas scikit-learn xgboost-cpu lightgbm`.
//! Everything runs on one thread, and times are those of the processor, so that other work on the machine counts little.

use gswarm_learn::model::TargetScale;
use gswarm_learn::train::{coverage, mean_absolute_error, r2};
use gswarm_learn::{Column, GroupId, Kind, Online, Predictor, Rows, Settings, Table, Values, encode, fit};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const SPLITS: usize = 5;
const BATCH: usize = 1_000;

/// The figures of one model on one data set, summed over the splits.
#[derive(Default)]
struct Line {
    r2: f64,
    mae: f64,
    fit: f64,
    splits: f64,
    row_us: Option<f64>,
    /// With cross-validation, the choice of scale and intervals.
    whole_fit: Option<f64>,
    coverage: Option<f64>,
}

fn main() {
    // `cargo test --benches` only has to see that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (python, shared) = (root.join("target/peers/learn/bin/python"), root.join("../shared"));
    let folder = root.join("target/peers/learn-data");
    if !python.exists() || !shared.join("data").exists() {
        println!("skipped: target/peers/learn or ../shared/data is not there (see the head of this file)");
        return;
    }
    std::fs::create_dir_all(&folder).expect("a folder for the tables");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers.py");
    let answer = Command::new(python).arg(script).args([&folder, &shared]).output().expect("the peers run");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    // One thread for us too.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("no pool yet");
    let mut lines: BTreeMap<(String, String), Line> = BTreeMap::new();
    let mut order = Vec::new();
    for line in String::from_utf8_lossy(&answer.stdout).lines() {
        let found: Value = serde_json::from_str(line).expect("a line of JSON");
        let set = found["set"].as_str().expect("a set").to_owned();
        if let Some(features) = found["features"].as_array() {
            let features: Vec<String> =
                features.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
            let target = found["target"].as_str().expect("a target");
            let table = Table::read_file(&folder.join(format!("{set}.csv"))).expect("a table");
            println!("{set}: {} rows, {} features, predicting {target}", table.rows(), features.len());
            ours(&set, &table, target, &features, &mut lines);
            order.push(set);
            continue;
        }
        let name = format!("{} ({} trees)", found["peer"].as_str().expect("a peer"), found["trees"]);
        let number = |field: &str| found[field].as_f64();
        let line = lines.entry((set, name)).or_default();
        line.r2 += number("r2").unwrap_or(f64::NAN);
        line.mae += number("mae").unwrap_or(f64::NAN);
        line.fit += number("fit_s").unwrap_or(f64::NAN);
        line.splits += 1.0;
        line.row_us = line.row_us.or(number("row_us"));
    }
    for set in order {
        print(&set, &lines);
    }
    one_by_one();
}

/// What a single decision and a single observation cost.
fn one_by_one() {
    const TIMES: usize = 100_000;
    let size: Vec<f64> = (0..2_000).map(|row| f64::from(row * 7_919 % 5_000)).collect();
    let seconds =
        size.iter().enumerate().map(|(row, size)| 1.0 + size * (1.0 + (row % 10) as f64 / 50.0)).collect();
    let column = |name: &str, values| Column { name: name.to_owned(), values: Values::Numbers(values) };
    let table = Table::new("runs", vec![column("size", size), column("seconds", seconds)]);
    let settings = Settings::new(Kind::GradientBoosting);
    let predictor = fit(&table, "seconds", &["size".to_owned()], &settings).expect("a model");
    let mut online = Online::new(&predictor);
    let begun = processor_seconds();
    for time in 0..TIMES {
        std::hint::black_box(predictor.predict_row(&[(time % 5_000) as f64]));
    }
    let predicted = processor_seconds();
    let prediction = predictor.predict_row(&[100.0]);
    for time in 0..TIMES {
        let group = GroupId(time as u32 % 40);
        let corrected = online.correct(group, prediction);
        online.observe(group, &corrected, corrected.mean * (0.9 + (time * 7_919 % 100) as f64 / 500.0));
        std::hint::black_box(online.quantile(&predictor, group, &corrected, 0.9));
    }
    let observed = processor_seconds();
    println!("\none prediction with its scale: {:.2} us", (predicted - begun) * 1e6 / TIMES as f64);
    println!(
        "one correction, observation and quantile: {:.2} us",
        (observed - predicted) * 1e6 / TIMES as f64
    );
}

fn ours(
    set: &str,
    table: &Table,
    target: &str,
    features: &[String],
    lines: &mut BTreeMap<(String, String), Line>,
) {
    let boosted = Settings::new(Kind::GradientBoosting);
    let settings = [
        ("gswarm boosting (100 trees)", boosted),
        ("gswarm boosting (300 trees)", Settings { trees: 300, ..boosted }),
        ("gswarm forest (100 trees)", Settings::new(Kind::RandomForest)),
        ("gswarm linear", Settings::new(Kind::Linear)),
        ("gswarm last_two", Settings::new(Kind::LastTwo)),
    ];
    for (name, settings) in settings {
        let line = lines.entry((set.to_owned(), name.to_owned())).or_default();
        for split in 0..SPLITS {
            let mark = numbers(table, &format!("split{split}"));
            let (test, train): (Vec<usize>, Vec<usize>) = (0..table.rows()).partition(|&row| mark[row] > 0.5);
            let (test, train) = (table.select(&test), table.select(&train));
            let whole = processor_seconds();
            let predictor = fit(&train, target, features, &settings).expect("a model");
            *line.whole_fit.get_or_insert(0.0) += processor_seconds() - whole;
            // What the peers do: the means alone, on the scale that was found to be the better one.
            let target_scale = if predictor.learned_log() { TargetScale::Log } else { TargetScale::Plain };
            let alone = processor_seconds();
            let means_only = Settings { intervals: false, target_scale, ..settings };
            std::hint::black_box(fit(&train, target, features, &means_only).expect("a model"));
            line.fit += processor_seconds() - alone;
            let (rows, truths) = (encode(predictor.features(), &test).expect("rows"), numbers(&test, target));
            let means = predictor.predict_means(&rows);
            let predictions = predictor.predict(&rows);
            let between =
                predictions.iter().map(|one| (predictor.quantile(one, 0.05), predictor.quantile(one, 0.95)));
            *line.coverage.get_or_insert(0.0) += coverage(truths, between);
            line.r2 += r2(truths, &means);
            line.mae += mean_absolute_error(truths, &means);
            line.splits += 1.0;
            if split == 0 {
                line.row_us = Some(microseconds_a_row(&predictor, &rows));
            }
        }
    }
}

fn numbers<'t>(table: &'t Table, name: &str) -> &'t [f64] {
    match table.column(name).map(|column| &column.values) {
        Some(Values::Numbers(numbers)) => numbers,
        _ => panic!("no column {name} of numbers"),
    }
}

/// Of all threads of this process: the pool's one worker is another than this.
fn processor_seconds() -> f64 {
    // Nanoseconds that each thread has run, as the kernel counts them.
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let counted = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    counted.filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e9
}

fn microseconds_a_row(predictor: &Predictor, rows: &Rows) -> f64 {
    let batch: Vec<usize> = (0..BATCH).map(|row| row % rows.len()).collect();
    let batch = rows.select(&batch);
    let once = || {
        let begun = std::time::Instant::now();
        std::hint::black_box(predictor.predict_means(&batch));
        begun.elapsed().as_secs_f64() * 1e6 / BATCH as f64
    };
    (0..30).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn print(set: &str, lines: &BTreeMap<(String, String), Line>) {
    println!("\n| {set} | R2 | MAE | fit, s | with intervals, s | 90% hold | us a row |");
    println!("|---|---|---|---|---|---|---|");
    let mut found: Vec<(&str, &Line)> = lines
        .iter()
        .filter(|((of, _), _)| of == set)
        .map(|((_, name), line)| (name.as_str(), line))
        .collect();
    found.sort_by(|one, other| (other.1.r2 / other.1.splits).total_cmp(&(one.1.r2 / one.1.splits)));
    for (name, line) in found {
        let optional =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{:.3}", value / line.splits));
        let row = line.row_us.map_or(String::new(), |us| format!("{us:.2}"));
        println!(
            "| {name} | {:.4} | {:.4} | {:.3} | {} | {} | {row} |",
            line.r2 / line.splits,
            line.mae / line.splits,
            line.fit / line.splits,
            optional(line.whole_fit),
            optional(line.coverage),
        );
    }
}
