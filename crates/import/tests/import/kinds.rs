//! Small files of each kind, with results that can be told by hand.

use crate::support::{BOTH, codes, good, pairs, run};
use gswarm_core::input::{Code, Source, read_config};
use gswarm_import::{ImportKind, ImportOptions, TraceTarget};

pub const API: &str = r#"{
  "3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 30, "cfg": 5, "denoise": 1,
        "model": ["9", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0]}},
  "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "sd3.5_large_8b_fp8.safetensors"}},
  "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 1024, "batch_size": 2}},
  "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox", "clip": ["9", 1]}},
  "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
  "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
  "9": {"class_type": "LoraLoader", "inputs": {"lora_name": "ink.safetensors", "model": ["4", 0], "clip": ["4", 1]}},
  "10": {"class_type": "SaveImage", "inputs": {"images": ["8", 0]}},
  "11": {"class_type": "CLIPTextEncode", "inputs": {"text": "unused", "clip": ["4", 1]}}
}"#;

#[test]
fn comfyui_in_the_form_of_the_api() {
    let made = good(ImportKind::Comfyui, API, &ImportOptions::default());
    let workflow = &made.scenario.workflows[0];
    let ids: Vec<&str> = workflow.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["KSampler_3", "CLIPTextEncode_6", "CLIPTextEncode_7", "VAEDecode_8"]);
    assert_eq!(workflow.edges, [(0, 3), (1, 0), (2, 0)]);
    let models: Vec<(&str, f64)> =
        made.scenario.models.iter().map(|model| (model.id.as_str(), model.memory_gb)).collect();
    let base = "sd3.5_large_8b_fp8.safetensors";
    let adapted = format!("{base} + ink.safetensors");
    assert_eq!(models, [(adapted.as_str(), 8.5), (base, 8.0)]);
    assert_eq!(made.scenario.models[0].base_model.as_deref(), Some(base));
    // 30 steps of 0.15 s, on 8.5 of 12 GB, for two images of half the size.
    assert!((3_187_000..=3_188_000).contains(&made.scenario.requests[0].times[0].unwrap().0));
    assert!(
        made.assumptions.iter().any(|said| said.contains("Not run") && said.contains("CLIPTextEncode_11"))
    );
    run(&made, 2, &BOTH);
    let timed = ImportOptions {
        times: pairs(&[("3", 7.0), ("CLIPTextEncode", 2.0)]),
        requests: 3,
        every: 1.5,
        ..ImportOptions::default()
    };
    let made = good(ImportKind::Comfyui, API, &timed);
    let request = &made.scenario.requests[2];
    assert_eq!(request.timestamp, Some(3_000_000));
    assert_eq!(
        request.times.iter().map(|time| time.unwrap().seconds()).collect::<Vec<_>>()[..3],
        [7.0, 2.0, 2.0]
    );
    assert_eq!(
        codes(ImportKind::Comfyui, API, &ImportOptions { times: pairs(&[("99", 1.0)]), ..timed }),
        [Code::NoSuchPlace]
    );
}

