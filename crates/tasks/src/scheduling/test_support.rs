//! Workloads for tests, by hand.

use super::machine::Machine;
use super::workload::{RunTimes, Task, TaskKind, Workload};
use gswarm_core::{Span, Time};

/// A task of ten bytes; times in microseconds. Its number is given by [`workload`].
pub fn task(arrival: u64, cpu: u64, gpu: u64, dependencies: &[u32]) -> Task {
    Task {
        id: String::new(),
        kind: TaskKind::Matmul,
        size: 100.0,
        intensity: 1.0,
        memory_bytes: 10,
        arrival: Time(arrival),
        estimate: Span(gpu),
        dependencies: dependencies.to_vec(),
        profiled: None,
        truth: Some(RunTimes { cpu: Span(cpu), gpu: Span(gpu) }),
    }
}

/// Tasks with their numbers as names.
pub fn workload(mut tasks: Vec<Task>) -> Workload {
    for (at, task) in tasks.iter_mut().enumerate() {
        task.id = at.to_string();
    }
    Workload { tasks }
}

/// A hundred bytes a GPU, ten bytes a microsecond over the link, no latency.
pub fn machine(gpus: u32) -> Machine {
    Machine {
        gpus,
        gpu_memory_bytes: 100,
        cpu_memory_bytes: 1000,
        link_bytes_per_us: 10,
        link_latency_us: 0,
        cpu_watts: [1.0, 10.0],
        gpu_watts: [2.0, 20.0],
    }
}
