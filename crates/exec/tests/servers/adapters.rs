//! Each adapter by itself, against one server at its worst.

use crate::mock::{Manners, Mock};
use crate::support::{call, connected, replica, servers};
use gswarm_core::{Gpus, Span};
use gswarm_exec::backend::{
    BackendError, BackendKind, Calls, OpenAiSpec, Replica, SglangSpec, VllmSpec, WeightTier,
};
use gswarm_exec::forward::Forward;
use gswarm_exec::work::{Direct, ReplicaCall};
use std::sync::atomic::Ordering;
use std::time::Duration;

const EXPECTED: Span = Span(100_000);

/// Servers that load and unload models, and tell where each stands.
const KINDS: [BackendKind; 5] =
    [BackendKind::Gswarm, BackendKind::Vllm, BackendKind::Ollama, BackendKind::LlamaCpp, BackendKind::KServe];

/// Unloads that are agreed to and end later are waited for; one that is only claimed is asked for again, and in the end
/// not believed.
#[tokio::test(flavor = "multi_thread")]
async fn an_unload_is_over_when_the_model_is_gone_and_not_before() {
    for kind in KINDS {
        for (lies, goes) in [(0, true), (1, true), (1000, false)] {
            let (mocks, mut spec) = servers(kind, 0, &Manners { lies, ..Manners::default() });
            spec.endpoint.timeouts.unload = if goes { 60.0 } else { 0.3 };
            let (backend, told) = connected(&spec);
            backend.load(replica(0), EXPECTED).await.unwrap();
            let result = backend.unload(replica(0)).await;
            assert_eq!(result.is_ok(), goes, "{}: {result:?}", kind.name());
            assert_eq!(mocks[0].world.held().is_empty(), goes, "{}", kind.name());
            if goes {
                // How long it takes, and that all of it is recorded, is tested under a paused clock.
                let told = told.lock().unwrap();
                assert_eq!(told.iter().map(|timed| timed.load).collect::<Vec<_>>(), [true, false]);
                assert_eq!(
                    told[0].tier,
                    if kind == BackendKind::Vllm { WeightTier::Host } else { WeightTier::Disk }
                );
            } else {
                let why = result.unwrap_err().to_string();
                assert!(why.contains("still there after 0.3 s"), "{why}");
            }
            mocks[0].world.has_behaved();
        }
    }
}

