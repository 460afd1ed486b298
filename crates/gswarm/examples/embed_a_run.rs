//! A run inside a program: simulate it, plan it, run it live on emulated servers.
//!
//! `cargo run -p gswarm --example embed_a_run -- [run.yaml]`

use gswarm::core::input::Source;
use gswarm::core::log_file::write_json;
use gswarm::prelude::*;
use gswarm::run::{LiveSpec, OutputSpec, PlanOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn specification(file: Option<&Path>) -> Result<RunSpec, Failure> {
    let Some(file) = file else {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/text_to_image");
        let (config, requests) = (examples.join("config.yaml"), examples.join("requests.yaml"));
        return Ok(RunSpec { config, requests, ..RunSpec::default() });
    };
    let bytes = gswarm::run::files::read(file)?;
    let name = file.display().to_string();
    let folder = file.parent().unwrap_or(Path::new(""));
    let read = RunSpec::read(Source { name: &name, bytes: &bytes }, folder);
    read.map(|(spec, _)| spec).map_err(Failure::faults)
}

/// The log of a simulated run, as `gswarm run` writes it.
pub fn log_of(spec: RunSpec) -> Result<Vec<u8>, Failure> {
    let run = gswarm::simulate(spec, &mut Silent)?;
    let mut bytes = Vec::new();
    write_json(&run.prepared.instance, &run.outcome.log, &run.outcome.summary, &mut bytes)
        .map_err(|error| Failure::input(error.to_string()))?;
    Ok(bytes)
}

/// Runs the specification in the file that is named, or an example.
pub fn main() -> Result<(), Failure> {
    let file = std::env::args_os().nth(1).map(PathBuf::from);
    let spec = specification(file.as_deref().filter(|file| file.extension().is_some()))?;
    let simulated = gswarm::simulate(spec.clone(), &mut Silent)?;
    println!("simulated: {:.1} s", simulated.outcome.summary.makespan.seconds());

    let options = PlanOptions {
        budget: Duration::from_secs(60),
        rounds: 4,
        gap: 0.0,
        objective: gswarm::core::plan::PlanObjective::parse("makespan").map_err(Failure::input)?,
    };
    let planned = simulated.prepared.plan(&options, &mut Silent).planned;
    println!(
        "planned:   {:.1} s, at most {:.1}% above the best",
        planned.makespan.seconds(),
        planned.gap() * 100.0
    );

    let folder = std::env::temp_dir().join(format!("gswarm-embed-a-run-{}", std::process::id()));
    let servers = folder.join("servers.yaml");
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&servers, "backends: [{kind: emulated, speed: 2000}]\n"));
    written.map_err(|error| Failure::file("write", &servers, &error))?;
    let live = RunSpec {
        live: Some(LiveSpec { backends: Some(servers), ..LiveSpec::default() }),
        output: OutputSpec { folder: folder.join("live"), ..OutputSpec::default() },
        ..spec
    };
    let ended = gswarm::run_live(live, &mut Silent)?;
    println!("live:      {:.1} s by its servers' clock", ended.outcome.summary.makespan.seconds());
    let _ = std::fs::remove_dir_all(folder);
    ended.verdict()
}
