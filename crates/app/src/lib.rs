//! The gswarm command as a library: reads arguments, calls the crates below, prints. The binary and the Python package's
//! command are both this.

mod args;
mod beliefs;
mod commands;
mod job;
mod output;
mod policy_flags;

use clap::Parser;
use gswarm_run::failure;
use std::ffi::OsString;
use std::io::Write;
use std::panic;

/// Runs the command with these arguments, the program's name first, and gives its exit code. Handlers of panics, Ctrl-C and
/// requests to terminate are those of a command from here on: this is for programs that end with it.
pub fn main(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|first| first == RENDERER) {
        return gswarm_infer::render_chats().map_or(failure::FailureKind::Internal as u8, |()| 0);
    }
    gswarm_infer::render_chats_with(renderer());
    install_panic_hook();
    let cli = match commands::cli::Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(answer) => return without_command(&answer),
    };
    cli.color.apply();
    output::interrupt::clean_up_when_interrupted();
    let result = panic::catch_unwind(|| commands::dispatch(cli));
    match result {
        Ok(Ok(())) => 0,
        Ok(Err(failure)) => {
            output::error(&failure.to_string());
            failure.code as u8
        }
        Err(_) => failure::FailureKind::Internal as u8,
    }
}

/// The argument with which this program renders chats by a model's template, for itself in another process.
const RENDERER: &str = "render-chats";

/// How this program is started for that. Within Python it is Python that is started.
fn renderer() -> Vec<OsString> {
    let is_python = |program: &std::path::Path| {
        program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
    };
    match std::env::current_exe() {
        Ok(program) if is_python(&program) => {
            let program = std::env::var_os("GSWARM_PYTHON").unwrap_or(program.into());
            [program, "-m".into(), "gswarm".into(), RENDERER.into()].into()
        }
        Ok(program) => [program.into(), RENDERER.into()].into(),
        Err(_) => Vec::new(),
    }
}

/// Help, the version, or what is wrong with the command line.
fn without_command(answer: &clap::Error) -> u8 {
    let printed = answer.print().and_then(|()| std::io::stdout().flush());
    let code = answer.exit_code() as u8;
    match output::settle(printed) {
        Err(failure) if code == 0 => {
            output::error(&failure.to_string());
            failure.code as u8
        }
        _ => code,
    }
}

/// A panic is a bug: report it in one line, with details on request.
fn install_panic_hook() {
    let detailed = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if gswarm_infer::is_panic_expected() {
            return;
        }
        if detailed {
            default_hook(info);
        }
        let place = info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        let what = info.payload_as_str().unwrap_or("no message");
        output::error(&format!(
            "internal error{place}: {what}\n  \
             hint: this is a bug in gswarm, not in your input; please report it with the command that you ran"
        ));
    }));
}
