use crate::support::{column, features, numbers, random, runs, small};
use gswarm_learn::train::r2;
use gswarm_learn::{
    FitSettings, PredictorKind, Rows, Table, Values, encode, fit, model::TargetScale, model::folds,
};
use proptest::prelude::*;
use rand::RngExt;
use std::path::Path;

#[test]
fn every_kind_learns_what_there_is_to_learn() {
    let (training, test) = (runs(1_500, 0.05, 1), runs(500, 0.05, 2));
    for (kind, least) in [
        (PredictorKind::RandomForest, 0.97),
        (PredictorKind::GradientBoosting, 0.97),
        (PredictorKind::Linear, 0.6),
        (PredictorKind::LastTwo, 0.6),
    ] {
        let predictor = fit(&training, "seconds", &features(), &small(kind)).unwrap();
        let means = predictor.predict_means(&encode(predictor.features(), &test).unwrap());
        let found = r2(column(&test, "seconds"), &means).unwrap();
        assert!(found > least, "{}: R2 {found}", kind.name());
    }
}

/// Two thousand groups, most of a few dozen rows or fewer, are much of what can be known here. Trees that are shown the rows before a row
/// alone came to 0.584 on these splits, with cross-fitting to 0.626; `--bench peers` has the peers beside it.
#[test]
fn groups_of_a_few_dozen_rows_are_learned_from() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gentd26/requests_to_2024-11-28.csv");
    if !file.exists() {
        return gswarm_testing::skip("the GenTD26 trace is not beside the checkout");
    }
    let table = Table::read_file(&file).unwrap();
    let target = "exec_time_seconds";
    let Values::Texts { codes, names } = &table.column("predict_status").unwrap().values else {
        panic!("no texts")
    };
    let done: Vec<usize> = (0..table.rows()).filter(|&row| names[codes[row] as usize] == "SUCCEED").collect();
    let table = table.select(&done);
    let unknown = ["gmt_create", "predict_status", target];
    let names = table.columns().iter().map(|column| column.name.clone());
    let names: Vec<String> = names.filter(|name| !unknown.contains(&name.as_str())).collect();
    let means_only = FitSettings {
        intervals: false,
        target_scale: TargetScale::Log,
        ..FitSettings::new(PredictorKind::GradientBoosting)
    };
    let splits = [1000, 1001, 1002, 1003, 1004];
    let found = splits.iter().map(|&seed| {
        let fold = folds(table.rows(), 5, seed);
        let (test, training): (Vec<usize>, Vec<usize>) = (0..table.rows()).partition(|&row| fold[row] == 0);
        let (test, training) = (table.select(&test), table.select(&training));
        let predictor = fit(&training, target, &names, &means_only).unwrap();
        r2(column(&test, target), &predictor.predict_means(&encode(predictor.features(), &test).unwrap()))
            .unwrap()
    });
    let mean = found.sum::<f64>() / splits.len() as f64;
    println!("R2 {mean:.4}");
    assert!(mean > 0.61, "R2 {mean}");
}

