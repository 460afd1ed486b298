//! Who wins a comparison, in one line.

use super::lines::{Better, ComparisonLine, FIGURES, judged};
use super::same_problem;
use crate::policy::PolicyKind;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The winner on one number of GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyWin {
    /// Number of GPUs.
    pub gpus: u32,
    /// The policy. Yardsticks do not win.
    pub policy: String,
    /// Its figure, in seconds.
    pub seconds: f64,
    /// The policy that it is compared with: `lru` for a stream, as in model servers; `baseline` for a batch.
    pub beside: Option<String>,
    /// The figure of that one.
    pub beside_seconds: Option<f64>,
}

/// Who wins on each number of GPUs, of the runs of one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonVerdict {
    /// Display name of the input.
    pub input: String,
    /// `offline` or `online`.
    pub mode: String,
    /// Whether models batched as the configuration says.
    pub batching: bool,
    /// The figure that decides: `P99 latency` of a stream, `makespan` of a batch.
    pub by: String,
    /// By number of GPUs.
    pub wins: Vec<PolicyWin>,
}

/// The verdict over the lines of one table; `None` where nothing could be run.
#[must_use]
pub fn verdict(lines: &[ComparisonLine<'_>]) -> Option<ComparisonVerdict> {
    let first = lines.first()?.first;
    let figure = judged(&first.mode);
    debug_assert_eq!(FIGURES[figure].better, Better::Less, "the least wins");
    let is_stream = first.mode == "online";
    let beside = if is_stream { "lru" } else { "baseline" };
    let is_yardstick = |line: &ComparisonLine<'_>| {
        line.first.policy.parse::<PolicyKind>().is_ok_and(PolicyKind::is_yardstick)
    };
    let wins = lines.chunk_by(|one, other| same_problem(one.first, other.first)).filter_map(|problem| {
        let ran = || problem.iter().filter_map(|line| Some((line, line.means[figure]?)));
        let usable = ran().filter(|(line, _)| !is_yardstick(line));
        let least =
            |one: &(&ComparisonLine<'_>, f64), other: &(&ComparisonLine<'_>, f64)| one.1.total_cmp(&other.1);
        let (best, seconds) = usable.min_by(least).or_else(|| ran().min_by(least))?;
        let other = ran().find(|(line, _)| line.first.policy == beside && best.first.policy != beside);
        Some(PolicyWin {
            gpus: best.first.gpus,
            policy: best.first.policy.clone(),
            seconds,
            beside: other.map(|_| beside.to_owned()),
            beside_seconds: other.map(|(_, seconds)| seconds),
        })
    });
    let wins: Vec<PolicyWin> = wins.collect();
    (!wins.is_empty()).then(|| ComparisonVerdict {
        input: first.input.clone(),
        mode: first.mode.clone(),
        batching: first.batching,
        by: if is_stream { "P99 latency" } else { "makespan" }.to_owned(),
        wins,
    })
}

impl ComparisonVerdict {
    /// One sentence, with seconds as `number` writes them. Neighbouring numbers of GPUs with the same winner are
    /// combined.
    #[must_use]
    pub fn sentence(&self, number: fn(f64) -> String) -> String {
        let adjective = if self.mode == "online" { "Lowest" } else { "Shortest" };
        let mut text = format!("{adjective} {}: ", self.by);
        for (place, wins) in self.wins.chunk_by(|one, other| one.policy == other.policy).enumerate() {
            let (Some(first), Some(last)) = (wins.first(), wins.last()) else { continue };
            let gpus: Vec<String> = wins.iter().map(|win| win.gpus.to_string()).collect();
            let noun = if last.gpus == 1 && wins.len() == 1 { "GPU" } else { "GPUs" };
            let seconds = |of: fn(&PolicyWin) -> Option<f64>| match (of(first), of(last)) {
                (Some(one), Some(_)) if wins.len() == 1 => Some(format!("{} s", number(one))),
                (Some(one), Some(other)) => Some(format!("{} to {} s", number(one), number(other))),
                _ => None,
            };
            let gap = if place == 0 { "" } else { "; " };
            let _ = write!(text, "{gap}{} on {} {noun}", first.policy, gpus.join(", "));
            let own = seconds(|win| Some(win.seconds)).unwrap_or_default();
            let _ = match (&first.beside, seconds(|win| win.beside_seconds)) {
                (Some(name), Some(theirs)) => write!(text, " ({own}; {name} {theirs})"),
                _ => write!(text, " ({own})"),
            };
        }
        text + "."
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::super::{SweepRow, lines};
    use super::*;

    #[test]
    fn a_stream_is_won_by_latency_and_a_batch_by_makespan() {
        let stream = |policy: &str, gpus, makespan, p99| SweepRow {
            mode: "online".to_owned(),
            latency_p99_seconds: Some(p99),
            ..row(policy, gpus, 0, makespan, 1)
        };
        let mut rows = vec![
            stream("adaptive", 4, 100.0, 20.0),
            stream("lru", 4, 90.0, 60.0),
            stream("random", 4, 90.0, 10.0),
            stream("online", 4, 80.0, 70.0),
            stream("adaptive", 8, 50.0, 10.0),
            stream("lru", 8, 40.0, 30.0),
            stream("online", 8, 30.0, 40.0),
        ];
        let number = |seconds: f64| format!("{seconds:.1}");
        let told = verdict(&lines(&rows)).unwrap();
        assert_eq!(
            told.sentence(number),
            "Lowest P99 latency: adaptive on 4, 8 GPUs (20.0 to 10.0 s; lru 60.0 to 30.0 s)."
        );
        rows.iter_mut().for_each(|row| row.mode = "offline".to_owned());
        let told = verdict(&lines(&rows)).unwrap();
        assert_eq!(told.wins.iter().map(|win| win.policy.as_str()).collect::<Vec<_>>(), ["online", "online"]);
        assert_eq!(told.sentence(number), "Shortest makespan: online on 4, 8 GPUs (80.0 to 30.0 s).");
        let none = SweepRow { makespan_seconds: None, ..row("lru", 4, 0, 1.0, 1) };
        assert_eq!(verdict(&lines(&[none])), None);
    }
}
