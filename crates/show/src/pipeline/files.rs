//! The files of a pipeline's folder, read back.

use gswarm_core::input::{Diagnostic, render};
use gswarm_learn::train::TrainingReport;
use gswarm_learn::{Table, Values};
use gswarm_tasks::profile::{self, HardwareProfile};
use std::path::Path;

/// Everything that a report is made from.
#[derive(Debug)]
pub struct Files {
    /// The profile that later phases used.
    pub used: HardwareProfile,
    /// What was measured on the machine that ran it, where it was.
    pub measured: Option<HardwareProfile>,
    /// All tasks.
    pub workload: Table,
    /// Those that were scheduled, with their true times.
    pub scheduled: Table,
    /// How the learned policy placed them, and what was predicted.
    pub results: Table,
    /// A row a policy for those tasks.
    pub summary: Table,
    /// The policies over seeds and loads.
    pub comparison: PolicyRuns,
    /// How well each device's model does.
    pub models: Vec<TrainingReport>,
}

/// The device that a model of `model_report.json` predicts for.
#[must_use]
pub fn device(report: &TrainingReport) -> &'static str {
    if report.target.contains("cpu") { "CPU" } else { "GPU" }
}

/// A run of one policy on one workload.
#[derive(Clone, Debug)]
pub struct PolicyRun {
    /// The share of what the machine can do.
    pub load: f64,
    /// The policy.
    pub policy: String,
    /// Seconds.
    pub makespan: f64,
    /// Seconds that no schedule goes below.
    pub bound: f64,
    /// Mean seconds from arrival to end.
    pub flow: f64,
    /// Mean over largest time at work of the GPUs.
    pub balance: f64,
    /// Energy.
    pub joules: f64,
    /// The workload's seed.
    pub seed: f64,
}

/// The policy that knows the true times.
const CLAIRVOYANT: &str = "clairvoyant";

/// All runs.
#[derive(Clone, Debug, Default)]
pub struct PolicyRuns {
    /// In the order of the file.
    pub rows: Vec<PolicyRun>,
}

/// A policy at a load, over all seeds.
#[derive(Clone, Copy, Debug)]
pub struct PolicySummary {
    /// Mean makespan in seconds.
    pub makespan: f64,
    /// Its standard deviation.
    pub deviation: f64,
    /// Mean of makespan over bound.
    pub to_bound: f64,
    /// Mean of makespan over that of `clairvoyant` on the same tasks; `None` where it did not run them all.
    pub to_clairvoyant: Option<f64>,
    /// Mean of the mean flow times.
    pub flow: f64,
    /// Mean balance.
    pub balance: f64,
    /// Mean energy.
    pub joules: f64,
    /// How many seeds.
    pub seeds: usize,
}

impl PolicyRuns {
    /// The loads, in their order.
    #[must_use]
    pub fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = Vec::new();
        for row in &self.rows {
            if !loads.contains(&row.load) {
                loads.push(row.load);
            }
        }
        loads
    }

    /// The policies, in their order.
    #[must_use]
    pub fn policies(&self) -> Vec<&str> {
        let mut policies: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        policies
    }

    /// One policy at one load.
    #[must_use]
    pub fn summary(&self, load: f64, policy: &str) -> Option<PolicySummary> {
        let rows: Vec<&PolicyRun> =
            self.rows.iter().filter(|row| row.load == load && row.policy == policy).collect();
        if rows.is_empty() {
            return None;
        }
        let count = rows.len() as f64;
        let mean = |value: fn(&PolicyRun) -> f64| rows.iter().map(|row| value(row)).sum::<f64>() / count;
        let makespan = mean(|row| row.makespan);
        let known = |seed: f64| {
            let all = self.rows.iter().filter(|row| row.load == load && row.policy == CLAIRVOYANT);
            all.filter(|row| row.seed == seed).map(|row| row.makespan).next()
        };
        let ratios: Option<Vec<f64>> =
            rows.iter().map(|row| known(row.seed).map(|known| row.makespan / known.max(1e-9))).collect();
        let squares: f64 = rows.iter().map(|row| (row.makespan - makespan).powi(2)).sum();
        Some(PolicySummary {
            makespan,
            deviation: (squares / (count - 1.0).max(1.0)).sqrt(),
            to_bound: mean(|row| row.makespan / row.bound.max(1e-9)),
            to_clairvoyant: ratios.map(|ratios| ratios.iter().sum::<f64>() / count),
            flow: mean(|row| row.flow),
            balance: mean(|row| row.balance),
            joules: mean(|row| row.joules),
            seeds: rows.len(),
        })
    }

    /// How many times as long as `policy` the other takes, by mean makespans.
    #[must_use]
    pub fn speedup(&self, load: f64, policy: &str, other: &str) -> Option<f64> {
        Some(self.summary(load, other)?.makespan / self.summary(load, policy)?.makespan)
    }

    /// The mean bound at a load.
    #[must_use]
    pub fn bound(&self, load: f64) -> Option<f64> {
        let bounds: Vec<f64> = self.rows.iter().filter(|row| row.load == load).map(|row| row.bound).collect();
        (!bounds.is_empty()).then(|| bounds.iter().sum::<f64>() / bounds.len() as f64)
    }

    /// Seeds on which no policy but `clairvoyant` was shorter.
    #[must_use]
    pub fn best_on(&self, load: f64, policy: &str) -> usize {
        let at = |row: &&PolicyRun| row.load == load && row.policy != CLAIRVOYANT;
        let shortest = |seed: f64| {
            let all = self.rows.iter().filter(at).filter(|row| row.seed == seed);
            all.map(|row| row.makespan).fold(f64::INFINITY, f64::min)
        };
        let mine = self.rows.iter().filter(|row| row.load == load && row.policy == policy);
        mine.filter(|row| row.makespan <= shortest(row.seed)).count()
    }
}

