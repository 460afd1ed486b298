//! A batch or a stream under the real clock: the engine is told what the backends did, the policy decides, the journal
//! keeps it, and only then the backends are told.

mod acts;
mod resume;
mod unfit;

use crate::backend::{BackendError, Replica};
use crate::call::{Outputs, call_of, named};
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::journal::{Entry, Journal, JournalError};
use crate::keeper::{Done, Keeper, Report, overlap};
use acts::{Acts, Message};
use gswarm_core::engine::{Effect, Engine, Event, News, Rejected, View};
use gswarm_core::input::Scenario;
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::Policy;
use gswarm_core::{GpuId, Gpus, Instance, RequestId, Span, TaskId, Time};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use unfit::Unfit;

/// How patient a run is.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Attempts at a node before its request is given up.
    pub max_attempts: u32,
    /// A call may take this many times what it is expected to ...
    pub call_factor: f64,
    /// ... and this much more.
    pub call_grace: Span,
    /// The same for loads and unloads.
    pub load_grace: Span,
    /// The pause after a first failure; each further one doubles it.
    pub backoff: Span,
    /// How long a run goes on with no backend left before it ends, to be resumed.
    pub without_backends: Span,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = |seconds: u64| Span(seconds * 1_000_000);
        Patience {
            max_attempts: 3,
            call_factor: 10.0,
            call_grace: seconds(60),
            load_grace: seconds(600),
            backoff: Span(250_000),
            without_backends: seconds(600),
        }
    }
}

/// Why a live run ended before its time. What it did is in the journal.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The journal cannot be written any more.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The policy proposed something that cannot be done.
    #[error("the policy made an illegal decision at {at}: {why}")]
    Rejected {
        /// When.
        at: Time,
        /// Why.
        why: Rejected,
    },
    /// Work is left and nothing will happen any more.
    #[error("nothing happens after {at}, and {left} nodes are not done")]
    Stalled {
        /// When.
        at: Time,
        /// Nodes not done.
        left: usize,
    },
    /// Every backend is gone and none came back.
    #[error("no backend has answered for {0:.0} s; {1} nodes are not done")]
    NoBackends(f64, usize),
    /// Somebody asked for it.
    #[error("interrupted; {left} nodes are not done")]
    Interrupted {
        /// Nodes not done.
        left: usize,
    },
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// Of which node.
    pub task: TaskId,
    /// Why.
    pub why: String,
}

/// What came of a run.
#[derive(Debug)]
pub struct Finished {
    /// What happened.
    pub log: ExecutionLog,
    /// What the nodes wrote.
    pub outputs: BTreeMap<TaskId, Map<String, Value>>,
    /// What went wrong on the way.
    pub failures: Vec<Failure>,
}

/// The problem of a run: what is scheduled, and what the calls say.
#[derive(Clone, Copy)]
pub struct Problem<'i> {
    /// What the files say.
    pub scenario: &'i Scenario,
    /// What is scheduled.
    pub instance: &'i Instance,
}

/// A run under way.
pub struct Live<'i> {
    problem: Problem<'i>,
    engine: Engine<'i>,
    keeper: Keeper,
    acts: Acts,
    clock: Clock,
    journal: Journal,
    arrivals: VecDeque<(Time, RequestId)>,
    wakes: BinaryHeap<Reverse<Time>>,
    outputs: Written,
    failures: Vec<Failure>,
    /// Backends that do not answer, and since when.
    down: FxHashMap<usize, Time>,
    unfit: Unfit,
    patience: Patience,
    messages: mpsc::UnboundedReceiver<Message>,
    news: Vec<News>,
    effects: Vec<Effect>,
    /// Work was left when the run was taken up again: the policy is asked before anything happens.
    resumed: bool,
}

/// What the tasks wrote.
#[derive(Default)]
struct Written(BTreeMap<TaskId, Map<String, Value>>);

impl Outputs for Written {
    fn of(&self, task: TaskId) -> Option<&Map<String, Value>> {
        self.0.get(&task)
    }
}

