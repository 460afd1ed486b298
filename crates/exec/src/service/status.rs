//! The status of a service: what waits, for what and why, and what is on the GPUs.

use super::open_requests::{Open, OpenRequests, Requester};
use crate::backend::Backend;
use crate::chronicle::{Chronicle, numbers};
use crate::drive::Machine;
use crate::scene::{Rank, Scene};
use crate::wire::{BackendStatus, CallStanding, GpuStatus, Queue, QueuedRequest, RequestKind};
use gswarm_core::{ModelId, RequestId, Span};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A look at a service between two of its steps.
pub struct ServiceView<'s> {
    pub(super) machine: &'s Machine<'static, OpenRequests>,
    pub(super) stopping: bool,
    pub(super) ttl: &'s BTreeMap<ModelId, Span>,
}

impl ServiceView<'_> {
    /// Why nothing can be done for requests at the moment, where that is so.
    #[must_use]
    pub fn not_ready(&self) -> Option<String> {
        match self.machine.abandoned_since() {
            _ if self.stopping => Some("the service is stopping".to_owned()),
            Some(_) => Some("no server answers; GET /v1/cluster says since when".to_owned()),
            None => self.desk().ledger.trouble().map(|trouble| trouble.to_string()),
        }
    }

    /// The backends that are not known to be out: whether they are is found out by asking.
    #[must_use]
    pub fn up(&self) -> Vec<Arc<dyn Backend>> {
        self.machine.up()
    }

    /// Requests that have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.desk().open.len()
    }

    /// The backends: whether each answers.
    #[must_use]
    pub fn backends(&self) -> Vec<BackendStatus> {
        let now = self.machine.clock.now();
        let backends = self.machine.standings().map(|one| BackendStatus {
            name: one.name.to_owned(),
            gpus: numbers(one.gpus),
            up: one.left.is_none(),
            state: one.state,
            down_seconds: one.left.map(|since| now.since(since).seconds()),
            why: one.why.map(str::to_owned),
        });
        backends.collect()
    }

    /// What is on each GPU, and what it does.
    #[must_use]
    pub fn gpus(&self) -> Vec<GpuStatus> {
        self.scene().gpus()
    }

    /// Where the open requests stand, those that came first at the front.
    #[must_use]
    pub fn queue(&self, from: usize, limit: usize) -> Queue {
        let desk = self.desk();
        let mut order: Vec<(i64, RequestId)> =
            desk.open.iter().map(|(&id, open)| (open.accepted, id)).collect();
        order.sort_unstable();
        let ranks = self.scene().ranks();
        let shown = order.iter().skip(from).take(limit);
        Queue {
            open: order.len() as u64,
            waiting_nodes: desk.ready.len() as u64,
            by_model: self.scene().by_model(),
            requests: shown.map(|&(_, id)| self.describe(id, &desk.open[&id], &ranks)).collect(),
        }
    }

    /// Where one open request stands, by its name.
    #[must_use]
    pub fn request(&self, name: &str) -> Option<QueuedRequest> {
        let desk = self.desk();
        let id = *desk.by_name.get(name)?;
        Some(self.describe(id, &desk.open[&id], &self.scene().ranks()))
    }

    /// How long models stay that nobody uses; others stay until their memory is needed.
    #[must_use]
    pub fn ttl(&self) -> &BTreeMap<ModelId, Span> {
        self.ttl
    }

    /// The files with what the processes that serve a model said last.
    #[must_use]
    pub fn outputs(&self, model: ModelId) -> Vec<PathBuf> {
        self.machine.outputs(model)
    }

    /// Where a direct call stands, by its ticket.
    #[must_use]
    pub fn call(&self, ticket: u64) -> Option<CallStanding> {
        let id = *self.desk().by_ticket.get(&ticket)?;
        let task = self.machine.engine.view().instance().tasks_of(id).next()?;
        Some(self.scene().call(task))
    }

    /// What happened of late.
    #[must_use]
    pub fn chronicle(&self) -> &Chronicle {
        &self.desk().chronicle
    }

    /// Whether it is about to end.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether no backend answers, so that all wait for one.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.machine.abandoned_since().is_some()
    }

    /// Seconds of the service's clock in a second of the wall's: emulated models may be faster than time.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.machine.clock.speed()
    }

    fn desk(&self) -> &OpenRequests {
        &self.machine.book
    }

    /// The look that is the same for every run.
    #[must_use]
    pub fn scene(&self) -> Scene<'_> {
        Scene {
            view: self.machine.engine.view(),
            now: self.machine.clock.now(),
            ready: &self.desk().ready,
            unserved: Some(self.machine.reasons()),
        }
    }

    fn describe(&self, id: RequestId, open: &Open, ranks: &[Vec<Rank>]) -> QueuedRequest {
        let scene = self.scene();
        let instance = scene.view.instance();
        let is_call = matches!(open.requester, Requester::Direct { .. });
        QueuedRequest {
            request_id: open.name.to_string(),
            workflow_id: instance.workflows[instance.requests[id].workflow].name.clone(),
            kind: if is_call { RequestKind::Call } else { RequestKind::Workflow },
            accepted_at: Some(open.accepted as f64 / 1e6),
            priority: instance.requests[id].priority,
            trouble: open.trouble.clone(),
            nodes: scene.nodes(id, ranks),
            status: None,
        }
    }
}
