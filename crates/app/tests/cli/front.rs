//! The front door as a process: calls, workflows, the queue, and what is left of them after a kill.

use crate::model_server::{Running, client, post};
use crate::support::Place;
use serde_json::{Value, json};

const CONFIG: &str = "
models:
  writer: {name: W, memory_gb: 14, gpus_required: 1, load_time_seconds: 20, tokens_per_second: 50, token_mean: 100, type: llm}
  painter: {name: P, memory_gb: 7, gpus_required: 1, load_time_seconds: 10, inference_time_mean: 3}
  giant: {name: G, memory_gb: 800, gpus_required: 16, load_time_seconds: 10, inference_time_mean: 3}
workflows:
  picture:
    name: picture
    nodes: [{id: write, model: writer, inputs: [wish], outputs: [prompt]}, {id: paint, model: painter, inputs: [prompt], outputs: [image]}]
    edges: [{from: write, to: paint}]
cluster: {gpus: 2}
";

pub fn place(speed: u32) -> Place {
    let place = Place::new();
    place.write("config.yaml", CONFIG);
    place.write(
        "servers.yaml",
        &format!(
            "backends: [{{kind: emulated, speed: {speed}, models: {{writer: writer, painter: painter}}}}]"
        ),
    );
    place
}

pub fn serve(place: &Place) -> Running {
    Running::of(
        place,
        "serve --config config.yaml --backends servers.yaml --port 0 --state state --alias gpt-4=writer",
    )
}

async fn get(url: &str, path: &str) -> (u16, Value) {
    let answer = client().get(format!("{url}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_workflows_are_answered_and_faults_are_named() {
    let place = place(500);
    let server = serve(&place);
    let url = server.url.clone();
    let chat =
        json!({"model": "writer", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10});
    let (status, said) = post(&url, "/v1/chat/completions", chat.clone()).await;
    assert_eq!((status, &said["emulated"]), (200, &json!(true)), "{said}");
    let mut other = chat.clone();
    other["model"] = json!("gpt-4");
    let (status, said) = post(&url, "/v1/chat/completions", other).await;
    assert_eq!((status, &said["model"]), (200, &json!("gpt-4")), "by another name: {said}");
    let (status, said) = post(&url, "/v1/chat/completions", json!({"model": "nobody"})).await;
    assert_eq!((status, &said["error"]["code"]), (404, &json!("model_not_found")));
    let (status, said) = post(&url, "/v1/completions", json!({"model": "giant", "prompt": "x"})).await;
    assert_eq!((status, &said["error"]["code"]), (400, &json!("model_does_not_fit")));
    assert!(said["error"]["message"].as_str().unwrap().contains("16 consecutive GPUs"), "{said}");
    let (status, _) = post(&url, "/v1/completions", json!({"model": "writer", "stream": "yes"})).await;
    assert_eq!(status, 400);

    let path = "/v1/workflows/picture/requests";
    let request = json!({"request_id": "one", "input_data": {"wish": "a cat"}, "priority": 3});
    let (status, said) = post(&url, path, request.clone()).await;
    assert_eq!((status, &said["warnings"]), (202, &json!([])), "{said}");
    assert_eq!(post(&url, path, request).await.0, 200, "the same again is the same");
    let (status, said) = post(&url, path, json!({"input_data": {"hope": "a dog"}})).await;
    let warnings =
        json!(["`write` reads `wish`, but neither input_data nor a direct predecessor provides it"]);
    assert_eq!((status, &said["warnings"]), (202, &warnings), "{said}");
    assert_eq!(post(&url, path, json!({"request_id": "one"})).await.0, 409);
    let (status, said) = post(&url, path, json!({"node_configs": {"sing": {}}, "priority": "high"})).await;
    assert_eq!(status, 400);
    let message = said["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("no node `sing`") && message.contains("`high`"),
        "all faults at once: {message}"
    );
    assert_eq!(post(&url, path, json!({"workflow_id": "other"})).await.0, 400);
    assert_eq!(post(&url, path, json!({"request_id": "x".repeat(300)})).await.0, 400);
    assert_eq!(post(&url, path, json!({"request_id": ".."})).await.0, 400, "no address leads to it");
    let plain = client().post(format!("{url}{path}")).header("content-type", "text/plain").body("{}");
    assert_eq!(plain.send().await.unwrap().status(), 415, "what any page in a browser could send is refused");
    for (path, param, given) in
        [("requests/one/result", "wait", "abc"), ("requests", "limit", "-1"), ("queue", "from", "x")]
    {
        let (status, said) = get(&url, &format!("/v1/{path}?{param}={given}")).await;
        assert_eq!((status, &said["error"]["param"]), (400, &json!(param)), "{said}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`{param}` is `{given}`, but must be a ")), "{message}");
    }
    let (status, result) = get(&url, "/v1/requests/one/result?wait=60").await;
    assert_eq!((status, &result["status"]), (200, &json!("completed")), "{result}");
    assert_eq!(result["outputs"]["paint"]["image"]["call"], "one/paint");
    assert_eq!(get(&url, "/v1/requests/two").await.0, 404);

    for (path, field) in [("/v1/queue", "open"), ("/v1/cluster", "gpus"), ("/v1/workflows", "workflows")] {
        let (status, said) = get(&url, path).await;
        assert!(status == 200 && !said[field].is_null(), "{path}: {said}");
    }
    assert_eq!(get(&url, "/ready").await.0, 200);
    let metrics = client().get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("gswarm_loads_total{model=\"writer\"}"), "{metrics}");
    let (_, document) = get(&url, "/openapi.json").await;
    for path in
        ["/v1/chat/completions", "/v1/workflows/{workflow}/requests", "/v1/requests/{request}", "/v1/queue"]
    {
        assert!(!document["paths"][path].is_null(), "{path}");
    }
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
}

