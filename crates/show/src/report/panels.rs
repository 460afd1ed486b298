//! The charts of each configuration.

use super::shape::{Group, groups};
use super::{MOST_CURVES, requests};
use crate::chart::{Axis, Chart, ChartBar, Mark, Series, colour};
use crate::page::{Block, Section};
use crate::run::ReportRun;

/// A section for each configuration.
pub fn panels(runs: &[ReportRun]) -> Vec<Section> {
    let of = |(number, group): (usize, Group<'_>)| {
        let several = group.gpu_counts().len() > 1;
        let mut charts = if several {
            vec![makespan_by_gpus(&group), speedup_by_gpus(&group)]
        } else {
            vec![makespans(&group), speedups(&group)]
        };
        if group.is_stream() {
            // What a stream is judged by comes first; the speedup of a makespan says nothing of one.
            charts.truncate(1);
            let p99 = if several { p99_by_gpus(&group) } else { p99s(&group) };
            charts.splice(0..0, [p99, latency(&group)]);
        } else {
            charts.push(latency(&group));
        }
        charts.push(utilisation(&group));
        charts.push(each_gpu(&group));
        charts.push(curves(&group, "loads", "Model loads over time", "loads that have ended", |run| {
            &run.loads
        }));
        charts.push(curves(
            &group,
            "queue",
            "Executions waiting for GPUs",
            "ready, but without GPUs",
            |run| &run.queue,
        ));
        charts.push(predictions(&group));
        let blocks = charts.into_iter().filter(|chart| !chart.is_empty()).map(|mut chart| {
            chart.name = format!("{}-{}", chart.name, number + 1);
            Block::Chart(Box::new(chart))
        });
        let mut all: Vec<Block> = blocks.collect();
        all.extend(requests::workflows(&group).map(Block::Table));
        if group.runs.len() > MOST_CURVES {
            all.push(Block::Text(format!(
                "Curves show the {MOST_CURVES} best runs on the largest number of GPUs; the table has all {}.",
                group.runs.len()
            )));
        }
        Section { title: group.name, blocks: all }
    };
    groups(runs).into_iter().enumerate().map(of).collect()
}

fn makespan_by_gpus(group: &Group<'_>) -> Chart {
    let mut chart = Chart::new(
        "makespan",
        "Makespan by number of GPUs",
        Axis::new("GPUs").whole(),
        Axis::new("seconds").from_zero(),
    )
    .about("The shortest run of each policy. No schedule goes below the bound, which is drawn in grey.");
    for policy in group.policies().into_iter().take(MOST_CURVES) {
        let point = |gpus: &u32| Some((f64::from(*gpus), group.best(policy, *gpus)?.makespan()));
        chart.line(policy, group.gpu_counts().iter().filter_map(point).collect());
    }
    let bounds =
        group.gpu_counts().into_iter().filter_map(|gpus| Some((f64::from(gpus), group.bound(gpus)?)));
    let points: Vec<(f64, f64)> = bounds.collect();
    if !points.is_empty() {
        chart.reference("lower bound", points);
    }
    chart
}

fn speedup_by_gpus(group: &Group<'_>) -> Chart {
    let mut chart =
        Chart::new("speedup", "Speedup over baseline", Axis::new("GPUs").whole(), Axis::new("times as fast"))
            .about("The makespan of `baseline` over that of each policy, on the same GPUs.");
    for policy in group.policies().into_iter().filter(|policy| *policy != "baseline").take(MOST_CURVES) {
        let point = |gpus: &u32| {
            let base = group.best("baseline", *gpus)?;
            Some((f64::from(*gpus), base.makespan() / group.best(policy, *gpus)?.makespan()))
        };
        chart.line(policy, group.gpu_counts().iter().filter_map(point).collect());
    }
    if !chart.is_empty() {
        chart.marks.push(Mark::Across { at: 1.0, label: "baseline".to_owned() });
    }
    chart
}

/// A bar for each policy, shortest first.
fn bars(group: &Group<'_>, value: impl Fn(&ReportRun) -> Option<f64>) -> Vec<ChartBar> {
    let gpus = group.gpu_counts().first().copied().unwrap_or(0);
    let run = |(number, policy): (usize, &str)| {
        let value = value(group.best(policy, gpus)?)?;
        let colour = if number == 0 { colour(0) } else { colour(5) };
        Some(ChartBar { name: policy.to_owned(), value, spread: 0.0, colour })
    };
    group.policies().into_iter().enumerate().filter_map(run).collect()
}

fn fitted(mut chart: Chart, bars: Vec<ChartBar>) -> Chart {
    chart.height = 130.0 + 26.0 * bars.len() as f64;
    chart.series.push(Series::Bars(bars));
    chart
}

fn makespans(group: &Group<'_>) -> Chart {
    let bars = bars(group, |run| Some(run.makespan()));
    let chart = Chart::new("makespan", "Makespan", Axis::new("seconds").from_zero(), Axis::new("")).about(
        "The shortest run of each policy. The dashed line is the lower bound: no schedule is shorter.",
    );
    let mut chart = fitted(chart, bars);
    let gpus = group.gpu_counts().first().copied().unwrap_or(0);
    if let Some(at) = group.bound(gpus) {
        // A label on a bar cannot be read: the text below says what the line is.
        chart.marks.push(Mark::Upright { at, label: String::new() });
    }
    chart
}

fn speedups(group: &Group<'_>) -> Chart {
    let gpus = group.gpu_counts().first().copied().unwrap_or(0);
    let base = group.best("baseline", gpus).filter(|_| group.policies().len() > 1).map(ReportRun::makespan);
    let bars = bars(group, |run| Some(base? / run.makespan()));
    let chart =
        Chart::new("speedup", "Speedup over baseline", Axis::new("times as fast").from_zero(), Axis::new(""))
            .about("The makespan of `baseline` over that of each policy. The dashed line is `baseline`.");
    let mut chart = fitted(chart, bars);
    chart.marks.push(Mark::Upright { at: 1.0, label: String::new() });
    chart
}

