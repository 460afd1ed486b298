//! Recent history: a numbered ring of GPU intervals and events, and counts of all of them. The driver of an engine
//! feeds it before and after each step, at less than a microsecond per event.

mod ended;
mod minutes;
mod record;

use ended::Ended;
pub use minutes::{Minutes, USUAL};
use record::{Bar, Happening, HistoryNode, What};
pub use record::{RequestNode, in_words, numbers};

use crate::wire::{Counts, HistoryPage, OngoingBar, RequestState};
use gswarm_core::engine::{Decision, Event, TaskState, View};
use gswarm_core::instance::NewRequest;
use gswarm_core::log::{Execution, Status};
use gswarm_core::{Gpus, Instance, ModelId, RequestId, Span, TaskId, Time, WorkflowId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Things that are kept where nobody says otherwise.
pub const KEPT: usize = 20_000;
/// Most things that are told at once.
pub const MOST_AT_ONCE: usize = 5_000;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every node has finished.
    Completed,
    /// A node failed too often.
    GivenUp,
    /// Somebody took it back.
    Cancelled,
}

impl End {
    /// For clients and records.
    #[must_use]
    pub fn state(self) -> RequestState {
        match self {
            End::Completed => RequestState::Completed,
            End::GivenUp => RequestState::Failed,
            End::Cancelled => RequestState::Cancelled,
        }
    }
}

#[derive(Clone)]
enum Record {
    Bar(Bar),
    Happening(Happening),
}

/// What happened of late.
pub struct Chronicle {
    kept: usize,
    /// The number of the oldest that is kept; the first of all is 1.
    first: u64,
    records: VecDeque<Record>,
    counts: Counts,
    minutes: Minutes,
    /// Requests that completed, the latest last.
    ended: VecDeque<Ended>,
    /// Requests that arrived, the latest last.
    arrivals: VecDeque<NewRequest>,
    /// Why attempts that have just failed did; until their executions are [written down](Chronicle::executed).
    why: FxHashMap<TaskId, Box<str>>,
}

impl Chronicle {
    /// Nothing has happened. Of all that will, `kept` are kept, and counted in stretches of `each`.
    #[must_use]
    pub fn new(kept: usize, each: Span) -> Chronicle {
        Chronicle {
            kept: kept.max(1),
            first: 1,
            records: VecDeque::new(),
            counts: Counts::default(),
            minutes: Minutes::new(each),
            ended: VecDeque::new(),
            arrivals: VecDeque::new(),
            why: FxHashMap::default(),
        }
    }

    /// Totals since the start, without what is open now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The records break so many rules more.
    pub fn breaks(&mut self, rules: u64) {
        self.counts.violations += rules;
    }

    /// So many of the last things that happened.
    #[must_use]
    pub fn latest(&self, count: usize) -> HistoryPart {
        let last = self.after(u64::MAX, 0).last;
        self.after(last.saturating_sub(count as u64), count)
    }

    /// What happened of late, counted.
    #[must_use]
    pub fn minutes(&self) -> Minutes {
        self.minutes.clone()
    }

    /// An event, before the engine is told.
    pub fn event(&mut self, view: &View<'_>, at: Time, event: Event, why: Option<&str>) {
        match event {
            Event::Failed(task) | Event::Refused(task) | Event::Deferred(task) => {
                drop(self.why.insert(task, why.unwrap_or("it failed").into()))
            }
            Event::Loaded(lead) => {
                if let Some((model, gpus, start)) = view.load_on(lead) {
                    self.loaded(model, gpus, (start, at), None);
                }
            }
            Event::LoadFailed(lead) | Event::LoadDeferred(lead) => {
                let why = why.unwrap_or("its model could not be loaded");
                view.waiting_at(lead).for_each(|task| drop(self.why.insert(task, why.into())));
                if let Some((model, gpus, start)) = view.load_on(lead) {
                    self.loaded(model, gpus, (start, at), Some(why));
                }
            }
            Event::Lost(gpu) if view.alive().contains(gpu) => {
                let one = Gpus { first: gpu, count: 1 };
                if let Some((model, gpus, start)) = view.load_on(gpu) {
                    self.loaded(model, gpus, (start, at), Some("a GPU was lost"));
                }
                self.happens(at, What::Lost(one));
            }
            Event::Dismissed(model) if view.may_dismiss(model) => self.happens(at, What::Unloaded(model)),
            Event::Returned(gpu) if !view.alive().contains(gpu) => {
                self.happens(at, What::Back(Gpus { first: gpu, count: 1 }));
            }
            _ => {}
        }
    }

    /// A decision, before the engine is told.
    pub fn decision(&mut self, view: &View<'_>, at: Time, decision: Decision) {
        let (model, gpus) = match decision {
            Decision::Start { task, gpus } => (view.instance().model_of(task), gpus),
            Decision::Load { model, gpus, .. } => (model, gpus),
            Decision::Wake { .. } => return,
        };
        if view.holding(model).contains_all(gpus) || view.load_on(gpus.first).is_some() {
            return;
        }
        for left in view.evicted_by(model, gpus) {
            self.evicted(at, left, gpus, model);
        }
    }

    /// A model made way for another.
    pub fn evicted(&mut self, at: Time, left: ModelId, gpus: Gpus, came: ModelId) {
        self.counts.evictions += 1;
        self.happens(at, What::Evicted(left, gpus, came));
    }

