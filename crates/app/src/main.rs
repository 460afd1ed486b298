//! The gswarm command: reads arguments, calls the library, prints.

mod args;
mod commands;
mod core_api;
mod failure;
mod job;
mod output;

use clap::Parser;
use std::panic;
use std::process::ExitCode;

fn main() -> ExitCode {
    install_panic_hook();
    let cli = args::Cli::parse();
    cli.color.apply();
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
