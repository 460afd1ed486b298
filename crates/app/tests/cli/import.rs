use crate::support::{Place, inputs, root};
use gswarm_core::input::{Source, read_scenario};
use gswarm_core::instance::Mode;

fn example(name: &str) -> String {
    root().join("examples/import").join(name).display().to_string()
}

#[test]
fn what_is_imported_runs_and_passes_the_check() {
    let place = Place::new();
    let cases = [
        format!("comfyui {} --requests 3", example("picture.json")),
        format!("dify {} --branch Long=30% --count Paragraphs=4 --requests 5", example("letters.yml")),
        format!("wfcommons {}", example("sky.json")),
        format!("burstgpt {}", example("burstgpt.csv")),
        format!("gentd26 {} {}", example("gentd26_requests.csv"), example("gentd26_loads.csv")),
    ];
    for (number, case) in cases.iter().enumerate() {
        let folder = format!("work{number}");
        let done = place.run(&format!("import {case} --out {folder}")).code(0);
        assert!(done.out.contains("Assumed:") && place.read(&format!("{folder}/import.md")).contains("\n- "));
        for policy in ["baseline", "planned"] {
            let inputs = inputs(&folder);
            let ran = place.run(&format!("run --policy {policy} --gpus 4 --quiet {inputs}")).code(0);
            assert!(ran.err.is_empty(), "{}", ran.err);
            place.run(&format!("check {policy}_execution_log.json {inputs}")).code(0);
        }
    }
}

#[test]
fn what_cannot_be_imported_leaves_nothing_behind() {
    let place = Place::new();
    place.write("half.json", "{\"nodes\": [{\"id\": 1,");
    place.run("import comfyui half.json --out work").code(2).says("E002").says("half.json:1");
    place
        .run(&format!("import dify {} --out work", example("letters.yml")))
        .code(2)
        .says("E603")
        .says("--count 4=N");
    place.run(&format!("import azure {} --out work", example("sky.json"))).code(2).says("E601");
    place.run("import comfyui none.json --out work").code(2).says("none.json");
    place.run("import word x.doc --out work").code(2).says("comfyui");
    place.run("import azure x.csv --sample 0 --out work").code(2).says("--sample");
    place.run("import azure x.csv --compress -1 --out work").code(2).says("--compress");
    place.run("import dify x.yml --branch a=2 --out work").code(2).says("30%");
    assert_eq!(place.names(), ["half.json"]);
}

#[test]
fn files_that_are_there_are_kept_and_the_same_seed_gives_the_same_bytes() {
    let place = Place::new();
    let line = format!("import azure {} --sample 60% --seed 4", example("azure.csv"));
    place.run(&format!("{line} --out work")).code(0);
    let before = place.read("work/requests.yaml");
    place.run(&format!("{line} --out work")).code(2).says("--force");
    place.run(&format!("{line} --out work --force")).code(0);
    assert_eq!(place.read("work/requests.yaml"), before);
    place.run(&format!("{line} --format json --out json")).code(0);
    place.run("run --policy lru --gpus 1 --mode online --quiet --config json/config.json --requests json/requests.json").code(0);
}

#[test]
fn the_faults_of_a_log_are_left_to_the_check() {
    let place = Place::new();
    let log = example("log.json");
    place.run(&format!("import gswarm-log {log} --out work")).code(0);
    let checked = place.run(&format!("check {log} --gpus 1 @work")).code(1);
    let said = format!("{}{}", checked.out, checked.err);
    assert!(said.contains("r1"), "{said}");
}

/// Each request: when it arrived after the first one, its workflow, and for each node its model, its time and what it needs.
type Shape = Vec<(i64, String, Vec<(String, String, Option<u64>, Vec<String>)>)>;

fn shape(place: &Place, folder: &str) -> Shape {
    let (config, requests) =
        (place.read(&format!("{folder}/config.yaml")), place.read(&format!("{folder}/requests.yaml")));
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let (config, requests) = (source("config", config.leak()), source("requests", requests.leak()));
    let reading = read_scenario(config, requests, Mode::Online);
    let scenario = reading.scenario.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    let mut all: Shape = Vec::new();
    let first = scenario.requests.iter().filter_map(|request| request.timestamp).min().unwrap();
    for request in &scenario.requests {
        let workflow = &scenario.workflows[usize::from(request.workflow)];
        let nodes = workflow.nodes.iter().enumerate().map(|(at, node)| {
            let before = workflow.edges.iter().filter(|edge| edge.1 as usize == at);
            let mut needs: Vec<String> =
                before.map(|edge| workflow.nodes[edge.0 as usize].id.clone()).collect();
            needs.sort();
            let model = scenario.models[usize::from(node.model)].id.clone();
            (node.id.clone(), model, request.times[at].map(|time| time.0), needs)
        });
        let mut nodes: Vec<_> = nodes.collect();
        nodes.sort();
        all.push((request.timestamp.unwrap() - first, workflow.id.clone(), nodes));
    }
    all.sort();
    all
}

/// Spans of a run have its graphs, models, arrivals and times in them.
#[test]
fn spans_of_a_run_are_imported_as_what_was_run() {
    for (preset, requests) in [("simple", 9), ("complex", 14)] {
        let place = Place::with_work(preset, requests);
        let run = "run --policy adaptive --gpus 8 --mode online --quiet --otlp spans.jsonl @work --out log";
        place.run(run).code(0);
        place.run("import otlp spans.jsonl --out back").code(0);
        assert_eq!(shape(&place, "back"), shape(&place, "work"), "{preset}");
    }
}
