//! The common rules of all real servers: how models are loaded, unloaded and called. An adapter only knows how to query
//! its server.
//!
//! - Answers are not trusted: a load or unload has ended when the server's state says so.
//! - The server belongs to the run: its earlier models, and remains of failed loads, are unloaded first.
//! - A model that does not fit onto empty GPUs never will: it fails at once from then on.
//! - A failed call is the call's own fault only if the server says that it still has the model. Failed loads are the
//!   server's fault.
//! - If one of several servers fails, the others continue. Only calls that need it wait, for a limited time, and are
//!   retried when it is back.
//! - Times of loads and unloads are reported.

mod falls;
mod sweep;
#[cfg(test)]
mod tests;

use super::abilities::CallAbilities;
use super::api::{Api, Brought, LoadRecorder, LoadTime, ModelState, ServedModel, WeightTier};
use super::attempt::Attempt;
use super::http::{ForwardResult, HttpLimits};
use super::preflight::Preflight;
use super::{Backend, BackendError, Replica};
use crate::call::Call;
use crate::forward::{Forward, Relay};
use gswarm_core::{Gpus, ModelId, Span};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, RwLock};
use tokio::time::Instant;

/// How often a state is asked for at first, and at last.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How often a model that should be gone is told so again.
const INSIST: Duration = Duration::from_secs(2);
/// How long a model that was agreed to be loaded may be neither there nor on its way.
const SETS_OUT: Duration = Duration::from_secs(5);

/// A server under these rules.
pub struct Managed<A> {
    api: Arc<A>,
    served: Vec<ServedModel>,
    limits: HttpLimits,
    record: LoadRecorder,
    slots: Mutex<BTreeMap<Key, Arc<AsyncMutex<Slot>>>>,
    /// Handles that belong to the run; whatever else the server holds goes when it is swept.
    in_use: Arc<Mutex<BTreeSet<String>>>,
    /// Something may be there that does not belong to the run: at first, and after a load that failed.
    is_dirty: AtomicBool,
    /// Taken for reading while something is brought, for writing while the server is swept.
    gate: Arc<RwLock<()>>,
    /// Counts the resets: what began before one ends with it.
    epoch: AtomicU64,
    /// Models that will not come however often they are asked for, and why.
    unfit: Mutex<BTreeMap<ModelId, BackendError>>,
    /// Those of several servers that are believed to be dead, and why, since when all were asked.
    dead: Mutex<Option<(Instant, BTreeMap<String, String>)>>,
    /// All of several servers have answered at some time: from then on, one that does not is a server that fell. Before, it
    /// may be one that has not started yet, and the run waits for it.
    all_answered: AtomicBool,
}

/// A model, and where the server can be told that: its first GPU.
type Key = (ModelId, Option<u32>);

/// A model on a server, and the GPUs on which it is thought to be.
#[derive(Default)]
struct Slot {
    handle: Option<String>,
    holders: BTreeSet<Gpus>,
    /// It was there and fell with its server: whoever calls it next brings it again.
    has_fallen: bool,
}

