//! `gswarm policies`: lists the policies.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use gswarm_core::instance::Mode;
use gswarm_core::policy::PolicyKind;

const EXAMPLES: &str = "\
Examples:
  gswarm policies
  gswarm policies --mode online
  gswarm policies --json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PoliciesArgs {
    /// Only policies with this mode
    #[arg(long, value_name = "MODE", value_parser = crate::args::mode_parser())]
    mode: Option<Mode>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn policies(args: &PoliciesArgs) -> Result<(), Failure> {
    let chosen = PolicyKind::ALL.iter().filter(|kind| args.mode.is_none_or(|mode| kind.supports(mode)));
    if args.json {
        let list: Vec<_> = chosen.map(|kind| kind.description()).collect();
        return output::json_lines(&list);
    }
    let width = output::width();
    for kind in chosen {
        let modes: Vec<&str> = kind.modes().iter().map(|mode| mode.name()).collect();
        output::line(&format!("{} ({})", output::heading(kind.name()), modes.join(", ")))?;
        output::line(&output::wrapped(kind.about(), 4, width))?;
    }
    Ok(())
}
