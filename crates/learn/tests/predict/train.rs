use crate::support::{column, numbers, random, runs, small, texts};
use gswarm_core::input::Code;
use gswarm_learn::model::pinball;
use gswarm_learn::train::{TrainOptions, TrainingReport, r2, train};
use gswarm_learn::{PredictorKind, Table};
use rand::RngExt;

fn options(target: &str) -> TrainOptions {
    TrainOptions::new(target, small(PredictorKind::GradientBoosting))
}

fn report(table: &Table, options: &TrainOptions) -> TrainingReport {
    train(table, options, &mut |_| {}).unwrap().report
}

/// The codes of why a table is refused, and the first one's message.
fn refused(table: &Table, options: &TrainOptions) -> (Vec<Code>, String) {
    let found = train(table, options, &mut |_| {}).expect_err("refused");
    (found.iter().map(|fault| fault.code).collect(), found[0].message.clone())
}

#[test]
fn a_report_says_how_good_the_model_is() {
    let report = report(&runs(1_500, 0.1, 31), &options("seconds"));
    assert_eq!((report.train.rows, report.test.rows), (1_200, 300));
    let (train, test) = (report.train.r2.unwrap(), report.test.r2.unwrap());
    assert!(test > 0.93 && train >= test - 0.02, "{report:?}");
    assert!((report.cross_validation.mean.unwrap() - test).abs() < 0.06, "{report:?}");
    assert_eq!(report.cross_validation.r2.len(), 5);
    assert!((report.intervals.coverage_90 - 0.9).abs() < 0.06, "{report:?}");
    let shares: f64 = report.importances.iter().map(|one| one.share).sum();
    assert!((shares - 1.0).abs() < 1e-9 && report.importances[0].share >= report.importances[1].share);
    let curve: Vec<usize> = report.learning_curve.iter().map(|point| point.rows).collect();
    assert_eq!(curve, [120, 300, 600, 900, 1_200]);
    assert!(report.learning_curve[0].test_r2.unwrap() < test + 0.01);
}

/// Rows in the order of their models: once the curve's points had seen the first of them alone, and knew nothing of the rest.
#[test]
fn a_learning_curve_sees_rows_from_all_over_the_table() {
    let mut draw = random(35);
    let (names, seconds): (Vec<String>, Vec<f64>) = (0..800)
        .map(|row| (format!("m{}", row / 100), f64::from(1 << (row / 100)) * draw.random_range(0.95..1.05)))
        .unzip();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let table = Table::new("t", vec![texts("model", &names), numbers("seconds", seconds)]);
    let report = report(&table, &options("seconds"));
    assert!(
        report.learning_curve.iter().skip(1).all(|point| point.test_r2 > Some(0.9)),
        "{:?}",
        report.learning_curve
    );
}

/// Rows that were kept back are predicted from all the others, as those of the test are, and not from the few before them.
#[test]
fn the_last_two_runs_are_cross_validated_like_any_model() {
    let mut last_two = options("seconds");
    last_two.settings = small(PredictorKind::LastTwo);
    for (rows, noise) in [(300, 0.1), (1_500, 0.2), (4_000, 0.3)] {
        let report = report(&runs(rows, noise, 36), &last_two);
        let (kept, test) = (report.cross_validation.mean.unwrap(), report.test.r2.unwrap());
        assert!((kept - test).abs() < 0.1, "{rows} rows: {kept} of kept back rows, {test} of others");
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }
}

