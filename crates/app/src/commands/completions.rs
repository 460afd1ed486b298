//! `gswarm completions`: a completion script for a shell.

use super::cli::Cli;
use crate::failure::Failure;
use crate::output;
use clap::{Args, Command, CommandFactory};
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
    let mut shown = visible(&Cli::command()).version(env!("CARGO_PKG_VERSION"));
    clap_complete::generate(args.shell, &mut shown, "gswarm", &mut script);
    output::stream(|out| out.write_all(&script))
}

/// The same without hidden commands, which clap_complete would offer.
fn visible(command: &Command) -> Command {
    // clap keeps names for the length of the program, which ends with the script.
    let name: &'static str = command.get_name().to_owned().leak();
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set()).map(visible);
    Command::new(name)
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().cloned())
        .subcommands(shown)
}
