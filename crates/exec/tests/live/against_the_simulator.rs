//! Under a virtual clock, with backends that take exactly the time that is expected, a live run gives the simulator's log.

use crate::support::*;
use gswarm_core::sim::{SimOptions, simulate};

async fn agree(kind: PolicyKind, mode: Mode, batching: bool) {
    let scenario = scenario(24, batching);
    let instance = instance(&scenario, 4, mode, kind);
    let context = BuildContext::default();
    let expected =
        simulate(&instance, &mut *kind.build(&instance, &context), &SimOptions::default(), &mut |_| {})
            .unwrap();
    let (_folder, journal) = journal();
    let clock = Clock::virtual_clock();
    let fleet = emulated(&instance, &clock);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let live = Live::new(problem, fleet, clock, journal, Patience::default());
    let finished = live.run(&mut *kind.build(&instance, &context), &mut |_| true).await.unwrap();
    assert_eq!(finished.outputs.len(), instance.tasks());
    assert_eq!(check::check_log(&instance, &finished.log, None), []);
    assert_same(finished.log, expected, kind);
}

#[tokio::test(start_paused = true)]
async fn every_policy_does_live_what_it_does_in_the_simulator() {
    for (kind, mode, batching) in cases() {
        agree(kind, mode, batching).await;
    }
}
