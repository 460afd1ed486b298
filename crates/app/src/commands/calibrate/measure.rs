//! Measures one model: loads and unloads, then calls, alone first and then more and more of them at once.

use super::design::{Design, Point};
use gswarm_exec::backend::BackendError;
use gswarm_exec::probe::{Answer, Probe};
use gswarm_learn::calibration::{
    Answers, Cost, Loads, ModelCalibration, Observation, Spread, Tier, Unit, Work, fit, summarise,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Loads after the first.
const LOADS: usize = 3;
/// Half the distance of the quartiles, as a share of the median, at which a point is known well enough.
const CLOSE: f64 = 0.01;
/// A larger batch has to get this much more done in the same time to go on to the next.
const GAINS: f64 = 1.02;
/// A call that takes longer than this is given up.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is asked whether somebody pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Below this share of a call, and this many seconds, what a first call takes longer is noise.
const FIRST_CALL: (f64, f64) = (0.03, 1e-3);

/// How much may be done.
pub struct Limits<'l> {
    pub budget: Duration,
    pub repeats: u32,
    pub interrupted: &'l (dyn Fn() -> bool + Sync),
}

/// Why a model was not measured to its end.
pub enum Stop {
    Failed(String),
    Interrupted,
}

/// One point, measured several times.
struct Measured {
    batch: u32,
    point: Point,
    seconds: Vec<f64>,
    answers: Vec<Answer>,
}

struct Session<'s> {
    probe: &'s Probe,
    design: &'s Design,
    limits: &'s Limits<'s>,
    begun: Instant,
    salt: u64,
    points: Vec<Measured>,
    notes: Vec<String>,
}

