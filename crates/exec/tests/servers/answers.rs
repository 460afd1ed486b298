//! Answers with status 200 that are no success: the call fails, and nothing goes back to whoever asked.

use crate::mock::Manners;
use crate::support::{call, connected, replica, servers};
use gswarm_core::Span;
use gswarm_exec::backend::{BackendError, BackendKind};
use gswarm_exec::forward::{Forward, Piece};
use gswarm_exec::work::{Direct, ReplicaCall};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const NO_SUCCESS: [(&str, &str); 5] = [
    (
        r#"{"choices": [{"message": {"content": "half a te"}, "finish_reason": "abort"}], "usage": {}}"#,
        "abort",
    ),
    (r#"{"choices": [{"message": {"content": ""}, "finish_reason": "error"}], "usage": {}}"#, "error"),
    (r#"{"choices": [], "usage": {}}"#, "empty"),
    (
        r#"{"model": "critic-there", "choices": [{"message": {"content": "t"}}], "usage": {}}"#,
        "`critic-there` answered in place of `writer-there`",
    ),
    (r#"{"error": {"message": "the engine has died"}}"#, "the engine has died"),
];

fn chat(stream: bool) -> Forward {
    let body = json!({"model": "writer", "stream": stream, "messages": [{"role": "user", "content": "x"}]});
    let body = body.as_object().unwrap().clone();
    Forward {
        path: "/v1/chat/completions",
        body,
        kind: Some("llm".to_owned()),
        estimate: Span(100_000),
        raw: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_success_fails_and_is_not_passed_on() {
    for (said, why) in NO_SUCCESS {
        let (mocks, spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
        let (backend, _) = connected(&spec);
        backend.load(replica(0), Span(100_000)).await.unwrap();
        *mocks[0].world.says.lock().unwrap() = Some((200, said));
        mocks[0].world.says_to_calls.store(true, Ordering::SeqCst);
        let failed = backend.call(replica(0), &call("llm", "x")).await;
        assert!(
            matches!(&failed, Err(BackendError::Failed(found)) if found.contains(why)),
            "{said}: {failed:?}"
        );
        let (direct, mut answering) = Direct::new(chat(false));
        let failed = ReplicaCall::Direct(direct).carry_out(backend.as_ref(), replica(0)).await;
        assert!(
            matches!(&failed, Err(BackendError::Failed(found)) if found.contains(why)),
            "{said}: {failed:?}"
        );
        assert!(answering.head.try_recv().is_err(), "{said}: nothing was answered");
    }
}

/// vLLM and SGLang always say how many tokens there were.
#[tokio::test(flavor = "multi_thread")]
async fn usage_is_missed_where_it_is_promised() {
    for kind in [BackendKind::Vllm, BackendKind::Sglang] {
        let (_mocks, spec) = servers(kind, 0, &Manners { counts_tokens: false, ..Manners::default() });
        let (backend, _) = connected(&spec);
        backend.load(replica(0), Span(100_000)).await.unwrap();
        let failed = backend.call(replica(0), &call("llm", "x")).await;
        assert!(
            matches!(&failed, Err(BackendError::Failed(found)) if found.contains("usage")),
            "{}: {failed:?}",
            kind.name()
        );
    }
}

/// Whoever asks for a model by its name in the configuration is answered with that name, whatever the server calls it.
#[tokio::test(flavor = "multi_thread")]
async fn answers_name_the_model_that_was_asked_for() {
    let (mocks, spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), Span(100_000)).await.unwrap();
    let said =
        r#"{"model": "/models/writer", "choices": [{"message": {"content": "t"}, "finish_reason": "stop"}]}"#;
    *mocks[0].world.says.lock().unwrap() = Some((200, said));
    let (direct, mut answering) = Direct::new(chat(false));
    ReplicaCall::Direct(direct).carry_out(backend.as_ref(), replica(0)).await.unwrap();
    let Some(Piece::Data(bytes)) = answering.pieces.recv().await else { panic!("there is no answer") };
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(answer["model"], "writer");
    assert_eq!(answer["choices"][0]["message"]["content"], "t");
}
