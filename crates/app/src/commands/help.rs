//! `gswarm help`: the help of a command, or what a code means.

use super::cli::Cli;
use crate::failure::Failure;
use crate::output;
use clap::{Args, Command, CommandFactory};
use gswarm_core::check::ViolationCode;
use gswarm_core::input::Code;

const EXAMPLES: &str = "\
Examples:
  gswarm help run                              the flags of a command
  gswarm help E104                             what a message with this code means, and what to do
  gswarm help C-WORK-LITTLE                    the same for a violation that `gswarm check` found
  gswarm help codes                            every code in a line";

/// Arguments of `gswarm help`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HelpArgs {
    /// A command, such as `run` or `models init`; a code, such as E104; or `codes` for a list
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

/// Prints the help.
pub fn help(args: &HelpArgs) -> Result<(), Failure> {
    if let [topic] = &args.topic[..] {
        if topic == "codes" {
            return output::print(&codes());
        }
        if let Some(text) = explanation(topic) {
            return output::print(&text);
        }
    }
    let mut command = Cli::command();
    command.build();
    let found = args.topic.iter().try_fold(&mut command, |command, name| find(command, name));
    match found {
        Some(command) => output::print(&command.render_long_help().ansi().to_string()),
        None => Err(Failure::input(format!("no command and no code is called `{}`", args.topic.join(" ")))
            .hint("`gswarm --help` lists the commands, `gswarm help codes` the codes")),
    }
}

fn find<'c>(command: &'c mut Command, name: &str) -> Option<&'c mut Command> {
    command.find_subcommand_mut(name)
}

/// The explanation of a code.
fn explanation(topic: &str) -> Option<String> {
    let is_named = |code: &str| code.eq_ignore_ascii_case(topic);
    if let Some(code) = Code::ALL.iter().find(|code| is_named(code.code())) {
        let text = output::wrapped(code.help(), 0, output::width());
        let heading = output::heading(&format!("{code}: {}", code.title()));
        return Some(format!(
            "{heading}\n\n{text}\n\ndocs/errors.md shows an example of a file with this fault.\n"
        ));
    }
    let code = ViolationCode::ALL.iter().find(|code| is_named(code.code()))?;
    let heading = output::heading(&format!("{}: {}", code.code(), code.title()));
    Some(format!("{heading}\n\n`gswarm check` found this in a log. docs/checks.md describes the rule.\n"))
}

/// Every code in a line.
fn codes() -> String {
    let input = Code::ALL.iter().map(|code| (code.code(), code.title()));
    let log = ViolationCode::ALL.iter().map(|code| (code.code(), code.title()));
    input.chain(log).map(|(code, title)| format!("{code:<18} {title}\n")).collect()
}
