//! The cost of a decision: 10,000 tasks on 4, 256 and 1,024 GPUs and the CPU under overload, when queues are longest.
//! The time of a run divided by its tasks covers the decision and all that the engine does for it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gswarm_tasks::profile::described;
use gswarm_tasks::{
    Estimates, Machine, PolicySettings, TaskArrivals, TaskPolicy, WorkloadOptions, generate, schedule,
};

fn decisions(criterion: &mut Criterion) {
    [4, 256, 1024].into_iter().for_each(|gpus| decisions_on(gpus, criterion));
}

fn decisions_on(gpus: u32, criterion: &mut Criterion) {
    let profile = described();
    let options = WorkloadOptions { arrivals: TaskArrivals::Load(1.5), gpus, ..WorkloadOptions::default() };
    let workload = generate(&options, &profile).expect("a workload").workload;
    let estimates = Estimates::of_profile(&workload, &profile).expect("estimates");
    let machine = Machine::of(&profile, options.gpus);
    let mut group = criterion.benchmark_group(format!("decisions/{gpus}"));
    group.throughput(Throughput::Elements(u64::from(options.tasks))).sample_size(10);
    for policy in TaskPolicy::ALL {
        group.bench_function(policy.name(), |bench| {
            bench.iter(|| schedule(&workload, &machine, &estimates, policy, PolicySettings::default()));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
