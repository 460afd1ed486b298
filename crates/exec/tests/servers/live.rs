//! Whole runs over each kind of server, with failures all the way: every request is accounted for.

use crate::mock::{Manners, Mock};
use crate::support::{as_read, hasty, instance, passes_the_check, patience, run, scenario, servers};
use gswarm_exec::backend::{BackendKind, BackendsFile};
use gswarm_exec::drive::FinishedRun;
use gswarm_testing::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn cluster(kind: BackendKind, manners: &Manners) -> (Vec<Mock>, BackendsFile) {
    let (mut mocks, one) = servers(kind, 0, manners);
    let (more, other) = servers(kind, 1, manners);
    mocks.extend(more);
    (mocks, BackendsFile { backends: vec![as_read(&one), as_read(&other)] })
}

fn manners(kind: BackendKind, mischief: u64) -> Manners {
    // What such a server starts with is awake; the run has to put it to sleep first.
    let awake = if kind == BackendKind::Vllm { vec!["large-there"] } else { Vec::new() };
    // SGLang's servers all start awake: whoever starts them has seen to it that they fit.
    let room = if kind == BackendKind::Sglang { 4 } else { 1 };
    let awake = if kind == BackendKind::Sglang {
        vec!["writer-there", "critic-there", "index-there", "large-there"]
    } else {
        awake
    };
    Manners { mischief, awake, room, ..Manners::default() }
}

fn everything_is_there(instance: &gswarm_core::Instance, finished: &FinishedRun, kind: BackendKind) {
    let name = kind.name();
    passes_the_check(instance, finished);
    let failures: Vec<_> = finished.failures.iter().map(|failure| &failure.why).collect();
    assert_eq!(finished.outputs.len(), instance.tasks(), "{name}: {failures:#?}");
    for (request, _) in instance.requests.iter_enumerated() {
        let tasks: Vec<_> = instance.tasks_of(request).collect();
        let text = |task: usize, output: &str| {
            finished.outputs[&tasks[task]][output]["text"].as_str().unwrap_or_default().to_owned()
        };
        let wish = format!("wish{}", request.0);
        assert_eq!(text(0, "story"), format!("writer-there<{wish}>"), "{name}");
        // The text that one node wrote is what the next one read.
        assert_eq!(text(1, "verdict"), format!("critic-there<writer-there<{wish}>>"), "{name}");
        let place = &finished.outputs[&tasks[2]]["place"];
        assert_eq!(place["embedding"], serde_json::json!([0.5, 0.25]), "{name}: {place}");
    }
}

async fn runs(kind: BackendKind, mischief: u64) {
    let wishes: Vec<String> = (0..10).map(|number| format!("wish{number}")).collect();
    let requests: Vec<(&str, &str)> = wishes.iter().map(|wish| ("review", wish.as_str())).collect();
    let scenario = scenario(&requests);
    let instance = instance(&scenario, 2);
    let (mocks, file) = cluster(kind, &manners(kind, mischief));
    let patience = if mischief > 0 { hasty() } else { patience() };
    let finished = run(&scenario, &instance, &file, patience).await.unwrap();
    everything_is_there(&instance, &finished, kind);
    mocks.iter().for_each(|mock| mock.world.has_behaved());
}

/// Servers that die with work on them, and come back empty.
async fn outlives_its_servers(kind: BackendKind) {
    {
        let wishes: Vec<String> = (0..24).map(|number| format!("wish{number}")).collect();
        let requests: Vec<(&str, &str)> = wishes.iter().map(|wish| ("review", wish.as_str())).collect();
        let scenario = scenario(&requests);
        let instance = instance(&scenario, 2);
        let (mut mocks, file) =
            cluster(kind, &Manners { call: Duration::from_millis(20), ..manners(kind, 0) });
        let half = mocks.len() / 2;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let deaths = tokio::task::spawn_blocking(move || {
            let mut died = 0;
            for round in 0..4 {
                let range = if round % 2 == 0 { 0..half } else { half..2 * half };
                // Each dies with a call on it.
                let world = Arc::clone(&mocks[range.start].world);
                let stuck = world.gets_stuck();
                let is_over = || over.load(Ordering::SeqCst);
                until("a call is stuck", || world.calls.load(Ordering::SeqCst) >= stuck || is_over());
                if is_over() {
                    break;
                }
                died += 1;
                mocks[range.clone()].iter_mut().for_each(Mock::die);
                // It is away for a while, whether or not the run notices.
                std::thread::sleep(Duration::from_millis(100));
                mocks[range].iter_mut().for_each(Mock::revive);
            }
            (mocks, died)
        });
        let finished = run(&scenario, &instance, &file, patience()).await.unwrap();
        is_over.store(true, Ordering::SeqCst);
        everything_is_there(&instance, &finished, kind);
        let (mocks, died) = deaths.await.unwrap();
        assert!(died >= 1, "{}: nothing died", kind.name());
        mocks.iter().for_each(|mock| mock.world.has_behaved());
    }
}

