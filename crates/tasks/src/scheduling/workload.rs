//! Tasks, as a file gives them.

use crate::profile::Operation;
use gswarm_core::{Span, Time, named};

named! {
    /// What a task does.
    pub enum TaskKind {
        /// A matrix product.
        Matmul = "matmul",
        /// A convolution.
        Convolution = "convolution",
        /// Sorting numbers.
        Sort = "sort",
        /// A sparse matrix product.
        Sparse = "sparse",
    }
}

impl TaskKind {
    /// What a profile measures for it.
    pub fn operation(self) -> Operation {
        match self {
            TaskKind::Matmul => Operation::GemmF32,
            TaskKind::Convolution => Operation::Convolution,
            TaskKind::Sort => Operation::Sort,
            TaskKind::Sparse => Operation::Sparse,
        }
    }
}

/// How long a task really takes on each device when it runs there whole. No policy but the clairvoyant one sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// On the CPU.
    pub cpu: Span,
    /// On a GPU, once its data is there.
    pub gpu: Span,
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// As its file calls it.
    pub id: String,
    /// What it does.
    pub kind: TaskKind,
    /// The edge of its matrix.
    pub size: f64,
    /// How much of the operation it does, from 0.1 to 1.
    pub intensity: f64,
    /// What it holds on the device that it runs on, and what goes over the link to a GPU.
    pub memory_bytes: u64,
    /// When it is there.
    pub arrival: Time,
    /// What its owner thinks it will take; nobody else needs to believe it.
    pub estimate: Span,
    /// Tasks that have to be done first, by their place in the workload.
    pub dependencies: Vec<u32>,
    /// What its file says that a hardware profile says, where it does.
    pub profiled: Option<RunTimes>,
    /// Run times, where the file has them.
    pub truth: Option<RunTimes>,
}

/// Tasks in the order of their file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The tasks. No task waits for itself, directly or through others.
    pub tasks: Vec<Task>,
}

impl Workload {
    /// For each task, the tasks that wait for it.
    pub fn dependents(&self) -> Vec<Vec<u32>> {
        let mut dependents = vec![Vec::new(); self.tasks.len()];
        for (at, task) in self.tasks.iter().enumerate() {
            for &earlier in &task.dependencies {
                dependents[earlier as usize].push(at as u32);
            }
        }
        dependents
    }

    /// Every task after all that it waits for; `None` where they wait in a circle.
    pub fn topological(&self) -> Option<Vec<u32>> {
        let dependents = self.dependents();
        let mut waiting: Vec<usize> = self.tasks.iter().map(|task| task.dependencies.len()).collect();
        let mut order: Vec<u32> =
            (0..self.tasks.len() as u32).filter(|&at| waiting[at as usize] == 0).collect();
        let mut next = 0;
        while let Some(&done) = order.get(next) {
            next += 1;
            for &later in &dependents[done as usize] {
                waiting[later as usize] -= 1;
                if waiting[later as usize] == 0 {
                    order.push(later);
                }
            }
        }
        (order.len() == self.tasks.len()).then_some(order)
    }

    /// The true run times; where the file has none, the estimates.
    pub fn truths(&self, estimates: &crate::scheduling::Estimates) -> Vec<RunTimes> {
        let with = self.tasks.iter().zip(&estimates.means);
        with.map(|(task, &mean)| task.truth.unwrap_or(mean)).collect()
    }
}
