//! The state machine of every live run: events of backends go to the engine, the policy decides, the journal is
//! written, and only then the backends act.

use super::acts::{Acts, Message};
use super::losses::Losses;
use super::pauses::Pauses;
use super::servers::{Servers, Standing};
use super::unfit::Unfit;
use super::{LiveError, Patience};
use crate::backend::{Backend, BackendError, Replica};
use crate::clock::Clock;
use crate::fleet::{Fleet, Member};
use crate::health::{Beside, ServerState, ServerWork};
use crate::journal::JournalError;
use crate::keeper::{GpuAct, GpuDone, GpuKeeper, GpuReport};
use crate::replica::overlap;
use crate::work::ReplicaCall;
use gswarm_core::engine::{Decision, Driver, Effect, Engine, Event, News, Rejected, TaskState, View};
use gswarm_core::policy::Policy;
use gswarm_core::{GpuId, Gpus, ModelId, RequestId, Span, TaskId, Time};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a machine knows nothing of: what the tasks ask for, and where all that happens is written down.
pub(crate) trait Book {
    /// What to do for a task.
    fn work(&self, view: &View<'_>, task: TaskId) -> ReplicaCall;

    /// A task was answered: the answer is kept, or the task has not been done.
    fn answered(&mut self, view: &View<'_>, task: TaskId, answer: Value) -> Result<(), JournalError>;

    /// Something happened; and, where it went wrong, why, and what that fails.
    fn event(
        &mut self,
        view: &View<'_>,
        at: Time,
        event: Event,
        trouble: Option<Trouble<'_>>,
    ) -> Result<(), JournalError>;

    /// The policy decided something; it is done once all is [written](Book::commit).
    fn decision(&mut self, view: &View<'_>, at: Time, decision: Decision) -> Result<(), JournalError>;

    /// What the policy is told is told here too.
    fn news(&mut self, _view: &View<'_>, _news: News) {}

    /// A backend is out, or back again.
    fn backend(&mut self, _name: &str, _trouble: Option<&str>) {}

    /// Everything since the last commit counts, or nothing of it.
    fn commit(&mut self) -> Result<(), JournalError>;
}

/// What went wrong.
#[derive(Clone, Copy)]
pub(crate) struct Trouble<'t> {
    pub why: &'t str,
    /// The tasks that it fails.
    pub fails: &'t [TaskId],
}

/// Something that happened, and why, where it went wrong.
pub(crate) struct Happening {
    pub event: Event,
    pub why: Option<String>,
    /// Another time it may do: what failed waits before it is tried again.
    pub may_pass: bool,
}

impl From<Event> for Happening {
    fn from(event: Event) -> Happening {
        Happening { event, why: None, may_pass: false }
    }
}

pub(crate) struct Machine<'i, B> {
    pub engine: Engine<'i>,
    pub book: B,
    pub clock: Clock,
    keeper: GpuKeeper,
    pub(super) acts: Acts,
    wakes: BinaryHeap<Reverse<Time>>,
    pub(super) pauses: Pauses,
    pub(super) losses: Losses,
    pub(super) servers: Servers,
    /// The run ends where no server is left for long enough, instead of giving up what waits.
    pub(super) ends_without_servers: bool,
    pub(super) unfit: Unfit,
    messages: mpsc::UnboundedReceiver<Message>,
    /// What has been taken in and not been handled. Here, so that nothing is lost where a wait is broken off.
    happened: Vec<Happening>,
}

impl<'i, B: Book> Machine<'i, B> {
    pub fn new(engine: Engine<'i>, book: B, fleet: Fleet, clock: Clock, patience: Patience) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        Machine {
            engine,
            book,
            keeper: GpuKeeper::default(),
            pauses: Pauses::new(patience.backoff),
            servers: Servers::new(&fleet, patience.for_servers),
            ends_without_servers: false,
            acts: Acts::new(fleet, clock.clone(), patience, sender),
            clock,
            wakes: BinaryHeap::new(),
            losses: Losses::default(),
            unfit: Unfit::default(),
            messages,
            happened: Vec::new(),
        }
    }

    /// Since when no backend at all has answered.
    pub fn abandoned_since(&self) -> Option<Time> {
        self.servers.abandoned_since()
    }

    /// How each server stands.
    pub fn standings(&self) -> impl Iterator<Item = Standing<'_>> {
        self.servers.standings(self.acts.fleet())
    }

    /// Why nobody serves a model, for those that nobody does.
    pub fn reasons(&self) -> &FxHashMap<ModelId, String> {
        self.servers.reasons()
    }

