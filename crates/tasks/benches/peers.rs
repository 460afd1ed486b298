//! Accuracy and speed of the predictors beside scikit-learn, xgboost and lightgbm, on the same splits of the same files.
//!
//! `cargo bench -p gswarm-tasks --bench peers`. The peers are found in `target/peers/learn`:
//! `python3 -m venv target/peers/learn && target/peers/learn/bin/pip install pandas scikit-learn xgboost-cpu lightgbm`.
//! Everything runs on one thread, and times are those of the processor, so that other work on the machine counts little.
//! `SEED` draws other splits and another workload, `SPLITS` more or fewer of them.

use gswarm_learn::model::TargetScale;
use gswarm_learn::train::{coverage, mean_absolute_error, r2};
use gswarm_learn::{
    Column, FitSettings, GroupId, Online, Predictor, PredictorKind, Rows, Table, Values, encode, fit,
};
use gswarm_tasks::profile::described;
use gswarm_tasks::{Estimates, WorkloadOptions, generate};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Splits of seeds from 1000 on are those that settings may be chosen by.
const SEED: u64 = 2026;
const SPLITS: usize = 10;
const BATCH: usize = 1_000;

/// The figures of one model on one data set, summed over the splits.
#[derive(Default)]
struct Line {
    /// Of each split.
    r2: Vec<f64>,
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
    let seed = number("SEED").unwrap_or(SEED);
    let splits = number("SPLITS").map_or(SPLITS, |splits| splits as usize);
    write_workload(&folder.join("workload.csv"), seed);
    let mut peers = Command::new(python);
    peers.arg(script).args([&folder, &shared]).args([seed.to_string(), splits.to_string()]);
    let answer = peers.output().expect("the peers run");
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
            ours(&set, &table, target, &features, splits, &mut lines);
            order.push(set);
            continue;
        }
        let name = format!("{} ({} trees)", found["peer"].as_str().expect("a peer"), found["trees"]);
        let number = |field: &str| found[field].as_f64();
        let line = lines.entry((set, name)).or_default();
        line.r2.push(number("r2").unwrap_or(f64::NAN));
        line.mae += number("mae").unwrap_or(f64::NAN);
        line.fit += number("fit_s").unwrap_or(f64::NAN);
        line.splits += 1.0;
        line.row_us = line.row_us.or(number("row_us"));
    }
    for set in &order {
        print(set, &lines);
    }
    verdict(&order, &lines);
    one_by_one();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The described workload: what is known of each task, and what it takes on each device.
fn write_workload(path: &Path, seed: u64) {
    let profile = described();
    let options = WorkloadOptions { seed, ..WorkloadOptions::default() };
    let workload = generate(&options, &profile).expect("a workload").workload;
    let bare = Estimates::of_profile(&workload, &profile).expect("estimates");
    let mut text = gswarm_tasks::FEATURES.join(",") + ",true_cpu_seconds,true_gpu_seconds\n";
    for (task, mean) in workload.tasks.iter().zip(&bare.means) {
        let truth = task.truth.expect("a generated task has its times");
        let numbers = [task.size, task.intensity, task.memory_bytes as f64 / 1e6, task.estimate.seconds()];
        let times = [mean.cpu, mean.gpu, truth.cpu, truth.gpu].map(|span| span.seconds().to_string());
        let numbers = numbers.map(|number| number.to_string()).join(",");
        text += &format!("{numbers},{},{}\n", task.kind.name(), times.join(","));
    }
    std::fs::write(path, text).expect("a table");
}

