//! Calibration of servers that run: the whole chain, from a measurement to how far a run deviated from its prediction.

use crate::model_server::{Running, post};
use crate::support::{Place, json};

const EMULATED: &str = "
cluster: {gpus: 1}
models:
  writer: {memory_gb: 8, gpus_required: 1, load_time_seconds: 1.0, type: llm, tokens_per_second: 100, token_mean: 60,
           batching: {max_batch: 4, slowdown: [[1, 1.0], [4, 1.6]]}}
  painter: {memory_gb: 6, gpus_required: 1, load_time_seconds: 0.6, type: image_generation, inference_time_mean: 0.6,
            config: {steps: [20, 40]}}
workflows:
  w: {nodes: [{id: write, model: writer}, {id: paint, model: painter}], edges: [{from: write, to: paint}]}
";
const REQUESTS: &str = "
requests:
  - {request_id: a, workflow_id: w, input_data: {prompt: 'a short one'},
     node_configs: {write: {max_length: 25}, paint: {steps: 20}}}
  - {request_id: b, workflow_id: w, input_data: {prompt: 'one that is somewhat longer than the other one'},
     node_configs: {write: {max_length: 50}, paint: {steps: 40}}}
";

/// How accurate measurements are is tested under a virtual clock, in `commands/calibrate/accuracy.rs`.
#[test]
fn what_was_measured_becomes_files_that_every_command_reads() {
    let place = Place::new();
    place.write("config.yaml", EMULATED);
    place.write("requests.yaml", REQUESTS);
    let server = Running::start(&place, "--emulate config.yaml --speed 50");
    place.write("servers.yaml", &format!("backends: [{{kind: gswarm, gpus: 0, url: '{}'}}]", server.url));
    let inputs = "--config config.yaml --requests requests.yaml";
    let done = place.run(&format!("calibrate --backends servers.yaml {inputs} --repeats 2")).code(0);
    assert!(done.out.contains("Wrote profile.json"), "{}", done.out);
    let profile = place.json("profile.json");
    assert_eq!((&profile["kind"], &profile["schema"]), (&"calibration".into(), &1.into()));
    assert_eq!(profile["models"].as_object().unwrap().keys().collect::<Vec<_>>(), ["painter", "writer"]);
    // Where the weights were is the server's word, and no matter of time.
    assert_eq!(profile["models"]["writer"]["load"]["tier"], "host", "{profile}");
    let written = "--write-config measured.yaml --write-requests timed.yaml";
    place.run(&format!("calibrate --from profile.json {inputs} {written}")).code(0);
    place.run(&format!("calibrate --from profile.json {inputs} {written}")).code(2).says("--force");
    let run = |line: &str| json(&place.run(&format!("run --policy lru --json {line}")).code(0).out);
    let by_profile = run(&format!("{inputs} --calibration profile.json --out by_profile"));
    let by_files = run("--config measured.yaml --requests timed.yaml --out by_files");
    assert_eq!(by_profile["makespan_seconds"], by_files["makespan_seconds"], "{by_files}");
}

const TINY: &str = "
cluster: {gpus: 1}
models:
  tiny-llm: {memory_gb: 0.1, gpus_required: 1, load_time_seconds: 1, type: llm}
  tiny-embedding: {memory_gb: 0.1, gpus_required: 1, load_time_seconds: 1, type: embedding}
workflows:
  w:
    nodes: [{id: write, model: tiny-llm}, {id: embed, model: tiny-embedding}]
    edges: [{from: write, to: embed}]
";

/// A folder with `servers.yaml` and `config.yaml` of a model server that runs.
fn tiny_models() -> (Place, Running) {
    let place = Place::new();
    place.run("models init --dir models").code(0);
    let server = Running::start(&place, "--models models");
    let servers = format!("backends: [{{kind: gswarm, gpus: 0, device: cpu, url: '{}'}}]", server.url);
    place.write("servers.yaml", &servers);
    place.write("config.yaml", TINY);
    (place, server)
}

/// Where weights come from, as a live run and a calibration record it: from disk where the server had to read them, from host
/// memory where an earlier run left them there.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_recorded_of_loads_says_where_the_weights_were() {
    let (place, server) = tiny_models();
    let request = "requests: [{request_id: a, workflow_id: w, input_data: {prompt: 'once'}, \
                   node_configs: {write: {max_length: 4}}, node_execution_times: {write: 0.01, embed: 0.01}}]";
    place.write("requests.yaml", request);
    let inputs = "--config config.yaml --requests requests.yaml";
    let live = |out: &str| {
        let line = "run --policy lru --live --backends servers.yaml --quiet";
        place.run(&format!("{line} {inputs} --out {out}")).code(0);
        let loads = place.read(&format!("{out}/loads.jsonl"));
        let told = loads.lines().map(json).filter(|line| line["action"] == "load");
        let tiers = told.map(|line| (line["model"].as_str().unwrap().to_owned(), line["tier"].clone()));
        tiers.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (llm, embedding) = ("tiny-llm".to_owned(), "tiny-embedding".to_owned());
    let both = |llm_from: &str, embedding_from: &str| {
        [(llm.clone(), llm_from.into()), (embedding.clone(), embedding_from.into())].into()
    };
    assert_eq!(live("cold"), both("disk", "disk"));
    assert_eq!(live("warm"), both("host", "host"));
    for (target, from) in [("disk", "disk"), ("dram", "host")] {
        let offload = serde_json::json!({"model_name": "tiny-llm", "target": target});
        assert_eq!(post(&server.url, "/standalone/offload", offload).await.0, 200);
        assert_eq!(live(&format!("after_{target}")), both(from, "host"));
    }

    let calibrate = format!("calibrate --backends servers.yaml {inputs} --batches 1 --repeats 1 --force");
    let told = "the first load did not come from disk";
    place.run(&calibrate).code(0).says(told);
    let offload = serde_json::json!({"model_name": "tiny-llm", "target": "disk"});
    assert_eq!(post(&server.url, "/standalone/offload", offload).await.0, 200);
    place.run(&format!("{calibrate} --quiet")).code(0);
    let models = &place.json("profile.json")["models"];
    for (name, is_told) in [("tiny-llm", false), ("tiny-embedding", true)] {
        assert_eq!(models[name]["load"]["tier"], "host", "{models}");
        assert_eq!(models[name]["notes"].to_string().contains(told), is_told, "{models}");
    }
}

