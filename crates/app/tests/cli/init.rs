//! `gswarm init`, `gswarm validate` and `gswarm help CODE`.

use crate::support::{Place, inputs};
use serde_json::Value;

#[test]
fn what_init_writes_is_valid_plausible_and_runs() {
    let place = Place::new();
    let done = place.run("init --out work").code(0);
    assert!(
        place.read("work/config.yaml").starts_with("# yaml-language-server: $schema=config.schema.json\n")
    );
    place.run("validate --strict work/config.yaml work/requests.yaml").code(0);
    // The three commands that it names work as they are printed.
    let next: Vec<&str> = done.out.lines().filter_map(|line| line.strip_prefix("  gswarm ")).collect();
    assert_eq!(next.len(), 3, "{}", done.out);
    next.iter().for_each(|line| drop(place.run(line).code(0)));
    place.run("init --out work").code(2).says("already exists").says("--force");
    place.run("init --out work --force").code(0);
}

#[test]
fn init_takes_the_models_of_a_folder() {
    let place = Place::new();
    place.run("models init --dir models").code(0);
    place.run("init --from models --out work").code(0);
    let config = place.read("work/config.yaml");
    assert!(config.contains("  tiny-llm:") && config.contains("  tiny-embedding:"), "{config}");
    place.run("validate --strict work/config.yaml work/requests.yaml").code(0);
    place.run("init --from nowhere --out other").code(2).says("nowhere");
}

/// Answers with a list of models, and as Ollama with their sizes too. Gives the address; the thread ends with what was asked.
fn listing(owner: &str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let models = ["org/Chat-7B", "embed-small"].map(|id| serde_json::json!({"id": id, "owned_by": owner}));
    let list = serde_json::json!({"object": "list", "data": models}).to_string();
    let sizes = serde_json::json!({"models": [{"name": "org/Chat-7B", "size": 4.7e9}]}).to_string();
    let answers = if owner == "library" { vec![list, sizes] } else { vec![list] };
    let server = std::thread::spawn(move || {
        let answer = |body: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
            while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                let read = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..read]);
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
            String::from_utf8(seen).unwrap().lines().next().unwrap_or_default().to_owned() + "\n"
        };
        answers.into_iter().map(answer).collect()
    });
    (address, server)
}

#[test]
fn init_takes_the_models_of_a_server() {
    let (models, tags) = ("GET /v1/models HTTP/1.1\n", "GET /api/tags HTTP/1.1\n");
    for (owner, kind, holds_both, asked, gb) in [
        ("library", "ollama", true, format!("{models}{tags}"), "4.7"),
        ("vllm", "vllm", false, models.to_owned(), "14"),
        ("x", "openai", true, models.to_owned(), "14"),
    ] {
        let (place, (address, server)) = (Place::new(), listing(owner));
        place.run(&format!("init --from {address}/v1/ --out work")).code(0);
        assert_eq!(server.join().unwrap(), asked);
        let (config, servers) = (place.read("work/config.yaml"), place.read("work/servers.yaml"));
        let chat = format!("  \"org/Chat-7B\":\n    type: llm\n    memory_gb: {gb}\n");
        assert!(config.contains(&chat), "{config}");
        assert_eq!(config.contains("  embed-small:\n    type: embedding\n"), holds_both, "{config}");
        assert!(servers.contains(&format!("kind: {kind}")) && servers.contains(&address), "{servers}");
        place.run("validate work/config.yaml work/requests.yaml work/servers.yaml").code(0);
    }
}

const CONFIG: &str = "
models:
  llm: {memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8.5}
workflows:
  chat: {nodes: [{id: write, model: llm}]}
";

#[test]
fn one_fault_in_many_places_is_one_finding() {
    let place = Place::new();
    place.write("config.yaml", CONFIG);
    let lines: String = (0..300).map(|at| format!("- {{request_id: r{at}, workflow_id: chatt}}\n")).collect();
    place.write("requests.yaml", &format!("requests:\n{lines}"));
    let done = place.run("validate config.yaml requests.yaml").code(2).says("1 error, 0 warnings");
    assert_eq!(done.out.matches("error[").count(), 1, "{}", done.out);
    assert!(
        done.out.contains("error[E105]: unknown workflow `chatt`\n  --> requests.yaml:2:"),
        "{}",
        done.out
    );
    assert!(done.out.contains("and in 299 more places: lines 3, 4,"), "{}", done.out);
    assert!(done.out.contains("hint: did you mean `chat`?"), "{}", done.out);
    let json: Value =
        serde_json::from_str(&place.run("validate config.yaml requests.yaml --json").code(2).out).unwrap();
    assert_eq!((&json["errors"], json["findings"][0]["places"].as_array().unwrap().len()), (&1.into(), 300));
}

