//! A workload under a policy.

use super::engine::{Engine, EngineError};
use super::kind::TaskPolicy;
use super::log::{TaskLog, TaskRecord};
use super::machine::Machine;
use super::metrics::{TaskMetrics, measure};
use super::policy::{
    Choice, Learned, Policy, PolicySettings, Push, QLearning, QTable, Tuning, WorkStealing, upward_ranks,
};
use super::view::Estimates;
use super::workload::{RunTimes, Workload};
use gswarm_core::Span;
use rayon::prelude::*;
use std::time::{Duration, Instant};

/// What came of a run.
#[derive(Clone, Debug)]
pub struct TaskOutcome {
    /// What happened.
    pub log: TaskLog,
    /// What that amounts to.
    pub metrics: TaskMetrics,
    /// Time that this program took to schedule it, everything counted.
    pub took: Duration,
}

/// What the clairvoyant tries, besides the other policies with the times known.
const CLAIRVOYANT: [(usize, f64, u32, f64); 7] = [
    (1, 1.0, 6, 0.15),
    (0, 1.0, 6, 0.15),
    (2, 1.0, 6, 0.15),
    (1, 4.0, 4, 0.15),
    (1, 1.0, 10, 0.15),
    (100, 1.0, 6, 0.15),
    // Who knows the times need not shy away from cutting.
    (1, 1.0, 6, 0.0),
];
/// The rules that it tries beside: those that look at times, and constants, which are hard to beat where energy counts.
const RULES: [TaskPolicy; 7] = [
    TaskPolicy::Heft,
    TaskPolicy::EarliestFinish,
    TaskPolicy::WorkStealing,
    TaskPolicy::Greedy,
    TaskPolicy::GpuOnly,
    TaskPolicy::CpuOnly,
    TaskPolicy::LeastLoaded,
];
/// Those of them that do the same whatever times they are told, and those that heed the price of energy.
const BLIND: [TaskPolicy; 2] = [TaskPolicy::WorkStealing, TaskPolicy::CpuOnly];
const PRICED: [TaskPolicy; 2] = [TaskPolicy::Heft, TaskPolicy::EarliestFinish];
type MakesPlan<'a> = Box<dyn Fn() -> Result<Vec<TaskRecord>, EngineError> + Send + Sync + 'a>;
/// How often `q_learning` goes through the workload before the run.
const LESSONS: u64 = 6;

/// Runs the workload under the policy. Run times are the workload's own; where it has none, the estimates.
pub fn schedule(
    workload: &Workload,
    machine: &Machine,
    estimates: &Estimates,
    kind: TaskPolicy,
    settings: PolicySettings,
) -> Result<TaskOutcome, EngineError> {
    let since = Instant::now();
    let truths = workload.truths(estimates);
    let run = Run { workload, machine, truths: &truths, settings };
    let records = run.under(kind, estimates)?;
    let took = since.elapsed();
    let mut log = TaskLog {
        policy: kind.name().to_string(),
        machine: machine.clone(),
        records: workload.tasks.iter().map(|task| task.id.clone()).zip(records).collect(),
        makespan: gswarm_core::Time::ZERO,
        joules: 0.0,
    };
    let metrics = measure(workload, &log);
    log.makespan = gswarm_core::Time(metrics.makespan.0);
    log.joules = metrics.joules;
    Ok(TaskOutcome { log, metrics, took })
}

#[derive(Clone, Copy)]
struct Run<'a> {
    workload: &'a Workload,
    machine: &'a Machine,
    truths: &'a [RunTimes],
    settings: PolicySettings,
}