fn p99s(group: &Group<'_>) -> Chart {
    let bars = bars(group, |run| Some(run.metrics.request_latency.p99));
    let chart = Chart::new("p99", "P99 latency", Axis::new("seconds").from_zero(), Axis::new(""))
        .about("The best run of each policy: 99% of its requests took at most this long.");
    fitted(chart, bars)
}

fn p99_by_gpus(group: &Group<'_>) -> Chart {
    let (x, y) = (Axis::new("GPUs").whole(), Axis::new("seconds").from_zero());
    let mut chart = Chart::new("p99", "P99 latency by number of GPUs", x, y)
        .about("The best run of each policy: 99% of its requests took at most this long.");
    for policy in group.policies().into_iter().take(MOST_CURVES) {
        let point =
            |gpus: &u32| Some((f64::from(*gpus), group.best(policy, *gpus)?.metrics.request_latency.p99));
        chart.line(policy, group.gpu_counts().iter().filter_map(point).collect());
    }
    chart
}

fn utilisation(group: &Group<'_>) -> Chart {
    let runs = group.few(MOST_CURVES);
    let bar = |(number, run): (usize, &&ReportRun)| ChartBar {
        name: name(group, run),
        value: run.metrics.utilisation.mean,
        spread: 0.0,
        colour: if number == 0 { colour(0) } else { colour(5) },
    };
    // One alone has a bar for each GPU, and the mean on a card.
    let bars = if runs.len() > 1 { runs.iter().enumerate().map(bar).collect() } else { Vec::new() };
    let x = Axis::new("executing or loading").percent().from_zero().up_to(1.0);
    let chart = Chart::new("utilisation", "GPU utilisation", x, Axis::new(""))
        .about("The share of the makespan in which GPUs executed or loaded, the mean over all GPUs.");
    fitted(chart, bars)
}

/// A bar for each GPU of the best run.
fn each_gpu(group: &Group<'_>) -> Chart {
    let best = group.few(1);
    let title = match best.first().map(|run| name(group, run)) {
        Some(name) if !name.is_empty() => format!("Utilisation of each GPU, {name}"),
        _ => "Utilisation of each GPU".to_owned(),
    };
    let y = Axis::new("executing or loading").percent().from_zero().up_to(1.0);
    let gpus = best.first().map_or(0, |run| run.metrics.gpus.len());
    let x = Axis::new("GPU").whole().starting_at(-0.6).up_to(gpus as f64 - 0.4);
    let mut chart =
        Chart::new("gpus", title, x, y).about("The share of the makespan in which a GPU executed or loaded.");
    if let Some(run) = best.first() {
        let gpus = &run.metrics.gpus;
        // Bars with gaps between them: those that are equally busy stay apart.
        let edges = (0..gpus.len()).flat_map(|gpu| [gpu as f64 - 0.4, gpu as f64 + 0.4]).collect();
        let mut counts: Vec<f64> = gpus.iter().flat_map(|gpu| [gpu.utilisation, 0.0]).collect();
        counts.pop();
        chart.series.push(Series::Histogram { edges, counts, colour: colour(0) });
    }
    chart
}

fn curves(
    group: &Group<'_>,
    name_: &str,
    title: &str,
    label: &str,
    curve: fn(&ReportRun) -> &Vec<(f64, f64)>,
) -> Chart {
    let mut chart =
        Chart::new(name_, title, Axis::new("seconds").from_zero(), Axis::new(label).from_zero().whole());
    for run in group.few(MOST_CURVES) {
        chart.stairs(name(group, run), curve(run).clone());
    }
    chart
}

fn latency(group: &Group<'_>) -> Chart {
    let mut chart = Chart::new(
        "latency",
        "Request latency",
        Axis::new("seconds from arrival to the last result").from_zero(),
        Axis::new("requests").percent().from_zero().up_to(1.0),
    )
    .about("The share of the completed requests that took at most this long.");
    for run in group.few(MOST_CURVES) {
        chart.stairs(name(group, run), run.latency.clone());
    }
    chart
}

fn predictions(group: &Group<'_>) -> Chart {
    let mut chart = Chart::new(
        "predicted",
        "Predicted and actual execution times",
        Axis::new("estimated seconds").log(),
        Axis::new("actual seconds").log(),
    );
    let with: Vec<&ReportRun> =
        group.runs.iter().copied().filter(|run| !run.predictions.is_empty()).take(3).collect();
    let all = || with.iter().flat_map(|run| &run.predictions).flat_map(|point| [point.0, point.1]);
    let (low, high) =
        all().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    for (number, run) in with.iter().enumerate() {
        chart.series.push(Series::Points {
            name: name(group, run),
            points: run.predictions.clone(),
            colour: colour(number),
        });
    }
    if let Some(first) = with.first() {
        chart.reference("as estimated", vec![(low, low), (high, high)]);
        chart.about = format!(
            "Completed executions that ran alone, at batch 1: {} of the {} of {}. On the line, the estimate was right.",
            first.predictions.len(),
            first.predicted,
            first.log
        );
    }
    chart
}

/// A run's name on a chart: its policy, and its GPUs where they differ. One alone needs none.
fn name(group: &Group<'_>, run: &ReportRun) -> String {
    if group.runs.len() == 1 {
        String::new()
    } else if group.gpu_counts().len() > 1 {
        run.label()
    } else {
        run.policy.clone()
    }
}
