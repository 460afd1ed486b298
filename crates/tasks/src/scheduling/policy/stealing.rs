//! Work stealing: tasks go to the queues in turn, and a device with nothing to do takes from the longest one.

use super::lanes::{Lanes, depth};
use super::{Placement, Policy};
use crate::scheduling::view::{CPU, DeviceIndex, View};
use std::cmp::Reverse;

/// The policy. It knows no run times at all.
#[derive(Default)]
pub struct WorkStealing {
    lanes: Lanes,
    next: usize,
}

impl Policy for WorkStealing {
    fn ready(&mut self, task: u32, view: &View<'_>) {
        self.lanes.push(task, self.next % view.devices(), 0, view);
        self.next += 1;
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Placement> {
        if let Some(placement) = self.lanes.feed(view) {
            return Some(placement);
        }
        let open = |&device: &DeviceIndex| view.placed[device] < depth(device);
        // GPUs are alike: what the first of them finds nothing for, no other does.
        let thieves = [Some(CPU).filter(open), (1..view.devices()).find(open)];
        if thieves == [None; 2] {
            return None;
        }
        // Nothing waits for a device that could take a task and was not fed: no thief is its own victim.
        let mut victims: Vec<DeviceIndex> =
            (0..view.devices()).filter(|&device| self.lanes.len(device) > 0).collect();
        victims.sort_by_key(|&victim| Reverse(self.lanes.len(victim)));
        for thief in thieves.into_iter().flatten() {
            for &victim in &victims {
                if let Some(task) = self.lanes.steal(victim, thief, view) {
                    return Some(Placement::whole(task, thief));
                }
            }
        }
        None
    }
}