/// What was on a server before the run began, or is left of a load that nobody waits for any more, goes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_swept_before_it_is_used() {
    for kind in KINDS {
        let slow = Manners { load: Duration::from_millis(300), ..Manners::default() };
        let (mocks, spec) = servers(kind, 0, &slow);
        let (first, _) = connected(&spec);
        first.load(replica(1), EXPECTED).await.unwrap();
        let (backend, _) = connected(&spec);
        // Given up half-way: the server has begun the load, and nobody waits for it.
        let begun = async {
            while mocks[0].world.loads.load(Ordering::SeqCst) < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            biased;
            () = begun => {}
            result = backend.load(replica(0), EXPECTED) => panic!("{}: {result:?}", kind.name()),
        }
        backend.load(replica(2), EXPECTED).await.unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        assert_eq!(mocks[0].world.held().len(), 1, "{}", kind.name());
        backend.call(replica(2), &call("embedding", "x")).await.unwrap();
        mocks[0].world.has_behaved();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_gone_hangs_or_has_lost_the_model_is_said_to_be_gone() {
    // All at once: each waits until a server that hangs is given up.
    futures_util::future::join_all(KINDS.map(is_said_to_be_gone)).await;
}

async fn is_said_to_be_gone(kind: BackendKind) {
    let name = kind.name();
    let (mut mocks, mut spec) = servers(kind, 0, &Manners::default());
    spec.endpoint.timeouts.answer = 5.0;
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    mocks[0].world.held().clear();
    let lost = backend.call(replica(0), &call("llm", "x")).await;
    if kind.holds_one_model() {
        assert!(matches!(lost, Err(BackendError::Unwell(_))), "the others go on, {name}: {lost:?}");
    } else {
        assert!(matches!(lost, Err(BackendError::Gone(_))), "{name}: {lost:?}");
    }
    mocks[0].world.hangs.store(true, Ordering::SeqCst);
    let hangs = backend.call(replica(0), &call("llm", "x")).await;
    assert!(matches!(hangs, Err(BackendError::Gone(_))), "{name}: {hangs:?}");
    assert!(matches!(backend.reset().await, Err(BackendError::Gone(_))), "{name}");
    mocks[0].world.hangs.store(false, Ordering::SeqCst);
    backend.reset().await.unwrap_or_else(|error| panic!("{name}: {error}"));
    mocks.iter_mut().for_each(Mock::die);
    for result in [backend.load(replica(0), EXPECTED).await, backend.reset().await] {
        assert!(matches!(result, Err(BackendError::Gone(_))), "{name}: {result:?}");
    }
    mocks.iter_mut().for_each(Mock::revive);
    backend.reset().await.unwrap();
    backend.load(replica(0), EXPECTED).await.unwrap();
    let answer = backend.call(replica(0), &call("llm", "x")).await.unwrap();
    assert_eq!(answer["text"], "writer-there<x>", "{name}");
}

/// A model that does not fit says so with the sizes, once; from then on nobody is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_fit_is_not_tried_again() {
    for kind in KINDS {
        let manners = Manners { too_large: vec!["large-there"], ..Manners::default() };
        let (mut mocks, spec) = servers(kind, 0, &manners);
        let (backend, _) = connected(&spec);
        let first = backend.load(replica(3), EXPECTED).await.unwrap_err();
        let BackendError::DoesNotFit(why) = &first else { panic!("{}: {first:?}", kind.name()) };
        assert!(why.contains("60 GB") && why.contains("24.00 GiB"), "{why}");
        mocks.iter_mut().for_each(Mock::die);
        assert_eq!(backend.load(replica(3), EXPECTED).await.unwrap_err(), first, "{}", kind.name());
    }
}

