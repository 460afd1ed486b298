//! The idle time of GPUs, and why they were idle: one pass over the log, moment by moment.
//!
//! An idle GPU is told apart by whether a node that was ready could have been put on it (with idle neighbours, where it
//! needs several). If not, the reason is the same for all idle GPUs at that moment, so it is enough to keep one sum a reason
//! for all of them, and to look at a GPU only when it becomes idle or busy, or begins or ceases to be of use.

use super::timeline::{Timeline, begun};
use super::{length, moment, share};
use crate::gpuset::GpuSet;
use crate::id::{GpuId, Gpus};
use crate::time::{Span, Time};
use serde::Serialize;

/// Why a GPU is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A node was ready that could have run on it: the policy let it wait.
    Choice,
    /// Nodes were ready, and each needed more consecutive idle GPUs than there were around this one.
    TooNarrow,
    /// Nothing was ready: the nodes that were left waited for the results of others.
    Inputs,
    /// Nothing was ready: the requests that were left had not arrived.
    Arrivals,
    /// Nothing was left to begin.
    Tail,
}

impl Cause {
    /// All of them, in the order of reports.
    pub const ALL: [Cause; 5] =
        [Cause::Choice, Cause::TooNarrow, Cause::Inputs, Cause::Arrivals, Cause::Tail];

    /// In a few words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Cause::Choice => "ready work that would have fitted was left waiting",
            Cause::TooNarrow => "ready work needed more consecutive GPUs",
            Cause::Inputs => "no node was ready: inputs were still being computed",
            Cause::Arrivals => "no node was ready: the next request had not arrived",
            Cause::Tail => "no work was left to start",
        }
    }
}

/// Time by reason, in microseconds.
pub(super) type ByCause = [u64; 5];

/// One reason's part of the idle time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseShare {
    /// The reason.
    pub cause: Cause,
    /// GPU-time.
    pub gpu_seconds: f64,
    /// Of all GPU-time of the run.
    pub share: f64,
}

pub(super) fn shares(by_cause: &[u128; 5], whole: u128) -> Vec<CauseShare> {
    let one = |cause: Cause| CauseShare {
        cause,
        gpu_seconds: by_cause[cause as usize] as f64 / 1e6,
        share: share(by_cause[cause as usize], whole),
    };
    Cause::ALL.into_iter().map(one).collect()
}

/// A time in which a GPU was idle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Which.
    pub gpu: u32,
    /// Since when.
    #[serde(rename = "from_seconds", serialize_with = "moment")]
    pub from: Time,
    /// Until when.
    #[serde(rename = "to_seconds", serialize_with = "moment")]
    pub to: Time,
    /// Its length.
    #[serde(rename = "seconds", serialize_with = "length")]
    pub length: Span,
    /// The reason for most of it.
    pub cause: Cause,
    /// How long that held.
    #[serde(rename = "cause_seconds", serialize_with = "length")]
    pub for_this: Span,
    /// A node that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Example>,
}

/// A node that shows why a GPU was idle: one that was ready and waited; or, where none was, the next on the GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// `request/node`.
    pub node: String,
    /// Its model.
    pub model: String,
    /// How many GPUs that needs.
    pub gpus_needed: u32,
    /// When its inputs were there.
    #[serde(rename = "ready_seconds", serialize_with = "moment")]
    pub ready: Time,
    /// Whether it waited during the gap; else it came after it.
    pub waited: bool,
}

