//! Measured costs in the place of those that the files give: times of nodes, loads, unloads and batching curves.

use super::lengths::{Length, Sizes, lengths};
use super::types::{Calibration, Cost, ModelCalibration, Quartiles, Work};
use gswarm_core::ModelId;
use gswarm_core::cost::{SwitchRule, execution_span};
use gswarm_core::input::{BatchingSpec, ModelSpec, Scenario};

/// A larger batch has to get this much more done: less is noise, and servers that take calls in turn batch nothing.
const WORTH_BATCHING: f64 = 1.02;

/// Where loads are taken to come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartsFrom {
    /// Servers that have had every model before: what they take to load it again.
    #[default]
    Again,
    /// Servers that have just been started: what the first load takes.
    First,
}

/// How measurements are taken over.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions {
    /// Which loads.
    pub loads: StartsFrom,
    /// Whether models batch, as they were measured to; otherwise none does.
    pub batching: bool,
}

impl Default for ApplyOptions {
    fn default() -> ApplyOptions {
        ApplyOptions { loads: StartsFrom::default(), batching: true }
    }
}

/// A model that requests use and nobody has measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("model `{model}` was not measured{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct Misfit {
    /// Which.
    pub model: String,
    /// Why not, where the calibration says so.
    pub why: Option<String>,
}

/// How much longer than what was measured prompts and answers may be before it is told of.
const STRETCH: f64 = 2.0;

/// A model that is asked for more than it was measured with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "model `{model}` was measured with {what} of up to {measured:.0} {unit}, but requests have up to {asked:.0}: longer times are extrapolated"
)]
pub struct Beyond {
    /// Which.
    pub model: String,
    /// Prompts or answers.
    pub what: &'static str,
    /// Of what there are so many.
    pub unit: &'static str,
    /// The longest that was measured.
    pub measured: f64,
    /// The longest that requests ask for.
    pub asked: f64,
}

/// Takes measured costs over into a scenario, and says where that reaches beyond the measurements. Models that no request uses
/// may be without.
pub fn apply(
    calibration: &Calibration,
    scenario: &mut Scenario,
    options: ApplyOptions,
) -> Result<Vec<Beyond>, Vec<Misfit>> {
    let measured: Vec<Option<&ModelCalibration>> =
        scenario.models.iter().map(|model| calibration.models.get(&model.id)).collect();
    let used = used(scenario);
    let misfit = |model: &ModelSpec| Misfit {
        model: model.id.clone(),
        why: calibration.failed.get(&model.id).cloned(),
    };
    let missing: Vec<Misfit> = scenario
        .models
        .iter()
        .zip(measured.iter().zip(&used))
        .filter(|(_, (measured, used))| measured.is_none() && **used)
        .map(|(model, _)| misfit(model))
        .collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let known = Known { measured: &measured, models: &scenario.models };
    // By model: what its nodes read and write.
    let mut asked: Vec<Vec<(f64, f64)>> = vec![Vec::new(); scenario.models.len()];
    let mut times = Vec::with_capacity(scenario.requests.len());
    for request in &scenario.requests {
        let nodes = &scenario.workflows[usize::from(request.workflow)].nodes;
        let lengths = lengths(scenario, request, &known);
        let of_node = |(node, length): (&gswarm_core::input::NodeSpec, Length)| {
            let (prompt, output) = known.work(node.model, length)?;
            asked[usize::from(node.model)].push((prompt, output));
            let alone = measured[usize::from(node.model)]?.execution.first()?;
            Some(execution_span(alone.seconds(prompt, output)))
        };
        times.push(nodes.iter().zip(lengths).map(of_node).collect());
    }
    for (request, times) in scenario.requests.iter_mut().zip(times) {
        request.times = times;
    }
    let mut stretched = Vec::new();
    for ((spec, measured), asked) in scenario.models.iter_mut().zip(&measured).zip(asked) {
        match measured {
            Some(measured) => {
                stretched.extend(beyond(&spec.id, measured, &asked));
                take_over(spec, measured, &asked, options);
            }
            // It is never loaded, so it never leaves.
            None => spec.unload_time_seconds = spec.unload_time_seconds.or(Some(0.0)),
        }
    }
    scenario.cluster.switch_cost = Some(SwitchRule::Measured);
    Ok(stretched)
}

/// Where requests ask a model for much more than it was measured with.
fn beyond(model: &str, measured: &ModelCalibration, asked: &[(f64, f64)]) -> Vec<Beyond> {
    let seen = || measured.observations.iter();
    let longest = |of: &mut dyn Iterator<Item = f64>| of.fold(0.0, f64::max);
    let prompts = (
        longest(&mut seen().map(|one| one.prompt)),
        longest(&mut asked.iter().map(|one| one.0)),
        ("prompts", if measured.prompt.tokens { "tokens" } else { "characters" }),
    );
    let answers = (
        longest(&mut seen().map(|one| one.output)),
        longest(&mut asked.iter().map(|one| one.1)),
        if measured.work == Work::Image { ("pictures", "steps") } else { ("answers", "tokens") },
    );
    // What costs nothing, as the prompts of pictures do, may be as long as it likes.
    let is_read = measured.execution.iter().any(|cost| cost.prompt > 0.0 || cost.context > 0.0);
    [Some(prompts).filter(|_| is_read), Some(answers)]
        .into_iter()
        .flatten()
        .filter(|&(measured, asked, _)| measured > 0.0 && asked > STRETCH * measured)
        .map(|(measured, asked, (what, unit))| Beyond {
            model: model.to_owned(),
            what,
            unit,
            measured,
            asked,
        })
        .collect()
}

