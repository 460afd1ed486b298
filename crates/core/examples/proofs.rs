//! How far the exact search comes: random problems of a given size, and which of them it proves.
//!
//! ```text
//! cargo run --release -p gswarm-core --example proofs -- [NODES [SEEDS [ROUNDS [FIRST]]]]
//! ```
//!
//! Problems are chains and diamonds over two to four models of one, two or four GPUs, on two to four GPUs, drawn from a seed
//! alone. A round is 20,000 states. Prints a line for each problem and the shares at the end; processor time is that of the
//! whole process, where the system tells (Linux).

use gswarm_core::Instance;
use gswarm_core::input::{Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::plan::{SearchLimits, improve};
use rand::prelude::*;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("numbers: nodes, seeds, rounds, first seed"))
        .collect();
    let given = |place: usize, otherwise: u64| arguments.get(place).copied().unwrap_or(otherwise);
    let (nodes, seeds, rounds) = (given(0, 20), given(1, 10), given(2, 500));
    let mut proved = 0;
    for seed in given(3, 0)..given(3, 0) + seeds {
        let instance = drawn(nodes as usize, seed);
        let before = processor_seconds();
        let limits = SearchLimits { rounds, seed: 3, ..SearchLimits::default() };
        let planned = improve(&instance, &limits, &mut |_| {});
        let used = processor_seconds()
            .zip(before)
            .map_or("?".to_owned(), |(now, then)| format!("{:.1}", now - then));
        println!(
            "{nodes} nodes, seed {seed}: {} GPUs, {} models, {} requests: {:.3} s by {}, gap {:.2}%, {}, {used} s of CPU",
            instance.cluster.gpus,
            instance.models.len(),
            instance.requests.len(),
            planned.makespan.seconds(),
            planned.found_by,
            100.0 * planned.gap(),
            planned.proof.map_or("not proved".to_owned(), |proof| format!("proved by {proof:?}")),
        );
        proved += u64::from(planned.proof.is_some());
    }
    println!("{nodes} nodes: {proved} of {seeds} proved");
}

/// A problem of just so many nodes.
fn drawn(nodes: usize, seed: u64) -> Instance {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ (nodes as u64) << 32);
    let gpus: usize = rng.random_range(2..=4);
    let models: usize = rng.random_range(2..=4);
    let mut config = json!({"models": {}, "workflows": {}, "cluster": {"gpus": gpus}});
    for number in 0..models {
        let widest = [1, 2, 2, 4][gpus - 1];
        let width = if number == 0 { 1 } else { widest.min([1, 1, 2, 4][rng.random_range(0..4)]) };
        let memory: f64 =
            1.6 * if number == 0 { 1.0 } else { [1.0, 4.0, 9.0, 16.0, 25.0, 40.0][rng.random_range(0..6)] };
        let load = 2.0 + (memory * 0.8).floor();
        let name = format!("m{number}");
        config["models"][&name] =
            json!({"name": name, "memory_gb": memory, "gpus_required": width, "load_time_seconds": load});
    }
    // The last two are chains of what the others leave over.
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    let mut listed: Vec<Value> = Vec::new();
    let mut left = nodes;
    while left > 0 {
        let kind = if shapes.len() < 2 { shapes.len() } else { rng.random_range(0..2) };
        let diamond = left >= 4 && if shapes.len() < 2 { rng.random() } else { shapes[kind].len() == 5 };
        let workflow = match shapes.get(kind) {
            Some(shape) if shape.len().min(4) <= left && shapes.len() >= 2 => kind,
            _ => {
                let length = if diamond { 4 } else { rng.random_range(1..=4).min(left) };
                let mut shape: Vec<usize> = (0..length).map(|_| rng.random_range(0..models)).collect();
                // Diamonds carry a mark that chains of four do not.
                shape.extend(diamond.then_some(0));
                shapes.push(shape);
                shapes.len() - 1
            }
        };
        let shape = &shapes[workflow];
        let length = shape.len().min(4);
        let name = format!("w{workflow}");
        let edges = if shape.len() == 5 {
            vec![(0, 1), (0, 2), (1, 3), (2, 3)]
        } else {
            (1..length).map(|to| (to - 1, to)).collect()
        };
        config["workflows"][&name] = json!({
            "name": name,
            "nodes": shape[..length].iter().enumerate().map(|(place, model)| json!({"id": format!("n{place}"), "model": format!("m{model}")})).collect::<Vec<Value>>(),
            "edges": edges.iter().map(|(from, to)| json!({"from": format!("n{from}"), "to": format!("n{to}")})).collect::<Vec<Value>>(),
        });
        let times: serde_json::Map<String, Value> = (0..length)
            .map(|place| (format!("n{place}"), json!(f64::from(rng.random_range(1..=30)) / 2.0)))
            .collect();
        listed.push(json!({
            "request_id": format!("r{:02}", listed.len()), "timestamp": 0, "workflow_id": name, "node_execution_times": times,
        }));
        left -= length;
    }
    read(&config, &json!({"requests": listed}))
}

fn read(config: &Value, requests: &Value) -> Instance {
    let (config, requests) = (config.to_string(), requests.to_string());
    let config = Source { name: "config", bytes: config.as_bytes() };
    let requests = Source { name: "requests", bytes: requests.as_bytes() };
    let scenario = read_scenario(config, requests, Mode::Offline).scenario.expect("valid input");
    let cluster = Cluster::from_spec(&scenario.cluster).expect("a number of GPUs");
    Instance::build(&scenario, cluster, Mode::Offline).expect("feasible")
}

/// What this process has used, in user and system mode.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields after the name, which may contain blanks: user and system time are the 12th and 13th, in hundredths.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}
