//! `gswarm plan`: the shortest schedule that can be found in a given time.

use crate::args::{ClusterArgs, InputArgs};
use crate::beliefs::PredictorArgs;
use crate::failure::Failure;
use crate::output::{self, described as schemas, files::Batch, interrupt, terminal::Terminal};
use clap::Args;
use gswarm_core::Span;
use gswarm_core::generate::Format;
use gswarm_core::instance::Mode;
use gswarm_core::plan::{Aimed, ObjectiveValues, PlanObjective, Planned, Proof};
use gswarm_core::policy::{PolicyKind, PolicySpec, carry_out};
use gswarm_core::schema::SchemaKind;
use gswarm_core::time::duration;
use gswarm_run::{LogFormat, Observer, PlanOptions, PlanSearch, RunSpec, Stage, TimesSpec, prepare};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  gswarm plan --gpus 16 --budget 10s --config config.yaml --requests requests.yaml
  gswarm plan --gpus 16 --objective mean --config config.yaml --requests requests.yaml
  gswarm plan --gpus 16 --gap 0.5% --config config.yaml --requests requests.yaml --out results
  gswarm run --plan results/plan.json --gpus 16 --config config.yaml --requests requests.yaml

Stops when the time is up, when the gap is reached, when the plan is proved optimal, or at Ctrl-C, and keeps the best
plan so far. Writes plan.json and the two logs of the simulated run into --out.
The same seed and --rounds give the same plan. With --budget alone, the result depends on the speed of the machine.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Search time: seconds, or 90s, 20min, 2h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    budget: Span,
    /// Stop when the plan is this close to the bound, such as 0.5%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = percent)]
    gap: f64,
    /// Stop after this many rounds of search
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// What to minimise: makespan, mean, p99, switches, or a weighted sum such as makespan=1,mean=0.2
    #[arg(long, value_name = "TERMS", default_value = "makespan", value_parser = PlanObjective::parse)]
    objective: PlanObjective,
    /// Folder for the plan and the logs
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Print nothing but errors
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Print only one JSON object, at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    predictor: PredictorArgs,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    cluster: ClusterArgs,
}

/// Reports progress of the search.
struct Search {
    terminal: Terminal,
    begun: Instant,
    shown: bool,
}

impl Search {
    fn say(&self, text: &str) {
        if self.shown {
            output::note(&format!("{:7.2} s  {text}", self.begun.elapsed().as_secs_f64()));
        }
    }
}

impl Observer for Search {
    fn stage(&mut self, stage: Stage) {
        // While plans are told, a line that turns would only be in their way.
        if stage != Stage::Planning {
            self.terminal.stage(stage);
        }
    }

    fn progress(&mut self, done: usize, total: usize) {
        self.terminal.progress(done, total);
    }

    fn note(&mut self, text: &str) {
        self.terminal.note(text);
    }

    fn better_plan(&mut self, found: &Planned) {
        self.say(&described(found));
    }

    fn better_aim(&mut self, objective: &PlanObjective, found: &Aimed) {
        self.say(&aimed_at(objective, found));
    }
}

