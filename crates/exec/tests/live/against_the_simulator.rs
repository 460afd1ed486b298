//! Under a virtual clock, with backends that take exactly the time that is expected, a live run gives the simulator's log.

use crate::support::{emulated, instance, scenario};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{check, log::ExecutionLog};
use gswarm_exec::clock::Clock;
use gswarm_exec::drive::{Live, Patience, Problem};
use gswarm_exec::journal::{Durability, Journal};

async fn agree(kind: PolicyKind, mode: Mode, batching: bool) {
    let scenario = scenario(24, batching);
    let instance = instance(&scenario, 4, mode, kind);
    let context = BuildContext::default();
    let expected =
        simulate(&instance, &mut *kind.build(&instance, &context), &SimOptions::default(), &mut |_| {})
            .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(&folder.path().join("journal"), Durability::Process, &[]).unwrap();
    let clock = Clock::virtual_clock();
    let fleet = emulated(&instance, &clock);
    let problem = Problem { scenario: &scenario, instance: &instance };
    let live = Live::new(problem, fleet, clock, journal, Patience::default());
    let finished = live.run(&mut *kind.build(&instance, &context), &mut |_| true).await.unwrap();
    assert_eq!(finished.outputs.len(), instance.tasks());
    assert_eq!(check::check_log(&instance, &finished.log, None), []);
    same(&finished.log, &expected, kind);
}

/// The order of records that end at the same microsecond carries no meaning.
fn sorted(log: &ExecutionLog) -> ExecutionLog {
    let mut log = log.clone();
    log.executions.sort_by_key(|one| (one.end, one.task));
    log
}

fn same(one: &ExecutionLog, other: &ExecutionLog, kind: PolicyKind) {
    let (one, other) = (sorted(one), sorted(other));
    for (one, other) in one.executions.iter().zip(&other.executions) {
        assert_eq!(one, other, "{}", kind.name());
    }
    assert_eq!(one, other, "{}", kind.name());
}

#[tokio::test(start_paused = true)]
async fn every_policy_does_live_what_it_does_in_the_simulator() {
    for &kind in PolicyKind::ALL {
        for mode in [Mode::Offline, Mode::Online] {
            if kind.supports(mode) {
                for batching in [false, true] {
                    agree(kind, mode, batching).await;
                }
            }
        }
    }
}