/// A stream whose model is long in coming begins without it, and says where it stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_is_kept_alive() {
    let place = place(10);
    let server = serve(&place);
    let ask = |model: &str, seconds: &str| {
        let hello = json!([{"role": "user", "content": "hello"}]);
        let body = json!({"model": model, "stream": true, "max_tokens": 5, "messages": hello});
        let request = client().post(format!("{}/v1/chat/completions", server.url)).json(&body);
        request.header("x-gswarm-keep-alive", seconds).send()
    };
    // Loading the writer takes 20 s, which are 2 here.
    let answer = ask("writer", "0.05").await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((answer.status().as_u16(), header("content-type")), (200, "text/event-stream".to_owned()));
    assert_eq!(header("x-gswarm-position"), "0");
    let expected: f64 = header("x-gswarm-expected-start").parse().unwrap();
    assert!((0.0..=20.0).contains(&expected), "{expected}");
    assert!(header("x-gswarm-request").starts_with("call-"));
    let text = answer.text().await.unwrap();
    let comments: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix(": ")?).ok()).collect();
    assert!(comments.len() >= 2, "{text}");
    assert_eq!(
        (&comments[0]["state"], &comments[0]["model"]),
        (&json!("loading"), &json!("writer")),
        "{text}"
    );
    assert!(text.contains("data: {") && text.trim_end().ends_with("data: [DONE]"), "{text}");
    let quiet = ask("painter", "0").await.unwrap();
    assert!(quiet.headers().get("x-gswarm-position").is_none());
    assert!(!quiet.text().await.unwrap().contains(": {\"model\""));
    assert_eq!(ask("writer", "soon").await.unwrap().status(), 400);
    server.signal("-TERM");
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_is_done_however_often_the_process_is_killed() {
    let place = place(100);
    let path = "/v1/workflows/picture/requests";
    let mut accepted = Vec::new();
    for round in 0..4 {
        let server = serve(&place);
        for at in 0..6 {
            let name = format!("r{round}-{at}");
            assert_eq!(post(&server.url, path, json!({"request_id": name})).await.0, 202);
            accepted.push(name);
        }
        // Some have ended by then, some run, some wait.
        get(&server.url, &format!("/v1/requests/{}/result?wait=60", accepted[round * 2])).await;
        server.signal("-KILL");
        server.end();
    }
    let server = serve(&place);
    for name in &accepted {
        let (_, result) = get(&server.url, &format!("/v1/requests/{name}/result?wait=60")).await;
        assert_eq!(result["status"], "completed", "{result}");
        assert_eq!(result["outputs"].as_object().unwrap().len(), 2);
    }
    let (_, all) = get(&server.url, "/v1/requests?limit=1000").await;
    assert_eq!(all["requests"].as_array().unwrap().len(), accepted.len(), "each exactly once");
    // One process at a time: another says so and leaves the first alone.
    place
        .run("serve --config config.yaml --backends servers.yaml --port 0 --state state")
        .code(2)
        .says("--state");
    assert_eq!(post(&server.url, path, json!({"request_id": "last"})).await.0, 202);
    server.signal("-KILL");
    server.end();
    // A configuration that no longer has the workflow does not cost what was accepted under the old one.
    place.write("other.yaml", &CONFIG.replace("  picture:", "  painting:"));
    let other = "serve --config other.yaml --backends servers.yaml --port 0 --state state";
    place.run(other).code(2).says("do not match this configuration").says("--state");
    let server = serve(&place);
    let (_, result) = get(&server.url, "/v1/requests/last/result?wait=60").await;
    assert_eq!(result["status"], "completed", "{result}");
    server.signal("-TERM");
    assert_eq!(server.end().0, 0);
}

