//! The policies: makespans with their spread, speedups, load balance, and how long tasks take.

use super::files::{PolicyRuns, numbers, words};
use super::{Files, expected};
use crate::chart::{Axis, Chart, ChartBar, Mark, QUIET, Series, colour};
use crate::page::{Block, Cell, PageTable, Section};

/// Bars of policies that take so many times the bound are left out of the close view.
const CLOSE: f64 = 1.3;

pub fn section(files: &Files) -> Section {
    let found = &files.comparison;
    let mut blocks = vec![Block::Table(first_tasks(files))];
    for load in found.loads() {
        blocks.push(Block::Table(at_load(found, load)));
    }
    blocks.push(Block::Text(
        "Below a load of 1, the makespan is close to the last arrival under any policy. The flow time, from a task's arrival to its end, says more there."
            .to_owned(),
    ));
    blocks.extend(losses(found).map(Block::Text));
    for load in found.loads() {
        blocks.push(Block::Chart(Box::new(makespans(found, load))));
        blocks.push(Block::Chart(Box::new(close_view(found, load))));
    }
    blocks.push(Block::Chart(Box::new(flows(found))));
    for (other, range) in [("round_robin", expected::OVER_ROUND_ROBIN), ("greedy", expected::OVER_GREEDY)] {
        blocks.push(Block::Chart(Box::new(speedups(found, other, range))));
    }
    if let Some(load) = super::headline(files) {
        blocks.push(Block::Chart(Box::new(balance(found, load))));
    }
    Section { title: "Policies".to_owned(), blocks }
}

/// Where what was learned loses to a rule that knows nothing.
fn losses(found: &PolicyRuns) -> impl Iterator<Item = String> + '_ {
    let told = |load: f64, policy: &'static str, constant: &'static str| {
        let (mine, other) = (found.summary(load, policy)?.makespan, found.summary(load, constant)?.makespan);
        (other < mine).then(|| {
            format!(
                "At a load of {load} `{policy}` loses to the constant `{constant}`: {mine:.6} s against {other:.6} s, by {:.4}%.",
                (mine / other - 1.0) * 100.0
            )
        })
    };
    let pairs = ["learned", "q_learning"]
        .into_iter()
        .flat_map(|policy| ["gpu_only", "cpu_only"].map(|constant| (policy, constant)));
    let all = found.loads().into_iter().flat_map(move |load| pairs.clone().map(move |pair| (load, pair)));
    all.filter_map(move |(load, (policy, constant))| told(load, policy, constant))
}

fn first_tasks(files: &Files) -> PageTable {
    let table = &files.summary;
    let head = table.columns().iter().map(|column| column.name.replace('_', " "));
    let policies = words(table, "policy");
    let rows = policies.iter().enumerate().map(|(at, policy)| {
        let mut row = vec![Cell::text(policy)];
        for column in table.columns().iter().skip(1) {
            let value = numbers(table, &column.name).ok().and_then(|values| values.get(at)).copied();
            row.push(Cell::number(value, 3));
        }
        row
    });
    PageTable {
        caption: match files.scheduled.rows() {
            1 => "The first task of the workload".to_owned(),
            rows => format!("The first {rows} tasks of the workload"),
        },
        head: head.collect(),
        rows: rows.collect(),
        id: "schedule".to_owned(),
    }
}

fn at_load(found: &PolicyRuns, load: f64) -> PageTable {
    let seeds =
        found.policies().first().and_then(|policy| found.summary(load, policy)).map_or(0, |one| one.seeds);
    let mut table = PageTable {
        caption: match seeds {
            1 => format!("Load {load}, 1 seed"),
            _ => format!("Load {load}, {seeds} seeds: means, and the standard deviation of the makespan"),
        },
        head: [
            "policy",
            "makespan s",
            "+-",
            "/ clairvoyant",
            "/ bound",
            "speedup over round_robin",
            "over greedy",
            "mean flow s",
            "GPU balance",
            "kJ",
            "best on",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..PageTable::default()
    };
    for policy in found.policies() {
        let Some(one) = found.summary(load, policy) else { continue };
        let mut row = vec![Cell::text(policy)];
        for (value, decimals) in [
            (Some(one.makespan), 3),
            (Some(one.deviation), 3),
            (one.to_clairvoyant, 4),
            (Some(one.to_bound), 4),
            (found.speedup(load, policy, "round_robin"), 2),
            (found.speedup(load, policy, "greedy"), 3),
            (Some(one.flow), 4),
            (Some(one.balance), 3),
            (Some(one.joules / 1e3), 1),
        ] {
            row.push(Cell::number(value, decimals));
        }
        let wins = found.best_on(load, policy);
        row.push(Cell { text: format!("{wins}/{seeds}"), number: Some(wins as f64), best: false });
        table.rows.push(row);
    }
    table
}

/// Which of the six colours a policy has: what is learned stands out, what knows everything is grey.
fn shade(policy: &str) -> &'static str {
    match policy {
        "learned" => colour(0),
        "q_learning" => colour(5),
        "clairvoyant" => QUIET,
        _ => colour(4),
    }
}