    /// The servers that are out of rotation, and why.
    pub fn waited_for(&self) -> String {
        let out = self.standings().filter(|one| one.left.is_some());
        let told = out.map(|one| format!("{} ({})", one.name, one.why.unwrap_or_default()));
        told.collect::<Vec<_>>().join(", ")
    }

    /// The files with what the processes that serve a model said last.
    pub fn outputs(&self, model: ModelId) -> Vec<std::path::PathBuf> {
        self.acts.fleet().outputs(model)
    }

    /// Those that are not known to be out.
    pub fn up(&self) -> Vec<Arc<dyn Backend>> {
        let members = self.acts.fleet().members().iter().enumerate();
        members
            .filter(|(at, _)| !self.servers.is_down(*at))
            .map(|(_, one)| Arc::clone(&one.backend))
            .collect()
    }

    /// Waits until something happens, or until a moment. It may be broken off at any time: nothing is lost.
    pub async fn wait(&mut self, until: Time) -> Result<(), LiveError> {
        if !self.happened.is_empty() {
            return Ok(());
        }
        let wake = self.wakes.peek().map_or(Time::NEVER, |&Reverse(at)| at);
        let timer = until.min(wake).min(self.pauses.next()).min(self.servers.look);
        let clock = self.clock.clone();
        tokio::select! {
            biased;
            message = self.messages.recv() => if let Some(message) = message {
                self.take(message);
            },
            () = clock.sleep_until(timer), if timer != Time::NEVER => {}
            somebody_woke = clock.advance() => if !somebody_woke {
                return Err(LiveError::Stalled { at: self.clock.now(), left: self.engine.open_tasks() });
            },
        }
        self.clock.settle().await;
        Ok(())
    }

    /// Everything that has happened by now.
    pub fn happened(&mut self) -> Vec<Happening> {
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        let now = self.clock.now();
        while self.wakes.peek().is_some_and(|&Reverse(at)| at <= now) {
            self.wakes.pop();
            self.happened.push(Event::Woken.into());
        }
        while let Some(task) = self.pauses.over(now) {
            self.happened.push(Event::Released(task).into());
        }
        let given_up = self.give_up_waiting(now);
        self.happened.extend(given_up);
        std::mem::take(&mut self.happened)
    }

    /// Handles what happened, asks the policy, writes it all down, and then acts.
    pub fn step(&mut self, mut happened: Vec<Happening>, policy: &mut dyn Policy) -> Result<(), LiveError> {
        happened.sort_by_key(|happening| happening.event);
        let now = self.clock.now();
        for (at, Happening { event, why, may_pass }) in self.timed(now, happened) {
            if is_overtaken(&self.engine.view(), event) {
                continue;
            }
            let fails = why.as_ref().map_or(Vec::new(), |_| self.fails_by(event));
            let deferred = self.defers_by(event);
            let trouble = why.as_deref().map(|why| Trouble { why, fails: &fails });
            self.book.event(&self.engine.view(), at, event, trouble)?;
            self.engine.handle(at, event);
            match event {
                Event::Finished(task) => {
                    self.pauses.went_well(self.engine.view().instance().model_of(task));
                    self.servers.waits_no_more(task);
                }
                Event::Arrived(request) => self.forget(request),
                Event::Deferred(_) | Event::LoadDeferred(_) => self.defer(at, &deferred)?,
                Event::Abandoned(task) => self.servers.waits_no_more(task),
                _ if may_pass => self.pause(at, &fails)?,
                _ => {}
            }
            self.carry_out_effects();
        }
        // Whatever is decided is decided now, also where what happened did so before, or nothing did.
        self.engine.handle(now, Event::Woken);
        self.ask(policy)?;
        self.book.commit()?;
        self.act();
        let models = self.engine.view().instance().models.len();
        self.servers.note_changes(self.acts.fleet(), models);
        Ok(())
    }

    /// Tasks that a server failed wait for another try; those that have waited too long are given up.
    fn defer(&mut self, at: Time, tasks: &[TaskId]) -> Result<(), LiveError> {
        self.tell_waits(tasks, at);
        let mut again = Vec::new();
        for &task in tasks {
            self.servers.waits(task, at);
            let Some((_, why)) = self.has_waited(task, at, false) else {
                again.push(task);
                continue;
            };
            let (event, fails) = (Event::Abandoned(task), [task]);
            self.book.event(&self.engine.view(), at, event, Some(Trouble { why: &why, fails: &fails }))?;
            self.engine.handle(at, event);
            self.servers.waits_no_more(task);
        }
        Ok(self.pause(at, &again)?)
    }

