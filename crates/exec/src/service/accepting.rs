//! Acceptance of workflow requests: from submission until they are stored and admitted.

use super::Service;
use super::client::{Accepted, Refusal};
use super::ledger::Acceptance;
use super::open_requests::{Requester, unix_micros};
use crate::wire::ServiceEvent;
use gswarm_core::input::RequestSpec;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A request that was to be accepted: it is written down, or it is not.
pub(super) enum Admission {
    Written { spec: Arc<RequestSpec>, name: Arc<str>, caller: Arc<str>, accepted: i64 },
    Not,
}

impl Service {
    /// Has a request written down. It is done, and whoever sent it is told so, once it is.
    pub(super) fn submit(
        &mut self,
        spec: Arc<RequestSpec>,
        body: String,
        caller: Arc<str>,
        reply: oneshot::Sender<Result<Accepted, Refusal>>,
    ) {
        let trouble = || self.machine.book.ledger.trouble().map(Refusal::Storage);
        if let Some(refusal) = self.refuses(&caller).or_else(trouble) {
            return drop(reply.send(Err(refusal)));
        }
        self.accepting += 1;
        let workflow = self.machine.book.scenario.workflows[usize::from(spec.workflow)].id.clone();
        let (id, at): (Arc<str>, i64) = (spec.id.as_str().into(), unix_micros());
        let (admissions, name, of) = (self.to_be_written.clone(), Arc::clone(&id), Arc::clone(&caller));
        let written = move |written| {
            let (admission, answer) = match written {
                Ok(true) => {
                    let answer = Accepted { id: name.to_string(), accepted: at };
                    (Admission::Written { spec, name, caller: of, accepted: at }, Ok(answer))
                }
                Ok(false) => (Admission::Not, Err(Refusal::Taken)),
                Err(trouble) => (Admission::Not, Err(Refusal::Storage(trouble))),
            };
            // The service is told first: whoever asks it after the answer is to find the request. Either may have ended.
            let _ = admissions.send(admission);
            let _ = reply.send(answer);
        };
        let ledger = &mut self.machine.book.ledger;
        ledger.accept(Acceptance { id, workflow, body, caller, at, reply: Box::new(written) });
        ledger.commit();
    }

    pub(super) fn admits(&mut self, admission: Admission) {
        self.accepting -= 1;
        let Admission::Written { spec, name, caller, accepted } = admission else { return };
        // The next service does it.
        if self.stops_at.is_some() {
            return;
        }
        let now = self.machine.clock.now();
        let arrival = self.machine.book.turns.arrival(&caller, now);
        // A deadline counts from when it really came.
        let deadline = spec.deadline.map(|deadline| deadline + now.since(arrival));
        let new = self.new_request(&spec, arrival, deadline);
        let workflow = self.machine.book.scenario.workflows[usize::from(spec.workflow)].id.clone();
        let request = name.to_string();
        self.machine.book.told.tell(|| ServiceEvent::RequestAccepted { request, workflow });
        self.machine.book.chronicle.accepted(now, Arc::clone(&name), spec.workflow);
        self.machine.book.chronicle.arrived(&new);
        self.admit(new, name, caller, Requester::Submitted(spec), accepted);
    }
}
