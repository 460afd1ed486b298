//! Whether what executions of a model took of late tells of the next ones, and how much: found on the rows of a log that were
//! kept back, and learned from only where it makes errors smaller. As a column for trees it would be mostly noise that they take for more.

use super::TARGET;
use crate::model::{History, Memory, PredictorKind};
use crate::table::Table;
use crate::train::{KeptBack, Remembered, TrainOptions, Trained, mean_absolute_error, train};
use gswarm_core::input::Diagnostic;
use std::collections::HashMap;

/// What `--features` and `--leave-out` call it.
pub const HISTORY: &str = "history";
/// Shares of the newest execution that are tried.
const NEWEST: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];
/// It is learned from if errors are smaller with it by more standard errors than this.
const CLEARLY: f64 = 3.0;

/// When an execution of a log ran, and of which model.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) model: usize,
    pub(super) start: f64,
    pub(super) end: f64,
    /// Seconds, as if alone on the replica.
    pub(super) took: f64,
}

/// The completed executions of a log.
#[derive(Clone, Debug)]
pub struct Executions {
    pub(super) table: Table,
    pub(super) when: Vec<When>,
}

/// What a predictor is trained on.
#[derive(Clone, Debug)]
pub enum Data {
    /// A table.
    Table(Table),
    /// The executions of a log.
    Executions(Executions),
}

