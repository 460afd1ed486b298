//! Two runs side by side, by hand and under all policies.

use super::nodes::three;
use super::runs::{run, scenario};
use crate::support::*;
use gswarm_core::diff::{Diff, NodePlacement, RunSide, diff};
use gswarm_core::generate::Preset;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::PolicyKind;
use gswarm_core::sim::{InjectedFaults, SimOptions};

fn side(run: &(Instance, ExecutionLog)) -> RunSide<'_> {
    RunSide { instance: &run.0, log: &run.1 }
}

fn compared(first: &(Instance, ExecutionLog), second: &(Instance, ExecutionLog), top: usize) -> Diff {
    diff(side(first), side(second), top).unwrap()
}

fn figure(diff: &Diff, name: &str) -> (f64, f64) {
    let found = diff.figures.iter().chain(&diff.gpu_time).find(|figure| figure.name == name).unwrap();
    (found.first, found.second)
}

#[test]
fn what_moved_and_what_it_cost_follow_by_hand() {
    // All on GPU 0, in the order of arrival: a, b, a again. Or r2 on GPU 1 with a cold load of its own, and r3 straight after r1.
    let one = three(vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(1, (0, 1), 0.0, 3.5, 43.5, 48.5),
        ran(2, (0, 1), 0.0, 3.5, 52.0, 62.0),
    ]);
    let other = three(vec![
        ran(1, (1, 1), 0.0, 20.0, 20.0, 25.0),
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(2, (0, 1), 0.0, 0.0, 40.0, 50.0),
    ]);
    let found = compared(&one, &other, 1);
    assert_eq!(figure(&found, "Makespan"), (62.0, 50.0));
    assert_eq!(figure(&found, "Model switches"), (2.0, 0.0));
    assert_eq!(figure(&found, "Executing"), (25.0, 25.0));
    assert_eq!(figure(&found, "Loading"), (37.0, 50.0));
    assert_eq!(figure(&found, "Idle"), (62.0, 25.0));
    let nodes = &found.nodes;
    assert_eq!((nodes.in_both, nodes.unmoved, nodes.on_other_gpus), (3, 1, 1));
    assert_eq!((nodes.earlier, nodes.later, nodes.other_length), (2, 0, 0));
    assert!((nodes.earlier_by_seconds - (23.5 + 12.0) / 2.0).abs() < 1e-9);
    let apart = nodes.parts_at.as_ref().unwrap();
    assert_eq!((apart.node.as_str(), apart.model.as_str(), apart.at_seconds), ("r2/y", "b", 20.0));
    assert_eq!(apart.first, Some(NodePlacement { gpus: vec![0], start_seconds: 43.5, switch_seconds: 3.5 }));
    assert_eq!(
        apart.second,
        Some(NodePlacement { gpus: vec![1], start_seconds: 20.0, switch_seconds: 20.0 })
    );
    let requests = &found.requests;
    assert_eq!((requests.in_both, requests.sooner, requests.later), (3, 2, 0));
    let [gained] = requests.gained.as_slice() else { panic!("one was asked for: {:?}", requests.gained) };
    assert_eq!((gained.request.as_str(), gained.change_seconds), ("r2", -23.5));
    // It waited 40 s for its turn and 3.5 s for its load; then it waits for nothing but a load of 20 s.
    assert_eq!((gained.parts.waiting_seconds, gained.parts.switching_seconds), (-40.0, 16.5));
    let b = found.models.iter().find(|model| model.model == "b").unwrap();
    assert_eq!((b.loads, b.load_gpu_seconds), ([1, 1], [3.5, 20.0]));
}

#[test]
fn runs_of_all_policies_add_up_whichever_comes_first() {
    let scenario = scenario(Preset::Simple, 30, Mode::Offline);
    let faults = SimOptions {
        faults: InjectedFaults { fail_rate: 0.1, ..InjectedFaults::default() },
        ..SimOptions::default()
    };
    let before = run(&scenario, PolicyKind::Baseline, Mode::Offline, &SimOptions::default());
    for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(Mode::Offline)) {
        let after = run(&scenario, kind, Mode::Offline, &faults);
        let (there, back) = (compared(&before, &after, usize::MAX), compared(&after, &before, usize::MAX));
        assert_eq!(there.requests.gained.len(), back.requests.lost.len(), "{kind:?}");
        assert_eq!((there.nodes.earlier, there.nodes.later), (back.nodes.later, back.nodes.earlier));
        assert_eq!(
            (there.nodes.only_first, there.nodes.unmoved),
            (back.nodes.only_second, back.nodes.unmoved)
        );
        for one in there.requests.gained.iter().chain(&there.requests.lost) {
            let parts = one.parts;
            let sum = parts.waiting_seconds
                + parts.switching_seconds
                + parts.executing_seconds
                + parts.retrying_seconds;
            assert!((sum - one.change_seconds).abs() < 1e-5, "{kind:?}: {one:?}");
        }
        let [.., whole] = there.gpu_time.as_slice() else { panic!("no GPU time") };
        let parts: f64 = there.gpu_time[..3].iter().map(|part| part.second).sum();
        assert!((parts - whole.second).abs() < 1e-3, "{kind:?}");
        let same = compared(&after, &after, 5);
        assert!(same.nodes.parts_at.is_none() && same.models.is_empty(), "{kind:?}");
        assert!(same.requests.gained.is_empty() && same.requests.lost.is_empty());
    }
}

#[test]
fn runs_without_a_request_in_common_cannot_be_compared() {
    let first = run(
        &scenario(Preset::Simple, 5, Mode::Offline),
        PolicyKind::Lru,
        Mode::Offline,
        &SimOptions::default(),
    );
    let mut other = scenario(Preset::Simple, 5, Mode::Offline);
    other.requests.iter_mut().for_each(|request| request.id.insert(0, 'x'));
    let second = run(&other, PolicyKind::Lru, Mode::Offline, &SimOptions::default());
    assert!(diff(side(&first), side(&second), 5).is_none());
}
