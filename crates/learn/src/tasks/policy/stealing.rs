//! Work stealing: tasks go to the queues in turn, and a device with nothing to do takes from the longest one.

use super::lanes::{Lanes, depth};
use super::{Placement, Policy};
use crate::tasks::view::{Device, View};

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
        for thief in 0..view.devices() {
            if view.placed[thief] >= depth(thief) {
                continue;
            }
            let mut victims: Vec<Device> = (0..view.devices()).filter(|&device| device != thief).collect();
            victims.sort_by_key(|&victim| std::cmp::Reverse(self.lanes.len(victim)));
            for victim in victims {
                if let Some(task) = self.lanes.steal(victim, thief, view) {
                    return Some(Placement::whole(task, thief));
                }
            }
        }
        None
    }
}