    /// A request is new: what its numbers stood for before is over.
    fn forget(&mut self, request: RequestId) {
        for task in self.engine.view().instance().tasks_of(request) {
            self.losses.forget(task);
            self.servers.waits_no_more(task);
        }
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

    /// Does whatever can be done now.
    pub fn act(&mut self) {
        let mut reports = Vec::new();
        let view = self.engine.view();
        while let Some(act) = self.keeper.next(&mut reports) {
            if let GpuAct::Load { replica, .. } = act
                && let Some(member) = self.acts.fleet().serves(replica)
            {
                self.servers.health(member).load_begins();
            }
            let goes_alone = |task| self.losses.is_suspect(task);
            self.acts.begin(act, |task| self.book.work(&view, task), goes_alone);
        }
        self.acts.begin_calls();
        // What was there already is reported like what has just come.
        reports.into_iter().for_each(|report| self.acts.send(Message::Kept(report)));
    }

    /// Nothing that was decided in the process that died is under way in this one.
    pub fn forget_orders(&mut self) {
        self.engine.take_effects();
        self.engine.take_news();
    }

    /// Ends all calls.
    pub fn stop(&mut self) {
        self.acts.stop_all();
    }

    fn take(&mut self, message: Message) {
        let (mut reports, mut not_loaded): (_, Option<BackendError>) = (Vec::new(), None);
        match message {
            Message::Answer { task, ticket, replica, result } => {
                if !self.acts.is_current(task, ticket) {
                    return;
                }
                self.keeper.done(GpuDone::Called(task, replica), &mut reports);
                self.note_call(task, replica, result.as_ref().err());
                match &result {
                    Err(BackendError::Gone(why)) => {
                        let (why, is_blamed) = (why.clone(), self.is_blamed(task, replica));
                        self.loses(replica, &why);
                        // It is lost with its GPUs, and has not failed.
                        if !is_blamed {
                            self.servers.waits(task, self.clock.now());
                            return;
                        }
                    }
                    Err(error @ (BackendError::Unwell(_) | BackendError::Crashed(_)))
                        if !self.is_at_fault(task, replica, error) =>
                    {
                        let (event, why) = (Event::Deferred(task), Some(error.to_string()));
                        self.happened.push(Happening { event, why, may_pass: true });
                        return;
                    }
                    _ => {}
                }
                let happening = self.answered(task, result);
                self.happened.push(happening);
            }
            Message::Done { done, why } => {
                if let Some(why) = &why {
                    tracing::warn!("{}: {why}", self.told(&done));
                }
                self.keeper.done(done, &mut reports);
                self.note_load(done);
                match (done, &why) {
                    (GpuDone::LoadFailed(replica), Some(BackendError::Gone(why))) => {
                        self.loses(replica, why);
                        if !reports.is_empty() && !self.losses.of_load(replica.model) {
                            return;
                        }
                    }
                    (
                        GpuDone::LoadFailed(replica),
                        Some(error @ (BackendError::Unwell(_) | BackendError::TimedOut(_))),
                    ) => {
                        self.server_fails(replica, &error.to_string());
                        self.judge(ServerWork::Load(replica.model), replica, error);
                    }
                    _ => {}
                }
                not_loaded = why;
            }
            Message::Unfit { member, model, why } => self.unfit.add(member, model, why),
            Message::Kept(report) => reports.push(report),
            Message::Up { member } => {
                self.servers.is_back(member);
                let member = &self.acts.fleet().members()[member];
                tracing::warn!("{} is back", member.name);
                self.book.backend(&member.name, None);
                self.happened.extend(member.gpus.iter().map(|gpu| Event::Returned(gpu).into()));
            }
        }
        let why = |lead: Option<GpuId>| {
            let said = not_loaded.as_ref().map(ToString::to_string);
            let reason = said.or_else(|| self.why_unfit(lead?));
            let reason = reason.map_or(String::new(), |why| format!(": {why}"));
            Some(format!("its model could not be loaded{reason}"))
        };
        let reports: Vec<_> = reports.into_iter().map(|report| (why(report.lead()), report)).collect();
        // What does not fit will not do so later, and what was on a backend that is out moves at once.
        let may_pass = matches!(not_loaded, Some(BackendError::Failed(_) | BackendError::Refused(_)));
        let is_servers = matches!(not_loaded, Some(BackendError::Unwell(_) | BackendError::TimedOut(_)));
        for (why, report) in reports {
            match report {
                GpuReport::Brought(gpus) => self.happened.push(Event::Loaded(gpus.first).into()),
                GpuReport::NotBrought(gpus) => {
                    let (own, servers) = (Event::LoadFailed(gpus.first), Event::LoadDeferred(gpus.first));
                    let event = if is_servers { servers } else { own };
                    self.happened.push(Happening { event, why, may_pass });
                }
                GpuReport::CannotRun(task) => {
                    let event = if is_servers { Event::Deferred(task) } else { Event::Failed(task) };
                    self.happened.push(Happening { event, why, may_pass });
                }
                GpuReport::Broken(gpus) => self.is_broken(gpus),
            }
        }
    }

    fn answered(&mut self, task: TaskId, result: Result<Value, BackendError>) -> Happening {
        match result {
            Ok(answer) => match self.book.answered(&self.engine.view(), task, answer) {
                Ok(()) => {
                    self.losses.forget(task);
                    Event::Finished(task).into()
                }
                // A result that cannot be kept is no result; the next write says the same and ends the run.
                Err(why) => {
                    Happening { event: Event::Failed(task), why: Some(why.to_string()), may_pass: false }
                }
            },
            Err(error) => {
                // However often it were asked, the answer would be the same.
                let is_final = error.is_final();
                let event = if is_final { Event::Refused(task) } else { Event::Failed(task) };
                let may_pass = !is_final && !matches!(error, BackendError::Gone(_));
                Happening { event, why: Some(error.to_string()), may_pass }
            }
        }
    }

    /// A server that fails whatever it is asked is left alone for a while, once nothing runs there that it might yet answer.
    fn judge(&mut self, asked: ServerWork, replica: Replica, error: &BackendError) {
        let Some(member) = self.acts.fleet().serves(replica) else { return };
        // What is wrong with a request, or with a model, is not the server's fault; one that is gone is out anyway.
        if let BackendError::Gone(_) | BackendError::Refused(_) | BackendError::DoesNotFit(_) = error {
            return;
        }
        if self.servers.health(member).state() != ServerState::Suspect {
            tracing::warn!("{}: {error}; failed calls are retried", self.acts.fleet().members()[member].name);
        }
        let (is_called, elsewhere) = (self.acts.calls(member), self.may_go_elsewhere(member, replica));
        if let Some(leaves) = self.servers.health(member).failed(asked, Beside { is_called, elsewhere }) {
            let pause = self.pauses.of_server(leaves);
            self.is_out(member, &format!("consecutive calls failed: {error}"), pause);
        }
    }

    /// A call of a server has ended.
    fn note_call(&mut self, task: TaskId, replica: Replica, error: Option<&BackendError>) {
        let Some(member) = self.acts.fleet().serves(replica) else { return };
        match error {
            None => self.servers.answers(member, replica.model),
            Some(error) => {
                if let BackendError::Unwell(_) | BackendError::Crashed(_) = error {
                    self.server_fails(replica, &error.to_string());
                }
                self.judge(ServerWork::Call(task), replica, error);
            }
        }
    }

    /// A load or an unload has ended.
    fn note_load(&mut self, done: GpuDone) {
        let (GpuDone::Loaded(replica) | GpuDone::LoadFailed(replica) | GpuDone::Unloaded(replica)) = done
        else {
            return;
        };
        let is_there = matches!(done, GpuDone::Loaded(_));
        if is_there {
            self.losses.was_loaded(replica.model);
        }
        let Some(member) = self.acts.fleet().serves(replica) else { return };
        match done {
            GpuDone::Unloaded(_) => self.servers.health(member).unloaded(),
            _ => self.servers.health(member).load_ends(replica.model, is_there),
        }
    }

    /// Whether a server fails this call alone, again and again, while it answers others, or crashes under it.
    fn is_at_fault(&mut self, task: TaskId, replica: Replica, error: &BackendError) -> bool {
        let Some(member) = self.acts.fleet().serves(replica) else { return true };
        if let BackendError::Crashed(_) = error {
            return self.losses.of_calls(task, &[]) && !self.acts.calls(member);
        }
        let answered = self.servers.answered_by(member);
        self.losses.of_fault(task, member, answered)
    }

    /// Whether another backend could do what this one does.
    fn may_go_elsewhere(&self, member: usize, replica: Replica) -> bool {
        let takes = |other: &Member| {
            let serves = other.models.as_ref().is_none_or(|models| models.contains(&replica.model));
            serves && other.reach >= replica.gpus.count
        };
        let mut members = self.acts.fleet().members().iter().enumerate();
        members.any(|(number, other)| number != member && !self.servers.is_down(number) && takes(other))
    }

    /// What has ended, in words.
    fn told(&self, done: &GpuDone) -> String {
        let view = self.engine.view();
        let of = |replica: &Replica| {
            let (first, last) = (replica.gpus.first.0, replica.gpus.first.0 + replica.gpus.count - 1);
            let gpus = if first == last { format!("GPU {first}") } else { format!("GPUs {first}-{last}") };
            format!("`{}` on {gpus}", view.instance().models[replica.model].name)
        };
        match done {
            GpuDone::Loaded(replica) => format!("{} was loaded", of(replica)),
            GpuDone::LoadFailed(replica) => format!("{} could not be loaded", of(replica)),
            GpuDone::Unloaded(replica) => format!("{} was unloaded", of(replica)),
            GpuDone::UnloadFailed(replica) => format!("{} could not be unloaded", of(replica)),
            GpuDone::Called(_, replica) => format!("{} was called", of(replica)),
        }
    }

    /// A server has left rotation: its GPUs are out until it answers, asked for the first time after a pause.
    fn is_out(&mut self, member: usize, why: &str, pause: Span) {
        let Some(out) = self.acts.fleet().members().get(member) else { return };
        tracing::warn!("{} left rotation: {why}", out.name);
        self.book.backend(&out.name, Some(why));
        let gpus = out.gpus;
        self.servers.leaves(member, self.clock.now(), why);
        self.keeper.forget(gpus);
        let lost = gpus.iter().map(|gpu| Event::Lost(gpu).into());
        self.happened.extend(lost);
        self.acts.revive(member, pause);
    }

    /// The server of a replica does not answer.
    fn loses(&mut self, replica: Replica, why: &str) {
        let Some(member) = self.acts.fleet().serves(replica) else { return };
        self.server_fails(replica, why);
        if self.servers.health(member).is_silent() {
            self.is_out(member, why, self.pauses.shortest());
        }
    }

    fn is_broken(&mut self, gpus: Gpus) {
        let members = self.acts.fleet().members();
        if let Some(member) = members.iter().position(|member| overlap(member.gpus, gpus))
            && self.servers.health(member).is_broken()
        {
            self.is_out(member, "it did not unload a model", self.pauses.shortest());
        }
    }
}

impl<'i, B: Book> Driver<'i> for Machine<'i, B> {
    type Error = LiveError;

