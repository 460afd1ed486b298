//! Capacity advice: the fewest GPUs, the policy and the placement that meet targets for given traffic.
//!
//! Every number of GPUs is tried on the same traces, which are drawn from the given one
//! ([`gswarm_core::size::Traffic`]). Streams start warm: a warm-up is not measured. More traces are drawn until the
//! answer is stable, and a separately drawn long run has to meet the targets too.

mod spec;
mod trials;
mod why;

pub use spec::{AdviseSpec, ROUNDS, Spare, mode_of, traffic};

use crate::failure::{Failure, FailureKind};
use crate::materials::Materials;
use crate::observe::{Observer, Stage};
use crate::prepare::build;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::run::assignments;
use gswarm_core::size::{
    AdviceReport, AdvisedPlacement, CostReport, LongCheck, Measure, OfferedLoad, Point, PolicyTried, Range,
    Target, TargetReport, TriedPoint, fewest, workflow_of,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use trials::Trials;

/// Numbers of GPUs on each side of the answer that its interval may reach over.
const INTERVAL: u32 = 4;
/// Requests of the given trace that should lie beyond a percentile.
const FEW: f64 = 5.0;
/// Numbers of GPUs that are tried after a long run did not keep the targets.
const MORE: u32 = 16;

/// Answers a question; `tell` hears which policy is tried on how many GPUs.
///
/// # Errors
/// What is wrong with the question or its inputs; and why they cannot be run at all.
pub fn advise(
    spec: &AdviseSpec,
    materials: &Materials,
    observer: &mut dyn Observer,
    tell: &mut dyn FnMut(&str, u32),
) -> Result<AdviceReport, Failure> {
    let faults = spec.run.validate();
    if !faults.is_empty() {
        return Err(Failure::faults(faults));
    }
    observer.stage(Stage::Reading);
    let scenario = materials.scenario(&spec.run, observer)?;
    spec.validate(&scenario)?;
    if spec.spare == Spare::Server && spec.run.cluster.over(&scenario.cluster).gpus_per_server.is_none() {
        return Err(Failure::input("a spare server needs a server size, but none is given")
            .hint("give --gpus-per-server, or `cluster: {gpus_per_server: 8}` in the configuration"));
    }
    observer.stage(Stage::Preparing);
    let trials = Trials::new(spec, Arc::clone(&scenario), materials)?;
    Advice { trials, tell }.answer()
}

struct Advice<'a, 't> {
    trials: Trials<'a>,
    tell: &'t mut dyn FnMut(&str, u32),
}

/// An answer: a policy by its place in the list, and GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    policy: usize,
    gpus: u32,
}