#[test]
fn the_split_follows_from_the_seed() {
    let table = runs(300, 0.3, 32);
    let with = |seed| {
        let mut options = options("seconds");
        options.settings.seed = seed;
        report(&table, &options).test
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn what_cannot_be_learned_from_is_refused_with_the_reason() {
    let table = runs(200, 0.2, 33);
    let seconds = column(&table, "seconds").to_vec();
    let with = |more| {
        let mut columns = table.columns().to_vec();
        columns.push(more);
        Table::new("t", columns)
    };
    let (codes, message) = refused(&table, &options("second"));
    assert_eq!((codes, message.contains("second")), (vec![Code::Missing], true));
    assert_eq!(refused(&table, &options("device")).0, [Code::WrongType]);
    assert_eq!(refused(&runs(49, 0.2, 34), &options("seconds")).0, [Code::TooFewRows]);
    assert_eq!(refused(&with(numbers("label", vec![1.0; 200])), &options("label")).0, [Code::ConstantTarget]);
    let copy = with(numbers("milliseconds", seconds.iter().map(|s| s * 1e3).collect()));
    let (codes, message) = refused(&copy, &options("seconds"));
    assert_eq!((codes, message.contains("copy")), (vec![Code::Leak], true));
    let falling = with(numbers("speed", seconds.iter().map(|s| 1.0 / s).collect()));
    let (codes, message) = refused(&falling, &options("seconds"));
    assert_eq!((codes, message.contains("rises and falls")), (vec![Code::Leak], true));
    let mut gap = seconds.clone();
    gap[7] = f64::NAN;
    assert_eq!(refused(&with(numbers("gap", gap)), &options("gap")).0, [Code::Missing]);
    let mut below = seconds;
    below[7] = -1.0;
    assert_eq!(refused(&with(numbers("below", below)), &options("below")).0, [Code::Negative]);
    let named = TrainOptions { features: Some(vec!["sise".to_owned()]), ..options("seconds") };
    assert_eq!(refused(&table, &named).0, [Code::Missing]);
    let none = TrainOptions { leave_out: vec!["size".to_owned(), "device".to_owned()], ..options("seconds") };
    assert_eq!(refused(&table, &none).0, [Code::NoFeatures]);
    // What leaks may be allowed, or left out.
    assert!(train(&copy, &TrainOptions { allow_leaks: true, ..options("seconds") }, &mut |_| {}).is_ok());
    let without = TrainOptions { leave_out: vec!["milliseconds".to_owned()], ..options("seconds") };
    assert!(train(&copy, &without, &mut |_| {}).is_ok());
}

#[test]
fn columns_that_say_nothing_are_left_out_with_a_note() {
    let mut columns = runs(200, 0.2, 35).columns().to_vec();
    let ids: Vec<String> = (0..200).map(|id| format!("task-{id}")).collect();
    columns.push(texts("task_id", &ids.iter().map(String::as_str).collect::<Vec<_>>()));
    columns.push(numbers("one", vec![1.0; 200]));
    let report = report(&Table::new("t", columns), &options("seconds"));
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    assert_eq!(report.importances.len(), 2);
}

/// Rows `x, id, y` with `y` about twice `x`, and one id that comes twice or ids that come some times.
fn with_ids(rows: usize, ids: usize) -> Table {
    let mut random = random(37);
    let x: Vec<f64> = (0..rows).map(|_| random.random_range(1.0..100.0)).collect();
    let y: Vec<f64> = x.iter().map(|x| 2.0 * x + random.random_range(0.0..50.0)).collect();
    let names: Vec<String> = (0..rows).map(|row| format!("job-{}", row * 7919 % ids)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Table::new("t", vec![numbers("x", x), texts("id", &names), numbers("y", y)])
}

#[test]
fn texts_that_hardly_come_twice_are_left_out_with_a_note() {
    let report = report(&with_ids(2_000, 1_999), &options("y"));
    assert!(report.notes[0].contains("nearly every row"), "{:?}", report.notes);
    assert!(report.importances.iter().all(|one| one.feature == "x"));
    assert!(report.test.r2 > Some(0.9), "{report:?}");
}

#[test]
fn rare_texts_do_not_stand_for_the_targets_of_their_own_rows() {
    // Some four rows an id, which say nothing: every model has to see that.
    for kind in [PredictorKind::GradientBoosting, PredictorKind::RandomForest, PredictorKind::Linear] {
        let report = report(&with_ids(2_000, 500), &TrainOptions::new("y", small(kind)));
        assert!(report.test.r2 > Some(0.85), "{kind:?}: {report:?}");
        let share = report.importances.iter().find(|one| one.feature == "id").unwrap().share;
        assert!(share < 0.15, "{kind:?}: {share}");
    }
}

#[test]
fn a_model_that_knows_its_rows_by_heart_is_said_to() {
    let mut random = random(38);
    let column = |random: &mut rand_chacha::ChaCha8Rng| (0..400).map(|_| random.random::<f64>()).collect();
    let table = Table::new("t", vec![numbers("x", column(&mut random)), numbers("y", column(&mut random))]);
    let settings = small(PredictorKind::RandomForest);
    let notes = report(&table, &TrainOptions::new("y", settings)).notes;
    assert!(notes.iter().any(|note| note.contains("overfits") && note.contains("`x` (100%)")), "{notes:?}");
}

#[test]
fn noise_alone_is_not_explained() {
    let mut random = random(36);
    let column = |random: &mut rand_chacha::ChaCha8Rng| (0..600).map(|_| random.random::<f64>()).collect();
    let table = Table::new("t", vec![numbers("x", column(&mut random)), numbers("y", column(&mut random))]);
    let report = report(&table, &options("y"));
    assert!(report.test.r2.unwrap() < 0.1 && report.cross_validation.mean.unwrap() < 0.1, "{report:?}");
}

/// One row in a hundred differs: the test rows of some seeds, and most folds, have no variance that could be explained. They
/// once had an R2 of 0, or of 1.
#[test]
fn of_rows_that_are_all_alike_no_r2_is_made_up() {
    let x: Vec<f64> = (0..200).map(f64::from).collect();
    let y: Vec<f64> = (0..200).map(|row| if row < 2 { 5.0 } else { 1.0 }).collect();
    let table = Table::new("t", vec![numbers("x", x), numbers("y", y)]);
    let (mut alike, mut varied) = (0, 0);
    for seed in 0..8 {
        let mut options = options("y");
        options.settings.seed = seed;
        let report = report(&table, &options);
        let folds = &report.cross_validation;
        let known: Vec<f64> = folds.r2.iter().copied().flatten().collect();
        assert!(known.len() <= 2 && folds.r2.len() == 5, "{folds:?}");
        assert_eq!(folds.mean.is_some(), !known.is_empty());
        assert_eq!(folds.mean.is_some(), folds.deviation.is_some());
        if let Some(mean) = folds.mean {
            assert!((mean - known.iter().sum::<f64>() / known.len() as f64).abs() < 1e-12);
        }
        assert!(report.learning_curve.iter().all(|at| at.test_r2.is_some() == report.test.r2.is_some()));
        let told = serde_json::to_value(&report).unwrap();
        assert_eq!(told["test"]["r2"].is_null(), report.test.r2.is_none());
        *(if report.test.r2.is_some() { &mut varied } else { &mut alike }) += 1;
    }
    assert!(alike > 0 && varied > 0, "{alike} and {varied}");
}

#[test]
fn measures_are_what_their_formulas_give() {
    assert_eq!(r2(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), Some(1.0));
    assert_eq!(r2(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]), Some(0.0));
    assert_eq!(r2(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-3.0));
    // Nothing varies, so nothing is explained, however good or bad the predictions are; nor in three times 0.1, whose
    // average is another number.
    for truths in [vec![], vec![2.0], vec![2.0, 2.0], vec![0.1; 3]] {
        assert_eq!((r2(&truths, &truths), r2(&truths, &vec![1.0; truths.len()])), (None, None), "{truths:?}");
    }
    assert_eq!(pinball(10.0, 8.0, 0.75), 1.5);
    assert_eq!(pinball(8.0, 10.0, 0.75), 0.5);
}
