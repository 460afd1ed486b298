//! How fast input files are read: `cargo run --release -p gswarm-core --example read_speed [config requests]`.

use gswarm_core::input::{Reading, Source, read_scenario, render};
use gswarm_core::instance::Mode;
use std::fmt::Write;
use std::time::Instant;

const CONFIG: &str = r#"{"models": {"m": {"memory_gb": 14, "gpus_required": 1, "load_time_seconds": 10}},
 "workflows": {"w": {"nodes": [{"id": "write", "model": "m"}, {"id": "paint", "model": "m"}, {"id": "check", "model": "m"}],
 "edges": [{"from": "write", "to": "paint"}, {"from": "paint", "to": "check"}]}}}"#;

fn request(number: usize) -> String {
    format!(
        "{{\"request_id\": \"req_{number:07}\", \"timestamp\": \"2025-06-25T04:25:59.{:06}\", \"workflow_id\": \"w\", \
         \"input_data\": {{\"user_prompt\": \"Sample prompt for request {number}\"}}, \
         \"node_configs\": {{\"paint\": {{\"width\": 768, \"height\": 1024}}}}, \
         \"node_execution_times\": {{\"write\": 12.32, \"paint\": 1.3387708627483874, \"check\": {}.5}}}}",
        number % 1_000_000,
        number % 60 + 1
    )
}

fn yaml_request(number: usize) -> String {
    format!(
        "- request_id: req_{number:07}\n  timestamp: '2025-06-25T04:25:59.{:06}'\n  workflow_id: w\n  input_data:\n    \
         user_prompt: Sample prompt for request {number}\n  node_configs:\n    paint:\n      width: 768\n      \
         height: 1024\n  node_execution_times:\n    write: 12.32\n    paint: 1.3387708627483874\n    check: {}.5\n",
        number % 1_000_000,
        number % 60 + 1
    )
}

/// A workflow that is a chain of `nodes`.
fn chain(nodes: usize) -> String {
    let ids = (0..nodes).map(|node| format!("{{\"id\": \"n{node}\", \"model\": \"m\"}}"));
    let edges = (1..nodes).map(|node| format!("{{\"from\": \"n{}\", \"to\": \"n{node}\"}}", node - 1));
    let join = |items: Vec<String>| items.join(",\n");
    format!(
        "{{\"models\": {{\"m\": {{\"memory_gb\": 14, \"gpus_required\": 1, \"load_time_seconds\": 10, \
         \"inference_time_mean\": 2}}}},\n\"workflows\": {{\"w\": {{\"nodes\": [{}],\n\"edges\": [{}]}}}}}}",
        join(ids.collect()),
        join(edges.collect())
    )
}

fn measure(what: &str, config: &[u8], requests: &[u8]) -> Reading {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..5 {
        let start = Instant::now();
        let config = Source { name: "config", bytes: config };
        let reading = read_scenario(config, Source { name: "requests", bytes: requests }, Mode::Online);
        best = best.min(start.elapsed().as_secs_f64());
        last = Some(reading);
    }
    let size = (config.len() + requests.len()) as f64 / 1e6;
    println!("{what}: {size:.1} MB in {:.1} ms, {:.0} MB/s", best * 1e3, size / best);
    last.expect("read five times")
}

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if let [config, requests] = &paths[..] {
        let read = |path| std::fs::read(path).expect("a file that can be read");
        let reading = measure("files", &read(config), &read(requests));
        print!("{}", render(&reading.diagnostics));
        return;
    }
    let one = "{\"request_id\": \"r\", \"workflow_id\": \"w\", \"timestamp\": 0}";
    let reading = measure("a workflow of a million nodes, JSON", chain(1_000_000).as_bytes(), one.as_bytes());
    assert!(reading.scenario.is_some());
    let count = 130_000;
    let lines: String = (0..count).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{}", request(number));
        text
    });
    let json = format!("{{\"requests\": [{}]}}", lines.trim_end().replace('\n', ",\n"));
    let yaml = (0..count).fold("requests:\n".to_owned(), |text, number| text + &yaml_request(number));
    for (what, text) in [("JSON Lines", &lines), ("JSON", &json), ("YAML", &yaml)] {
        let reading = measure(what, CONFIG.as_bytes(), text.as_bytes());
        assert_eq!(reading.scenario.map_or(0, |scenario| scenario.requests.len()), count);
    }
}
