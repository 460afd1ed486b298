//! The five phases. Each reads the files of those before it, and leaves its own.

use super::settings::{ProfileChoice, Settings, WorkloadSettings};
use crate::commands::tasks::generate::{load_profile, refused};
use crate::commands::tasks::profile::{Wanted, take, write as write_profile};
use crate::commands::tasks::schedule::{checked, write_comparison};
use crate::failure::Failure;
use crate::output::count;
use crate::output::files::{self, Batch};
use gswarm_core::named;
use gswarm_learn::train::{TrainOptions, TrainingReport, train as learn};
use gswarm_learn::{Column, FitSettings, Predictor, Table, Values};
use gswarm_show::pipeline::MEASURED;
use gswarm_tasks::profile::{DeviceKind, Effort, HardwareProfile, described};
use gswarm_tasks::{
    CompareOptions, Estimates, FEATURES, Machine, PolicySettings, Task, TaskArrivals, TaskKind, TaskPolicy,
    Workload, WorkloadOptions, bound, compare, feature_table, generate, load, predict, read, write_csv,
    write_results,
};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

named! {
    /// A phase.
    pub enum Phase {
        Profile = "profile",
        Workload = "workload",
        Train = "train",
        Schedule = "schedule",
        Evaluate = "evaluate",
    }
}

/// The result of a phase: a line of text, and its files before they get their names.
pub struct Done {
    pub summary: String,
    pub batch: Batch,
}

impl Phase {
    /// What it leaves with these settings.
    pub fn leaves(self, settings: &Settings) -> Vec<&'static str> {
        let unmeasured = !settings.profile.measure;
        self.files().iter().copied().filter(|&file| !(unmeasured && file == MEASURED)).collect()
    }

    /// All that it may leave.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Phase::Profile => &["hardware_profile.json", MEASURED],
            Phase::Workload => &["workload.csv"],
            Phase::Train => &["cpu.model", "gpu.model", "model_report.json"],
            Phase::Schedule => &[
                "scheduled_tasks.csv",
                "scheduling_results.csv",
                "task_execution_log.jsonl",
                "schedule_summary.csv",
            ],
            Phase::Evaluate => &["policy_comparison.csv"],
        }
    }

    /// What later phases read of that; the rest is for people, and may hold how long something took.
    pub fn read_later(self) -> &'static [&'static str] {
        match self {
            Phase::Profile => &["hardware_profile.json"],
            Phase::Workload => &["workload.csv"],
            Phase::Train => &["cpu.model", "gpu.model"],
            Phase::Schedule | Phase::Evaluate => &[],
        }
    }
}

pub fn run(phase: Phase, settings: &Settings, folder: &Path) -> Result<Done, Failure> {
    let mut batch = Batch::new(folder)?;
    let summary = match phase {
        Phase::Profile => profile(settings, &mut batch)?,
        Phase::Workload => workload(settings, folder, &mut batch)?,
        Phase::Train => train(settings, folder, &mut batch)?,
        Phase::Schedule => schedule(settings, folder, &mut batch)?,
        Phase::Evaluate => evaluate(settings, folder, &mut batch)?,
    };
    Ok(Done { summary, batch })
}

fn input(error: impl ToString) -> Failure {
    Failure::input(error.to_string())
}

fn profile(settings: &Settings, batch: &mut Batch) -> Result<String, Failure> {
    let wanted = &settings.profile;
    let effort = Effort { budget: Duration::from_secs_f64(wanted.budget_seconds), ..Effort::default() };
    let measured = wanted.measure.then(|| take(Wanted::All, &wanted.sizes, &effort, false)).transpose()?;
    let with_gpu = measured.as_ref().filter(|measured| measured.device(DeviceKind::Gpu).is_some());
    let used = match (wanted.r#use, with_gpu) {
        (ProfileChoice::Measured | ProfileChoice::Auto, Some(measured)) => measured.clone(),
        (ProfileChoice::Described, _) | (ProfileChoice::Auto, None) => described(),
        (ProfileChoice::Measured, None) => {
            return Err(Failure::input("`profile.use: measured` needs a GPU, but none was measured")
                .hint("use `described`"));
        }
    };
    batch.add("hardware_profile.json", |out| write_profile(&used, out))?;
    let done = match &measured {
        Some(measured) => {
            batch.add(MEASURED, |out| write_profile(measured, out))?;
            let names: Vec<&str> = measured.devices.iter().map(|device| device.name.as_str()).collect();
            format!("{} measured", names.join(" and "))
        }
        None => {
            batch.supersede(MEASURED);
            "nothing measured".to_owned()
        }
    };
    Ok(format!("{done}; later phases use the {} machine", used.source))
}

