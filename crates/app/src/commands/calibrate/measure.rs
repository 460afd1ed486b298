//! Measures one model: loads and unloads, then calls alone, then growing batches.

use super::conclude::conclude;
use super::design::{Design, Point};
use gswarm_core::Time;
use gswarm_exec::backend::{self, BackendError};
use gswarm_exec::probe::{Passage, Probe, ProbeAnswer};
use gswarm_learn::calibration::{Loads, ModelCalibration, Tier, summarise};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const LOADS: usize = 3;
/// Semi-interquartile range, relative to the median, at which a point counts as measured.
const CLOSE: f64 = 0.01;
/// Throughput gain that a larger batch needs for the next one to be tried.
const GAINS: f64 = 1.02;
/// Calls under continuous batching: a multiple of the batch size, and a minimum.
const ROUNDS: usize = 3;
const FEWEST: usize = 8;
/// Time limit of a call.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often Ctrl-C is checked.
const LOOK: Duration = Duration::from_millis(50);
/// First-call overhead below this share of a call, and this many seconds, is noise.
const FIRST_CALL: (f64, f64) = (0.03, 1e-3);

/// How much may be done.
pub struct Limits<'l> {
    pub budget: Duration,
    pub repeats: u32,
    pub interrupted: &'l (dyn Fn() -> bool + Sync),
}

/// Why the measurement of a model stopped early.
pub enum Stop {
    Failed(String),
    Interrupted,
}

/// One point, measured several times.
pub struct Measured {
    pub batch: u32,
    pub point: Point,
    pub seconds: Vec<f64>,
    pub answers: Vec<ProbeAnswer>,
}

/// Calls under continuous batching at one batch size.
pub struct Flow {
    pub batch: u32,
    pub calls: Vec<(Point, Passage)>,
}

struct Session<'s> {
    probe: &'s Probe,
    design: &'s Design,
    limits: &'s Limits<'s>,
    begun: Time,
    salt: u64,
    points: Vec<Measured>,
    flows: Vec<Flow>,
    notes: Vec<String>,
}

