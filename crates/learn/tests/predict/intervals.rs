use crate::support::{column, features, runs, small};
use gswarm_learn::train::{TrainOptions, coverage, train};
use gswarm_learn::{
    Column, FitSettings, GroupId, Online, Predictor, PredictorKind, Table, Values, encode, fit,
};

fn trained(kind: PredictorKind, noise: f64) -> Predictor {
    fit(&runs(2_500, noise, 11), "seconds", &features(), &small(kind)).unwrap()
}

/// The share of truths inside the interval that was given for each before it was seen, and the mean of the last
/// corrections.
fn streamed(predictor: &Predictor, online: &mut Online, table: &Table, slowdown: f64, groups: u32) -> f64 {
    let rows = encode(predictor.features(), table).unwrap();
    let truths: Vec<f64> = column(table, "seconds").iter().map(|truth| truth * slowdown).collect();
    let mut given = Vec::new();
    for (place, (row, &truth)) in rows.iter().zip(&truths).enumerate() {
        let group = GroupId(place as u32 % groups);
        let prediction = online.correct(group, predictor.predict_row(row));
        let at = |p| online.quantile(predictor, group, &prediction, p);
        given.push((at(0.05), at(0.95)));
        online.observe(group, &prediction, truth);
    }
    coverage(&truths, given.into_iter())
}

#[test]
fn nine_truths_of_ten_lie_in_the_interval_on_rows_never_seen() {
    let cases = [
        (PredictorKind::GradientBoosting, 0.1),
        (PredictorKind::GradientBoosting, 0.4),
        (PredictorKind::RandomForest, 0.2),
        (PredictorKind::LastTwo, 0.2),
        (PredictorKind::LastTwo, 0.4),
    ];
    for (kind, noise) in cases {
        let predictor = trained(kind, noise);
        let test = runs(4_000, noise, 12);
        let predictions = predictor.predict(&encode(predictor.features(), &test).unwrap());
        for (low, high, share) in [(0.05, 0.95, 0.9), (0.25, 0.75, 0.5)] {
            let between =
                predictions.iter().map(|one| (predictor.quantile(one, low), predictor.quantile(one, high)));
            let found = coverage(column(&test, "seconds"), between);
            assert!(
                (found - share).abs() <= 0.02 + 0.02 * f64::from(share < 0.9),
                "{} {noise}: {found}",
                kind.name()
            );
        }
    }
}

#[test]
fn after_all_runs_take_a_third_longer_the_intervals_hold_again() {
    for noise in [0.1, 0.2, 0.4] {
        let predictor = trained(PredictorKind::GradientBoosting, noise);
        let mut online = Online::new(&predictor);
        let before = streamed(&predictor, &mut online, &runs(4_000, noise, 13), 1.0, 4);
        let after = streamed(&predictor, &mut online, &runs(4_000, noise, 14), 1.3, 4);
        assert!((before - 0.9).abs() <= 0.02, "noise {noise}: {before} before the change");
        assert!((after - 0.9).abs() <= 0.02, "noise {noise}: {after} after the change");
        for group in 0..4 {
            let correction = online.correction(GroupId(group));
            assert!((correction - 1.3).abs() < 0.13, "noise {noise}: corrected by {correction}");
        }
        // Without any correction the change is plain to see.
        let fresh = Online::new(&predictor);
        let rows = encode(predictor.features(), &runs(4_000, noise, 14)).unwrap();
        let given = rows.iter().map(|row| {
            let prediction = fresh.correct(GroupId(0), predictor.predict_row(row));
            (predictor.quantile(&prediction, 0.05), predictor.quantile(&prediction, 0.95))
        });
        let truths: Vec<f64> =
            column(&runs(4_000, noise, 14), "seconds").iter().map(|truth| truth * 1.3).collect();
        assert!(coverage(&truths, given) < 0.87, "noise {noise}");
    }
}

#[test]
fn a_change_is_noticed_and_its_absence_too() {
    let predictor = trained(PredictorKind::GradientBoosting, 0.15);
    let mut online = Online::new(&predictor);
    streamed(&predictor, &mut online, &runs(4_000, 0.15, 15), 1.0, 1);
    assert!(
        online.changes(GroupId(0)) <= 1,
        "{} alarms in 4,000 runs without a change",
        online.changes(GroupId(0))
    );
    assert!((online.correction(GroupId(0)) - 1.0).abs() < 0.05);
    let noticed = online.changes(GroupId(0));
    streamed(&predictor, &mut online, &runs(60, 0.15, 16), 1.3, 1);
    assert!(online.changes(GroupId(0)) > noticed, "60 slow runs were not noticed");
    assert!((online.correction(GroupId(0)) - 1.3).abs() < 0.1, "{}", online.correction(GroupId(0)));
    // Other groups are as they were.
    assert_eq!(online.correction(GroupId(7)), 1.0);
}