/// A status, an answer, what is said of it, and what sort of error it is.
type Judged = (u16, &'static str, &'static str, fn(&BackendError) -> bool);

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_judged_by_their_status_and_their_form() {
    use BackendError::{DoesNotFit, Failed, Gone, Refused, Unwell};
    let (mocks, spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    let cases: [Judged; 16] = [
        (400, r#"{"error": {"message": "no"}}"#, "answers 400: no", |error| matches!(error, Refused(_))),
        (401, r#"{"detail": "no"}"#, "answers 401: no", |error| matches!(error, Refused(_))),
        (404, "no", "answers 404: no", |error| matches!(error, Refused(_))),
        (302, "", "answers 302", |error| matches!(error, Failed(_))),
        (408, "", "answers 408", |error| matches!(error, Unwell(_))),
        (429, r#"{"message": "later"}"#, "answers 429: later", |error| matches!(error, Unwell(_))),
        (500, r#"{"error": "no"}"#, "answers 500: no", |error| matches!(error, Unwell(_))),
        (503, "", "answers 503", |error| matches!(error, Unwell(_))),
        (507, "", "answers 507", |error| matches!(error, DoesNotFit(_))),
        (200, "<html>", "is not JSON: `<html>`", |error| matches!(error, Failed(_))),
        (200, "", "is not JSON", |error| matches!(error, Failed(_))),
        (200, "{}", "no usable `choices/0/message/content`", |error| matches!(error, Failed(_))),
        (200, "[1]", "no usable", |error| matches!(error, Failed(_))),
        (200, r#"{"choices": [{"message": {"content": 7}}]}"#, "no usable", |error| {
            matches!(error, Failed(_))
        }),
        (200, r#"{"choices": [{"message": {"content": null}}]}"#, "no usable", |error| {
            matches!(error, Failed(_))
        }),
        (0, "", "http://127.0.0.1", |error| matches!(error, Unwell(_))),
    ];
    let world = &mocks[0].world;
    world.says_to_calls.store(true, Ordering::SeqCst);
    for (status, text, says, is_right) in cases {
        *world.says.lock().unwrap() = Some((status, text));
        let error = backend.call(replica(0), &call("llm", "x")).await.unwrap_err();
        assert!(is_right(&error) && error.to_string().contains(says), "{status} {text}: {error:?}");
    }
    // Something that says the same of its state is not the server, or is unwell: the call is not to blame.
    world.says_to_calls.store(false, Ordering::SeqCst);
    for (status, text, says, _) in cases {
        *world.says.lock().unwrap() = Some((status, text));
        let error = backend.call(replica(0), &call("llm", "x")).await.unwrap_err();
        let is_right = if status == 0 { matches!(error, Gone(_)) } else { matches!(error, Unwell(_)) };
        assert!(is_right && error.to_string().contains(says), "{status} {text}: {error:?}");
    }
}

/// Two replicas to the scheduler are one model to a server that cannot be told where to put it.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_goes_with_the_last_of_its_replicas() {
    for kind in [BackendKind::Ollama, BackendKind::LlamaCpp, BackendKind::KServe] {
        let (mocks, spec) = servers(kind, 0, &Manners::default());
        let (backend, told) = connected(&spec);
        let other = Replica { gpus: Gpus::new(1, 1), ..replica(0) };
        let (one, two) = tokio::join!(backend.load(replica(0), EXPECTED), backend.load(other, EXPECTED));
        one.and(two).unwrap();
        backend.unload(replica(0)).await.unwrap();
        backend.call(other, &call("llm", "x")).await.unwrap();
        backend.unload(other).await.unwrap();
        assert!(mocks[0].world.held().is_empty(), "{}", kind.name());
        assert_eq!(told.lock().unwrap().len(), 2, "{}: one load and one unload", kind.name());
        mocks[0].world.has_behaved();
    }
}

/// Texts, vectors and pictures; conversations and texts to go on with.
#[tokio::test(flavor = "multi_thread")]
async fn calls_take_the_form_that_the_model_needs() {
    let (_mocks, mut spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    let chat = backend.call(replica(0), &call("llm", "x")).await.unwrap();
    assert_eq!((&chat["text"], &chat["usage"]["total_tokens"]), (&"writer-there<x>".into(), &5.into()));
    let vector = backend.call(replica(0), &call("embedding", "x")).await.unwrap();
    assert_eq!(vector["embedding"], serde_json::json!([0.5, 0.25]));
    let picture = backend.call(replica(0), &call("image_generation", "x")).await.unwrap();
    assert_eq!(picture["image"], "cGljdHVyZQ==");
    spec.server = OpenAiSpec { calls: Calls::Completions }.into();
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    assert_eq!(backend.call(replica(0), &call("llm", "x")).await.unwrap()["text"], "writer-there<x>");
    // A model that the server does not list is no model of it.
    let missing = backend.load(replica(3), EXPECTED).await.unwrap_err().to_string();
    assert!(missing.contains("`large-there`") && missing.contains("writer-there"), "{missing}");
}

/// Both levels of sleep, and memory that comes back empty.
#[tokio::test(flavor = "multi_thread")]
async fn sleepers_wake_by_their_level() {
    for (kind, level) in
        [(BackendKind::Vllm, 1), (BackendKind::Vllm, 2), (BackendKind::Sglang, 1), (BackendKind::Sglang, 2)]
    {
        let awake = vec!["writer-there", "critic-there"];
        let (mocks, mut spec) = servers(kind, 0, &Manners { awake, room: 2, ..Manners::default() });
        spec.server = match kind {
            BackendKind::Vllm => VllmSpec { level, ..VllmSpec::default() }.into(),
            _ => SglangSpec { level, ..SglangSpec::default() }.into(),
        };
        let (backend, told) = connected(&spec);
        for model in [0, 1, 0] {
            backend.load(replica(model), EXPECTED).await.unwrap();
            backend.call(replica(model), &call("llm", "x")).await.unwrap();
            backend.unload(replica(model)).await.unwrap();
        }
        let tier = if level == 1 { WeightTier::Host } else { WeightTier::Disk };
        assert!(told.lock().unwrap().iter().all(|timed| timed.tier == tier));
        mocks[0].world.has_behaved();
    }
}

/// The token goes to the server and nowhere else, even if the server repeats it.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_shown_to_the_server_alone() {
    // A variable that every process has: setting one would be unsafe.
    let path = std::env::var("PATH").unwrap();
    let manners = Manners { token: Some(path.clone().leak()), ..Manners::default() };
    let (_mocks, mut spec) = servers(BackendKind::OpenAi, 0, &manners);
    spec.endpoint.token_env = Some("PATH".to_owned());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    let (_others, mut wrong) =
        servers(BackendKind::OpenAi, 0, &Manners { token: Some("other"), ..Manners::default() });
    wrong.endpoint.token_env = Some("PATH".to_owned());
    let (backend, _) = connected(&wrong);
    let error = backend.load(replica(0), EXPECTED).await.unwrap_err();
    assert!(matches!(error, BackendError::Unwell(_)), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("wrong token: Bearer ***") && !said.contains(&path), "{said}");
}

/// A server that says what it has, and breaks every answer of a model off.
fn cuts_answers_off() -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> =
                    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let models = r#"{"data": [{"id": "writer-there"}]}"#;
                let answer = match head.first() {
                    Some(first) if first.starts_with("GET") => {
                        format!(
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{models}",
                            models.len()
                        )
                    }
                    _ => "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"cho".to_owned(),
                };
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    url
}

/// The server is there and has the model: an answer that breaks off is no reason to take it out, and everybody's calls with
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_fails_alone() {
    let (_mocks, mut spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
    spec.endpoint.url = Some(cuts_answers_off());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    let result = backend.call(replica(0), &call("llm", "x")).await;
    assert!(matches!(result, Err(BackendError::Unwell(_))), "{result:?}");
}

/// Of several servers in one entry the others go on, and what needs the one that is dead waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_servers_is_waited_for_alone() {
    let (mut one, mut spec) = servers(BackendKind::OpenAi, 0, &Manners::default());
    let (other, _) = servers(BackendKind::OpenAi, 0, &Manners::default());
    spec.models.get_mut("critic").unwrap().url = Some(other[0].url());
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    backend.load(replica(1), EXPECTED).await.unwrap();
    one[0].die();
    let dead = std::sync::Arc::clone(&backend);
    let waiting = tokio::spawn(async move { dead.call(replica(0), &call("llm", "x")).await });
    backend.call(replica(1), &call("llm", "x")).await.unwrap();
    assert!(!waiting.is_finished());
    one[0].revive();
    let result = tokio::time::timeout(gswarm_testing::LIMIT, waiting).await.unwrap().unwrap();
    assert!(matches!(result, Err(BackendError::Crashed(_))), "{result:?}");
    backend.call(replica(0), &call("llm", "x")).await.unwrap();
}

/// The same where models sleep and wake: the others sleep and wake on, and the one that is back, with a model that nobody
/// has asked for, is put to sleep before another comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_that_dies_leaves_its_neighbours_alone() {
    for kind in [BackendKind::Vllm, BackendKind::Sglang] {
        // SGLang has released its memory when it says so.
        let unload = Duration::from_millis(if kind == BackendKind::Sglang { 0 } else { 60 });
        let manners = Manners { awake: vec!["writer-there"], unload, ..Manners::default() };
        let (mut mocks, mut spec) = servers(kind, 0, &manners);
        // So long each time that it is waited for the one that died.
        spec.endpoint.timeouts.answer = 3.0;
        let (backend, _) = connected(&spec);
        backend.load(replica(0), EXPECTED).await.unwrap();
        mocks[0].die();
        let lost = backend.call(replica(0), &call("llm", "x")).await;
        assert!(matches!(lost, Err(BackendError::Crashed(_))), "{kind:?}: {lost:?}");
        backend.unload(replica(0)).await.unwrap();
        backend.load(replica(1), EXPECTED).await.unwrap();
        backend.call(replica(1), &call("llm", "x")).await.unwrap();
        let absent = backend.load(replica(0), EXPECTED).await;
        assert!(matches!(absent, Err(BackendError::Unwell(_))), "{kind:?}: {absent:?}");
        backend.unload(replica(1)).await.unwrap();
        mocks[0].revive();
        backend.load(replica(2), EXPECTED).await.unwrap();
        backend.unload(replica(2)).await.unwrap();
        backend.load(replica(0), EXPECTED).await.unwrap();
        backend.call(replica(0), &call("llm", "x")).await.unwrap();
        mocks[0].world.has_behaved();
        // Where all of them are gone, the entry is.
        mocks.iter_mut().for_each(crate::mock::Mock::die);
        let gone = backend.call(replica(0), &call("llm", "x")).await;
        assert!(matches!(gone, Err(BackendError::Gone(_))), "{kind:?}: {gone:?}");
    }
}