/// A subgraph that is used twice, inside another one; one of its two samplers is bypassed.
pub const NESTED: &str = r#"{"nodes": [
  {"id": 1, "type": "outer", "inputs": [], "outputs": [{"name": "image", "type": "IMAGE"}]},
  {"id": 2, "type": "SaveImage", "inputs": [{"name": "images", "type": "IMAGE", "link": 1}]}],
 "links": [[1, 1, 0, 2, 0, "IMAGE"]],
 "definitions": {"subgraphs": [
  {"id": "outer", "name": "Outer", "inputs": [], "outputs": [{"name": "image", "type": "IMAGE"}],
   "nodes": [{"id": 1, "type": "inner", "inputs": [{"name": "latent", "type": "LATENT", "link": 3}]},
             {"id": 2, "type": "inner", "inputs": [{"name": "latent", "type": "LATENT", "link": 1}]},
             {"id": 3, "type": "VAELoader", "widgets_values": ["v.safetensors"], "outputs": [{"type": "VAE"}]},
             {"id": 4, "type": "VAEDecode", "inputs": [{"name": "samples", "type": "LATENT"}, {"name": "vae", "type": "VAE"}]},
             {"id": 5, "type": "EmptyLatentImage", "widgets_values": [1024, 1024, 1]}],
   "links": [{"id": 3, "origin_id": 5, "origin_slot": 0, "target_id": 1, "target_slot": 0, "type": "LATENT"},
             {"id": 1, "origin_id": 1, "origin_slot": 0, "target_id": 2, "target_slot": 0, "type": "LATENT"},
             {"id": 2, "origin_id": 2, "origin_slot": 0, "target_id": 4, "target_slot": 0, "type": "LATENT"},
             {"id": 4, "origin_id": 3, "origin_slot": 0, "target_id": 4, "target_slot": 1, "type": "VAE"},
             {"id": 5, "origin_id": 4, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "IMAGE"}]},
  {"id": "inner", "name": "Inner", "inputs": [{"name": "latent", "type": "LATENT"}], "outputs": [{"name": "latent", "type": "LATENT"}],
   "nodes": [{"id": 1, "type": "UNETLoader", "widgets_values": ["u_2b.safetensors", "default"], "outputs": [{"type": "MODEL"}]},
             {"id": 2, "type": "KSampler", "widgets_values": [1, "fixed", 10, 1, "euler", "simple", 1],
              "inputs": [{"name": "model", "type": "MODEL"}, {"name": "latent_image", "type": "LATENT"}], "outputs": [{"type": "LATENT"}]},
             {"id": 3, "type": "KSampler", "mode": 4, "widgets_values": [1, "fixed", 10, 1, "euler", "simple", 1],
              "inputs": [{"name": "model", "type": "MODEL"}, {"name": "latent_image", "type": "LATENT"}], "outputs": [{"type": "LATENT"}]}],
   "links": [[1, 1, 0, 2, 0, "MODEL"], [2, -10, 0, 2, 1, "LATENT"], [3, 1, 0, 3, 0, "MODEL"], [4, 2, 0, 3, 1, "LATENT"], [5, 3, 0, -20, 0, "LATENT"]]}
 ]}}"#;

#[test]
fn comfyui_subgraphs_are_written_out_wherever_they_stand() {
    let made = good(ImportKind::Comfyui, NESTED, &ImportOptions::default());
    let workflow = &made.scenario.workflows[0];
    let ids: Vec<&str> = workflow.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["KSampler_1:1:2", "KSampler_1:2:2", "VAEDecode_1:4"]);
    assert_eq!(workflow.edges, [(0, 1), (1, 2)]);
    assert_eq!(made.scenario.models.len(), 2);
    // 10 steps of 0.15 s on 4 of 12 GB.
    assert_eq!(made.scenario.requests[0].times[0].unwrap().0, 500_000);
    run(&made, 1, &BOTH);
}

pub const DIFY: &str = "
app: {name: letters, mode: workflow}
kind: app
workflow:
  graph:
    nodes:
    - {id: '1', data: {type: start, title: Start}}
    - {id: '2', data: {type: llm, title: Draft, model: {name: qwen-7b, completion_params: {max_tokens: 100}}}}
    - {id: '3', data: {type: if-else, title: Long?, cases: [{case_id: 'true'}]}}
    - {id: '4', data: {type: iteration, title: Each, is_parallel: true, parallel_nums: 2, start_node_id: 4s}}
    - {id: 4s, parentId: '4', data: {type: iteration-start, title: ''}}
    - {id: '5', parentId: '4', data: {type: llm, title: Polish, model: {name: big-70b}}}
    - {id: '6', data: {type: variable-aggregator, title: Join}}
    - {id: '7', data: {type: question-classifier, title: Sort, model: {name: qwen-7b}, classes: [{id: a, name: good}, {id: b, name: bad}]}}
    - {id: '8', data: {type: end, title: End}}
    - {id: '9', type: custom-note, data: {title: ''}}
    edges:
    - {source: '1', target: '2'}
    - {source: '2', target: '3', sourceHandle: source}
    - {source: '3', target: '4', sourceHandle: 'true'}
    - {source: '3', target: '6', sourceHandle: 'false'}
    - {source: 4s, target: '5', sourceHandle: source}
    - {source: '4', target: '6', sourceHandle: source}
    - {source: '6', target: '7', sourceHandle: source}
    - {source: '7', target: '8', sourceHandle: a}