impl<A: Api + 'static> Managed<A> {
    /// A server that serves these models, by number.
    pub fn new(api: A, served: Vec<ServedModel>, limits: HttpLimits, record: LoadRecorder) -> Managed<A> {
        Managed {
            api: Arc::new(api),
            served,
            limits,
            record,
            slots: Mutex::default(),
            in_use: Arc::default(),
            is_dirty: AtomicBool::new(true),
            gate: Arc::default(),
            epoch: AtomicU64::new(0),
            unfit: Mutex::default(),
            dead: Mutex::default(),
            all_answered: AtomicBool::new(false),
        }
    }

    fn slot(&self, replica: Replica) -> Arc<AsyncMutex<Slot>> {
        let key = (replica.model, self.api.places().then_some(replica.gpus.first.0));
        Arc::clone(locked(&self.slots).entry(key).or_default())
    }

    /// Brings a model and sees that it comes.
    async fn bring(&self, replica: Replica, attempt: &Attempt<'_>) -> Result<Brought, BackendError> {
        let served = &self.served[replica.model.index()];
        let open = Arc::clone(&self.gate).read_owned().await;
        if self.epoch.load(Ordering::SeqCst) != attempt.epoch {
            return Err(BackendError::Gone("the server left rotation meanwhile".to_owned()));
        }
        if !self.api.places() {
            attempt.claims.add(&served.name);
        }
        let (api, name, gpus) = (Arc::clone(&self.api), served.name.clone(), replica.gpus);
        let claims = attempt.claims.clone();
        // On its own: what a server was asked for may come although nobody waits for it any more. Until that is known, and
        // it is known whose it is, nothing is swept.
        let brought = tokio::spawn(async move {
            let brought = api.bring(&name, gpus).await?;
            claims.add(&brought.handle);
            drop(open);
            Ok(brought)
        });
        let failed = |error| BackendError::Failed(format!("the load was not carried out: {error}"));
        let brought = brought.await.map_err(failed)??;
        self.until(&brought.handle, ModelState::There, self.limits.load).await?;
        Ok(brought)
    }

    /// Brings a model that is not there, with whatever is in its way taken off.
    async fn bring_anew(&self, replica: Replica, epoch: u64) -> Result<String, BackendError> {
        let since = Instant::now();
        let mut attempt = Attempt::new(epoch, &self.in_use, &self.is_dirty);
        let mut brought = self.bring(replica, &attempt).await;
        let name = &self.served[replica.model.index()].name;
        if let Err(BackendError::Gone(why)) = &brought
            && self.has_fallen_alone(name).await
        {
            if !self.comes_back(name).await {
                return Err(BackendError::Unwell(why.clone()));
            }
            attempt = Attempt::new(epoch, &self.in_use, &self.is_dirty);
            brought = self.bring(replica, &attempt).await;
        }
        // Something that nobody knows of may be in the way, left by a server that fell and came back: the server is swept and
        // asked once more before it is believed that a model does not fit.
        if brought.as_ref().is_err_and(BackendError::lacks_memory) && !self.held_beside(replica) {
            attempt = Attempt::new(epoch, &self.in_use, &self.is_dirty);
            self.sweep().await?;
            brought = self.bring(replica, &attempt).await;
        }
        let Brought { handle, tier } = brought.map_err(|error| self.judged(replica, error))?;
        attempt.went_well = true;
        self.tell(replica, true, tier, since);
        Ok(handle)
    }

    /// Waits for a state, and believes nothing else.
    async fn until(&self, handle: &str, wanted: ModelState, limit: Duration) -> Result<(), BackendError> {
        let (since, mut pause) = (Instant::now(), POLL.0);
        let mut insisted = Instant::now();
        loop {
            let state = match self.api.look(handle).await {
                // A server that stumbles over a question is asked again.
                Err(BackendError::Failed(_) | BackendError::Unwell(_)) if since.elapsed() < limit => {
                    ModelState::Moving
                }
                other => other?,
            };
            if state == wanted || matches!((&wanted, &state), (ModelState::Absent, ModelState::Failed(_))) {
                return Ok(());
            }
            match (&wanted, &state) {
                (ModelState::There, ModelState::Broken(why) | ModelState::Failed(why)) => {
                    return Err(BackendError::Failed(why.clone()));
                }
                // Nothing brings it any more: it is not there and not on its way.
                (ModelState::There, ModelState::Absent) if since.elapsed() > SETS_OUT => {
                    let why =
                        format!("the server accepted the load of `{handle}`, but the model did not appear");
                    return Err(BackendError::Failed(why));
                }
                (ModelState::Absent, ModelState::There | ModelState::Broken(_))
                    if insisted.elapsed() >= INSIST =>
                {
                    insisted = Instant::now();
                    self.api.release(handle).await?;
                }
                _ => {}
            }
            if since.elapsed() >= limit {
                let what = if wanted == ModelState::There { "not there" } else { "still there" };
                let why = format!("`{handle}` is {what} after {:.1} s", limit.as_secs_f64());
                return Err(BackendError::Failed(why));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// What went wrong with a load: whether the model does not fit at all.
    fn judged(&self, replica: Replica, error: BackendError) -> BackendError {
        if let BackendError::Unusable(_) = error {
            locked(&self.unfit).insert(replica.model, error.clone());
        }
        if !error.lacks_memory() {
            return error;
        }
        let said = error.to_string();
        let others = self.held_beside(replica);
        let gb = self.served[replica.model.index()].memory_gb;
        let why =
            format!("it needs {gb} GB according to the configuration, on {} GPU: {said}", replica.gpus.count);
        if others {
            return BackendError::Failed(format!("no room next to the other models: {why}"));
        }
        // It may be alive after all.
        if locked(&self.dead).is_some() {
            return BackendError::Failed(format!("no room while another server does not answer: {why}"));
        }
        let unfit = BackendError::DoesNotFit(why);
        locked(&self.unfit).insert(replica.model, unfit.clone());
        unfit
    }

    /// Whether anything else of the run is on the GPUs of a replica.
    fn held_beside(&self, replica: Replica) -> bool {
        let slots = locked(&self.slots);
        let mut beside = slots.iter().filter(|&(&(model, _), _)| model != replica.model);
        beside.any(|(_, slot)| {
            // One that is being loaded or unloaded just now takes room too.
            let Ok(slot) = slot.try_lock() else { return true };
            let shares = |gpus: &Gpus| !self.api.places() || crate::replica::overlap(*gpus, replica.gpus);
            slot.handle.is_some() && slot.holders.iter().any(shares)
        })
    }

    fn tell(&self, replica: Replica, load: bool, tier: Option<WeightTier>, since: Instant) {
        let (model, gpus, tier) = (replica.model, replica.gpus, tier.unwrap_or(self.api.tier()));
        let seconds = since.elapsed().as_secs_f64();
        (self.record)(&LoadTime { model, gpus, load, tier, seconds });
    }
}

#[async_trait::async_trait]
impl<A: Api + 'static> Backend for Managed<A> {
    async fn load(&self, replica: Replica, _expected: Span) -> Result<(), BackendError> {
        if let Some(why) = locked(&self.unfit).get(&replica.model) {
            return Err(why.clone());
        }
        let epoch = self.epoch.load(Ordering::SeqCst);
        self.clean().await.map_err(BackendError::of_load)?;
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        if slot.handle.is_none() {
            let brought = self.bring_anew(replica, epoch).await;
            slot.handle = Some(brought.map_err(BackendError::of_load)?);
        }
        slot.holders.insert(replica.gpus);
        Ok(())
    }

    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        slot.holders.remove(&replica.gpus);
        slot.has_fallen &= !slot.holders.is_empty();
        let Some(handle) = slot.handle.clone().filter(|_| slot.holders.is_empty()) else { return Ok(()) };
        if self.api.keeps_all() {
            slot.handle = None;
            return Ok(());
        }
        let since = Instant::now();
        let released = match self.api.release(&handle).await {
            Ok(()) => self.until(&handle, ModelState::Absent, self.limits.unload).await,
            error => error,
        };
        match released {
            // A server that is dead holds nothing. When it is back it may: the next load looks.
            Err(BackendError::Gone(_))
                if self.has_fallen_alone(&handle).await && !self.comes_back(&handle).await =>
            {
                self.is_dirty.store(true, Ordering::SeqCst);
            }
            other => other?,
        }
        slot.handle = None;
        locked(&self.in_use).remove(&handle);
        self.tell(replica, false, None, since);
        Ok(())
    }

    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let handle = self.handle(replica).await?;
        let asked = Instant::now();
        let result = self.watched(&handle, self.api.call(&handle, call)).await;
        self.blamed(replica, &handle, asked, result).await
    }

    async fn forward(
        &self,
        replica: Replica,
        forward: &Forward,
        relay: &mut Relay,
    ) -> Result<(), BackendError> {
        let handle = self.handle(replica).await?;
        let asked = Instant::now();
        let result = self.watched(&handle, self.api.forward(&handle, forward, relay)).await;
        match result {
            Ok(ForwardResult::Answered) => Ok(()),
            Ok(ForwardResult::Unknown) => super::forward_as_calls(self, replica, forward, relay).await,
            // The server may have been started anew, and have lost the model: then this is nothing for whoever asked.
            Ok(ForwardResult::Refused { status, kind, text, why }) => {
                let refused = Err::<(), _>(BackendError::Refused(why));
                let lost = self.blamed(replica, &handle, asked, refused).await;
                if let Err(BackendError::Refused(_)) = lost {
                    relay.head(status, &kind);
                    relay.piece(text).await;
                    return Ok(());
                }
                lost
            }
            Err(error) => self.blamed(replica, &handle, asked, Err(error)).await,
        }
    }

    fn abilities(&self, model: ModelId) -> CallAbilities {
        self.served
            .get(model.index())
            .map_or_else(CallAbilities::default, |served| self.api.abilities(&served.name))
    }

    fn output(&self, model: ModelId) -> Option<std::path::PathBuf> {
        self.served.get(model.index()).and_then(|served| self.api.output(&served.name))
    }

    async fn answers(&self) -> bool {
        self.api.held().await.is_ok()
    }

    async fn preflight(&self, models: &[ModelId]) -> Preflight {
        let wanted: Vec<ServedModel> =
            models.iter().filter_map(|model| self.served.get(model.index()).cloned()).collect();
        self.api.preflight(&wanted).await
    }

    async fn reset(&self) -> Result<(), BackendError> {
        let _shut = self.gate.write().await;
        self.epoch.fetch_add(1, Ordering::SeqCst);
        locked(&self.slots).clear();
        locked(&self.in_use).clear();
        locked(&self.unfit).clear();
        self.sweep_behind_the_gate().await
    }
}

/// What a mutex guards, also after a panic elsewhere.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
