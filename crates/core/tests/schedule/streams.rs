//! `adaptive` against the yardsticks on real streams; skipped where the files are missing.

#[path = "../../examples/streams/gentd26.rs"]
mod gentd26;

use crate::adaptive::run_with;
use crate::real_files::{instance, published};
use crate::support::run_all;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{AdaptiveParams, Objective, PolicyKind};
use gswarm_core::report::{Metrics, metrics};
use gswarm_core::{Instance, Span};
use rstest::rstest;

const YARDSTICKS: [PolicyKind; 3] = [PolicyKind::Baseline, PolicyKind::Srpt, PolicyKind::Sticky];

fn adaptive(instance: &Instance, objective: Objective) -> Metrics {
    metrics(instance, &run_with(instance, &AdaptiveParams { objective, ..AdaptiveParams::default() }))
}

/// The last two figures: the best mean and P99 that throwaway prototypes of the same rules reached, where they are known.
#[rstest]
#[case("simple", 8, true, 3_620.0, 13_160.0)]
#[case("simple", 32, true, f64::INFINITY, f64::INFINITY)]
#[case("simple", 128, false, f64::INFINITY, f64::INFINITY)]
#[case("complex", 32, true, 8_168.0, 22_853.0)]
#[case("complex", 128, true, 1_269.0, 3_495.0)]
#[case("complex", 256, false, 207.0, 373.0)]
#[case("complex", 384, false, f64::INFINITY, f64::INFINITY)]
fn each_objective_holds_its_own(
    #[case] name: &str,
    #[case] gpus: u32,
    #[case] backlog: bool,
    #[case] known_mean: f64,
    #[case] known_p99: f64,
) {
    let Some(scenario) = published(name, Mode::Online) else { return };
    let instance = instance(&scenario, PolicyKind::Adaptive, gpus, Mode::Online);
    let others = YARDSTICKS.map(|kind| metrics(&instance, &run_all(&instance, kind)).request_latency);
    let best_mean = others.iter().map(|one| one.mean).fold(known_mean, f64::min);
    let best_p99 = others.iter().map(|one| one.p99).fold(known_p99, f64::min);
    let mean = adaptive(&instance, Objective::Mean).request_latency.mean;
    assert!(mean <= best_mean, "mean: {mean} against {best_mean}");
    let p99 = adaptive(&instance, Objective::P99).request_latency.p99;
    assert!(p99 <= best_p99, "p99: {p99} against {best_p99}");
    let balanced = adaptive(&instance, Objective::Balanced).request_latency;
    assert!(balanced.p99 <= 1.05 * best_p99, "balanced: {} against {best_p99}", balanced.p99);
    let fifo = others[0].mean;
    let allowed = if backlog { fifo } else { 1.02 * fifo };
    assert!(balanced.mean <= allowed, "balanced: {} against {fifo}", balanced.mean);
}

fn trace(seed: u64, gpus: u32) -> Option<Instance> {
    let Some(scenario) = gentd26::scenario(seed) else {
        gswarm_testing::skip("the GenTD26 trace is not beside the checkout");
        return None;
    };
    let Scenario { cluster, .. } = &scenario;
    let cluster = Cluster::from_spec(&ClusterSpec { gpus: Some(gpus), ..cluster.clone() }).unwrap();
    Some(Instance::build(&scenario, cluster, Mode::Online).unwrap())
}

fn loads(found: &Metrics) -> u64 {
    found.model_switches + found.cold_loads
}

fn assert_better(found: &Metrics, [others_loads, mean, p99]: [f64; 3], other: &str) {
    let (loads, latency) = (loads(found) as f64, &found.request_latency);
    assert!(loads < others_loads, "{loads} against {others_loads} loads of {other}");
    assert!(latency.mean < mean, "mean {} against {mean} of {other}", latency.mean);
    assert!(latency.p99 < p99, "P99 {} against {p99} of {other}", latency.p99);
}

#[rstest]
fn better_than_sticky_in_loads_mean_and_p99_at_once(
    #[values(gentd26::KNOWN_DRAW, 1, 2, 3, 4, 5)] seed: u64,
    #[values(4, 8, 16)] gpus: u32,
) {
    let Some(instance) = trace(seed, gpus) else { return };
    let sticky = metrics(&instance, &run_all(&instance, PolicyKind::Sticky));
    let latency = &sticky.request_latency;
    let other = [loads(&sticky) as f64, latency.mean, latency.p99];
    assert_better(&adaptive(&instance, Objective::Balanced), other, "sticky");
}

/// What a throwaway prototype of a sticky rule reached, on the draw of load times that it most likely had.
#[rstest]
#[case(4, [274.0, 20_079.0, 58_964.0])]
#[case(8, [632.0, 2_885.0, 11_337.0])]
#[case(16, [1_402.0, 390.0, 1_593.0])]
fn better_than_a_prototype_in_loads_mean_and_p99_at_once(#[case] gpus: u32, #[case] prototype: [f64; 3]) {
    let Some(instance) = trace(gentd26::KNOWN_DRAW, gpus) else { return };
    assert_better(&adaptive(&instance, Objective::Balanced), prototype, "the prototype");
}

#[rstest]
fn many_times_better_than_what_model_servers_do(#[values(gentd26::KNOWN_DRAW, 1, 2, 3, 4)] seed: u64) {
    let Some(instance) = trace(seed, 8) else { return };
    let lru = metrics(&instance, &run_all(&instance, PolicyKind::Lru));
    let latency = &lru.request_latency;
    let other = [loads(&lru) as f64 / 16.0, latency.mean / 4.6, latency.p99 / 2.7];
    assert_better(&adaptive(&instance, Objective::Balanced), other, "lru, many times");
}

/// On 24 GPUs someone would wait 598 s even if loads were free; on 32 the bound can be kept, and is.
#[rstest]
fn the_bound_is_kept_where_it_can_be(#[values(1, 2, 3)] seed: u64) {
    let Some(instance) = trace(seed, 32) else { return };
    let bound = Some(Span::from_seconds(600.0));
    let longest = |max_collate_wait: Option<Span>| {
        let log = run_with(&instance, &AdaptiveParams { max_collate_wait, ..AdaptiveParams::default() });
        metrics(&instance, &log).waiting_time.max
    };
    assert!(longest(None) > 600.0);
    assert!(longest(bound) <= 600.0);
}
