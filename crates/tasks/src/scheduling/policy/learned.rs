//! The policy that plans with predicted times.
//!
//! While many tasks wait, what counts is that each runs where it is worth most: the tasks are parted as in the bound on the
//! area of work ([`super::pool`]), and each device takes the most urgent of its side. While few wait, what counts is when
//! each is done: the most urgent goes where it is expected to be done first, cut over a GPU and the CPU where that is sooner.

use super::beliefs::Beliefs;
use super::lanes::depth;
use super::pool::{Entry, Pool};
use super::price::Price;
use super::{Placement, Policy, PolicySettings, upward_ranks};
use crate::scheduling::machine::{Machine, SHARE};
use crate::scheduling::view::{CPU, DeviceIndex, Estimates, View};
use crate::scheduling::workload::Workload;
use gswarm_core::Span;

/// Smaller parts than this are not worth the trouble, in millionths.
const LEAST_PART: u32 = 20_000;

pub struct Learned {
    pool: Pool,
    ranks: Vec<u64>,
    beliefs: Beliefs,
    /// Whether beliefs have changed since those that wait were put in order, and the parts that have ended since.
    outdated: bool,
    ended: usize,
    price: Price,
    /// No task that waits saves more on a GPU.
    most_saved: Saved,
    /// Tasks that could run so far.
    come: u64,
    tuning: Tuning,
}

/// What the policy can be tuned by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// With more waiting tasks than this for each device, they are parted.
    pub many: usize,
    /// How much sooner than by its coming a task is taken for each second of its upward rank.
    pub urgency: f64,
    /// Parts on a GPU at once, the one that runs included.
    pub depth: u32,
    /// How much sooner a task has to be done for it to be cut, as a share of the time until then.
    pub cut_gain: f64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { many: 1, urgency: 1.0, depth: 6, cut_gain: 0.15 }
    }
}

impl Learned {
    /// For a workload of which times are predicted.
    pub fn new(
        workload: &Workload,
        machine: &Machine,
        estimates: &Estimates,
        settings: PolicySettings,
        tuning: Tuning,
    ) -> Learned {
        let ranks = upward_ranks(workload, estimates, machine.gpus);
        let beliefs = Beliefs::new(workload, estimates.doubt.clone());
        let price = Price::new(machine, settings.seconds_per_joule);
        let pool = Pool::default();
        let most_saved = Saved::NOTHING;
        Learned { pool, ranks, beliefs, outdated: false, ended: 0, price, most_saved, come: 0, tuning }
    }

    /// Whether a device takes one more part.
    fn has_room(&self, device: DeviceIndex, view: &View<'_>) -> bool {
        view.placed[device] < if device == CPU { depth(CPU) } else { self.tuning.depth }
    }

    fn take(&mut self, placement: Placement, view: &View<'_>) -> Option<Placement> {
        self.pool.remove(placement.task);
        self.beliefs.place(&placement, view);
        Some(placement)
    }

    /// What a task that waits, or comes, is believed to be; `turn` is when it came, less what hangs on it.
    fn entry_of(&self, task: u32, turn: i64, view: &View<'_>) -> Entry {
        let (cpu, gpu) = (self.beliefs.expected(task, CPU, view), self.beliefs.expected(task, 1, view));
        let gain = cpu.saturating_mul(1000) / gpu.max(1);
        Entry { task, gain, cpu, gpu, turn }
    }

    fn wait(&mut self, entry: Entry, view: &View<'_>) {
        self.most_saved = self.most_saved.or_more(Saved::of(&entry, view));
        self.pool.insert(entry);
    }