/// A server that agreed to wake and has not done so, and does not tell where it stands: once it was believed for good, and
/// every further call failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_denies_its_model_is_brought_to_have_it() {
    let unload = Duration::ZERO;
    let (mocks, spec) = servers(BackendKind::Sglang, 0, &Manners { unload, ..Manners::default() });
    let (backend, _) = connected(&spec);
    backend.load(replica(0), EXPECTED).await.unwrap();
    mocks[0].world.unload("writer-there");
    let denied = backend.call(replica(0), &call("llm", "x")).await;
    assert!(matches!(&denied, Err(error) if error.to_string().contains("not loaded")), "{denied:?}");
    backend.call(replica(0), &call("llm", "x")).await.unwrap();
    mocks[0].world.has_behaved();
}

/// A server that was started anew has lost its models: what it says of that is nothing for whoever asked. What it says of a
/// bad request is.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_model_is_not_the_fault_of_whoever_asks() {
    for kind in [BackendKind::Gswarm, BackendKind::Ollama, BackendKind::LlamaCpp] {
        let manners = Manners { poison: Some("poison"), ..Manners::default() };
        let (mocks, spec) = servers(kind, 0, &manners);
        let (backend, _) = connected(&spec);
        backend.load(replica(0), EXPECTED).await.unwrap();
        let ask = |prompt: &str| {
            let body =
                serde_json::json!({"model": "writer", "messages": [{"role": "user", "content": prompt}]});
            let body = body.as_object().unwrap().clone();
            let kind = Some("llm".to_owned());
            Direct::new(Forward { path: "/v1/chat/completions", body, kind, estimate: EXPECTED, raw: None })
        };
        let (direct, answering) = ask("poison");
        ReplicaCall::Direct(direct).carry_out(backend.as_ref(), replica(0)).await.unwrap();
        // The stand-in for gswarm's own server has no such route at all.
        let expected = if kind == BackendKind::Gswarm { 404 } else { 400 };
        assert_eq!(answering.head.await.unwrap().unwrap().status, expected, "{kind:?}");
        mocks[0].world.held().clear();
        let (direct, mut answering) = ask("x");
        let lost = ReplicaCall::Direct(direct).carry_out(backend.as_ref(), replica(0)).await;
        assert!(matches!(lost, Err(BackendError::Gone(_))), "{kind:?}: {lost:?}");
        assert!(answering.head.try_recv().is_err(), "{kind:?}: nothing was answered");
    }
}
