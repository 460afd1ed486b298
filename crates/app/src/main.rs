//! The gswarm command.

use std::process::ExitCode;

fn main() -> ExitCode {
    gswarm_app::main(std::env::args_os()).into()
}
