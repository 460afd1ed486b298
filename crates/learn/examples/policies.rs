//! Policies on the described workload, by load: a quick look while a policy is worked on.
//! `cargo run --release -p gswarm-learn --example policies -- TASKS SEEDS`

use gswarm_learn::profile::described;
use gswarm_learn::tasks::{CompareOptions, Estimates, Options, PolicyKind, compare};

fn main() {
    let mut args = std::env::args().skip(1);
    let tasks = args.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let seeds = args.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let profile = described();
    let options = CompareOptions {
        workload: Options { tasks, ..Options::default() },
        loads: vec![0.5, 0.8, 0.95, 1.5],
        seeds: (1..=seeds).collect(),
        policies: PolicyKind::ALL.to_vec(),
        seconds_per_joule: 0.0,
    };
    let predict = |workload: &_| Estimates::of_profile(workload, &profile).map_err(|error| error.to_string());
    let found = compare(&options, &profile, &predict).expect("the comparison runs");
    for load in found.loads() {
        println!("load {load}");
        for policy in found.policies() {
            if let Some(s) = found.summary(load, policy) {
                println!(
                    "  {:16} {:9.3} +- {:6.3}  /clairvoyant {:.4}  /bound {:.4}  flow {:9.4}  {:6.2} us  best on {}",
                    policy.name(), s.makespan, s.deviation, s.to_clairvoyant, s.to_bound, s.flow, s.decision_us, s.best_on
                );
            }
        }
    }
}