fn used_profile(folder: &Path) -> Result<HardwareProfile, Failure> {
    load_profile(Some(&folder.join("hardware_profile.json")))
}

fn workload(settings: &Settings, folder: &Path, batch: &mut Batch) -> Result<String, Failure> {
    let profile = used_profile(folder)?;
    let wanted = &settings.workload;
    let options = WorkloadOptions {
        arrivals: TaskArrivals::Rate(wanted.rate),
        seed: wanted.seed,
        gpus: settings.schedule.gpus,
        ..options(wanted)
    };
    let made = generate(&options, &profile).map_err(input)?;
    let estimates = Estimates::of_profile(&made.workload, &profile).map_err(input)?;
    let machine = Machine::of(&profile, options.gpus);
    let watts = [machine.cpu_watts[1], machine.gpu_watts[1]];
    batch.add("workload.csv", |out| write_csv(&made.workload, &estimates, watts, out))?;
    let tasks = count(u64::from(wanted.tasks), "task");
    let load = load(&made.workload, &machine).unwrap_or(made.load);
    Ok(format!("{tasks}, {:.0} a second, a load of {load:.2}", made.rate))
}

/// What tasks are like, whatever they are for.
fn options(wanted: &WorkloadSettings) -> WorkloadOptions {
    let kinds = TaskKind::ALL.into_iter().zip(wanted.types.weights()).filter(|&(_, weight)| weight > 0.0);
    WorkloadOptions {
        tasks: wanted.tasks,
        size: wanted.sizes,
        intensity: wanted.intensity,
        memory_mb: wanted.memory_mb,
        dependent: wanted.dependent,
        noise: wanted.noise,
        kinds: kinds.collect(),
        ..WorkloadOptions::default()
    }
}

/// The tasks of the workload and what the profile says of them.
fn tasks(folder: &Path, profile: &HardwareProfile) -> Result<(Workload, Estimates), Failure> {
    let path = folder.join("workload.csv");
    let workload =
        read(&path.display().to_string(), files::read(&path)?).map_err(|faults| refused(&faults))?;
    let estimates = Estimates::of_profile(&workload, profile).map_err(input)?;
    Ok((workload, estimates))
}

/// Trained on the tasks after the scheduled ones, so that no training task is predicted.
fn train(settings: &Settings, folder: &Path, batch: &mut Batch) -> Result<String, Failure> {
    let kind = settings
        .train
        .kind()
        .ok_or_else(|| Failure::input(format!("`{}` is not a kind of model", settings.train.model)))?;
    let profile = used_profile(folder)?;
    let (mut history, mut bare) = tasks(folder, &profile)?;
    let kept = (settings.schedule.tasks as usize).min(history.tasks.len());
    history.tasks.drain(..kept);
    bare.means.drain(..kept);
    let usual = FitSettings::new(kind);
    let (trees, depth) =
        (settings.train.trees.unwrap_or(usual.trees), settings.train.depth.unwrap_or(usual.depth));
    let model = FitSettings { seed: settings.train.seed, trees, depth, ..usual };
    let mut reports = Vec::new();
    for (device, truth) in [("cpu", cpu_seconds as fn(&Task) -> f64), ("gpu", gpu_seconds)] {
        let target = format!("true_{device}_seconds");
        let mut columns = feature_table(&history, &bare).columns().to_vec();
        let values = Values::Numbers(history.tasks.iter().map(truth).collect());
        columns.push(Column { name: target.clone(), values });
        let options = TrainOptions {
            features: Some(FEATURES.iter().map(ToString::to_string).collect()),
            ..TrainOptions::new(&target, model)
        };
        let trained = learn(&Table::new("workload.csv", columns), &options, &mut |_| {})
            .map_err(|faults| refused(&faults))?;
        let name = format!("{device}.model");
        let bytes =
            trained.predictor.to_bytes().map_err(|error| Failure::file("write", name.as_ref(), &error))?;
        batch.add(&name, |out| out.write_all(&bytes))?;
        reports.push(trained.report);
    }
    batch.add("model_report.json", |out| {
        serde_json::to_writer_pretty(&mut *out, &reports)?;
        out.write_all(b"\n")
    })?;
    let r2 = |report: &TrainingReport| report.test.r2.map_or("-".to_owned(), |r2| format!("{r2:.3}"));
    let r2: Vec<String> = reports.iter().map(r2).collect();
    Ok(format!("{} on {} tasks; test R2 {} (CPU, GPU)", kind.name(), history.tasks.len(), r2.join(", ")))
}

