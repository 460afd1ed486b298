//! What the front door adds to a call, and what waiting requests take.
//!
//! `cargo bench --bench front`. A server that answers at once is called 200 and a thousand times a second, directly and through
//! `gswarm serve`, in turns: of a model whose calls at once the configuration gives, and of one that it says nothing of. Then ten
//! thousand calls wait for a model that takes its time.

use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const RATES: [u64; 2] = [200, 1000];
const SECONDS: u64 = 4;
const ROUNDS: u32 = 7;
const WAITING: usize = 10_000;

const CONFIG: &str = "
models:
  m: {name: M, memory_gb: 1, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.001, type: llm,
      batching: {max_batch: 256, slowdown: [[1, 1.0], [256, 1.0]]}}
  plain: {name: P, memory_gb: 1, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.001, type: llm}
  slow: {name: S, memory_gb: 1, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 3600, type: llm}
workflows:
  w: {name: w, nodes: [{id: a, model: m}], edges: []}
cluster: {gpus: 2}
";

fn main() {
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    gswarm_serve::guard::install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    runtime.block_on(async {
        added().await;
        waiting().await;
    });
}

/// A server that answers at once.
async fn at_once() -> String {
    let models =
        || async { Json(json!({"object": "list", "data": [{"id": "m"}, {"id": "plain"}, {"id": "slow"}]})) };
    let answer = |_: Json<Value>| async {
        Json(
            json!({"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}]}),
        )
    };
    let router = Router::new().route("/v1/models", get(models)).route("/v1/chat/completions", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// The front door as a process.
struct Door {
    child: Child,
    url: String,
}

impl Door {
    fn open(folder: &std::path::Path, backends: &str) -> Door {
        std::fs::write(folder.join("config.yaml"), CONFIG).expect("a file");
        std::fs::write(folder.join("servers.yaml"), backends).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_gswarm"))
            .args([
                "serve",
                "--config",
                "config.yaml",
                "--backends",
                "servers.yaml",
                "--port",
                "0",
                "--quiet",
            ])
            .args(["--max-requests", "20000", "--request-timeout", "3600"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("its address");
        Door { child, url: line.trim().trim_start_matches("Listening on ").to_owned() }
    }

    /// Most memory that it has had, in MiB.
    fn peak(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
        kib.unwrap_or(f64::NAN) / 1024.0
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn added() {
    let server = at_once().await;
    let folder = tempfile::tempdir().expect("a folder");
    let door = Door::open(folder.path(), &format!("backends: [{{kind: openai, url: \"{server}\"}}]"));
    // Both are warm before anything counts.
    for model in ["m", "plain"] {
        calls(&door.url, model, 200, 1).await;
        calls(&server, model, 200, 1).await;
    }
    for (rate, model) in RATES.into_iter().flat_map(|rate| ["m", "plain"].map(|model| (rate, model))) {
        compared(&server, &door, rate, model).await;
    }
}

async fn compared(server: &str, door: &Door, rate: u64, model: &str) {
    // Each round is a comparison of its own: what else the machine does in one of them spoils no other.
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        direct.push(Spread::of(calls(server, model, rate, SECONDS).await));
        through.push(Spread::of(calls(&door.url, model, rate, SECONDS).await));
    }
    let said = |what: &str, rounds: &[Spread]| {
        let (p50, p99) =
            (Middle::of(rounds.iter().map(|one| one.p50)), Middle::of(rounds.iter().map(|one| one.p99)));
        println!("{rate} calls/s of `{model}`, {what}: P50 {p50} ms, P99 {p99} ms");
    };
    said("directly", &direct);
    said("through the front door", &through);
    let added = |of: fn(&Spread) -> f64| {
        Middle::of(through.iter().zip(&direct).map(|(one, other)| of(one) - of(other)))
    };
    println!("added: P50 {} ms, P99 {} ms; {ROUNDS} rounds", added(|one| one.p50), added(|one| one.p99));
}

/// The median of some rounds, and between what they lie.
struct Middle([f64; 3]);

impl Middle {
    fn of(rounds: impl Iterator<Item = f64>) -> Middle {
        let mut rounds: Vec<f64> = rounds.collect();
        rounds.sort_by(f64::total_cmp);
        Middle([rounds[rounds.len() / 2], rounds[0], rounds[rounds.len() - 1]])
    }
}

impl std::fmt::Display for Middle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Middle([median, least, most]) = self;
        write!(f, "{median:.2} ({least:.2} to {most:.2})")
    }
}

struct Spread {
    p50: f64,
    p99: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Spread {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] * 1e3;
        Spread { p50: at(0.5), p99: at(0.99) }
    }
}

/// Calls at a steady pace, whatever the answers do; the seconds that each took from when it was due. A thread keeps the
/// pace: the runtime's own timers only know milliseconds, which is what is to be measured.
async fn calls(url: &str, model: &str, rate: u64, seconds: u64) -> Vec<f64> {
    let client = reqwest::Client::builder().build().expect("a client");
    let (url, runtime) = (format!("{url}/v1/chat/completions"), tokio::runtime::Handle::current());
    let hello = json!([{"role": "user", "content": "hello"}]);
    let body = json!({"model": model, "messages": hello});
    let pace = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let call = |at: u64| {
            let due = begun + Duration::from_micros(at * 1_000_000 / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let request = client.post(&url).json(&body);
            runtime.spawn(async move {
                let answer = request.send().await.expect("an answer");
                assert!(answer.status().is_success());
                let _ = answer.bytes().await.expect("all of it");
                due.elapsed().as_secs_f64()
            })
        };
        (0..rate * seconds).map(call).collect::<Vec<_>>()
    });
    let mut times = Vec::new();
    for call in pace.await.expect("it keeps the pace") {
        times.push(call.await.expect("it ends"));
    }
    times
}

/// Calls of a model that takes an hour: all but the first two wait.
async fn waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let door = Door::open(folder.path(), "backends: [{kind: emulated}]");
    let client = reqwest::Client::builder().build().expect("a client");
    let before = door.peak();
    let mut waiting = Vec::new();
    for at in 0..WAITING {
        let request = client.post(format!("{}/v1/chat/completions", door.url));
        let request = request
            .json(&json!({"model": "slow", "messages": [{"role": "user", "content": format!("call {at}")}]}));
        waiting.push(tokio::spawn(request.send()));
    }
    let queue = format!("{}/v1/queue?limit=1", door.url);
    let begun = Instant::now();
    let open = loop {
        let answer = client.get(&queue).send().await.expect("an answer");
        let queue: Value = answer.json().await.expect("JSON");
        let open = queue["open"].as_u64().unwrap_or(0) as usize;
        if open >= WAITING || begun.elapsed() > Duration::from_secs(60) {
            break open;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    println!("{open} requests wait in {:.0} MiB ({before:.0} MiB with none)", door.peak());
    waiting.into_iter().for_each(|call| call.abort());
}
