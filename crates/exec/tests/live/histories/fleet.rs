//! Servers with a history of illnesses, under tokio's paused clock.

use crate::support::*;
use gswarm_exec::backend::{Api, Brought, Held, HttpLimits, ModelState};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// What a server can suffer from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Illness {
    /// Its process has ended, and starts again empty.
    Down,
    /// It answers 5xx to everything, and keeps its models.
    Failing,
    /// It answers questions, and 5xx to loads and calls.
    FailingCalls,
    /// It does not answer until it goes on where it was.
    Frozen,
    /// Something else listens on its port, and knows nothing; it is back empty.
    Stranger,
    /// Somebody puts its models to sleep behind the run's back; it is well otherwise.
    Asleep,
}

impl Illness {
    pub const ALL: [Illness; 6] = [
        Illness::Down,
        Illness::Failing,
        Illness::FailingCalls,
        Illness::Frozen,
        Illness::Stranger,
        Illness::Asleep,
    ];
}

/// A part of a history.
#[derive(Clone, Debug)]
pub struct Phase {
    pub seconds: u64,
    /// None where it is well.
    pub illness: Option<Illness>,
}

pub fn limits() -> HttpLimits {
    let seconds = Duration::from_secs;
    HttpLimits { connect: seconds(5), answer: seconds(10), load: seconds(120), unload: seconds(60) }
}

const LOAD: Duration = Duration::from_secs(4);
const UNLOAD: Duration = Duration::from_secs(1);
const FOREVER: Duration = Duration::from_secs(1_000_000);

/// A server.
pub struct Simulated {
    history: Vec<Phase>,
    begun: Mutex<Option<Instant>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The phases that it has been through.
    seen: usize,
    held: BTreeSet<String>,
    loads: u32,
    /// By call, and by model.
    faults: HashMap<String, u32>,
}

impl Simulated {
    pub fn new(history: Vec<Phase>) -> Simulated {
        Simulated { history, begun: Mutex::default(), inner: Mutex::default() }
    }

    /// Its history begins now.
    pub fn begins(self: &Arc<Simulated>) -> Client {
        *self.begun.lock().unwrap() = Some(Instant::now());
        Client(Arc::clone(self))
    }

    pub fn loads(&self) -> u32 {
        self.inner.lock().unwrap().loads
    }

    /// How often it failed a call, or the load that the call waited for.
    pub fn faults(&self, call: &str, model: &str) -> u32 {
        let inner = self.inner.lock().unwrap();
        let of = |what: &str| inner.faults.get(what).copied().unwrap_or(0);
        of(call) + of(model)
    }

    fn fault(&self, what: &str) {
        *self.inner.lock().unwrap().faults.entry(what.to_owned()).or_default() += 1;
    }

    /// What it suffers from at a moment, and until when.
    fn phase(&self, at: Instant) -> (usize, Option<Illness>, Instant) {
        let begun = self.begun.lock().unwrap().expect("it has begun");
        let mut until = begun;
        for (number, phase) in self.history.iter().enumerate() {
            until += Duration::from_secs(phase.seconds).min(FOREVER);
            if at < until || number + 1 == self.history.len() {
                return (number, phase.illness, until);
            }
        }
        (self.history.len(), None, begun + FOREVER)
    }

    /// What it suffers from now. What it held before a restart is gone.
    fn now(&self) -> (Option<Illness>, Instant) {
        let (number, illness, until) = self.phase(Instant::now());
        let mut inner = self.inner.lock().unwrap();
        while inner.seen <= number {
            if let Some(Illness::Down | Illness::Stranger | Illness::Asleep) =
                self.history[inner.seen].illness
            {
                inner.held.clear();
            }
            inner.seen += 1;
        }
        (illness, until)
    }

