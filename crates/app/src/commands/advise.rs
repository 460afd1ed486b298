//! `gswarm advise`: GPUs, policy and placement for a target.

use crate::args::{InputArgs, MachineArgs, mode_parser, not_negative};
use crate::commands::run::policy_parser;
use crate::failure::{Failure, FailureKind};
use crate::output::files::Batch;
use crate::output::{self, advice, progress::Phase, terminal::Terminal};
use clap::Args;
use gswarm_core::input::MAX_GPUS;
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::size::Target;
use gswarm_core::truth::Noise;
use gswarm_run::RunSpec;
use gswarm_run::advise::{AdviseSpec, ROUNDS, Spare, advise as ask, traffic};
use gswarm_show::page::html;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  gswarm advise --target p99=60s --config config.yaml --requests requests.yaml
  gswarm advise --target p99=60s --traffic x2 --spare 1 --price 2.5 --html advice.html \\
      --config config.yaml --requests requests.yaml
  gswarm advise --target chat:p95=20s --target deadline=99% --config config.yaml --requests requests.yaml
  gswarm advise --target makespan=2h --config config.yaml --requests requests.yaml

The requests are a sample of the traffic: similar traces are drawn with --seed and simulated one after the other.
Without --mode, a makespan target alone means a batch (offline), any other target a stream (online).
Without --policy, the policy is part of the answer.
Exit code 3: no number of GPUs up to --max-gpus meets the target.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseArgs {
    /// A target: p50, p95, p99 or mean latency, the makespan, or the share of deadlines kept; repeatable
    #[arg(long, required = true, value_name = "[WORKFLOW:]MEASURE=LIMIT", value_parser = Target::from_str)]
    target: Vec<Target>,
    #[command(flatten)]
    input: InputArgs,
    /// The traffic, as a multiple of that of the requests
    #[arg(long, value_name = "xN", default_value = "x1", value_parser = traffic)]
    traffic: f64,
    /// GPUs that may be lost without missing the target, or `server`
    #[arg(long, value_name = "N|server", default_value = "0", value_parser = Spare::from_str)]
    spare: Spare,
    /// Price of one GPU per hour
    #[arg(long, value_name = "PRICE", value_parser = not_negative)]
    price: Option<f64>,
    /// The policy; without it, several are tried
    #[arg(long, short, value_name = "NAME", value_parser = policy_parser())]
    policy: Option<PolicyKind>,
    /// When requests arrive: all at the start, or at their timestamps
    #[arg(long, value_name = "MODE", value_parser = mode_parser())]
    mode: Option<Mode>,
    /// Largest number of GPUs to consider
    #[arg(long, alias = "max_gpus", value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GPUS)))]
    max_gpus: u32,
    /// Number of resampled traces [default: as many as a stream needs; a batch is not resampled]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    traces: Option<u32>,
    /// Run times around the estimates: lognormal:0.2, config (the default) or none
    #[arg(long, value_name = "NOISE", value_parser = Noise::from_str)]
    noise: Option<Noise>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Write an HTML page with the curve
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    machines: MachineArgs,
}

impl AdviseArgs {
    fn spec(&self) -> AdviseSpec {
        let mode = self.mode.unwrap_or_else(|| AdviseSpec::usual_mode(&self.target));
        let mut run = RunSpec {
            cluster: self.machines.spec(),
            policy: self.policy.map(|kind| PolicySpec::default_of(kind).with_rounds(ROUNDS)),
            seed: self.seed,
            ..self.input.spec(mode)
        };
        run.times.noise = self.noise;
        AdviseSpec {
            run,
            targets: self.target.clone(),
            traffic: self.traffic,
            spare: self.spare,
            price: self.price,
            max_gpus: self.max_gpus,
            traces: self.traces,
        }
    }
}

/// Computes the advice and prints it.
pub fn advise(args: &AdviseArgs) -> Result<(), Failure> {
    let spec = args.spec();
    // What cannot be written is known before anything is run.
    let page = args.html.as_ref().map(|path| Batch::beside(path, "--html")).transpose()?;
    let materials = spec.run.load()?;
    let mut terminal = Terminal::new("", args.json, args.json);
    let mut trying: Option<(String, Phase)> = None;
    let report = ask(&spec, &materials, &mut terminal, &mut |policy, gpus| {
        let text = format!("running {policy} on {gpus} GPUs");
        if !args.json && trying.as_ref().is_none_or(|(last, _)| *last != text) {
            trying = None;
            trying = Some((text.clone(), Phase::new(text, true)));
        }
    })?;
    drop((trying, terminal));
    if args.json {
        output::json(&report)?;
    } else {
        output::line(&advice::text(&report))?;
    }
    if let Some((mut batch, name)) = page {
        batch.add(&name, |out| out.write_all(html(&gswarm_show::advice::page(&report)).as_bytes()))?;
        let written = batch.commit()?;
        if !args.json {
            written.iter().try_for_each(|path| output::line(&format!("\nWrote {}", path.display())))?;
        }
    }
    if report.verdict == "met" {
        return Ok(());
    }
    let hint = "allow more time or more GPUs (--max-gpus), or another --policy";
    let why = report.sentences().join(" ");
    Err(Failure::new(FailureKind::Infeasible, format!("{}. {why}", report.headline())).hint(hint))
}
