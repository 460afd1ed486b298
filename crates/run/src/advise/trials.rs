//! Runs over resampled traces, stored by policy and number of GPUs.

use super::spec::{AdviseSpec, Spare};
use crate::failure::{Failure, FailureKind};
use crate::materials::{Materials, Named, Problem};
use crate::observe::Silent;
use crate::prepare::{Prepared, prepare};
use crate::spec::{LostGpu, RunSpec};
use gswarm_core::Span;
use gswarm_core::check::{check_run, report as render};
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::{Cluster, Instance, Mode};
use gswarm_core::log::ExecutionLog;
use gswarm_core::policy::PolicySpec;
use gswarm_core::report::metrics;
use gswarm_core::size::{Drawn, Measure, Point, Sample, Traffic, undisturbed};
use gswarm_core::truth::mix;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests that one run holds at about.
const REQUESTS_OF_A_RUN: f64 = 3_000.0;
/// Traces of one run at most.
const TRACES_OF_A_RUN: usize = 20;
/// Runs that an answer rests on at first, and at most.
const RUNS: [usize; 2] = [2, 8];
/// Repetitions of a batch whose times vary.
const BATCHES: usize = 5;
/// The long run that checks an answer has so many traces, as far as there are no more requests in it than this.
const LONG: [usize; 2] = [10, 300_000];

/// Requests ready to be run.
struct Draw {
    scenario: Arc<Scenario>,
    trace_of: Vec<Option<u32>>,
    measured_from: f64,
    seed: u64,
}

/// What came of one run.
#[derive(Clone)]
struct Ran {
    sample: Sample,
    switches: u64,
    utilisation: f64,
}

/// How traces are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Behind one another, so many in a run, after a warm-up: a stream.
    Steady { traces: usize },
    /// Each on its own, from empty GPUs: a batch, or whatever has a makespan to keep. Drawn anew, or as it was given.
    Whole { resampled: bool },
}

/// All runs that were made for a question.
pub struct Trials<'a> {
    pub spec: &'a AdviseSpec,
    pub scenario: Arc<Scenario>,
    pub traffic: Traffic,
    pub policies: Vec<PolicySpec>,
    /// The trace as it was given, on as many GPUs as are allowed.
    pub given: Instance,
    pub warm_up: Span,
    predictor: Option<Named>,
    style: Style,
    runs: [usize; 2],
    draws: Vec<Draw>,
    done: BTreeMap<(usize, u32), Vec<Ran>>,
}

