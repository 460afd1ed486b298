//! The search over numbers of GPUs.

use super::{Floors, Measure, Point, SizeError, SizeQuestion, Sizing, Target, Telling, Verdict};
use crate::bound::lower_bound;
use crate::input::{Scenario, WorkflowSpec};
use crate::instance::Instance;
use crate::time::Span;
use std::collections::BTreeMap;

/// Numbers just below the answer that are tried too, one after the other.
const NEIGHBOURS: u32 = 4;
/// Multiples of the widest model below the answer that are tried too.
const MULTIPLES: usize = 3;
/// How fine the search by halves is, as a part of the number: of some hundreds of GPUs a few more or less decide nothing, and
/// each try is a whole run.
const FINENESS: u32 = 128;

/// Finds the fewest GPUs that meet the targets; `tell` is called before and after every run.
pub fn size(question: &SizeQuestion<'_>, tell: &mut dyn FnMut(Telling<'_>)) -> Result<Sizing, SizeError> {
    let useful = useful(question);
    let most = question.max_gpus.min(useful);
    let largest = question.on(most).map_err(|faults| SizeError::Infeasible(most, faults))?;
    let least_possible = least_that(1, most, |gpus| question.on(gpus).is_ok());
    let floors = Floors::of(&largest);
    let answer = |verdict, least| Sizing {
        verdict,
        least_possible,
        least,
        useful,
        points: Vec::new(),
        tried: Vec::new(),
    };
    let below = |target: &&Target| is_above(floors.of_target(target), target);
    if let Some(target) = question.targets.iter().find(below) {
        let (target, floor) = (target.clone(), floors.of_target(target));
        return Ok(answer(Verdict::BelowFloor { target, floor }, most + 1));
    }
    if let Some((target, bound)) = ruled_out(question, &floors, &largest) {
        return Ok(answer(Verdict::BeyondLimit { target, bound }, most + 1));
    }
    drop(largest);
    // What no schedule can do on so many GPUs, none can on fewer.
    let least = least_that(least_possible, most, |gpus| {
        question.on(gpus).is_ok_and(|instance| ruled_out(question, &floors, &instance).is_none())
    });
    let mut search = Search { question, most, tell, results: BTreeMap::new() };
    let range = Range { least, most, widest: widest(question.scenario), neighbours: NEIGHBOURS };
    let mut fewest = fewest(range, &mut |gpus| search.meets(gpus))?;
    let mut tried: Vec<u32> = search.results.keys().copied().collect();
    while let Some(gpus) = fewest {
        search.curve(least_possible, gpus)?;
        // What was run for the curve alone may do with fewer.
        let fewer = search.results.values().find(|point| point.met).map(|point| point.gpus);
        if fewer == fewest {
            break;
        }
        fewest = fewer;
        tried = search.results.keys().copied().collect();
    }
    let verdict = match fewest {
        Some(gpus) => {
            let known = search.results.range(least..gpus).count() as u32;
            Verdict::Met { gpus, untried: gpus - least - known }
        }
        None => Verdict::NotFound,
    };
    let points = search.results.into_values().collect();
    Ok(Sizing { verdict, least_possible, least, useful, points, tried })
}

/// More GPUs than this change nothing: on so many every node has its own, in whatever way they are cut into servers.
fn useful(question: &SizeQuestion<'_>) -> u32 {
    let scenario = question.scenario;
    let widths = |workflow: &WorkflowSpec| -> u64 {
        let nodes = workflow.nodes.iter();
        nodes.map(|node| u64::from(scenario.models[node.model.index()].gpus_required)).sum()
    };
    let of_workflow: Vec<u64> = scenario.workflows.iter().map(widths).collect();
    let all: u64 = scenario.requests.iter().map(|request| of_workflow[request.workflow.index()]).sum();
    // A server that models do not fill leaves GPUs over: less than half of it, where two of the widest do not fit, and a whole
    // one for each model at the end.
    let widest = widest(scenario);
    let server = question.cluster.gpus_per_server.unwrap_or(1);
    let spare = u64::from(server.max(widest)) * (1 + scenario.models.len() as u64);
    u32::try_from(2 * all + spare).unwrap_or(u32::MAX)
}