#[test]
fn one_row_gets_the_bits_that_it_gets_among_many() {
    let training = runs(700, 0.2, 3);
    let table = runs(600, 0.2, 4);
    for kind in PredictorKind::ALL {
        let predictor = fit(&training, "seconds", &features(), &small(kind)).unwrap();
        let rows = encode(predictor.features(), &table).unwrap();
        for (row, together) in rows.iter().zip(predictor.predict(&rows)) {
            assert_eq!(predictor.predict_row(row), together, "{}", kind.name());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_model_on_any_number_of_threads() {
    let table = runs(400, 0.2, 5);
    let train = || fit(&table, "seconds", &features(), &small(PredictorKind::RandomForest)).unwrap();
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(train);
    let many = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap().install(train);
    assert!(alone == many);
    let other = FitSettings { seed: 43, ..small(PredictorKind::RandomForest) };
    assert!(fit(&table, "seconds", &features(), &other).unwrap() != alone);
}

#[test]
fn missing_and_unseen_values_are_predicted_too() {
    let mut random = random(6);
    let rows = 600;
    // Where the first feature is missing, runs take long: that it is missing says something.
    let known: Vec<bool> = (0..rows).map(|_| random.random_bool(0.7)).collect();
    let first = known.iter().map(|&known| if known { random.random::<f64>() } else { f64::NAN }).collect();
    let truth: Vec<f64> = known.iter().map(|&known| if known { 1.0 } else { 9.0 }).collect();
    let table = Table::new("t", vec![numbers("x", first), numbers("y", truth)]);
    let settings = FitSettings { target_scale: TargetScale::Plain, ..small(PredictorKind::GradientBoosting) };
    let predictor = fit(&table, "y", &["x".to_owned()], &settings).unwrap();
    assert!((predictor.predict_row(&[f64::NAN]).mean - 9.0).abs() < 0.2);
    assert!((predictor.predict_row(&[0.4]).mean - 1.0).abs() < 0.2);
    // A device that training did not see is like a missing one: some answer, and a finite one.
    let predictor =
        fit(&runs(500, 0.1, 7), "seconds", &features(), &small(PredictorKind::GradientBoosting)).unwrap();
    let unseen = predictor.features()[1].code("tpu9");
    assert!(unseen.is_nan() && predictor.predict_row(&[1_000.0, unseen]).mean.is_finite());
    assert!(predictor.predict_row(&[f64::INFINITY, 99.0]).mean.is_finite());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_function_that_only_rises_is_recovered(power in 0.3_f64..3.0, offset in 0.1_f64..5.0, seed in 0_u64..1_000) {
        let mut random = random(seed);
        let x: Vec<f64> = (0..500).map(|_| random.random_range(0.0..10.0)).collect();
        let y: Vec<f64> = x.iter().map(|x| offset + x.powf(power)).collect();
        let table = Table::new("t", vec![numbers("x", x), numbers("y", y.clone())]);
        let settings = FitSettings { target_scale: TargetScale::Plain, intervals: false, ..small(PredictorKind::GradientBoosting) };
        let predictor = fit(&table, "y", &["x".to_owned()], &settings).unwrap();
        let mut grid = Rows::new(1);
        (0..=100).for_each(|step| grid.push(&[f64::from(step) / 10.0]));
        let means = predictor.predict_means(&grid);
        let truths: Vec<f64> = grid.iter().map(|row| offset + row[0].powf(power)).collect();
        prop_assert!(r2(&truths, &means).unwrap() > 0.98);
        // Each tree's leaves are means of a rising function's residuals: small steps back are possible, large ones not.
        let range = truths[100] - truths[0];
        prop_assert!(means.windows(2).all(|pair| pair[1] > pair[0] - 0.05 * range));
    }

    #[test]
    fn a_forest_stays_within_the_targets(
        targets in prop::collection::vec(0.0_f64..1e6, 20..120),
        seed in 0_u64..1_000,
        x in prop::collection::vec(-1e9_f64..1e9, 8),
    ) {
        let mut random = random(seed);
        let values = targets.iter().map(|_| random.random_range(-1e6..1e6)).collect();
        let table = Table::new("t", vec![numbers("x", values), numbers("y", targets.clone())]);
        let settings =
            FitSettings { target_scale: TargetScale::Plain, intervals: false, seed, ..small(PredictorKind::RandomForest) };
        let predictor = fit(&table, "y", &["x".to_owned()], &settings).unwrap();
        let (low, high) = targets.iter().fold((f64::MAX, f64::MIN), |(low, high), &y| (low.min(y), high.max(y)));
        let rounding = high * 1e-9;
        for x in x {
            let mean = predictor.predict_row(&[x]).mean;
            prop_assert!(mean >= low - rounding && mean <= high + rounding, "{mean} not in {low}..{high}");
        }
    }
}
