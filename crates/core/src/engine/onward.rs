//! The rest of a run from its present state, as a separate problem on the same number of GPUs or another.

use super::{RunningTask, TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, ModelId, RequestId, TaskId, WorkflowId};
use crate::instance::{Infeasible, Instance, Mode, NewRequest, Start};
use crate::time::{Span, Time};
use rustc_hash::FxHashMap;

/// What is left of a run.
#[derive(Clone, Debug)]
pub struct Continuation {
    /// The problem. Its time zero is the moment at which the run was looked at.
    pub instance: Instance,
    /// How long each of its requests had been there by then.
    pub waited: IdVec<RequestId, Span>,
    /// Executions that were under way on GPUs that are not there any more: they begin anew.
    pub begun_anew: usize,
    /// Loads that were under way and count as done; what was left of them is added to what waited for them.
    pub loads_under_way: usize,
    /// GPUs that do not answer: nothing is placed on them.
    pub out: usize,
}

impl Instance {
    /// The rest of a run at `now` on this many GPUs. The first GPUs are kept, and lost GPUs stay lost. `coming` are
    /// requests assumed to arrive; their times count from `now`.
    pub fn onward(
        view: &View<'_>,
        now: Time,
        gpus: u32,
        coming: &[NewRequest],
    ) -> Result<Continuation, Vec<Infeasible>> {
        let whole = view.instance();
        let is_left =
            |task| matches!(view.state(task), TaskState::Waiting | TaskState::Ready | TaskState::Running);
        let stays = |window: Gpus| window.first.0 + window.count <= gpus;
        let under_way: FxHashMap<TaskId, RunningTask> =
            view.under_way().filter(|one| stays(one.gpus)).map(|one| (one.task, one)).collect();
        let left_of = |task: TaskId| match under_way.get(&task) {
            Some(one) => left_of(view, now, one),
            None => view.expected(task),
        };
        let (mut instance, numbers) = whole.rest(is_left, left_of);
        let mut waited = IdVec::with_capacity(instance.requests.len());
        for request in &mut instance.requests {
            let old = &whole.requests[whole.request_of(numbers[request.first_task])];
            let waits = now.since(old.arrival);
            request.arrival = Time(old.arrival.since(now).0);
            request.deadline = old.deadline.map(|deadline| Span(deadline.0.saturating_sub(waits.0).max(1)));
            waited.push(waits);
        }
        // What is left has workflows of its own, parts of the whole ones.
        let mut known: FxHashMap<WorkflowId, WorkflowId> = FxHashMap::default();
        for new in coming {
            let workflow = *known.entry(new.workflow).or_insert_with(|| {
                instance.workflows.push(whole.workflows[new.workflow].clone());
                WorkflowId::from(instance.workflows.len() - 1)
            });
            instance.push_request(NewRequest { workflow, ..new.clone() });
            waited.push(Span::ZERO);
        }
        let all_there = instance.requests.iter().all(|request| request.arrival == Time::ZERO);
        instance.mode = if all_there { Mode::Offline } else { Mode::Online };
        let kept = whole.cluster.gpus.min(gpus);
        let out = (0..kept).map(GpuId).filter(|&gpu| !view.alive().contains(gpu)).count();
        instance.put_on(
            gpus,
            |window| {
                let is_new = window.first.0 + window.count > whole.cluster.gpus;
                is_new || window.iter().all(|gpu| view.alive().contains(gpu))
            },
            whole,
        )?;
        let mut resident = Vec::new();
        for gpu in (0..kept).map(GpuId) {
            let coming = view.load_on(gpu).filter(|&(_, window, _)| stays(window)).map(|(model, ..)| model);
            let there = view.residents(gpu).into_iter().filter(|&model| Some(model) != coming);
            resident.extend(there.chain(coming).map(|model| (gpu, model)));
        }
        let known: FxHashMap<TaskId, TaskId> = numbers
            .iter_enumerated()
            .filter(|(_, old)| under_way.contains_key(old))
            .map(|(new, &old)| (old, new))
            .collect();
        let mut running: Vec<(TaskId, Gpus)> =
            under_way.values().map(|one| (known[&one.task], one.gpus)).collect();
        running.sort_unstable();
        instance.start = Start { resident, running };
        let begun_anew = view.under_way().filter(|one| !stays(one.gpus)).count();
        let loads_under_way = view.loads().filter(|&(_, window, ..)| stays(window)).count();
        Ok(Continuation { instance, waited, begun_anew, loads_under_way, out })
    }

    /// The same problem on so many GPUs. A window of the GPUs that `before` has is only used where it may be used there.
    fn put_on(
        &mut self,
        gpus: u32,
        is_there: impl Fn(Gpus) -> bool,
        before: &Instance,
    ) -> Result<(), Vec<Infeasible>> {
        self.cluster.gpus = gpus;
        let mut used = vec![false; self.models.len()];
        self.task_ids().for_each(|task| used[self.model_of(task).index()] = true);
        let mut faults = Vec::new();
        for (id, model) in self.models.iter_mut_enumerated() {
            let mut starts = self.cluster.starts(model.gpus);
            let windows: Vec<Gpus> = starts.iter().map(|first| Gpus { first, count: model.gpus }).collect();
            for window in windows {
                let is_known = window.first.0 + window.count <= before.cluster.gpus;
                let may = !is_known || before.models[id].starts.contains(window.first);
                if !may || !is_there(window) {
                    starts.remove(window.first);
                }
            }
            if starts.is_empty() && used[id.index()] {
                let (needs, per_server) = (model.gpus, self.cluster.gpus_per_server);
                faults.push(Infeasible::TooFewGpus { model: model.name.clone(), needs, gpus, per_server });
            }
            model.starts = starts;
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }
}

/// What is left of an execution at batch 1, with what is left of the load that it waits for.
pub(super) fn left_of(view: &View<'_>, now: Time, one: &RunningTask) -> Span {
    let whole = view.expected(one.task);
    let instance = view.instance();
    let model: ModelId = instance.model_of(one.task);
    let Some(began) = one.began else {
        let lead = one.gpus.first;
        let loaded = view.loads().find(|&(_, gpus, ..)| gpus.first == lead).map_or(now, |(.., end)| end);
        return whole + loaded.since(now);
    };
    let batch = view.batch_at(one.gpus.first).max(1);
    let slowdown = f64::from(instance.models[model].slowdown[batch as usize - 1]) / 1e6;
    let done = now.since(began).times(1.0 / slowdown);
    match whole.0.saturating_sub(done.0) {
        // It should have ended: what is usual then is what is expected of its GPUs.
        0 => Span(view.free_at(one.gpus.first).since(now).times(1.0 / slowdown).0.max(1)),
        left => Span(left),
    }
}
