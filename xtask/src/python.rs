//! The Python package: types, lints and tests, in a virtual environment in `target/python`.
//!
//! The library that the tests load is the one that cargo has built for the tests before, so that nothing is built twice.
//! `cargo xtask python --install` goes the way of users instead: `pip install .`, which builds it for release.

use crate::steps::Verdict;
use crate::tools::{capture, cargo, root, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `cargo xtask python [--install]`.
pub fn python(args: &[String]) -> Result<(), String> {
    let verdict = match args {
        [] => library().and_then(|()| test()),
        [flag] if flag == "--install" => installed(),
        _ => return Err("usage: cargo xtask python [--install]".to_owned()),
    };
    match verdict? {
        Verdict::Passed(_) => Ok(()),
        Verdict::Skipped(why) => Err(why),
    }
}

const ENVIRONMENT: &str = "python";

/// What its tests need, which is most of the time that they take where it is not there yet.
pub fn install() -> Result<Verdict, String> {
    let Some(_) = environment(ENVIRONMENT, &[])? else { return Ok(missing()) };
    clients()?;
    Ok(Verdict::Passed(String::new()))
}

/// The library that the package loads, where it loads it.
pub fn library() -> Result<(), String> {
    // With the tests, which are there already: without them crates have fewer features, and all would be built again.
    succeed(&mut cargo(&["build", "--workspace", "--lib", "--tests", "--locked", "--quiet"]))?;
    let library = target().join("debug").join(LIBRARY);
    // Python loads what has this name, whatever made it.
    let module = root().join("python/gswarm/_gswarm.abi3.so");
    // In place, a copy would change under whoever has it loaded.
    let _ = fs::remove_file(&module);
    fs::copy(&library, &module).map_err(|error| format!("{}: {error}", library.display()))?;
    Ok(())
}

/// Every check of the package, with the [`library`] that cargo has built.
pub fn test() -> Result<Verdict, String> {
    let Some(place) = environment(ENVIRONMENT, &[])? else { return crate::skips::step(NO_PYTHON.to_owned()) };
    let bin = place.join("bin");
    succeed(in_root(bin.join("ruff")).args(["check", "python"]))?;
    succeed(in_root(bin.join("ruff")).args(["format", "--check", "--quiet", "python"]))?;
    let mut mypy = in_root(bin.join("mypy"));
    mypy.args(["python/gswarm", "python/tests"]);
    if !capture(in_root(bin.join("python")).args(["-c", "import torch"]))?.0 {
        // The worker is typed by PyTorch's types, which are too large to be fetched for this alone.
        mypy.args(["--exclude", "gswarm/worker/|tests/(test_)?worker_"]);
    }
    succeed(&mut mypy)?;
    let mut pytest = in_root(bin.join("python"));
    pytest.args(["-m", "pytest", "-q", "--ignore", CLIENTS]).env("PYTHONPATH", root().join("python"));
    succeed(crate::skips::collect(&mut pytest))?;
    let mut pytest = in_root(clients()?.join("bin/python"));
    pytest.args(["-m", "pytest", "-q", "-W", "ignore", CLIENTS]).env("PYTHONPATH", root().join("python"));
    succeed(crate::skips::collect(&mut pytest))?;
    Ok(Verdict::Passed(String::new()))
}

/// The package as users install it, in an environment of its own.
fn installed() -> Result<Verdict, String> {
    let Some(place) = environment("python-installed", &["."])? else { return Ok(missing()) };
    let mut pytest = in_root(place.join("bin/python"));
    succeed(pytest.args(["-m", "pytest", "-q", "--ignore", CLIENTS]))?;
    Ok(Verdict::Passed(String::new()))
}

/// The tests with client libraries of the OpenAI API. These want other versions of what they share with the package's tests.
const CLIENTS: &str = "python/tests/test_clients.py";

/// An environment with them.
fn clients() -> Result<PathBuf, String> {
    let place = target().join("clients");
    let python = place.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    }
    let wanted =
        fs::read_to_string(root().join("python/tests/clients.txt")).map_err(|error| error.to_string())?;
    let mark = place.join("requirements.txt");
    if !fs::read_to_string(&mark).is_ok_and(|known| known == wanted) {
        fetch(&python, &["-r", "python/tests/clients.txt"])?;
        fs::write(&mark, wanted).map_err(|error| error.to_string())?;
    }
    Ok(place)
}

/// What cargo calls the library.
const LIBRARY: &str = if cfg!(target_os = "macos") { "lib_gswarm.dylib" } else { "lib_gswarm.so" };

const NO_PYTHON: &str = "there is no Python 3.10 with pip and venv";

fn missing() -> Verdict {
    println!("{NO_PYTHON}: the package is not tested");
    Verdict::Skipped(NO_PYTHON.to_owned())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn in_root(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// An environment with what the tests need, and `extra` beside it; `None` where it cannot be made.
fn environment(name: &str, extra: &[&str]) -> Result<Option<PathBuf>, String> {
    let new_enough = "import sys, venv, ensurepip; assert sys.version_info >= (3, 10)";
    if !capture(Command::new("python3").args(["-c", new_enough])).is_ok_and(|(works, _)| works) {
        return Ok(None);
    }
    let place = target().join(name);
    let python = place.join("bin/python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
    }
    let (works, told) = capture(in_root(python.clone()).arg("xtask/src/requirements.py"))?;
    if !works {
        return Err(format!("pyproject.toml cannot be read: {told}"));
    }
    let mark = place.join("requirements.txt");
    if !extra.is_empty() || !fs::read_to_string(&mark).is_ok_and(|known| known == told) {
        fetch(&python, &told.lines().chain(extra.iter().copied()).collect::<Vec<_>>())?;
        // Half of what is needed would be taken for all of it.
        fs::write(&mark, told).map_err(|error| error.to_string())?;
    }
    Ok(Some(place))
}

fn fetch(python: &Path, packages: &[&str]) -> Result<(), String> {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    succeed(in_root(python.to_path_buf()).args(pip).args(packages))
}
