//! What a decision costs: everything that a policy is told and asked between two starts, while 100,000 nodes wait.

#[path = "../../../app/benches/support/mod.rs"]
#[allow(dead_code)]
mod support;

use gswarm_core::engine::{Decision, View};
use gswarm_core::policy::{BuildContext, Policy, PolicyKind};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::{GpuId, Gpus, TaskId};
use std::time::{Duration, Instant};

/// The fewest waiting nodes at which decisions are counted.
const WAITING: usize = 100_000;

/// A policy whose time is taken.
struct Timed<'p> {
    policy: Box<dyn Policy + 'p>,
    waiting: usize,
    spent: Duration,
    starts: u64,
}

impl Timed<'_> {
    fn time<T>(&mut self, work: impl FnOnce(&mut dyn Policy) -> T) -> T {
        let start = Instant::now();
        let result = work(&mut *self.policy);
        if self.waiting >= WAITING {
            self.spent += start.elapsed();
        }
        result
    }
}

impl Policy for Timed<'_> {
    fn ready(&mut self, task: TaskId, view: &View<'_>) {
        self.time(|policy| policy.ready(task, view));
        self.waiting += 1;
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let decision = self.time(|policy| policy.decide(view));
        if matches!(decision, Some(Decision::Start { .. })) {
            self.starts += u64::from(self.waiting >= WAITING);
            self.waiting -= 1;
        }
        decision
    }

    fn freed(&mut self, gpus: Gpus, view: &View<'_>) {
        self.time(|policy| policy.freed(gpus, view));
    }

    fn lost(&mut self, gpu: GpuId, view: &View<'_>) {
        self.policy.lost(gpu, view);
    }

    fn given_up(&mut self, task: TaskId, view: &View<'_>) {
        self.policy.given_up(task, view);
    }
}

/// A million nodes of the `complex` preset, all there at the start, on 1,024 GPUs.
pub fn decisions() {
    let instance = support::complex_instance(1_000_000, 1024);
    for kind in [PolicyKind::Baseline, PolicyKind::Adaptive] {
        let policy = kind.build(&instance, &BuildContext::default());
        let mut timed = Timed { policy, waiting: 0, spent: Duration::ZERO, starts: 0 };
        let before = support::cpu_time();
        simulate(&instance, &mut timed, &SimOptions::default(), &mut |_| {}).expect("it ends");
        let run = (support::cpu_time() - before).as_secs_f64() * 1e6 / instance.tasks() as f64;
        let each = timed.spent.as_secs_f64() * 1e6 / timed.starts as f64;
        println!(
            "{}: {each:.2} microseconds a decision by the clock, {} of them with {WAITING} nodes waiting or more; \
             the whole run, engine included: {run:.2} microseconds of CPU a node",
            kind.name(),
            timed.starts,
        );
    }
}
