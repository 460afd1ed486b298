//! What a server holds, and what can be wrong with it.

use super::{Asked, Mischief};
use gswarm_exec::backend::BackendKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Manners {
    /// What a load takes after it was agreed to.
    pub load: Duration,
    /// What an unload takes after it was agreed to.
    pub unload: Duration,
    /// What a call takes.
    pub call: Duration,
    /// How many models find room.
    pub room: usize,
    /// Models that find no room at all.
    pub too_large: Vec<&'static str>,
    /// How many unloads are agreed to and not carried out.
    pub lies: u64,
    /// Of a hundred requests, how many go wrong.
    pub mischief: u64,
    /// Whether all questions hang.
    pub hangs: bool,
    /// The token that has to be shown.
    pub token: Option<&'static str>,
    /// A word in a prompt that makes a call a bad request.
    pub poison: Option<&'static str>,
    /// What is awake when the server starts.
    pub awake: Vec<&'static str>,
    /// Whether answers say how many tokens there were.
    pub counts_tokens: bool,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners {
            load: Duration::from_millis(30),
            unload: Duration::from_millis(60),
            call: Duration::from_millis(3),
            room: 1,
            too_large: Vec::new(),
            lies: 0,
            mischief: 0,
            hangs: false,
            token: None,
            poison: None,
            awake: Vec::new(),
            counts_tokens: true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Loading(Instant),
    There,
    Leaving(Instant),
}

#[derive(Debug)]
pub struct Held {
    pub phase: Phase,
    pub calls: u32,
    /// It came with a server that was started again: nobody can have known, but whoever meets it has to cope with it.
    pub by_surprise: bool,
}

pub struct World {
    pub kind: BackendKind,
    pub manners: Manners,
    held: Mutex<BTreeMap<String, Held>>,
    /// What a client may never do.
    pub violations: Mutex<Vec<String>>,
    pub hangs: std::sync::atomic::AtomicBool,
    /// What is answered to everything, where it is set.
    pub says: Mutex<Option<(u16, &'static str)>>,
    /// Only calls are answered so.
    pub says_to_calls: std::sync::atomic::AtomicBool,
    lies: AtomicU64,
    requests: AtomicU64,
    pub loads: AtomicU64,
    /// Calls that were begun.
    pub calls: AtomicU64,
    /// This one gets no answer until its server dies; none where it is 0.
    pub stuck: AtomicU64,
    numbers: AtomicU64,
}

impl World {
    pub fn new(kind: BackendKind, manners: Manners) -> World {
        let world = World {
            kind,
            held: Mutex::default(),
            violations: Mutex::default(),
            hangs: manners.hangs.into(),
            says: Mutex::default(),
            says_to_calls: false.into(),
            lies: manners.lies.into(),
            requests: 0.into(),
            loads: 0.into(),
            calls: 0.into(),
            stuck: 0.into(),
            numbers: 0.into(),
            manners,
        };
        world.starts("", false);
        world
    }

    /// A server has died: the only one, or that of one model.
    pub fn loses(&self, own: &str) {
        locked(&self.held).retain(|name, _| !own.is_empty() && name != own);
    }

    /// A server has started, with what is awake on one that starts. Of several that share a GPU, one for which there is no
    /// room gets none.
    pub fn starts(&self, own: &str, by_surprise: bool) {
        let mut held = self.held();
        for name in self.manners.awake.iter().filter(|name| own.is_empty() || **name == own) {
            if held.len() < self.manners.room {
                held.insert((*name).to_owned(), Held { phase: Phase::There, calls: 0, by_surprise });
            }
        }
    }

    /// What it holds now.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        let mut held = locked(&self.held);
        let now = Instant::now();
        held.retain(|_, one| !matches!(one.phase, Phase::Leaving(until) if until <= now));
        for one in held.values_mut() {
            if matches!(one.phase, Phase::Loading(until) if until <= now) {
                one.phase = Phase::There;
            }
        }
        held
    }

    /// Begins a load; says why not.
    pub fn load(&self, key: &str, model: &str) -> Result<(), String> {
        let mut held = self.held();
        if held.get(key).is_some_and(|one| !matches!(one.phase, Phase::Leaving(_))) {
            return Ok(());
        }
        if self.manners.too_large.contains(&model) {
            return Err("CUDA out of memory: tried to allocate 80.00 GiB, 24.00 GiB in total".to_owned());
        }
        if held.keys().filter(|other| *other != key).count() >= self.manners.room {
            let others = held.iter().filter(|(other, one)| *other != key && !one.by_surprise);
            let there: Vec<&String> = others.map(|(other, _)| other).collect();
            if !there.is_empty() {
                locked(&self.violations).push(format!("`{key}` was loaded beside {there:?}"));
            }
            return Err("CUDA out of memory".to_owned());
        }
        self.loads.fetch_add(1, Ordering::SeqCst);
        held.insert(
            key.to_owned(),
            Held { phase: Phase::Loading(Instant::now() + self.manners.load), calls: 0, by_surprise: false },
        );
        Ok(())
    }

    /// Begins an unload, or only says so.
    pub fn unload(&self, key: &str) {
        let mut held = self.held();
        let Some(one) = held.get_mut(key) else { return };
        if one.calls > 0 {
            locked(&self.violations).push(format!("`{key}` was unloaded under a call"));
        }
        if matches!(one.phase, Phase::Loading(_)) {
            locked(&self.violations).push(format!("`{key}` was unloaded while it loads"));
        }
        let lies =
            self.lies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if !lies && one.phase == Phase::There {
            one.phase = Phase::Leaving(Instant::now() + self.manners.unload);
        }
    }

    /// Waits until a load has ended.
    pub async fn settled(&self, key: &str) {
        loop {
            let phase = self.held().get(key).map(|one| one.phase);
            let Some(Phase::Loading(until)) = phase else { return };
            tokio::time::sleep_until(until.into()).await;
        }
    }

    pub fn is_there(&self, key: &str) -> bool {
        self.held().get(key).is_some_and(|one| one.phase == Phase::There)
    }

    /// A call of what is there; `None` where it is not.
    pub async fn call(&self, key: &str) -> Option<()> {
        let count = |by: i32| {
            let mut held = self.held();
            let one = held.get_mut(key).filter(|one| one.phase == Phase::There)?;
            one.calls = one.calls.saturating_add_signed(by);
            Some(())
        };
        count(1)?;
        let _guard = Leaves(&count);
        tokio::time::sleep(self.manners.call).await;
        Some(())
    }

    /// Counts a call, and never returns for the one that is stuck.
    pub async fn begins_a_call(&self) {
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if number == self.stuck.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// The call after the next gets stuck; its number.
    pub fn gets_stuck(&self) -> u64 {
        let number = self.calls.load(Ordering::SeqCst) + 2;
        self.stuck.store(number, Ordering::SeqCst);
        number
    }

    pub fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// What goes wrong with this request: always the same for the same number of it.
    pub fn mischief(&self, asked: &Asked) -> Option<Mischief> {
        if self.hangs.load(Ordering::SeqCst) {
            return Some(Mischief::Hang);
        }
        let is_call =
            ["chat", "completions", "embed", "infer", "/call/"].iter().any(|part| asked.path.contains(part));
        if let Some((status, text)) = *locked(&self.says)
            && (is_call || !self.says_to_calls.load(Ordering::SeqCst))
        {
            return Some(if status == 0 { Mischief::BreaksOff } else { Mischief::Says(status, text) });
        }
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let hash = number.wrapping_add(7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        if hash % 100 >= self.manners.mischief {
            return None;
        }
        Some(match hash / 100 % 7 {
            0 => Mischief::Says(500, "{\"error\": \"internal\"}"),
            1 => Mischief::Says(503, "not now"),
            2 => Mischief::Says(429, "{\"error\": {\"message\": \"slow down\"}}"),
            3 => Mischief::Says(200, "<html>it works!</html>"),
            4 => Mischief::Says(200, "{\"unexpected\": []}"),
            5 if is_call => Mischief::Hang,
            _ => Mischief::BreaksOff,
        })
    }

    pub fn has_behaved(&self) {
        let violations = locked(&self.violations);
        assert!(violations.is_empty(), "{violations:?}");
    }
}

struct Leaves<F: Fn(i32) -> Option<()>>(F);

impl<F: Fn(i32) -> Option<()>> Drop for Leaves<F> {
    fn drop(&mut self) {
        (self.0)(-1);
    }
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
