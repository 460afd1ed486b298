//! `results.md`, from what the phases left.

use super::settings::Settings;
use gswarm_learn::tasks::{Comparison, PolicyKind};
use std::fmt::Write;

/// The report. Every figure is computed from the rows of `policy_comparison.csv` and `schedule_summary.csv`.
pub fn results(settings: &Settings, found: &Comparison, schedule: &str) -> String {
    let mut text = String::from("# Results\n\nWritten by `gswarm pipeline` from the files beside it.\n");
    let _ = writeln!(
        text,
        "\n## The workload's first {} tasks on {} GPUs and the CPU\n",
        settings.schedule.tasks, settings.schedule.gpus
    );
    for (at, line) in schedule.lines().enumerate() {
        let _ = writeln!(text, "| {} |", line.replace(',', " | "));
        if at == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(line.split(',').count()));
        }
    }
    for load in found.loads() {
        let _ = writeln!(
            text,
            "\n## Load {load}: {} seeds of {} tasks\n",
            settings.evaluate.seeds, settings.evaluate.tasks
        );
        text += "| policy | makespan s | +- | / clairvoyant | / bound | speedup over round_robin | over greedy | mean flow s | kJ | best on |\n";
        text += "|---|---|---|---|---|---|---|---|---|---|\n";
        let of = |policy| found.summary(load, policy).map_or(f64::NAN, |one| one.makespan);
        for policy in found.policies() {
            let Some(one) = found.summary(load, policy) else { continue };
            let _ = writeln!(
                text,
                "| {} | {:.3} | {:.3} | {:.4} | {:.4} | {:.2} | {:.3} | {:.4} | {:.1} | {}/{} |",
                policy.name(),
                one.makespan,
                one.deviation,
                one.to_clairvoyant,
                one.to_bound,
                of(PolicyKind::RoundRobin) / one.makespan,
                of(PolicyKind::Greedy) / one.makespan,
                one.flow,
                one.joules / 1e3,
                one.best_on,
                one.seeds
            );
        }
    }
    text += "\nThe description expects a speedup of 1.2 to 1.4 over round_robin and of 1.05 to 1.15 over greedy. Below a load of 1\n\
             the makespan is little more than the last arrival, whoever decides; the mean flow time tells more there.\n";
    text
}
