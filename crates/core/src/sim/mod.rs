//! The engine under a virtual clock: deterministic, and as fast as the machine allows.

mod faults;
mod forward;
mod hardware;
mod sharing;

pub use faults::InjectedFaults;
pub(crate) use forward::{Played, play};
pub use sharing::Sharing;

use crate::belief::Learner;
use crate::engine::{Driver, Effect, Engine, Event, Policy, Rejected, TaskState};
use crate::id::{RequestId, TaskId};
use crate::instance::Instance;
use crate::log::ExecutionLog;
use crate::time::Time;
use crate::truth::Truth;
use hardware::Hardware;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a simulation is run.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// A node that fails this often is given up, and its request with it.
    pub max_attempts: u32,
    /// What goes wrong.
    pub faults: InjectedFaults,
    /// How long executions really take.
    pub truth: Truth,
    /// Ends it before its time once this is `true`: whoever waits for it has changed their mind.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for SimOptions {
    fn default() -> SimOptions {
        SimOptions { max_attempts: 3, faults: InjectedFaults::default(), truth: Truth::default(), stop: None }
    }
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug)]
pub struct SimProgress {
    /// Nodes finished or given up.
    pub done: usize,
    /// All nodes.
    pub total: usize,
    /// The virtual time.
    pub now: Time,
    /// Events handled.
    pub events: u64,
}

/// Why a simulation did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The policy proposed something that cannot be done.
    #[error("the policy made an illegal decision at {at}: {why}")]
    Rejected {
        /// When.
        at: Time,
        /// Why it cannot be done.
        why: Rejected,
    },
    /// Work is left and nothing will happen any more.
    #[error("the run stalls at {at} with {left} unfinished nodes; {task} waits for {waits_for}")]
    Stalled {
        /// When.
        at: Time,
        /// Nodes not done.
        left: usize,
        /// One of them, as `request/node`.
        task: String,
        /// What it waits for.
        waits_for: String,
    },
    /// It was stopped.
    #[error("stopped at {at}")]
    Stopped {
        /// When, by its own clock.
        at: Time,
    },
}

/// How many events pass between two reports of progress.
const EVENTS_PER_REPORT: u64 = 1 << 14;

/// Runs the whole problem under `policy`; `progress` is called now and then. Where GPUs are lost and too few are left for
/// some tasks, these are given up once nothing else can be done: [`crate::report::unfinished`] lists them.
pub fn simulate(
    instance: &Instance,
    policy: &mut dyn Policy,
    options: &SimOptions,
    progress: &mut dyn FnMut(SimProgress),
) -> Result<ExecutionLog, SimError> {
    simulate_learning(instance, policy, None, options, progress)
}

/// The same, with a learner that watches what executions take: policies are told what it believes.
pub fn simulate_learning(
    instance: &Instance,
    policy: &mut dyn Policy,
    learner: Option<&mut dyn Learner>,
    options: &SimOptions,
    progress: &mut dyn FnMut(SimProgress),
) -> Result<ExecutionLog, SimError> {
    let mut engine = Engine::new(instance, options.max_attempts);
    if let Some(learner) = learner {
        engine.learn_with(Box::new(learner));
    }
    let mut run = Simulation {
        engine,
        hardware: Hardware::new(instance, options.faults.clone(), options.truth.clone()),
    };
    let mut arrivals: Vec<(Time, RequestId)> =
        instance.requests.iter_enumerated().map(|(id, request)| (request.arrival, id)).collect();
    arrivals.sort_unstable();
    let mut arrivals = arrivals.into_iter().peekable();
    options.faults.lose.iter().for_each(|&(at, gpu)| run.hardware.schedule(at, Event::Lost(gpu)));
    options.faults.withdraw.iter().for_each(|&(at, id)| run.hardware.schedule(at, Event::Withdrawn(id)));
    options.faults.bring_back.iter().for_each(|&(at, gpu)| run.hardware.schedule(at, Event::Returned(gpu)));

    let mut events = 0;
    while !run.engine.is_done() {
        if options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(SimError::Stopped { at: run.engine.view().now() });
        }
        let next_arrival = arrivals.peek().map_or(Time::NEVER, |&(at, _)| at);
        let at = run.hardware.next_time().min(next_arrival);
        if at == Time::NEVER {
            // Lost GPUs may leave too few for some tasks. What can be done without these is done.
            if !run.engine.give_up_what_no_gpus_are_left_for() {
                return Err(run.stalled());
            }
            run.ask(policy)?;
            continue;
        }
        // Arrivals rank behind the machine's own events of the same instant and have a list of their own: a million of
        // them would only make the queue of the few that are under way slower.
        while let Some(event) = run.hardware.next_at(at) {
            events += 1;
            run.handle(at, event);
        }
        while let Some((_, request)) = arrivals.next_if(|&(when, _)| when == at) {
            events += 1;
            run.handle(at, Event::Arrived(request));
        }
        if at == Time::ZERO {
            run.take_up(policy)?;
        }
        run.ask(policy)?;
        if events % EVENTS_PER_REPORT < 2 {
            progress(run.progress(events));
        }
    }
    progress(run.progress(events));
    Ok(run.engine.into_log())
}

struct Simulation<'i> {
    engine: Engine<'i>,
    hardware: Hardware<'i>,
}

impl<'i> Driver<'i> for Simulation<'i> {
    type Error = SimError;

    fn engine(&mut self) -> &mut Engine<'i> {
        &mut self.engine
    }

    fn carry_out(&mut self, effect: Effect) {
        self.hardware.carry_out(self.engine.view().now(), effect);
    }

    fn rejected(&mut self, why: Rejected) -> SimError {
        SimError::Rejected { at: self.engine.view().now(), why }
    }
}

impl Simulation<'_> {
    /// What was under way before the run began goes on.
    fn take_up(&mut self, policy: &mut dyn Policy) -> Result<(), SimError> {
        let begun = self.engine.take_up().map_err(|why| self.rejected(why))?;
        self.carry_out_effects();
        begun.into_iter().for_each(|task| policy.given_up(task, &self.engine.view()));
        Ok(())
    }

    fn progress(&self, events: u64) -> SimProgress {
        let view = self.engine.view();
        let total = view.instance().tasks();
        SimProgress { done: total - view.open_tasks(), total, now: view.now(), events }
    }

    fn stalled(&self) -> SimError {
        let view = self.engine.view();
        let instance = view.instance();
        let model_of = |task: TaskId| &instance.models[instance.model_of(task)];
        let of_state = |state| instance.task_ids().filter(move |&task| view.state(task) == state);
        // A ready one says more than one that waits for others.
        let task = of_state(TaskState::Ready).chain(of_state(TaskState::Waiting)).next().unwrap_or(TaskId(0));
        let model = model_of(task);
        let waits_for = match view.state(task) {
            TaskState::Ready => {
                format!(
                    "{} for `{}` ({} of {} GPUs left)",
                    if model.gpus == 1 {
                        "a GPU".to_owned()
                    } else {
                        format!("{} consecutive GPUs", model.gpus)
                    },
                    model.name,
                    view.alive().len(),
                    instance.cluster.gpus
                )
            }
            _ => match instance.predecessors(task).find(|&before| view.state(before) != TaskState::Done) {
                Some(before) => format!("the output of {}", instance.task_name(before)),
                None => "its request to arrive".to_owned(),
            },
        };
        SimError::Stalled {
            at: view.now(),
            left: view.open_tasks(),
            task: instance.task_name(task),
            waits_for,
        }
    }
}
