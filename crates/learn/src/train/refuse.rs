//! What is not learned from: too little, nothing, or the answer itself.

use super::{MIN_ROWS, TrainOptions};
use crate::table::{Column, NO_TEXT, Table, TableFaults, Values, nearest, short};
use gswarm_core::input::{Code, Diagnostic};

/// What the names of columns begin with that are known after the run alone.
const TRUE: &str = "true_";
/// Texts of which there are more than so many for each row that has one are names of rows, and tell nothing of other rows.
const NEARLY_UNIQUE: f64 = 0.5;
/// A feature whose correlation with the target is beyond this is the target, in another unit or rounded.
const SAME: f64 = 0.999_999;
/// One whose ranks are as close to the target's rises and falls with it.
const SAME_ORDER: f64 = 0.999_99;

/// The features to learn from, and notes on what was left out; or all that is wrong.
pub fn usable(
    table: &Table,
    targets: &[f64],
    options: &TrainOptions,
) -> Result<(Vec<String>, Vec<String>), Vec<Diagnostic>> {
    let mut faults = TableFaults::new(table.file());
    let target = options.target.as_str();
    if targets.len() < MIN_ROWS {
        let message = format!("{} rows; at least {MIN_ROWS} are needed", targets.len());
        let hint = "a model of fewer rows could not be tested; collect more runs".to_owned();
        faults.add(Code::TooFewRows, None, "", message, Some(hint));
    }
    if let Some(first) = targets.first().filter(|&first| targets.iter().all(|other| other == first)) {
        let message = format!("`{target}` is {} in every row", short(*first));
        let hint = "there is nothing to learn; check how the table was made".to_owned();
        faults.add(Code::ConstantTarget, table.line(0), target, message, Some(hint));
    }
    for name in options.features.iter().flatten().chain(&options.leave_out) {
        if table.column(name).is_none() {
            let hint = nearest(name, table.columns().iter().map(|column| column.name.as_str()));
            faults.add(Code::Missing, Some(1), name, format!("there is no column `{name}`"), hint);
        }
    }
    // Of a target that is at fault itself, every column would seem to tell something; of a sound one all leaks are named.
    let sound = faults.is_empty();
    let mut notes = Vec::new();
    let mut features = Vec::new();
    for column in table.columns() {
        let name = &column.name;
        let named = options.features.as_ref().map(|features| features.contains(name));
        if options.leave_out.contains(name) || named == Some(false) {
            continue;
        }
        if name == target {
            if named == Some(true) {
                let message = format!("the target `{name}` is named as a feature");
                faults.add(Code::Leak, Some(1), name, message, Some("omit it".to_owned()));
            }
            continue;
        }
        if name.starts_with(TRUE) {
            if named == Some(true) && !options.allow_leaks {
                let message = format!(
                    "`{name}` is known only after the run, like all columns that start with `{TRUE}`"
                );
                faults.add(Code::Leak, Some(1), name, message, Some("omit it".to_owned()));
            } else if named.is_none() {
                notes.push(format!("`{name}` is omitted: it is known only after the run"));
            }
            if named != Some(true) || !options.allow_leaks {
                continue;
            }
        }
        let set_aside = options.set_aside.iter().find(|(column, _)| column == name);
        if let Some((_, why)) = set_aside.filter(|_| named.is_none()) {
            notes.push(format!("`{name}` is omitted: {why}"));
            continue;
        }
        if let Some(why) = useless(column) {
            notes.push(format!("`{name}` is omitted: {why}"));
            continue;
        }
        if let Some(how) = leak(column, targets).filter(|_| !options.allow_leaks && sound) {
            let hint = format!(
                "omit it with --leave-out {name}, or pass --allow-leaks if it is known before the run"
            );
            faults.add(
                Code::Leak,
                Some(1),
                name,
                format!("`{name}` {how} the target `{target}`"),
                Some(hint),
            );
            continue;
        }
        features.push(name.clone());
    }
    if features.is_empty() && faults.is_empty() {
        let hint = "name columns with --features".to_owned();
        faults.add(
            Code::NoFeatures,
            Some(1),
            "",
            format!("nothing is left to predict `{target}` from"),
            Some(hint),
        );
    }
    if faults.is_empty() { Ok((features, notes)) } else { Err(faults.into_diagnostics()) }
}

/// Why nothing can be learned from a column.
fn useless(column: &Column) -> Option<&'static str> {
    match &column.values {
        Values::Numbers(numbers) => {
            let first = numbers.first()?;
            let same = numbers.iter().all(|other| other == first || (other.is_nan() && first.is_nan()));
            same.then_some("it is the same in every row")
        }
        Values::Texts { codes, names } if names.len() <= 1 && codes.iter().all(|code| *code == codes[0]) => {
            Some("it is the same in every row")
        }
        Values::Texts { codes, names } => {
            let given = codes.iter().filter(|&&code| code != NO_TEXT).count();
            if names.len() == codes.len() {
                Some("its text differs in every row")
            } else if names.len() as f64 > given as f64 * NEARLY_UNIQUE {
                Some("its text differs in nearly every row")
            } else {
                None
            }
        }
    }
}

/// How a column gives the target away.
fn leak(column: &Column, targets: &[f64]) -> Option<&'static str> {
    let Values::Numbers(numbers) = &column.values else { return None };
    let known = numbers.iter().zip(targets).filter(|(number, _)| !number.is_nan());
    let (values, truths): (Vec<f64>, Vec<f64>) = known.map(|(&number, &target)| (number, target)).unzip();
    if values.len() < MIN_ROWS.max(targets.len() / 2) {
        return None;
    }
    if correlation(&values, &truths).abs() > SAME {
        return Some("is a copy of");
    }
    (correlation(&ranks(&values), &ranks(&truths)).abs() > SAME_ORDER).then_some("rises and falls with")
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_one, mean_other) = (mean(one), mean(other));
    let (mut both, mut squares_one, mut squares_other) = (0.0, 0.0, 0.0);
    for (one, other) in one.iter().zip(other) {
        let (one, other) = (one - mean_one, other - mean_other);
        both += one * other;
        squares_one += one * one;
        squares_other += other * other;
    }
    if squares_one > 0.0 && squares_other > 0.0 { both / (squares_one * squares_other).sqrt() } else { 0.0 }
}

/// The rank of each value; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = from as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|&place| ranks[place] = rank);
        from += equal.len();
    }
    ranks
}
