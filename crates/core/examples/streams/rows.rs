//! Figures of generated streams: a row for each stream and policy, and the sample that `gswarm` alone shows.

use crate::generated::Case;
use gswarm_core::Instance;
use gswarm_core::check::check_log;
use gswarm_core::generate::{Arrivals, Preset};
use gswarm_core::policy::{AdaptiveParams, BuildContext, Objective, PolicySpec};
use gswarm_core::report::metrics;
use gswarm_core::sim::{SimOptions, simulate};
use rayon::prelude::*;

const SAMPLE: Case =
    Case { preset: Preset::Complex, count: 100, gpus: 16, load: 1.0, arrivals: Arrivals::Poisson, seed: 1 };

/// Light to overloaded, for each of the seeds.
fn cases(seeds: std::ops::Range<u64>) -> Vec<(String, Instance)> {
    let mut cases = vec![("sample".to_owned(), SAMPLE.build_within(1200.0))];
    for seed in seeds {
        let arrivals = Arrivals::ALL[(seed % 3) as usize];
        for preset in Preset::ALL {
            for gpus in [8, 16, 32, 64] {
                for load in [0.5, 0.8, 1.0, 1.5, 3.0] {
                    let case = Case { preset, gpus, load, arrivals, seed, ..SAMPLE };
                    cases.push((case.to_string().replace(", ", " "), case.build()));
                }
            }
        }
    }
    cases
}

/// The policy of a name; `mean`, `p99` and `balanced` are `adaptive` with that objective.
pub fn policy(name: &str) -> Option<PolicySpec> {
    let objective = Objective::ALL.iter().copied().find(|one| one.name() == name);
    match objective {
        Some(objective) => {
            Some(PolicySpec::Adaptive(AdaptiveParams { objective, ..AdaptiveParams::default() }))
        }
        None => name.parse().ok().map(PolicySpec::default_of),
    }
}

/// `words` are the first seed, the one behind the last, and policies.
pub fn print(words: &[String]) {
    let seeds: Vec<u64> = words.iter().take(2).filter_map(|word| word.parse().ok()).collect();
    let policies: Option<Vec<_>> =
        words.iter().skip(2).map(|name| policy(name).map(|it| (name, it))).collect();
    let (&[first, last], Some(policies)) = (seeds.as_slice(), policies) else {
        return println!("rows FIRST LAST POLICY...: two seeds, and policies or mean, p99, balanced");
    };
    let rows = |(case, instance): &(String, Instance)| {
        let row = |(name, spec): &(&String, PolicySpec)| {
            let mut policy = spec.build(instance, &BuildContext::default());
            let log = simulate(instance, &mut *policy, &SimOptions::default(), &mut |_| {}).expect("it ends");
            assert!(check_log(instance, &log, None).is_empty(), "{case}, {name}");
            let found = metrics(instance, &log);
            let (latency, loads) = (&found.request_latency, found.model_switches + found.cold_loads);
            format!("{case},{name},{:.2},{:.2},{loads}\n", latency.mean, latency.p99)
        };
        policies.iter().map(row).collect::<String>()
    };
    println!("stream,policy,mean,P99,loads");
    cases(first..last).par_iter().map(rows).collect::<Vec<_>>().iter().for_each(|rows| print!("{rows}"));
}
