//! Recent arrivals, and a forecast resampled from them.

use crate::engine::View;
use crate::id::{ModelId, RequestId, WorkflowId};
use crate::instance::{Instance, NewRequest};
use crate::time::{Span, Time};
use crate::truth::{mix, unit};
use std::collections::VecDeque;

/// How many arrivals are remembered.
const REMEMBERED: usize = 256;

/// A request that has arrived.
struct Seen {
    at: Time,
    workflow: WorkflowId,
    priority: i32,
    deadline: Option<Span>,
    executions: Vec<Span>,
}

/// Recent arrivals, and which models were asked for when.
#[derive(Default)]
pub(super) struct History {
    arrivals: VecDeque<Seen>,
    asked: VecDeque<(ModelId, Time)>,
}

impl History {
    pub fn arrived(&mut self, view: &View<'_>, id: RequestId) {
        let request = &view.instance().requests[id];
        if self.arrivals.len() == REMEMBERED {
            self.arrivals.pop_front();
        }
        self.arrivals.push_back(Seen {
            at: request.arrival,
            workflow: request.workflow,
            priority: request.priority,
            deadline: request.deadline,
            executions: view.instance().tasks_of(id).map(|task| view.expected(task)).collect(),
        });
    }

    pub fn asked(&mut self, model: ModelId, now: Time) {
        if self.asked.len() == REMEMBERED {
            self.asked.pop_front();
        }
        self.asked.push_back((model, now));
    }

    /// The models that were asked for lately, oldest first.
    pub fn models(&self) -> impl Iterator<Item = (ModelId, Time)> + '_ {
        self.asked.iter().copied()
    }

    /// Whether any of the recent requests has a deadline.
    pub fn has_deadlines(&self) -> bool {
        self.arrivals.iter().any(|seen| seen.deadline.is_some())
    }

    /// The problem with recent requests only, and one of each workflow: nothing is known yet of those that were not asked for.
    pub fn seen(&self, view: &View<'_>) -> Instance {
        let mut seen = view.instance().without_requests();
        let mut of_model = vec![(0.0, 0.0); seen.models.len()];
        for request in &self.arrivals {
            for (model, takes) in seen.workflows[request.workflow].models.iter().zip(&request.executions) {
                let (sum, count) = &mut of_model[model.index()];
                (*sum, *count) = (*sum + takes.seconds(), *count + 1.0);
            }
        }
        let all = of_model.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        let usual = |&model: &ModelId| {
            let (sum, count) = of_model[model.index()];
            let (sum, count) = if count > 0.0 { (sum, count) } else { all };
            Span::from_seconds(if count > 0.0 { sum / count } else { 1.0 })
        };
        let of_workflow = |(workflow, executions)| NewRequest {
            name: String::new(),
            workflow,
            arrival: view.now(),
            priority: 0,
            deadline: None,
            executions,
        };
        let workflows = view.instance().workflows.iter_enumerated();
        let one_of_each = workflows
            .map(|(workflow, spec)| (workflow, spec.models.iter().map(usual).collect::<Vec<Span>>()));
        let recent = self.arrivals.iter().map(|one| (one.workflow, one.executions.clone()));
        for request in recent.chain(one_of_each).map(of_workflow) {
            seen.push_request(request);
        }
        seen
    }

    /// So many arrivals from `now` on: stretches of recent ones, with their gaps, so that bursts stay bursts.
    pub fn resample(&self, now: Time, count: usize, seed: u64) -> Vec<NewRequest> {
        let known = self.arrivals.len();
        let (mut state, mut at) = (mix(seed), now);
        let mut draw = |limit: usize| {
            state = mix(state);
            ((unit(state) * limit as f64) as usize).min(limit.saturating_sub(1))
        };
        let mut requests = Vec::with_capacity(count);
        while requests.len() < count && known > 1 {
            let begin = 1 + draw(known - 1);
            let length = (known / 4).clamp(4, 32);
            for place in begin..(begin + length).min(known) {
                if requests.len() == count {
                    break;
                }
                let (seen, before) = (&self.arrivals[place], &self.arrivals[place - 1]);
                at = at + seen.at.since(before.at);
                requests.push(NewRequest {
                    name: String::new(),
                    workflow: seen.workflow,
                    arrival: at,
                    priority: seen.priority,
                    deadline: seen.deadline,
                    executions: seen.executions.clone(),
                });
            }
        }
        requests
    }
}
