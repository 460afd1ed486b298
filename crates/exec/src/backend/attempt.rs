//! Loads and sweeps in progress: what they leave behind is known even if they are dropped half-way.

use super::managed::locked;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A load under way. Unless it goes well, and also where it is dropped half-way, it leaves the server to be swept.
pub(super) struct Attempt<'m> {
    pub epoch: u64,
    pub claims: Claims,
    is_dirty: &'m AtomicBool,
    pub went_well: bool,
}

impl<'m> Attempt<'m> {
    pub fn new(epoch: u64, in_use: &Arc<Mutex<BTreeSet<String>>>, is_dirty: &'m AtomicBool) -> Attempt<'m> {
        let claims = Claims { in_use: Arc::clone(in_use), handles: Arc::new(Mutex::new(Some(Vec::new()))) };
        Attempt { epoch, claims, is_dirty, went_well: false }
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
pub(super) struct Claims {
    in_use: Arc<Mutex<BTreeSet<String>>>,
    handles: Arc<Mutex<Option<Vec<String>>>>,
}

impl Claims {
    pub fn add(&self, handle: &str) {
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
pub(super) struct Sweeping<'m> {
    pub is_dirty: &'m AtomicBool,
    pub is_done: bool,
}

impl Drop for Sweeping<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.is_dirty.store(true, Ordering::SeqCst);
        }
    }
}