";

pub fn dify_flags() -> ImportOptions {
    ImportOptions {
        branches: pairs(&[("Long?", vec![0.25])]),
        choices: pairs(&[("7", "good".to_owned())]),
        counts: pairs(&[("Each", 3)]),
        requests: 400,
        ..ImportOptions::default()
    }
}

#[test]
fn dify_branches_and_iterations() {
    let made = good(ImportKind::Dify, DIFY, &dify_flags());
    let names: Vec<&str> = made.scenario.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
    assert_eq!(names, ["letters: Long?=true, Sort=good", "letters: Long?=else, Sort=good"]);
    let long = &made.scenario.workflows[0];
    let ids: Vec<&str> = long.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["Draft", "Polish [1]", "Polish [2]", "Polish [3]", "Sort"]);
    // Two rounds at once: the third waits for the first.
    for edge in [(0, 1), (0, 2), (1, 3), (2, 4), (3, 4)] {
        assert!(long.edges.contains(&edge), "{edge:?} in {:?}", long.edges);
    }
    assert!(!long.edges.contains(&(2, 3)));
    assert_eq!(made.scenario.workflows[1].edges, [(0, 1)]);
    let share = made.scenario.requests.iter().filter(|request| request.workflow.index() == 0).count();
    assert!((70..130).contains(&share), "{share} of 400");
    // 100 tokens at 50 a second, 512, 32.
    let times: Vec<f64> = made
        .scenario
        .requests
        .iter()
        .find(|request| request.workflow.index() == 0)
        .unwrap()
        .times
        .iter()
        .map(|time| time.unwrap().seconds())
        .collect();
    assert_eq!(times, [2.0, 10.24, 10.24, 10.24, 0.64]);
    run(&made, 4, &BOTH[..1]);
    assert_eq!(codes(ImportKind::Dify, DIFY, &ImportOptions::default()), [Code::NeedsChoice; 3]);
    let wrong = ImportOptions {
        choices: pairs(&[("7", "worst".to_owned()), ("Nowhere", "x".to_owned())]),
        ..dify_flags()
    };
    assert_eq!(codes(ImportKind::Dify, DIFY, &wrong), [Code::NoSuchPlace; 2]);
    let wrong = ImportOptions { branches: pairs(&[("Long?", vec![0.5, 0.9])]), ..dify_flags() };
    assert_eq!(codes(ImportKind::Dify, DIFY, &wrong), [Code::NoSuchPlace]);
}

#[test]
fn a_dify_app_without_a_graph_is_one_call() {
    let text = "app: {name: chat, mode: chat}\nmodel_config: {model: {name: llama-8b, provider: x}}\n";
    let made = good(ImportKind::Dify, text, &ImportOptions::default());
    assert_eq!(made.scenario.models[0].memory_gb, 16.0);
    run(&made, 1, &BOTH);
}

pub const WF14: &str = r#"{"name": "old", "schemaVersion": "1.4", "workflow": {"makespanInSeconds": 9, "tasks": [
  {"name": "split_ID01", "id": "ID01", "category": "split", "runtimeInSeconds": 2.5, "parents": [], "children": ["work_ID02"]},
  {"name": "work_ID02", "id": "ID02", "runtimeInSeconds": 0, "cores": 4, "memoryInBytes": 2000000000,
   "command": {"program": "/usr/bin/work"}, "parents": ["split_ID01"], "children": []},
  {"name": "work_ID03", "id": "ID03", "runtimeInSeconds": 4, "command": {"program": "work"}, "parents": ["ID01"]}]}}"#;

