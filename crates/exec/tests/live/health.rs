//! The health of a server, over all orders in which it can fail, fall silent, be probed and come back.

use crate::support::*;
use gswarm_core::ModelId;
use gswarm_exec::health::{Beside, ServerHealth, ServerState, ServerWork};
use stateright::{Checker, Model, Property};

/// What a server really does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Truth {
    Well,
    /// It answers, and fails whatever it is asked.
    Failing,
    Silent,
}

/// A run that asks one server. Whatever failed is asked again, or something new is.
struct World {
    /// How much is asked in all, and how much at once.
    asked: u32,
    at_once: usize,
    turns: u32,
    elsewhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    health: ServerHealth,
    truth: Truth,
    turns: u32,
    asked: u32,
    under_way: Vec<ServerWork>,
    failed: Vec<ServerWork>,
    /// Somebody asks whether it is back.
    is_probed: bool,
    was_unwell: bool,
    fault: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Turns(Truth),
    Begins(ServerWork),
    Ends(usize),
    Unloads,
    Probe,
}

impl State {
    fn leaves(&mut self) {
        if std::mem::replace(&mut self.is_probed, true) {
            self.fault = Some("it leaves twice");
        }
        if self.truth == Truth::Well && !self.was_unwell {
            self.fault = Some("it leaves and was always well");
        }
        // The run forgets what was under way there.
        self.under_way.clear();
    }

    fn ends(&mut self, asked: ServerWork, elsewhere: bool) {
        let is_called = self.under_way.iter().any(|other| matches!(other, ServerWork::Call(_)));
        if let ServerWork::Load(model) = asked {
            self.health.load_ends(model, self.truth == Truth::Well);
        }
        match (self.truth, asked) {
            (Truth::Well, ServerWork::Call(_)) => {
                self.health.answered();
                self.failed.clear();
                if self.health.state() == ServerState::Suspect {
                    self.fault = Some("an answer does not clear it of suspicion");
                }
            }
            (Truth::Well, ServerWork::Load(_)) => {}
            (Truth::Failing, _) => {
                self.failed.push(asked);
                let leaves = self.health.failed(asked, Beside { is_called, elsewhere });
                match leaves {
                    Some(leaves) if leaves.times == 0 || leaves.moves && !elsewhere => {
                        self.fault = Some("it leaves for no reason");
                    }
                    Some(_) => self.leaves(),
                    None if self.health.state() != ServerState::Suspect => {
                        self.fault = Some("it failed and is not suspect");
                    }
                    None => {}
                }
            }
            (Truth::Silent, _) => {
                if self.health.is_silent() {
                    self.leaves();
                }
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let state = |truth| State {
            health: ServerHealth::default(),
            truth,
            turns: 0,
            asked: 0,
            under_way: Vec::new(),
            failed: Vec::new(),
            is_probed: false,
            was_unwell: truth != Truth::Well,
            fault: None,
        };
        [Truth::Well, Truth::Failing, Truth::Silent].map(state).into()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.turns < self.turns {
            let others = [Truth::Well, Truth::Failing, Truth::Silent];
            actions.extend(others.into_iter().filter(|&other| other != state.truth).map(Action::Turns));
        }
        let may_ask = state.health.is_in_rotation() && state.under_way.len() < self.at_once;
        if may_ask && state.asked < self.asked {
            actions.push(Action::Begins(ServerWork::Call(TaskId(state.asked))));
            actions.push(Action::Begins(ServerWork::Load(ModelId(0))));
            let again = state.failed.last().filter(|failed| !state.under_way.contains(failed));
            actions.extend(again.map(|&failed| Action::Begins(failed)));
        }
        actions.extend((0..state.under_way.len()).map(Action::Ends));
        if state.health.state() == ServerState::Ready {
            actions.push(Action::Unloads);
        }
        if state.is_probed && state.truth != Truth::Silent {
            actions.push(Action::Probe);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Turns(truth) => {
                (state.truth, state.turns) = (truth, state.turns + 1);
                state.was_unwell |= truth != Truth::Well;
            }
            Action::Begins(asked) => {
                state.asked += 1;
                if let ServerWork::Load(_) = asked {
                    state.health.load_begins();
                }
                state.under_way.push(asked);
            }
            Action::Ends(at) => {
                let asked = state.under_way.remove(at);
                state.ends(asked, self.elsewhere);
            }
            Action::Unloads => state.health.unloaded(),
            Action::Probe => {
                state.is_probed = false;
                state.health.is_back();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let always = Property::<World>::always;
        let mut properties = vec![
            always("nothing is thought that must not be", |_, state: &State| state.fault.is_none()),
            // So whoever has left is asked for, and comes back once it answers.
            always("who is out of rotation is probed, and nobody else", |_, state: &State| {
                state.is_probed != state.health.is_in_rotation()
            }),
            always("its state says whether it is used", |_, state: &State| {
                let out = [ServerState::Starting, ServerState::Out, ServerState::Gone];
                out.contains(&state.health.state()) != state.health.is_in_rotation()
            }),
            always("who was always well is never suspected", |_, state: &State| {
                let well =
                    [ServerState::Unknown, ServerState::Ready, ServerState::Asleep, ServerState::Loading];
                state.was_unwell || well.contains(&state.health.state())
            }),
            always("who has left holds nothing when it is back", |_, state: &State| {
                !state.is_probed || state.under_way.is_empty()
            }),
        ];
        // Each state is one that a server can be in.
        macro_rules! reached {
            ($($state:ident)*) => {
                $(properties.push(Property::sometimes(stringify!($state), |_, state: &State| {
                    state.health.state() == ServerState::$state
                }));)*
            };
        }
        reached!(Unknown Starting Ready Asleep Loading Suspect Out Gone);
        properties
    }
}

fn check(world: World) -> usize {
    let checker = world.checker().spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn a_server_beside_others_is_left_when_it_fails_something_again() {
    assert!(check(World { asked: 5, at_once: 2, turns: 2, elsewhere: true }) > 1000);
}

#[test]
fn a_server_alone_is_left_when_it_fails_one_thing_after_the_other() {
    assert!(check(World { asked: 9, at_once: 1, turns: 2, elsewhere: false }) > 1000);
}