    fn engine(&mut self) -> &mut Engine<'i> {
        &mut self.engine
    }

    fn before_news(&mut self, news: News) {
        self.book.news(&self.engine.view(), news);
    }

    fn before_decision(&mut self, decision: Decision) -> Result<(), LiveError> {
        let view = self.engine.view();
        Ok(self.book.decision(&view, view.now(), decision)?)
    }

    fn rejected(&mut self, why: Rejected) -> LiveError {
        LiveError::Rejected { at: self.engine.view().now(), why }
    }

    /// Turns what the engine wants into orders for the GPUs.
    fn carry_out(&mut self, effect: Effect) {
        let view = self.engine.view();
        match effect {
            Effect::Load { model, gpus, .. } if self.unfit.fits_nowhere(self.acts.fleet(), model) => {
                self.acts.send(Message::Kept(GpuReport::NotBrought(gpus)));
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
                    self.keeper.done(GpuDone::Called(task, replica), &mut Vec::new());
                }
            }
            Effect::AbortLoad { gpus } => self.keeper.withdraw_bring(gpus),
            Effect::Unload { model } => {
                let gone: Vec<Replica> = self.keeper.replicas().filter(|one| one.model == model).collect();
                self.keeper.clear(gone);
            }
            Effect::Wake { at } => self.wakes.push(Reverse(at)),
        }
    }
}

