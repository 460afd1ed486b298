//! What a choice adds to the objective, which is the makespan and a price on energy.
//!
//! Every second of the makespan costs itself and what all devices draw while idle; every second of work what its device draws
//! beyond that. How much of the makespan hangs on one task depends on what waits. While more is there than devices can do, each second of
//! a device's time is one that another task waits for: that is the bound on the area of work with a price on each side, and it says up to
//! which gain from a GPU the CPU is worth its energy. While little waits, the run ends right after the last arrival whoever
//! decides, and a task's end matters only if it is the last one: as nobody knows how many are to come, with a chance of one in as many as have come.

use crate::scheduling::machine::Machine;
use crate::scheduling::view::{CPU, DeviceIndex};

/// The prices of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    /// Of a second of the makespan.
    makespan: f64,
    /// Of a second of work, on the CPU and on a GPU.
    work: [f64; 2],
    gpus: f64,
}

impl Price {
    /// Where a joule is worth so many seconds.
    pub fn new(machine: &Machine, seconds_per_joule: f64) -> Price {
        let ([cpu_idle, cpu_busy], [gpu_idle, gpu_busy]) = (machine.cpu_watts, machine.gpu_watts);
        let gpus = f64::from(machine.gpus);
        Price {
            makespan: 1.0 + seconds_per_joule * (cpu_idle + gpus * gpu_idle),
            work: [cpu_busy - cpu_idle, gpu_busy - gpu_idle].map(|watts| seconds_per_joule * watts.max(0.0)),
            gpus: gpus.max(1.0),
        }
    }

    /// Whether only time costs anything.
    pub fn is_of_time_alone(&self) -> bool {
        self.makespan == 1.0 && self.work == [0.0; 2]
    }

    /// While much waits: the CPU is worth its energy up to this ratio of CPU time to GPU time, in thousandths.
    pub fn most_gain(&self) -> u64 {
        ((self.makespan / self.gpus + self.work[1]) / self.work[0] * 1e3) as u64
    }

    /// While little waits: what ending so many microseconds from now after these microseconds of work on the CPU and on a GPU
    /// costs, `come` tasks having come so far. Without a price on energy it is the time until the end.
    pub fn of(&self, until_end: u64, work: [u64; 2], come: u64) -> f64 {
        let joules = self.work[0] * work[0] as f64 + self.work[1] * work[1] as f64;
        self.makespan * until_end as f64 + come as f64 * joules
    }

    /// The same for all of a task on one device.
    pub fn of_whole(&self, until_end: u64, device: DeviceIndex, run: u64, come: u64) -> f64 {
        self.of(until_end, if device == CPU { [run, 0] } else { [0, run] }, come)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_price_on_energy_only_time_counts() {
        let machine = Machine::of(&crate::profile::described(), 4);
        let free = Price::new(&machine, 0.0);
        assert_eq!(free.most_gain(), u64::MAX);
        assert_eq!(free.of(1_234_567, [5, 7], 1_000), 1_234_567.0);
        // The dearer a joule, the fewer tasks are worth the CPU's: in the end those that need fewer joules there.
        let [cpu, gpu] = [machine.cpu_watts, machine.gpu_watts].map(|[idle, busy]| busy - idle);
        let least = (gpu / cpu * 1e3) as u64;
        let gains = [1e-4, 1e-2, 1.0].map(|weight| Price::new(&machine, weight).most_gain());
        assert!(gains[0] > gains[1] && gains[1] > gains[2] && gains[2] >= least, "{gains:?} {least}");
    }
}