    /// Works for a time: it is cut where the process ends meanwhile, and longer where it is frozen.
    async fn works(&self, time: Duration, what: &str) -> Result<(), BackendError> {
        let mut left = time;
        loop {
            let (illness, until) = self.now();
            match illness {
                Some(Illness::Down | Illness::Stranger) => {
                    self.fault(what);
                    return Err(BackendError::Gone("connection reset".to_owned()));
                }
                Some(Illness::Frozen) => {
                    sleep_until(until).await;
                    continue;
                }
                Some(Illness::Failing | Illness::FailingCalls) => {
                    self.fault(what);
                    return Err(BackendError::of_status(503, "answers 503: not now".to_owned()));
                }
                Some(Illness::Asleep) | None => {}
            }
            let now = Instant::now();
            if now + left < until {
                sleep_until(now + left).await;
                return Ok(());
            }
            left -= until - now;
            sleep_until(until).await;
        }
    }

    /// A question about its state, which is answered at once or not in time.
    async fn asked(&self) -> Result<(), BackendError> {
        let since = Instant::now();
        loop {
            let (illness, until) = self.now();
            return match illness {
                Some(Illness::Down) => Err(BackendError::Gone("connection refused".to_owned())),
                Some(Illness::Stranger) => {
                    Err(BackendError::of_status(404, "answers 404: no such page".to_owned()))
                }
                Some(Illness::Failing) => {
                    Err(BackendError::of_status(502, "answers 502: bad gateway".to_owned()))
                }
                Some(Illness::Frozen) => {
                    let limit = since + limits().answer;
                    sleep_until(until.min(limit)).await;
                    if limit <= until {
                        return Err(BackendError::Gone("no answer after 10.0 s".to_owned()));
                    }
                    continue;
                }
                _ => Ok(()),
            };
        }
    }
}

/// How it is asked.
pub struct Client(Arc<Simulated>);

#[async_trait::async_trait]
impl Api for Client {
    async fn bring(&self, name: &str, _: Gpus) -> Result<Brought, BackendError> {
        self.asked().await.inspect_err(|_| self.0.fault(name))?;
        let worked = tokio::time::timeout(limits().load, self.0.works(LOAD, name)).await;
        worked.unwrap_or(Err(BackendError::TimedOut(limits().load.as_secs_f64())))?;
        let mut inner = self.0.inner.lock().unwrap();
        inner.loads += 1;
        inner.held.insert(name.to_owned());
        Ok(name.into())
    }

    async fn release(&self, handle: &str) -> Result<(), BackendError> {
        self.asked().await?;
        self.0.works(UNLOAD, "unload").await?;
        self.0.inner.lock().unwrap().held.remove(handle);
        Ok(())
    }

    async fn look(&self, handle: &str) -> Result<ModelState, BackendError> {
        self.asked().await?;
        let there = self.0.inner.lock().unwrap().held.contains(handle);
        Ok(if there { ModelState::There } else { ModelState::Absent })
    }

    async fn held(&self) -> Result<Held, BackendError> {
        self.asked().await?;
        Ok(self.0.inner.lock().unwrap().held.iter().cloned().collect())
    }

    async fn call(&self, handle: &str, call: &Call) -> Result<Value, BackendError> {
        let (illness, _) = self.0.now();
        if let Some(Illness::Stranger) = illness {
            self.0.fault(&call.name);
            return Err(BackendError::of_status(404, "answers 404: no such page".to_owned()));
        }
        let there = |client: &Client| {
            client.0.now();
            client.0.inner.lock().unwrap().held.contains(handle)
        };
        if !there(self) {
            self.0.fault(&call.name);
            return Err(BackendError::of_status(404, format!("the model `{handle}` does not exist")));
        }
        self.0.works(Duration::from_micros(call.estimate.0), &call.name).await?;
        if !there(self) {
            self.0.fault(&call.name);
            return Err(BackendError::Failed("the call was aborted".to_owned()));
        }
        Ok(serde_json::json!({"text": "done"}))
    }
}

impl Client {
    async fn asked(&self) -> Result<(), BackendError> {
        self.0.asked().await
    }
}
