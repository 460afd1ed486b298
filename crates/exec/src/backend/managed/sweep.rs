//! Unloads what does not belong to the run: earlier models, and remains of failed loads.

use super::{Api, BackendError, Managed, ModelState, POLL, locked};
use crate::backend::attempt::Sweeping;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How long after one of several did not answer all are asked again.
const ASKS_AGAIN: Duration = Duration::from_secs(10);

impl<A: Api + 'static> Managed<A> {
    /// Sees to it that nothing is in the way that does not belong to the run.
    pub(super) async fn clean(&self) -> Result<(), BackendError> {
        if self.is_dirty.load(Ordering::SeqCst) || self.sees_strangers().await {
            self.sweep().await?;
        }
        Ok(())
    }

    /// Whether one of several servers holds what nobody asked for: it may have died and come back, unseen.
    pub(super) async fn sees_strangers(&self) -> bool {
        let asked_lately = |dead: &(Instant, _)| dead.0.elapsed() < ASKS_AGAIN;
        if self.api.keeps_all() || locked(&self.dead).as_ref().is_some_and(asked_lately) {
            return false;
        }
        let Ok(held) = self.api.held().await else { return false };
        let in_use = locked(&self.in_use);
        !held.silent.is_empty() || held.handles.iter().any(|handle| !in_use.contains(handle))
    }

    /// Takes off whatever does not belong to the run, and sees that it goes.
    pub(super) async fn sweep(&self) -> Result<(), BackendError> {
        let _shut = self.gate.write().await;
        self.sweep_behind_the_gate().await
    }

    pub(super) async fn sweep_behind_the_gate(&self) -> Result<(), BackendError> {
        // What is left behind from now on is for the next time.
        let mut sweeping = Sweeping { is_dirty: &self.is_dirty, is_done: false };
        self.is_dirty.store(false, Ordering::SeqCst);
        for handle in self.held_by_all().await? {
            if locked(&self.in_use).contains(&handle) {
                continue;
            }
            // One that is still loading is not told to go before it is there.
            let since = Instant::now();
            while self.api.look(&handle).await? == ModelState::Moving && since.elapsed() < self.limits.load {
                tokio::time::sleep(POLL.1).await;
            }
            self.api.release(&handle).await?;
            self.until(&handle, ModelState::Absent, self.limits.unload).await?;
        }
        sweeping.is_done = true;
        Ok(())
    }

    /// What is there. One of several servers that does not answer may hold something all the same: it is asked for a while
    /// before it is believed to be dead.
    pub(super) async fn held_by_all(&self) -> Result<Vec<String>, BackendError> {
        let (since, mut pause) = (Instant::now(), POLL.0);
        loop {
            let held = self.api.held().await?;
            let Some(why) = held.silent.values().next() else {
                self.all_answered.store(true, Ordering::SeqCst);
                *locked(&self.dead) = None;
                return Ok(held.handles);
            };
            if !self.all_answered.load(Ordering::SeqCst) {
                return Err(BackendError::Gone(why.clone()));
            }
            let is_known =
                |(_, dead): &(_, BTreeMap<_, _>)| held.silent.keys().all(|name| dead.contains_key(name));
            if since.elapsed() >= self.limits.answer || locked(&self.dead).as_ref().is_some_and(is_known) {
                *locked(&self.dead) = Some((Instant::now(), held.silent));
                return Ok(held.handles);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    }
}
