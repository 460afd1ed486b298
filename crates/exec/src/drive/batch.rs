//! A batch, or a stream known in advance, from its first request to its last.

use super::machine::{Book, Happening, Machine, Trouble};
use super::{LiveError, NodeFailure, Patience};
use crate::call::{Outputs, call_of, named};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::journal::{Journal, JournalEntry, JournalError};
use crate::work::ReplicaCall;
use gswarm_core::belief::Learner;
use gswarm_core::engine::{Decision, Engine, Event, View};
use gswarm_core::input::Scenario;
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::Policy;
use gswarm_core::{Instance, RequestId, TaskId, Time};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What came of a run.
#[derive(Debug)]
pub struct FinishedRun {
    /// What happened.
    pub log: ExecutionLog,
    /// What the nodes wrote.
    pub outputs: BTreeMap<TaskId, Map<String, Value>>,
    /// What went wrong on the way.
    pub failures: Vec<NodeFailure>,
}

/// The problem of a run: what is scheduled, and what the calls say.
#[derive(Clone, Copy)]
pub struct LiveProblem<'i> {
    /// What the files say.
    pub scenario: &'i Scenario,
    /// What is scheduled.
    pub instance: &'i Instance,
}

/// A run under way.
pub struct Live<'i> {
    pub(super) machine: Machine<'i, BatchBook<'i>>,
    pub(super) arrivals: VecDeque<(Time, RequestId)>,
    patience: Patience,
    /// Work was left when the run was taken up again: the policy is asked before anything happens.
    pub(super) resumed: bool,
    /// What was given up is tried again when the run is taken up.
    pub(super) retries_failed: bool,
}

