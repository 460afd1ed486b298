//! The servers of a run: the health of each, and the tasks that wait for them. A request waits for
//! unhealthy servers for one patience, however many wait with it and however many servers there are.

use super::acts::LONGEST_PAUSE;
use super::machine::{Book, Happening, Machine};
use crate::backend::Replica;
use crate::fleet::{Fleet, Member};
use crate::health::{ServerHealth, ServerState};
use gswarm_core::engine::{Event, TaskState};
use gswarm_core::{Gpus, ModelId, Span, TaskId, Time};
use rustc_hash::FxHashMap;

/// A server without faults for so long was well, whatever came before: it is asked again far more often.
const FORGIVEN: Span = Span(2 * LONGEST_PAUSE.0);

/// After so long without a server for a model, those who wait for the run are told; then again after twice as long each time.
const TOLD_AFTER: Span = Span(10_000_000);

/// A server of a run.
#[derive(Default)]
struct Known {
    health: ServerHealth,
    /// Since when it has been out of rotation, and why.
    left: Option<(Time, String)>,
    /// Models that it has failed since it last answered a call of them.
    faults: FxHashMap<ModelId, Fault>,
    /// Calls that it has answered.
    answered: u64,
    shown: Option<ServerState>,
}

/// That a server fails a model.
struct Fault {
    since: Time,
    last: Time,
    why: String,
}

/// How a server stands.
pub(crate) struct Standing<'s> {
    pub name: &'s str,
    pub gpus: Gpus,
    pub state: ServerState,
    /// Since when it has been out of rotation.
    pub left: Option<Time>,
    /// What is wrong with it.
    pub why: Option<&'s str>,
}

/// All servers of a run.
pub(super) struct Servers {
    known: Vec<Known>,
    /// Since when each task that a server has failed waits to be served.
    waits: FxHashMap<TaskId, Time>,
    /// When to look next whether somebody has waited too long.
    pub look: Time,
    /// Why nobody serves a model, in words.
    reasons: FxHashMap<ModelId, String>,
    /// Since when nobody has served a model, and after how long that is told next.
    told: FxHashMap<ModelId, (Time, Span)>,
    patience: Span,
}

impl Servers {
    pub fn new(fleet: &Fleet, patience: Span) -> Servers {
        Servers {
            known: fleet.members().iter().map(|_| Known::default()).collect(),
            waits: FxHashMap::default(),
            look: Time::NEVER,
            reasons: FxHashMap::default(),
            told: FxHashMap::default(),
            patience,
        }
    }

    pub fn health(&mut self, member: usize) -> &mut ServerHealth {
        &mut self.known[member].health
    }

    pub fn is_down(&self, member: usize) -> bool {
        self.known[member].left.is_some()
    }

    pub fn answered_by(&self, member: usize) -> u64 {
        self.known[member].answered
    }

    /// Since when no server at all has been in rotation.
    pub fn abandoned_since(&self) -> Option<Time> {
        let left = self.known.iter().map(|one| one.left.as_ref().map(|(since, _)| *since));
        left.collect::<Option<Vec<Time>>>().map(|all| all.into_iter().max().unwrap_or(Time::ZERO))
    }

    /// A server leaves rotation.
    pub fn leaves(&mut self, member: usize, now: Time, why: &str) {
        self.known[member].left = Some((now, why.to_owned()));
        self.look = self.look.min(now + self.patience);
    }

    pub fn is_back(&mut self, member: usize) {
        self.known[member].left = None;
        self.known[member].health.is_back();
    }

    /// A server failed something of a model, by its own fault.
    pub fn fails(&mut self, member: usize, model: ModelId, now: Time, why: &str) {
        let faults = &mut self.known[member].faults;
        let fault =
            faults.entry(model).or_insert_with(|| Fault { since: now, last: now, why: String::new() });
        if now.since(fault.last) > FORGIVEN {
            fault.since = now;
        }
        (fault.last, fault.why) = (now, why.to_owned());
    }

    /// A call was answered.
    pub fn answers(&mut self, member: usize, model: ModelId) {
        let known = &mut self.known[member];
        known.answered += 1;
        known.faults.remove(&model);
        known.health.answered();
    }