/// Real models behind the front door, in the same process: text as it is made, vectors, and more models than places.
#[tokio::test(flavor = "multi_thread")]
async fn real_models_answer_as_they_go() {
    let place = Place::new();
    place.run("models init --dir models --name writer").code(0);
    place.run("models init --dir models --name critic --seed 1").code(0);
    place.run("models init --dir models --name finder --kind embedding").code(0);
    std::os::unix::fs::symlink(crate::support::root().join("examples"), place.path("examples")).unwrap();
    let server = Running::of(
        &place,
        "serve --config examples/live/config.yaml --gpus 1 --port 0 --max-collate-wait 1",
    );
    let url = server.url.clone();
    let ask = |model: &str| json!({"model": model, "stream": true, "max_tokens": 6, "messages": [{"role": "user", "content": "hello"}]});
    for model in ["writer", "critic", "writer"] {
        let answer =
            client().post(format!("{url}/v1/chat/completions")).json(&ask(model)).send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.text().await.unwrap();
        let chunks: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        assert!(chunks.len() > 3 && text.trim_end().ends_with("data: [DONE]"), "{text}");
        assert!(
            chunks.iter().all(|chunk| chunk["model"] == model),
            "it is called what it was asked for as: {text}"
        );
    }
    let (status, vectors) =
        post(&url, "/v1/embeddings", json!({"model": "finder", "input": ["a", "b"]})).await;
    assert_eq!((status, vectors["data"].as_array().map(Vec::len)), (200, Some(2)), "{vectors}");
    // A wrong call moves no model: the one GPU holds the embedding model, and keeps it.
    let loads = || async {
        let text = client().get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
        let count = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        text.lines().filter(|line| line.starts_with("gswarm_loads_total{")).filter_map(count).sum::<u64>()
    };
    let before = loads().await;
    let hello = json!([{"role": "user", "content": "x"}]);
    for (path, body, param) in [
        ("/v1/chat/completions", json!({"model": "finder", "messages": hello}), "model"),
        ("/v1/embeddings", json!({"model": "writer", "input": "x"}), "model"),
        ("/v1/responses", json!({"model": "writer", "input": "x"}), "model"),
        (
            "/v1/chat/completions",
            json!({"model": "writer", "messages": [{"role": "nobody", "content": "x"}]}),
            "messages[0].role",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "writer", "messages": hello, "functions": [{"name": "f"}]}),
            "functions",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "writer", "messages": hello, "max_tokens": 1_000_000}),
            "max_tokens",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "writer", "messages": hello, "temperature": 9}),
            "temperature",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "writer", "messages": hello, "guided_grammar": "root ::= a"}),
            "guided_grammar",
        ),
        ("/v1/completions", json!({"model": "writer"}), "prompt"),
        ("/v1/completions", json!({"model": "writer", "prompt": "x", "suffix": "y"}), "suffix"),
    ] {
        let (status, said) = post(&url, path, body).await;
        assert_eq!((status, &said["error"]["param"]), (400, &json!(param)), "{said}");
    }
    assert_eq!(loads().await, before, "nothing was loaded for them");
    let ranked =
        post(&url, "/rerank", json!({"model": "finder", "query": "a", "documents": ["b", "a"]})).await;
    assert_eq!((ranked.0, &ranked.1["results"][0]["index"]), (200, &json!(1)), "{}", ranked.1);
    let named = client().get(format!("{url}/v1/models")).header("x-request-id", "mine").send().await.unwrap();
    assert_eq!(named.headers()["x-request-id"], "mine");
    let fresh = client().get(format!("{url}/v1/models")).send().await.unwrap();
    assert!(fresh.headers()["x-request-id"].to_str().unwrap().starts_with("req_"));
    // Whoever goes away leaves nothing behind.
    let long = json!({"model": "writer", "stream": true, "max_tokens": 400, "messages": [{"role": "user", "content": "x"}]});
    let mut answer = client().post(format!("{url}/v1/chat/completions")).json(&long).send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    drop(answer);
    let ends = async {
        while get(&url, "/v1/queue").await.1["open"] != 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, ends).await.expect("the call goes on");
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
}