pub async fn model(
    probe: &Probe,
    backend: &str,
    design: &Design,
    limits: &Limits<'_>,
    tiers: &Mutex<Vec<backend::WeightTier>>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<ModelCalibration, Stop> {
    let mut session = Session {
        probe,
        design,
        limits,
        begun: probe.clock.now(),
        salt: 1,
        points: Vec::new(),
        flows: Vec::new(),
        notes: Vec::new(),
    };
    let result = session.all(backend, tiers, say).await;
    if result.is_err() {
        // What is left there would be in the way of the next; a server that does not answer has said so before.
        let _ = tokio::time::timeout(LOOK * 100, probe.unload()).await;
    }
    result
}

impl Session<'_> {
    async fn all(
        &mut self,
        backend: &str,
        tiers: &Mutex<Vec<backend::WeightTier>>,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<ModelCalibration, Stop> {
        let told = || std::mem::take(&mut *tiers.lock().unwrap_or_else(PoisonError::into_inner));
        // Those of another model.
        told();
        say("loading");
        let first = self.until(self.probe.load()).await.map_err(while_("loading"))?;
        let lowest = self.design.corners[0];
        let (cold_call, _) = self.ask(1, lowest).await.map_err(while_("calling it"))?;
        let (mut again, mut unloads, mut first_calls) = (Vec::new(), Vec::new(), Vec::new());
        while again.len() < LOADS && (again.is_empty() || self.left() > self.limits.budget * 2 / 3) {
            say(&format!("unloading and loading again, {} of {LOADS}", again.len() + 1));
            unloads.push(self.until(self.probe.unload()).await.map_err(while_("unloading"))?);
            again.push(self.until(self.probe.load()).await.map_err(while_("loading again"))?);
            first_calls.push(self.ask(1, lowest).await.map_err(while_("calling it"))?.0);
        }
        let (tier, doubts) = tier_of(&told());
        self.notes.extend(doubts);
        self.curve(say).await?;
        let usual = if self.design.open { Some(self.open_call().await?) } else { None };
        unloads.push(self.until(self.probe.unload()).await.map_err(while_("unloading"))?);
        let later = self.points.first().map_or(0.0, |one| summarise(&one.seconds).median);
        let above = |call: f64, usual: f64| {
            let extra = call - usual;
            if extra < FIRST_CALL.0 * usual || extra < FIRST_CALL.1 { 0.0 } else { extra }
        };
        let warm_call = summarise(&first_calls).median;
        let mut measured = conclude(self.probe, self.design, &self.points, &self.flows);
        measured.notes.append(&mut self.notes);
        measured.answers.usual = usual.and_then(|(seconds, answer)| self.written(&measured, seconds, answer));
        measured.backend = backend.to_owned();
        // What a server prepares at its very first call comes with the first load alone.
        let first = first + above(cold_call, warm_call);
        measured.load = Loads { tier, first: summarise(&[first]), again: summarise(&again) };
        measured.unload = summarise(&unloads);
        measured.first_call_extra = above(warm_call, later);
        measured.seconds = self.used().as_secs_f64();
        Ok(measured)
    }

    /// Real time since the measurement began.
    fn used(&self) -> Duration {
        let clock = &self.probe.clock;
        Duration::from_secs_f64((clock.now() - self.begun).seconds() / clock.speed())
    }

    fn left(&self) -> Duration {
        self.limits.budget.saturating_sub(self.used())
    }

    /// Does something unless somebody interrupts it.
    async fn until<T>(&self, work: impl Future<Output = Result<T, BackendError>>) -> Result<T, Broken> {
        let watch = async {
            while !(self.limits.interrupted)() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            result = tokio::time::timeout(PATIENCE, work) => match result {
                Ok(result) => result.map_err(Broken::Error),
                Err(_) => Err(Broken::Error(BackendError::TimedOut(PATIENCE.as_secs_f64()))),
            },
            () = watch => Err(Broken::Interrupted),
        }
    }

    async fn ask(&mut self, batch: u32, point: Point) -> Result<(f64, Vec<ProbeAnswer>), Broken> {
        let salts = self.salt..self.salt + u64::from(batch);
        self.salt = salts.end;
        let questions: Vec<_> = salts.map(|salt| self.design.question(point, salt)).collect();
        self.until(self.probe.ask(&questions)).await
    }

    /// A call without an output length.
    async fn open_call(&mut self) -> Result<(f64, ProbeAnswer), Stop> {
        let point = Point { output: None, ..self.design.corners[0] };
        let (seconds, answers) = self.ask(1, point).await.map_err(while_("calling it without a limit"))?;
        Ok((seconds, answers[0]))
    }

    /// Output of an open-ended call: as the server counts it, or derived from its time.
    fn written(&self, measured: &ModelCalibration, seconds: f64, answer: ProbeAnswer) -> Option<f64> {
        let cost = measured.execution.first()?;
        let prompt = measured.observations.first()?.prompt;
        let by_time = (seconds - cost.seconds(prompt, 0.0)) / cost.output;
        answer.written.map(|count| count as f64).or((cost.output > 0.0).then_some(by_time.max(0.0)))
    }

    /// All points alone, then the corners at growing batch sizes while throughput rises.
    async fn curve(&mut self, say: &(dyn Fn(&str) + Sync)) -> Result<(), Stop> {
        let mut best_rate = 0.0;
        for &batch in &self.design.batches {
            if batch > 1 && self.left().is_zero() {
                self.notes.push(format!("the budget was used up before batch {batch}"));
                break;
            }
            say(&format!("batch {batch}, {:.0} s left", self.left().as_secs_f64()));
            let points: Vec<Point> = self
                .design
                .corners
                .iter()
                .copied()
                .chain(self.design.middle.filter(|_| batch == 1))
                .collect();
            let before = self.points.len();
            if let Err(broken) = self.at_batch(batch, &points).await {
                match broken {
                    Broken::Interrupted => return Err(Stop::Interrupted),
                    // A server that is full says so; one that is gone, or cannot do one call, was not measured.
                    Broken::Error(error) if batch > 1 && !matches!(error, BackendError::Gone(_)) => {
                        self.points.truncate(before);
                        self.notes.push(format!("batch {batch} failed: {error}"));
                        break;
                    }
                    broken => return Err(while_("calling it")(broken)),
                }
            }
            let corners = &self.points[before..before + self.design.corners.len()];
            let seconds: f64 = corners.iter().map(|one| summarise(&one.seconds).median).sum();
            if batch > 1 && !self.come_and_go(batch, seconds / corners.len() as f64).await? {
                break;
            }
            let rate = f64::from(batch) / seconds.max(1e-9);
            if batch > 1 && rate < GAINS * best_rate {
                break;
            }
            best_rate = f64::max(best_rate, rate);
        }
        Ok(())
    }

    /// Calls of all lengths of the requests, each in the place of one that has ended; `usual` is what one is expected to take.
    /// `false` if the server fails, which ends the curve.
    async fn come_and_go(&mut self, batch: u32, usual: f64) -> Result<bool, Stop> {
        let calls = (ROUNDS * batch as usize).max(FEWEST);
        let rounds = calls as f64 / f64::from(batch);
        if rounds * usual > self.left().as_secs_f64() {
            self.notes.push(format!("no time was left to measure continuous batching at batch {batch}"));
            return Ok(true);
        }
        let points = self.design.flow(calls);
        let questions: Vec<_> =
            (self.salt..).zip(&points).map(|(salt, &point)| self.design.question(point, salt)).collect();
        self.salt += calls as u64;
        match self.until(self.probe.flow(&questions, batch as usize)).await {
            Ok(passages) => {
                self.flows.push(Flow { batch, calls: points.into_iter().zip(passages).collect() });
                Ok(true)
            }
            Err(Broken::Error(error)) if !matches!(error, BackendError::Gone(_)) => {
                self.notes.push(format!("continuous batching failed at batch {batch}: {error}"));
                self.points.retain(|one| one.batch != batch);
                Ok(false)
            }
            Err(broken) => Err(while_("calling it")(broken)),
        }
    }

    async fn at_batch(&mut self, batch: u32, points: &[Point]) -> Result<(), Broken> {
        // The first of its size may have something prepared.
        self.ask(batch, points[0]).await?;
        for &point in points {
            let mut measured = Measured { batch, point, seconds: Vec::new(), answers: Vec::new() };
            loop {
                let (seconds, answers) = self.ask(batch, point).await?;
                measured.seconds.push(seconds);
                measured.answers.extend(answers);
                let (n, spread) = (measured.seconds.len() as u32, summarise(&measured.seconds).share());
                if n >= self.limits.repeats || self.left().is_zero() || n >= 2 && spread <= CLOSE {
                    break;
                }
            }
            self.points.push(measured);
        }
        Ok(())
    }
}

/// Where weights come from when a model is loaded again, by the tiers of all its loads; and what is to be known of them.
pub(super) fn tier_of(tiers: &[backend::WeightTier]) -> (Tier, Vec<String>) {
    let Some((first, again)) = tiers.split_first() else { return (Tier::Disk, Vec::new()) };
    let mut notes = Vec::new();
    if *first != backend::WeightTier::Disk {
        notes.push(
            "the first load did not come from disk, so the cost of a load from disk is unknown".to_owned(),
        );
    }
    let from_disk = again.iter().filter(|&&tier| tier == backend::WeightTier::Disk).count();
    if from_disk > 0 && from_disk < again.len() {
        notes.push(format!("{from_disk} of {} later loads came from disk, the others did not", again.len()));
    }
    (if from_disk > 0 || again.is_empty() { Tier::Disk } else { Tier::Host }, notes)
}

/// What stopped a measurement early.
enum Broken {
    Error(BackendError),
    Interrupted,
}

fn while_(doing: &'static str) -> impl Fn(Broken) -> Stop {
    move |broken| match broken {
        Broken::Interrupted => Stop::Interrupted,
        Broken::Error(error) => Stop::Failed(format!("while {doing}: {error}")),
    }
}
