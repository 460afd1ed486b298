//! GenTD26: a production service of image generation. A checkpoint is a model, a request is one node; what loading takes is
//! drawn from the load times that were measured there, and is paid on every change of model.

use super::{arrival, cut, moment};
use crate::draft::{Draft, plain_request, shown_number, span};
use crate::{File, ImportOptions, table};
use gswarm_core::cost::SwitchRule;
use gswarm_core::input::document::{Faults, Path, without_mark};
use gswarm_core::input::{
    ClusterSpec, Code, Diagnostic, ModelSpec, NodeSpec, Scenario, Source, WorkflowSpec,
};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{ModelId, WorkflowId};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// What loading takes where no file of load times is given: the median of those that were published.
const USUAL_LOAD_SECONDS: f64 = 25.0;

/// One request that succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedGeneration {
    /// Microseconds since 1970.
    pub at: i64,
    /// How long it took.
    pub seconds: f64,
    /// The model.
    pub checkpoint: String,
    /// Steps and number of images, where they are given.
    pub config: Vec<(&'static str, f64)>,
}

/// The requests of a file that succeeded, and how many did not.
pub fn generations(source: Source<'_>) -> Result<(Vec<TracedGeneration>, usize), Vec<Diagnostic>> {
    alone(source, |file| {
        let mut found = (Vec::new(), 0);
        read_generations(file, &mut found);
        found
    })
}

/// The load times of a file, in seconds.
pub fn loads(source: Source<'_>) -> Result<Vec<f64>, Vec<Diagnostic>> {
    alone(source, |file| {
        let mut found = Vec::new();
        read_loads(file, &mut found);
        found
    })
}

fn alone<T>(source: Source<'_>, read: impl FnOnce(&mut File<'_>) -> T) -> Result<T, Vec<Diagnostic>> {
    let mut file = File { source, faults: Faults::default() };
    let found = read(&mut file);
    if !file.faults.has_errors() {
        return Ok(found);
    }
    let mut diagnostics = Vec::new();
    file.faults.locate(source.name, without_mark(source.bytes), &mut diagnostics);
    Err(diagnostics)
}

fn read_generations(file: &mut File<'_>, found: &mut (Vec<TracedGeneration>, usize)) {
    let Some(mut rows) = table::open(file) else { return };
    let names = ["gmt_create", "predict_status", "exec_time_seconds", "checkpoint_model_version_id"];
    let [Some(created), Some(status), Some(seconds), Some(checkpoint)] =
        names.map(|name| rows.column(file, name))
    else {
        return;
    };
    let options = [("num_inference_steps", "steps"), ("num_images_per_prompt", "images")];
    let options = options.map(|(column, name)| (rows.find(column), name));
    while let Some(row) = rows.next(file) {
        let at = moment(&row, file, created);
        if row.cell(status) != "SUCCEED" {
            found.1 += 1;
            continue;
        }
        if row.cell(checkpoint).is_empty() {
            row.report(file, checkpoint, Code::Missing, "is missing");
        }
        let took = row.number(file, seconds, false, MAX_SECONDS);
        if let (Some(at), Some(seconds)) = (at, took) {
            let config = options.iter().filter_map(|&(column, name)| {
                row.cell(column?)
                    .parse::<f64>()
                    .ok()
                    .filter(|value| value.is_finite())
                    .map(|value| (name, value))
            });
            let config = config.collect();
            found.0.push(TracedGeneration {
                at,
                seconds,
                checkpoint: row.cell(checkpoint).to_owned(),
                config,
            });
        }
    }
}

fn read_loads(file: &mut File<'_>, found: &mut Vec<f64>) {
    let Some(mut rows) = table::open(file) else { return };
    let Some(value) = rows.column(file, "value") else { return };
    while let Some(row) = rows.next(file) {
        found
            .extend(row.number(file, value, false, MAX_SECONDS * 1e3).map(|milliseconds| milliseconds / 1e3));
    }
}