impl Gap {
    fn new(gpu: usize, from: Time, to: Time, by_cause: &ByCause) -> Gap {
        let most = |cause: &Cause| (by_cause[*cause as usize], std::cmp::Reverse(*cause));
        let cause = Cause::ALL.into_iter().max_by_key(most).unwrap_or(Cause::Tail);
        let for_this = Span(by_cause[cause as usize]);
        Gap { gpu: gpu as u32, from, to, length: to.since(from), cause, for_this, example: None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Free(u32),
    Busy(u32),
    Arrived(u32),
    Ready(u32),
    Taken(u32),
    Lost(u32),
}

/// What a GPU's current gap has come to.
#[derive(Clone, Copy)]
struct Open {
    from: Time,
    by_cause: ByCause,
    /// Of use since, where it is.
    of_use: Option<Time>,
    /// The sums of all reasons when this GPU's gap began, or ceased to be of use.
    sums: ByCause,
}

/// Goes through the run; `found` is told of every gap when it ends, with its length by reason.
pub(super) fn sweep(timeline: &Timeline<'_>, mut found: impl FnMut(Gap, &ByCause)) {
    let (first, last) = (timeline.first, timeline.last);
    let events = events(timeline);
    let mut state = State::new(timeline);
    let mut at = 0;
    let mut now = first;
    loop {
        while let Some(&(_, event)) = events.get(at).filter(|&&(time, _)| time <= now) {
            state.apply(timeline, event);
            at += 1;
        }
        if now >= last {
            break;
        }
        state.settle(now, &mut found);
        let next = events.get(at).map_or(last, |&(time, _)| time.min(last));
        state.sums[state.reason as usize] += next.since(now).0;
        now = next;
    }
    state.idle = GpuSet::empty(timeline.instance.cluster.gpus);
    state.useful = state.idle.clone();
    state.close_all(last, &mut found);
}

fn events(timeline: &Timeline<'_>) -> Vec<(Time, Event)> {
    let log = timeline.log;
    let mut events = Vec::with_capacity(2 * timeline.pieces.len() + 2 * log.executions.len());
    for (number, piece) in (0..).zip(&timeline.pieces) {
        events.push((piece.start, Event::Busy(number)));
        events.push((piece.end, Event::Free(number)));
    }
    for (number, one) in (0..).zip(&log.executions) {
        events.push((one.ready, Event::Ready(number)));
        events.push((begun(one).max(one.ready), Event::Taken(number)));
    }
    let requests = timeline.instance.requests.iter_enumerated();
    events.extend(requests.map(|(id, request)| (request.arrival, Event::Arrived(id.0))));
    events.extend(log.losses.iter().map(|loss| (loss.at, Event::Lost(loss.gpu.0))));
    events.sort_unstable();
    events
}

struct State {
    busy: Vec<u32>,
    lost: Vec<bool>,
    idle: GpuSet,
    /// Idle GPUs on which a ready node could be put.
    useful: GpuSet,
    /// Both as they were when gaps were last brought up to date.
    was: (GpuSet, GpuSet),
    open: Vec<Option<Open>>,
    /// Widths of models, smallest first, with the windows of each and the ready nodes that wait for one.
    widths: Vec<(u32, GpuSet, u64)>,
    /// Executions that have not begun: of all requests, and of those that arrived.
    left: u64,
    left_here: u64,
    /// By request.
    records: Vec<u32>,
    reason: Cause,
    sums: ByCause,
    changed: bool,
}

impl State {
    fn new(timeline: &Timeline<'_>) -> State {
        let (instance, log) = (timeline.instance, timeline.log);
        let count = instance.cluster.gpus;
        let mut widths: Vec<(u32, GpuSet, u64)> =
            instance.models.iter().map(|model| (model.gpus, model.starts.clone(), 0)).collect();
        widths.sort_by_key(|&(width, ..)| width);
        widths.dedup_by_key(|&mut (width, ..)| width);
        let mut records = vec![0; instance.requests.len()];
        log.executions.iter().for_each(|one| records[instance.request_of(one.task).index()] += 1);
        State {
            busy: vec![0; count as usize],
            lost: vec![false; count as usize],
            idle: GpuSet::full(count),
            useful: GpuSet::empty(count),
            was: (GpuSet::empty(count), GpuSet::empty(count)),
            open: vec![None; count as usize],
            widths,
            left: log.executions.len() as u64,
            left_here: 0,
            records,
            reason: Cause::Tail,
            sums: [0; 5],
            changed: true,
        }
    }

    fn apply(&mut self, timeline: &Timeline<'_>, event: Event) {
        let (instance, log) = (timeline.instance, timeline.log);
        self.changed = true;
        match event {
            Event::Busy(piece) => {
                for gpu in timeline.pieces[piece as usize].gpus.iter() {
                    self.busy[gpu.index()] += 1;
                    self.idle.remove(gpu);
                }
            }
            Event::Free(piece) => {
                for gpu in timeline.pieces[piece as usize].gpus.iter() {
                    let busy = &mut self.busy[gpu.index()];
                    *busy = busy.saturating_sub(1);
                    if *busy == 0 && !self.lost[gpu.index()] {
                        self.idle.insert(gpu);
                    }
                }
            }
            Event::Arrived(request) => self.left_here += u64::from(self.records[request as usize]),
            Event::Ready(number) | Event::Taken(number) => {
                let model = instance.model_of(log.executions[number as usize].task);
                let width = instance.models[model].gpus;
                let ready = self.widths.iter_mut().find(|(other, ..)| *other == width);
                let ready = ready.map(|(.., ready)| ready);
                if matches!(event, Event::Ready(_)) {
                    ready.into_iter().for_each(|ready| *ready += 1);
                } else {
                    ready.into_iter().for_each(|ready| *ready = ready.saturating_sub(1));
                    self.left = self.left.saturating_sub(1);
                    self.left_here = self.left_here.saturating_sub(1);
                }
            }
            Event::Lost(gpu) => {
                if let Some(lost) = self.lost.get_mut(gpu as usize) {
                    *lost = true;
                    self.idle.remove(GpuId(gpu));
                }
            }
        }
    }

    /// All that happens at this moment has happened: who is idle now, and why.
    fn settle(&mut self, now: Time, found: &mut impl FnMut(Gap, &ByCause)) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let ready = self.widths.iter().find(|&&(.., ready)| ready > 0);
        self.reason = match ready {
            _ if self.left == 0 => Cause::Tail,
            Some(_) => Cause::TooNarrow,
            None if self.left_here > 0 => Cause::Inputs,
            None => Cause::Arrivals,
        };
        // What needs fewest GPUs fits wherever anything does.
        self.useful = match ready {
            None => GpuSet::empty(self.busy.len() as u32),
            Some((1, ..)) => self.idle.clone(),
            Some((width, starts, _)) => covered(&self.idle, starts, *width),
        };
        self.close_all(now, found);
    }

    /// Brings the gaps of all GPUs whose state has changed up to date.
    fn close_all(&mut self, now: Time, found: &mut impl FnMut(Gap, &ByCause)) {
        let was = (self.idle.clone(), self.useful.clone());
        let (was_idle, was_useful) = std::mem::replace(&mut self.was, was);
        let between = [(&self.idle, &was_idle), (&self.useful, &was_useful)];
        let changed = between.map(|(is, was)| [is.without(was), was.without(is)]);
        for gpu in changed.as_flattened().iter().flat_map(GpuSet::iter) {
            let (idle, of_use) = (self.idle.contains(gpu), self.useful.contains(gpu));
            let gpu = gpu.index();
            let same = match &self.open[gpu] {
                None => !idle,
                Some(open) => idle && open.of_use.is_some() == of_use,
            };
            if same {
                continue;
            }
            let mut open = self.open[gpu].take().unwrap_or(Open {
                from: now,
                by_cause: [0; 5],
                of_use: of_use.then_some(now),
                sums: self.sums,
            });
            match open.of_use {
                Some(since) => open.by_cause[Cause::Choice as usize] += now.since(since).0,
                None => {
                    for (part, (sum, was)) in open.by_cause.iter_mut().zip(self.sums.iter().zip(&open.sums)) {
                        *part += sum - was;
                    }
                }
            }
            (open.of_use, open.sums) = (of_use.then_some(now), self.sums);
            if idle {
                self.open[gpu] = Some(open);
            } else if now > open.from {
                found(Gap::new(gpu, open.from, now, &open.by_cause), &open.by_cause);
            }
        }
    }
}

/// The GPUs in windows of `width` from one of `starts` that are idle throughout.
fn covered(idle: &GpuSet, starts: &GpuSet, width: u32) -> GpuSet {
    let mut useful = idle.without(idle);
    idle.starts(width).both(starts).for_each(|first| useful.insert_all(Gpus { first, count: width }));
    useful
}
