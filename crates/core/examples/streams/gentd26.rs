//! The trace of a production service of image generation as a problem: a checkpoint is a model, a request is one node.
//!
//! Only requests that succeeded; time runs 20 times as fast; execution times are those recorded. What loading each
//! checkpoint takes is drawn, seeded, from the load times that were measured there, and is paid on every change of model.

use gswarm_core::cost::SwitchRule;
use gswarm_core::input::{ClusterSpec, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use gswarm_core::{ModelId, Span, WorkflowId};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much faster than recorded requests arrive.
const COMPRESSION: i64 = 20;

/// Where the trace is, if it is there.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gentd26")
}

/// The trace as a scenario; `None` where the files are not there.
pub fn scenario(seed: u64) -> Option<Scenario> {
    let requests = std::fs::read_to_string(folder().join("requests_to_2024-11-28.csv")).ok()?;
    let loads = std::fs::read_to_string(folder().join("basemodel_load_ms.csv")).ok()?;
    let load_seconds: Vec<f64> = loads
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1)?.parse().ok())
        .map(|ms: f64| ms / 1e3)
        .collect();
    let mut made = Scenario {
        // No GB to move: a change of model costs the load time of the new one, and nothing else.
        cluster: ClusterSpec { switch_cost: Some(SwitchRule::LoadTime), ..ClusterSpec::default() },
        ..Scenario::default()
    };
    let (mut draws, mut numbers) = (ChaCha8Rng::seed_from_u64(seed), BTreeMap::new());
    let mut first = None;
    for row in requests.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        if fields[2] != "SUCCEED" {
            continue;
        }
        let moment: jiff::civil::DateTime = fields[0].parse().expect("a moment");
        let seconds = moment.to_zoned(jiff::tz::TimeZone::UTC).expect("a date").timestamp().as_second();
        let start = *first.get_or_insert(seconds);
        let number = *numbers.entry(fields[9].to_owned()).or_insert_with(|| {
            let load = load_seconds[draws.random_range(0..load_seconds.len())];
            add_model(&mut made, fields[9], load);
            made.models.len() - 1
        });
        made.requests.push(RequestSpec {
            id: format!("r{}", made.requests.len()),
            timestamp: Some((seconds - start) * 1_000_000 / COMPRESSION),
            workflow: WorkflowId::from(number),
            times: vec![Some(Span::from_seconds(fields[3].parse().expect("seconds")))],
            priority: 0,
            deadline: None,
            input_data: Default::default(),
            node_configs: Default::default(),
            metadata: Default::default(),
        });
    }
    Some(made)
}

fn add_model(made: &mut Scenario, name: &str, load: f64) {
    let node = NodeSpec {
        id: "paint".into(),
        model: ModelId::from(made.models.len()),
        inputs: vec![],
        outputs: vec![],
        config_options: vec![],
    };
    made.models.push(ModelSpec {
        id: name.into(),
        name: name.into(),
        memory_gb: 1e-9,
        gpus_required: 1,
        load_time_seconds: load,
        ..ModelSpec::default()
    });
    made.workflows.push(WorkflowSpec {
        id: name.into(),
        name: name.into(),
        nodes: vec![node],
        edges: vec![],
    });
}
