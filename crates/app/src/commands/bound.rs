//! `gswarm bound`: lower bounds on the makespan of any schedule.

use crate::args::{ClusterArgs, InputArgs};
use crate::failure::Failure;
use crate::job;
use crate::output::{self, count, files::Batch};
use clap::Args;
use gswarm_core::Instance;
use gswarm_core::bound::{Bound, all_bounds};
use gswarm_core::instance::Mode;
use gswarm_core::log_file::{BoundClaim, ClusterClaims};
use gswarm_core::policy::PolicyKind;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm bound --gpus 8 --config config.yaml --requests requests.yaml
  gswarm bound --gpus 8 --mode online --config config.yaml --requests requests.yaml --json
  gswarm bound --gpus 8 --config config.yaml --requests requests.yaml --out bound.json
  gswarm check bound.json --config config.yaml --requests requests.yaml

The JSON has a witness for each bound. `gswarm check` recomputes the bound from it with independent code.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BoundArgs {
    #[command(flatten)]
    input: InputArgs,
    /// When requests arrive: all at the start, or at their timestamps
    #[arg(long, value_name = "MODE", default_value = "offline", value_parser = crate::args::mode_parser())]
    mode: Mode,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write that object to a file
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    cluster: ClusterArgs,
}

pub fn bound(args: &BoundArgs) -> Result<(), Failure> {
    let scenario = job::load(&args.input, args.mode, args.json, !args.json)?;
    let spec = args.cluster.over(&scenario.cluster);
    let instance = job::build(&scenario, &spec, args.mode, Some(PolicyKind::Baseline))?;
    let mut bounds = all_bounds(&instance);
    bounds.sort_by_key(|bound| std::cmp::Reverse(bound.value));
    let whole = BoundsJson::of(&instance, &bounds);
    if let Some(path) = &args.out {
        let (mut batch, name) = Batch::beside(path, "--out")?;
        batch.add(&name, |out| {
            serde_json::to_writer_pretty(&mut *out, &whole)?;
            writeln!(out)
        })?;
        batch.commit()?;
    }
    if args.json {
        return output::json(&whole);
    }
    output::line(&format!(
        "No schedule of these requests on {} ends before {:.3} s ({}).\n",
        count(instance.cluster.gpus.into(), "GPU"),
        bounds[0].value.seconds(),
        bounds[0].witness.name()
    ))?;
    for bound in &bounds {
        output::line(&format!(
            "{:>14.3} s  {:<10} {}",
            bound.value.seconds(),
            bound.witness.name(),
            bound.because(&instance)
        ))?;
    }
    Ok(())
}

/// What `--json` and `--out` write: all bounds with their witnesses, and the problem that they are of.
#[derive(Serialize)]
struct BoundsJson {
    schema: u32,
    mode: &'static str,
    gpus: u32,
    gpus_per_server: Option<u32>,
    cluster: ClusterClaims,
    lower_bound: f64,
    bounds: Vec<BoundJson>,
}

#[derive(Serialize)]
struct BoundJson {
    seconds: f64,
    argument: &'static str,
    because: String,
    witness: BoundClaim,
}

impl BoundsJson {
    fn of(instance: &Instance, bounds: &[Bound]) -> BoundsJson {
        let one = |bound: &Bound| BoundJson {
            seconds: bound.value.seconds(),
            argument: bound.witness.name(),
            because: bound.because(instance),
            witness: bound.claim(instance),
        };
        let cluster = &instance.cluster;
        BoundsJson {
            schema: 1,
            mode: instance.mode.name(),
            gpus: cluster.gpus,
            gpus_per_server: cluster.gpus_per_server,
            cluster: ClusterClaims::from(cluster),
            lower_bound: bounds[0].value.seconds(),
            bounds: bounds.iter().map(one).collect(),
        }
    }
}