/// What was measured; the phases may use something else.
pub const MEASURED: &str = "measured_profile.json";

/// Reads a folder. Where a file is missing or damaged, says which.
///
/// # Errors
/// The file and what is wrong with it, for people.
pub fn read(folder: &Path) -> Result<Files, String> {
    let table = |name: &str| Table::read_file(&folder.join(name)).map_err(|faults| told(&faults));
    let bytes = |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"));
    let profile = |name: &str| profile::read(name, &bytes(name)?).map_err(|error| error.to_string());
    let models = serde_json::from_slice(&bytes("model_report.json")?)
        .map_err(|error| format!("model_report.json: {error}"))?;
    // A machine that nobody measured leaves no file.
    let measured = folder.join(MEASURED).exists().then(|| profile(MEASURED)).transpose()?;
    Ok(Files {
        used: profile("hardware_profile.json")?,
        measured,
        workload: table("workload.csv")?,
        scheduled: table("scheduled_tasks.csv")?,
        results: table("scheduling_results.csv")?,
        summary: table("schedule_summary.csv")?,
        comparison: comparison(&table("policy_comparison.csv")?)?,
        models,
    })
}

fn told(faults: &[Diagnostic]) -> String {
    render(faults)
}

/// A column of numbers.
///
/// # Errors
/// Where there is none of that name.
pub(super) fn numbers<'t>(table: &'t Table, name: &str) -> Result<&'t [f64], String> {
    match table.column(name).map(|column| &column.values) {
        Some(Values::Numbers(values)) => Ok(values),
        _ => Err(format!("{} has no numbers in a column `{name}`", table.file())),
    }
}

/// The column of words, a word a row; empty where there is none.
pub(super) fn words(table: &Table, name: &str) -> Vec<String> {
    match table.column(name).map(|column| &column.values) {
        Some(Values::Texts { codes, names }) => {
            codes.iter().map(|&code| names.get(code as usize).cloned().unwrap_or_default()).collect()
        }
        Some(Values::Numbers(values)) => values.iter().map(ToString::to_string).collect(),
        None => Vec::new(),
    }
}

fn comparison(table: &Table) -> Result<PolicyRuns, String> {
    let column = |name: &str| numbers(table, name);
    let (load, seed, makespan) = (column("load")?, column("seed")?, column("makespan_seconds")?);
    let (bound, flow) = (column("bound_seconds")?, column("mean_flow_seconds")?);
    let (balance, joules) = (column("gpu_balance")?, column("energy_joules")?);
    let rows = words(table, "policy").into_iter().enumerate().map(|(at, policy)| PolicyRun {
        load: load[at],
        policy,
        makespan: makespan[at],
        bound: bound[at],
        flow: flow[at],
        balance: balance[at],
        joules: joules[at],
        seed: seed[at],
    });
    Ok(PolicyRuns { rows: rows.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "load,seed,policy,makespan_seconds,bound_seconds,mean_flow_seconds,gpu_balance,energy_joules\n\
                       0.5,1,learned,10,8,1,0.9,5\n0.5,2,learned,14,10,3,0.7,5\n\
                       0.5,1,greedy,12,8,1,0.5,5\n0.5,2,greedy,12,10,1,0.5,5\n";

    #[test]
    fn ratios_to_the_clairvoyant_are_those_of_each_seed() {
        // On the long workload twice as long, on the short one as long: 1.5 on average, and not 1.9.
        let csv = format!(
            "{CSV}0.9,1,clairvoyant,90,80,1,0.9,5\n0.9,2,clairvoyant,10,10,1,0.9,5\n\
             0.9,1,learned,180,80,1,0.9,5\n0.9,2,learned,10,10,1,0.9,5\n"
        );
        let found = comparison(&Table::read("c.csv", csv.into_bytes()).unwrap()).unwrap();
        assert_eq!(found.summary(0.9, "learned").unwrap().to_clairvoyant, Some(1.5));
        assert_eq!(found.summary(0.9, "clairvoyant").unwrap().to_clairvoyant, Some(1.0));
    }

    #[test]
    fn summaries_are_means_over_seeds() {
        let found = comparison(&Table::read("c.csv", CSV.as_bytes().to_vec()).unwrap()).unwrap();
        let one = found.summary(0.5, "learned").unwrap();
        assert_eq!((one.makespan, one.flow, one.seeds), (12.0, 2.0, 2));
        assert!((one.deviation - 8.0f64.sqrt()).abs() < 1e-12 && (one.to_bound - 1.325).abs() < 1e-12);
        assert_eq!(found.speedup(0.5, "learned", "greedy"), Some(1.0));
        assert_eq!((found.best_on(0.5, "learned"), found.best_on(0.5, "greedy")), (1, 1));
        assert_eq!(found.bound(0.5), Some(9.0));
        assert_eq!(one.to_clairvoyant, None);
        assert!(found.summary(0.7, "learned").is_none() && found.bound(0.7).is_none());
    }
}
