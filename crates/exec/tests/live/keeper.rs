//! The keeper of the GPUs, over all orders in which things can happen.

use crate::support::*;
use gswarm_core::ModelId;
use gswarm_exec::keeper::{GpuAct, GpuDone, GpuKeeper, GpuReport};
use gswarm_exec::replica::overlap;
use stateright::{Checker, Model, Property};

fn replica(model: u32, first: u32, count: u32) -> Replica {
    Replica { model: ModelId(model), gpus: Gpus::new(first, count) }
}

/// What an engine would order, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Command {
    Bring(Replica, Vec<Replica>),
    Run(TaskId, Replica),
    Clear(Vec<Replica>),
    Cancel(TaskId),
    Abandon(Gpus),
    Lose(Gpus),
}

struct World {
    script: Vec<Command>,
    /// Whether loads and unloads may fail.
    failures: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    keeper: GpuKeeper,
    next: usize,
    /// What is under way outside.
    under_way: Vec<GpuAct>,
    /// What is really on the GPUs, whatever anybody thinks.
    there: Vec<Replica>,
    fault: Option<&'static str>,
    brought: usize,
    called: usize,
    given_up: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    Order,
    Ends(usize),
    Fails(usize),
}

impl World {
    fn acts(&self, state: &mut State, mut reports: Vec<GpuReport>) {
        while let Some(act) = state.keeper.next(&mut reports) {
            let calls = |replica: Replica| move |act: &GpuAct| matches!(act, GpuAct::Call { replica: other, .. } if *other == replica);
            match act {
                GpuAct::Unload(replica) => {
                    if state.under_way.iter().any(calls(replica)) {
                        state.fault = Some("unloaded under a call");
                    }
                    if state
                        .under_way
                        .iter()
                        .any(|act| matches!(act, GpuAct::Load { replica: other, .. } if *other == replica))
                    {
                        state.fault = Some("evicted while it loads");
                    }
                    if !state.there.contains(&replica) {
                        state.fault = Some("unloaded what is not there");
                    }
                }
                GpuAct::Load { replica, .. } => {
                    if state.there.iter().any(|other| overlap(other.gpus, replica.gpus)) {
                        state.fault = Some("loaded onto GPUs that hold something");
                    }
                }
                GpuAct::Call { replica, .. } => {
                    if !state.there.contains(&replica) {
                        state.fault = Some("called what is not there");
                    }
                }
            }
            state.under_way.push(act);
        }
        for report in reports {
            match report {
                GpuReport::Brought(_) => state.brought += 1,
                GpuReport::NotBrought(_) | GpuReport::CannotRun(_) => state.given_up += 1,
                GpuReport::Broken(gpus) => {
                    lose(state, gpus);
                    self.acts(state, Vec::new());
                }
            }
        }
    }
}

