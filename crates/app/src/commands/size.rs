//! `gswarm size`: the fewest GPUs that meet a target.

use crate::args::{InputArgs, MachineArgs};
use crate::commands::run::policy_parser;
use crate::failure::{Failure, FailureKind};
use crate::output::{self, curve, progress::Phase, table::grouped, terminal::Terminal};
use crate::policy_flags::unused_flags;
use clap::Args;
use gswarm_core::input::MAX_GPUS;
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::size::{Measure, Point, SizeQuestion, Sizing, Target, Telling, Verdict};
use gswarm_run::RunSpec;
use gswarm_run::size::{ask, mode_of};
use std::str::FromStr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  gswarm size --target makespan=2h --config config.yaml --requests requests.yaml
  gswarm size --target p99=60s --target mean=20s --config config.yaml --requests requests.yaml
  gswarm size --target makespan=1h30m --policy offline --max-gpus 64 --config config.yaml --requests requests.yaml

Without --mode, a makespan target means a batch (offline), a latency target a stream (online).
Without --policy, a batch is run under `planned`, a stream under `adaptive`.
Exit code 3: no number of GPUs up to --max-gpus meets the target.";

/// Default rounds of search for each number of GPUs.
const ROUNDS: u64 = 2;

/// Progress is shown after this time.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SizeArgs {
    /// A target: makespan, or mean, p50, p95 or p99 latency, and a time; repeatable
    #[arg(long, required = true, value_name = "MEASURE=TIME", value_parser = Target::from_str)]
    target: Vec<Target>,
    #[command(flatten)]
    input: InputArgs,
    /// The policy; see `gswarm policies`
    #[arg(long, short, value_name = "NAME", value_parser = policy_parser())]
    policy: Option<PolicyKind>,
    /// When requests arrive: all at the start, or at their timestamps
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    /// Largest number of GPUs to consider
    #[arg(long, alias = "max_gpus", value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GPUS)))]
    max_gpus: u32,
    /// `planned`: rounds of search for each number of GPUs [default: 2]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    machines: MachineArgs,
}

/// Searches, and says what was found.
pub fn size(args: &SizeArgs) -> Result<(), Failure> {
    let mode = args.mode.unwrap_or_else(|| mode_of(&args.target));
    let policy = args.policy.unwrap_or_else(|| PolicyKind::usual(mode));
    if policy != PolicyKind::Planned && args.rounds.is_some() {
        return Err(unused_flags(&["--rounds".to_owned()], policy, PolicyKind::Planned));
    }
    let policy = PolicySpec::default_of(policy).with_rounds(args.rounds.unwrap_or(ROUNDS));
    let spec = RunSpec {
        cluster: args.machines.spec(),
        policy: Some(policy),
        seed: args.seed,
        ..args.input.spec(mode)
    };
    let materials = spec.load()?;
    let mut terminal = Terminal::new("", args.json, args.json);
    let asked = ask(spec, &materials, args.target.clone(), args.max_gpus, &mut terminal)?;
    drop((terminal, materials));
    let begun = Instant::now();
    let mut trying = None;
    let sizing = asked.answer(&mut |telling| {
        if args.json {
            return;
        }
        match telling {
            Telling::Trying(gpus) => trying = Some(Phase::new(format!("running it on {gpus} GPUs"), true)),
            Telling::Tried(point) => {
                trying = None;
                if begun.elapsed() >= PATIENCE {
                    output::note(&progress(begun.elapsed(), point));
                }
            }
        }
    })?;
    drop(trying);
    let question = asked.question();
    if args.json {
        output::json(&sizing.report(&question))?;
    } else if !sizing.points.is_empty() {
        output::line(&curve::text(&question, &sizing))?;
    }
    match refusal(&question, &sizing) {
        None => Ok(()),
        Some(failure) => Err(failure),
    }
}

fn progress(elapsed: Duration, point: &Point) -> String {
    let met = if point.met { "meets the target" } else { "misses the target" };
    format!(
        "{:7.1} s  {:>5} GPUs: makespan {} s, mean {} s, P99 {} s; {met}",
        elapsed.as_secs_f64(),
        point.gpus,
        grouped(point.makespan, 1),
        grouped(point.mean, 1),
        grouped(point.p99, 1)
    )
}

/// Why there is no answer, if there is none.
fn refusal(question: &SizeQuestion<'_>, sizing: &Sizing) -> Option<Failure> {
    let most = question.max_gpus;
    let message = match &sizing.verdict {
        Verdict::Met { .. } => return None,
        Verdict::BelowFloor { target, floor } => {
            return Some(
                Failure::new(
                    FailureKind::Infeasible,
                    format!(
                        "no number of GPUs meets a {} of {}: the floor is {}",
                        target.measure.name(),
                        curve::limit_of(target),
                        curve::time(*floor)
                    ),
                )
                .hint(match target.measure {
                    Measure::Makespan => {
                        "that is the longest path of one request with the cheapest loads; relax the target"
                    }
                    _ => "that is the latency of requests alone with the cheapest loads; relax the target",
                }),
            );
        }
        Verdict::BeyondLimit { target, bound } => {
            let (name, limit) = (target.measure.name(), curve::limit_of(target));
            match target.measure {
                Measure::P50 | Measure::P95 | Measure::P99 => format!(
                    "no schedule on {most} GPUs meets a {name} of {limit}: more work arrives than they can do in time"
                ),
                _ => format!(
                    "no schedule on {most} GPUs meets a {name} of {limit}: the minimum there is {}",
                    curve::time(*bound)
                ),
            }
        }
        Verdict::NotFound => {
            let best = |(place, target): (usize, &Target)| {
                let values = sizing.points.iter().filter_map(|point| point.targets.get(place)?.value);
                let best = values.fold(f64::INFINITY, f64::min);
                if !best.is_finite() {
                    return format!("{} never, because requests do not end", target.measure.name());
                }
                let best = curve::limit_of(&Target { at_most: best, ..target.clone() });
                format!("{} {best} at best", target.measure.name())
            };
            let best: Vec<String> = question.targets.iter().enumerate().map(best).collect();
            let reason = format!(
                "policy `{}` does not meet the target with any number of GPUs tried up to {}: {}",
                question.policy.name(),
                most.min(sizing.useful),
                best.join(", ")
            );
            if most > sizing.useful {
                return Some(Failure::new(FailureKind::Infeasible, reason).hint(
                    "more GPUs cannot help: every node already has its own; try another --policy, or relax the target",
                ));
            }
            reason
        }
    };
    Some(
        Failure::new(FailureKind::Infeasible, message)
            .hint("allow more GPUs (--max-gpus), try another --policy, or relax the target"),
    )
}