    /// Many wait: each device takes the most urgent of its side.
    fn parted(&mut self, view: &View<'_>) -> Option<Placement> {
        let cpu_wait = self.beliefs.cpu_free_at().saturating_sub(view.now.0);
        let gpus = (view.devices() - 1).max(1) as u64;
        self.pool.balance(cpu_wait, self.beliefs.gpus_wait(), gpus, self.price.most_gain());
        if self.has_room(CPU, view)
            && let Some(task) = self.pool.cpu.first()
            && view.fits(task, CPU)
        {
            return self.take(Placement::whole(task, CPU), view);
        }
        let (gpu, _) = self.beliefs.first_gpu()?;
        if !self.has_room(gpu, view) {
            return None;
        }
        let task = self.pool.gpu.first()?;
        let device = if view.fits(task, gpu) { gpu } else { CPU };
        self.take(Placement::whole(task, device), view)
    }

    /// Few wait: the most urgent that can start now goes where it is done first.
    fn soonest(&mut self, view: &View<'_>) -> Option<Placement> {
        let cpu_open = self.has_room(CPU, view);
        let gpu_open = self.beliefs.first_gpu().is_some_and(|(gpu, _)| self.has_room(gpu, view));
        if !cpu_open && !gpu_open {
            return None;
        }
        if !cpu_open && self.none_for_a_gpu(view) {
            return None;
        }
        let found = match cpu_open {
            true => self.first_for((true, gpu_open), view),
            false => self.first_for_a_gpu(view),
        };
        let Some(placement) = found else {
            let waiting = self.pool.urgent().filter_map(|task| self.pool.entry(task));
            self.most_saved =
                waiting.map(|entry| Saved::of(&entry, view)).fold(Saved::NOTHING, Saved::or_more);
            return None;
        };
        self.take(placement, view)
    }

    /// Of those that wait, the most urgent that is done first where there is room.
    fn first_for(&self, (cpu_open, gpu_open): (bool, bool), view: &View<'_>) -> Option<Placement> {
        self.pool.urgent().find_map(|task| {
            let placement = self.best(task, view)?;
            let open = (placement.gpu.is_none() || gpu_open) && (placement.share == SHARE || cpu_open);
            open.then_some(placement)
        })
    }

    /// The same where the CPU has no room: those that plainly are done sooner on it are passed over.
    fn first_for_a_gpu(&self, view: &View<'_>) -> Option<Placement> {
        let (_, gpu_free) = self.beliefs.first_gpu()?;
        let later = gpu_free.max(view.link_free_at.0) as i64 - self.beliefs.cpu_free_at() as i64;
        let may_be = |entry: &Entry| {
            entry.cpu as i64 - entry.gpu as i64 >= later
                || !view.fits(entry.task, CPU)
                || !self.price.is_of_time_alone()
        };
        let mut waiting = self.pool.urgent().filter_map(|task| self.pool.entry(task));
        waiting.find_map(|entry| {
            let placement = may_be(&entry).then(|| self.best(entry.task, view)).flatten();
            placement.filter(|placement| placement.share == SHARE)
        })
    }

    /// Whether it is plain, with no look at each, that all who wait would be done sooner on the CPU than on a GPU: no GPU
    /// starts before it and the link are free. Behind a link that is busy for long that goes for every short task.
    fn none_for_a_gpu(&self, view: &View<'_>) -> bool {
        let Some((_, gpu_free)) = self.beliefs.first_gpu() else { return false };
        let later = |free: u64| free as i64 - self.beliefs.cpu_free_at() as i64;
        let Saved { run, with_transfer } = self.most_saved;
        self.price.is_of_time_alone() && (run < later(gpu_free) || with_transfer < later(view.link_free_at.0))
    }