#[test]
fn wfcommons_of_version_1_4() {
    let made = good(ImportKind::Wfcommons, WF14, &ImportOptions::default());
    let workflow = &made.scenario.workflows[0];
    assert_eq!((workflow.id.as_str(), workflow.nodes.len()), ("old", 3));
    assert_eq!(workflow.edges, [(0, 1), (0, 2)]);
    let models: Vec<(&str, f64)> =
        made.scenario.models.iter().map(|one| (one.id.as_str(), one.memory_gb)).collect();
    assert_eq!(models, [("split", 1.0), ("work", 2.0)]);
    let times: Vec<u64> = made.scenario.requests[0].times.iter().map(|time| time.unwrap().0).collect();
    assert_eq!(times, [2_500_000, 1_000, 4_000_000]);
    run(&made, 2, &BOTH);
}

pub const MOONCAKE: &str = "\
{\"timestamp\": 0, \"input_length\": 1000, \"output_length\": 50, \"hash_ids\": [1, 2]}
{\"timestamp\": 27482, \"input_length\": 5000, \"output_length\": 100, \"hash_ids\": []}
{\"timestamp\": 30000, \"input_length\": 5000, \"output_length\": 0, \"hash_ids\": [3]}
";
pub const BURSTGPT: &str = "\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,1,3.2,ChatGPT,500,25,525,Conversation log
45.5,,1.1,GPT-4,1000,50,1050,API log
60,,0.1,ChatGPT,472,0,472,API log
";
pub const OPENAI: &str = r#"{"timestamp": "2024-05-01T10:00:00.5Z", "model": "llama-8b", "usage": {"prompt_tokens": 500, "completion_tokens": 50}, "status": 200}
{"created": 1714557602, "response": {"status_code": 200, "body": {"model": "qwen-7b", "usage": {"input_tokens": 0, "output_tokens": 10}}}}
{"ts": 1714557603000, "model": "llama-8b", "status": 429}
"#;

#[test]
fn traces_with_a_workflow_of_one_node() {
    let made =
        good(ImportKind::Mooncake, MOONCAKE, &ImportOptions { compress: 2.0, ..ImportOptions::default() });
    let found = |made: &gswarm_import::Imported| {
        let requests = made.scenario.requests.iter();
        requests.map(|one| (one.timestamp.unwrap(), one.times[0].unwrap().0)).collect::<Vec<_>>()
    };
    assert_eq!(found(&made), [(0, 1_200_000), (13_741_000, 3_000_000)]);
    assert!(made.assumptions[0].contains("Omitted: 1 request"), "{:?}", made.assumptions);
    run(&made, 1, &BOTH);

    let made = good(ImportKind::Burstgpt, BURSTGPT, &ImportOptions::default());
    assert_eq!(found(&made), [(0, 600_000), (40_500_000, 1_200_000)]);
    let models: Vec<&str> = made.scenario.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(models, ["ChatGPT", "GPT-4"]);
    run(&made, 1, &BOTH);

    let made = good(ImportKind::OpenaiLog, OPENAI, &ImportOptions::default());
    assert_eq!(found(&made), [(0, 1_100_000), (1_500_000, 200_000)]);
    run(&made, 1, &BOTH);
}

#[test]
fn traces_with_a_workflow_of_the_users_choice() {
    let config = b"
models:
  llm: {memory_gb: 14, gpus_required: 1, load_time_seconds: 8, tokens_per_second: 25, token_mean: 100}
  sd: {memory_gb: 8, gpus_required: 1, load_time_seconds: 5, inference_time_mean: 3}
workflows:
  draw: {nodes: [{id: write, model: llm}, {id: paint, model: sd}], edges: [{from: write, to: paint}]}
  chat: {nodes: [{id: talk, model: llm}]}
cluster: {gpus: 2}
";
    let scenario = read_config(Source { name: "config", bytes: config }).scenario.unwrap();
    let target = |id: Option<&str>| TraceTarget {
        scenario: scenario.clone(),
        workflow: id.map(str::to_owned),
        named: "config.yaml".to_owned(),
    };
    let options = ImportOptions { workflow: Some(target(Some("draw"))), ..ImportOptions::default() };
    let made = good(ImportKind::Mooncake, MOONCAKE, &options);
    let request = &made.scenario.requests[0];
    // 1000 tokens at 5000 a second, and 50 at 25; the picture takes what it takes.
    assert_eq!((request.times[0].unwrap().0, request.times[1]), (2_200_000, None));
    assert_eq!(made.scenario.cluster.gpus, Some(2));
    run(&made, 2, &BOTH);
    for wrong in [None, Some("drew")] {
        let options = ImportOptions { workflow: Some(target(wrong)), ..ImportOptions::default() };
        assert_eq!(codes(ImportKind::Mooncake, MOONCAKE, &options), [Code::NoSuchPlace]);
    }
}

/// A log with the faults of the published programs: an overlap, and a node that starts before its input is there.
pub const LOG: &str = r#"{"summary": {"total_requests": 2}, "executions": [
 {"request_id": "r1", "workflow_id": "w", "node_id": "a", "model_name": "m", "gpu_id": 0, "gpu_ids": [0, 1], "arrival_time": 0.0, "switch_time": 3.0, "start_time": 3.0, "end_time": 5.0, "execution_time": 2.0},
 {"request_id": "r1", "workflow_id": "w", "node_id": "b", "model_name": "n", "gpu_id": 0, "arrival_time": 0.0, "start_time": 4.0, "end_time": 6.5},
 {"request_id": "r2", "workflow_id": "w", "node_id": "a", "model_name": "m", "gpu_id": 0, "gpu_ids": [0, 1], "arrival_time": 1.5, "start_time": 4.5, "end_time": 6.0, "execution_time": 1.5}]}"#;

