//! The model server as a process: its address, its answers, its end.

use crate::support::{Place, root};
use gswarm_testing::{LIMIT, ended};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// A server that does not outlive its test.
pub struct Running {
    child: Child,
    pub url: String,
}

impl Running {
    /// Starts it, and reads its address from the first line of its output.
    pub fn start(place: &Place, flags: &str) -> Running {
        Running::of(place, &format!("model-server --port 0 {flags}"))
    }

    /// The same for any server.
    pub fn of(place: &Place, line: &str) -> Running {
        Running::from(place.command(line))
    }

    /// The same for any command that starts one.
    pub fn from(mut command: Command) -> Running {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("HF_ENDPOINT");
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("Listening on ").unwrap_or_else(|| panic!("{line}")).to_string();
        Running { child, url }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code and all that it wrote to standard error.
    pub fn end(mut self) -> (i32, String) {
        let status = ended(&mut self.child);
        let mut told = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (status.code().unwrap_or(-1), told)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn client() -> reqwest::Client {
    gswarm_serve::guard::install_crypto();
    reqwest::Client::builder().timeout(LIMIT).build().unwrap()
}

pub async fn post(url: &str, path: &str, body: Value) -> (u16, Value) {
    let answer = client().post(format!("{url}{path}")).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_answers_and_ends_when_it_is_told_to() {
    let place = Place::new();
    place.run("models init --dir models").code(0);
    let server = Running::start(&place, "--models models");
    let (status, served) = post(&server.url, "/standalone/serve", json!({"model_name": "tiny-llm"})).await;
    assert_eq!(status, 200, "{served}");
    let ask = json!({"model": "tiny-llm", "prompt": "Once upon a time", "max_tokens": 5});
    let (status, said) = post(&server.url, "/v1/completions", ask).await;
    assert_eq!((status, &said["usage"]["completion_tokens"]), (200, &json!(5)));
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("tiny-llm") && told.contains("Shutting down"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_being_answered_is_answered_before_the_end() {
    let place = Place::with_work("simple", 1);
    let config = place.read("work/config.yaml");
    let model = config.lines().skip_while(|line| !line.starts_with("models")).nth(1).unwrap().trim();
    let model = model.trim_end_matches(':').to_string();
    let server = Running::start(&place, "--emulate work/config.yaml --speed 20");
    let (status, served) =
        post(&server.url, "/standalone/serve", json!({"model_name": model, "device": "cuda:0"})).await;
    assert_eq!((status, &served["data"]["emulated"]), (200, &json!(true)), "{served}");
    let path = format!("/standalone/call/{}", served["data"]["instance_id"].as_str().unwrap());
    // One that ended before it was seen to run is followed by another.
    let call = loop {
        let (url, path) = (server.url.clone(), path.clone());
        let data = json!({"data": {"prompt": "x", "max_length": 5000}});
        let call = tokio::spawn(async move { post(&url, &path, data).await });
        let asked = format!("{}/standalone/status", server.url);
        let mut runs = false;
        while !runs && !call.is_finished() {
            let status: Value = client().get(&asked).send().await.unwrap().json().await.unwrap();
            runs = status["serving_instances"][0]["running"] == 1;
        }
        if runs {
            break call;
        }
    };
    server.signal("-TERM");
    let (status, said) = call.await.unwrap();
    assert_eq!((status, &said["data"]["emulated"]), (200, &json!(true)));
    assert_eq!(server.end().0, 0);
}

#[test]
fn what_stops_a_server_from_starting_is_said() {
    let place = Place::new();
    place.write("token", "short\n");
    place.write("broken.yaml", "models: {}\n");
    let cases = [
        ("model-server --host 0.0.0.0 --port 0", "--token-file"),
        ("model-server --host 0.0.0.0 --port 0 --token-file token", "openssl rand"),
        ("model-server --port 0 --token-file nowhere", "nowhere"),
        ("model-server --port 0 --tls-cert a.pem", "--tls-key"),
        ("model-server --port 0 --tls-cert token --tls-key token", "token"),
        ("model-server --port 0 --emulate broken.yaml", "broken.yaml"),
        ("model-server --port 0 --speed 0", "above zero"),
        ("model-server --port 0 --hub ftp://x", "https://"),
        ("model-server --port 99999", "--port"),
    ];
    for (line, part) in cases {
        place.run(line).code(2).says(part);
    }
    let said = place.run("model-server --host 0.0.0.0 --port 0 --token-file token").err;
    assert!(!said.contains("short\n") && !said.contains("`short`"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_never_told() {
    let (place, token) = (Place::new(), "0123456789abcdef-secret");
    place.write("token", &format!("{token}\n"));
    let server = Running::start(&place, "--token-file token");
    let ask =
        |given: &str| client().get(format!("{}/standalone/status", server.url)).bearer_auth(given).send();
    assert_eq!(ask("wrong").await.unwrap().status(), 401);
    assert_eq!(ask(token).await.unwrap().status(), 200);
    server.signal("-INT");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("secret") && !told.contains("wrong"), "{told}");
}

/// The `curl` commands of the page, against a server that was started as the page says.
#[test]
fn the_commands_of_the_page_work() {
    if Command::new("curl").arg("--version").output().is_err() {
        return gswarm_testing::skip("there is no curl");
    }
    let page = std::fs::read_to_string(root().join("docs/model-server.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let text: String = blocks.collect::<String>().replace("\\\n", " ");
    let place = Place::new();
    place.run("models init --dir models").code(0);
    let server = Running::start(&place, "--models models");
    let address = server.url.trim_start_matches("http://");
    let (mut id, mut ran) = (String::new(), 0);
    for line in text.lines().filter(|line| line.starts_with("curl ")) {
        let line = line.replace("localhost:8000", address).replace("a1b2c3", &id);
        let done = Command::new("sh").args(["-c", &format!("{line} -sS -f")]).output().unwrap();
        let (out, err) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{line}\n{out}{err}");
        if line.contains("/standalone/serve") && line.contains("tiny-llm") {
            let served: Value = serde_json::from_str(&out).unwrap();
            id = served["data"]["instance_id"].as_str().unwrap().to_string();
        }
        ran += 1;
    }
    assert!(ran >= 8, "{ran} commands");
}