    /// Where this task is expected to be done first; with a price on energy, where it costs least.
    fn best(&self, task: u32, view: &View<'_>) -> Option<Placement> {
        let entry = self.pool.entry(task)?;
        let memory = view.memory[task as usize];
        let cpu_free = self.beliefs.cpu_free_at();
        let cost = |end: u64, work: [u64; 2]| self.price.of(end.saturating_sub(view.now.0), work, self.come);
        let whole_cpu = view
            .fits(task, CPU)
            .then(|| (cost(cpu_free + entry.cpu, [entry.cpu, 0]), Placement::whole(task, CPU)));
        let Some((gpu, gpu_free)) = self.beliefs.first_gpu() else {
            return whole_cpu.map(|(_, placement)| placement);
        };
        // Its data can come while the GPU is at other work, but not before the link is free.
        let gpu_start = |share| gpu_free.max(view.link_free_at.0 + view.machine.transfer(memory, share).0);
        let whole_gpu = view
            .fits(task, gpu)
            .then(|| (cost(gpu_start(SHARE) + entry.gpu, [0, entry.gpu]), Placement::whole(task, gpu)));
        let whole =
            [whole_gpu, whole_cpu].into_iter().flatten().min_by(|one, other| one.0.total_cmp(&other.0));
        let cut = self.cut(&entry, view, gpu, gpu_start(SHARE), cpu_free);
        let cut = cut.map(|(end, work, cut)| (cost(end, work), cut));
        match (whole, cut) {
            (Some((least, _)), Some((of_cut, cut))) if of_cut < least * (1.0 - self.tuning.cut_gain) => {
                Some(cut)
            }
            (None, Some((_, cut))) => Some(cut),
            (whole, _) => whole.map(|(_, placement)| placement),
        }
    }

    /// The task cut so that both parts are expected to end together, when that is, and the work on the CPU and
    /// on the GPU.
    fn cut(
        &self,
        entry: &Entry,
        view: &View<'_>,
        gpu: DeviceIndex,
        gpu_start: u64,
        cpu_start: u64,
    ) -> Option<(u64, [u64; 2], Placement)> {
        // start_g + f * gpu = start_c + (1 - f) * cpu
        let late = entry.cpu as f64 + cpu_start as f64 - gpu_start as f64;
        let share = (late / (entry.cpu + entry.gpu) as f64 * f64::from(SHARE)) as i64;
        if !(i64::from(LEAST_PART)..=i64::from(SHARE - LEAST_PART)).contains(&share) {
            return None;
        }
        let (share, memory) = (share as u32, view.memory[entry.task as usize]);
        if !view.machine.fits_gpu(memory, share)
            || !view.machine.fits_cpu(Machine::bytes(memory, SHARE - share))
        {
            return None;
        }
        let part =
            |whole: u64, share: u32| (u128::from(whole) * u128::from(share) / u128::from(SHARE)) as u64;
        let (on_gpu, on_cpu) = (part(entry.gpu, share), part(entry.cpu, SHARE - share));
        let end = (gpu_start + on_gpu).max(cpu_start + on_cpu);
        Some((end, [on_cpu, on_gpu], Placement { task: entry.task, gpu: Some(gpu as u32 - 1), share }))
    }
}

/// How much longer a task takes on the CPU than on a GPU, in microseconds.
#[derive(Clone, Copy)]
struct Saved {
    /// Once its data is there.
    run: i64,
    /// From when the link is free.
    with_transfer: i64,
}

impl Saved {
    /// Less than any task saves.
    const NOTHING: Saved = Saved { run: i64::MIN, with_transfer: i64::MIN };

    /// One that the host has no room for is a matter for GPUs, however long it takes there.
    fn of(entry: &Entry, view: &View<'_>) -> Saved {
        if !view.fits(entry.task, CPU) {
            return Saved { run: i64::MAX, with_transfer: i64::MAX };
        }
        let run = entry.cpu as i64 - entry.gpu as i64;
        Saved { run, with_transfer: run - view.transfer(entry.task, 1).0 as i64 }
    }

    fn or_more(self, other: Saved) -> Saved {
        Saved { run: self.run.max(other.run), with_transfer: self.with_transfer.max(other.with_transfer) }
    }
}

impl Policy for Learned {
    fn ready(&mut self, task: u32, view: &View<'_>) {
        self.come += 1;
        let turn = view.now.0 as i64 - (self.ranks[task as usize] as f64 * self.tuning.urgency) as i64;
        self.wait(self.entry_of(task, turn, view), view);
    }

