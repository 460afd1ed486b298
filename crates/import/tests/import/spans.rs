//! Traces of applications, and datasets without times: small files, with results that can be told by hand.

use crate::support::{BOTH, codes, good, run};
use gswarm_core::input::Code;
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::log::Status;
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_core::spans::{SpanMaker, write_spans};
use gswarm_core::{Instance, Span};
use gswarm_import::{ImportKind, ImportOptions, Imported};
use std::collections::BTreeSet;

/// The edges of a workflow, by the names of its nodes.
fn edges(made: &Imported, workflow: usize) -> Vec<(String, String)> {
    let spec = &made.scenario.workflows[workflow];
    let name = |node: u32| spec.nodes[node as usize].id.clone();
    spec.edges.iter().map(|&(from, to)| (name(from), name(to))).collect()
}

fn times(made: &Imported, request: usize) -> Vec<f64> {
    made.scenario.requests[request].times.iter().map(|time| time.unwrap().seconds()).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

fn says(made: &Imported, what: &str) -> bool {
    made.assumptions.iter().any(|said| said.contains(what))
}

/// An agent that plans, asks two models side by side below a span of their own, and sums up. A proxy writes one call down again.
pub const OTLP: &str = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [
 {"traceId": "a", "spanId": "1", "name": "invoke_agent", "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000010000000000",
  "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}, {"key": "gen_ai.request.model", "value": {"stringValue": "big-70b"}}]},
 {"traceId": "a", "spanId": "2", "parentSpanId": "1", "name": "chat big-70b", "startTimeUnixNano": "1700000000500000000", "endTimeUnixNano": "1700000002500000000",
  "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}, {"key": "gen_ai.request.model", "value": {"stringValue": "big-70b"}},
   {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "100"}}, {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "20"}}]},
 {"traceId": "a", "spanId": "3", "parentSpanId": "1", "name": "fan-out", "startTimeUnixNano": "1700000003000000000", "endTimeUnixNano": "1700000006000000000"},
 {"traceId": "a", "spanId": "4", "parentSpanId": "3", "name": "search", "startTimeUnixNano": "1700000003000000000", "endTimeUnixNano": "1700000004000000000",
  "attributes": [{"key": "llm.model_name", "value": {"stringValue": "small-7b"}}]},
 {"traceId": "a", "spanId": "5", "parentSpanId": "3", "name": "judge", "startTimeUnixNano": "1700000003000000000", "endTimeUnixNano": "1700000006000000000",
  "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "small-7b"}}]},
 {"traceId": "a", "spanId": "6", "parentSpanId": "1", "name": "sum up", "startTimeUnixNano": "1700000007000000000", "endTimeUnixNano": "1700000009000000000",
  "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "big-70b"}}]},
 {"traceId": "a", "spanId": "7", "parentSpanId": "6", "name": "proxied", "startTimeUnixNano": "1700000007100000000", "endTimeUnixNano": "1700000008600000000",
  "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "big-70b"}}]},
 {"traceId": "a", "spanId": "8", "parentSpanId": "1", "name": "failed", "startTimeUnixNano": "1700000006500000000", "endTimeUnixNano": "1700000006600000000",
  "status": {"code": 2}, "attributes": [{"key": "gen_ai.request.model", "value": {"stringValue": "big-70b"}}]}]}]}]}
{"resourceSpans": [{"scopeSpans": [{"spans": [
 {"traceId": "b", "spanId": "1", "name": "embeddings finder", "startTimeUnixNano": 1700000060000000000, "endTimeUnixNano": 1700000060250000000,
  "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "embeddings"}}, {"key": "gen_ai.request.model", "value": {"stringValue": "finder"}}]}]}]}]}"#;

#[test]
fn spans_of_opentelemetry() {
    let made = good(ImportKind::Otlp, OTLP, &ImportOptions::default());
    let ids: Vec<&str> = made.scenario.workflows[0].nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["chat", "judge", "search", "proxied"]);
    let expected = [("chat", "judge"), ("chat", "search"), ("judge", "proxied"), ("search", "proxied")];
    assert_eq!(edges(&made, 0), pairs(&expected));
    assert_eq!((times(&made, 0), times(&made, 1)), (vec![2.0, 3.0, 1.0, 1.5], vec![0.25]));
    assert_eq!(made.scenario.requests[1].timestamp, Some(60_000_000));
    let tokens = &made.scenario.requests[0].node_configs["chat"];
    assert_eq!((&tokens["prompt_tokens"], &tokens["max_tokens"]), (&100.into(), &20.into()));
    let kinds: Vec<Option<&str>> = made.scenario.models.iter().map(|model| model.kind.as_deref()).collect();
    assert_eq!(kinds, [Some("llm"), Some("llm"), Some("embedding")]);
    assert!(says(&made, "1 call that failed") && says(&made, "1 call with other calls inside"));
    assert!(says(&made, "parents and times") && says(&made, "Calls run together"));
    run(&made, 4, &BOTH);
    let agent_only = OTLP.replace("\"gen_ai.request.model\"", "\"x\"").replace("llm.model_name", "y");
    assert_eq!(codes(ImportKind::Otlp, &agent_only, &ImportOptions::default()), [Code::Nothing]);
    assert_eq!(codes(ImportKind::Otlp, "{\"spans\": []}", &ImportOptions::default()), [Code::OtherKind]);
}

/// What a run of gswarm says as spans, imported again, is the same graph with the same times.
#[test]
fn an_export_of_a_run_is_imported_as_the_same_graph_with_the_same_times() {
    use gswarm_core::input::Scenario;
    let mut builder = Scenario::builder()
        .model("small-7b", 1, 14.0, 10.0)
        .model("big-70b", 2, 140.0, 30.0)
        .workflow("fork")
        .node("plan", "small-7b")
        .node("left", "big-70b")
        .node("right", "small-7b")
        .node("join", "big-70b")
        .edge("plan", "left")
        .edge("plan", "right")
        .edge("left", "join")
        .edge("right", "join")
        .workflow("apart")
        .node("one", "small-7b")
        .node("two", "small-7b");
    for number in 0..12_u32 {
        let time = |part: u32| f64::from(number * 7 + part * 3 % 11 + 1) + 0.000_123;
        let (name, workflow) = (format!("r{number}"), if number % 3 == 0 { "apart" } else { "fork" });
        let times: Vec<f64> = (0..if number % 3 == 0 { 2 } else { 4 }).map(time).collect();
        builder = builder.request(&name, workflow).times(&times);
    }
    let scenario = builder.build().unwrap();
    let spec = gswarm_core::input::ClusterSpec { gpus: Some(4), ..Default::default() };
    let instance = Instance::build(&scenario, Cluster::from_spec(&spec).unwrap(), Mode::Online).unwrap();
    let spec = PolicySpec::default_of(PolicyKind::Adaptive);
    let mut policy = spec.build(&instance, &BuildContext::default());
    let faults = gswarm_core::sim::InjectedFaults { fail_rate: 0.2, ..Default::default() };
    let options = SimOptions { faults, max_attempts: 50, ..SimOptions::default() };
    let log = simulate(&instance, &mut *policy, &options, &mut |_| {}).unwrap();
    assert!(log.executions.iter().any(|one| one.status == Status::Failed), "failed attempts are left out");
    let mut text = Vec::new();
    write_spans(&instance, &log, &SpanMaker::of(1, &scenario), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let made = good(ImportKind::Otlp, &text, &ImportOptions::default());

    let graphs = |scenario: &Scenario| -> BTreeSet<String> {
        let models = &scenario.models;
        let shown = scenario.workflows.iter().map(|one| {
            let nodes: Vec<_> =
                one.nodes.iter().map(|node| (&node.id, &models[usize::from(node.model)].id)).collect();
            let edges: BTreeSet<_> = one.edges.iter().collect();
            format!("{} {nodes:?} {edges:?}", one.id)
        });
        shown.collect()
    };
    assert_eq!(graphs(&made.scenario), graphs(&scenario));
    let requests = |scenario: &Scenario| -> Vec<(String, Vec<Option<Span>>)> {
        let named = scenario.requests.iter();
        let mut all: Vec<_> = named
            .map(|one| (scenario.workflows[usize::from(one.workflow)].id.clone(), one.times.clone()))
            .collect();
        all.sort();
        all
    };
    assert_eq!(requests(&made.scenario), requests(&scenario));
    assert!(says(&made, "links between them"), "{:?}", made.assumptions);
}

pub const LANGFUSE: &str = r#"[
 {"id": "t", "name": "answer", "observations": [
  {"id": "1", "type": "SPAN", "name": "retrieve", "startTime": "2024-05-01T10:00:00Z", "endTime": "2024-05-01T10:00:01Z"},
  {"id": "2", "type": "EMBEDDING", "name": "embed", "parentObservationId": "1", "startTime": "2024-05-01T10:00:00Z", "endTime": "2024-05-01T10:00:00.2Z",
   "model": "finder", "usageDetails": {"input": 12}},
  {"id": "3", "type": "GENERATION", "name": "write", "startTime": "2024-05-01T10:00:01Z", "endTime": "2024-05-01T10:00:03Z", "model": "writer-7b",
   "usage": {"input": 50, "output": 100}},
  {"id": "4", "type": "EVENT", "name": "note", "startTime": "2024-05-01T10:00:03Z"},
  {"id": "5", "type": "GENERATION", "name": "again", "startTime": "2024-05-01T10:00:03Z", "endTime": "2024-05-01T10:00:04Z", "model": "writer-7b", "level": "ERROR"}]},
 {"traceId": "u", "id": "6", "type": "GENERATION", "name": "write", "startTime": "2024-05-01T10:01:00Z", "endTime": "2024-05-01T10:01:02Z", "model": "writer-7b",
  "promptTokens": 5, "completionTokens": 7}]"#;

#[test]
fn exports_of_langfuse() {
    let made = good(ImportKind::Langfuse, LANGFUSE, &ImportOptions::default());
    assert_eq!(edges(&made, 0), pairs(&[("embed", "write")]));
    assert_eq!((times(&made, 0), times(&made, 1)), (vec![0.2, 2.0], vec![2.0]));
    assert_eq!(made.scenario.requests[1].timestamp, Some(60_000_000));
    assert_eq!(made.scenario.requests[1].node_configs["write"]["max_tokens"], 7);
    assert!(says(&made, "1 call that failed"));
    run(&made, 2, &BOTH);
    let late = LANGFUSE.replace("\"2024-05-01T10:00:03Z\", \"model\"", "\"soon\", \"model\"");
    assert_eq!(codes(ImportKind::Langfuse, &late, &ImportOptions::default()), [Code::BadTimestamp]);
}

pub const LITELLM: &str = r#"{"id": "1", "trace_id": "t", "call_type": "acompletion", "model": "big-70b", "startTime": 1714557600.0, "endTime": 1714557602.5, "prompt_tokens": 10, "completion_tokens": 20, "status": "success"}
{"id": "2", "trace_id": "t", "call_type": "acompletion", "model": "small-7b", "startTime": 1714557603.0, "endTime": 1714557604.0, "prompt_tokens": 10, "completion_tokens": 20, "status": "success"}
{"id": "3", "call_type": "aembedding", "model": "finder", "startTime": "2024-05-01T10:00:30Z", "endTime": "2024-05-01T10:00:30.5Z", "status": "success"}
{"id": "4", "model": "big-70b", "startTime": 1714557700000, "endTime": 1714557701000, "status": "failure"}"#;

#[test]
fn logs_of_litellm() {
    let made = good(ImportKind::Litellm, LITELLM, &ImportOptions::default());
    assert_eq!(edges(&made, 0), pairs(&[("acompletion", "acompletion_2")]));
    assert_eq!((times(&made, 0), times(&made, 1)), (vec![2.5, 1.0], vec![0.5]));
    assert_eq!(made.scenario.requests.len(), 2);
    assert_eq!(made.scenario.requests[1].timestamp, Some(30_000_000));
    run(&made, 4, &BOTH);
    let nobody = LITELLM.replacen("\"model\"", "\"modell\"", 1);
    assert_eq!(codes(ImportKind::Litellm, &nobody, &ImportOptions::default()), [Code::Missing]);
}

pub const BATCH: &str = r#"{"id": "b1", "custom_id": "one", "response": {"status_code": 200, "body": {"model": "writer-7b", "usage": {"prompt_tokens": 500, "completion_tokens": 100}}}, "error": null}
{"id": "b2", "custom_id": "two", "response": {"status_code": 200, "body": {"model": "finder", "usage": {"prompt_tokens": 50, "total_tokens": 50}}}, "error": null}
{"id": "b3", "custom_id": "three", "response": {"status_code": 500, "body": {}}, "error": null}"#;

#[test]
fn results_of_a_batch() {
    let made = good(ImportKind::OpenaiBatch, BATCH, &ImportOptions::default());
    let all = &made.scenario.requests;
    assert_eq!((all.len(), all[0].timestamp, all[1].timestamp), (2, Some(0), Some(0)));
    assert_eq!(times(&made, 0), [2.1]);
    assert!(says(&made, "arrive at its start") && says(&made, "Omitted: 1 request"));
    run(&made, 2, &BOTH);
    let input =
        r#"{"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m"}}"#;
    assert_eq!(codes(ImportKind::OpenaiBatch, input, &ImportOptions::default()), [Code::Missing]);
}

pub const SHAREGPT: &str = r#"[
 {"id": "1", "conversations": [{"from": "gpt", "value": "hi"}, {"from": "human", "value": "0123456789ab"}, {"from": "gpt", "value": "0123"}, {"from": "human", "value": "x"}]},
 {"id": "2", "conversations": [{"from": "human", "value": "alone"}]},
 {"prompt": "01234567", "output_tokens": 50}]"#;

#[test]
fn conversations_without_times() {
    let made = good(ImportKind::Sharegpt, SHAREGPT, &ImportOptions::default());
    let tokens = |at: usize| {
        let config = &made.scenario.requests[at].node_configs["generate"];
        (config["prompt_tokens"].as_u64().unwrap(), config["max_tokens"].as_u64().unwrap())
    };
    assert_eq!((made.scenario.requests.len(), tokens(0), tokens(1)), (2, (3, 1), (2, 50)));
    assert_eq!(made.scenario.requests[1].timestamp, Some(0));
    assert!(says(&made, "1 conversation without") && says(&made, "--rate"));
    run(&made, 2, &BOTH);
    // A rate is kept on average, and the same seed gives the same moments.
    let many = format!("[{}]", vec![r#"{"prompt": "x", "output_tokens": 5}"#; 4_000].join(","));
    let rated = ImportOptions { rate: Some(20.0), seed: 3, ..ImportOptions::default() };
    let (first, again) =
        (good(ImportKind::Sharegpt, &many, &rated), good(ImportKind::Sharegpt, &many, &rated));
    let last = first.scenario.requests.last().unwrap().timestamp.unwrap() as f64 / 1e6;
    assert!((190.0..210.0).contains(&last), "{last} s for 4000 requests at 20 a second");
    let moments =
        |made: &Imported| made.scenario.requests.iter().map(|one| one.timestamp).collect::<Vec<_>>();
    assert_eq!(moments(&first), moments(&again));
}

/// Two talks of growing prompts, by turns.
const TALKS: &str = r#"{"timestamp": 0, "input_length": 1000, "output_length": 50, "hash_ids": [1, 2]}
{"timestamp": 1000, "input_length": 1000, "output_length": 50, "hash_ids": [7, 8]}
{"timestamp": 2000, "input_length": 1500, "output_length": 50, "hash_ids": [1, 2, 3]}
{"timestamp": 3000, "input_length": 1024, "output_length": 50, "hash_ids": [7, 8]}"#;

#[test]
fn prefixes_that_a_cache_has_take_no_time() {
    let cached = |blocks| {
        let options = ImportOptions { prefix_cache: blocks, ..ImportOptions::default() };
        let made = good(ImportKind::Mooncake, TALKS, &options);
        let tokens = |request: &gswarm_core::input::RequestSpec| {
            request.node_configs["generate"]
                .get("cached_tokens")
                .and_then(serde_json::Value::as_u64)
                .unwrap_or(0)
        };
        let all: Vec<u64> = made.scenario.requests.iter().map(tokens).collect();
        let last = made.scenario.requests[3].times[0].unwrap().seconds();
        (all, last)
    };
    assert_eq!(cached(None), (vec![0; 4], 1.2048), "1024 tokens are read at 5000 a second, 50 written at 50");
    // The last token of a prompt is computed in any case.
    assert_eq!(cached(Some(5)), (vec![0, 0, 1024, 1023], 1.0002));
    assert_eq!(cached(Some(3)).0, [0, 0, 512, 0], "what was used least recently, and comes last, has left");
    let options = ImportOptions { prefix_cache: Some(5), ..ImportOptions::default() };
    assert_eq!(codes(ImportKind::OpenaiBatch, BATCH, &options), [Code::NoSuchPlace]);
}