/// Plans, runs the plan, and writes both.
pub fn plan(args: &PlanArgs) -> Result<(), Failure> {
    let shown = !args.quiet && !args.json;
    let spec = RunSpec {
        cluster: args.cluster.spec(),
        policy: Some(PolicySpec::default_of(PolicyKind::Planned)),
        seed: args.seed,
        times: TimesSpec { predictor: args.predictor.predictor.clone(), ..TimesSpec::default() },
        ..args.input.spec(Mode::Offline)
    };
    let mut search =
        Search { terminal: Terminal::new("planned", args.quiet, args.json), begun: Instant::now(), shown };
    search.stage(Stage::Reading);
    let materials = spec.load()?;
    let mut prepared = prepare(spec, materials, &mut search)?.without_inputs();
    prepared.stop = interrupt::stop_flag();
    search.begun = Instant::now();
    let options = PlanOptions {
        budget: Duration::from_secs_f64(args.budget.seconds()),
        rounds: args.rounds.unwrap_or(u64::MAX),
        gap: args.gap,
        objective: args.objective,
    };
    let PlanSearch { planned, aimed } = prepared.plan(&options, &mut search);
    // The plan that was found is run also where the search was interrupted.
    prepared.stop = Arc::default();
    let instance = &prepared.instance;
    let outcome = prepared.simulate_with(carry_out(instance, &planned).as_mut(), &mut search)?;
    let begun = search.begun;
    drop(search);
    let mut batch = Batch::new(&args.out)?;
    schemas::add(&mut batch, "plan.json", SchemaKind::Plan, Format::Json, |mut out| {
        prepared.write_plan(&planned, &mut out)
    })?;
    gswarm_run::output::save(&mut batch, instance, &outcome, LogFormat::Auto)?;
    let written = batch.commit()?;
    schemas::beside(&args.out, &[SchemaKind::Plan])?;
    if args.json {
        return output::json(&PlanReport {
            makespan: planned.makespan.seconds(),
            lower_bound: planned.lower_bound().seconds(),
            bound_argument: argument(&planned).to_owned(),
            gap_percent: planned.gap() * 100.0,
            optimal: planned.proof.is_some(),
            proof: planned.proof.map(|proof| proof.name().to_owned()),
            found_by: planned.found_by,
            seconds: begun.elapsed().as_secs_f64(),
            objective: aimed.as_ref().map(|aimed| objective_report(&args.objective, aimed)),
            files: written.iter().map(|path| path.display().to_string()).collect(),
        });
    }
    if shown {
        if let Some(aimed) = &aimed {
            output::line(&aimed_at(&args.objective, aimed))?;
        }
        output::line(&format!("{}\n", described(&planned)))?;
        output::line(&format!(
            "written: {}",
            written.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        ))?;
    }
    Ok(())
}

fn aimed_at(objective: &PlanObjective, aimed: &Aimed) -> String {
    let ObjectiveValues { makespan, latency, p99, switches } = aimed.values;
    // Against a bound of zero there is no gap in percent: what is known is how much is left at most.
    let gap = match aimed.gap() {
        gap if gap.is_finite() => format!("gap {:.3}%", gap * 100.0),
        _ => format!("at most {:.2} above the best", aimed.cost - aimed.bound),
    };
    format!(
        "{objective}: {:.2}, bound {:.2}, {gap}, by {} (makespan {makespan:.1} s, mean latency {latency:.1} s, \
         P99 {p99:.1} s, {})",
        aimed.cost,
        aimed.bound,
        aimed.planned.found_by,
        output::count(switches as u64, "switch")
    )
}

/// What `gswarm plan --json` prints.
#[derive(Serialize, Deserialize)]
pub struct PlanReport {
    makespan: f64,
    lower_bound: f64,
    bound_argument: String,
    gap_percent: f64,
    optimal: bool,
    proof: Option<String>,
    found_by: String,
    /// What planning took.
    seconds: f64,
    /// For objectives other than the makespan.
    objective: Option<ObjectiveReport>,
    /// The files that were written.
    files: Vec<String>,
}

/// The objective's value of a plan.
#[derive(Serialize, Deserialize)]
struct ObjectiveReport {
    terms: String,
    value: f64,
    lower_bound: f64,
    /// A gap to a bound of zero has no number.
    gap_percent: Option<f64>,
    makespan: f64,
    latency: f64,
    p99: f64,
    switches: u64,
}

fn objective_report(objective: &PlanObjective, aimed: &Aimed) -> ObjectiveReport {
    let ObjectiveValues { makespan, latency, p99, switches } = aimed.values;
    ObjectiveReport {
        terms: objective.to_string(),
        value: aimed.cost,
        lower_bound: aimed.bound,
        gap_percent: Some(aimed.gap() * 100.0).filter(|gap| gap.is_finite()),
        makespan,
        latency,
        p99,
        switches: switches as u64,
    }
}

/// What gives the plan's lower bound.
fn argument(planned: &Planned) -> &'static str {
    match planned.proof {
        Some(Proof::Search) => Proof::Search.name(),
        _ => planned.bound.witness.name(),
    }
}

fn described(planned: &Planned) -> String {
    let proved = match planned.proof {
        Some(Proof::Bound) => "; optimal: equal to the bound",
        Some(Proof::Search) => "; optimal: every other schedule was excluded",
        None => "",
    };
    format!(
        "makespan {:.1} s, bound {:.1} s ({}), gap {:.3}%, by {}{proved}",
        planned.makespan.seconds(),
        planned.lower_bound().seconds(),
        argument(planned),
        planned.gap() * 100.0,
        planned.found_by
    )
}

/// `0.5%` or `0.5`, as a fraction.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(value) if (0.0..=1000.0).contains(&value) => Ok(value / 100.0),
        _ => Err("give a percentage, such as 0.5%".to_string()),
    }
}
