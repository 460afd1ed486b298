//! A log by GPU: the executions and loads on each over time, and its models.

use crate::cost::Leaving;
use crate::id::{GpuId, Gpus, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::log::{Execution, ExecutionLog, Status};
use crate::time::{Span, Time};

/// What a piece of a GPU's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An execution, by its number in the log.
    Execution(u32),
    /// The load that an execution waited for, by the execution's number.
    LoadFor(u32),
    /// A load before any execution needs it, by its number in the log.
    LoadAhead(u32),
}

/// A time in which GPUs were at work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub start: Time,
    pub end: Time,
    pub gpus: Gpus,
    pub model: ModelId,
    pub what: What,
}

/// A log, ready for questions.
pub struct Timeline<'a> {
    pub(crate) instance: &'a Instance,
    pub(super) log: &'a ExecutionLog,
    /// By start.
    pub(super) pieces: Vec<Piece>,
    /// The pieces of each GPU, by start.
    rows: Vec<Vec<u32>>,
    /// The latest end of the pieces of a row up to each: where executions share a GPU, ends do not follow starts.
    reach: Vec<Vec<Time>>,
    /// The execution that gave each task's result, else its last attempt; `NONE` where it was never tried.
    results: Vec<u32>,
    lost_at: Vec<Time>,
    /// First arrival.
    pub(crate) first: Time,
    /// Last end.
    pub(super) last: Time,
}

const NONE: u32 = u32::MAX;

/// When an execution took its GPUs: when its load began.
pub(super) fn begun(one: &Execution) -> Time {
    Time(one.start.0.saturating_sub(one.switch.0))
}