#[test]
fn what_is_unlikely_is_warned_of() {
    let place = Place::new();
    let model = "memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8.5";
    let config = |model: &str, rest: &str| {
        format!("models: {{m: {{{model}}}}}\nworkflows: {{w: {{nodes: [{{id: a, model: m}}]{rest}}}}}\n")
    };
    let two = "models: {m: {MODEL}}\nworkflows: {w: {nodes: [{id: a, model: m}, {id: b, model: m}]}}\n";
    let cases = [
        ("W411", two.replace("MODEL", model)),
        ("W412", config(&format!("type: llm, {model}"), "")),
        ("W413", config(&model.replace("8.5", "8500"), "")),
        (
            "W415",
            format!("{}cluster: {{gpus: 2, gpu_memory_gb: 40}}\n", config(&model.replace("14", "140"), "")),
        ),
        ("W416", config(&format!("token_std: 3, {model}"), "")),
    ];
    for (code, text) in cases {
        place.write("config.yaml", &text);
        let done = place.run("validate config.yaml").code(0);
        assert!(done.out.contains(&format!("warning[{code}]")), "{code}: {}", done.out);
        assert_eq!(done.out.matches("warning[").count(), 1, "{}", done.out);
        place.run("validate config.yaml --strict").code(2);
        if code == "W415" {
            assert!(done.out.contains("larger than a whole server of 2 GPUs"), "{}", done.out);
        }
    }
}

#[test]
fn what_people_bring_from_other_formats_has_a_hint() {
    let place = Place::new();
    let cases = [
        (CONFIG.replace("14,", "14GB,"), "write only the number, in GB: 14"),
        (CONFIG.replace("30,", "500ms,"), "write only the number, in seconds: 0.5"),
        (CONFIG.replace("14,", "-14,"), "did you mean 14?"),
        (CONFIG.replace("  llm:", "\tllm:"), "indented with spaces"),
        ("{\"models\": {}, // none yet\n \"workflows\": {}}".to_owned(), "YAML uses `#`"),
        (
            CONFIG.replace(
                "model: llm}]",
                "model: llm}, {id: b, model: llm}], edges: [{from: write, to: b}, {from: b, to: write}]",
            ),
            "remove one of these edges",
        ),
    ];
    for (text, hint) in cases {
        place.write("config.yaml", &text);
        let done = place.run("validate config.yaml").code(2);
        assert!(done.out.contains(hint), "{text}\n{}", done.out);
    }
}

#[test]
fn every_kind_of_file_is_known_by_its_content() {
    let place = Place::with_work("simple", 3);
    let work = "work/config.yaml work/requests.yaml";
    let spec = place.run(&format!("run --policy lru --gpus 4 {} --print-spec", inputs("work"))).code(0).out;
    place.write("run.yaml", &spec);
    place.write("servers.yaml", "backends: [{kind: emulated, speeed: 3}]\n");
    let done = place.run(&format!("validate {work} run.yaml")).code(0);
    assert!(done.out.contains("run.yaml: run specification"), "{}", done.out);
    let done = place.run("validate servers.yaml").code(2);
    assert!(done.out.contains("error[E115]") && done.out.contains("speed"), "{}", done.out);
    place.run("validate work/requests.yaml").code(2).says("pass both files");
    place.run("validate none.yaml nor-this.yaml").code(2).says("none.yaml").says("nor-this.yaml");
    place.write("other.yaml", "a: 1\n");
    place.run("validate other.yaml").code(2).says("not a file that can be validated");
    // A comment that YAML takes for a part of the first key.
    place.write("noted.json", "{\n  // mine\n  \"requests\": []}\n");
    let done = place.run("validate work/config.yaml noted.json").code(2);
    assert!(done.out.contains("noted.json:2") && done.out.contains("do not start comments"), "{}", done.out);
}

#[test]
fn codes_are_explained_offline() {
    let place = Place::new();
    let done = place.run("help E104").code(0);
    assert!(done.out.contains("E104: unknown model") && done.out.contains("`models`"), "{}", done.out);
    assert!(place.run("help c-work-little").code(0).out.contains("C-WORK-LITTLE"));
    assert!(place.run("help codes").code(0).out.lines().count() > 60);
    assert!(place.run("help run").code(0).out.contains("--policy"));
    assert!(place.run("help models init").code(0).out.contains("--dir"));
    assert!(place.run("help").code(0).out.contains("Examples:"));
    place.run("help E999").code(2).says("no code is called `E999`");
}

#[test]
fn manual_pages_are_written() {
    let place = Place::new();
    place.run("man --out man").code(0);
    assert!(place.read("man/gswarm.1").contains(".TH") && place.read("man/gswarm-run.1").contains("policy"));
}
