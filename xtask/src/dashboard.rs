//! The dashboard's page: types, whether what is committed is what its sources give, and its tests in a real browser.

use crate::steps::Verdict;
use crate::tools::{capture, root, succeed};
use std::path::Path;
use std::process::Command;

const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Chromium and Node, from Debian's packages where they are missing and may be installed.
pub fn install() -> Result<Verdict, String> {
    let mut missing = Vec::new();
    if browser().is_none() {
        missing.push("chromium");
    }
    if !has_npm() {
        missing.extend(["nodejs", "npm"]);
    }
    if missing.is_empty() {
        println!("chromium, node and npm are there");
        return Ok(Verdict::Passed(String::new()));
    }
    let names = missing.join(", ");
    // Only root may install packages, and only Debian and its kin call them so.
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        let note = format!("{names} not found; tests that need them are skipped");
        println!("{note}");
        return Ok(Verdict::Skipped(note));
    }
    let quiet = ("DEBIAN_FRONTEND", "noninteractive");
    let updated = succeed(Command::new("apt-get").args(["update", "-qq"]).env(quiet.0, quiet.1));
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&missing).env(quiet.0, quiet.1);
    match updated.and_then(|()| succeed(&mut install)) {
        Ok(()) => Ok(Verdict::Passed(format!("installed {names}"))),
        Err(why) => Ok(Verdict::Skipped(format!(
            "{names} cannot be installed ({why}); tests that need them are skipped"
        ))),
    }
}

/// `cargo xtask dashboard --types`: writes the page's types anew from the server's OpenAPI document. A test of `gswarm-serve`, which every
/// run of the tests has, fails where they are stale.
pub fn dashboard(args: &[String]) -> Result<(), String> {
    if args != ["--types"] {
        return Err("write `cargo xtask dashboard --types`".to_owned());
    }
    let test = ["test", "--package", "gswarm-serve", "--test", "server", "--", "dashboard_types"];
    succeed(Command::new("cargo").args(test).current_dir(root()).env("GSWARM_WRITE_TYPES", "1"))
}

/// The page's checks. The command that they start is the one that the tests before have built.
pub fn test() -> Result<Verdict, String> {
    if !has_npm() {
        return crate::skips::step("there is no npm".to_owned());
    }
    npm(&["ci", "--no-audit", "--no-fund", "--loglevel=error"])?;
    npm(&["run", "--silent", "check"])?;
    npm(&["run", "--silent", "compare"])?;
    npm(&["run", "--silent", "test"])?;
    match browser() {
        Some(_) => Ok(Verdict::Passed(String::new())),
        None => crate::skips::step("there is no browser: the page was built, and not opened".to_owned()),
    }
}

fn npm(args: &[&str]) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let mut command = Command::new("npm");
    command.args(args).current_dir(root().join("web")).env("GSWARM_BIN", target.join("debug/gswarm"));
    if let Some(browser) = browser() {
        command.env("GSWARM_BROWSER", browser);
    }
    succeed(crate::skips::collect(&mut command))
}

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|path| Path::new(path).is_file())
}

fn has_npm() -> bool {
    capture(Command::new("npm").arg("--version")).is_ok_and(|(works, _)| works)
}

fn is_root() -> bool {
    capture(Command::new("id").arg("-u")).is_ok_and(|(_, told)| told.trim() == "0")
}