macro_rules! on_each {
    ($($name:ident: $kind:ident,)*) => { $(
        mod $name {
            use super::BackendKind;

            #[tokio::test(flavor = "multi_thread")]
            async fn a_batch_runs() {
                super::runs(BackendKind::$kind, 0).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_batch_runs_when_every_twelfth_request_goes_wrong() {
                super::runs(BackendKind::$kind, 8).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_batch_outlives_its_servers() {
                super::outlives_its_servers(BackendKind::$kind).await;
            }
        }
    )* };
}

on_each! {
    gswarm: Gswarm,
    openai: OpenAi,
    vllm: Vllm,
    sglang: Sglang,
    ollama: Ollama,
    llamacpp: LlamaCpp,
    kserve: KServe,
}

/// What a server says about a request is the same however often it is asked.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_asked_once() {
    for &kind in BackendKind::ALL {
        let name = kind.name();
        // The first of them refuses nothing; processes have OpenAI's interface, as others here have.
        if matches!(kind, BackendKind::Emulated | BackendKind::Command) {
            continue;
        }
        let scenario = scenario(&[("review", "wish0"), ("review", "poison"), ("review", "wish2")]);
        let instance = instance(&scenario, 2);
        let (mocks, file) = cluster(kind, &Manners { poison: Some("poison"), ..manners(kind, 0) });
        let finished = run(&scenario, &instance, &file, patience()).await.unwrap();
        passes_the_check(&instance, &finished);
        assert_eq!(finished.outputs.len(), 6, "{name}: {:?}", finished.failures);
        assert_eq!(finished.failures.len(), 1, "{name}: {:?}", finished.failures);
        assert!(finished.failures[0].why.contains("400: this prompt cannot be processed"), "{name}");
        mocks.iter().for_each(|mock| mock.world.has_behaved());
    }
}

/// One that cannot be served fails alone; one whose model does not fit fails at once, with the sizes, and nothing is
/// loaded and unloaded for it again and again.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_fails_alone_and_at_once() {
    for kind in [BackendKind::Gswarm, BackendKind::Ollama, BackendKind::LlamaCpp, BackendKind::KServe] {
        let mut requests = vec![("review", "wish0"), ("review", "wish1"), ("review", "poison")];
        requests.extend([("huge", "wish3"); 6]);
        let scenario = scenario(&requests);
        let instance = instance(&scenario, 1);
        let manners =
            Manners { poison: Some("poison"), too_large: vec!["large-there"], ..Manners::default() };
        let (mocks, spec) = servers(kind, 0, &manners);
        let file = BackendsFile { backends: vec![as_read(&spec)] };
        let finished = run(&scenario, &instance, &file, patience()).await.unwrap();
        let name = kind.name();
        passes_the_check(&instance, &finished);
        assert_eq!(finished.outputs.len(), 6, "{name}: what can be done is done");
        let why = |request: u32| {
            let of =
                |failure: &&gswarm_exec::drive::NodeFailure| instance.request_of(failure.task).0 == request;
            finished.failures.iter().filter(of).map(|failure| failure.why.clone()).collect::<Vec<_>>()
        };
        assert!(why(2).iter().all(|why| why.contains("cannot be processed")), "{name}: {:?}", why(2));
        assert!(why(2).len() == 1 && why(0).is_empty(), "{name}: {:?}", why(2));
        for request in 3..9 {
            assert!(why(request).iter().any(|why| why.contains("60 GB")), "{name}: {:?}", why(request));
        }
        mocks.iter().for_each(|mock| mock.world.has_behaved());
        let loads = mocks[0].world.loads.load(std::sync::atomic::Ordering::SeqCst);
        assert!(loads <= 8, "{name}: {loads} loads for three models");
    }
}
