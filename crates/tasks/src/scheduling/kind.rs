//! The policies by name.

/// A policy for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyKind {
    /// Devices in turn.
    RoundRobin,
    /// Devices by lot.
    Random,
    /// The fastest sort of device.
    Greedy,
    /// GPUs alone.
    GpuOnly,
    /// The CPU alone.
    CpuOnly,
    /// The device that is free first.
    LeastLoaded,
    /// The device that is done first.
    EarliestFinish,
    /// The device that is done first, by upward rank.
    Heft,
    /// Idle devices take from others.
    WorkStealing,
    /// Devices by what was learned from rewards.
    QLearning,
    /// Planned with predicted times.
    Learned,
    /// Planned with the true times.
    Clairvoyant,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 12] = [
        PolicyKind::RoundRobin,
        PolicyKind::Random,
        PolicyKind::Greedy,
        PolicyKind::GpuOnly,
        PolicyKind::CpuOnly,
        PolicyKind::LeastLoaded,
        PolicyKind::EarliestFinish,
        PolicyKind::Heft,
        PolicyKind::WorkStealing,
        PolicyKind::QLearning,
        PolicyKind::Learned,
        PolicyKind::Clairvoyant,
    ];

    /// As flags and files spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::RoundRobin => "round_robin",
            PolicyKind::Random => "random",
            PolicyKind::Greedy => "greedy",
            PolicyKind::GpuOnly => "gpu_only",
            PolicyKind::CpuOnly => "cpu_only",
            PolicyKind::LeastLoaded => "least_loaded",
            PolicyKind::EarliestFinish => "earliest_finish",
            PolicyKind::Heft => "heft",
            PolicyKind::WorkStealing => "work_stealing",
            PolicyKind::QLearning => "q_learning",
            PolicyKind::Learned => "learned",
            PolicyKind::Clairvoyant => "clairvoyant",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<PolicyKind> {
        PolicyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// By which rule it decides.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            PolicyKind::RoundRobin => "every device in turn, the CPU included",
            PolicyKind::Random => "a device by lot",
            PolicyKind::Greedy => {
                "the sort of device that runs the task fastest; among GPUs the one with the fewest tasks"
            }
            PolicyKind::GpuOnly => "the GPU that is free first",
            PolicyKind::CpuOnly => "the CPU, always",
            PolicyKind::LeastLoaded => "the device that is free first, however long the task takes there",
            PolicyKind::EarliestFinish => {
                "the device that is expected to be done with the task first (StarPU's dmda)"
            }
            PolicyKind::Heft => {
                "as earliest_finish, and in every queue the task with the longest chain behind it first"
            }
            PolicyKind::WorkStealing => "queues in turn; an idle device takes from the longest queue",
            PolicyKind::QLearning => "what a table of states and rewards says, taught on predicted times",
            PolicyKind::Learned => {
                "parts and cuts tasks over CPU and GPUs by predicted times and upward ranks"
            }
            PolicyKind::Clairvoyant => "the best of several plans made with the true run times",
        }
    }
}
