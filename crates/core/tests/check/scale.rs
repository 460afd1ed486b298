//! Many executions. `cargo bench --bench large` measures a million of them.

use crate::support::*;
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::ExecutionLog;

/// Chains of two nodes, each on the GPU of its model pair, back to back.
fn chains(requests: usize, gpus: u32) -> (Instance, ExecutionLog) {
    let scenario = (0..requests)
        .fold(
            Scenario::builder()
                .model("a", 1, 14.0, 30.0)
                .model("b", 1, 10.0, 20.0)
                .workflow("chain")
                .node("x", "a")
                .node("y", "b")
                .edge("x", "y"),
            |builder, id| builder.request(&format!("req_{id:06}"), "chain").times(&[1.5, 2.25]),
        )
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(gpus, Some(8)), Mode::Offline).unwrap();
    let mut free = vec![0.0f64; gpus as usize];
    let mut executions = Vec::with_capacity(2 * requests);
    for id in 0..requests as u32 {
        let gpu = id % gpus;
        let now = &mut free[gpu as usize];
        let first = if *now == 0.0 { 30.0 } else { 3.5 };
        let end = *now + first + 1.5;
        executions.push(ran(2 * id, (gpu, 1), 0.0, first, end - 1.5, end));
        executions.push(ran(2 * id + 1, (gpu, 1), end, 3.5, end + 3.5, end + 5.75));
        *now = end + 5.75;
    }
    (instance, ExecutionLog { executions, ..ExecutionLog::default() })
}

#[test]
fn a_thousand_requests_are_valid() {
    let (instance, log) = chains(1000, 16);
    assert_valid(&instance, &log);
}
