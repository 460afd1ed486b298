//! What every server that is really there has in common: the rules by which models are loaded, unloaded and called. An
//! adapter only knows how its server is asked.
//!
//! - Nothing is believed: a load has ended when the state says that the model is there, an unload when it says that it is
//!   gone, whatever the answer was.
//! - The server belongs to the run: what it held before, and what a failed load has left on it, is taken off first.
//! - A model that does not fit onto GPUs which hold nothing else will not fit later: it fails at once from then on.
//! - A call that goes wrong is the call's fault only if the server still has the model.
//! - What loads and unloads took is handed on.

use super::api::{Api, Record, Served, State, Timed};
use super::http::Limits;
use super::{Backend, BackendError, Replica};
use crate::call::Call;
use crate::work::{Forward, Relay};
use gswarm_core::{Gpus, ModelId, Span};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as AsyncMutex, RwLock};

/// How often a state is asked for at first, and at last.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));
/// How often a model that should be gone is told so again.
const INSIST: Duration = Duration::from_secs(2);
/// How long a model that was agreed to be loaded may be neither there nor on its way.
const SETS_OUT: Duration = Duration::from_secs(5);

/// A server under these rules.
pub struct Managed<A> {
    api: Arc<A>,
    served: Vec<Served>,
    limits: Limits,
    record: Record,
    slots: Mutex<BTreeMap<Key, Arc<AsyncMutex<Slot>>>>,
    /// Handles that belong to the run; whatever else the server holds goes when it is swept.
    in_use: Arc<Mutex<BTreeSet<String>>>,
    /// Something may be there that does not belong to the run: at first, and after a load that failed.
    is_dirty: AtomicBool,
    /// Taken for reading while something is brought, for writing while the server is swept.
    gate: Arc<RwLock<()>>,
    /// Counts the resets: what began before one ends with it.
    epoch: AtomicU64,
    unfit: Mutex<BTreeMap<ModelId, String>>,
}

/// A model, and where the server can be told that: its first GPU.
type Key = (ModelId, Option<u32>);

/// A model on a server, and the GPUs on which it is thought to be.
#[derive(Default)]
struct Slot {
    handle: Option<String>,
    holders: BTreeSet<Gpus>,
}

