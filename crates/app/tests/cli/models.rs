use crate::support::Place;
use serde_json::Value;

fn listed(place: &Place, line: &str) -> Vec<Value> {
    serde_json::from_str(&place.run(line).code(0).out).unwrap()
}

#[test]
fn two_small_models_are_made_and_listed() {
    let place = Place::new();
    let made = place.run("models init --dir models").code(0).out;
    assert!(
        made.contains("models/tiny-llm (llm, ") && made.contains("models/tiny-embedding (embedding, "),
        "{made}"
    );
    let list = listed(&place, "models list --dir models --json --checksum");
    let names: Vec<&str> = list.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tiny-embedding", "tiny-llm"]);
    for model in &list {
        let bytes = model["bytes"].as_u64().unwrap();
        assert!((1_000_000..4_000_000).contains(&bytes), "{model}");
        assert_eq!(model["sha256"].as_str().unwrap().len(), 64);
    }
    let text = place.run("models list --dir models --checksum").code(0).out;
    assert!(text.contains("tiny-llm") && text.contains(list[1]["sha256"].as_str().unwrap()), "{text}");
}

#[test]
fn a_seed_gives_the_same_bytes() {
    let place = Place::new();
    for (folder, seed) in [("a", 5), ("b", 5), ("c", 6)] {
        place.run(&format!("models init --dir {folder} --name x --seed {seed}")).code(0);
    }
    let sum = |folder: &str| {
        listed(&place, &format!("models list --dir {folder} --json --checksum"))[0]["sha256"].clone()
    };
    assert_eq!(sum("a"), sum("b"));
    assert_ne!(sum("a"), sum("c"));
}

/// A change of these bytes is a change for everyone who has written down a checksum: it wants a note in the changelog.
#[test]
fn the_bytes_do_not_change_unnoticed() {
    let place = Place::new();
    place.run("models init --dir models --seed 0").code(0);
    let list = listed(&place, "models list --dir models --json --checksum");
    let sums: Vec<&str> = list.iter().map(|model| &model["sha256"].as_str().unwrap()[..16]).collect();
    assert_eq!(sums, ["941ab13150455683", "28b52a24ed4e1883"]);
}

#[test]
fn what_is_there_is_kept_unless_forced() {
    let place = Place::new();
    place.run("models init --dir models --name team/writer").code(0);
    let before = place.read("models/team/writer/config.json");
    place
        .run("models init --dir models --name team/writer --seed 9")
        .code(2)
        .says("already exists")
        .says("--force");
    assert_eq!(place.read("models/team/writer/config.json"), before);
    place.run("models init --dir models --name team/writer --kind embedding --force").code(0);
    let list = listed(&place, "models list --dir models --json");
    assert_eq!((list.len(), &list[0]["kind"]), (1, &Value::from("embedding")));
    // Nothing of the language model stays behind.
    assert!(!place.path("models/team/writer/generation_config.json").exists());
}

#[test]
fn names_stay_inside_the_folder() {
    let place = Place::new();
    for name in ["../x", "/x", "a/b/c", ".x", "a/..", "a\\b"] {
        place
            .run(&format!("models init --dir models --name {name}"))
            .code(2)
            .says("cannot be the name of a model");
    }
    assert!(place.names().is_empty(), "{:?}", place.names());
    place.run("models init --dir models --kind both --name x").code(2).says("makes two");
    place.run("models init --dir models --size huge").code(2).says("tiny");
    place.run("models list --dir nowhere").code(2).says("nowhere");
    place.write("file", "");
    place.run("models init --dir file").code(2).says("file");
    place.run("models list --dir file").code(2).says("file");
    assert_eq!(place.names(), ["file"]);
}

#[test]
fn broken_models_are_listed_with_the_reason() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("models/broken")).unwrap();
    let nothing = place.run("models list --dir models").code(0).out;
    assert!(nothing.contains("no model") && nothing.contains("models init"), "{nothing}");
    place.write("models/broken/config.json", r#"{"architectures": ["Unheard"]}"#);
    let done = place.run("models list --dir models").code(0).says("Unheard");
    assert!(done.out.contains("unusable"));
    let list = listed(&place, "models list --dir models --json");
    assert!(list[0]["error"].as_str().unwrap().contains("config.json"));
}

const ONE_MODEL: &str = "
models:
  writer: {name: Writer, memory_gb: 0.01, gpus_required: 1, load_time_seconds: 1, inference_time_mean: 1}
workflows:
  w: {name: w, nodes: [{id: a, model: writer}], edges: []}
cluster: {gpus: 1}
";

#[test]
fn a_file_that_is_cut_off_is_found_before_anything_is_loaded() {
    let place = Place::new();
    place.run("models init --dir models --kind llm --name writer").code(0);
    let tensors = place.path("models/writer/model.safetensors");
    let whole = std::fs::read(&tensors).unwrap();
    std::fs::write(&tensors, &whole[..whole.len() - 1]).unwrap();
    place.run("models list --dir models").code(0).says("writer cannot be used").says("truncated");
    place.write("config.yaml", ONE_MODEL);
    place.write("requests.yaml", "requests: [{request_id: r, workflow_id: w}]");
    let run = "run --live --policy baseline --config config.yaml --requests requests.yaml --models models";
    place.run(run).code(2).says("models that cannot be used").says("truncated");
    std::fs::write(&tensors, &whole).unwrap();
    std::fs::remove_file(place.path("models/writer/tokenizer.json")).unwrap();
    place.run("models list --dir models").code(0).says("tokenizer.json");
}
