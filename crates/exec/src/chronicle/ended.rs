//! Recently completed requests: latency by workflow, and the slowest requests with their causes.

use super::{Chronicle, Record};
use crate::wire::{SlowRequestRow, WorkflowLatency};
use gswarm_core::instance::NewRequest;
use gswarm_core::report::Stats;
use gswarm_core::{GpuId, Gpus, Instance, ModelId, Span, Time, WorkflowId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Requests that are remembered.
const REMEMBERED: usize = 5_000;
/// Slow ones that are told.
const SLOWEST: usize = 10;

/// A request that completed.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub request: Arc<str>,
    pub workflow: WorkflowId,
    pub took: Span,
    pub at: Time,
}

/// An execution of a slow request.
#[derive(Clone, Copy)]
struct Ran {
    start: Time,
    end: Time,
    gpus: Gpus,
    model: ModelId,
}

impl Chronicle {
    pub(super) fn remember(&mut self, one: Ended) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back(one);
    }

    /// A request arrived: what-if questions suppose that its like comes again.
    pub fn arrived(&mut self, new: &NewRequest) {
        if self.arrivals.len() == REMEMBERED {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(NewRequest { name: String::new(), ..new.clone() });
    }

    /// The arrivals of the last while before `now`, as they would come again from time zero on, and how long that while is:
    /// `most`, or as far back as arrivals are remembered.
    #[must_use]
    pub fn traffic(&self, now: Time, most: Span) -> (Vec<NewRequest>, Span) {
        let is_full = self.arrivals.len() == REMEMBERED;
        let oldest = self.arrivals.front().filter(|_| is_full).map_or(Time::ZERO, |first| first.arrival);
        let from = Time(now.0.saturating_sub(most.0)).max(oldest);
        let again = self.arrivals.iter().filter(|one| one.arrival > from && one.arrival <= now);
        let again = again.zip(1..).map(|(one, number): (&NewRequest, u32)| NewRequest {
            name: format!("coming-{number}"),
            arrival: Time(one.arrival.since(from).0),
            ..one.clone()
        });
        (again.collect(), now.since(from))
    }

    /// The latency of each workflow's requests that are remembered, the highest P99 first.
    #[must_use]
    pub fn by_workflow(&self, instance: &Instance) -> Vec<WorkflowLatency> {
        let mut latencies: Vec<Vec<Span>> = vec![Vec::new(); instance.workflows.len()];
        for one in &self.ended {
            latencies[one.workflow.index()].push(one.took);
        }
        let known = instance.workflows.iter().zip(latencies).filter(|(_, all)| !all.is_empty());
        let mut told: Vec<WorkflowLatency> = known
            .map(|(workflow, all)| {
                let Stats { count, mean, median, p99, .. } = Stats::of(all);
                WorkflowLatency { workflow: workflow.name.clone(), completed: count, mean, p50: median, p99 }
            })
            .collect();
        told.sort_by(|one, other| other.p99.total_cmp(&one.p99));
        told
    }

    /// The slowest of the requests that are remembered, slowest first, with what cost each most.
    #[must_use]
    pub fn slowest(&self, instance: &Instance) -> Vec<SlowRequestRow> {
        let mut slow: Vec<&Ended> = self.ended.iter().collect();
        slow.sort_by(|one, other| other.took.cmp(&one.took).then(one.at.cmp(&other.at)));
        slow.truncate(SLOWEST);
        let mut ran: FxHashMap<&str, FxHashMap<u32, Ran>> =
            slow.iter().map(|one| (&*one.request, FxHashMap::default())).collect();
        let mut loads: FxHashMap<(GpuId, Time), (Time, ModelId)> = FxHashMap::default();
        for record in &self.records {
            let Record::Bar(bar) = record else { continue };
            if bar.why.is_some() {
                continue;
            }
            let Some(whose) = &bar.whose else {
                loads.insert((bar.gpus.first, bar.end), (bar.start, bar.model));
                continue;
            };
            if let Some(nodes) = ran.get_mut(&*whose.request) {
                let one = Ran { start: bar.start, end: bar.end, gpus: bar.gpus, model: bar.model };
                nodes.insert(whose.node.place, one);
            }
        }
        let load = |one: &Ran| match loads.get(&(one.gpus.first, one.start)) {
            Some(&(from, model)) if model == one.model => one.start.since(from),
            _ => Span::ZERO,
        };
        let told = slow.iter().map(|one| one.told(instance, &ran[&*one.request], &load));
        told.collect()
    }
}

impl Ended {
    /// Where its time went: from its last node back, each time to the input that came last.
    fn told(
        &self,
        instance: &Instance,
        ran: &FxHashMap<u32, Ran>,
        load: &dyn Fn(&Ran) -> Span,
    ) -> SlowRequestRow {
        let workflow = &instance.workflows[self.workflow];
        let arrived = Time(self.at.0.saturating_sub(self.took.0));
        let last_of = |nodes: &mut dyn Iterator<Item = u32>| {
            nodes.filter_map(|node| Some((node, ran.get(&node)?))).max_by_key(|(_, one)| one.end)
        };
        let mut parts = [Span::ZERO; 3];
        let mut most = (Span::ZERO, "its executions are no longer kept".to_owned());
        let mut next = last_of(&mut (0..workflow.nodes.len() as u32));
        while let Some((node, one)) = next {
            let before = last_of(&mut workflow.predecessors(node).iter().copied());
            let ready = before.map_or(arrived, |(_, input)| input.end);
            let wait = one.start.since(ready);
            let loading = load(one).min(wait);
            let (waiting, executing) = (Span(wait.0 - loading.0), one.end.since(one.start));
            let (name, model) = (&workflow.nodes[node as usize], &instance.models[one.model].name);
            let told = [
                (waiting, format!("{name} waited {:.1} s for GPUs", waiting.seconds())),
                (loading, format!("{name} waited {:.1} s for {model} to load", loading.seconds())),
                (executing, format!("{name} executed for {:.1} s ({model})", executing.seconds())),
            ];
            for (sum, (span, words)) in parts.iter_mut().zip(told) {
                *sum += span;
                if span > most.0 {
                    most = (span, words);
                }
            }
            next = before;
        }
        let [waiting, loading, executing] = parts.map(Span::seconds);
        SlowRequestRow {
            request: self.request.to_string(),
            workflow: workflow.name.clone(),
            arrived: arrived.seconds(),
            latency: self.took.seconds(),
            waiting,
            loading,
            executing,
            why: most.1,
        }
    }
}