impl<'i> Live<'i> {
    /// A run that has not begun.
    #[must_use]
    pub fn new(
        problem: LiveProblem<'i>,
        fleet: Fleet,
        clock: Clock,
        journal: Journal,
        patience: Patience,
    ) -> Live<'i> {
        let requests = problem.instance.requests.iter_enumerated();
        let mut arrivals: Vec<_> = requests.map(|(id, request)| (request.arrival, id)).collect();
        arrivals.sort_unstable();
        let engine = Engine::new(problem.instance, patience.max_attempts);
        let book = BatchBook { problem, journal, outputs: Written::default(), failures: Vec::new() };
        let mut machine = Machine::new(engine, book, fleet, clock, patience.clone());
        machine.ends_without_servers = true;
        Live { machine, arrivals: arrivals.into(), patience, resumed: false, retries_failed: false }
    }

    /// Has `learner` watch what executions take; before [`Live::restore`], so that it sees what was done already.
    pub fn learn_with(&mut self, learner: Box<dyn Learner + 'i>) {
        self.machine.engine.learn_with(learner);
    }

    /// Permanently failed nodes are retried when the run is [restored](Live::restore).
    pub fn retry_failed(&mut self) {
        self.retries_failed = true;
    }

    /// Runs to the end. `watch` is shown the state after every step; where it says `false`, the run stops, to be resumed.
    pub async fn run(
        mut self,
        policy: &mut dyn Policy,
        watch: &mut (dyn FnMut(&View<'_>) -> bool + Send),
    ) -> Result<FinishedRun, LiveError> {
        if std::mem::take(&mut self.resumed) {
            self.machine.step(Vec::new(), policy)?;
        }
        while !self.machine.engine.is_done() {
            let Some(happened) = self.wait_a_while().await? else {
                // Nothing happens, perhaps because no backend answers: whoever watches may want to stop.
                if !watch(&self.machine.engine.view()) {
                    return Err(LiveError::Interrupted { left: self.machine.engine.open_tasks() });
                }
                continue;
            };
            // Woken for nothing, by a moment that nobody waits for any more: the policy is not asked.
            if happened.is_empty() {
                self.machine.act();
                continue;
            }
            self.machine.step(happened, policy)?;
            if !watch(&self.machine.engine.view()) {
                return Err(LiveError::Interrupted { left: self.machine.engine.open_tasks() });
            }
        }
        self.machine.stop();
        let Machine { engine, book, .. } = self.machine;
        Ok(FinishedRun { log: engine.into_log(), outputs: book.outputs.0, failures: book.failures })
    }

    /// The same, with an end under the real clock; under the virtual one there is nobody who could get impatient.
    async fn wait_a_while(&mut self) -> Result<Option<Vec<Happening>>, LiveError> {
        if let Clock::Virtual(_) = self.machine.clock {
            return self.wait().await.map(Some);
        }
        match tokio::time::timeout(A_WHILE, self.wait()).await {
            Ok(happened) => happened.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Waits until something happens, and takes in everything that has happened by then.
    async fn wait(&mut self) -> Result<Vec<Happening>, LiveError> {
        let arrival = self.arrivals.front().map_or(Time::NEVER, |&(at, _)| at);
        let gives_up = self.machine.abandoned_since().map(|since| since + self.patience.for_servers);
        let gives_up = gives_up.unwrap_or(Time::NEVER);
        self.machine.wait(arrival.min(gives_up)).await?;
        let mut happened = self.machine.happened();
        let now = self.machine.clock.now();
        if gives_up <= now && happened.is_empty() {
            let (seconds, left) = (self.patience.for_servers.seconds(), self.machine.engine.open_tasks());
            return Err(LiveError::NoBackends { seconds, waited: self.machine.waited_for(), left });
        }
        while let Some(&(at, request)) = self.arrivals.front()
            && at <= now
        {
            self.arrivals.pop_front();
            happened.push(Event::Arrived(request).into());
        }
        Ok(happened)
    }
}

/// How long a run that is asked to stop may take to hear it.
const A_WHILE: std::time::Duration = std::time::Duration::from_millis(200);

/// What the tasks wrote.
#[derive(Default)]
pub(super) struct Written(pub BTreeMap<TaskId, Map<String, Value>>);

impl Outputs for Written {
    fn of(&self, task: TaskId) -> Option<&Map<String, Value>> {
        self.0.get(&task)
    }
}

/// What a batch asks for is in its files; what happens goes to its journal.
pub(super) struct BatchBook<'i> {
    pub problem: LiveProblem<'i>,
    pub journal: Journal,
    pub outputs: Written,
    pub failures: Vec<NodeFailure>,
}

impl Book for BatchBook<'_> {
    fn work(&self, _view: &View<'_>, task: TaskId) -> ReplicaCall {
        let LiveProblem { scenario, instance } = self.problem;
        let request = &scenario.requests[usize::from(instance.request_of(task))];
        ReplicaCall::Node(Arc::new(call_of(scenario, instance, request, &self.outputs, task)))
    }

    fn answered(&mut self, _view: &View<'_>, task: TaskId, answer: Value) -> Result<(), JournalError> {
        let value = named(self.problem.scenario, self.problem.instance, task, answer);
        self.journal.output(task, &value)?;
        self.outputs.0.insert(task, value);
        Ok(())
    }

    fn event(
        &mut self,
        _view: &View<'_>,
        at: Time,
        event: Event,
        trouble: Option<Trouble<'_>>,
    ) -> Result<(), JournalError> {
        self.journal.append(at, JournalEntry::Event(event), trouble.map(|trouble| trouble.why))?;
        if let Some(Trouble { why, fails }) = trouble {
            self.failures.extend(fails.iter().map(|&task| NodeFailure { at, task, why: why.to_owned() }));
        }
        Ok(())
    }

    fn decision(&mut self, _view: &View<'_>, at: Time, decision: Decision) -> Result<(), JournalError> {
        self.journal.append(at, JournalEntry::Decision(decision), None)
    }

    fn commit(&mut self) -> Result<(), JournalError> {
        self.journal.commit()
    }
}