/// Real models on the CPU: everything runs, and the errors are told.
#[test]
fn from_a_measurement_to_how_far_a_run_was_off() {
    let (place, _server) = tiny_models();
    let request = |number: u32| {
        format!(
            "  - {{request_id: r{number}, workflow_id: w, input_data: {{prompt: 'once upon a time'}}, \
             node_configs: {{write: {{max_length: {}, ignore_eos: true}}}}}}\n",
            4 + number
        )
    };
    place.write("requests.yaml", &format!("requests:\n{}", (0..6).map(request).collect::<String>()));
    let inputs = "--config config.yaml --requests requests.yaml";
    place
        .run(&format!("calibrate --backends servers.yaml {inputs} --batches 1,2 --repeats 2 --quiet"))
        .code(0);
    let inputs = format!("{inputs} --calibration profile.json");
    place.run(&format!("run --policy planned {inputs} --out estimate --quiet")).code(0);
    place.run(&format!("check estimate/planned_execution_log.json {inputs}")).code(0);
    let live = "run --policy planned --live --backends servers.yaml --out live --quiet";
    place.run(&format!("{live} {inputs}")).code(0);
    place.run(&format!("check live/planned_execution_log.json {inputs}")).code(0);
    let fidelity = format!("fidelity --log live/planned_execution_log.json {inputs}");
    let predicted = "--predicted estimate/planned_execution_log.json";
    for (flags, names) in [("", &["from_scratch", "by_replay"][..]), (predicted, &["before_the_run"])] {
        let told = place.run(&format!("{fidelity} {flags} --json")).json(0);
        for name in names {
            let one = &told["predictions"][name];
            assert!(one["makespan"]["error_percent"].is_f64(), "{told}");
            assert!(one["makespan"]["measured"].as_f64().unwrap() > 0.0, "{told}");
            assert_eq!((&one["requests"]["count"], &one["nodes"]["count"]), (&6.into(), &12.into()));
            assert_eq!(one["models"].as_array().unwrap().len(), 2);
        }
    }
    let told = place.run(&format!("{fidelity} --out fidelity")).code(0);
    assert!(told.out.contains("Prediction by replay") && told.out.contains("makespan, s"), "{}", told.out);
    assert!(place.read("fidelity/fidelity.html").contains("<svg"));
    place.json("fidelity/fidelity.json");

    // An estimate against itself: nothing is off, in any column.
    let itself =
        "fidelity --log estimate/planned_execution_log.json --predicted estimate/planned_execution_log.json";
    let told = place.run(&format!("{itself} {inputs} --json")).json(0);
    let one = &told["predictions"]["before_the_run"];
    for field in ["makespan", "switch_time", "median_latency"] {
        assert_eq!(one[field]["error_percent"], 0.0, "{field}: {one}");
    }
    for field in ["median", "p90", "worst", "mean_signed"] {
        assert_eq!((&one["requests"][field], &one["nodes"][field]), (&0.0.into(), &0.0.into()), "{one}");
    }
    assert_eq!(one["loads"][0], one["loads"][1]);

    // A run is held against other costs than those that it was made with, but not against itself.
    let mut slower = place.json("profile.json");
    let written = &mut slower["models"]["tiny-llm"]["execution"][0]["fixed"];
    *written = (written.as_f64().unwrap() + 3600.0).into();
    place.write("slower.json", &slower.to_string());
    let other = "--config config.yaml --requests requests.yaml --calibration slower.json";
    let told = place.run(&format!("fidelity --log live/planned_execution_log.json {other} --json")).code(0);
    let makespan = &json(&told.out)["predictions"]["by_replay"]["makespan"];
    assert!(makespan["error_percent"].as_f64().unwrap() > 100.0, "{makespan}");
    place
        .run(&format!("{fidelity} --predicted live/planned_execution_log.json"))
        .code(2)
        .says("not a prediction");
    place.write("empty.json", "");
    place.run(&format!("fidelity --log empty.json {inputs}")).code(2).says("name an execution log");

    // Answers far longer than any that was measured.
    let long = place.read("requests.yaml").replace("max_length: 9", "max_length: 400");
    place.write("long.yaml", &long);
    let far = place.run(
        "run --policy planned --calibration profile.json --config config.yaml --requests long.yaml --out far",
    );
    far.code(0).says("`tiny-llm` was measured with answers of up to 9 tokens, but requests have up to 400");
}