const SWAPPED: &str = r#"
macros:
  server: python3 server.py ${PORT}
models:
  one: {cmd: "${server} one", aliases: [gpt-4], concurrencyLimit: 2}
  two: {cmd: "${server} two", useModelName: org/two, ttl: 60}
hooks: {on_startup: {preload: [one]}}
"#;

/// Answers with its name and the model that it was asked for.
const SERVER: &str = r#"
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.say({"server": sys.argv[2], "path": self.path})
    def do_POST(self):
        print("asked at", self.path, flush=True)
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.say({"server": sys.argv[2], "asked": asked["model"], "mirostat": asked.get("mirostat")})
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// A file of llama-swap is served as it is: commands are started and swapped, aliases and names go through, and fields that only
/// the server knows reach it.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_llama_swap_is_served() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return gswarm_testing::skip("python3 is not installed");
    }
    let place = Place::new();
    place.write("llama-swap.yaml", SWAPPED);
    place.write("server.py", SERVER);
    let server = Running::of(&place, "serve --from llama-swap.yaml --port 0 --max-collate-wait 1");
    let url = server.url.clone();
    let chat = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "mirostat": 2});
    for (model, runs, asked) in [("gpt-4", "one", "one"), ("two", "two", "org/two"), ("one", "one", "one")] {
        let (status, said) = post(&url, "/v1/chat/completions", chat(model)).await;
        assert_eq!((status, &said["server"]), (200, &json!(runs)), "{said}");
        assert_eq!((&said["asked"], &said["mirostat"]), (&json!(asked), &json!(2)), "{said}");
    }
    assert_eq!(post(&url, "/v1/chat/completions", chat("three")).await.0, 404);

    // What llama-swap's clients ask beside the API.
    let running = || async { get(&url, "/running").await.1["running"].clone() };
    let now = running().await;
    assert_eq!((&now[0]["model"], &now[0]["state"], &now[1]), (&json!("one"), &json!("ready"), &Value::Null));
    let (_, models) = get(&url, "/v1/models").await;
    let loads = models["data"].as_array().unwrap().iter().map(|model| model["status"]["value"].clone());
    assert_eq!(loads.collect::<Vec<_>>(), [json!("loaded"), json!("unloaded")]);
    let (_, passed) = get(&url, "/upstream/gpt-4/props/of%20it?slot=1").await;
    assert_eq!(passed, json!({"server": "one", "path": "/props/of%20it?slot=1"}));
    let (status, said) = post(&url, "/upstream/two/infill", json!({"model": "as it is"})).await;
    assert_eq!((status, &said["server"], &said["asked"]), (200, &json!("two"), &json!("as it is")), "{said}");
    assert_eq!(get(&url, "/upstream/three/props").await.0, 404);
    let text = |path: &str| {
        let url = format!("{url}{path}");
        async move { client().get(url).send().await.unwrap().text().await.unwrap() }
    };
    assert!(text("/logs").await.contains("one was evicted for two on GPU 0"), "{}", text("/logs").await);
    let says = text("/logs/two").await;
    assert!(says.contains("asked at /infill"), "{says}");
    assert_eq!(get(&url, "/logs/three").await.0, 404);
    let asked = client().post(format!("{url}/unload")).header("sec-fetch-site", "cross-site");
    assert_eq!(asked.send().await.unwrap().status(), 403, "a page of somebody else's may not");
    assert_eq!(running().await[0]["model"], "two");
    let (_, said) = post(&url, "/api/models/unload/two", json!({})).await;
    assert_eq!(said, json!({"msg": "ok", "unloaded": ["two"]}));
    let leaves = async {
        while running().await != json!([]) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, leaves).await.expect("it leaves");
    assert_eq!(get(&url, "/unload").await.1, json!({"msg": "ok", "unloaded": []}));
    assert!(text("/logs").await.contains("two was unloaded"), "{}", text("/logs").await);
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("one 2 (given)") && told.contains("No counterpart, ignored: hooks"), "{told}");
}
