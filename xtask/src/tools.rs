//! Programs that the steps call, and those among them that have to be installed first.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that cargo can install.
pub struct Tool {
    /// Its name in the registry.
    pub package: &'static str,
    /// The version that is installed where there is none.
    pub version: &'static str,
    /// How cargo calls it.
    pub command: &'static str,
}

/// Everything that the tests need beyond Rust itself.
pub const TOOLS: &[Tool] = &[
    Tool { package: "cargo-nextest", version: "0.9.151", command: "nextest" },
    Tool { package: "cargo-deny", version: "0.20.2", command: "deny" },
];

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo, in the repository's root.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// The command `gswarm`: the one that the variable `GSWARM_PROGRAM` names, or built now.
pub fn program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("GSWARM_PROGRAM") {
        return std::path::absolute(program).map_err(|error| error.to_string());
    }
    succeed(&mut cargo(&["build", "--locked", "-p", "gswarm-cli"]))?;
    Ok(root().join("target/debug/gswarm"))
}

/// Runs a command that has to succeed, and shows it first.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    show(command);
    let status = command.status().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
}

/// As [`succeed`], and gives back what it wrote to standard error, which is shown as it comes.
pub fn succeed_and_tell(command: &mut Command) -> Result<String, String> {
    show(command);
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let mut told = String::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            eprintln!("{line}");
            told.push_str(&line);
            told.push('\n');
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(told) } else { Err(format!("it ended with {status}")) }
}

/// Whether it succeeded, and all that it wrote; nothing is shown.
pub fn capture(command: &mut Command) -> Result<(bool, String), String> {
    let (mut out, mut text) = (Vec::new(), String::new());
    let done = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
    out.extend_from_slice(&done.stdout);
    out.extend_from_slice(&done.stderr);
    out.as_slice().read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok((done.status.success(), text))
}

/// Installs the tools that are missing, by name.
pub fn install() -> Result<String, String> {
    let mut installed = Vec::new();
    for tool in TOOLS {
        if capture(&mut cargo(&[tool.command, "--version"]))?.0 {
            println!("{} is there", tool.package);
            continue;
        }
        println!("{} is missing: installing version {} (a few minutes)", tool.package, tool.version);
        // Built without optimisation: it takes half the time, and these programs wait for others most of theirs.
        let args = ["install", "--locked", "--debug", tool.package, "--version", tool.version];
        let mut command = cargo(&args);
        command.env("CARGO_PROFILE_DEV_DEBUG", "0");
        succeed(&mut command).map_err(|error| {
            format!(
                "{error}; {} could not be installed. It comes from the crate registry: check the network, or install it \
                 by hand with `cargo install --locked {}`",
                tool.package, tool.package
            )
        })?;
        installed.push(tool.package);
    }
    Ok(if installed.is_empty() { String::new() } else { format!("installed {}", installed.join(" and ")) })
}

/// `always` where people watch.
pub fn colour() -> &'static str {
    if std::io::stderr().is_terminal() { "always" } else { "never" }
}

fn show(command: &Command) {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    println!("$ {program} {}", args.join(" "));
}
