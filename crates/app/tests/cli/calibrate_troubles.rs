//! Calibrations that go wrong: what is kept, what is written, and what is told.

use crate::http::http_server;
use crate::support::Place;
use gswarm_testing::{LIMIT, ended};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Models that are named for what their server does.
fn with_models(names: &[&str]) -> (Place, Receiver<()>) {
    let place = Place::new();
    let model = |name: &&str| {
        format!("  {name}: {{memory_gb: 1, gpus_required: 1, load_time_seconds: 1, type: embedding}}\n")
    };
    let models: String = names.iter().map(model).collect();
    let nodes: Vec<Value> = names.iter().map(|name| json!({"id": name, "model": name})).collect();
    let workflows = json!({"w": {"nodes": nodes}});
    place.write("config.yaml", &format!("cluster: {{gpus: 1}}\nmodels:\n{models}workflows: {workflows}\n"));
    place.write("requests.yaml", "requests: [{request_id: r, workflow_id: w, input_data: {prompt: hello}}]");
    let (sender, stuck) = channel();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut weary = 0;
    let url = http_server(move |head, body| answer(head, body, &names, &mut weary, &sender));
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{url}'}}]"));
    (place, stuck)
}

/// `good` answers, `weary` answers three times and then never well, `broken` fails, and `stuck` never answers.
fn answer(
    head: &str,
    body: &str,
    names: &[String],
    weary: &mut u32,
    stuck: &Sender<()>,
) -> Option<(u16, Value)> {
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let model = asked["model"].as_str().unwrap_or_default();
    *weary += u32::from(model == "weary");
    Some(if head.starts_with("GET") {
        let list: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
        (200, json!({"data": list}))
    } else if model == "stuck" {
        let _ = stuck.send(());
        return None;
    } else if model == "broken" || model == "weary" && *weary > 3 {
        (500, json!({"error": "it fell over"}))
    } else {
        (200, json!({"data": [{"embedding": [1.0, 0.0]}], "usage": {"prompt_tokens": 2, "total_tokens": 2}}))
    })
}

const INPUTS: &str = "--config config.yaml --requests requests.yaml";

fn calibrate(flags: &str) -> String {
    format!("calibrate --backends servers.yaml {INPUTS} --repeats 2 --batches 1,2 --quiet {flags}")
}

#[test]
fn models_that_cannot_be_measured_are_named_and_the_others_are_kept() {
    let (place, _stuck) = with_models(&["broken", "good", "weary"]);
    let told = place.run(&calibrate("")).code(4);
    assert!(told.err.contains("2 models could not be measured"), "{}", told.err);
    assert!(told.err.contains("\n  - broken: while calling it") && told.err.contains("\n  - weary: "));
    assert!(told.err.contains("it fell over") && told.err.contains("profile.json"), "{}", told.err);
    let profile = place.json("profile.json");
    assert_eq!(profile["models"].as_object().unwrap().keys().collect::<Vec<_>>(), ["good"]);
    assert_eq!(profile["failed"].as_object().unwrap().len(), 2);
    // What needs those that are missing says which, and why they are.
    let told = place.run(&format!("run --policy lru --calibration profile.json {INPUTS} --out out")).code(2);
    assert!(told.err.contains("model `broken` was not measured: while calling it"), "{}", told.err);
    assert!(told.err.contains("model `weary` was not measured") && told.err.contains("gswarm calibrate"));
    assert!(!place.path("out").exists());
}

#[test]
fn nothing_is_written_where_nothing_was_measured() {
    let (place, _stuck) = with_models(&["broken"]);
    place.run(&calibrate("")).code(4).says("nothing was written");
    assert!(!place.path("profile.json").exists());
    place.write("servers.yaml", "backends: [{kind: openai, url: 'http://127.0.0.1:1'}]");
    place.run(&calibrate("")).code(4).says("nothing was written");
    assert_eq!(place.names(), ["config.yaml", "requests.yaml", "servers.yaml"]);
}

#[test]
fn files_that_are_there_stay_and_those_that_cannot_be_written_are_told_of_before() {
    let (place, stuck) = with_models(&["stuck"]);
    place.write("profile.json", "mine");
    place.run(&calibrate("")).code(2).says("--force");
    place.run(&calibrate("--out other.json --write-config config.yaml")).code(2).says("--force");
    place.run(&calibrate("--out no/such/folder.json")).code(2).says("there is no folder");
    if cfg!(target_os = "linux") {
        place.run(&calibrate("--out /proc/profile.json")).code(2).says("cannot be written");
    }
    assert_eq!(place.read("profile.json"), "mine");
    assert!(stuck.try_recv().is_err(), "nothing was asked of the server");
    place.run(&calibrate("--model nobody --out other.json")).code(2).says("there are stuck");
}

/// The first model is measured; at the second somebody presses Ctrl-C.
#[test]
fn after_an_interruption_finished_models_are_kept() {
    for (names, kept) in [(&["good", "stuck"][..], true), (&["stuck"], false)] {
        let (place, stuck) = with_models(names);
        let mut child = place.command(&calibrate("")).stderr(std::process::Stdio::piped()).spawn().unwrap();
        stuck.recv_timeout(LIMIT).expect("the second model is called");
        let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let status = ended(&mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(130), "{said}");
        assert_eq!(place.path("profile.json").exists(), kept, "{said}");
        if kept {
            assert!(said.contains("1 model kept"), "{said}");
            let profile = place.json("profile.json");
            assert_eq!(profile["models"].as_object().unwrap().keys().collect::<Vec<_>>(), ["good"]);
        }
    }
}

#[test]
fn profiles_that_are_none_are_refused_and_say_why() {
    let (place, _stuck) = with_models(&["good"]);
    place.run(&calibrate("")).code(0);
    let good = place.json("profile.json");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut other = good.clone();
        change(&mut other);
        other.to_string()
    };
    let table = [
        ("no JSON".to_owned(), "this is not a calibration"),
        ("{}".to_owned(), "\"kind\": \"calibration\""),
        (json!({"devices": []}).to_string(), "hardware profile"),
        (changed(&|one| one["schema"] = 2.into()), "it has schema 2; this gswarm reads schema 1"),
        (changed(&|one| drop(one.as_object_mut().unwrap().remove("schema"))), "schema none"),
        (changed(&|one| one["models"]["good"]["unload"]["median"] = (-1.0).into()), "negative or infinite"),
        (changed(&|one| one["models"]["good"]["execution"] = json!([])), "does not begin with batch 1"),
        (
            changed(&|one| one["models"]["good"]["execution"][0]["fixed"] = (-0.1).into()),
            "negative or infinite",
        ),
        (changed(&|one| one["models"]["good"]["execution"][0]["mixed"] = 0.0.into()), "`mixed`"),
        (changed(&|one| one["models"] = json!({})), "model `good` was not measured"),
    ];
    for (text, reason) in table {
        place.write("bad.json", &text);
        let told = place.run(&format!("run --policy lru --calibration bad.json {INPUTS} --out out")).code(2);
        assert!(told.err.contains(reason) && told.err.contains("bad.json"), "`{reason}`: {}", told.err);
    }
    place
        .run(&format!("run --policy lru --calibration none.json {INPUTS} --out out"))
        .code(2)
        .says("none.json");
    place.run(&format!("calibrate --from profile.json {INPUTS}")).code(2).says("--write-config");
    place.run(&format!("calibrate {INPUTS}")).code(2).says("--backends");
    assert!(!place.path("out").exists());
}
