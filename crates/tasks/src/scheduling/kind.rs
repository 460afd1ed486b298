//! The policies by name.

use gswarm_core::named;

named! {
    /// A policy for tasks.
    pub enum TaskPolicy {
        /// Every device in turn, the CPU included.
        RoundRobin = "round_robin",
        /// A device by lot.
        Random = "random",
        /// The sort of device that runs the task fastest; among GPUs the one with the fewest tasks.
        Greedy = "greedy",
        /// The GPU that is free first.
        GpuOnly = "gpu_only",
        /// The CPU, always.
        CpuOnly = "cpu_only",
        /// The device that is free first, however long the task takes there.
        LeastLoaded = "least_loaded",
        /// The device that is expected to be done with the task first (StarPU's dmda).
        EarliestFinish = "earliest_finish",
        /// As `earliest_finish`, and in every queue the task with the longest chain behind it first.
        Heft = "heft",
        /// Queues in turn; an idle device takes from the longest queue.
        WorkStealing = "work_stealing",
        /// What a table of states and rewards says, taught on predicted times.
        QLearning = "q_learning",
        /// Parts and cuts tasks over CPU and GPUs by predicted times and upward ranks.
        Learned = "learned",
        /// The best of several plans made with the true run times.
        Clairvoyant = "clairvoyant",
    }
}