/// What a single decision and a single observation cost.
fn one_by_one() {
    const TIMES: usize = 100_000;
    let size: Vec<f64> = (0..2_000).map(|row| f64::from(row * 7_919 % 5_000)).collect();
    let seconds =
        size.iter().enumerate().map(|(row, size)| 1.0 + size * (1.0 + (row % 10) as f64 / 50.0)).collect();
    let column = |name: &str, values| Column { name: name.to_owned(), values: Values::Numbers(values) };
    let table = Table::new("runs", vec![column("size", size), column("seconds", seconds)]);
    let settings = FitSettings::new(PredictorKind::GradientBoosting);
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
    splits: usize,
    lines: &mut BTreeMap<(String, String), Line>,
) {
    let boosted = FitSettings::new(PredictorKind::GradientBoosting);
    let settings = [
        ("gswarm boosting (100 trees)", boosted),
        ("gswarm boosting (300 trees)", FitSettings { trees: 300, ..boosted }),
        ("gswarm forest (100 trees)", FitSettings::new(PredictorKind::RandomForest)),
        ("gswarm linear", FitSettings::new(PredictorKind::Linear)),
        ("gswarm last_two", FitSettings::new(PredictorKind::LastTwo)),
    ];
    for (name, settings) in settings {
        let line = lines.entry((set.to_owned(), name.to_owned())).or_default();
        for split in 0..splits {
            let mark = numbers(table, &format!("split{split}"));
            let (test, train): (Vec<usize>, Vec<usize>) = (0..table.rows()).partition(|&row| mark[row] > 0.5);
            let (test, train) = (table.select(&test), table.select(&train));
            let whole = processor_seconds();
            let predictor = fit(&train, target, features, &settings).expect("a model");
            *line.whole_fit.get_or_insert(0.0) += processor_seconds() - whole;
            // What the peers do: the means alone, on the scale that was found to be the better one.
            let target_scale = if predictor.learned_log() { TargetScale::Log } else { TargetScale::Plain };
            let alone = processor_seconds();
            let means_only = FitSettings { intervals: false, target_scale, ..settings };
            std::hint::black_box(fit(&train, target, features, &means_only).expect("a model"));
            line.fit += processor_seconds() - alone;
            let (rows, truths) = (encode(predictor.features(), &test).expect("rows"), numbers(&test, target));
            let means = predictor.predict_means(&rows);
            let predictions = predictor.predict(&rows);
            let between =
                predictions.iter().map(|one| (predictor.quantile(one, 0.05), predictor.quantile(one, 0.95)));
            *line.coverage.get_or_insert(0.0) += coverage(truths, between);
            line.r2.push(r2(truths, &means).unwrap_or(f64::NAN));
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
    found.sort_by(|one, other| mean(&other.1.r2).total_cmp(&mean(&one.1.r2)));
    for (name, line) in found {
        let optional =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{:.3}", value / line.splits));
        let row = line.row_us.map_or(String::new(), |us| format!("{us:.2}"));
        println!(
            "| {name} | {:.4} | {:.4} | {:.3} | {} | {} | {row} |",
            mean(&line.r2),
            line.mae / line.splits,
            line.fit / line.splits,
            optional(line.whole_fit),
            optional(line.coverage),
        );
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The best of the peers and the usual choice here, side by side; and both forests. Differences are those on the same
/// splits, with the standard error of their mean.
fn verdict(sets: &[String], lines: &BTreeMap<(String, String), Line>) {
    println!(
        "\n| set | best peer, R2 | gradient_boosting | ahead by | quickest peer, fit s | gradient_boosting | times as long | sklearn forest, R2 | random_forest | ahead by |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for set in sets {
        let of = |name: &str| lines.get(&(set.clone(), format!("{name} (100 trees)")));
        let (Some(ours), Some(our_forest), Some(forest)) =
            (of("gswarm boosting"), of("gswarm forest"), of("sklearn forest"))
        else {
            continue;
        };
        let peers = || lines.iter().filter(|((of, name), _)| of == set && !name.starts_with("gswarm"));
        let fit = |line: &Line| line.fit / line.splits;
        let best = peers().max_by(|one, other| mean(&one.1.r2).total_cmp(&mean(&other.1.r2)));
        let quickest = peers().min_by(|one, other| fit(one.1).total_cmp(&fit(other.1)));
        let (Some(((_, best), peer)), Some(((_, quickest), quick))) = (best, quickest) else { continue };
        println!(
            "| {set} | {best} {:.4} | {:.4} | {} | {quickest} {:.3} | {:.3} | {:.2} | {:.4} | {:.4} | {} |",
            mean(&peer.r2),
            mean(&ours.r2),
            ahead(ours, peer),
            fit(quick),
            fit(ours),
            fit(ours) / fit(quick),
            mean(&forest.r2),
            mean(&our_forest.r2),
            ahead(our_forest, forest),
        );
    }
}

fn ahead(one: &Line, other: &Line) -> String {
    let differences: Vec<f64> = one.r2.iter().zip(&other.r2).map(|(one, other)| one - other).collect();
    let middle = mean(&differences);
    let squares: Vec<f64> = differences.iter().map(|one| (one - middle).powi(2)).collect();
    let error = (mean(&squares) / (squares.len().max(2) - 1) as f64).sqrt();
    format!("{middle:+.4} ±{error:.4}")
}
