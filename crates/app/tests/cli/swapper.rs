//! `serve` beside a swapper that follows llama-swap's rule, with the same emulated servers.

#[path = "../../benches/support/swapper.rs"]
mod beside;

use beside::{Load, by_gswarm, by_swapper};
use gswarm_core::Span;

#[tokio::test(start_paused = true)]
async fn calls_of_models_in_turns_take_a_third_of_the_loads_and_are_answered_sooner() {
    let load = Load::Turns { calls: 120, every: Span(4_000_000) };
    let (swapped, ours) = (by_swapper(load).await, by_gswarm(load).await);
    assert_eq!((swapped.calls, ours.calls), (120, 120));
    assert!(3 * ours.loads <= swapped.loads, "{ours:?} {swapped:?}");
    assert!(ours.mean < swapped.mean && ours.p99 < swapped.p99, "{ours:?} {swapped:?}");
    assert!(ours.took <= swapped.took, "{ours:?} {swapped:?}");
}

/// Agents that wait for each answer before they go on: none of them is left waiting, by either.
#[tokio::test(start_paused = true)]
async fn agents_get_all_their_answers() {
    for served in [by_swapper(Load::Agents(8)).await, by_gswarm(Load::Agents(8)).await] {
        assert_eq!(served.calls, 384);
        assert!(served.p99 < 60.0, "no longer than a call may wait for others to be grouped: {served:?}");
    }
}
