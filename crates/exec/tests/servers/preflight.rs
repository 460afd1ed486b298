//! What is wrong with servers is found before a run begins, with its code.

use crate::support::{instance, scenario};
use axum::extract::{Request, State};
use gswarm_core::input::{Code, Source};
use gswarm_core::{Instance, Span};
use gswarm_exec::backend::{Finding, LoadRecorder, read_backends};
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::preflight::preflight;
use rstest::rstest;
use std::sync::Arc;

type Answers = &'static [(&'static str, u16, &'static str)];

/// A server that answers questions by a table, and 404 to all others.
async fn serves(answers: Answers) -> String {
    async fn answer(
        State(answers): State<Answers>,
        request: Request,
    ) -> (axum::http::StatusCode, &'static str) {
        let found = answers.iter().find(|(path, ..)| *path == request.uri().path());
        let &(_, status, text) = found.unwrap_or(&("", 404, "no such page"));
        (axum::http::StatusCode::from_u16(status).unwrap(), text)
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().fallback(answer).with_state(answers);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

fn problem() -> Instance {
    instance(&scenario(&[("review", "x")]), 1)
}

/// What is found of the servers of a file; `writer` alone is used.
async fn found(file: &str, patience: Span) -> Result<Vec<Finding>, Vec<Finding>> {
    let reading = read_backends(Source { name: "servers", bytes: file.as_bytes() });
    let file = reading.file.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    let nobody: LoadRecorder = Arc::new(|_| {});
    let instance = problem();
    let mut members = Vec::new();
    for spec in &file.backends {
        let gpus = gswarm_core::Gpus::new(0, 1);
        let backend = gswarm_exec::backend::connect(spec, gpus, &instance, &Clock::real(), &nobody).unwrap();
        let of = |name: &String| instance.models.iter().position(|model| model.name == *name).unwrap().into();
        let models = Some(spec.models.keys().map(of).collect());
        members.push(gswarm_exec::fleet::Member { name: spec.title(), backend, gpus, reach: 1, models });
    }
    let writer = instance.models.iter().position(|model| model.name == "writer").unwrap().into();
    let fleet = gswarm_exec::fleet::Fleet::new(members);
    preflight(&fleet, &instance, |model| model == writer, patience, |_| true).await
}

const LISTED: &str = r#"{"data": [{"id": "w"}]}"#;
const AWAKE: &str = r#"{"is_sleeping": false}"#;
const SLEEPS: &str = r#"{"vllm_config": {"model_config": {"enable_sleep_mode": true}}}"#;
const NEVER: &str = r#"{"vllm_config": {"model_config": {"enable_sleep_mode": false}}}"#;

#[rstest]
#[case::all_is_well("vllm", &[("/v1/models", 200, LISTED), ("/is_sleeping", 200, AWAKE), ("/server_info", 200, SLEEPS)], None)]
#[case::it_does_not_say("vllm", &[("/v1/models", 200, LISTED), ("/is_sleeping", 200, AWAKE)], None)]
#[case::a_stranger("vllm", &[("/v1/models", 200, "<html>")], Some(Code::ServerStranger))]
#[case::nothing_there("vllm", &[], Some(Code::ServerStranger))]
#[case::another_model("vllm", &[("/v1/models", 200, r#"{"data": [{"id": "v"}]}"#), ("/is_sleeping", 200, AWAKE)], Some(Code::ModelNotListed))]
#[case::no_sleep("vllm", &[("/v1/models", 200, LISTED)], Some(Code::NoSleep))]
#[case::sleep_is_off("vllm", &[("/v1/models", 200, LISTED), ("/is_sleeping", 200, AWAKE), ("/server_info", 200, NEVER)], Some(Code::SleepOff))]
#[case::memory_is_kept("sglang", &[("/v1/models", 200, LISTED), ("/get_server_info", 200, r#"{"enable_memory_saver": false}"#)], Some(Code::SleepOff))]
#[case::not_listed("openai", &[("/v1/models", 200, r#"{"data": []}"#)], Some(Code::ModelNotListed))]
#[case::no_router("llamacpp", &[("/models", 200, r#"{"data": [{"id": "w"}]}"#)], Some(Code::ServerStranger))]
#[case::not_pulled("ollama", &[("/api/tags", 200, r#"{"models": []}"#)], Some(Code::ModelNotListed))]
#[case::pulled("ollama", &[("/api/tags", 200, r#"{"models": [{"name": "w:latest", "size": 1000}]}"#)], None)]
#[tokio::test(flavor = "multi_thread")]
async fn faults_are_told_with_their_codes(
    #[case] kind: &str,
    #[case] answers: Answers,
    #[case] expected: Option<Code>,
) {
    let url = serves(answers).await;
    let models = match kind {
        // Two of them share the GPU.
        "vllm" | "sglang" => {
            format!("{{writer: {{as: w, url: '{url}'}}, critic: {{as: c, url: 'http://127.0.0.1:9'}}}}")
        }
        _ => "{writer: w}".to_owned(),
    };
    let own = if kind == "vllm" || kind == "sglang" { String::new() } else { format!(", url: '{url}'") };
    let file = format!("backends: [{{kind: {kind}, gpus: 0{own}, models: {models}}}]");
    let found = found(&file, Span(1)).await;
    match expected {
        None => assert_eq!(found, Ok(Vec::new())),
        Some(code) => {
            let errors = found.unwrap_err();
            assert_eq!(errors.iter().map(|one| one.code).collect::<Vec<_>>(), [code], "{errors:?}");
            assert!(errors[0].what.starts_with(kind) && !errors[0].fix.is_empty(), "{errors:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_does_not_know_is_told_and_is_no_error() {
    let url =
        serves(&[("/api/tags", 200, r#"{"models": [{"name": "w:latest", "size": 900000000000}]}"#)]).await;
    let file = format!("backends: [{{kind: ollama, gpus: 0, url: '{url}', models: {{writer: w}}}}]");
    assert_eq!(found(&file, Span(1)).await.unwrap()[0].code, Code::LargerOnServer);
    let answers: Answers =
        &[("/v1/models", 200, LISTED), ("/is_sleeping", 200, AWAKE), ("/server_info", 200, NEVER)];
    let url = serves(answers).await;
    let file = format!("backends: [{{kind: vllm, gpus: 0, models: {{writer: {{as: w, url: '{url}'}}}}}}]");
    assert_eq!(found(&file, Span(1)).await.unwrap()[0].code, Code::SleepUnneeded);
}

/// A server that does not answer is waited for, unless another has its models.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_is_waited_for_unless_another_has_its_models() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let entry = |name: &str, url: &str| {
        format!("{{name: {name}, kind: openai, gpus: 0, url: '{url}', models: {{writer: w}}}}")
    };
    let errors = found(&format!("backends: [{}]", entry("dead", &dead)), Span(1)).await.unwrap_err();
    assert_eq!(errors[0].code, Code::ServerSilent);
    assert!(errors[0].what.starts_with("dead does not answer"), "{errors:?}");
    let url = serves(&[("/v1/models", 200, LISTED)]).await;
    let both = format!("backends: [{}, {}]", entry("dead", &dead), entry("well", &url));
    let told = found(&both, Span(u64::MAX / 2)).await.unwrap();
    assert_eq!((told.len(), told[0].code), (1, Code::ServerSilent), "{told:?}");
    // Nothing is asked of servers that are not there to be asked.
    let emulated = config::fleet(
        &config::emulated(1.0),
        &problem(),
        &Clock::real(),
        &(Arc::new(|_: &_| {}) as LoadRecorder),
    );
    assert!(preflight(&emulated.unwrap(), &problem(), |_| true, Span(1), |_| true).await.unwrap().is_empty());
}