impl Data {
    /// Trains, tests and reports. `progress` is told what is being done.
    pub fn train(
        &self,
        options: &TrainOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Trained, Vec<Diagnostic>> {
        match self {
            Data::Table(table) => train(table, options, progress),
            Data::Executions(executions) => executions.train(options, progress),
        }
    }
}

impl Executions {
    /// What is known of each before it runs, and [`TARGET`].
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Trains as [`train`] does, and then tries [`HISTORY`].
    pub fn train(
        &self,
        options: &TrainOptions,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Trained, Vec<Diagnostic>> {
        let named = |names: &[String]| names.iter().any(|name| name == HISTORY);
        let others = |names: &[String]| names.iter().filter(|&name| name != HISTORY).cloned().collect();
        let columns = TrainOptions {
            leave_out: others(&options.leave_out),
            features: options.features.as_deref().map(others),
            // All that a row has is known before the run.
            allow_leaks: true,
            ..options.clone()
        };
        let mut trained = train(&self.table, &columns, progress)?;
        if named(&options.leave_out) || !options.features.as_deref().is_none_or(named) {
            return Ok(trained);
        }
        if options.target != TARGET {
            trained.report.notes.push(format!("`{HISTORY}` is omitted: it exists for `{TARGET}` only"));
        } else if options.settings.kind == PredictorKind::LastTwo {
            trained
                .report
                .notes
                .push(format!("`{HISTORY}` is omitted: this model only uses the last two runs"));
        } else {
            progress("recent execution times");
            self.try_history(&mut trained);
        }
        Ok(trained)
    }

    fn try_history(&self, trained: &mut Trained) {
        let truths: Vec<f64> = self.when.iter().map(|when| when.took).collect();
        let kept = &trained.kept_back;
        let tried = NEWEST.map(|newest| Tried::new(&self.when, &truths, kept, newest));
        let Some(best) = tried.into_iter().min_by(|one, other| one.error.total_cmp(&other.error)) else {
            return;
        };
        let error = |means: &[f64]| {
            let pick =
                |of: &[f64]| (0..of.len()).filter(|&row| kept.tested[row]).map(|row| of[row]).collect();
            let (truths, means): (Vec<f64>, Vec<f64>) = (pick(&truths), pick(means));
            mean_absolute_error(&truths, &means)
        };
        let told =
            Remembered { memory: best.memory, mae: error(&best.means), mae_without: error(&kept.means) };
        if best.pays {
            trained.predictor.remember(best.memory);
            trained.report.history = Some(told);
        } else {
            let why = "recent execution times of a model do not clearly reduce errors";
            trained.report.notes.push(format!("`{HISTORY}` is omitted: {why}"));
        }
    }
}

/// One memory, with the share that carries over which fits the training rows best.
struct Tried {
    memory: Memory,
    /// What is predicted with it of each row, by models that had not seen the row.
    means: Vec<f64>,
    /// The mean absolute error of the training rows.
    error: f64,
    pays: bool,
}

impl Tried {
    fn new(when: &[When], truths: &[f64], kept: &KeptBack, newest: f64) -> Tried {
        let before = histories(when, &kept.means, newest);
        let rows: Vec<usize> = (0..truths.len()).filter(|&row| !kept.tested[row]).collect();
        let ratio = |row: usize| {
            let mut one = History::default();
            one.add(truths[row], kept.means[row], 1.0);
            one.ratio() - 1.0
        };
        let (mut both, mut square) = (0.0, 0.0);
        for &row in &rows {
            let seen = before[row].ratio() - 1.0;
            both += seen * ratio(row);
            square += seen * seen;
        }
        let carries = if square > 0.0 { (both / square).clamp(0.0, 1.0) } else { 0.0 };
        let memory = Memory { newest, carries };
        let means: Vec<f64> =
            kept.means.iter().zip(&before).map(|(mean, history)| mean * history.factor(&memory)).collect();
        let count = rows.len().max(1) as f64;
        let error = |means: &[f64], row: usize| (means[row] - truths[row]).abs();
        let gains: Vec<(usize, f64)> =
            rows.iter().map(|&row| (row, error(&kept.means, row) - error(&means, row))).collect();
        let (gain, standard_error) = mean_of_groups(when, &gains);
        let pays = gain > CLEARLY * standard_error;
        let error = rows.iter().map(|&row| error(&means, row)).sum::<f64>() / count;
        Tried { memory, means, error, pays }
    }
}

/// The mean over executions, and its standard error. Those that ran together have what they took in common: they are no more than
/// one case.
fn mean_of_groups(when: &[When], values: &[(usize, f64)]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|(_, value)| value).sum::<f64>() / count;
    let mut groups: HashMap<(usize, u64, u64), f64> = HashMap::new();
    for &(row, value) in values {
        let one = &when[row];
        *groups.entry((one.model, one.start.to_bits(), one.end.to_bits())).or_default() += value - mean;
    }
    let squares = groups.values().map(|sum| sum * sum).sum::<f64>();
    let cases = groups.len().max(2) as f64;
    (mean, (squares * cases / (cases - 1.0)).sqrt() / count)
}

/// What was remembered of its model when each execution started: only what had ended by then is known.
fn histories(when: &[When], predicted: &[f64], newest: f64) -> Vec<History> {
    let by = |time: fn(&When) -> f64| {
        let mut order: Vec<usize> = (0..when.len()).collect();
        let starts = |at: usize| when[at].start;
        order.sort_by(|&a, &b| {
            time(&when[a]).total_cmp(&time(&when[b])).then(starts(a).total_cmp(&starts(b))).then(a.cmp(&b))
        });
        order
    };
    // What takes no time has not ended before it starts.
    let before = |one: &When, other: &When| {
        one.end < other.start || (one.end == other.start && one.start < other.start)
    };
    let models = when.iter().map(|one| one.model + 1).max().unwrap_or(0);
    let mut seen = vec![History::default(); models];
    let mut ended = by(|one| one.end).into_iter().peekable();
    let mut found = vec![History::default(); when.len()];
    for at in by(|one| one.start) {
        while let Some(other) = ended.next_if(|&other| before(&when[other], &when[at])) {
            let one = &when[other];
            seen[one.model].add(one.took, predicted[other], newest);
        }
        found[at] = seen[when[at].model];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_what_had_ended_when_an_execution_started() {
        let run = |model, start, end| When { model, start, end, took: end - start };
        let when = [run(0, 0.0, 2.0), run(0, 2.0, 6.0), run(0, 3.0, 5.0), run(1, 7.0, 8.0), run(0, 6.0, 7.0)];
        let found =
            histories(&when, &[1.0, 2.0, 2.0, 1.0, 0.0], 0.5).iter().map(History::ratio).collect::<Vec<_>>();
        // By their ends: the second one ran longer than the third.
        assert_eq!(found, [1.0, 1.5, 1.5, 1.0, (1.25 + 2.0) / 2.0]);
    }

    /// Of a history that holds the execution itself, the truth would be learned.
    #[test]
    fn what_takes_no_time_is_no_part_of_its_own_history() {
        let run = |start, end| When { model: 0, start, end, took: end - start };
        let when = [run(0.0, 1.0), run(1.0, 1.0), run(1.0, 2.0), run(2.0, 2.0), run(2.5, 3.0)];
        let found: Vec<f64> = histories(&when, &[1.0; 5], 1.0).iter().map(History::ratio).collect();
        let expected = [1.0, 1.0, 1.0, 1.0, 0.1];
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn executions_that_ran_together_are_one_case() {
        let run = |start: f64| When { model: 0, start, end: start + 1.0, took: 1.0 };
        let apart: Vec<When> = (0..8).map(|at| run(f64::from(at))).collect();
        let together: Vec<When> = (0..8).map(|at| run(f64::from(at / 4))).collect();
        let values: Vec<(usize, f64)> = (0..8).map(|at| (at, if at < 4 { 1.0 } else { 3.0 })).collect();
        let ((mean, alone), (same, shared)) =
            (mean_of_groups(&apart, &values), mean_of_groups(&together, &values));
        assert_eq!((mean, same), (2.0, 2.0));
        assert!(shared > 2.5 * alone, "{shared} {alone}");
    }
}