fn lose(state: &mut State, gpus: Gpus) {
    state.keeper.forget(gpus);
    state.there.retain(|replica| !overlap(replica.gpus, gpus));
    state.under_way.retain(|act| {
        let (GpuAct::Load { replica, .. } | GpuAct::Unload(replica) | GpuAct::Call { replica, .. }) = act;
        !overlap(replica.gpus, gpus)
    });
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (under_way, there) = (Vec::new(), Vec::new());
        let keeper = GpuKeeper::default();
        vec![State { keeper, next: 0, under_way, there, fault: None, brought: 0, called: 0, given_up: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.next < self.script.len() {
            actions.push(Action::Order);
        }
        for (at, act) in state.under_way.iter().enumerate() {
            actions.push(Action::Ends(at));
            if self.failures && !matches!(act, GpuAct::Call { .. }) {
                actions.push(Action::Fails(at));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let mut reports = Vec::new();
        match action {
            Action::Order => {
                match self.script[state.next].clone() {
                    Command::Bring(replica, mut evict) => {
                        let keeper = &state.keeper;
                        evict.retain(|&victim| keeper.replicas().any(|known| known == victim));
                        state.keeper.bring(replica, Span(1), evict);
                    }
                    Command::Clear(mut evict) => {
                        let keeper = &state.keeper;
                        evict.retain(|&victim| keeper.replicas().any(|known| known == victim));
                        state.keeper.clear(evict);
                    }
                    // An engine that was told of a failure calls nothing there.
                    Command::Run(task, replica) => {
                        let parts: Vec<Replica> =
                            state.keeper.replicas().filter(|part| part.model == replica.model).collect();
                        let covered = |gpu| parts.iter().any(|part| part.gpus.contains(gpu));
                        if replica.gpus.iter().all(covered) || state.keeper.expects(replica) {
                            state.keeper.run(task, replica);
                        }
                    }
                    Command::Cancel(task) => {
                        let under_way =
                            |act: &GpuAct| matches!(act, GpuAct::Call { task: other, .. } if *other == task);
                        if !state.keeper.withdraw_run(task)
                            && let Some(at) = state.under_way.iter().position(under_way)
                            && let GpuAct::Call { replica, .. } = state.under_way.remove(at)
                        {
                            state.keeper.done(GpuDone::Called(task, replica), &mut reports);
                        }
                    }
                    Command::Abandon(gpus) => state.keeper.withdraw_bring(gpus),
                    Command::Lose(gpus) => lose(&mut state, gpus),
                }
                state.next += 1;
            }
            Action::Ends(at) => {
                let done = match state.under_way.remove(at) {
                    GpuAct::Load { replica, .. } => {
                        state.there.push(replica);
                        GpuDone::Loaded(replica)
                    }
                    GpuAct::Unload(replica) => {
                        state.there.retain(|other| *other != replica);
                        GpuDone::Unloaded(replica)
                    }
                    GpuAct::Call { task, replica } => {
                        state.called += 1;
                        GpuDone::Called(task, replica)
                    }
                };
                state.keeper.done(done, &mut reports);
            }
            Action::Fails(at) => {
                let done = match state.under_way.remove(at) {
                    GpuAct::Load { replica, .. } => GpuDone::LoadFailed(replica),
                    GpuAct::Unload(replica) => GpuDone::UnloadFailed(replica),
                    GpuAct::Call { .. } => return None,
                };
                state.keeper.done(done, &mut reports);
            }
        }
        self.acts(&mut state, reports);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("nothing is done that must not be", |_, state: &State| state.fault.is_none()),
            // Where nothing is under way and nothing more is ordered, nothing waits: there is no deadlock, and since every
            // path is finite there is no loop of evicting and loading either.
            Property::always("nothing waits for ever", |world: &World, state: &State| {
                let over = state.under_way.is_empty() && state.next == world.script.len();
                !over || state.keeper.is_at_rest()
            }),
            Property::sometimes("it comes to an end", |world: &World, state: &State| {
                state.under_way.is_empty() && state.next == world.script.len()
            }),
        ]
    }
}

fn check(script: Vec<Command>) -> usize {
    let mut states = 0;
    for failures in [false, true] {
        let checker = World { script: script.clone(), failures }.checker().spawn_bfs().join();
        checker.assert_properties();
        states += checker.unique_state_count();
    }
    states
}

#[test]
fn models_take_turns_on_one_gpu() {
    let (a, b) = (replica(0, 0, 1), replica(1, 0, 1));
    let script = vec![
        Command::Bring(a, vec![]),
        Command::Run(TaskId(0), a),
        Command::Run(TaskId(1), a),
        Command::Bring(b, vec![a]),
        Command::Run(TaskId(2), b),
        Command::Bring(a, vec![b]),
        Command::Run(TaskId(3), a),
    ];
    assert!(check(script) > 20);
}

#[test]
fn wide_and_narrow_models_share_gpus() {
    let (wide, left, right) = (replica(0, 0, 2), replica(1, 0, 1), replica(2, 1, 1));
    let script = vec![
        Command::Bring(left, vec![]),
        Command::Bring(right, vec![]),
        Command::Run(TaskId(0), left),
        Command::Run(TaskId(1), right),
        Command::Bring(wide, vec![left, right]),
        Command::Run(TaskId(2), wide),
        Command::Bring(left, vec![wide]),
        Command::Bring(right, vec![wide]),
        Command::Run(TaskId(3), right),
        Command::Run(TaskId(4), left),
    ];
    assert!(check(script) > 50);
}

#[test]
fn what_is_taken_back_or_lost_holds_nobody_up() {
    let (wide, left, right) = (replica(0, 0, 2), replica(1, 0, 1), replica(2, 1, 1));
    let script = vec![
        Command::Bring(left, vec![]),
        Command::Run(TaskId(0), left),
        Command::Bring(wide, vec![left]),
        Command::Cancel(TaskId(0)),
        Command::Abandon(wide.gpus),
        Command::Bring(right, vec![wide]),
        Command::Run(TaskId(1), right),
        Command::Lose(Gpus::new(0, 1)),
        Command::Bring(left, vec![]),
        Command::Run(TaskId(2), left),
    ];
    assert!(check(script) > 50);
}

#[test]
fn models_leave_that_nothing_replaces() {
    let (wide, left, right) = (replica(0, 0, 2), replica(1, 0, 1), replica(2, 1, 1));
    let script = vec![
        Command::Bring(left, vec![]),
        Command::Bring(right, vec![]),
        Command::Run(TaskId(0), left),
        Command::Clear(vec![left, right]),
        Command::Bring(left, vec![]),
        Command::Run(TaskId(1), left),
        Command::Clear(vec![left]),
        Command::Bring(wide, vec![left, right]),
        Command::Run(TaskId(2), wide),
        Command::Clear(vec![wide]),
        Command::Lose(Gpus::new(1, 1)),
    ];
    assert!(check(script) > 50);
}

#[test]
fn a_model_that_is_there_in_parts_is_put_together_before_it_is_called() {
    let (first, second, across) = (replica(0, 0, 2), replica(0, 2, 2), replica(0, 1, 2));
    let script = vec![
        Command::Bring(first, vec![]),
        Command::Bring(second, vec![]),
        Command::Run(TaskId(0), across),
        Command::Run(TaskId(1), across),
    ];
    assert!(check(script) > 10);
}