impl<'a> Timeline<'a> {
    /// Lays out a log.
    #[must_use]
    pub fn new(instance: &'a Instance, log: &'a ExecutionLog) -> Timeline<'a> {
        let first = instance.requests.iter().map(|request| request.arrival).min().unwrap_or(Time::ZERO);
        let last = log.executions.iter().map(|one| one.end).max().unwrap_or(first).max(first);
        let pieces = pieces(instance, log);
        let count = instance.cluster.gpus as usize;
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut reach: Vec<Vec<Time>> = vec![Vec::new(); count];
        for (number, piece) in (0..).zip(&pieces) {
            for gpu in piece.gpus.range() {
                let before = reach[gpu].last().copied().unwrap_or(Time::ZERO);
                rows[gpu].push(number);
                reach[gpu].push(before.max(piece.end));
            }
        }
        let mut results = vec![NONE; instance.tasks()];
        for (number, one) in (0..).zip(&log.executions) {
            let place = &mut results[one.task.index()];
            let better = |old: &Execution| {
                old.status != Status::Completed
                    && (one.status == Status::Completed || one.attempt > old.attempt)
            };
            if *place == NONE || better(&log.executions[*place as usize]) {
                *place = number;
            }
        }
        let mut lost_at = vec![Time::NEVER; count];
        for loss in log.losses.iter().filter(|loss| loss.gpu.index() < count) {
            lost_at[loss.gpu.index()] = loss.at.min(lost_at[loss.gpu.index()]);
        }
        Timeline { instance, log, pieces, rows, reach, results, lost_at, first, last }
    }

    /// The execution that gave a task's result, else its last attempt.
    pub(crate) fn result(&self, task: TaskId) -> Option<&'a Execution> {
        let number = self.results[task.index()];
        (number != NONE).then(|| &self.log.executions[number as usize])
    }

    /// The length of the whole run.
    pub(super) fn makespan(&self) -> Span {
        self.last.since(self.first)
    }

    /// When a GPU was lost.
    pub(super) fn lost_at(&self, gpu: GpuId) -> Time {
        self.lost_at[gpu.index()]
    }

    /// The pieces on a GPU that go on at some moment in `from..to`, latest start first.
    pub(super) fn during(&self, gpu: GpuId, from: Time, to: Time) -> impl Iterator<Item = &Piece> + '_ {
        let (row, reach) = (&self.rows[gpu.index()], &self.reach[gpu.index()]);
        let end = row.partition_point(|&piece| self.pieces[piece as usize].start < to);
        let within = (0..end).rev().take_while(move |&at| reach[at] > from);
        within.map(|at| &self.pieces[row[at] as usize]).filter(move |piece| piece.end > from)
    }

    /// The first piece on a GPU that starts at `from` or later.
    pub(super) fn next(&self, gpu: GpuId, from: Time) -> Option<&Piece> {
        self.from(gpu, from).next()
    }

    /// The pieces on a GPU that start at `from` or later.
    pub(super) fn from(&self, gpu: GpuId, from: Time) -> impl Iterator<Item = &Piece> + '_ {
        let row = &self.rows[gpu.index()];
        let begin = row.partition_point(|&piece| self.pieces[piece as usize].start < from);
        row[begin..].iter().map(|&piece| &self.pieces[piece as usize])
    }

    /// All pieces of a GPU, by start.
    pub(super) fn row(&self, gpu: GpuId) -> impl Iterator<Item = &Piece> + '_ {
        self.rows[gpu.index()].iter().map(|&piece| &self.pieces[piece as usize])
    }

    /// The models on a GPU just before `at`: with one model a GPU, that of the latest piece.
    pub(super) fn held(&self, gpu: GpuId, at: Time) -> Vec<ModelId> {
        let row = &self.rows[gpu.index()];
        let end = row.partition_point(|&piece| self.pieces[piece as usize].start < at);
        let mut before = row[..end].iter().map(|&piece| &self.pieces[piece as usize]);
        if self.instance.cluster.residency == Residency::Single {
            return before.next_back().map(|piece| piece.model).into_iter().collect();
        }
        let mut held: Vec<ModelId> = Vec::new();
        for piece in before {
            let evicted = match piece.what {
                What::LoadFor(number) | What::Execution(number) => {
                    &self.log.executions[number as usize].evicted
                }
                What::LoadAhead(number) => &self.log.loads[number as usize].evicted,
            };
            held.retain(|model| *model != piece.model && !evicted.contains(model));
            held.push(piece.model);
        }
        held
    }

    /// Whether a model that a GPU holds just before `at` has executed nothing there since it was loaded.
    pub(super) fn is_unused(&self, gpu: GpuId, model: ModelId, at: Time) -> bool {
        let row = &self.rows[gpu.index()];
        let end = row.partition_point(|&piece| self.pieces[piece as usize].start < at);
        let of_model = row[..end].iter().rev().map(|&piece| &self.pieces[piece as usize]);
        let mut of_model = of_model.filter(|piece| piece.model == model);
        let tells = of_model.find_map(|piece| match piece.what {
            What::Execution(_) => (piece.end <= at).then_some(false),
            What::LoadFor(_) | What::LoadAhead(_) => Some(true),
        });
        tells.unwrap_or(false)
    }

    /// What bringing `model` onto a GPU that holds `held` would take, by the rules of the cluster; zero where it is there.
    pub(super) fn gpu_cost(
        &self,
        model: ModelId,
        held: &[ModelId],
        is_unused: impl Fn(ModelId) -> bool,
    ) -> Span {
        if held.contains(&model) {
            return Span::ZERO;
        }
        let (models, cluster) = (&self.instance.models, &self.instance.cluster);
        let spec = &models[model];
        let leaves = |old: ModelId| Leaving { unused: is_unused(old), ..models[old].leaving() };
        let leaving: Option<Leaving> = match cluster.residency {
            Residency::Single => held.last().map(|&old| leaves(old)),
            Residency::Memory => {
                let used = |model: ModelId| models[model].memory_per_gpu;
                let room = crate::cost::megabytes(cluster.gpu_memory_gb).saturating_sub(used(model));
                let mut taken: u64 = held.iter().map(|&old| used(old)).sum();
                // The longest there leaves first, until there is room.
                let mut leaving = None;
                for &old in held.iter().take_while(|&&old| {
                    let full = taken > room;
                    taken = taken.saturating_sub(if full { used(old) } else { 0 });
                    full
                }) {
                    leaving = Some(leaving.unwrap_or_default() + leaves(old));
                }
                leaving
            }
        };
        cluster.switch.of(leaving, spec.memory_gb, spec.load_seconds)
    }
}

fn pieces(instance: &Instance, log: &ExecutionLog) -> Vec<Piece> {
    let known = |gpus: Gpus| gpus.range().end <= instance.cluster.gpus as usize;
    let mut pieces = Vec::with_capacity(log.executions.len() + log.executions.len() / 4 + log.loads.len());
    for (number, one) in (0..).zip(&log.executions).filter(|(_, one)| known(one.gpus)) {
        let (gpus, model) = (one.gpus, instance.model_of(one.task));
        if one.switch.0 > 0 {
            let what = What::LoadFor(number);
            pieces.push(Piece { start: begun(one), end: one.start, gpus, model, what });
        }
        if one.end > one.start {
            pieces.push(Piece { start: one.start, end: one.end, gpus, model, what: What::Execution(number) });
        }
    }
    for (number, one) in (0..).zip(&log.loads).filter(|(_, one)| known(one.gpus)) {
        let what = What::LoadAhead(number);
        pieces.push(Piece { start: one.start, end: one.end, gpus: one.gpus, model: one.model, what });
    }
    pieces.sort_unstable_by_key(|piece| (piece.start, piece.end, piece.gpus));
    pieces
}