impl Advice<'_, '_> {
    fn answer(mut self) -> Result<AdviceReport, Failure> {
        let mut report = self.begun();
        if let Some(floor) = why::floor(&self.trials)? {
            report.verdict = "below_floor".to_owned();
            report.floor = Some(floor);
            return Ok(report);
        }
        let spec = self.trials.spec;
        let widest = self.trials.scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1);
        let range = Range { least: self.trials.least(), most: spec.max_gpus, widest, neighbours: 1 };
        let first = self.trials.runs()[0];
        let mut found = None;
        for policy in 0..self.trials.policies.len() {
            found = match found {
                None => fewest(range, &mut |gpus| self.meets(policy, gpus, first))?
                    .map(|gpus| Choice { policy, gpus }),
                Some(best) => self.better(best, policy, range.least)?,
            };
        }
        let Some(found) = found else {
            report.verdict = "not_found".to_owned();
            let (gpus, _) = self.trials.tried(0).last().copied().unwrap_or((spec.max_gpus, 0));
            report.slowest = why::slowest(&self.trials, gpus)?;
            self.tell_points(&mut report, 0)?;
            return Ok(report);
        };
        let (mut choice, runs) = self.refine(found, range)?;
        while self.trials.goes_on() {
            let check = self.long(choice)?;
            let met = check.met;
            report.check = Some(check);
            if met || choice.gpus == range.most || choice.gpus >= found.gpus + MORE {
                break;
            }
            choice.gpus += 1;
            while !self.meets(choice.policy, choice.gpus, runs)? && choice.gpus < range.most {
                choice.gpus += 1;
            }
        }
        (report.gpus_low, report.gpus_high) = self.interval(choice, range, runs)?;
        let known = self.known(choice, range, runs)?;
        // What the draws leave open, and on top of it what the given requests leave open.
        let spread = report.load_plus_minus;
        let apart = |gpus: u32, spread: f64| (f64::from(gpus) + spread).round().max(1.0) as u32;
        report.known_low = spread.map(|spread| apart(known.0, -spread));
        report.known_high = spread.map(|spread| apart(known.1, spread));
        let point = self.point(choice, runs)?;
        report.verdict = if point.met { "met" } else { "not_found" }.to_owned();
        report.gpus = Some(choice.gpus);
        report.settled = self.is_settled(choice, range.least, runs)?;
        report.traces = self.trials.sample(choice.policy, choice.gpus, runs)?.traces();
        report.policy = serde_json::to_value(&self.trials.policies[choice.policy]).ok();
        self.tell_points(&mut report, choice.policy)?;
        self.tell_policies(&mut report, choice, first)?;
        self.tell_deployment(&mut report, choice, runs)?;
        report.cost = self.cost(choice.gpus);
        self.warn(&mut report, &point);
        Ok(report)
    }

    fn begun(&self) -> AdviceReport {
        let Trials { spec, traffic, given, warm_up, .. } = &self.trials;
        let load = traffic.load();
        // The interval narrows with the square root of the number. Two digits: it is an estimate.
        let enough = |load: OfferedLoad| {
            let count = given.requests.len() as f64 * load.plus_minus.powi(2);
            let digit = 10_f64.powi((count.max(10.0).log10() as i32 - 1).max(0));
            ((count / digit).ceil() * digit) as u64
        };
        AdviceReport {
            targets: spec.targets.iter().map(TargetReport::from).collect(),
            mode: spec.run.mode.name().to_owned(),
            traffic: spec.traffic,
            spare: if spec.spare == Spare::Gpus(0) { String::new() } else { spec.spare.to_string() },
            seed: spec.run.seed,
            given_requests: given.requests.len() as u64,
            requests_per_trace: traffic.requests_per_trace(),
            load_gpus: load.map(|load| load.gpus),
            load_plus_minus: load.map(|load| load.plus_minus),
            requests_for_one_gpu: load.map(enough),
            warm_up_seconds: warm_up.seconds(),
            ..AdviceReport::default()
        }
    }

    fn point(&mut self, choice: Choice, runs: usize) -> Result<Point, Failure> {
        (self.tell)(self.trials.policies[choice.policy].name(), choice.gpus);
        self.trials.point(choice.policy, choice.gpus, runs)
    }

    /// Whether a policy keeps the targets on so many GPUs. One that cannot run there does not.
    fn meets(&mut self, policy: usize, gpus: u32, runs: usize) -> Result<bool, Failure> {
        match self.point(Choice { policy, gpus }, runs) {
            Err(failure) if failure.code == FailureKind::Infeasible => Ok(false),
            point => Ok(point?.met),
        }
    }

    /// The better of an answer and what another policy can do: fewer GPUs.
    fn better(&mut self, best: Choice, policy: usize, least: u32) -> Result<Option<Choice>, Failure> {
        let runs = self.trials.runs()[0];
        let mut gpus = best.gpus;
        while gpus > least && self.meets(policy, gpus - 1, runs)? {
            gpus -= 1;
        }
        Ok(Some(if gpus < best.gpus { Choice { policy, gpus } } else { best }))
    }

    /// Draws more traces until the answer hardly depends on them; with how many runs.
    fn refine(&mut self, found: Choice, range: Range) -> Result<(Choice, usize), Failure> {
        let [first, most] = self.trials.runs();
        let (mut choice, mut runs) = (found, first);
        loop {
            while !self.meets(choice.policy, choice.gpus, runs)? && choice.gpus < range.most {
                choice.gpus += 1;
            }
            // With more runs, fewer may do after all; never fewer than what was just found not to.
            while runs > first
                && choice.gpus > range.least
                && self.meets(choice.policy, choice.gpus - 1, runs)?
            {
                choice.gpus -= 1;
            }
            if runs >= most || self.is_settled(choice, range.least, runs)? {
                return Ok((choice, runs));
            }
            runs = (2 * runs).min(most);
        }
    }

    /// Whether it is clear, as far as draws go, that these GPUs do and one fewer does not.
    fn is_settled(&mut self, choice: Choice, least: u32, runs: usize) -> Result<bool, Failure> {
        let point = self.point(choice, runs)?;
        let mut settled = point.targets.iter().all(|reached| reached.settled);
        if choice.gpus > least {
            match self.point(Choice { gpus: choice.gpus - 1, ..choice }, runs) {
                Err(failure) if failure.code == FailureKind::Infeasible => {}
                fewer => {
                    let missed = |reached: &gswarm_core::size::Reached| !reached.met && reached.settled;
                    settled &= fewer?.targets.iter().any(missed);
                }
            }
        }
        Ok(settled)
    }

    fn long(&mut self, choice: Choice) -> Result<LongCheck, Failure> {
        (self.tell)(self.trials.policies[choice.policy].name(), choice.gpus);
        let sample = self.trials.long(choice.policy, choice.gpus)?;
        let late = sample.from_trace(sample.traces() / 2);
        let Trials { spec, scenario, .. } = &self.trials;
        let of = |sample: &gswarm_core::size::Sample, target: &Target| {
            sample.reached(target, workflow_of(scenario, target))
        };
        let all: Vec<_> = spec.targets.iter().map(|target| of(&sample, target)).collect();
        let late: Vec<_> = spec.targets.iter().map(|target| of(&late, target)).collect();
        Ok(LongCheck {
            traces: sample.traces(),
            requests: sample.requests.len() as u64,
            met: all.iter().chain(&late).all(|reached| reached.met),
            values: all.iter().map(|reached| reached.value).collect(),
            second_half: late.iter().map(|reached| reached.value).collect(),
        })
    }

    /// What traces need, each taken alone: the numbers of GPUs that suffice for 5% and for 95% of them.
    fn interval(
        &mut self,
        choice: Choice,
        range: Range,
        runs: usize,
    ) -> Result<(Option<u32>, Option<u32>), Failure> {
        let mut share = BTreeMap::new();
        let mut share_on = |advice: &mut Self, gpus: u32| -> Result<f64, Failure> {
            let kept = advice.kept(Choice { gpus, ..choice }, runs)?;
            share.insert(gpus, kept);
            Ok(kept)
        };
        let mut gpus = choice.gpus;
        while share_on(self, gpus)? < 0.95 && gpus < range.most && gpus < choice.gpus + INTERVAL {
            gpus += 1;
        }
        let mut gpus = choice.gpus;
        while gpus > range.least && gpus + INTERVAL > choice.gpus {
            gpus -= 1;
            match share_on(self, gpus) {
                Err(failure) if failure.code == FailureKind::Infeasible => break,
                kept => {
                    if kept? < 0.05 {
                        break;
                    }
                }
            }
        }
        let from = |least: f64| share.iter().find(|&(_, &kept)| kept >= least).map(|(&gpus, _)| gpus);
        Ok((from(0.05), from(0.95)))
    }

    /// The fewest GPUs that may do, and the fewest that surely do, by the confidence intervals of the measures.
    fn known(&mut self, choice: Choice, range: Range, runs: usize) -> Result<(u32, u32), Failure> {
        let mut keeps = |gpus: u32, side: f64| -> Result<bool, Failure> {
            let point = match self.point(Choice { gpus, ..choice }, runs) {
                Err(failure) if failure.code == FailureKind::Infeasible => return Ok(false),
                point => point?,
            };
            let mut targets = self.trials.spec.targets.iter().zip(&point.targets);
            let kept = |(target, reached): (&Target, &gswarm_core::size::Reached)| {
                reached.value.is_some_and(|value| target.is_kept(value + side * reached.plus_minus))
            };
            Ok(targets.all(kept))
        };
        let (mut low, mut high) = (choice.gpus, choice.gpus);
        while low > range.least && low + INTERVAL > choice.gpus && keeps(low - 1, -1.0)? {
            low -= 1;
        }
        while high < range.most && high < choice.gpus + INTERVAL && !keeps(high, 1.0)? {
            high += 1;
        }
        Ok((low, high))
    }

    /// The share of traces that keep all targets.
    fn kept(&mut self, choice: Choice, runs: usize) -> Result<f64, Failure> {
        (self.tell)(self.trials.policies[choice.policy].name(), choice.gpus);
        let sample = self.trials.sample(choice.policy, choice.gpus, runs)?;
        let Trials { spec, scenario, .. } = &self.trials;
        let mut kept: BTreeMap<u32, bool> = BTreeMap::new();
        for target in &spec.targets {
            for (trace, value) in sample.by_trace(target, workflow_of(scenario, target)) {
                *kept.entry(trace).or_insert(true) &= target.is_kept(value);
            }
        }
        Ok(kept.values().filter(|&&kept| kept).count() as f64 / kept.len().max(1) as f64)
    }

    fn tell_points(&mut self, report: &mut AdviceReport, policy: usize) -> Result<(), Failure> {
        for (gpus, runs) in self.trials.tried(policy) {
            let traces = self.trials.sample(policy, gpus, runs)?.traces();
            report.points.push(TriedPoint { traces, point: self.trials.point(policy, gpus, runs)? });
        }
        Ok(())
    }

    /// The other policies on as many GPUs.
    fn tell_policies(
        &mut self,
        report: &mut AdviceReport,
        choice: Choice,
        runs: usize,
    ) -> Result<(), Failure> {
        for policy in 0..self.trials.policies.len() {
            match self.point(Choice { policy, ..choice }, runs) {
                Err(failure) if failure.code == FailureKind::Infeasible => {}
                point => drop(point?),
            }
            let tried = self.trials.tried(policy);
            let points: Result<Vec<Point>, Failure> =
                tried.iter().map(|&(gpus, runs)| self.trials.point(policy, gpus, runs)).collect();
            let points = points?;
            let gpus = points.iter().find(|point| point.met).map(|point| point.gpus);
            let policy = serde_json::to_value(&self.trials.policies[policy]).map_err(Failure::internal)?;
            report.policies.push(PolicyTried { policy, gpus, points });
        }
        Ok(())
    }

    /// A permanent placement on the answer's GPUs, and whether it does as well.
    fn tell_deployment(
        &mut self,
        report: &mut AdviceReport,
        choice: Choice,
        runs: usize,
    ) -> Result<(), Failure> {
        let spec = self.trials.spec;
        let scenario: Arc<Scenario> = Arc::clone(&self.trials.scenario);
        let cluster = ClusterSpec { gpus: Some(choice.gpus), ..spec.run.cluster.over(&scenario.cluster) };
        // A placement needs the room that `static` would have.
        let Ok(instance) = build(&scenario, &cluster, spec.run.mode, Some(PolicyKind::Static)) else {
            return Ok(());
        };
        let (models, replicas) = (instance.models.iter_enumerated(), gswarm_core::run::replicas(&instance));
        report.deployment = models
            .filter_map(|(id, model)| {
                let of_it = replicas.iter().filter(|&&(of, _)| of == id);
                let windows: Vec<Vec<u32>> =
                    of_it.map(|(_, gpus)| gpus.iter().map(|gpu| gpu.0).collect()).collect();
                (!windows.is_empty())
                    .then(|| AdvisedPlacement { model: model.name.clone(), replicas: windows })
            })
            .collect();
        report.gpu_assignments = assignments(&instance);
        let fixed = PolicySpec::default_of(PolicyKind::Static);
        if let Some(policy) = self.trials.policies.iter().position(|policy| *policy == fixed) {
            let runs = if policy == choice.policy { runs } else { self.trials.runs()[0] };
            report.static_meets = Some(self.meets(policy, choice.gpus, runs)?);
        }
        Ok(())
    }

    fn cost(&self, gpus: u32) -> Option<CostReport> {
        let price = self.trials.spec.price?;
        let per_hour = price * f64::from(gpus);
        let traffic = &self.trials.traffic;
        let hours = traffic.period().seconds() / 3600.0;
        let per_thousand_requests =
            self.trials.goes_on().then(|| 1000.0 * per_hour * hours / traffic.requests_per_trace().max(1e-9));
        Some(CostReport { price, per_hour, per_thousand_requests })
    }

    fn warn(&mut self, report: &mut AdviceReport, point: &Point) {
        let Trials { spec, scenario, given, .. } = &self.trials;
        for target in &spec.targets {
            let workflow = workflow_of(scenario, target);
            let of_it = given.requests.iter().filter(|one| workflow.is_none_or(|id| id == one.workflow));
            let count = match target.measure {
                Measure::Deadline => of_it.filter(|one| one.deadline.is_some()).count(),
                _ => of_it.count(),
            } as f64;
            if let Some(share) = target.measure.percentile()
                && count * (1.0 - share) < FEW
            {
                report.warnings.push(format!(
                    "the {} rests on only {:.0} of the {count} given requests; {:.0} or more would make it reliable",
                    target.title(),
                    (count * (1.0 - share)).max(1.0).round(),
                    FEW / (1.0 - share)
                ));
            }
        }
        if !report.settled && point.targets.iter().any(|reached| reached.plus_minus > 0.0) {
            report.warnings.push(format!(
                "{} traces are too few to tell whether one GPU more or fewer is needed; use more (--traces)",
                report.traces
            ));
        }
        if self.trials.traffic.has_shape() {
            report.warnings.push(
                "the load changes over the trace; resampled traces keep that shape, so the peak decides"
                    .to_owned(),
            );
        }
        if report.check.as_ref().is_some_and(|check| !check.met) {
            report.warnings.push("the long run misses the targets; use more GPUs".to_owned());
        }
    }
}

