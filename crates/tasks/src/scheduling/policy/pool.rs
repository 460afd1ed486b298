//! Tasks that wait, parted into those for the CPU and those for the GPUs by what each gains from a GPU.
//!
//! The parting follows the bound on the area of work: tasks in the order of their gain, cut where both sides would take
//! equally long. It is kept true as tasks come and go, by moving those at the cut.

use std::collections::BTreeSet;

/// Where a waiting task stands.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Which.
    pub task: u32,
    /// CPU time over GPU time, in thousandths.
    pub gain: u64,
    /// Expected time on the CPU, in microseconds.
    pub cpu: u64,
    /// Expected time on a GPU.
    pub gpu: u64,
    /// The less, the more urgent.
    pub turn: i64,
}

/// A side of the cut: by gain and by urgency.
#[derive(Default)]
pub struct Side {
    by_gain: BTreeSet<(u64, u32)>,
    by_turn: BTreeSet<(i64, u32)>,
    /// Expected time of all of them on this side's device.
    pub work: u64,
}

impl Side {
    fn insert(&mut self, entry: &Entry, work: u64) {
        self.by_gain.insert((entry.gain, entry.task));
        self.by_turn.insert((entry.turn, entry.task));
        self.work += work;
    }

    fn remove(&mut self, entry: &Entry, work: u64) -> bool {
        self.by_turn.remove(&(entry.turn, entry.task));
        let there = self.by_gain.remove(&(entry.gain, entry.task));
        self.work -= if there { work } else { 0 };
        there
    }

    pub fn first(&self) -> Option<u32> {
        self.by_turn.first().map(|&(_, task)| task)
    }

    /// Tasks from the most urgent on.
    fn urgent(&self) -> impl Iterator<Item = (i64, u32)> + '_ {
        self.by_turn.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.by_gain.len()
    }
}

#[derive(Default)]
pub struct Pool {
    entries: Vec<Option<Entry>>,
    /// For the CPU: those that gain least.
    pub cpu: Side,
    /// For the GPUs: those that gain most.
    pub gpu: Side,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.cpu.len() + self.gpu.len()
    }

    /// What is known of a waiting task.
    pub fn entry(&self, task: u32) -> Option<Entry> {
        self.entries.get(task as usize).copied().flatten()
    }

    /// Tasks of both sides from the most urgent on. Whoever looks for one goes no further than to it.
    pub fn urgent(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut cpu, mut gpu) = (self.cpu.urgent().peekable(), self.gpu.urgent().peekable());
        std::iter::from_fn(move || {
            let from_cpu = match (cpu.peek(), gpu.peek()) {
                (Some(one), Some(other)) => one < other,
                (one, _) => one.is_some(),
            };
            if from_cpu { cpu.next() } else { gpu.next() }.map(|(_, task)| task)
        })
    }

    /// One more; on the side that its gain puts it on.
    pub fn insert(&mut self, entry: Entry) {
        let at = entry.task as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, None);
        }
        self.entries[at] = Some(entry);
        let above = self.cpu.by_gain.last().is_some_and(|&cut| (entry.gain, entry.task) < cut);
        if above { self.cpu.insert(&entry, entry.cpu) } else { self.gpu.insert(&entry, entry.gpu) }
    }

    pub fn remove(&mut self, task: u32) {
        if let Some(entry) = self.entries.get_mut(task as usize).and_then(Option::take)
            && !self.cpu.remove(&entry, entry.cpu)
        {
            self.gpu.remove(&entry, entry.gpu);
        }
    }

    /// All that waited; nothing waits any more.
    pub fn drain(&mut self) -> Vec<Entry> {
        let sides = [std::mem::take(&mut self.cpu), std::mem::take(&mut self.gpu)];
        let waiting = sides.iter().flat_map(Side::urgent);
        waiting.filter_map(|(_, task)| self.entries[task as usize].take()).collect()
    }

    /// Moves the cut to where both sides would end together, given what their devices have already; but no task that gains more than
    /// `most_gain` from a GPU is worth the CPU.
    pub fn balance(&mut self, cpu_backlog: u64, gpu_backlog: u64, gpus: u64, most_gain: u64) {
        while let Some(entry) = self.gpu.by_gain.first().and_then(|&(_, task)| self.entry(task)) {
            let cpu_after = cpu_backlog + self.cpu.work + entry.cpu;
            let gpu_after = (gpu_backlog + self.gpu.work - entry.gpu) / gpus;
            if cpu_after > gpu_after || entry.gain > most_gain {
                break;
            }
            self.gpu.remove(&entry, entry.gpu);
            self.cpu.insert(&entry, entry.cpu);
        }
        while let Some(entry) = self.cpu.by_gain.last().and_then(|&(_, task)| self.entry(task)) {
            let cpu_now = cpu_backlog + self.cpu.work;
            let gpu_after = (gpu_backlog + self.gpu.work + entry.gpu) / gpus;
            if gpu_after >= cpu_now && entry.gain <= most_gain {
                break;
            }
            self.cpu.remove(&entry, entry.cpu);
            self.gpu.insert(&entry, entry.gpu);
        }
    }
}
