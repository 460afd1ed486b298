//! Shutdown of a service: running work is finished, and waiting work is left to the next start.

use super::Service;
use super::open_requests::{Open, Requester};
use crate::drive::Happening;
use gswarm_core::TaskId;
use gswarm_core::engine::{Event, TaskState};

impl Service {
    /// Nothing more is taken on from now, and nothing more started for workflows.
    pub(super) fn stop(&mut self) {
        if self.stops_at.is_none() {
            let clock = &self.machine.clock;
            self.stops_at = Some(clock.now() + clock.of_wall(self.limits.drain));
            self.machine.book.told.end();
            let put_off = self.put_off(&[]);
            self.events.extend(put_off);
        }
    }

    /// Leaves to the next service what has been accepted, has work left, and of which nothing runs once what `happened` is
    /// handled.
    pub(super) fn put_off(&mut self, happened: &[Happening]) -> Vec<Event> {
        let view = self.machine.engine.view();
        let instance = view.instance();
        let has_finished = |task| happened.iter().any(|one| one.event == Event::Finished(task));
        let has_failed = |task| {
            happened
                .iter()
                .any(|one| matches!(one.event, Event::Failed(of) | Event::Refused(of) | Event::Deferred(of) if of == task))
        };
        let runs =
            |task: TaskId| view.state(task) == TaskState::Running && !has_finished(task) && !has_failed(task);
        let is_done = |task: TaskId| view.state(task) == TaskState::Done || has_finished(task);
        let is_left = |open: &Open| {
            matches!(open.requester, Requester::Submitted(_)) && !open.cancelled && !open.put_off
        };
        let mut put_off = Vec::new();
        for (&request, open) in self.machine.book.open.iter_mut().filter(|(_, open)| is_left(open)) {
            if !instance.tasks_of(request).any(runs) && !instance.tasks_of(request).all(is_done) {
                open.put_off = true;
                self.machine.book.touched.push(request);
                put_off.push(Event::Withdrawn(request));
            }
        }
        put_off
    }
}
