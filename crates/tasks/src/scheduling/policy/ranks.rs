//! How much is still to do after a task, at least.

use crate::scheduling::view::Estimates;
use crate::scheduling::workload::Workload;

/// For each task its own expected time, mean over the devices, and the longest chain of those that wait for it, in
/// microseconds: HEFT's upward rank.
pub fn upward_ranks(workload: &Workload, estimates: &Estimates, gpus: u32) -> Vec<u64> {
    let mut ranks = vec![0u64; workload.tasks.len()];
    let order = workload.topological().unwrap_or_default();
    for &at in order.iter().rev() {
        let mean = estimates.means[at as usize];
        let devices = u64::from(gpus) + 1;
        let own = (mean.cpu.0 + mean.gpu.0 * u64::from(gpus)) / devices;
        // What waits for this task has put the longest of its ranks here already.
        ranks[at as usize] += own;
        let rank = ranks[at as usize];
        for &earlier in &workload.tasks[at as usize].dependencies {
            let longest = &mut ranks[earlier as usize];
            *longest = (*longest).max(rank);
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::test_support::{task, workload};

    #[test]
    fn a_chain_adds_up_and_a_fork_takes_the_longer_side() {
        let tasks =
            vec![task(0, 10, 10, &[]), task(0, 20, 20, &[0]), task(0, 50, 50, &[0]), task(0, 5, 5, &[1])];
        let workload = workload(tasks);
        let estimates = Estimates::certain(workload.tasks.iter().filter_map(|task| task.truth).collect());
        assert_eq!(upward_ranks(&workload, &estimates, 4), [60, 25, 50, 5]);
    }
}
