//! The event-driven schedule: devices that run one part at a time in the order in which parts were placed on them, one
//! link that carries one transfer at a time, and memory that is held from a transfer's start to its part's end.

use super::log::{CpuPart, GpuPart, TaskRecord};
use super::machine::{Machine, SHARE};
use super::policy::{Placement, Policy};
use super::view::{CPU, DeviceIndex, Estimates, View};
use super::workload::{RunTimes, Workload};
use gswarm_core::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// What a policy must not do, or failed to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A task that waits for others, has not come, or was placed before.
    #[error("task `{0}` was placed although it was not waiting")]
    NotWaiting(String),
    /// A GPU that is not there, or a share above the whole.
    #[error("task `{0}` was placed on a device that does not exist")]
    NoSuchPlace(String),
    /// A task that is larger than the memory it was sent to.
    #[error("task `{0}` does not fit where it was placed")]
    DoesNotFit(String),
    /// Nothing left to happen, and tasks left over.
    #[error("the schedule stalls with {left} unfinished tasks, such as `{first}`")]
    Stalled {
        /// How many.
        left: usize,
        /// One of them.
        first: String,
    },
}

/// In the order in which they happen at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PartDone(DeviceIndex),
    TransferDone,
    Arrived(u32),
}

struct Lane {
    /// Tasks in order; for GPUs, those whose data is there come first.
    queue: VecDeque<u32>,
    free_bytes: u64,
    /// GPUs: tasks whose transfer has not begun.
    untransferred: VecDeque<(u64, u32)>,
}

/// What ended at this moment: parts with where they ran and for how long, and tasks.
#[derive(Default)]
struct Finished {
    parts: Vec<(u32, DeviceIndex, Span)>,
    tasks: Vec<u32>,
}

pub struct Engine<'a> {
    workload: &'a Workload,
    dependents: Vec<Vec<u32>>,
    truths: &'a [RunTimes],
    machine: &'a Machine,
    estimates: &'a Estimates,
    memory: Vec<u64>,
    now: Time,
    events: BinaryHeap<Reverse<(Time, Event)>>,
    waiting_for: Vec<u32>,
    parts_left: Vec<u8>,
    records: Vec<TaskRecord>,
    lanes: Vec<Lane>,
    placed: Vec<u32>,
    running: Vec<Option<(u32, Time)>>,
    running_until: Vec<Time>,
    queued: Vec<Span>,
    changes: Vec<DeviceIndex>,
    link: Option<(DeviceIndex, u32, Time)>,
    link_queued: Span,
    /// The first transfer of each GPU that waits for the link, in the order in which they were asked for.
    asked: BTreeSet<(u64, u32, DeviceIndex)>,
    placements: u64,
    done: usize,
}

const UNPLACED: u8 = 0;
const ALL_DONE: u8 = u8::MAX;

