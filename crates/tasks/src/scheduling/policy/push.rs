//! Policies that choose a device the moment a task is ready.

use super::lanes::Lanes;
use super::price::Price;
use super::{Placement, Policy, PolicySettings};
use crate::scheduling::view::{CPU, DeviceIndex, View};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub enum Choice {
    /// One after another, the CPU included.
    RoundRobin,
    /// By lot.
    Random,
    /// The sort of device that runs the task fastest; among GPUs the one with the fewest tasks.
    Greedy,
    /// The GPU that is free first.
    GpuOnly,
    /// The CPU.
    CpuOnly,
    /// The device that is free first, however long the task takes there.
    LeastLoaded,
    /// The device that is expected to be done with the task first, its transfer counted: StarPU's dmda.
    EarliestFinish,
    /// The same, with the longest upward rank first in every queue.
    Heft(Vec<u64>),
}

/// A rule and the queues that it fills.
pub struct Push {
    choice: Choice,
    settings: PolicySettings,
    lanes: Lanes,
    next: usize,
    lots: ChaCha8Rng,
}

impl Push {
    pub fn new(choice: Choice, settings: PolicySettings) -> Push {
        let lots = ChaCha8Rng::seed_from_u64(settings.seed);
        Push { choice, settings, lanes: Lanes::default(), next: 0, lots }
    }

    fn device(&mut self, task: u32, view: &View<'_>) -> DeviceIndex {
        let all = 0..view.devices();
        let gpus = 1..view.devices();
        let free_at = |device: &DeviceIndex| self.lanes.free_at(*device, view);
        let chosen = match &self.choice {
            Choice::RoundRobin => {
                self.next += 1;
                Some((self.next - 1) % view.devices())
            }
            Choice::Random => Some(self.lots.random_range(0..view.devices())),
            Choice::Greedy if view.run_time(task, CPU) <= view.run_time(task, 1) => Some(CPU),
            Choice::Greedy => gpus.min_by_key(|&gpu| self.lanes.len(gpu) + view.placed[gpu] as usize),
            Choice::GpuOnly => gpus.min_by_key(free_at),
            Choice::CpuOnly => Some(CPU),
            Choice::LeastLoaded => all.min_by_key(free_at),
            Choice::Heft(_) if self.settings.seconds_per_joule > 0.0 => self.cheapest(task, view),
            Choice::EarliestFinish | Choice::Heft(_) => {
                // GPUs are alike: of them, the one that is free first is done first.
                let one_of_each = [Some(CPU), gpus.min_by_key(free_at)].into_iter().flatten();
                one_of_each.filter(|&device| view.fits(task, device)).min_by_key(|&device| {
                    let run = view.run_time(task, device);
                    let finish = self.lanes.free_at(device, view) + view.transfer(task, device) + run;
                    finish.0 + energy_cost(device, run.seconds(), view, self.settings.seconds_per_joule)
                })
            }
        };
        chosen.unwrap_or(CPU)
    }
}

impl Push {
    /// Where a task costs least, with a price on energy.
    fn cheapest(&self, task: u32, view: &View<'_>) -> Option<DeviceIndex> {
        let price = Price::new(view.machine, self.settings.seconds_per_joule);
        let run = |device: DeviceIndex| view.run_time(task, device).0;
        let end = |device: DeviceIndex| {
            (self.lanes.free_at(device, view) + view.transfer(task, device)).0 + run(device)
        };
        let fitting = (0..view.devices()).filter(|&device| view.fits(task, device));
        let waiting: usize = (0..view.devices()).map(|device| self.lanes.len(device)).sum();
        if waiting <= view.devices() {
            let cost = |device: DeviceIndex| {
                price.of_whole(end(device) - view.now.0, device, run(device), self.lanes.come())
            };
            return fitting.min_by(|&one, &other| cost(one).total_cmp(&cost(other)));
        }
        let worth = |device: &DeviceIndex| {
            *device != CPU
                || view.devices() == 1
                || run(CPU).saturating_mul(1000) / run(1).max(1) <= price.most_gain()
        };
        let worthy: Vec<DeviceIndex> = fitting.clone().filter(worth).collect();
        if worthy.is_empty() {
            fitting.min_by_key(|&device| end(device))
        } else {
            worthy.into_iter().min_by_key(|&device| end(device))
        }
    }
}

/// What running for so long on a device adds to the energy, in microseconds of the objective.
pub fn energy_cost(device: DeviceIndex, seconds: f64, view: &View<'_>, seconds_per_joule: f64) -> u64 {
    let [idle, busy] = if device == CPU { view.machine.cpu_watts } else { view.machine.gpu_watts };
    ((busy - idle).max(0.0) * seconds * seconds_per_joule * 1e6) as u64
}

impl Policy for Push {
    fn ready(&mut self, task: u32, view: &View<'_>) {
        let device = self.device(task, view);
        let priority = match &self.choice {
            Choice::Heft(ranks) => u64::MAX - ranks[task as usize],
            _ => 0,
        };
        self.lanes.push(task, device, priority, view);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Placement> {
        self.lanes.feed(view)
    }
}