/// Measures a model.
pub async fn model(
    probe: &Probe,
    backend: &str,
    design: &Design,
    limits: &Limits<'_>,
    from_host: &AtomicBool,
    say: &(dyn Fn(&str) + Sync),
) -> Result<ModelCalibration, Stop> {
    let mut session = Session {
        probe,
        design,
        limits,
        begun: Instant::now(),
        salt: 1,
        points: Vec::new(),
        notes: Vec::new(),
    };
    let result = session.all(backend, from_host, say).await;
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
        from_host: &AtomicBool,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<ModelCalibration, Stop> {
        say("loading");
        let first = self.until(self.probe.load()).await.map_err(while_("loading"))?;
        let lowest = self.design.corners[0];
        let (cold_call, _) = self.ask(1, lowest).await.map_err(while_("calling it"))?;
        let (mut again, mut unloads, mut first_calls) = (Vec::new(), Vec::new(), vec![cold_call]);
        while again.len() < LOADS && (again.is_empty() || self.left() > self.limits.budget * 2 / 3) {
            say(&format!("unloading and loading again, {} of {LOADS}", again.len() + 1));
            unloads.push(self.until(self.probe.unload()).await.map_err(while_("unloading"))?);
            again.push(self.until(self.probe.load()).await.map_err(while_("loading again"))?);
            first_calls.push(self.ask(1, lowest).await.map_err(while_("calling it"))?.0);
        }
        let tier = if from_host.load(Ordering::SeqCst) { Tier::Host } else { Tier::Disk };
        self.curve(say).await?;
        let usual = if self.design.open { Some(self.open_call().await?) } else { None };
        unloads.push(self.until(self.probe.unload()).await.map_err(while_("unloading"))?);
        let later = self.points.first().map_or(0.0, |one| summarise(&one.seconds).median);
        let extra = summarise(&first_calls).median - later;
        let is_noise = extra < FIRST_CALL.0 * later || extra < FIRST_CALL.1;
        let mut measured = self.conclude();
        measured.answers.usual = usual.and_then(|(seconds, answer)| self.written(&measured, seconds, answer));
        measured.backend = backend.to_owned();
        measured.load = Loads { tier, first: summarise(&[first]), again: summarise(&again) };
        measured.unload = summarise(&unloads);
        measured.first_call_extra = if is_noise { 0.0 } else { extra };
        measured.seconds = self.begun.elapsed().as_secs_f64();
        Ok(measured)
    }

    /// Time that is left.
    fn left(&self) -> Duration {
        self.limits.budget.saturating_sub(self.begun.elapsed())
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

    async fn ask(&mut self, batch: u32, point: Point) -> Result<(f64, Vec<Answer>), Broken> {
        let salts = self.salt..self.salt + u64::from(batch);
        self.salt = salts.end;
        let questions: Vec<_> = salts.map(|salt| self.design.question(point, salt)).collect();
        self.until(self.probe.ask(&questions)).await
    }

    /// A call that does not say how much it wants.
    async fn open_call(&mut self) -> Result<(f64, Answer), Stop> {
        let point = Point { output: None, ..self.design.corners[0] };
        let (seconds, answers) = self.ask(1, point).await.map_err(while_("calling it without a limit"))?;
        Ok((seconds, answers[0]))
    }

    /// How much an open call wrote: as the server counts it, or as its time tells.
    fn written(&self, measured: &ModelCalibration, seconds: f64, answer: Answer) -> Option<f64> {
        let cost = measured.execution.first()?;
        let prompt = measured.observations.first()?.prompt;
        let by_time = (seconds - cost.seconds(prompt, 0.0)) / cost.output;
        answer.written.map(|count| count as f64).or((cost.output > 0.0).then_some(by_time.max(0.0)))
    }

    /// All points alone, and the corners at one batch after the other, while larger ones get more done.
    async fn curve(&mut self, say: &(dyn Fn(&str) + Sync)) -> Result<(), Stop> {
        let heaviest = self.design.corners.len() - 1;
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
            let rate = f64::from(batch) / summarise(&self.points[before + heaviest].seconds).median.max(1e-9);
            if batch > 1 && rate < GAINS * best_rate {
                break;
            }
            best_rate = f64::max(best_rate, rate);
        }
        Ok(())
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

    /// What all that was seen comes to.
    fn conclude(&mut self) -> ModelCalibration {
        let mean = |of: &[Answer], what: fn(&Answer) -> Option<u64>| {
            let counts: Vec<f64> = of.iter().filter_map(what).map(|count| count as f64).collect();
            (counts.len() == of.len() && !of.is_empty())
                .then(|| counts.iter().sum::<f64>() / counts.len() as f64)
        };
        let read: Option<Vec<(f64, f64)>> = self
            .points
            .iter()
            .map(|one| Some((one.point.prompt, mean(&one.answers, |answer| answer.read)?)))
            .collect();
        let prompt = match read.filter(|_| self.design.work != Work::Image) {
            Some(counts) => {
                let (fixed, per_character) = line(&counts);
                Unit { tokens: true, fixed, per_character }
            }
            None => Unit::CHARACTERS,
        };
        let counts_written = self.design.work == Work::Text;
        let mut written: Vec<(f64, f64)> = Vec::new();
        let mut sizes: Vec<(f64, f64)> = Vec::new();
        let mut observations = Vec::new();
        for one in &self.points {
            let asked = one.point.output.unwrap_or(0.0);
            let counted = mean(&one.answers, |answer| answer.written).filter(|_| counts_written);
            let output = counted.unwrap_or(asked);
            let tokens = mean(&one.answers, |answer| answer.read).filter(|_| prompt.tokens);
            written.push((asked, output));
            sizes.push((output, mean(&one.answers, |answer| Some(answer.characters)).unwrap_or(0.0)));
            observations.push(Observation {
                batch: one.batch,
                prompt: tokens.unwrap_or(one.point.prompt),
                output,
                seconds: summarise(&one.seconds),
            });
        }
        let (fixed_characters, characters_each) = line(&sizes);
        let mut batches: Vec<u32> = observations.iter().map(|one| one.batch).collect();
        batches.dedup();
        let execution: Vec<Cost> =
            batches.iter().filter_map(|&batch| fit(self.design.work, batch, &observations)).collect();
        let gpus = self.probe.replica.gpus.iter().map(|gpu| gpu.0).collect();
        let (load, nothing) = (Spread::default(), Spread::default());
        ModelCalibration {
            backend: String::new(),
            gpus,
            work: self.design.work,
            load: Loads { tier: Tier::Disk, first: load, again: load },
            unload: nothing,
            first_call_extra: 0.0,
            prompt,
            answers: Answers { written: by_first(written), usual: None, fixed_characters, characters_each },
            execution,
            observations,
            seconds: 0.0,
            notes: std::mem::take(&mut self.notes),
        }
    }
}

/// What kept a measurement from its end.
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

/// The straight line through points that is nearest to them, never falling: its height at zero, and its slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (mut over, mut under) = (0.0, 0.0);
    for point in points {
        over += (point.0 - x) * (point.1 - y);
        under += (point.0 - x).powi(2);
    }
    let slope = if under > 1e-9 { (over / under).max(0.0) } else { 0.0 };
    (y - slope * x, slope)
}

/// The mean of the second by the first, the first rising.
fn by_first(mut pairs: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
    let groups = pairs.chunk_by(|one, other| one.0 == other.0);
    groups
        .map(|group| (group[0].0, group.iter().map(|pair| pair.1).sum::<f64>() / group.len() as f64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_means() {
        let (at_zero, slope) = line(&[(0.0, 1.0), (10.0, 6.0), (20.0, 11.0)]);
        assert!((at_zero - 1.0).abs() < 1e-9 && (slope - 0.5).abs() < 1e-9);
        assert_eq!(line(&[(5.0, 3.0), (5.0, 5.0)]), (4.0, 0.0), "nothing to tell a slope from");
        assert_eq!(by_first(vec![(2.0, 4.0), (1.0, 1.0), (2.0, 2.0)]), [(1.0, 1.0), (2.0, 3.0)]);
    }
}
