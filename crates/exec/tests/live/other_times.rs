//! Servers that take other times than was expected of them: a live run that learns gives the log of a simulation that is told
//! the same times and learns.

use crate::support::*;
use gswarm_core::belief::Recent;
use gswarm_core::check::check_run;
use gswarm_core::sim::{SimOptions, simulate_learning};
use gswarm_core::truth::{Noise, Truth, TruthSpec};
use gswarm_core::{Instance, Time};

/// Emulated servers whose calls take what they really take.
struct Otherwise {
    inner: EmulatedBackend,
    times: HashMap<String, Span>,
}

#[async_trait::async_trait]
impl Backend for Otherwise {
    async fn load(&self, replica: Replica, expected: Span) -> Result<(), BackendError> {
        self.inner.load(replica, expected).await
    }
    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        self.inner.unload(replica).await
    }
    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let call = Call { estimate: self.times[&call.name], ..call.clone() };
        self.inner.call(replica, &call).await
    }
    async fn reset(&self) -> Result<(), BackendError> {
        Ok(())
    }
}

fn servers(instance: &Instance, truth: &Truth, clock: &Clock) -> Fleet {
    let time = |task| (instance.task_name(task), truth.time(instance, task, Time::ZERO));
    let times = instance.task_ids().map(time).collect();
    let inner = emulated_backend(instance, clock);
    Fleet::of(Arc::new(Otherwise { inner, times }), instance.cluster.gpus)
}

async fn agree(kind: PolicyKind, mode: Mode, batching: bool) {
    let scenario = scenario(24, batching);
    let mut instance = instance(&scenario, 4, mode, kind);
    let spec = TruthSpec { noise: Noise::lognormal(0.4), seed: 9, ..TruthSpec::default() };
    let truth = Truth::new(&spec, &instance, &instance).unwrap();
    instance.models.iter_mut().for_each(|model| model.spread = 0.4);
    let context = BuildContext::default();
    let options = SimOptions { truth: truth.clone(), ..SimOptions::default() };
    let (mut policy, mut learner) = (kind.build(&instance, &context), Recent::new());
    let expected =
        simulate_learning(&instance, &mut *policy, Some(&mut learner), &options, &mut |_| {}).unwrap();
    assert_eq!(check_run(&instance, &truth, &expected, None), [], "{}", kind.name());
    let (_folder, journal) = journal();
    let clock = Clock::virtual_clock();
    let fleet = servers(&instance, &truth, &clock);
    let problem = LiveProblem { scenario: &scenario, instance: &instance };
    let mut live = Live::new(problem, fleet, clock, journal, Patience::default());
    live.learn_with(Box::new(Recent::new()));
    let log = live.run(&mut *kind.build(&instance, &context), &mut |_| true).await.unwrap().log;
    assert_same(log, expected, kind);
}

#[tokio::test(start_paused = true)]
async fn every_policy_does_live_what_it_does_in_the_simulator_when_times_are_others() {
    for (kind, mode, batching) in cases() {
        agree(kind, mode, batching).await;
    }
}