fn used(scenario: &Scenario) -> Vec<bool> {
    let mut used = vec![scenario.requests.is_empty(); scenario.models.len()];
    for request in &scenario.requests {
        let nodes = &scenario.workflows[usize::from(request.workflow)].nodes;
        nodes.iter().for_each(|node| used[usize::from(node.model)] = true);
    }
    used
}

/// What is known of models before anything has run.
struct Known<'a> {
    measured: &'a [Option<&'a ModelCalibration>],
    models: &'a [ModelSpec],
}

impl Known<'_> {
    /// Units that a node reads, and what it writes.
    fn work(&self, model: ModelId, length: Length) -> Option<(f64, f64)> {
        let measured = self.measured[usize::from(model)]?;
        Some((measured.prompt.of(length.prompt), self.written(model, length.output)))
    }

    fn written(&self, model: ModelId, asked: Option<f64>) -> f64 {
        let Some(measured) = self.measured[usize::from(model)] else { return asked.unwrap_or(0.0) };
        let spec = &self.models[usize::from(model)];
        let longest = || measured.observations.iter().map(|one| one.output).fold(0.0, f64::max);
        match (asked, measured.answers.usual) {
            (Some(asked), _) => measured.answers.of(asked),
            (None, Some(usual)) => usual,
            (None, None) => spec.token_mean.map_or_else(longest, |mean| measured.answers.of(mean)),
        }
    }
}

impl Sizes for Known<'_> {
    fn answer(&self, model: ModelId, asked: Option<f64>) -> f64 {
        let Some(measured) = self.measured[usize::from(model)] else { return 0.0 };
        let answers = &measured.answers;
        answers.fixed_characters + answers.characters_each * self.written(model, asked)
    }
}

fn take_over(spec: &mut ModelSpec, measured: &ModelCalibration, asked: &[(f64, f64)], options: ApplyOptions) {
    let load: Quartiles = match options.loads {
        StartsFrom::Again if measured.load.again.n > 0 => measured.load.again,
        _ => measured.load.first,
    };
    // A configuration has no loads that take no time at all.
    spec.load_time_seconds = (load.median + measured.first_call_extra).max(1e-6);
    spec.unload_time_seconds = Some(measured.unload.median);
    let Some(alone) = measured.execution.first() else { return };
    let usual: Vec<(f64, f64)> = if asked.is_empty() { usual(spec, measured) } else { asked.to_vec() };
    let mean = usual.iter().map(|&(prompt, output)| alone.seconds(prompt, output)).sum::<f64>()
        / usual.len().max(1) as f64;
    spec.inference_time_mean = Some(mean.max(1e-6));
    if measured.work == Work::Text && alone.output > 0.0 {
        spec.tokens_per_second = Some(1.0 / alone.output);
    }
    spec.batching = batching(&measured.execution, &usual).filter(|_| options.batching);
}

/// What a model is asked where no requests say it: what the configuration expects of it, or the middle of what was measured.
fn usual(spec: &ModelSpec, measured: &ModelCalibration) -> Vec<(f64, f64)> {
    let seen = || measured.observations.iter().filter(|one| one.batch == 1);
    let count = seen().count().max(1) as f64;
    let prompt = seen().map(|one| one.prompt).sum::<f64>() / count;
    let output = seen().map(|one| one.output).sum::<f64>() / count;
    let written =
        spec.token_mean.filter(|_| measured.work == Work::Text).map(|mean| measured.answers.of(mean));
    vec![(prompt, written.unwrap_or(output))]
}

/// The slowdown of all that is asked of a model together, by batch: as far as a larger batch gets more done. Calls join and
/// leave in a run, so it is that of calls that come and go.
fn batching(execution: &[Cost], asked: &[(f64, f64)]) -> Option<BatchingSpec> {
    let work = |cost: &Cost| asked.iter().map(|&(prompt, output)| cost.seconds(prompt, output)).sum::<f64>();
    let alone = work(execution.first()?);
    let mut slowdown: Vec<(u32, f64)> = Vec::new();
    for cost in execution {
        let before = slowdown.last().map_or(1.0, |&(_, slow)| slow);
        // Where it was not measured, nothing is known of it: what it is at one batch says little of the next.
        let mixed = cost.mixed.unwrap_or(1.0);
        let slow = if cost.batch == 1 { 1.0 } else { (mixed * work(cost) / alone).max(before) };
        slowdown.push((cost.batch, slow));
    }
    let rate = |&(batch, slow): &(u32, f64)| f64::from(batch) / slow;
    let better = |best: usize, at: usize| {
        if rate(&slowdown[at]) >= WORTH_BATCHING * rate(&slowdown[best]) { at } else { best }
    };
    let best = (0..slowdown.len()).fold(0, better);
    slowdown.truncate(best + 1);
    let max_batch = slowdown.last()?.0;
    (max_batch > 1).then_some(BatchingSpec { max_batch, slowdown })
}
