//! Requests that are withdrawn while their tasks wait, are ready or run: no policy starts anything of them again, and
//! everything else is done.

use crate::properties::problem;
use crate::support::{SEED, makespan, run_all};
use gswarm_core::check::{ViolationCode, check_log};
use gswarm_core::log::Status;
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::sim::{InjectedFaults, SimOptions, simulate};
use gswarm_core::{GpuId, RequestId, Time};
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn what_was_withdrawn_is_not_started(
        problem in problem(),
        withdraw in proptest::collection::vec((0.0f64..1.0, any::<u32>()), 1..6),
        lose in proptest::option::of((0.0f64..1.0, any::<u32>())),
    ) {
        for &kind in PolicyKind::ALL.iter().filter(|kind| kind.supports(problem.mode)) {
            let instance = problem.build_for(kind);
            let whole = makespan(&run_all(&instance, kind)).0 as f64;
            let moment = |share: f64| Time((share * whole) as u64);
            let requests = instance.requests.len() as u32;
            let withdraw: Vec<_> = withdraw.iter().map(|&(share, id)| (moment(share), RequestId(id % requests))).collect();
            let gone: BTreeSet<RequestId> = withdraw.iter().map(|&(_, id)| id).collect();
            let lose: Vec<_> = lose.iter().map(|&(share, gpu)| (moment(share), GpuId(gpu % instance.cluster.gpus))).collect();
            let bring_back = lose.iter().map(|&(at, gpu)| (Time(at.0 + 5_000_000), gpu)).collect();
            let faults = InjectedFaults { withdraw: withdraw.clone(), lose, bring_back, ..InjectedFaults::default() };
            let spec = PolicySpec::default_of(kind).with_rounds(1);
            let options = SimOptions { faults, ..SimOptions::default() };
            let log = simulate(&instance, &mut *spec.build(&instance, &BuildContext::seeded(SEED)), &options, &mut |_| {});
            let log = log.map_err(|error| TestCaseError::fail(format!("{}: {error}", kind.name())))?;
            for (at, id) in withdraw {
                let late = log.executions.iter().find(|one| instance.request_of(one.task) == id && one.start > at);
                prop_assert!(late.is_none(), "{}: {late:?} of {id:?}, withdrawn at {at}", kind.name());
            }
            let violations = check_log(&instance, &log, None);
            let names: BTreeSet<&str> = gone.iter().map(|&id| instance.requests[id].name.as_str()).collect();
            let unexpected: Vec<_> = violations.iter().filter(|found| {
                let of_gone = found.place.request.as_deref().is_some_and(|name| names.contains(name));
                !(of_gone && found.code == ViolationCode::NodeMissing)
            }).collect();
            prop_assert!(unexpected.is_empty(), "{}: {unexpected:?}", kind.name());
            let done: BTreeSet<_> = log.executions.iter().filter(|one| one.status == Status::Completed).map(|one| one.task).collect();
            let left = instance.task_ids().find(|&task| !gone.contains(&instance.request_of(task)) && !done.contains(&task));
            prop_assert!(left.is_none(), "{}: {left:?} was not done", kind.name());
        }
    }
}