/// Something that happened, and why, where it went wrong.
struct Happening {
    event: Event,
    why: Option<String>,
}

impl From<Event> for Happening {
    fn from(event: Event) -> Happening {
        Happening { event, why: None }
    }
}

impl<'i> Live<'i> {
    /// A run that has not begun.
    #[must_use]
    pub fn new(
        problem: Problem<'i>,
        fleet: Fleet,
        clock: Clock,
        journal: Journal,
        patience: Patience,
    ) -> Live<'i> {
        let (sender, messages) = mpsc::unbounded_channel();
        let requests = problem.instance.requests.iter_enumerated();
        let mut arrivals: Vec<_> = requests.map(|(id, request)| (request.arrival, id)).collect();
        arrivals.sort_unstable();
        Live {
            problem,
            engine: Engine::new(problem.instance, patience.max_attempts),
            keeper: Keeper::default(),
            acts: Acts::new(fleet, clock.clone(), patience.clone(), sender),
            clock,
            journal,
            arrivals: arrivals.into(),
            wakes: BinaryHeap::new(),
            outputs: Written::default(),
            failures: Vec::new(),
            down: FxHashMap::default(),
            unfit: Unfit::default(),
            patience,
            messages,
            news: Vec::new(),
            effects: Vec::new(),
            resumed: false,
        }
    }

    /// Runs to the end. `watch` is shown the state after every step; where it says `false`, the run stops, to be resumed.
    pub async fn run(
        mut self,
        policy: &mut dyn Policy,
        watch: &mut dyn FnMut(&View<'_>) -> bool,
    ) -> Result<Finished, LiveError> {
        if std::mem::take(&mut self.resumed) {
            self.step(Vec::new(), policy)?;
        }
        while !self.engine.is_done() {
            let happened = self.wait().await?;
            // Woken for nothing, by a moment that nobody waits for any more: the policy is not asked.
            if happened.is_empty() {
                self.act();
                continue;
            }
            self.step(happened, policy)?;
            if !watch(&self.engine.view()) {
                return Err(LiveError::Interrupted { left: self.engine.open_tasks() });
            }
        }
        self.acts.stop_all();
        Ok(Finished { log: self.engine.into_log(), outputs: self.outputs.0, failures: self.failures })
    }

    /// Waits until something happens, and takes in everything that has happened by then.
    async fn wait(&mut self) -> Result<Vec<Happening>, LiveError> {
        let mut happened = Vec::new();
        let arrival = self.arrivals.front().map_or(Time::NEVER, |&(at, _)| at);
        let wake = self.wakes.peek().map_or(Time::NEVER, |&Reverse(at)| at);
        let gives_up = self.gives_up_at();
        let timer = arrival.min(wake).min(gives_up);
        let clock = self.clock.clone();
        tokio::select! {
            biased;
            message = self.messages.recv() => {
                message.into_iter().for_each(|message| self.take(message, &mut happened));
            }
            () = clock.sleep_until(timer), if timer != Time::NEVER => {}
            somebody_woke = clock.advance() => if !somebody_woke {
                return Err(LiveError::Stalled { at: self.clock.now(), left: self.engine.open_tasks() });
            },
        }
        self.clock.settle().await;
        while let Ok(message) = self.messages.try_recv() {
            self.take(message, &mut happened);
        }
        let now = self.clock.now();
        if gives_up <= now && happened.is_empty() {
            return Err(LiveError::NoBackends(
                self.patience.without_backends.seconds(),
                self.engine.open_tasks(),
            ));
        }
        while self.arrivals.front().is_some_and(|&(at, _)| at <= now) {
            let request = self.arrivals.pop_front().map(|(_, request)| request);
            happened.extend(request.map(|request| Event::Arrived(request).into()));
        }
        while self.wakes.peek().is_some_and(|&Reverse(at)| at <= now) {
            self.wakes.pop();
            happened.push(Event::Woken.into());
        }
        happened.sort_by_key(|happening| happening.event);
        Ok(happened)
    }

    /// When the run ends because no backend answers.
    fn gives_up_at(&self) -> Time {
        if self.down.len() < self.acts.fleet().members().len() {
            return Time::NEVER;
        }
        let last = self.down.values().max().copied().unwrap_or(Time::ZERO);
        last + self.patience.without_backends
    }

    /// Handles what happened, asks the policy, writes it all down, and then acts.
    fn step(&mut self, happened: Vec<Happening>, policy: &mut dyn Policy) -> Result<(), LiveError> {
        let now = self.clock.now();
        for (at, Happening { event, why }) in self.timed(now, happened) {
            self.journal.append(at, Entry::Event(event), why.as_deref())?;
            if let Some(why) = why {
                let tasks = self.fails_by(event);
                self.failures.extend(tasks.into_iter().map(|task| Failure { at, task, why: why.clone() }));
            }
            self.engine.handle(at, event);
            self.order();
        }
        self.ask(policy, now)?;
        self.journal.commit()?;
        self.act();
        Ok(())
    }

    /// What happened, each with its time: requests that arrived before this moment did so at their own, if nothing has been
    /// handled since.
    fn timed(&self, now: Time, happened: Vec<Happening>) -> Vec<(Time, Happening)> {
        let view = self.engine.view();
        let time_of = |happening: &Happening| match happening.event {
            Event::Arrived(request) => view.instance().requests[request].arrival.max(view.now()).min(now),
            _ => now,
        };
        let mut timed: Vec<_> = happened.into_iter().map(|one| (time_of(&one), one)).collect();
        timed.sort_by_key(|&(at, _)| at);
        timed
    }

    fn ask(&mut self, policy: &mut dyn Policy, at: Time) -> Result<(), LiveError> {
        self.engine.take_news(&mut self.news);
        let view = self.engine.view();
        for news in self.news.drain(..) {
            match news {
                News::Ready(task) => policy.ready(task, &view),
                News::Freed(gpus) => policy.freed(gpus, &view),
                News::Lost(gpu) => policy.lost(gpu, &view),
                News::Returned(gpu) => policy.returned(gpu, &view),
                News::GivenUp(task) => policy.given_up(task, &view),
            }
        }
        while let Some(decision) = policy.decide(&self.engine.view()) {
            self.journal.append(at, Entry::Decision(decision), None)?;
            self.engine.apply(decision).map_err(|why| LiveError::Rejected { at, why })?;
            self.order();
        }
        Ok(())
    }

    /// Turns what the engine wants into orders for the GPUs.
    fn order(&mut self) {
        self.engine.take_effects(&mut self.effects);
        let view = self.engine.view();
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Load { model, gpus, .. } if self.unfit.fits_nowhere(self.acts.fleet(), model) => {
                    self.acts.send(Message::Kept(Report::NotBrought(gpus)));
                }
                Effect::Load { model, gpus, span } => {
                    let replica = Replica { model, gpus };
                    let evict = makes_way(&view, &self.keeper, replica);
                    self.keeper.bring(replica, span, evict);
                }
                Effect::Execute { task, gpus } => {
                    self.keeper.run(task, Replica { model: view.instance().model_of(task), gpus });
                }
                Effect::AbortTask { task, gpus } => {
                    if !self.keeper.withdraw_run(task) && self.acts.cancel(task) {
                        let replica = Replica { model: view.instance().model_of(task), gpus };
                        self.keeper.done(Done::Called(task, replica), &mut Vec::new());
                    }
                }
                Effect::AbortLoad { gpus } => self.keeper.withdraw_bring(gpus),
                Effect::Wake { at } => self.wakes.push(Reverse(at)),
            }
        }
    }

    /// Does whatever can be done now.
    fn act(&mut self) {
        let mut reports = Vec::new();
        while let Some(act) = self.keeper.next(&mut reports) {
            let call = |task| {
                let Problem { scenario, instance } = self.problem;
                Arc::new(call_of(scenario, instance, &self.outputs, task))
            };
            self.acts.begin(act, call);
        }
        // What was there already is reported like what has just come.
        reports.into_iter().for_each(|report| self.acts.send(Message::Kept(report)));
    }

    fn take(&mut self, message: Message, happened: &mut Vec<Happening>) {
        let (mut reports, mut not_loaded) = (Vec::new(), None);
        match message {
            Message::Answer { task, ticket, replica, result } => {
                if !self.acts.is_current(task, ticket) {
                    return;
                }
                self.keeper.done(Done::Called(task, replica), &mut reports);
                happened.push(self.answered(task, result));
            }
            Message::Done { done, why } => {
                if let Some(why) = &why {
                    tracing::warn!("{done:?}: {why}");
                }
                self.keeper.done(done, &mut reports);
                not_loaded = why;
            }
            Message::Unfit { member, model, why } => self.unfit.add(member, model, why),
            Message::Kept(report) => reports.push(report),
            Message::Down { member, why } => self.goes_down(member, &why, happened),
            Message::Up { member } => {
                self.down.remove(&member);
                let gpus = self.acts.fleet().members()[member].gpus;
                happened.extend(gpus.iter().map(|gpu| Event::Returned(gpu).into()));
            }
        }
        let why = |lead: Option<GpuId>| {
            let reason = not_loaded.clone().or_else(|| self.why_unfit(lead?));
            let reason = reason.map_or(String::new(), |why| format!(": {why}"));
            Some(format!("its model could not be loaded{reason}"))
        };
        let reports: Vec<_> = reports.into_iter().map(|report| (why(report.lead()), report)).collect();
        for (why, report) in reports {
            match report {
                Report::Brought(gpus) => happened.push(Event::Loaded(gpus.first).into()),
                Report::NotBrought(gpus) => {
                    happened.push(Happening { event: Event::LoadFailed(gpus.first), why });
                }
                Report::CannotRun(task) => {
                    happened.push(Happening { event: Event::Failed(task), why });
                }
                Report::Broken(gpus) => self.is_broken(gpus, happened),
            }
        }
    }

    fn answered(&mut self, task: TaskId, result: Result<Value, BackendError>) -> Happening {
        match result {
            Ok(answer) => {
                let Problem { scenario, instance } = self.problem;
                let value = named(scenario, instance, task, answer);
                match self.journal.output(task, &value) {
                    Ok(()) => {
                        self.outputs.0.insert(task, value);
                        Event::Finished(task).into()
                    }
                    // A result that cannot be kept is no result; the next write says the same and ends the run.
                    Err(error) => Happening { event: Event::Failed(task), why: Some(error.to_string()) },
                }
            }
            Err(error) => Happening { event: Event::Failed(task), why: Some(error.to_string()) },
        }
    }

    /// A backend does not answer: its GPUs are out until it does.
    fn goes_down(&mut self, member: usize, why: &str, happened: &mut Vec<Happening>) {
        if self.down.contains_key(&member) {
            return;
        }
        let Some(out) = self.acts.fleet().members().get(member) else { return };
        tracing::warn!("{} is out: {why}", out.name);
        let gpus = out.gpus;
        self.down.insert(member, self.clock.now());
        self.keeper.forget(gpus);
        happened.extend(gpus.iter().map(|gpu| Happening { event: Event::Lost(gpu), why: None }));
        self.acts.revive(member);
    }

    fn is_broken(&mut self, gpus: Gpus, happened: &mut Vec<Happening>) {
        let members = self.acts.fleet().members();
        if let Some(member) = members.iter().position(|member| overlap(member.gpus, gpus)) {
            self.goes_down(member, "it would not unload a model", happened);
        }
    }
}

/// What has to leave for a replica to come: whatever on its GPUs the engine no longer counts on.
fn makes_way(view: &View<'_>, keeper: &Keeper, replica: Replica) -> Vec<Replica> {
    let goes = |other: &Replica| {
        let shared = other.gpus.iter().filter(|&gpu| replica.gpus.contains(gpu));
        *other != replica
            && overlap(other.gpus, replica.gpus)
            && shared.into_iter().any(|gpu| !view.holding(other.model).contains(gpu))
    };
    keeper.replicas().filter(goes).collect()
}