fn bars(found: &PolicyRuns, load: f64, value: impl Fn(&str) -> Option<(f64, f64)>) -> Vec<ChartBar> {
    let mut all: Vec<ChartBar> = found
        .policies()
        .into_iter()
        .filter(|policy| found.summary(load, policy).is_some())
        .filter_map(|policy| {
            let (value, spread) = value(policy)?;
            Some(ChartBar { name: policy.to_owned(), value, spread, colour: shade(policy) })
        })
        .collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    all
}

fn fitted(mut chart: Chart, bars: Vec<ChartBar>) -> Chart {
    chart.height = 130.0 + 26.0 * bars.len() as f64;
    chart.series.push(Series::Bars(bars));
    chart
}

/// A load as part of a file's name.
fn stem(load: f64) -> String {
    load.to_string().replace('.', "_")
}

fn makespans(found: &PolicyRuns, load: f64) -> Chart {
    let chart = Chart::new(
        format!("policies_makespan_{}", stem(load)),
        format!("Makespan at a load of {load}"),
        Axis::new("seconds").from_zero(),
        Axis::new(""),
    )
    .about("Means over the seeds, with the standard deviation. No schedule ends left of the bound.");
    let all = bars(found, load, |policy| {
        let one = found.summary(load, policy)?;
        Some((one.makespan, one.deviation))
    });
    let mut chart = fitted(chart, all);
    if let Some(at) = found.bound(load) {
        chart.marks.push(Mark::Upright { at, label: "bound".to_owned() });
    }
    chart
}

fn close_view(found: &PolicyRuns, load: f64) -> Chart {
    let chart = Chart::new(
        format!("policies_above_bound_{}", stem(load)),
        format!("Gap to the bound, at a load of {load}"),
        Axis::new("makespan above the bound").percent().from_zero(),
        Axis::new(""),
    );
    let all = bars(found, load, |policy| {
        let one = found.summary(load, policy)?;
        (one.to_bound <= CLOSE).then_some((one.to_bound - 1.0, 0.0))
    });
    let left_out = found.policies().len() - all.len();
    let mut chart = fitted(chart, all);
    chart.about = format!(
        "Mean over the seeds of makespan / bound - 1. {left_out} policies that take more than {CLOSE} times the bound are not shown."
    );
    chart
}

fn flows(found: &PolicyRuns) -> Chart {
    let mut chart = Chart::new(
        "policies_flow",
        "Mean flow time by load",
        Axis::new("load"),
        Axis::new("seconds from arrival to end").log(),
    )
    .about("Mean time per task, including waiting.");
    for policy in ["learned", "earliest_finish", "greedy", "gpu_only", "work_stealing", "clairvoyant"] {
        let points: Vec<(f64, f64)> = found
            .loads()
            .into_iter()
            .filter_map(|load| Some((load, found.summary(load, policy)?.flow)))
            .collect();
        if !points.is_empty() {
            chart.line(policy, points);
        }
    }
    chart
}

fn speedups(found: &PolicyRuns, other: &str, (low, high): (f64, f64)) -> Chart {
    let chart = Chart::new(
        format!("policies_speedup_{other}"),
        format!("Speedup of learned over {other}"),
        Axis::new("times as fast").from_zero(),
        Axis::new(""),
    )
    .about(format!("By mean makespans. Shaded: what the description expects, {low} to {high}."));
    let bar = |load: &f64| {
        let value = found.speedup(*load, "learned", other)?;
        Some(ChartBar { name: format!("load {load}"), value, spread: 0.0, colour: colour(0) })
    };
    let mut chart = fitted(chart, found.loads().iter().filter_map(bar).collect());
    chart.marks.push(Mark::Range { from: low, to: high });
    chart.marks.push(Mark::Upright { at: 1.0, label: "as fast".to_owned() });
    chart
}

fn balance(found: &PolicyRuns, load: f64) -> Chart {
    let (low, high) = expected::BALANCE;
    let chart = Chart::new(
        "policies_balance",
        format!("Load balance of the GPUs at a load of {load}"),
        Axis::new("mean over maximum busy time").from_zero().up_to(1.0),
        Axis::new(""),
    )
    .about(format!(
        "1 if all GPUs were equally busy. Shaded: what the description expects, {low} to {high}."
    ));
    let mut all = bars(found, load, |policy| Some((found.summary(load, policy)?.balance, 0.0)));
    all.reverse();
    let mut chart = fitted(chart, all);
    chart.marks.push(Mark::Range { from: low, to: high });
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::files::PolicyRun;

    #[test]
    fn who_loses_to_a_constant_is_said() {
        let row = |policy: &str, makespan: f64| PolicyRun {
            load: 0.5,
            policy: policy.to_owned(),
            makespan,
            bound: 1.0,
            flow: 1.0,
            balance: 1.0,
            joules: 1.0,
            seed: 1.0,
        };
        let rows =
            vec![row("learned", 2.0), row("q_learning", 4.0), row("gpu_only", 3.0), row("cpu_only", 9.0)];
        let said: Vec<String> = losses(&PolicyRuns { rows }).collect();
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains(
                "`q_learning` loses to the constant `gpu_only`: 4.000000 s against 3.000000 s, by 33.3333%"
            ),
            "{said:?}"
        );
    }
}
