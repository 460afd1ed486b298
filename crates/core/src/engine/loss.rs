//! Failures. A lost GPU: its tasks return to the queue, its models are gone, and it is unused until it returns. A
//! failed load: the tasks that waited for it fail or, if the server is to blame, become ready again. A failed task: it
//! is retried, at once or after a pause, or given up. A withdrawn request: it is given up, and may be reopened.

use super::Engine;
use super::state::{Effect, News, TaskState};
use crate::id::{GpuId, Gpus, RequestId, TaskId};
use crate::log::{Load, Loss, Status};
use crate::time::{Span, Time};

impl Engine<'_> {
    pub(super) fn lose(&mut self, gpu: GpuId) {
        if !self.alive.contains(gpu) {
            return;
        }
        self.alive.remove(gpu);
        self.log.losses.push(Loss { gpu, at: self.now, until: None });
        self.news.push(News::Lost(gpu));
        let cut_short = self.gpus[gpu].load;
        if let Some(lead) = self.gpus[gpu].run {
            let gpus = self.runs[lead].gpus;
            self.leave_load_behind(lead);
            self.never_began(lead, Status::Lost);
            while let Some(member) = self.runs[lead].members.first() {
                let task = member.task;
                self.effects.push(Effect::AbortTask { task, gpus });
                self.leave(task, Status::Lost);
                self.becomes_ready(task);
            }
        }
        if let Some(lead) = cut_short {
            self.abort_load(lead, Status::Lost);
        }
        self.evict_where(gpu, |_| true);
        self.idle.remove(gpu);
        self.empty.remove(gpu);
    }

    /// Executions that wait for a load which will not end: their record is a point in time, with the part of the load
    /// that was paid. Where nothing was, because it ended as it began, the load is written down by itself: what it took off is
    /// gone.
    fn never_began(&mut self, lead: GpuId, status: Status) {
        if !self.runs[lead].loading {
            return;
        }
        let paid = self.loads[lead].as_ref().map_or(Span::ZERO, |load| self.now - load.start);
        let (model, gpus, now) = (self.runs[lead].model, self.runs[lead].gpus, self.now);
        for member in &mut self.runs[lead].members {
            let bears = member.switch > Span::ZERO;
            member.start = now;
            member.switch = if bears { paid } else { Span::ZERO };
            if bears && paid == Span::ZERO {
                let evicted = std::mem::take(&mut member.evicted);
                self.log.loads.push(Load { model, gpus, start: now, end: now, status, evicted });
            }
        }
        self.runs[lead].count_batch(self.now);
        self.runs[lead].loading = false;
    }

    /// An execution that ends in the moment in which its load has ended would be taken for one whose load was cut short: its load
    /// is written down by itself.
    pub(super) fn leave_load_behind(&mut self, lead: GpuId) {
        if self.runs[lead].loading {
            return;
        }
        let run = &mut self.runs[lead];
        let (model, gpus, now) = (run.model, run.gpus, self.now);
        for member in
            run.members.iter_mut().filter(|member| member.start == now && member.switch > Span::ZERO)
        {
            let (switch, evicted) = (std::mem::take(&mut member.switch), std::mem::take(&mut member.evicted));
            let start = Time(now.0.saturating_sub(switch.0));
            self.log.loads.push(Load { model, gpus, start, end: now, status: Status::Completed, evicted });
        }
    }

    /// A GPU is there again, empty. One that was never lost has nothing to return from.
    pub(super) fn returned(&mut self, gpu: GpuId) {
        if self.alive.contains(gpu) {
            return;
        }
        let loss = self.log.losses.iter_mut().rev().find(|loss| loss.gpu == gpu);
        loss.expect("a GPU that is gone was lost").until = Some(self.now);
        self.alive.insert(gpu);
        self.idle.insert(gpu);
        self.empty.insert(gpu);
        self.gpus[gpu].idle_since = self.now;
        self.news.push(News::Returned(gpu));
    }

    /// Gives up every task whose model no window is left for, with all that needs it; `false` where there is none. Only for
    /// when no GPU will return.
    pub(crate) fn give_up_what_no_gpus_are_left_for(&mut self) -> bool {
        let stranded = self.instance.models.iter();
        let stranded: Vec<bool> =
            stranded.map(|model| !model.windows().any(|window| self.alive.contains_all(window))).collect();
        let open = |state| matches!(state, TaskState::Waiting | TaskState::Ready | TaskState::Held);
        let tasks: Vec<TaskId> = self
            .instance
            .task_ids()
            .filter(|&task| open(self.tasks[task].state) && stranded[self.instance.model_of(task).index()])
            .collect();
        tasks.iter().for_each(|&task| self.give_up(task));
        !tasks.is_empty()
    }

    pub(super) fn load_failed(&mut self, lead: GpuId) {
        let waited = self.end_load(lead, Status::Failed);
        waited.into_iter().for_each(|task| self.try_again_or_give_up(task));
    }

    pub(super) fn load_deferred(&mut self, lead: GpuId) {
        let waited = self.end_load(lead, Status::Deferred);
        waited.into_iter().for_each(|task| self.becomes_ready(task));
    }

    /// Ends a load whose model does not come, with the executions that waited for it.
    fn end_load(&mut self, lead: GpuId, status: Status) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        if self.loads[lead].as_ref().is_some_and(|load| load.for_run) {
            self.never_began(lead, status);
            tasks.extend(self.runs[lead].members.iter().map(|member| member.task));
            tasks.iter().for_each(|&task| self.leave(task, status));
        }
        self.abort_load(lead, status);
        tasks
    }

    pub(super) fn deferred(&mut self, task: TaskId) {
        self.leave_load_behind(self.tasks[task].lead);
        self.leave(task, Status::Deferred);
        self.becomes_ready(task);
    }

    /// One that runs is not waiting for a server, and one that has ended waits for nothing.
    pub(super) fn abandoned(&mut self, task: TaskId) {
        if matches!(self.tasks[task].state, TaskState::Ready | TaskState::Held) {
            self.give_up(task);
        }
    }

    /// However often it were tried, it would fail.
    pub(super) fn refused(&mut self, task: TaskId) {
        self.leave_load_behind(self.tasks[task].lead);
        self.leave(task, Status::Failed);
        self.tries.entry(task).or_default().failed += 1;
        self.give_up(task);
    }

    /// It became ready when it failed, and nobody has been told: nobody is, until it is released. One that was given up
    /// instead has nothing to wait for.
    pub(super) fn held(&mut self, task: TaskId) {
        let told = self.news.iter().rposition(|&news| news == News::Ready(task));
        if let Some(place) = told.filter(|_| self.tasks[task].state == TaskState::Ready) {
            self.news.remove(place);
            self.tasks[task].state = TaskState::Held;
        }
    }

    /// Its pause is over. It may have been given up meanwhile.
    pub(super) fn released(&mut self, task: TaskId) {
        if self.tasks[task].state == TaskState::Held {
            self.becomes_ready(task);
        }
    }

    /// Whatever of a request waits or runs is given up; what it has done stays done.
    pub(super) fn withdrawn(&mut self, request: RequestId) {
        for task in self.instance.tasks_of(request) {
            match self.tasks[task].state {
                TaskState::Running => {
                    let lead = self.tasks[task].lead;
                    let (gpus, loading) = (self.runs[lead].gpus, self.runs[lead].loading);
                    if loading {
                        self.leave_load_to_others(task, lead);
                    } else {
                        self.leave_load_behind(lead);
                        self.effects.push(Effect::AbortTask { task, gpus });
                    }
                    self.leave(task, Status::Cancelled);
                    self.give_up(task);
                }
                TaskState::Waiting | TaskState::Ready | TaskState::Held => self.give_up(task),
                TaskState::Done | TaskState::GivenUp => {}
            }
        }
    }

    /// Whatever of a request was given up is open again. Its attempts go on being counted, but none has failed.
    pub(super) fn reopened(&mut self, request: RequestId) {
        let given_up: Vec<TaskId> = self
            .instance
            .tasks_of(request)
            .filter(|&task| self.tasks[task].state == TaskState::GivenUp)
            .collect();
        for &task in &given_up {
            self.tasks[task].state = TaskState::Waiting;
            self.open += 1;
            self.tries.entry(task).and_modify(|tries| tries.failed = 0);
        }
        // Inputs that are missing still are: only what has finished was ever taken off their number.
        for task in given_up {
            if self.tasks[task].is_free_to_start() {
                self.becomes_ready(task);
            }
        }
    }

    /// A task that waits for a load will not execute: another of its batch bears the load, or nobody, and then it is one
    /// made ahead.
    fn leave_load_to_others(&mut self, task: TaskId, lead: GpuId) {
        let run = &mut self.runs[lead];
        let (mut switch, mut evicted) = (Span::ZERO, Box::default());
        for member in run.members.iter_mut().filter(|member| member.task == task) {
            member.start = self.now;
            member.batch = 1;
            switch = std::mem::take(&mut member.switch);
            evicted = std::mem::take(&mut member.evicted);
        }
        match run.members.iter_mut().find(|member| member.task != task) {
            Some(heir) if switch > Span::ZERO => (heir.switch, heir.evicted) = (switch, evicted),
            Some(_) => {}
            None => {
                run.loading = false;
                self.loads[lead].iter_mut().for_each(|load| load.for_run = false);
            }
        }
    }

    /// A load that will never end: its window holds neither the new model nor what was evicted for it.
    fn abort_load(&mut self, lead: GpuId, status: Status) {
        let Some(load) = self.loads[lead].take() else { return };
        let (gpus, model): (Gpus, _) = (load.gpus, load.model);
        self.effects.push(Effect::AbortLoad { gpus });
        for gpu in gpus.iter() {
            self.evict_where(gpu, |resident| resident == model);
            let state = &mut self.gpus[gpu];
            state.load = None;
            if self.alive.contains(gpu) && state.run.is_none() {
                self.idle.insert(gpu);
                state.idle_since = self.now;
            }
            if self.alive.contains(gpu) && state.residents.is_empty() {
                self.empty.insert(gpu);
            }
        }
        self.memory_changed(gpus);
        if !load.for_run {
            self.record_load(load, status);
        }
    }
}
