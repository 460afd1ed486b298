//! `gswarm man`: manual pages, for packages.

use super::cli::Cli;
use crate::failure::Failure;
use crate::output;
use clap::{Args, CommandFactory};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  gswarm man --out man                         man/gswarm.1, man/gswarm-run.1, ...";

/// Arguments of `gswarm man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Folder for the pages
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

/// Writes a page for each command.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let failed = |error| Failure::file("write to", &args.out, &error);
    std::fs::create_dir_all(&args.out).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.out).map_err(failed)?;
    output::line(&format!("Wrote the pages into {}", args.out.display()))
}
