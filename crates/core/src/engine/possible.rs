//! Which events are possible next. Code that reads a run from a file asks first: the engine trusts its driver, but a
//! file may contain anything.

use super::Engine;
use super::state::{Decision, Event, TaskState};
use crate::id::{GpuId, Gpus, ModelId, RequestId, TaskId};
use crate::time::{MAX_SECONDS, Span, Time};

impl Engine<'_> {
    /// Whether `event` can happen at `at`, or why not. After `Ok`, [`Engine::handle`] does not panic.
    pub fn could_happen(&self, at: Time, event: Event) -> Result<(), String> {
        self.could_be_now(at)?;
        match event {
            Event::Failed(task) | Event::Refused(task) | Event::Deferred(task) => self.executes(task),
            Event::Finished(task) => {
                self.executes(task)?;
                // Results take time: the checker holds every log to that.
                let members = &self.runs[self.tasks[task].lead].members;
                let at_once = members.iter().any(|member| member.task == task && member.start >= at);
                if at_once { Err(format!("task {} ends at the instant it starts", task.0)) } else { Ok(()) }
            }
            Event::Abandoned(task) => match self.state_of(task)? {
                TaskState::Waiting => Err(format!("task {} is abandoned before it was ready", task.0)),
                _ => Ok(()),
            },
            Event::Held(task) => self.has_just_failed(at, task),
            Event::Released(task) => match self.state_of(task)? {
                // One that was held may have been given up; and who has been told that it is ready does not hold it.
                TaskState::Held | TaskState::Ready | TaskState::GivenUp => Ok(()),
                state => Err(format!("task {} is released, but was not held: {state:?}", task.0)),
            },
            Event::Loaded(lead) => {
                self.is_there(lead)?;
                let loads = self.loads[lead].is_some();
                loads
                    .then_some(())
                    .ok_or_else(|| format!("GPU {} has no load in progress that could end", lead.0))
            }
            // A load that failed may have been cut short before; GPUs that are lost are lost again when a run is taken up.
            Event::LoadFailed(gpu) | Event::LoadDeferred(gpu) | Event::Lost(gpu) | Event::Returned(gpu) => {
                self.is_there(gpu)
            }
            Event::Withdrawn(request) if self.has_arrived(request)? => Ok(()),
            Event::Withdrawn(request) => Err(format!("request {} is withdrawn before it arrived", request.0)),
            Event::Reopened(request) if self.has_arrived(request)? => Ok(()),
            Event::Reopened(request) => Err(format!("request {} is reopened before it arrived", request.0)),
            Event::Dismissed(model) => self.is_a_model(model),
            Event::Arrived(request) => self.could_arrive(at, request),
            Event::Woken => Ok(()),
        }
    }

    /// Whether `decision` can be made at `at` as far as its numbers go, or why not. After `Ok`, [`Engine::apply`] says of the
    /// rest whether it can be done.
    pub fn could_decide(&self, at: Time, decision: Decision) -> Result<(), String> {
        self.could_be_now(at)?;
        match decision {
            Decision::Start { task, gpus } => {
                self.state_of(task)?;
                self.window_is_there(gpus)
            }
            Decision::Load { model, gpus, ahead_of } => {
                self.is_a_model(model)?;
                ahead_of.map_or(Ok(()), |task| self.state_of(task).map(drop))?;
                self.window_is_there(gpus)
            }
            Decision::Wake { .. } => Ok(()),
        }
    }

    fn could_be_now(&self, at: Time) -> Result<(), String> {
        if at < self.now {
            return Err(format!("time goes backwards from {} to {at}", self.now));
        }
        if at.since(Time::ZERO) > Span::from_seconds(MAX_SECONDS) {
            return Err(format!("{at} is later than any run can last"));
        }
        Ok(())
    }

    fn state_of(&self, task: TaskId) -> Result<TaskState, String> {
        let progress = self.tasks.get(task);
        progress.map(|progress| progress.state).ok_or_else(|| format!("there is no task {}", task.0))
    }

    fn executes(&self, task: TaskId) -> Result<(), String> {
        match self.state_of(task)? {
            TaskState::Running if self.runs[self.tasks[task].lead].loading => {
                Err(format!("task {} ends before its model is loaded", task.0))
            }
            TaskState::Running => Ok(()),
            state => Err(format!("task {} ends, but is not running: {state:?}", task.0)),
        }
    }

    fn has_just_failed(&self, at: Time, task: TaskId) -> Result<(), String> {
        let is_ready = self.state_of(task)? == TaskState::Ready && self.tasks[task].ready_at == at;
        // By its own fault or its server's.
        let failed = self.tries.get(&task).is_some_and(|tries| tries.made > 0);
        let held = (is_ready && failed).then_some(());
        held.ok_or_else(|| format!("task {} is held, but has not just failed", task.0))
    }

    fn has_arrived(&self, request: RequestId) -> Result<bool, String> {
        if request.index() >= self.instance.requests.len() {
            return Err(format!("there is no request {}", request.0));
        }
        // What needs nothing waits for nothing else.
        Ok(!self.instance.tasks_of(request).any(|task| self.tasks[task].is_free_to_start()))
    }

    fn could_arrive(&self, at: Time, request: RequestId) -> Result<(), String> {
        if self.has_arrived(request)? && self.instance.tasks_of(request).next().is_some() {
            return Err(format!("request {} arrives a second time", request.0));
        }
        let due = self.instance.requests[request].arrival;
        if at < due {
            return Err(format!("request {} arrives at {at}, but is due at {due}", request.0));
        }
        Ok(())
    }

    fn is_a_model(&self, model: ModelId) -> Result<(), String> {
        let known = model.index() < self.instance.models.len();
        known.then_some(()).ok_or_else(|| format!("there is no model {}", model.0))
    }

    fn is_there(&self, gpu: GpuId) -> Result<(), String> {
        let known = gpu.index() < self.gpus.len();
        known.then_some(()).ok_or_else(|| format!("there is no GPU {}", gpu.0))
    }

    fn window_is_there(&self, gpus: Gpus) -> Result<(), String> {
        let end = gpus.first.index() + gpus.count as usize;
        let inside = gpus.count > 0 && end <= self.gpus.len();
        let told = || format!("there are no {} GPUs from GPU {} on", gpus.count, gpus.first.0);
        inside.then_some(()).ok_or_else(told)
    }
}