    /// A load ended, well where nothing is said to be wrong.
    pub fn loaded(&mut self, model: ModelId, gpus: Gpus, (start, end): (Time, Time), why: Option<&str>) {
        match why {
            Some(why) => self.happens(end, What::NotLoaded(model, gpus, why.into())),
            None => {
                self.counts.loads += 1;
                self.minutes.loaded(end);
            }
        }
        self.push(Record::Bar(Bar { gpus, model, whose: None, start, end, why: why.map(Into::into) }));
    }

    /// An execution ended, and the engine knows. `again` says whether it is to be tried again.
    pub fn executed(&mut self, instance: &Instance, one: &Execution, again: bool) {
        let (model, whose) = (instance.model_of(one.task), whose(instance, one.task));
        if one.status == Status::Completed {
            self.counts.executions += 1;
            self.minutes.executed(one.end);
        }
        let noted = if self.why.is_empty() { None } else { self.why.remove(&one.task) };
        let why = match one.status {
            Status::Completed => None,
            Status::Failed => Some(noted.unwrap_or_else(|| "it failed".into())),
            Status::Deferred => Some(noted.unwrap_or_else(|| "its server failed".into())),
            Status::Lost => Some("a GPU was lost".into()),
            Status::Cancelled => Some("its request was withdrawn".into()),
        };
        if let (Some(why), Status::Failed | Status::Lost | Status::Deferred) = (&why, one.status) {
            self.happens(one.end, What::Failed(whose.clone(), model, one.gpus, why.clone()));
            if again {
                self.counts.retries += 1;
                self.happens(one.end, What::Retried(whose.clone(), model, one.attempt));
            }
        }
        let (gpus, start, end) = (one.gpus, one.start, one.end);
        self.push(Record::Bar(Bar { gpus, model, whose: Some(whose), start, end, why }));
    }

    /// A request was accepted.
    pub fn accepted(&mut self, at: Time, request: Arc<str>, workflow: WorkflowId) {
        self.happens(at, What::Accepted(request, workflow));
    }

    /// A request of this workflow ended after so long. Where `named`, that is told; it is counted anyway.
    pub fn ended(
        &mut self,
        at: Time,
        took: Span,
        end: End,
        workflow: WorkflowId,
        named: Option<(Arc<str>, Option<&str>)>,
    ) {
        self.minutes.ended(at, end == End::Completed, took);
        if let (End::Completed, Some((request, _))) = (end, &named) {
            self.remember(Ended { request: Arc::clone(request), workflow, took, at });
        }
        match end {
            End::Completed => self.counts.completed += 1,
            End::GivenUp => self.counts.failed += 1,
            End::Cancelled => self.counts.cancelled += 1,
        }
        let Some((request, why)) = named else { return };
        self.happens(
            at,
            match end {
                End::Completed => What::Completed(request, took.seconds()),
                End::GivenUp => What::GivenUp(request, why.map(Into::into)),
                End::Cancelled => What::Cancelled(request),
            },
        );
    }

    /// So many nodes wait.
    pub fn waiting(&mut self, at: Time, count: usize) {
        self.minutes.waiting(at, count);
    }

    /// What happened after the one of this number, `limit` at most. It is only copied here, so that whoever is watched does
    /// not wait for it to be put into words.
    #[must_use]
    pub fn after(&self, after: u64, limit: usize) -> HistoryPart {
        let kept = self.records.len();
        let skip = after.saturating_add(1).saturating_sub(self.first).min(kept as u64) as usize;
        let limit = limit.min(MOST_AT_ONCE);
        HistoryPart {
            first: self.first,
            last: self.first + kept as u64 - 1,
            more: kept - skip > limit,
            from: self.first + skip as u64,
            records: self.records.range(skip..).take(limit).cloned().collect(),
        }
    }

    fn happens(&mut self, at: Time, what: What) {
        self.push(Record::Happening(Happening { at, what }));
    }

    fn push(&mut self, record: Record) {
        if self.records.len() == self.kept {
            self.records.pop_front();
            self.first += 1;
        }
        self.records.push_back(record);
    }
}

/// A part of what happened.
pub struct HistoryPart {
    first: u64,
    last: u64,
    more: bool,
    from: u64,
    records: Vec<Record>,
}

impl HistoryPart {
    /// With names in place of numbers, and what is under way beside it. `instance` need not have any requests.
    #[must_use]
    pub fn history(&self, instance: &Instance, ongoing: Vec<OngoingBar>) -> HistoryPage {
        let (mut bars, mut happenings) = (Vec::new(), Vec::new());
        for (number, record) in (self.from..).zip(&self.records) {
            match record {
                Record::Bar(bar) => bars.push(bar.wire(instance, number)),
                Record::Happening(happening) => happenings.push(happening.wire(instance, number)),
            }
        }
        HistoryPage { first: self.first, last: self.last, more: self.more, bars, ongoing, happenings }
    }
}

/// Whether a task of which an attempt came to nothing is to be tried again, by the state after it.
#[must_use]
pub fn is_tried_again(view: &View<'_>, task: TaskId) -> bool {
    matches!(view.state(task), TaskState::Ready | TaskState::Held | TaskState::Running | TaskState::Done)
}

/// The node that a task is, with its request's name.
#[must_use]
pub fn whose(instance: &Instance, task: TaskId) -> RequestNode {
    let request: RequestId = instance.request_of(task);
    let node = HistoryNode { workflow: instance.requests[request].workflow, place: instance.node_of(task) };
    RequestNode { request: instance.requests[request].name.as_str().into(), node }
}

#[cfg(test)]
mod tests;
