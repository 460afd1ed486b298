//! What a decision costs: 10,000 tasks on four GPUs and the CPU under overload, when queues are longest.
//! The time of a run over its tasks is that of a decision and of everything that the engine does for it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gswarm_learn::profile::described;
use gswarm_learn::tasks::{Arrivals, Estimates, Machine, Options, PolicyKind, Settings, generate, schedule};

fn decisions(criterion: &mut Criterion) {
    let profile = described();
    let options = Options { arrivals: Arrivals::Load(1.5), ..Options::default() };
    let workload = generate(&options, &profile).expect("a workload").workload;
    let estimates = Estimates::of_profile(&workload, &profile).expect("estimates");
    let machine = Machine::of(&profile, options.gpus);
    let mut group = criterion.benchmark_group("decisions");
    group.throughput(Throughput::Elements(u64::from(options.tasks))).sample_size(10);
    for policy in
        [PolicyKind::EarliestFinish, PolicyKind::Heft, PolicyKind::WorkStealing, PolicyKind::Learned]
    {
        group.bench_function(policy.name(), |bench| {
            bench.iter(|| schedule(&workload, &machine, &estimates, policy, Settings::default()));
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