/// A task without a true time is a row without a target, which training rejects.
fn cpu_seconds(task: &Task) -> f64 {
    task.truth.map_or(f64::NAN, |truth| truth.cpu.seconds())
}

fn gpu_seconds(task: &Task) -> f64 {
    task.truth.map_or(f64::NAN, |truth| truth.gpu.seconds())
}

fn predictors(folder: &Path) -> Result<Vec<Predictor>, Failure> {
    let load = |name: &str| {
        let path = folder.join(name);
        Predictor::from_bytes(&path.display().to_string(), &files::read(&path)?)
            .map_err(|faults| refused(&faults))
    };
    Ok(vec![load("cpu.model")?, load("gpu.model")?])
}

fn schedule(settings: &Settings, folder: &Path, batch: &mut Batch) -> Result<String, Failure> {
    let profile = used_profile(folder)?;
    let (mut workload, mut bare) = tasks(folder, &profile)?;
    // Tasks wait only for those before them, so the first so many are a workload of their own.
    workload.tasks.truncate(settings.schedule.tasks as usize);
    bare.means.truncate(settings.schedule.tasks as usize);
    let machine = Machine::of(&profile, settings.schedule.gpus);
    let estimates = predict(&workload, &bare, &predictors(folder)?).map_err(input)?;
    let rules =
        PolicySettings { seed: settings.workload.seed, seconds_per_joule: settings.schedule.energy_weight };
    let least = bound::makespan(&workload, &workload.truths(&estimates), &machine).seconds();
    let mut rows = String::from(
        "policy,makespan_seconds,bound_seconds,mean_flow_seconds,gpu_balance,utilisation,energy_joules\n",
    );
    let mut learned = 0.0;
    for policy in TaskPolicy::ALL {
        let outcome = checked(&workload, &machine, &estimates, policy, rules)?;
        let metrics = &outcome.metrics;
        rows += &format!(
            "{},{:.6},{least:.6},{:.6},{:.4},{:.4},{:.3}\n",
            policy.name(),
            metrics.makespan.seconds(),
            metrics.mean_flow.seconds(),
            metrics.gpu_balance,
            metrics.utilisation,
            metrics.joules
        );
        if policy == TaskPolicy::Learned {
            learned = metrics.makespan.seconds();
            batch.add("scheduling_results.csv", |out| {
                write_results(&workload, &estimates, &outcome.log, out)
            })?;
            batch.add("task_execution_log.jsonl", |out| outcome.log.write(out))?;
        }
    }
    // The tasks beside their log, so that `gswarm tasks check` can be asked again.
    let watts = [machine.cpu_watts[1], machine.gpu_watts[1]];
    batch.add("scheduled_tasks.csv", |out| write_csv(&workload, &bare, watts, out))?;
    batch.add("schedule_summary.csv", |out| out.write_all(rows.as_bytes()))?;
    Ok(format!(
        "{} under {} policies; learned {learned:.3} s, bound {least:.3} s",
        count(workload.tasks.len() as u64, "task"),
        TaskPolicy::ALL.len()
    ))
}

fn evaluate(settings: &Settings, folder: &Path, batch: &mut Batch) -> Result<String, Failure> {
    let profile = used_profile(folder)?;
    let predictors = predictors(folder)?;
    let wanted = &settings.evaluate;
    let workload =
        WorkloadOptions { tasks: wanted.tasks, gpus: settings.schedule.gpus, ..options(&settings.workload) };
    // Seeds of their own: none of these tasks was learned from.
    let first = settings.workload.seed.wrapping_add(1_000_000);
    let options = CompareOptions {
        workload,
        loads: wanted.loads.clone(),
        seeds: (0..u64::from(wanted.seeds)).map(|at| first.wrapping_add(at)).collect(),
        policies: TaskPolicy::ALL.to_vec(),
        seconds_per_joule: settings.schedule.energy_weight,
    };
    let estimate = |workload: &Workload| {
        let bare = Estimates::of_profile(workload, &profile).map_err(|error| error.to_string())?;
        predict(workload, &bare, &predictors).map_err(|error| error.to_string())
    };
    let found = compare(&options, &profile, &estimate, &|_, _| ()).map_err(input)?;
    batch.add("policy_comparison.csv", |out| write_comparison(&found, out))?;
    Ok(format!("{} runs, all checked", found.rows.len()))
}