    fn part_done(&mut self, task: u32, device: DeviceIndex, took: Span, view: &View<'_>) {
        self.outdated |= self.beliefs.part_done(task, device, took, view);
        self.ended += 1;
        // Those that wait were put in order by what was believed before. So many parts have ended since that doing it
        // again costs little for each of them.
        if self.outdated && self.ended * 4 >= self.pool.len() {
            (self.outdated, self.ended) = (false, 0);
            self.most_saved = Saved::NOTHING;
            for entry in self.pool.drain() {
                self.wait(self.entry_of(entry.task, entry.turn, view), view);
            }
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Placement> {
        if self.pool.len() == 0 || !(0..view.devices()).any(|device| self.has_room(device, view)) {
            return None;
        }
        self.beliefs.look(view);
        if self.pool.len() > self.tuning.many * view.devices() {
            self.parted(view)
        } else {
            self.soonest(view)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::described;
    use crate::scheduling::engine::Engine;
    use crate::scheduling::{TaskArrivals, WorkloadOptions, generate};

    /// The policy, which before each decision compares what it knows of the GPUs with what looking at every one of them says.
    struct Compared {
        policy: Learned,
        looks: usize,
        running: usize,
        plain: usize,
    }

    impl Policy for Compared {
        fn ready(&mut self, task: u32, view: &View<'_>) {
            self.policy.ready(task, view);
        }

        fn part_done(&mut self, task: u32, device: DeviceIndex, took: Span, view: &View<'_>) {
            self.policy.part_done(task, device, took, view);
        }

        fn decide(&mut self, view: &View<'_>) -> Option<Placement> {
            // As the policy does, it misses changes while nothing waits.
            if self.policy.pool.len() > 0 {
                let beliefs = &mut self.policy.beliefs;
                beliefs.look(view);
                let gpus: Vec<_> = (1..view.devices())
                    .map(|device| (beliefs.free_at(device, view), view.placed[device], device))
                    .collect();
                let first = gpus.iter().min().map(|&(at, _, device)| (device, at));
                assert_eq!(beliefs.first_gpu(), first, "at {:?}", view.now);
                assert_eq!(beliefs.gpus_wait(), gpus.iter().map(|(at, ..)| at - view.now.0).sum::<u64>());
                let is_plain = self.policy.none_for_a_gpu(view);
                let found = self.policy.first_for((false, true), view);
                assert!(!is_plain || found.is_none());
                assert_eq!(self.policy.first_for_a_gpu(view), found);
                self.plain += usize::from(is_plain);
                self.looks += 1;
                self.running += usize::from(view.running[1..].iter().any(Option::is_some));
            }
            self.policy.decide(view)
        }
    }

    #[test]
    fn what_is_kept_of_gpus_is_what_looking_at_all_of_them_says() {
        let (profile, mut plain) = (described(), 0);
        for (seed, gpus, load) in [(1, 1, 1.5), (2, 4, 0.8), (3, 4, 3.0), (4, 40, 1.5), (5, 300, 1.5)] {
            let options = WorkloadOptions {
                tasks: 600,
                gpus,
                seed,
                arrivals: TaskArrivals::Load(load),
                ..WorkloadOptions::default()
            };
            let workload = generate(&options, &profile).unwrap().workload;
            let machine = Machine::of(&profile, gpus);
            let in_doubt = Estimates::of_profile(&workload, &profile).unwrap();
            let known = Estimates::of_truth(&workload, &in_doubt);
            let truths = workload.truths(&in_doubt);
            for estimates in [&in_doubt, &known] {
                let (settings, tuning) = (PolicySettings::default(), Tuning::default());
                let policy = Learned::new(&workload, &machine, estimates, settings, tuning);
                let mut compared = Compared { policy, looks: 0, running: 0, plain: 0 };
                Engine::new(&workload, &truths, &machine, estimates).run(&mut compared).unwrap();
                plain += compared.plain;
                assert!(compared.looks > 600 && compared.running > 100, "{gpus} GPUs: {}", compared.running);
            }
        }
        assert!(plain > 100, "{plain}");
    }
}
