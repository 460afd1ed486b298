//! The dashboard's view of a running service.

use super::{Ahead, DashboardAbout, DashboardAnswer, DashboardSource, Present, WhatIfState, workflows};
use crate::fault::Fault;
use gswarm_core::Span;
use gswarm_core::policy::PolicySpec;
use gswarm_exec::service::Client;
use gswarm_exec::wire::{HistoryPage, Overview, OverviewSource, RunState};

/// A running service.
pub struct ServiceSource {
    client: Client,
    about: DashboardAbout,
    policy: PolicySpec,
}

impl ServiceSource {
    /// Watches a service that began at `started_at`, in seconds since 1970. `policy` is the one that it is run under.
    #[must_use]
    pub fn new(client: Client, started_at: f64, policy: PolicySpec) -> ServiceSource {
        let about = DashboardAbout {
            source: OverviewSource::Serve,
            title: "gswarm serve".to_owned(),
            started_at: Some(started_at),
            policy: policy.name().to_owned(),
            can_submit: true,
            can_what_if: true,
            workflows: workflows(&client.scenario.models, client.workflows()),
        };
        ServiceSource { client, about, policy }
    }
}

/// How much of the past is supposed to come again in a what-if.
const TRAFFIC: Span = Span(300_000_000);

fn stopped() -> Fault {
    Fault::unavailable("stopping", "the service is stopping")
}

impl DashboardSource for ServiceSource {
    fn overview(&self) -> DashboardAnswer<'_, Overview> {
        Box::pin(async {
            let present = self.client.ask(|standing| {
                let mut present = Present::of(&standing.scene(), standing.chronicle(), standing.open());
                present.backends = standing.backends();
                present.speed = standing.speed();
                present.state = match (standing.is_stopping(), standing.is_abandoned()) {
                    (true, _) => RunState::Stopping,
                    (_, true) => RunState::WaitingForServers,
                    _ => RunState::Running,
                };
                present.why = standing.not_ready();
                present
            });
            Ok(present.await.ok_or_else(stopped)?.told(&self.about))
        })
    }

    fn history(&self, after: u64, limit: usize) -> DashboardAnswer<'_, HistoryPage> {
        Box::pin(async move {
            let asked = self
                .client
                .ask(move |standing| (standing.chronicle().after(after, limit), standing.scene().ongoing()));
            let (part, ongoing) = asked.await.ok_or_else(stopped)?;
            Ok(part.history(&self.client.instance, ongoing))
        })
    }

    fn onward(&self, gpus: Option<u32>) -> Ahead<'_> {
        Box::pin(async move {
            let asked = self.client.ask(move |standing| {
                let scene = standing.scene();
                let traffic = standing.chronicle().traffic(scene.now, TRAFFIC);
                WhatIfState::of(&scene, gpus, Some(traffic))
            });
            let state = asked.await.ok_or_else(stopped)??;
            Ok((state, self.policy.clone(), 0))
        })
    }
}