#[test]
fn groups_differ_where_that_is_no_chance() {
    let predictor = trained(PredictorKind::GradientBoosting, 0.2);
    for (slowdown, differ) in [(1.0, false), (1.3, true)] {
        let mut online = Online::new(&predictor);
        let table = runs(800, 0.2, 17);
        for (place, row) in encode(predictor.features(), &table).unwrap().iter().enumerate() {
            let group = GroupId(place as u32 % 8);
            let truth = column(&table, "seconds")[place] * if group.0 == 7 { slowdown } else { 1.0 };
            for group in [group, GroupId(8)] {
                let prediction = online.correct(group, predictor.predict_row(row));
                online.observe(group, &prediction, truth);
            }
        }
        let found: Vec<bool> = (0..8).map(|group| online.differs(GroupId(group), GroupId(8))).collect();
        assert_eq!(found, [vec![false; 7], vec![differ]].concat(), "a group {slowdown} times as slow");
    }
}

#[test]
fn what_is_no_run_time_is_not_learned_from() {
    let predictor = trained(PredictorKind::GradientBoosting, 0.15);
    let mut online = Online::new(&predictor);
    let prediction = predictor.predict_row(&[1_000.0, 0.0]);
    for truth in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(!online.observe(GroupId(0), &prediction, truth));
    }
    assert_eq!(online.correction(GroupId(0)), 1.0);
}

#[test]
fn quantiles_rise_and_are_never_below_zero() {
    let predictor = trained(PredictorKind::RandomForest, 0.6);
    let prediction = predictor.predict_row(&[150.0, 1.0]);
    let at: Vec<f64> = (0..=20).map(|step| predictor.quantile(&prediction, f64::from(step) / 20.0)).collect();
    assert!(at.windows(2).all(|pair| pair[0] <= pair[1]) && at[0] >= 0.0, "{at:?}");
}

/// Targets that features say nothing of; `value` makes them of a number.
fn chance(rows: u64, value: impl Fn(u64) -> f64) -> Table {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        x.push((random() % 1000) as f64);
        y.push(value(random()));
    }
    let column = |name: &str, values| Column { name: name.to_owned(), values: Values::Numbers(values) };
    Table::new("t", vec![column("x", x), column("y", y)])
}

#[test]
fn intervals_of_a_few_values_are_not_far_wider_than_these() {
    for kind in PredictorKind::ALL {
        for rows in [100, 1000] {
            let found = train(
                &chance(rows, |n| (n % 3) as f64),
                &TrainOptions::new("y", FitSettings::new(kind)),
                &mut |_| (),
            );
            let intervals = found.unwrap().report.intervals;
            assert!(intervals.width_90 <= 4.0, "{kind:?}, {rows} rows: {intervals:?}");
            assert!(intervals.coverage_90 >= 0.8, "{kind:?}, {rows} rows: {intervals:?}");
        }
        // Three in ten are zero.
        let often_zero = |n: u64| if n % 10 < 3 { 0.0 } else { 1.0 + (n / 10 % 100) as f64 / 100.0 };
        let found =
            train(&chance(1000, often_zero), &TrainOptions::new("y", FitSettings::new(kind)), &mut |_| ());
        let intervals = found.unwrap().report.intervals;
        assert!(intervals.width_90 <= 4.0 && intervals.coverage_90 >= 0.8, "{kind:?}: {intervals:?}");
    }
}

#[test]
fn intervals_hold_what_is_nearly_always_the_same() {
    for kind in PredictorKind::ALL {
        let seen = std::cell::Cell::new(0);
        let value = |_: u64| {
            seen.set(seen.get() + 1);
            if seen.get() == 10 { 9.0 } else { 5.0 }
        };
        let found = train(&chance(100, value), &TrainOptions::new("y", FitSettings::new(kind)), &mut |_| ());
        let intervals = found.unwrap().report.intervals;
        assert!(intervals.coverage_90 >= 0.9, "{kind:?}: {intervals:?}");
    }
}
