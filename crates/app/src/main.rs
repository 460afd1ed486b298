//! The gswarm command: reads arguments, calls the library, prints.

mod args;
mod beliefs;
mod commands;
mod failure;
mod job;
mod live;
mod measured;
mod output;

use clap::Parser;
use std::io::Write;
use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    install_panic_hook();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return without_command(&answer),
    };
    cli.color.apply();
    output::files::clean_up_when_interrupted();
    let result = panic::catch_unwind(|| commands::dispatch(cli));
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            output::error(&failure.to_string());
            failure.code.into()
        }
        Err(_) => failure::Code::Internal.into(),
    }
}

/// Help, the version, or what is wrong with the command line.
fn without_command(answer: &clap::Error) -> ExitCode {
    let printed = answer.print().and_then(|()| std::io::stdout().flush());
    let code = answer.exit_code() as u8;
    match output::settle(printed) {
        Err(failure) if code == 0 => {
            output::error(&failure.to_string());
            failure.code.into()
        }
        _ => ExitCode::from(code),
    }
}

/// A panic is a fault of this program: say so in a line, and leave the details to those who ask for them.
fn install_panic_hook() {
    let detailed = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if detailed {
            default_hook(info);
        }
        let place = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        let what = info.payload_as_str().unwrap_or("no message");
        output::error(&format!(
            "internal error{place}: {what}\n  \
             hint: this is a fault of gswarm, not of your input; please report it with the command that you ran"
        ));
    }));
}
