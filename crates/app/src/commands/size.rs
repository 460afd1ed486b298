//! `gswarm size`: the fewest GPUs that meet a target.

use crate::args::{InputArgs, MachineArgs};
use crate::commands::run::policy_parser;
use crate::failure::{Code, Failure};
use crate::output::{self, curve, progress::Phase, table::grouped, terminal::Terminal};
use crate::policy_flags::unused_flags;
use clap::Args;
use gswarm_core::Span;
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

Without --mode, a makespan alone is of a batch (offline) and a latency is of a stream (online).
Without --policy, a batch is run under `planned`, a stream under `adaptive`.
Exit code 3: no number of GPUs up to --max-gpus meets the target.";

/// Rounds of search for each number of GPUs, where nothing is said of them.
const ROUNDS: u64 = 2;

/// Before this, nothing is said of how far the search is.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SizeArgs {
    /// A target: makespan, or mean or p99 latency, and a time; repeatable
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
    /// No more GPUs than this
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
    let met = if point.met { "meets the target" } else { "does not" };
    format!(
        "{:7.1} s  {:>5} GPUs: makespan {} s, mean {} s, P99 {} s; {met}",
        elapsed.as_secs_f64(),
        point.gpus,
        grouped(point.makespan, 1),
        grouped(point.mean, 1),
        grouped(point.p99, 1)
    )
}

/// Why the answer is no number, where it is none.
fn refusal(question: &SizeQuestion<'_>, sizing: &Sizing) -> Option<Failure> {
    let most = question.max_gpus;
    let message = match &sizing.verdict {
        Verdict::Met { .. } => return None,
        Verdict::BelowFloor { target, floor } => {
            return Some(
                Failure::new(
                    Code::Infeasible,
                    format!(
                        "no number of GPUs gives a {} of {}: the floor is {}",
                        target.measure.name(),
                        curve::time(target.at_most),
                        curve::time(*floor)
                    ),
                )
                .hint(match target.measure {
                    Measure::Makespan => "that is the longest path of one request, with the cheapest way to its models; allow more",
                    _ => "that is what requests take by themselves, with the cheapest way to their models; allow more",
                }),
            );
        }
        Verdict::BeyondLimit { target, bound } => {
            let (name, limit) = (target.measure.name(), curve::time(target.at_most));
            match target.measure {
                Measure::P99 => format!(
                    "no schedule on {most} GPUs gives a p99 of {limit}: more work arrives than they can do in time"
                ),
                _ => format!(
                    "no schedule on {most} GPUs gives a {name} of {limit}: with so many it is {} at the least",
                    curve::time(*bound)
                ),
            }
        }
        Verdict::NotFound => {
            let best = |target: &Target| {
                let values = sizing.points.iter().map(|point| point.get(target.measure));
                let best = Span::from_seconds(values.fold(f64::INFINITY, f64::min));
                format!("{} {} at best", target.measure.name(), curve::time(best))
            };
            let best: Vec<String> = question.targets.iter().map(best).collect();
            let reason = format!(
                "policy `{}` does not meet the target with any number of GPUs tried up to {}: {}",
                question.policy.name(),
                most.min(sizing.useful),
                best.join(", ")
            );
            if most > sizing.useful {
                return Some(Failure::new(Code::Infeasible, reason).hint(
                    "on so many every node can have GPUs of its own, and more change nothing; try another --policy, or more time",
                ));
            }
            reason
        }
    };
    Some(
        Failure::new(Code::Infeasible, message)
            .hint("allow more GPUs (--max-gpus), another --policy, or more time"),
    )
}