/// The answer of a `size` of a stream, by the same runs: one policy, and the curve around the answer.
///
/// # Errors
/// Those of [`advise`].
pub(crate) fn fewest_of_stream(
    spec: &AdviseSpec,
    scenario: &Arc<Scenario>,
    tell: &mut dyn FnMut(u32, Option<&Point>),
) -> Result<StreamSize, Failure> {
    let materials = Materials::of(crate::materials::Problem::Scenario(Arc::clone(scenario)));
    let trials = Trials::new(spec, Arc::clone(scenario), &materials)?;
    let mut silent = |_: &str, _: u32| {};
    let mut advice = Advice { trials, tell: &mut silent };
    let floor = why::floor(&advice.trials)?;
    let (least, holds_models) = (advice.trials.least(), advice.trials.holds_models());
    let mut size =
        StreamSize { floor, least, holds_models, gpus: None, tried: Vec::new(), points: Vec::new() };
    if size.floor.is_some() {
        return Ok(size);
    }
    let widest = scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1);
    let range = Range { least, most: spec.max_gpus, widest, neighbours: 1 };
    let runs = advice.trials.runs()[0];
    let mut meets = |gpus: u32| -> Result<bool, Failure> {
        tell(gpus, None);
        let point = advice.point(Choice { policy: 0, gpus }, runs)?;
        tell(gpus, Some(&point));
        Ok(point.met)
    };
    let found = fewest(range, &mut meets)?;
    if let Some(gpus) = found {
        let (choice, _) = advice.refine(Choice { policy: 0, gpus }, range)?;
        size.gpus = Some(choice.gpus);
        size.tried = advice.trials.tried(0).into_iter().map(|(gpus, _)| gpus).collect();
        let around = [choice.gpus / 2, choice.gpus * 3 / 4, choice.gpus * 5 / 4, choice.gpus * 3 / 2];
        for other in around.into_iter().filter(|other| (range.least..=range.most).contains(other)) {
            advice.point(Choice { policy: 0, gpus: other }, runs)?;
        }
    } else {
        size.tried = advice.trials.tried(0).into_iter().map(|(gpus, _)| gpus).collect();
    }
    for (gpus, runs) in advice.trials.tried(0) {
        size.points.push(advice.trials.point(0, gpus, runs)?);
    }
    Ok(size)
}

/// What a search for one policy found.
pub(crate) struct StreamSize {
    pub floor: Option<gswarm_core::size::FloorReport>,
    pub least: u32,
    pub holds_models: u32,
    pub gpus: Option<u32>,
    pub tried: Vec<u32>,
    pub points: Vec<Point>,
}