impl<'a> Engine<'a> {
    /// A run in which nothing has happened.
    pub fn new(
        workload: &'a Workload,
        truths: &'a [RunTimes],
        machine: &'a Machine,
        estimates: &'a Estimates,
    ) -> Engine<'a> {
        let lane = |device| Lane {
            queue: VecDeque::new(),
            free_bytes: if device == CPU { machine.cpu_memory_bytes } else { machine.gpu_memory_bytes },
            untransferred: VecDeque::new(),
        };
        let devices = machine.gpus as usize + 1;
        let count = workload.tasks.len();
        // A task waits for its arrival as it does for the tasks before it.
        let waiting_for = workload.tasks.iter().map(|task| task.dependencies.len() as u32 + 1);
        let arrivals = workload.tasks.iter().enumerate();
        Engine {
            dependents: workload.dependents(),
            memory: workload.tasks.iter().map(|task| task.memory_bytes).collect(),
            now: Time::ZERO,
            events: arrivals.map(|(at, task)| Reverse((task.arrival, Event::Arrived(at as u32)))).collect(),
            waiting_for: waiting_for.collect(),
            parts_left: vec![UNPLACED; count],
            records: vec![TaskRecord::default(); count],
            lanes: (0..devices).map(lane).collect(),
            placed: vec![0; devices],
            running: vec![None; devices],
            running_until: vec![Time::ZERO; devices],
            queued: vec![Span::ZERO; devices],
            changes: Vec::new(),
            link: None,
            link_queued: Span::ZERO,
            asked: BTreeSet::new(),
            placements: 0,
            done: 0,
            workload,
            truths,
            machine,
            estimates,
        }
    }

    /// Runs to the end, and says what happened to each task.
    pub fn run(mut self, policy: &mut dyn Policy) -> Result<Vec<TaskRecord>, EngineError> {
        let mut ready = Vec::new();
        let mut finished = Finished::default();
        while let Some(&Reverse((now, _))) = self.events.peek() {
            self.now = now;
            while let Some(&Reverse((at, event))) = self.events.peek() {
                if at > now {
                    break;
                }
                self.events.pop();
                match event {
                    Event::PartDone(device) => self.part_done(device, &mut finished, &mut ready),
                    Event::TransferDone => self.transfer_done(),
                    Event::Arrived(task) => self.release(task, &mut ready),
                }
            }
            // The moment is settled: only now is the policy asked.
            for (task, device, took) in finished.parts.drain(..) {
                policy.part_done(task, device, took, &self.view());
            }
            finished.tasks.drain(..).for_each(|task| policy.done(task, &self.view()));
            ready.sort_unstable();
            for task in ready.drain(..) {
                self.records[task as usize].ready = now;
                policy.ready(task, &self.view());
            }
            while let Some(placement) = policy.decide(&self.view()) {
                self.place(placement)?;
            }
        }
        if self.done < self.records.len() {
            let first = self.parts_left.iter().position(|&left| left != ALL_DONE).unwrap_or(0);
            return Err(EngineError::Stalled {
                left: self.records.len() - self.done,
                first: self.workload.tasks[first].id.clone(),
            });
        }
        Ok(self.records)
    }

    fn view(&self) -> View<'_> {
        let link_busy_until = self.link.map_or(self.now, |(_, _, until)| until);
        View {
            now: self.now,
            machine: self.machine,
            estimates: self.estimates,
            memory: &self.memory,
            placed: &self.placed,
            running: &self.running,
            running_until: &self.running_until,
            queued: &self.queued,
            changes: &self.changes,
            link_free_at: link_busy_until + self.link_queued,
        }
    }

    fn release(&mut self, task: u32, ready: &mut Vec<u32>) {
        let left = &mut self.waiting_for[task as usize];
        *left -= 1;
        if *left == 0 {
            ready.push(task);
        }
    }

    /// The expected run time of a task's part on a device.
    fn expected(&self, task: u32, device: DeviceIndex) -> Span {
        let (mean, share) = (self.estimates.means[task as usize], self.records[task as usize].share);
        if device == CPU { Machine::part(mean.cpu, SHARE - share) } else { Machine::part(mean.gpu, share) }
    }

    fn place(&mut self, placement: Placement) -> Result<(), EngineError> {
        let Placement { task, gpu, share } = placement;
        let at = task as usize;
        let name = || self.workload.tasks.get(at).map_or(task.to_string(), |task| task.id.clone());
        if self.waiting_for.get(at) != Some(&0) || self.parts_left[at] != UNPLACED {
            return Err(EngineError::NotWaiting(name()));
        }
        if share > SHARE || (share > 0) != gpu.is_some() || gpu.is_some_and(|gpu| gpu >= self.machine.gpus) {
            return Err(EngineError::NoSuchPlace(name()));
        }
        let memory = self.memory[at];
        let on_host = Machine::bytes(memory, SHARE - share);
        if (share > 0 && !self.machine.fits_gpu(memory, share)) || !self.machine.fits_cpu(on_host) {
            return Err(EngineError::DoesNotFit(name()));
        }
        self.records[at].share = share;
        self.parts_left[at] = u8::from(share > 0) + u8::from(share < SHARE);
        if let Some(gpu) = gpu {
            let device = gpu as usize + 1;
            let transfer = self.machine.transfer(memory, share);
            let idle = self.running[device].is_none() && self.lanes[device].queue.is_empty();
            self.records[at].gpu = Some(GpuPart { gpu, ..GpuPart::default() });
            self.lanes[device].queue.push_back(task);
            if self.lanes[device].untransferred.is_empty() {
                self.asked.insert((self.placements, task, device));
            }
            self.lanes[device].untransferred.push_back((self.placements, task));
            self.link_queued += transfer;
            self.book(task, device);
            self.start_transfer();
            if idle {
                // Nothing runs there before its data has come.
                self.running_until[device] = self.view().link_free_at;
            }
        }
        if share < SHARE {
            self.records[at].cpu = Some(CpuPart::default());
            self.lanes[CPU].queue.push_back(task);
            self.book(task, CPU);
            self.start_part(CPU);
        }
        self.placements += 1;
        Ok(())
    }

    fn book(&mut self, task: u32, device: DeviceIndex) {
        self.placed[device] += 1;
        let expected = self.expected(task, device);
        self.queued[device] += expected;
        self.changes.push(device);
    }

    /// The link takes the transfer that was asked for first among those whose GPU has room.
    fn start_transfer(&mut self) {
        if self.link.is_some() {
            return;
        }
        let bytes = |task: u32| Machine::bytes(self.memory[task as usize], self.records[task as usize].share);
        let has_room =
            |&&(_, task, device): &&(u64, u32, DeviceIndex)| bytes(task) <= self.lanes[device].free_bytes;
        let Some(&first) = self.asked.iter().find(has_room) else { return };
        let (_, task, device) = first;
        let (bytes, share) = (bytes(task), self.records[task as usize].share);
        let span = self.machine.transfer(self.memory[task as usize], share);
        let lane = &mut self.lanes[device];
        lane.free_bytes -= bytes;
        lane.untransferred.pop_front();
        self.asked.remove(&first);
        self.asked.extend(lane.untransferred.front().map(|&(order, task)| (order, task, device)));
        self.link_queued = Span(self.link_queued.0 - span.0);
        let until = self.now + span;
        self.link = Some((device, task, until));
        if let Some(part) = &mut self.records[task as usize].gpu {
            (part.transfer_start, part.transfer_end) = (self.now, until);
        }
        self.events.push(Reverse((until, Event::TransferDone)));
    }

    fn transfer_done(&mut self) {
        if let Some((device, _, _)) = self.link.take() {
            self.start_part(device);
        }
        self.start_transfer();
    }

    /// The first in line starts, where the device is idle and its data is there.
    fn start_part(&mut self, device: DeviceIndex) {
        let Some(&task) = self.lanes[device].queue.front() else { return };
        let at = task as usize;
        let (share, now) = (self.records[at].share, self.now);
        let in_transfer = self.link.is_some_and(|(to, carried, _)| to == device && carried == task);
        let untransferred = self.lanes[device].untransferred.front().is_some_and(|&(_, first)| first == task);
        if self.running[device].is_some() || in_transfer || untransferred {
            return;
        }
        let (span, record) = (self.span(task, device), &mut self.records[at]);
        if let (CPU, Some(part)) = (device, &mut record.cpu) {
            (part.start, part.end) = (now, now + span);
            self.lanes[CPU].free_bytes -= Machine::bytes(self.memory[at], SHARE - share);
        } else if let Some(part) = &mut record.gpu {
            (part.start, part.end) = (now, now + span);
        }
        let expected = self.expected(task, device);
        self.lanes[device].queue.pop_front();
        self.running[device] = Some((task, now));
        self.queued[device] = Span(self.queued[device].0 - expected.0);
        self.running_until[device] = now + expected;
        self.changes.push(device);
        self.events.push(Reverse((now + span, Event::PartDone(device))));
    }

    /// The true run time of a task's part on a device.
    fn span(&self, task: u32, device: DeviceIndex) -> Span {
        let (truth, share) = (self.truths[task as usize], self.records[task as usize].share);
        if device == CPU { Machine::part(truth.cpu, SHARE - share) } else { Machine::part(truth.gpu, share) }
    }

    fn part_done(&mut self, device: DeviceIndex, finished: &mut Finished, ready: &mut Vec<u32>) {
        let Some((task, since)) = self.running[device].take() else { return };
        finished.parts.push((task, device, self.now.since(since)));
        let at = task as usize;
        let share = self.records[at].share;
        let held = if device == CPU { SHARE - share } else { share };
        self.lanes[device].free_bytes += Machine::bytes(self.memory[at], held);
        self.placed[device] -= 1;
        self.running_until[device] = self.now;
        self.changes.push(device);
        self.start_part(device);
        self.start_transfer();
        self.parts_left[at] -= 1;
        if self.parts_left[at] == 0 {
            self.parts_left[at] = ALL_DONE;
            self.records[at].finish = self.now;
            self.done += 1;
            finished.tasks.push(task);
            for index in 0..self.dependents[at].len() {
                self.release(self.dependents[at][index], ready);
            }
        }
    }
}