impl<'a> Trials<'a> {
    /// Makes ready for a question about this scenario.
    pub fn new(
        spec: &'a AdviseSpec,
        scenario: Arc<Scenario>,
        materials: &Materials,
    ) -> Result<Trials<'a>, Failure> {
        let policies = spec.policies();
        let predictor = materials.predictor.clone();
        let on_most = on(&spec.run, spec.max_gpus, &policies[0], spec.run.seed);
        let prepared = prepare(on_most, materials_of(&scenario, predictor.as_ref()), &mut Silent)?;
        let varies = !prepared.beliefs.truth.is_estimate();
        let given = Arc::unwrap_or_clone(prepared.instance);
        let traffic = Traffic::of(&scenario, &given, spec.traffic, predictor.is_some());
        let has_makespan = spec.targets.iter().any(|target| target.measure == Measure::Makespan);
        let alone = spec.run.mode == Mode::Offline || has_makespan || traffic.period() == Span::ZERO;
        let style = if alone {
            Style::Whole { resampled: spec.traces.is_some_and(|traces| traces > 1) }
        } else {
            let traces = (REQUESTS_OF_A_RUN / traffic.requests_per_trace().max(1.0)) as usize;
            Style::Steady { traces: traces.clamp(1, TRACES_OF_A_RUN) }
        };
        let runs = match (style, spec.traces) {
            (Style::Steady { traces }, Some(wanted)) => [(wanted as usize).div_ceil(traces); 2],
            (Style::Steady { .. }, None) => RUNS,
            (Style::Whole { .. }, Some(wanted)) => [wanted as usize; 2],
            (Style::Whole { .. }, None) => [if varies { BATCHES } else { 1 }; 2],
        };
        // Until every model has been loaded and the first requests are through, twice over.
        let load = given.models.iter().map(|model| model.load_seconds).sum::<f64>();
        let path = undisturbed(&given).iter().copied().max().unwrap_or_default();
        let warm_up = Span::from_seconds(2.0 * load) + path + path;
        Ok(Trials {
            spec,
            scenario,
            traffic,
            policies,
            given,
            warm_up: if alone { Span::ZERO } else { warm_up },
            predictor,
            style,
            runs,
            draws: Vec::new(),
            done: BTreeMap::new(),
        })
    }

    /// Runs that an answer rests on at first, and at most.
    pub fn runs(&self) -> [usize; 2] {
        self.runs
    }

    /// Whether the traffic goes on, so that it can be asked whether requests pile up.
    pub fn goes_on(&self) -> bool {
        matches!(self.style, Style::Steady { .. })
    }

    /// The fewest GPUs that hold the models.
    pub fn holds_models(&self) -> u32 {
        let holds = |&gpus: &u32| {
            let cluster = Cluster { gpus, ..self.given.cluster.clone() };
            Instance::of_models(&self.scenario, cluster).is_ok()
        };
        (1..self.spec.max_gpus).find(holds).unwrap_or(self.spec.max_gpus)
    }

    /// The fewest GPUs that hold the models and keep up with the traffic, whoever schedules, with what may be lost.
    pub fn least(&self) -> u32 {
        let busy = if self.goes_on() {
            let work = gswarm_core::bound::gpu_time(&self.given).seconds() * self.spec.traffic;
            (work / self.traffic.period().seconds()).ceil()
        } else {
            1.0
        };
        let most = self.spec.max_gpus;
        (self.holds_models().max(busy.min(f64::from(most)) as u32) + self.lost_count()).min(most)
    }

    /// GPUs that may be lost.
    fn lost_count(&self) -> u32 {
        match self.spec.spare {
            Spare::Gpus(gpus) => gpus,
            Spare::Server => self.given.cluster.gpus_per_server.unwrap_or(1),
        }
    }

    fn drawn(&self, drawn: Drawn, seed: u64) -> Draw {
        let scenario = Scenario { requests: drawn.requests, ..without_requests(&self.scenario) };
        Draw {
            scenario: Arc::new(scenario),
            trace_of: drawn.trace_of,
            measured_from: drawn.measured_from,
            seed,
        }
    }

    fn draw(&self, run: usize) -> Draw {
        // The first run of a batch as it is has the seed that a plain run would have.
        let seed = match run {
            0 => self.spec.run.seed,
            _ => mix(self.spec.run.seed ^ mix(run as u64)),
        };
        let drawn = match self.style {
            Style::Steady { traces } => self.traffic.draw(seed, self.warm_up, traces),
            Style::Whole { resampled: true } => self.traffic.draw(seed, Span::ZERO, 1),
            Style::Whole { resampled: false } => self.traffic.as_given(seed),
        };
        self.drawn(drawn, seed)
    }

    /// What a policy gives on so many GPUs over the first `runs` runs.
    pub fn sample(&mut self, policy: usize, gpus: u32, runs: usize) -> Result<Sample, Failure> {
        while self.draws.len() < runs {
            self.draws.push(self.draw(self.draws.len()));
        }
        let have = self.done.get(&(policy, gpus)).map_or(0, Vec::len);
        if have < runs {
            let of_run = |draw: &Draw| self.run(policy, gpus, draw);
            let more: Result<Vec<Ran>, Failure> = self.draws[have..runs].par_iter().map(of_run).collect();
            self.done.entry((policy, gpus)).or_default().extend(more?);
        }
        let mut sample = Sample::default();
        self.done[&(policy, gpus)][..runs].iter().for_each(|ran| sample.extend(&ran.sample));
        Ok(sample)
    }

    /// The same as a point of the curve.
    pub fn point(&mut self, policy: usize, gpus: u32, runs: usize) -> Result<Point, Failure> {
        let sample = self.sample(policy, gpus, runs)?;
        let mut point = Point::of(gpus, &sample, &self.scenario, &self.spec.targets);
        let ran = &self.done[&(policy, gpus)][..runs];
        point.switches = ran.iter().map(|ran| ran.switches).sum::<u64>() / runs.max(1) as u64;
        point.utilisation = ran.iter().map(|ran| ran.utilisation).sum::<f64>() / runs.max(1) as f64;
        Ok(point)
    }

    /// All numbers of GPUs that were tried under a policy, with the runs that were made of each.
    pub fn tried(&self, policy: usize) -> Vec<(u32, usize)> {
        let of_it = self.done.range((policy, 0)..=(policy, u32::MAX));
        of_it.map(|(&(_, gpus), ran)| (gpus, ran.len())).collect()
    }

    /// One long run, drawn apart from all others.
    pub fn long(&self, policy: usize, gpus: u32) -> Result<Sample, Failure> {
        let seed = mix(self.spec.run.seed ^ 0x6c6f_6e67);
        let most = (LONG[1] as f64 / self.traffic.requests_per_trace().max(1.0)) as usize;
        let drawn = self.traffic.draw(seed, self.warm_up, LONG[0].min(most).max(2));
        Ok(self.run(policy, gpus, &self.drawn(drawn, seed))?.sample)
    }

    fn run(&self, policy: usize, gpus: u32, draw: &Draw) -> Result<Ran, Failure> {
        let (prepared, log) = self.log(policy, gpus, draw)?;
        let found = metrics(&prepared.instance, &log);
        let mut sample = Sample::default();
        sample.add(&prepared.instance, &log, &draw.trace_of, found.makespan);
        Ok(Ran { sample, switches: found.model_switches, utilisation: found.utilisation.mean })
    }

    /// The log of the first run, for whoever wants to know where time went.
    pub fn first_log(
        &self,
        policy: usize,
        gpus: u32,
    ) -> Result<(Prepared, ExecutionLog, Vec<Option<u32>>), Failure> {
        let draw = self.draw(0);
        let (prepared, log) = self.log(policy, gpus, &draw)?;
        Ok((prepared, log, draw.trace_of))
    }

    /// The problem of the first run, with the times that are true in it.
    pub fn first_problem(&self) -> Result<(Instance, Vec<Option<u32>>), Failure> {
        let draw = self.draw(0);
        let spec = on(&self.spec.run, self.spec.max_gpus, &self.policies[0], draw.seed);
        let materials = materials_of(&draw.scenario, self.predictor.as_ref());
        let prepared = prepare(spec, materials, &mut Silent)?;
        Ok((prepared.beliefs.truth.known(&prepared.instance), draw.trace_of))
    }

    fn log(&self, policy: usize, gpus: u32, draw: &Draw) -> Result<(Prepared, ExecutionLog), Failure> {
        let policy = &self.policies[policy];
        let mut spec = on(&self.spec.run, gpus, policy, draw.seed);
        spec.faults.lose_gpus.extend(self.lost(gpus, draw));
        let materials = materials_of(&draw.scenario, self.predictor.as_ref());
        let prepared = prepare(spec, materials, &mut Silent)?;
        let (mut rule, _) = prepared.policy(false, &mut Silent);
        let fault = |what: String| {
            Failure::new(
                FailureKind::Internal,
                format!("internal error under policy `{}`: {what}", policy.name()),
            )
            .hint("this is a bug in gswarm, not in your input; please report it with both input files")
        };
        let log = prepared.log_of(rule.as_mut(), &mut |_, _| {}).map_err(|error| fault(error.to_string()))?;
        let violations = check_run(&prepared.instance, &prepared.beliefs.truth, &log, None);
        if !violations.is_empty() {
            return Err(fault(render(&violations)));
        }
        drop(rule);
        Ok((prepared, log))
    }

    /// The GPUs that a run loses when its measurement begins: others in each run.
    fn lost(&self, gpus: u32, draw: &Draw) -> Vec<LostGpu> {
        let at = draw.measured_from;
        let lost = |gpu: u32| LostGpu { gpu, at };
        let pick = |number: u32| (mix(draw.seed ^ 0x6c6f_7374) % u64::from(number.max(1))) as u32;
        match (self.spec.spare, self.given.cluster.gpus_per_server) {
            (Spare::Server, Some(size)) => {
                let first = pick(gpus.div_ceil(size)) * size;
                (first..gpus.min(first + size)).map(lost).collect()
            }
            (Spare::Server, None) => vec![lost(pick(gpus))],
            // Apart from one another, as single failures are.
            (Spare::Gpus(count), _) => {
                let (first, count) = (pick(gpus), count.min(gpus));
                (0..count).map(|number| lost((first + number * gpus / count) % gpus)).collect()
            }
        }
    }
}

fn without_requests(scenario: &Scenario) -> Scenario {
    Scenario {
        models: scenario.models.clone(),
        workflows: scenario.workflows.clone(),
        cluster: scenario.cluster.clone(),
        ..Scenario::default()
    }
}

fn materials_of(scenario: &Arc<Scenario>, predictor: Option<&Named>) -> Materials {
    Materials { predictor: predictor.cloned(), ..Materials::of(Problem::Scenario(Arc::clone(scenario))) }
}

/// The run on so many GPUs under a policy. The scenario has its measured costs already.
fn on(spec: &RunSpec, gpus: u32, policy: &PolicySpec, seed: u64) -> RunSpec {
    RunSpec {
        cluster: ClusterSpec { gpus: Some(gpus), ..spec.cluster.clone() },
        policy: Some(policy.clone()),
        calibration: None,
        seed,
        ..spec.clone()
    }
}