    /// A task waits to be served from now on, unless it did before.
    pub fn waits(&mut self, task: TaskId, now: Time) {
        self.waits.entry(task).or_insert(now);
    }

    /// A task is served, or nobody wants it any more.
    pub fn waits_no_more(&mut self, task: TaskId) {
        self.waits.remove(&task);
    }

    /// Since when no server has been well that serves a model, and which were waited for; where `left`, only if all of them
    /// are out of rotation.
    fn unserved(&self, fleet: &Fleet, model: ModelId, left: bool) -> Option<(Time, String)> {
        let (mut since, mut waited) = (Time::ZERO, Vec::new());
        for (member, known) in fleet.members().iter().zip(&self.known).filter(|(one, _)| serves(one, model)) {
            let fault = known.faults.get(&model);
            let began = fault.map(|fault| fault.since);
            let (at, why) = match (&known.left, fault) {
                (Some((left, why)), _) => (began.map_or(*left, |began| began.min(*left)), why),
                (None, Some(fault)) if !left => (fault.since, &fault.why),
                _ => return None,
            };
            since = since.max(at);
            waited.push(format!("{} ({}: {why})", member.name, known.health.state().name()));
        }
        (!waited.is_empty()).then(|| (since, waited.join(", ")))
    }

    /// When a task has waited for long enough, and what it is told then.
    fn limit(
        &self,
        fleet: &Fleet,
        model: ModelId,
        ready: Time,
        task: TaskId,
        left: bool,
    ) -> Option<(Time, String)> {
        let (since, waited) = self.unserved(fleet, model, left)?;
        let began = self.waits.get(&task).copied().unwrap_or(ready).max(since);
        let seconds = self.patience.seconds();
        Some((
            began + self.patience,
            format!("no server could serve it for {seconds:.0} s; waited for {waited}"),
        ))
    }

    /// What those who wait for the run are told of a model that nobody has served for long: for how long, and why.
    fn told_of(&mut self, fleet: &Fleet, model: ModelId, now: Time) -> Option<(Span, String)> {
        let (since, waited) = self.unserved(fleet, model, false)?;
        let (began, due) = self.told.entry(model).or_insert((since, TOLD_AFTER));
        if *began != since {
            (*began, *due) = (since, TOLD_AFTER);
        }
        let waits = now.since(since);
        (waits >= *due).then(|| {
            *due = waits.times(2.0);
            (waits, waited)
        })
    }

    /// Why nobody serves a model.
    pub fn reasons(&self) -> &FxHashMap<ModelId, String> {
        &self.reasons
    }

    pub fn standings<'s>(&'s self, fleet: &'s Fleet) -> impl Iterator<Item = Standing<'s>> {
        fleet.members().iter().zip(&self.known).map(|(member, known)| {
            let fault =
                || known.faults.values().max_by_key(|fault| fault.last).map(|fault| fault.why.as_str());
            let left = known.left.as_ref();
            Standing {
                name: &member.name,
                gpus: member.gpus,
                state: known.health.state(),
                left: left.map(|(since, _)| *since),
                why: left.map(|(_, why)| why.as_str()).or_else(fault),
            }
        })
    }

    /// Tells the numbers and the reasons anew where the state of a server has changed.
    pub fn note_changes(&mut self, fleet: &Fleet, models: usize) {
        let mut changed = false;
        for (member, known) in fleet.members().iter().zip(&mut self.known) {
            let state = known.health.state();
            if known.shown.replace(state) != Some(state) {
                changed = true;
                for one in ServerState::ALL {
                    let value = if one == state { 1.0 } else { 0.0 };
                    let (server, state) = (member.name.clone(), one.name());
                    metrics::gauge!("gswarm_server_state", "server" => server, "state" => state).set(value);
                }
            }
        }
        if changed {
            let unserved = |model| Some((model, self.unserved(fleet, model, false)?.1));
            let reasons = (0..models).map(ModelId::from).filter_map(unserved);
            self.reasons = reasons.map(|(model, waited)| (model, format!("waiting for {waited}"))).collect();
        }
    }
}

/// Whether a server has a model at all.
fn serves(member: &Member, model: ModelId) -> bool {
    member.models.as_ref().is_none_or(|models| models.contains(&model))
}