#[test]
fn logs_give_requests_and_their_faults_stay_for_the_check() {
    let made = good(ImportKind::GswarmLog, LOG, &ImportOptions::default());
    let ids: Vec<&str> = made.scenario.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
    assert_eq!(ids, ["w", "w_2"]);
    let models: Vec<(&str, u32, f64)> = made
        .scenario
        .models
        .iter()
        .map(|model| (model.id.as_str(), model.gpus_required, model.load_time_seconds))
        .collect();
    assert_eq!(models, [("m", 2, 3.0), ("n", 1, 10.0)]);
    assert_eq!(made.scenario.requests[1].timestamp, Some(1_500_000));
    assert_eq!(made.scenario.requests[0].times[1].unwrap().0, 2_500_000);
    run(&made, 2, &BOTH);
    let config = b"
models:
  m: {memory_gb: 14, gpus_required: 2, load_time_seconds: 3, inference_time_mean: 1}
  n: {memory_gb: 8, gpus_required: 1, load_time_seconds: 5, inference_time_mean: 3}
workflows:
  w: {nodes: [{id: a, model: m}, {id: b, model: n}], edges: [{from: a, to: b}]}
";
    let scenario = read_config(Source { name: "config", bytes: config }).scenario.unwrap();
    let target = TraceTarget { scenario, workflow: None, named: "config.yaml".to_owned() };
    let made = good(
        ImportKind::GswarmLog,
        LOG,
        &ImportOptions { workflow: Some(target), ..ImportOptions::default() },
    );
    assert_eq!(made.scenario.workflows[0].edges, [(0, 1)]);
    assert_eq!(made.scenario.requests[1].times[1], None);
    run(&made, 2, &BOTH);
}