/// Whether an event is about something that is no longer so: a load, or a run, ended in the same moment in which its backend was
/// found to be out, and the loss of the GPUs was handled first.
fn is_overtaken(view: &View<'_>, event: Event) -> bool {
    match event {
        Event::Loaded(lead) | Event::LoadFailed(lead) | Event::LoadDeferred(lead) => {
            view.load_on(lead).is_none_or(|(_, gpus, _)| gpus.first != lead)
        }
        Event::Finished(task) | Event::Failed(task) | Event::Refused(task) | Event::Deferred(task) => {
            view.state(task) != TaskState::Running
        }
        Event::Abandoned(task) => !matches!(view.state(task), TaskState::Ready | TaskState::Held),
        _ => false,
    }
}

/// What has to leave for a replica to come: whatever on its GPUs the engine no longer counts on.
fn makes_way(view: &View<'_>, keeper: &GpuKeeper, replica: Replica) -> Vec<Replica> {
    let goes = |other: &Replica| {
        let shared = other.gpus.iter().filter(|&gpu| replica.gpus.contains(gpu));
        *other != replica
            && overlap(other.gpus, replica.gpus)
            && shared.into_iter().any(|gpu| !view.holding(other.model).contains(gpu))
    };
    keeper.replicas().filter(goes).collect()
}