impl<B: Book> Machine<'_, B> {
    /// Whether a task has waited too long for a server, and what it is told then.
    pub(super) fn has_waited(&self, task: TaskId, now: Time, left: bool) -> Option<(Time, String)> {
        let view = self.engine.view();
        let (model, ready) = (view.instance().model_of(task), view.ready_at(task));
        let limit = self.servers.limit(self.acts.fleet(), model, ready, task, left)?;
        (left || limit.0 <= now).then_some(limit)
    }

    /// Those who have waited too long for servers that are out of rotation. Where no server is left at all and the run ends
    /// by that, nobody is given up.
    pub(super) fn give_up_waiting(&mut self, now: Time) -> Vec<Happening> {
        if now < self.servers.look {
            return Vec::new();
        }
        self.servers.look = Time::NEVER;
        if !self.servers.known.iter().any(|one| one.left.is_some()) {
            return Vec::new();
        }
        let mut next = now + self.servers.patience;
        let mut given_up = Vec::new();
        if !(self.ends_without_servers && self.servers.abandoned_since().is_some()) {
            let view = self.engine.view();
            for task in view.instance().task_ids() {
                if !matches!(view.state(task), TaskState::Ready | TaskState::Held) {
                    continue;
                }
                match self.has_waited(task, now, true) {
                    Some((limit, why)) if limit <= now => {
                        let (event, why) = (Event::Abandoned(task), Some(why));
                        given_up.push(Happening { event, why, may_pass: false });
                    }
                    Some((limit, _)) => next = next.min(limit),
                    None => {}
                }
            }
        }
        self.servers.look = next;
        given_up
    }

    /// Tells of tasks that wait for a server for long. Their calls may be retried in silence all the while.
    pub(super) fn tell_waits(&mut self, tasks: &[TaskId], now: Time) {
        let Some(&task) = tasks.first() else { return };
        let view = self.engine.view();
        let model = view.instance().model_of(task);
        if let Some((waits, waited)) = self.servers.told_of(self.acts.fleet(), model, now) {
            let (name, patience) = (&view.instance().models[model].name, self.servers.patience.seconds());
            tracing::warn!(
                "no server has served `{name}` for {:.0} s; waiting for {waited}; a request waits {patience:.0} s at most",
                waits.seconds()
            );
        }
    }

    /// The server of a replica failed something of it, by its own fault.
    pub(super) fn server_fails(&mut self, replica: Replica, why: &str) {
        if let Some(member) = self.acts.fleet().serves(replica) {
            let (now, name) = (self.clock.now(), self.acts.fleet().members()[member].name.clone());
            self.servers.fails(member, replica.model, now, why);
            metrics::counter!("gswarm_server_faults_total", "server" => name).increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatedBackend;
    use crate::clock::Clock;
    use std::sync::Arc;

    const MODEL: ModelId = ModelId(0);

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000)
    }

    /// A call may be retried for minutes on a server that never leaves rotation: that is told, and ever more rarely.
    #[test]
    fn a_long_wait_is_told_ever_more_rarely() {
        let backend = EmulatedBackend::new(Clock::virtual_clock(), vec![vec![1_000_000]]);
        let fleet = Fleet::of(Arc::new(backend), 1);
        let mut servers = Servers::new(&fleet, Span(600_000_000));
        let mut told = Vec::new();
        for second in 0..100 {
            servers.fails(0, MODEL, at(second), "503: not now");
            told.extend(servers.told_of(&fleet, MODEL, at(second)).map(|(waits, why)| {
                assert!(why.contains("503: not now"), "{why}");
                (second, waits.seconds())
            }));
        }
        assert_eq!(told, [(10, 10.0), (20, 20.0), (40, 40.0), (80, 80.0)]);
        // It answers, and the next wait is another one.
        servers.answers(0, MODEL);
        assert_eq!(servers.told_of(&fleet, MODEL, at(101)), None);
        servers.fails(0, MODEL, at(200), "503: not now");
        assert_eq!(servers.told_of(&fleet, MODEL, at(205)), None);
        assert!(servers.told_of(&fleet, MODEL, at(210)).is_some());
    }
}
