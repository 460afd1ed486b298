//! A run that ends at any moment is taken up from its journal: nothing is lost, nothing is done twice.

use crate::support::*;
use std::collections::BTreeMap;

/// Runs, stopping after `stops` steps each time, until it is done.
async fn in_pieces(kind: PolicyKind, stops: &[usize]) -> FinishedRun {
    let scenario = scenario(18, true);
    let instance = instance(&scenario, 4, Mode::Offline, kind);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let mut left_stops = stops.iter();
    let mut done_before: BTreeMap<TaskId, _> = BTreeMap::new();
    let mut first = true;
    loop {
        // Each piece begins at zero, as a fresh process would, and goes on where the journal ends.
        let clock = Clock::virtual_clock();
        let journal = if first {
            Journal::create(&path, Durability::Process, &[])
        } else {
            Journal::open(&path, Durability::Process)
        };
        let fleet = emulated(&instance, &clock);
        let mut live = Live::new(problem, fleet, clock, journal.unwrap(), Patience::default());
        let mut policy = kind.build(&instance, &BuildContext::default());
        if !first {
            live.restore(policy.as_mut()).unwrap();
        }
        first = false;
        let mut left = left_stops.next().copied();
        let mut watch = |_: &gswarm_core::engine::View<'_>| {
            left = left.map(|left| left.saturating_sub(1));
            left != Some(0)
        };
        match live.run(policy.as_mut(), &mut watch).await {
            Ok(finished) => {
                for (task, output) in done_before {
                    assert_eq!(finished.outputs.get(&task), Some(&output), "a result that was there is kept");
                    let completed = finished.log.executions.iter().filter(|one| one.task == task);
                    assert_eq!(completed.filter(|one| one.status == Status::Completed).count(), 1);
                }
                assert_eq!(finished.outputs.len(), instance.tasks());
                let found = check::check_log(&instance, &finished.log, None);
                assert_eq!(found, [], "{} after {stops:?}: {:#?}", kind.name(), finished.log);
                return finished;
            }
            Err(LiveError::Interrupted { .. }) => {
                let journal = Journal::open(&path, Durability::Process).unwrap();
                done_before = journal.outputs().unwrap().into_iter().collect();
            }
            Err(error) => panic!("{}: {error}", kind.name()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_anywhere_ends_as_if_it_had_not_been() {
    for &kind in PolicyKind::ALL {
        let whole = in_pieces(kind, &[]).await;
        for cut in [1, 2, 3, 5, 8, 13, 21, 34] {
            let cut_short = in_pieces(kind, &[cut, cut]).await;
            assert_eq!(cut_short.outputs, whole.outputs, "{} cut at {cut}", kind.name());
        }
    }
}
