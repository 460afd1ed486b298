//! Attributes failed calls: to the call itself, or to a server that hangs, lost the model or crashed.

use super::{Api, BackendError, Managed, ModelState, Replica, locked};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// How often it is asked whether a server is back.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
impl<A: Api + 'static> Managed<A> {
    /// A call while an eye is kept on the server: one that hangs is found out long before the call is given up.
    pub(super) async fn watched<T>(
        &self,
        handle: &str,
        mut work: impl Future<Output = Result<T, BackendError>> + Unpin,
    ) -> Result<T, BackendError> {
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = tokio::time::sleep(self.limits.answer) => match self.still_has(handle).await {
                    // One that stumbles over a question may answer the call all the same.
                    Ok(()) | Err(BackendError::Unwell(_)) => {}
                    Err(gone) => return Err(gone),
                },
            }
        }
    }

    /// A call that goes wrong is its own fault only if the server still has the model; then it is no reason to take the
    /// server out, and all other calls with it, even where the connection broke.
    pub(super) async fn blamed<T>(
        &self,
        replica: Replica,
        handle: &str,
        asked: Instant,
        result: Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let Err(error) = result else { return result };
        if error.denies_the_model() {
            self.api.denied(handle, asked.into_std());
        }
        match (self.still_has(handle).await, error) {
            (Ok(()), BackendError::Gone(why)) => Err(BackendError::Unwell(why)),
            (Ok(()), error) => Err(error),
            // Something else may listen there by now: what it says of the call counts for nothing.
            (Err(BackendError::Unwell(state)), error) => {
                Err(BackendError::Unwell(format!("{error}; its state: {state}")))
            }
            (Err(gone), error) if self.has_fallen_alone(handle).await => {
                tracing::warn!("`{handle}` has crashed, the others continue: {gone}");
                if self.comes_back(handle).await {
                    tracing::warn!("`{handle}` answers again");
                }
                self.falls(replica, handle).await;
                // Where it only lost the model, and lives, nothing has crashed.
                match error {
                    BackendError::Gone(why) => Err(BackendError::Crashed(why)),
                    error => Err(BackendError::Unwell(error.to_string())),
                }
            }
            (Err(gone), _) => Err(gone),
        }
    }

    /// A model is no longer there, though nobody has taken it off.
    pub(super) async fn falls(&self, replica: Replica, handle: &str) {
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        // Somebody else may have seen it before, and brought it again.
        if slot.handle.as_deref() == Some(handle)
            && matches!(self.still_has(handle).await, Err(BackendError::Gone(_)))
        {
            slot.handle = None;
            slot.has_fallen = true;
            locked(&self.in_use).remove(handle);
            self.is_dirty.store(true, Ordering::SeqCst);
        }
    }

    pub(super) async fn handle(&self, replica: Replica) -> Result<String, BackendError> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        if slot.has_fallen && slot.handle.is_none() {
            self.clean().await.map_err(BackendError::of_load)?;
            let brought = self.bring_anew(replica, epoch).await;
            slot.handle = Some(brought.map_err(BackendError::of_load)?);
            slot.has_fallen = false;
        }
        let handle = slot.handle.clone();
        handle.ok_or_else(|| BackendError::Gone("the server left rotation meanwhile".to_owned()))
    }

    /// Whether the server says that it has a model: it is gone where it has none, and unwell where it does not say.
    pub(super) async fn still_has(&self, handle: &str) -> Result<(), BackendError> {
        match self.api.look(handle).await {
            Ok(ModelState::There) => Ok(()),
            Ok(ModelState::Broken(why) | ModelState::Failed(why)) => {
                Err(BackendError::Gone(format!("it no longer has `{handle}`: {why}")))
            }
            Ok(_) => Err(BackendError::Gone(format!("it no longer has `{handle}`"))),
            Err(error @ BackendError::Gone(_)) => Err(error),
            Err(error) => Err(BackendError::Unwell(error.to_string())),
        }
    }

    /// Whether a server that does not answer is one of several which have all answered before, and others still do.
    pub(super) async fn has_fallen_alone(&self, handle: &str) -> bool {
        self.all_answered.load(Ordering::SeqCst)
            && self.api.is_one_of_many(handle)
            && self.api.held().await.is_ok()
    }

    /// Whether a server that fell answers again within a while. Not for long: what waits for it keeps its GPUs from others.
    pub(super) async fn comes_back(&self, handle: &str) -> bool {
        let since = Instant::now();
        while let Err(BackendError::Gone(_)) = self.api.look(handle).await {
            if since.elapsed() >= self.limits.answer {
                return false;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        true
    }
}