impl<A: Api + 'static> Managed<A> {
    /// A server that serves these models, by number.
    pub fn new(api: A, served: Vec<Served>, limits: Limits, record: Record) -> Managed<A> {
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
        }
    }

    fn slot(&self, replica: Replica) -> Arc<AsyncMutex<Slot>> {
        let key = (replica.model, self.api.places().then_some(replica.gpus.first.0));
        Arc::clone(locked(&self.slots).entry(key).or_default())
    }

    /// Brings a model and sees that it comes.
    async fn bring(&self, replica: Replica, attempt: &Attempt<'_>) -> Result<String, BackendError> {
        let served = &self.served[replica.model.index()];
        let open = Arc::clone(&self.gate).read_owned().await;
        if self.epoch.load(Ordering::SeqCst) != attempt.epoch {
            return Err(BackendError::Gone("the server was taken out meanwhile".to_owned()));
        }
        if !self.api.places() {
            attempt.claims.add(&served.name);
        }
        let (api, name, gpus) = (Arc::clone(&self.api), served.name.clone(), replica.gpus);
        let claims = attempt.claims.clone();
        // On its own: what a server was asked for may come although nobody waits for it any more. Until that is known, and
        // it is known whose it is, nothing is swept.
        let brought = tokio::spawn(async move {
            let handle = api.bring(&name, gpus).await?;
            claims.add(&handle);
            drop(open);
            Ok(handle)
        });
        let failed = |error| BackendError::Failed(format!("the load was not carried out: {error}"));
        let handle = brought.await.map_err(failed)??;
        self.until(&handle, State::There, self.limits.load).await?;
        Ok(handle)
    }

    /// Waits for a state, and believes nothing else.
    async fn until(&self, handle: &str, wanted: State, limit: Duration) -> Result<(), BackendError> {
        let (since, mut pause) = (Instant::now(), POLL.0);
        let mut insisted = Instant::now();
        loop {
            let state = match self.api.look(handle).await {
                // A server that stumbles over a question is asked again.
                Err(BackendError::Failed(_)) if since.elapsed() < limit => State::Moving,
                other => other?,
            };
            if state == wanted || matches!((&wanted, &state), (State::Absent, State::Failed(_))) {
                return Ok(());
            }
            match (&wanted, &state) {
                (State::There, State::Broken(why) | State::Failed(why)) => {
                    return Err(BackendError::Failed(why.clone()));
                }
                // Nothing brings it any more: it is not there and not on its way.
                (State::There, State::Absent) if since.elapsed() > SETS_OUT => {
                    let why = format!("`{handle}` did not come, though the server agreed to load it");
                    return Err(BackendError::Failed(why));
                }
                (State::Absent, State::There | State::Broken(_)) if insisted.elapsed() >= INSIST => {
                    insisted = Instant::now();
                    self.api.release(handle).await?;
                }
                _ => {}
            }
            if since.elapsed() >= limit {
                let what = if wanted == State::There { "not there" } else { "still there" };
                let why = format!("`{handle}` is {what} after {:.1} s", limit.as_secs_f64());
                return Err(BackendError::Failed(why));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL.1);
        }
    }

    /// Takes off whatever does not belong to the run, and sees that it goes.
    async fn sweep(&self) -> Result<(), BackendError> {
        let _shut = self.gate.write().await;
        self.sweep_behind_the_gate().await
    }

    async fn sweep_behind_the_gate(&self) -> Result<(), BackendError> {
        // What is left behind from now on is for the next time.
        let mut sweeping = Sweeping { is_dirty: &self.is_dirty, is_done: false };
        self.is_dirty.store(false, Ordering::SeqCst);
        for handle in self.api.held().await? {
            if locked(&self.in_use).contains(&handle) {
                continue;
            }
            // One that is still loading is not told to go before it is there.
            let since = Instant::now();
            while self.api.look(&handle).await? == State::Moving && since.elapsed() < self.limits.load {
                tokio::time::sleep(POLL.1).await;
            }
            self.api.release(&handle).await?;
            self.until(&handle, State::Absent, self.limits.unload).await?;
        }
        sweeping.is_done = true;
        Ok(())
    }

    /// What went wrong with a load: whether the model does not fit at all.
    fn judged(&self, replica: Replica, error: BackendError) -> BackendError {
        if !lacks_memory(&error) {
            return error;
        }
        let said = error.to_string();
        let others = self.held_beside(replica);
        let gb = self.served[replica.model.index()].memory_gb;
        let why = format!("it takes {gb} GB by the configuration, on {} GPU: {said}", replica.gpus.count);
        if others {
            return BackendError::Failed(format!("no room beside the other models: {why}"));
        }
        locked(&self.unfit).insert(replica.model, why.clone());
        BackendError::DoesNotFit(why)
    }

    /// Whether anything else of the run is on the GPUs of a replica.
    fn held_beside(&self, replica: Replica) -> bool {
        let slots = locked(&self.slots);
        let mut beside = slots.iter().filter(|&(&(model, _), _)| model != replica.model);
        beside.any(|(_, slot)| {
            // One that is being loaded or unloaded just now takes room too.
            let Ok(slot) = slot.try_lock() else { return true };
            let shares = |gpus: &Gpus| !self.api.places() || crate::keeper::overlap(*gpus, replica.gpus);
            slot.handle.is_some() && slot.holders.iter().any(shares)
        })
    }

    fn tell(&self, replica: Replica, load: bool, since: Instant) {
        let (model, gpus, tier) = (replica.model, replica.gpus, self.api.tier());
        let seconds = since.elapsed().as_secs_f64();
        (self.record)(&Timed { model, gpus, load, tier, seconds });
    }

    /// A call while an eye is kept on the server: one that hangs is found out long before the call is given up.
    async fn watched<T>(
        &self,
        handle: &str,
        mut work: impl Future<Output = Result<T, BackendError>> + Unpin,
    ) -> Result<T, BackendError> {
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                () = tokio::time::sleep(self.limits.answer) => self.still_has(handle).await?,
            }
        }
    }

    /// A call that goes wrong is its own fault only if the server still has the model; then it is no reason to take the
    /// server out, and all other calls with it, even where the connection broke.
    async fn blamed<T>(&self, handle: &str, result: Result<T, BackendError>) -> Result<T, BackendError> {
        let Err(error) = result else { return result };
        match (self.still_has(handle).await, error) {
            (Ok(()), BackendError::Gone(why)) => Err(BackendError::Failed(why)),
            (Ok(()), error) => Err(error),
            // One of several servers: the others go on, and only what needs this one waits until it is back.
            (Err(_), BackendError::Gone(why)) if self.api.is_one_of_many(handle) => {
                while let Err(BackendError::Gone(_)) = self.api.look(handle).await {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(BackendError::Failed(why))
            }
            (Err(gone), _) => Err(gone),
        }
    }

    async fn handle(&self, replica: Replica) -> Result<String, BackendError> {
        let handle = self.slot(replica).lock().await.handle.clone();
        handle.ok_or_else(|| BackendError::Gone("the server was taken out meanwhile".to_owned()))
    }

    async fn still_has(&self, handle: &str) -> Result<(), BackendError> {
        match self.api.look(handle).await {
            Ok(State::There) => Ok(()),
            Ok(other) => Err(BackendError::Gone(format!("it no longer has `{handle}`: {other:?}"))),
            Err(error @ BackendError::Gone(_)) => Err(error),
            // A server that stumbles over a question still has what it has.
            Err(_) => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl<A: Api + 'static> Backend for Managed<A> {
    async fn load(&self, replica: Replica, _expected: Span) -> Result<(), BackendError> {
        if let Some(why) = locked(&self.unfit).get(&replica.model) {
            return Err(BackendError::DoesNotFit(why.clone()));
        }
        let epoch = self.epoch.load(Ordering::SeqCst);
        if self.is_dirty.load(Ordering::SeqCst) {
            self.sweep().await?;
        }
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        if slot.handle.is_none() {
            let since = Instant::now();
            let mut attempt = Attempt::new(self, epoch);
            let mut brought = self.bring(replica, &attempt).await;
            // Something that nobody knows of may be in the way, left by a server that fell and came back: the server is
            // swept and asked once more before it is believed that a model does not fit.
            if brought.as_ref().is_err_and(lacks_memory) && !self.held_beside(replica) {
                attempt = Attempt::new(self, epoch);
                self.sweep().await?;
                brought = self.bring(replica, &attempt).await;
            }
            slot.handle = Some(brought.map_err(|error| self.judged(replica, error))?);
            attempt.went_well = true;
            self.tell(replica, true, since);
        }
        slot.holders.insert(replica.gpus);
        Ok(())
    }

    async fn unload(&self, replica: Replica) -> Result<(), BackendError> {
        let slot = self.slot(replica);
        let mut slot = slot.lock().await;
        slot.holders.remove(&replica.gpus);
        let Some(handle) = slot.handle.clone().filter(|_| slot.holders.is_empty()) else { return Ok(()) };
        if self.api.keeps_all() {
            slot.handle = None;
            return Ok(());
        }
        let since = Instant::now();
        self.api.release(&handle).await?;
        self.until(&handle, State::Absent, self.limits.unload).await?;
        slot.handle = None;
        locked(&self.in_use).remove(&handle);
        self.tell(replica, false, since);
        Ok(())
    }

    async fn call(&self, replica: Replica, call: &Call) -> Result<Value, BackendError> {
        let handle = self.handle(replica).await?;
        let result = self.watched(&handle, self.api.call(&handle, call)).await;
        self.blamed(&handle, result).await
    }

    async fn forward(
        &self,
        replica: Replica,
        forward: &Forward,
        relay: &mut Relay,
    ) -> Result<(), BackendError> {
        let handle = self.handle(replica).await?;
        let Some((http, name)) = self.api.passes_on(&handle) else {
            let answer = self.call(replica, &forward.as_call()).await?;
            relay.whole(forward, &answer).await;
            return Ok(());
        };
        let result = self.watched(&handle, Box::pin(http.pass_on(forward, &name, relay))).await;
        self.blamed(&handle, result).await
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

/// A load under way. Unless it goes well, and also where it is dropped half-way, it leaves the server to be swept.
struct Attempt<'m> {
    epoch: u64,
    claims: Claims,
    is_dirty: &'m AtomicBool,
    went_well: bool,
}

impl<'m> Attempt<'m> {
    fn new<A>(managed: &'m Managed<A>, epoch: u64) -> Attempt<'m> {
        let claims =
            Claims { in_use: Arc::clone(&managed.in_use), handles: Arc::new(Mutex::new(Some(Vec::new()))) };
        Attempt { epoch, claims, is_dirty: &managed.is_dirty, went_well: false }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.went_well {
            self.claims.give_up();
            self.is_dirty.store(true, Ordering::SeqCst);
        }
    }
}

/// What a load says belongs to the run, until it is given up.
#[derive(Clone)]
struct Claims {
    in_use: Arc<Mutex<BTreeSet<String>>>,
    handles: Arc<Mutex<Option<Vec<String>>>>,
}

impl Claims {
    fn add(&self, handle: &str) {
        if let Some(handles) = locked(&self.handles).as_mut() {
            locked(&self.in_use).insert(handle.to_owned());
            handles.push(handle.to_owned());
        }
    }

    fn give_up(&self) {
        for handle in locked(&self.handles).take().into_iter().flatten() {
            locked(&self.in_use).remove(&handle);
        }
    }
}

/// A sweep under way. One that does not come to its end leaves the server as it was.
struct Sweeping<'m> {
    is_dirty: &'m AtomicBool,
    is_done: bool,
}

impl Drop for Sweeping<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.is_dirty.store(true, Ordering::SeqCst);
        }
    }
}

/// How often it is asked whether a server is back.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

fn lacks_memory(error: &BackendError) -> bool {
    match error {
        BackendError::DoesNotFit(_) => true,
        BackendError::Failed(why) | BackendError::Refused(why) => speaks_of_memory(why),
        _ => false,
    }
}

/// Whether an error is about memory that is lacking, in the words that servers have for it.
fn speaks_of_memory(text: &str) -> bool {
    let text = text.to_lowercase();
    let words =
        ["out of memory", "outofmemory", "not enough memory", "insufficient memory", "more system memory"];
    let more =
        ["more memory", "does not fit", "unable to allocate", "failed to allocate", "no available memory"];
    words.iter().chain(&more).any(|words| text.contains(words))
}

/// What a mutex guards, also after a panic elsewhere.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