/// The requests as a problem. The load time of each checkpoint, in order of appearance, is the one of `loads` that `draw`
/// picks among so many.
pub fn scenario(
    generations: &[TracedGeneration],
    loads: &[f64],
    compress: f64,
    draw: &mut dyn FnMut(usize) -> usize,
) -> Scenario {
    let mut made = Scenario {
        // No GB to move: a change of model costs the load time of the new one, and nothing else.
        cluster: ClusterSpec { switch_cost: Some(SwitchRule::LoadTime), ..ClusterSpec::default() },
        ..Scenario::default()
    };
    let options = ImportOptions { compress, ..ImportOptions::default() };
    let first = generations.first().map_or(0, |one| one.at);
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    for one in generations {
        let number = *numbers.entry(&one.checkpoint).or_insert_with(|| {
            let load = loads.get(draw(loads.len().max(1))).copied().unwrap_or(USUAL_LOAD_SECONDS);
            add_model(&mut made, &one.checkpoint, load);
            made.models.len() - 1
        });
        let mut request = plain_request(
            format!("r{}", made.requests.len()),
            arrival(one.at, first, &options),
            WorkflowId::from(number),
            vec![Some(span(one.seconds))],
        );
        if !one.config.is_empty() {
            let config: Map<String, Value> =
                one.config.iter().map(|&(name, value)| (name.to_owned(), shown_number(value))).collect();
            request.node_configs.insert("paint".to_owned(), Value::Object(config));
        }
        made.requests.push(request);
    }
    made
}

fn add_model(made: &mut Scenario, name: &str, load: f64) {
    let node = NodeSpec {
        config_options: vec!["steps".into(), "images".into()],
        ..NodeSpec::new("paint", ModelId::from(made.models.len()))
    };
    made.models.push(ModelSpec {
        id: name.into(),
        name: name.into(),
        memory_gb: 1e-9,
        gpus_required: 1,
        load_time_seconds: load,
        kind: Some("image_generation".into()),
        ..ModelSpec::default()
    });
    made.workflows.push(WorkflowSpec {
        id: name.into(),
        name: name.into(),
        nodes: vec![node],
        edges: vec![],
    });
}

/// Reads the files, each of which is one of requests or one of load times.
pub(crate) fn read(files: &mut [File<'_>], options: &ImportOptions, draft: &mut Draft) {
    let (mut found, mut loads) = ((Vec::new(), 0), Vec::new());
    for file in files.iter_mut() {
        // A file of load times has moments and values, and perhaps what was measured; one of requests says how each ended.
        let first = without_mark(file.source.bytes).split(|&byte| byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first).to_ascii_lowercase();
        let has = |name: &str| first.split(',').any(|column| column.trim().trim_matches('"') == name);
        if has("value") && !has("predict_status") {
            read_loads(file, &mut loads);
        } else {
            read_generations(file, &mut found);
        }
    }
    let Some(file) = files.first_mut() else { return };
    if options.workflow.is_some() {
        let message = format_args!("--workflow does not apply here: these requests name their models");
        file.faults.add(Code::NoSuchPlace, 0, &Path::root(), message);
    }
    if files.iter().any(|file| file.faults.has_errors()) {
        return;
    }
    let (rows, failed) = found;
    let Some(rows) = cut(&mut files[0], rows, |row| row.at, true, options, draft) else { return };
    let notes = &mut draft.notes;
    if failed > 0 {
        notes.say(format!("Omitted because they failed: {failed}"));
    }
    notes
        .say("A checkpoint is a model of one GPU, a request is one node; execution times are those recorded");
    notes.say("Sizes of checkpoints are unknown and count as zero: a switch costs the load time of the new model (switch_cost: load_time)");
    if loads.is_empty() {
        notes.say(format!(
            "No file of load times was given: every checkpoint loads in {USUAL_LOAD_SECONDS} s"
        ));
    } else {
        notes.say(format!(
            "The load time of each checkpoint is drawn from {} measured ones (seed {})",
            loads.len(),
            options.seed
        ));
    }
    let mut draws = ChaCha8Rng::seed_from_u64(options.seed);
    draft.scenario = scenario(&rows, &loads, options.compress, &mut |count| draws.random_range(0..count));
    draft.fill_mean_times();
}