/// GPUs of the widest model.
fn widest(scenario: &Scenario) -> u32 {
    scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1)
}

/// Whether a bound is above what a target allows.
fn is_above(bound: Span, target: &Target) -> bool {
    target.measure != Measure::Deadline && bound > target.span()
}

/// The first target that no schedule on these GPUs meets, and the least it can be.
fn ruled_out(question: &SizeQuestion<'_>, floors: &Floors, instance: &Instance) -> Option<(Target, Span)> {
    question.targets.iter().find_map(|target| {
        let bound = match target.measure {
            Measure::Makespan => lower_bound(instance),
            _ => floors.latency(target, instance.cluster.gpus),
        };
        is_above(bound, target).then(|| (target.clone(), bound))
    })
}

/// The least number in `from..=most` for which `holds`, given that it holds for `most` and for all above one that it holds for.
fn least_that(from: u32, most: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (from, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

/// The numbers of GPUs to search among.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Fewer cannot do.
    pub least: u32,
    /// More are not allowed.
    pub most: u32,
    /// GPUs of the widest model, whose multiples suit it.
    pub widest: u32,
    /// Numbers just below an answer that are tried too.
    pub neighbours: u32,
}

/// The fewest GPUs that are found to do: steps that double, then halving, then a look at numbers just below and at multiples
/// of the widest model. `meets` is asked more than once of some numbers.
pub fn fewest<E>(range: Range, meets: &mut dyn FnMut(u32) -> Result<bool, E>) -> Result<Option<u32>, E> {
    let Range { least, most, .. } = range;
    let (mut failed, mut gpus, mut step) = (least - 1, least, (least / 16).max(1));
    while !meets(gpus)? {
        if gpus == most {
            return Ok(None);
        }
        failed = gpus;
        gpus = gpus.saturating_add(step).min(most);
        step = step.saturating_mul(2);
    }
    while gpus - failed > (gpus / FINENESS).max(1) {
        let middle = failed + (gpus - failed) / 2;
        if meets(middle)? { gpus = middle } else { failed = middle }
    }
    // Of many, those just below were left out on purpose.
    while gpus < 2 * FINENESS
        && let Some(fewer) = around(range, gpus, meets)?
    {
        gpus = fewer;
    }
    Ok(Some(gpus))
}

/// A smaller number near `gpus` that does as well: those just below it, and those that suit the widest model.
fn around<E>(
    range: Range,
    gpus: u32,
    meets: &mut dyn FnMut(u32) -> Result<bool, E>,
) -> Result<Option<u32>, E> {
    let Range { least, widest, neighbours, .. } = range;
    let just_below = (least..gpus).rev().take(neighbours as usize + 1);
    let suited = (least..gpus).rev().filter(|gpus| widest > 1 && gpus % widest == 0).take(MULTIPLES);
    for fewer in just_below.chain(suited) {
        if meets(fewer)? {
            return Ok(Some(fewer));
        }
    }
    Ok(None)
}

struct Search<'a, 't> {
    question: &'a SizeQuestion<'a>,
    most: u32,
    tell: &'t mut dyn FnMut(Telling<'_>),
    results: BTreeMap<u32, Point>,
}

impl Search<'_, '_> {
    /// Whether so many GPUs meet the targets.
    fn meets(&mut self, gpus: u32) -> Result<bool, SizeError> {
        if let Some(known) = self.results.get(&gpus) {
            return Ok(known.met);
        }
        (self.tell)(Telling::Trying(gpus));
        let point = self.question.run(gpus)?;
        (self.tell)(Telling::Tried(&point));
        let met = point.met;
        self.results.insert(gpus, point);
        Ok(met)
    }

    /// A few numbers on both sides of the answer, to show how much there is to gain or lose.
    fn curve(&mut self, least: u32, gpus: u32) -> Result<(), SizeError> {
        let wanted = [
            gpus / 2,
            gpus * 3 / 4,
            gpus.saturating_mul(5) / 4,
            gpus.saturating_mul(3) / 2,
            gpus.saturating_mul(2),
        ];
        let range = least..=self.most;
        for other in wanted.into_iter().filter(|other| range.contains(other)) {
            self.meets(other)?;
        }
        Ok(())
    }
}
