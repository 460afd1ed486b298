//! Batches and services whose process is killed again and again end as if it had not been.

use crate::http::http_server;
use crate::model_server::{Running, client};
use crate::support::Place;
use gswarm_testing::until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// How many kills; `GSWARM_KILLS=300` tries more of them.
fn kills() -> u64 {
    std::env::var("GSWARM_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(12)
}

/// Numbers below a given one, the same every time.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 88_172_645_463_325_252_u64;
    move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// The bytes of a journal, with what was written beside it.
fn written(place: &Place, out: &str) -> u64 {
    let size = |file: &str| std::fs::metadata(place.path(out).join(file)).map_or(0, |found| found.len());
    size("journal.db") + size("journal.db-wal")
}

/// Kills a command once it has written so much to its journal; whether it had ended by itself before.
fn killed_after(place: &Place, line: &str, out: &str, bytes: u64) -> bool {
    let before = written(place, out);
    let mut command = place.command(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut ended = false;
    until("the journal grows, or the run is over", || {
        ended = child.try_wait().unwrap().is_some();
        // What is beside the journal moves into it: then it is shorter.
        ended || written(place, out).abs_diff(before) >= bytes
    });
    child.kill().unwrap();
    child.wait().unwrap();
    ended
}

#[test]
fn a_run_that_is_killed_at_random_moments_loses_nothing_and_does_nothing_twice() {
    let place = Place::with_work("simple", 20);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 3000}]");
    let line = "run --live --backends servers.yaml --policy offline --gpus 4 --quiet @work".to_owned();
    // What a run writes in all; each is killed after a part of it, the same parts every time.
    place.run(&format!("{line} --out whole")).code(0);
    let all = written(&place, "whole");
    let mut random = numbers();
    let (mut done, mut runs) = (0, 0);
    while done < kills() {
        let out = format!("out{runs}");
        runs += 1;
        let mut ended = killed_after(&place, &format!("{line} --out {out}"), &out, random(all / 2));
        while !ended && done < kills() {
            done += 1;
            // Killed before it had begun: nothing is there, and nothing is lost.
            if !place.path(&out).join("journal.db").exists() {
                break;
            }
            ended = killed_after(&place, &format!("resume {out} --quiet"), &out, random(all / 2));
        }
        finish(&place, &out, &line);
    }
}

/// Lets a run come to its end, and checks all of it.
fn finish(place: &Place, out: &str, line: &str) {
    let resumed = place.run(&format!("resume {out} --quiet"));
    if resumed.code != 0 {
        // Only a run that had not begun cannot be resumed; it begins anew.
        assert!(
            resumed.err.contains("holds no run") || !place.path(out).join("journal.db").exists(),
            "{}",
            resumed.err
        );
        let _ = std::fs::remove_dir_all(place.path(out));
        place.run(&format!("{line} --out {out}")).code(0);
    }
    place.run(&format!("check {out}/offline_execution_log.json @work")).code(0);
    let log = place.json(&format!("{out}/offline_execution_log.json"));
    let mut completed: BTreeMap<(String, String), u32> = BTreeMap::new();
    for one in log["executions"].as_array().unwrap() {
        if one["status"] == "completed" {
            let text = |field: &str| one[field].as_str().unwrap().to_owned();
            *completed.entry((text("request_id"), text("node_id"))).or_default() += 1;
        }
    }
    assert!(completed.values().all(|&times| times == 1), "nothing was done twice");
    let results = place.read(&format!("{out}/offline_results.jsonl"));
    assert_eq!(results.lines().count(), 20);
    assert!(results.lines().all(|line| line.contains("\"status\":\"completed\"")));
}

const STORIES: &str = "
models: {writer: {memory_gb: 14, gpus_required: 1, load_time_seconds: 0.1, inference_time_mean: 0.01, type: llm}}
workflows:
  story:
    nodes: [{id: write, model: writer, inputs: [wish], outputs: [text]}, {id: judge, model: writer, inputs: [text], outputs: [verdict]}]
    edges: [{from: write, to: judge}]
cluster: {gpus: 2}
";

/// How often a server was asked for what.
type Asked = Arc<Mutex<BTreeMap<String, u32>>>;

/// A server that repeats what it is asked, and counts it.
fn echo(asked: &Asked) -> String {
    let asked = Arc::clone(asked);
    http_server(move |head, body| {
        if head.starts_with("GET") {
            return Some((200, json!({"data": [{"id": "writer"}]})));
        }
        // Who was killed while it asked has not said all of it.
        let Ok(body) = serde_json::from_str::<Value>(body) else { return None };
        let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
        *asked.lock().unwrap().entry(prompt.clone()).or_default() += 1;
        Some((
            200,
            json!({"choices": [{"message": {"content": format!("{prompt}!")}, "finish_reason": "stop"}]}),
        ))
    })
}

async fn submit(url: String, name: String) -> Option<u16> {
    let body = json!({"request_id": name, "input_data": {"wish": name}});
    let sent = client().post(format!("{url}/v1/workflows/story/requests")).json(&body).send().await.ok()?;
    Some(sent.status().as_u16())
}

async fn result(url: &str, name: &str) -> Value {
    loop {
        let answer = client().get(format!("{url}/v1/requests/{name}/result?wait=60")).send().await.unwrap();
        let (status, found) = (answer.status().as_u16(), answer.json().await.unwrap());
        assert!(matches!(status, 200 | 202), "{name}: {status} {found}");
        if status == 200 {
            return found;
        }
    }
}

/// A service is killed while it takes requests in and works on others. What it accepted completes, and once a result was
/// read nothing of its request runs again.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_killed_again_and_again_keeps_what_it_accepted() {
    let (place, asked) = (Place::new(), Asked::default());
    place.write("config.yaml", STORIES);
    place.write("servers.yaml", &format!("backends: [{{kind: openai, url: '{}'}}]", echo(&asked)));
    let calls = |name: &str| {
        let asked = asked.lock().unwrap();
        [name.to_owned(), format!("{name}!")].map(|prompt| asked.get(&prompt).copied().unwrap_or(0))
    };
    let serve =
        || Running::of(&place, "serve --config config.yaml --backends servers.yaml --port 0 --state state");
    let mut random = numbers();
    let (mut accepted, mut read) = (Vec::new(), BTreeMap::new());
    for round in 0..kills() {
        let server = serve();
        let url = server.url.clone();
        for number in 0..1 + random(4) {
            let name = format!("r{round}-{number}");
            assert_eq!(submit(url.clone(), name.clone()).await, Some(202));
            accepted.push(name);
        }
        // One of those that wait, or of those that have been read before.
        let name: &String = &accepted[random(accepted.len() as u64) as usize];
        let found = result(&url, name).await;
        assert_eq!(found["status"], "completed", "{found}");
        let (known, made) = read.entry(name.clone()).or_insert_with(|| (found.clone(), calls(name)));
        assert_eq!((&*known, &*made), (&found, &calls(name)), "{name}");
        // This one is on its way in: what it is told before the end holds.
        let last = format!("r{round}-last");
        let submitted = tokio::spawn(submit(url, last.clone()));
        server.signal("-KILL");
        if submitted.await.unwrap() == Some(202) {
            accepted.push(last);
        }
    }
    let server = serve();
    for name in &accepted {
        let found = result(&server.url, name).await;
        let told = found["outputs"]["judge"].to_string();
        assert!(found["status"] == "completed" && told.contains(&format!("{name}!!")), "{name}: {found}");
    }
    for (name, (known, made)) in &read {
        assert_eq!((known, made), (&result(&server.url, name).await, &calls(name)), "{name}");
    }
}
