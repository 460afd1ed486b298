//! Q-learning over a small table: what a task gains from a GPU and how long either side would make it wait, against where
//! it goes. It is taught on the workload's own predicted times, and goes on learning from the times that tasks really take.

use super::lanes::Lanes;
use super::{Placement, Policy, PolicySettings};
use crate::scheduling::view::{CPU, DeviceIndex, View};
use gswarm_core::Time;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GAINS: usize = 6;
const WAITS: usize = 5;
const ACTIONS: usize = 2;
const RATE: f64 = 0.05;
/// What the state that a decision leads to counts: a task in a queue makes the next one wait.
const DISCOUNT: f64 = 0.5;

/// What was learned so far.
#[derive(Clone, Debug)]
pub struct QTable(Vec<[f64; ACTIONS]>);

impl Default for QTable {
    fn default() -> QTable {
        QTable(vec![[0.0; ACTIONS]; GAINS * WAITS * WAITS])
    }
}

pub struct QLearning {
    table: QTable,
    explore: f64,
    lots: ChaCha8Rng,
    lanes: Lanes,
    /// For each task: the state it was decided in, the action, and when.
    decided: Vec<(usize, usize, Time)>,
    state: usize,
}

impl QLearning {
    /// With what was learned before, and how often to try something else.
    pub fn new(table: QTable, explore: f64, tasks: usize, settings: PolicySettings) -> QLearning {
        QLearning {
            table,
            explore,
            lots: ChaCha8Rng::seed_from_u64(settings.seed),
            lanes: Lanes::default(),
            decided: vec![(0, 0, Time::ZERO); tasks],
            state: 0,
        }
    }

    pub fn into_table(self) -> QTable {
        self.table
    }

    fn observe(&self, task: u32, gpu: DeviceIndex, view: &View<'_>) -> usize {
        let (cpu, on_gpu) = (view.run_time(task, CPU).0.max(1), view.run_time(task, gpu).0.max(1));
        let gain = match cpu as f64 / on_gpu as f64 {
            r if r < 1.0 => 0,
            r if r < 2.0 => 1,
            r if r < 4.0 => 2,
            r if r < 7.0 => 3,
            r if r < 11.0 => 4,
            _ => 5,
        };
        // Waits are counted in the task's own best time.
        let least = cpu.min(on_gpu) as f64;
        let wait = |device: DeviceIndex| {
            let ratio = self.lanes.free_at(device, view).since(view.now).0 as f64 / least;
            match ratio {
                r if r < 0.5 => 0,
                r if r < 2.0 => 1,
                r if r < 8.0 => 2,
                r if r < 32.0 => 3,
                _ => 4,
            }
        };
        (gain * WAITS + wait(CPU)) * WAITS + wait(gpu)
    }
}

impl Policy for QLearning {
    fn ready(&mut self, task: u32, view: &View<'_>) {
        let gpus = 1..view.devices();
        let gpu = gpus.min_by_key(|&gpu| self.lanes.free_at(gpu, view)).unwrap_or(CPU);
        let state = self.observe(task, gpu, view);
        let [on_cpu, on_gpu] = self.table.0[state];
        let greedy = usize::from(on_gpu >= on_cpu);
        let action = if self.lots.random::<f64>() < self.explore {
            self.lots.random_range(0..ACTIONS)
        } else {
            greedy
        };
        self.state = state;
        self.decided[task as usize] = (state, action, view.now);
        self.lanes.push(task, if action == 0 { CPU } else { gpu }, 0, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Placement> {
        self.lanes.feed(view)
    }

    fn done(&mut self, task: u32, view: &View<'_>) {
        let (state, action, since) = self.decided[task as usize];
        // The logarithm of how many times its best run time the task was there: queues of any length stay comparable.
        let least = view.run_time(task, CPU).0.min(view.run_time(task, 1.min(view.devices() - 1)).0).max(1);
        let reward = -(1.0 + view.now.since(since).0 as f64 / least as f64).ln();
        let ahead = self.table.0[self.state].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let value = &mut self.table.0[state][action];
        *value += RATE * (reward + DISCOUNT * ahead - *value);
    }
}
