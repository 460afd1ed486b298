//! Whether what executions of a model took of late tells of the next ones, and how much: found on the rows of a log that were
//! kept back, and learned from only where it makes errors smaller. As a column for trees it would be mostly noise that they take for more.

use super::TARGET;
use crate::model::{History, Kind, Memory};
use crate::table::Table;
use crate::train::{KeptBack, Options, Remembered, Trained, mean_absolute_error, train};
use gswarm_core::input::Diagnostic;

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
}

/// The completed executions of a log.
#[derive(Clone, Debug)]
pub struct Executions {
    pub(super) table: Table,
    pub(super) when: Vec<When>,
}

impl Executions {
    /// What is known of each before it runs, and [`TARGET`].
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Trains as [`train`] does, and then tries [`HISTORY`].
    ///
    /// # Errors
    /// All that keeps the executions from being learned from.
    pub fn train(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Trained, Vec<Diagnostic>> {
        let named = |names: &[String]| names.iter().any(|name| name == HISTORY);
        let others = |names: &[String]| names.iter().filter(|&name| name != HISTORY).cloned().collect();
        let columns = Options {
            leave_out: others(&options.leave_out),
            features: options.features.as_deref().map(others),
            ..options.clone()
        };
        let mut trained = train(&self.table, &columns, progress)?;
        let wanted = !named(&options.leave_out) && options.features.as_deref().is_none_or(named);
        // The last two runs are all that this kind goes by.
        let by_itself = options.settings.kind == Kind::LastTwo;
        if wanted && !by_itself && options.target == TARGET {
            progress("what executions took of late");
            self.try_history(&mut trained);
        }
        Ok(trained)
    }

    fn try_history(&self, trained: &mut Trained) {
        let truths: Vec<f64> = self.when.iter().map(|when| when.end - when.start).collect();
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
            let why = "what executions of a model took of late does not make errors clearly smaller";
            trained.report.notes.push(format!("`{HISTORY}` is left out: {why}"));
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
        let gains: Vec<f64> = rows.iter().map(|&row| error(&kept.means, row) - error(&means, row)).collect();
        let gain = gains.iter().sum::<f64>() / count;
        let variance = gains.iter().map(|one| (one - gain).powi(2)).sum::<f64>() / count;
        let pays = gain > CLEARLY * (variance / count).sqrt();
        let error = rows.iter().map(|&row| error(&means, row)).sum::<f64>() / count;
        Tried { memory, means, error, pays }
    }
}

/// What was remembered of its model when each execution started: only what had ended by then is known.
fn histories(when: &[When], predicted: &[f64], newest: f64) -> Vec<History> {
    let by = |time: fn(&When) -> f64| {
        let mut order: Vec<usize> = (0..when.len()).collect();
        order.sort_by(|&a, &b| time(&when[a]).total_cmp(&time(&when[b])).then(a.cmp(&b)));
        order
    };
    let models = when.iter().map(|one| one.model + 1).max().unwrap_or(0);
    let mut seen = vec![History::default(); models];
    let mut ended = by(|one| one.end).into_iter().peekable();
    let mut found = vec![History::default(); when.len()];
    for at in by(|one| one.start) {
        while let Some(other) = ended.next_if(|&other| when[other].end <= when[at].start) {
            let one = &when[other];
            seen[one.model].add(one.end - one.start, predicted[other], newest);
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
        let run = |model, start, end| When { model, start, end };
        let when = [run(0, 0.0, 2.0), run(0, 2.0, 6.0), run(0, 3.0, 5.0), run(1, 7.0, 8.0), run(0, 6.0, 7.0)];
        let found =
            histories(&when, &[1.0, 2.0, 2.0, 1.0, 0.0], 0.5).iter().map(History::ratio).collect::<Vec<_>>();
        // By their ends: the second one ran longer than the third.
        assert_eq!(found, [1.0, 1.5, 1.5, 1.0, (1.25 + 2.0) / 2.0]);
    }
}
