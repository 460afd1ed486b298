//! Queues in front of the devices, for policies that choose a device as soon as a task is ready.

use super::Placement;
use crate::scheduling::view::{CPU, DeviceIndex, View};
use gswarm_core::{Span, Time};
use std::collections::BTreeSet;

/// How many parts a device may have at once: a GPU one that runs, and five whose data comes meanwhile. With fewer, GPUs
/// stand still behind short tasks, for which the link takes longer than the GPU.
pub fn depth(device: DeviceIndex) -> u32 {
    if device == CPU { 1 } else { 6 }
}

/// One queue a device, each in the order of (priority, arrival).
#[derive(Default)]
pub struct Lanes {
    queues: Vec<BTreeSet<(u64, u32, u32)>>,
    waiting: Vec<Span>,
    arrivals: u32,
}

impl Lanes {
    /// Makes sure that there is a queue for each device.
    fn fit(&mut self, view: &View<'_>) {
        if self.queues.len() < view.devices() {
            self.queues.resize_with(view.devices(), BTreeSet::new);
            self.waiting.resize(view.devices(), Span::ZERO);
        }
    }

    /// Puts a task into a device's queue: smaller priorities first, those that are equal in the order in which they come.
    pub fn push(&mut self, task: u32, device: DeviceIndex, priority: u64, view: &View<'_>) {
        self.fit(view);
        // A task that does not fit goes where it does.
        let device = if view.fits(task, device) {
            device
        } else {
            (0..view.devices()).find(|&other| view.fits(task, other)).unwrap_or(device)
        };
        self.queues[device].insert((priority, self.arrivals, task));
        self.arrivals += 1;
        self.waiting[device] += view.run_time(task, device);
    }

    /// When a device is expected to be done with all that it has and all that waits for it.
    pub fn free_at(&self, device: DeviceIndex, view: &View<'_>) -> Time {
        view.free_at(device) + self.waiting.get(device).copied().unwrap_or_default()
    }

    /// How many tasks have come.
    pub fn come(&self) -> u64 {
        u64::from(self.arrivals)
    }

    /// How many tasks wait for a device.
    pub fn len(&self, device: DeviceIndex) -> usize {
        self.queues.get(device).map_or(0, BTreeSet::len)
    }

    /// The first task of a queue.
    pub fn pop(&mut self, device: DeviceIndex, view: &View<'_>) -> Option<u32> {
        let (_, _, task) = self.queues.get_mut(device)?.pop_first()?;
        self.left(task, device, view);
        Some(task)
    }

    /// The last task of a queue that fits elsewhere, for who wants to take it away.
    pub fn steal(&mut self, from: DeviceIndex, to: DeviceIndex, view: &View<'_>) -> Option<u32> {
        let queue = self.queues.get_mut(from)?;
        let found = queue.iter().rev().find(|&&(_, _, task)| view.fits(task, to)).copied()?;
        queue.remove(&found);
        self.left(found.2, from, view);
        Some(found.2)
    }

    fn left(&mut self, task: u32, device: DeviceIndex, view: &View<'_>) {
        self.waiting[device] = Span(self.waiting[device].0.saturating_sub(view.run_time(task, device).0));
    }

    /// The next task for a device that can take one.
    pub fn feed(&mut self, view: &View<'_>) -> Option<Placement> {
        self.fit(view);
        let open =
            |&device: &DeviceIndex| view.placed[device] < depth(device) && !self.queues[device].is_empty();
        let device = (0..view.devices()).find(open)?;
        self.pop(device, view).map(|task| Placement::whole(task, device))
    }
}
