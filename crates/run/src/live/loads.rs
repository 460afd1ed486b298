//! Times of loads and unloads on real servers, one line each as they happen, as a basis for predictions.

use crate::files;
use gswarm_core::Instance;
use gswarm_exec::backend::{LoadRecorder, LoadTime};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// The file's name in the folder of a run.
pub const LOADS: &str = "loads.jsonl";

/// A line of the file.
#[derive(Serialize)]
struct LoadLine<'a> {
    action: &'static str,
    model: &'a str,
    gpus: Vec<u32>,
    tier: &'static str,
    seconds: f64,
}

/// Writes them to the folder of a run, after those of the process that was interrupted.
pub fn record(folder: &Path, instance: &Instance) -> LoadRecorder {
    let path = folder.join(LOADS);
    let names: Vec<String> = instance.models.iter().map(|model| model.name.clone()).collect();
    Arc::new(move |timed: &LoadTime| {
        let line = LoadLine {
            action: if timed.load { "load" } else { "unload" },
            model: &names[timed.model.index()],
            gpus: timed.gpus.iter().map(|gpu| gpu.0).collect(),
            tier: timed.tier.name(),
            seconds: timed.seconds,
        };
        // A measurement that cannot be kept is no reason to end a run.
        if let (Ok(mut file), Ok(line)) = (files::to_be_added_to(&path), serde_json::to_string(&line)) {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    })
}
