//! `gswarm completions`: a script that teaches a shell the command line.

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  gswarm completions bash > ~/.local/share/bash-completion/completions/gswarm
  gswarm completions zsh > ~/.zfunc/_gswarm
  gswarm completions fish > ~/.config/fish/completions/gswarm.fish";

/// Arguments of `gswarm completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gswarm", &mut script);
    output::stream(|out| out.write_all(&script))
}