impl Run<'_> {
    fn under(&self, kind: TaskPolicy, estimates: &Estimates) -> Result<Vec<TaskRecord>, EngineError> {
        let push = |choice| self.simulate(&mut Push::new(choice, self.settings), estimates);
        let ranks = || upward_ranks(self.workload, estimates, self.machine.gpus);
        match kind {
            TaskPolicy::RoundRobin => push(Choice::RoundRobin),
            TaskPolicy::Random => push(Choice::Random),
            TaskPolicy::Greedy if self.machine.gpus == 0 => push(Choice::CpuOnly),
            TaskPolicy::Greedy => push(Choice::Greedy),
            TaskPolicy::GpuOnly => push(Choice::GpuOnly),
            TaskPolicy::CpuOnly => push(Choice::CpuOnly),
            TaskPolicy::LeastLoaded => push(Choice::LeastLoaded),
            TaskPolicy::EarliestFinish => push(Choice::EarliestFinish),
            TaskPolicy::Heft => push(Choice::Heft(ranks())),
            TaskPolicy::WorkStealing => self.simulate(&mut WorkStealing::default(), estimates),
            TaskPolicy::Learned => self.simulate(&mut self.learned(estimates, Tuning::default()), estimates),
            TaskPolicy::QLearning => self.q_learning(estimates),
            TaskPolicy::Clairvoyant => self.clairvoyant(estimates),
        }
    }

    fn learned(&self, estimates: &Estimates, tuning: Tuning) -> Learned {
        Learned::new(self.workload, self.machine, estimates, self.settings, tuning)
    }

    fn simulate(
        &self,
        policy: &mut dyn Policy,
        estimates: &Estimates,
    ) -> Result<Vec<TaskRecord>, EngineError> {
        Engine::new(self.workload, self.truths, self.machine, estimates).run(policy)
    }

    /// Taught with the estimates in the place of the truth, so that no run time is known before it was met.
    fn q_learning(&self, estimates: &Estimates) -> Result<Vec<TaskRecord>, EngineError> {
        let mut table = QTable::default();
        let tasks = self.workload.tasks.len();
        for lesson in 0..LESSONS {
            let explore = 0.3 * (1.0 - lesson as f64 / LESSONS as f64);
            let settings = PolicySettings { seed: self.settings.seed.wrapping_add(lesson), ..self.settings };
            let mut pupil = QLearning::new(table, explore, tasks, settings);
            Engine::new(self.workload, &estimates.means, self.machine, estimates).run(&mut pupil)?;
            table = pupil.into_table();
        }
        self.simulate(&mut QLearning::new(table, 0.0, tasks, self.settings), estimates)
    }

    /// Every rule that looks at run times, told the true ones, and what all rules come to that go by the estimates; the best of
    /// the schedules is kept.
    fn clairvoyant(&self, estimates: &Estimates) -> Result<Vec<TaskRecord>, EngineError> {
        let known = Estimates::certain(self.truths.to_vec());
        // A plan that heeds time alone may be the better one even where energy has a price.
        let mut heeding = vec![self.settings];
        if self.settings.seconds_per_joule > 0.0 {
            heeding.push(PolicySettings { seconds_per_joule: 0.0, ..self.settings });
        }
        let mut plans: Vec<MakesPlan<'_>> = Vec::new();
        let guesses = RULES.into_iter().chain([TaskPolicy::Learned]);
        plans.extend(guesses.map(|kind| -> MakesPlan<'_> { Box::new(move || self.under(kind, estimates)) }));
        for (pass, settings) in heeding.into_iter().enumerate() {
            let run = Run { settings, ..*self };
            let known = &known;
            for (many, urgency, depth, cut_gain) in CLAIRVOYANT {
                let tuning = Tuning { many, urgency, depth, cut_gain };
                plans.push(Box::new(move || run.simulate(&mut run.learned(known, tuning), known)));
            }
            // No plan is made twice.
            let differs =
                |kind: &TaskPolicy| if pass == 0 { !BLIND.contains(kind) } else { PRICED.contains(kind) };
            let rules = RULES.into_iter().filter(differs);
            plans.extend(rules.map(|kind| -> MakesPlan<'_> { Box::new(move || run.under(kind, known)) }));
        }
        let made: Vec<Vec<TaskRecord>> = plans.par_iter().map(|plan| plan()).collect::<Result<_, _>>()?;
        let mut best: Option<(f64, Vec<TaskRecord>)> = None;
        for records in made {
            let cost = self.cost(&records);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, records));
            }
        }
        Ok(best.map(|(_, records)| records).unwrap_or_default())
    }

    fn cost(&self, records: &[TaskRecord]) -> f64 {
        let makespan = records.iter().map(|record| record.finish).max().unwrap_or_default();
        let busy = |on_gpu: bool| -> Span {
            let of = |record: &TaskRecord| match on_gpu {
                true => record.gpu.map_or(Span::ZERO, |part| part.end.since(part.start)),
                false => record.cpu.map_or(Span::ZERO, |part| part.end.since(part.start)),
            };
            records.iter().map(of).sum()
        };
        let joules = self.machine.joules(Span(makespan.0), busy(false), busy(true));
        makespan.seconds() + self.settings.seconds_per_joule * joules
    }
}
