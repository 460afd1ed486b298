//! Runs as OpenTelemetry spans, in the JSON form of OTLP: a request is a trace, an execution a span in it by the conventions of
//! `gen_ai`. A span has links to those whose results it needed, so that the trace holds the whole graph.

use crate::id::{RequestId, TaskId};
use crate::input::{ModelSpec, Scenario};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Status};
use crate::time::Time;
use rustc_hash::FxHasher;
use serde_json::{Value, json};
use std::hash::Hasher;
use std::io::{self, Write};

/// Spans in one line of a file: readers take lines one by one.
const LINE: usize = 1_000;

/// Makes the spans of a run.
#[derive(Clone, Debug, Default)]
pub struct SpanMaker {
    /// Tells runs apart: traces of two runs have different ids.
    pub run: u64,
    /// Microseconds since 1970 at time 0 of the run.
    pub epoch: u64,
    /// What calls of each model do, as [`operations`] gives it.
    pub operations: Vec<&'static str>,
}

/// What calls of each model do, by the names of `gen_ai`.
#[must_use]
pub fn operations(models: &[ModelSpec]) -> Vec<&'static str> {
    let named = |model: &ModelSpec| match model.kind.as_deref() {
        Some("embedding") => "embeddings",
        Some("reranker") => "rerank",
        Some("image_generation" | "video" | "audio") => "generate_content",
        _ => "chat",
    };
    models.iter().map(named).collect()
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnd {
    /// When it came.
    pub arrival: Time,
    /// When it ended.
    pub end: Time,
    /// Whether all its nodes have a result.
    pub completed: bool,
}

impl SpanMaker {
    /// The spans of requests that came when the files say it.
    #[must_use]
    pub fn of(run: u64, scenario: &Scenario) -> SpanMaker {
        let first = scenario.requests.iter().filter_map(|request| request.timestamp).min();
        let epoch = first.and_then(|first| u64::try_from(first).ok()).unwrap_or(0);
        SpanMaker { run, epoch, operations: operations(&scenario.models) }
    }

    /// The span of a request, which its executions are inside of.
    #[must_use]
    pub fn request(&self, name: &str, workflow: &str, ended: RequestEnd) -> Value {
        let attributes = vec![text("gswarm.request", name), text("gswarm.workflow", workflow)];
        let times = (ended.arrival, ended.end);
        let ids = (self.trace(name), self.root(name), None);
        self.span(ids, workflow, 1, times, (attributes, Vec::new()), ended.completed)
    }

    /// The span of an execution, whose request has this name.
    #[must_use]
    pub fn execution(&self, instance: &Instance, name: &str, one: &Execution) -> Value {
        let (workflow, node) = (instance.workflow_of(one.task), instance.node_of(one.task));
        let model = &instance.models[instance.model_of(one.task)];
        let operation = self.operations.get(instance.model_of(one.task).index()).copied().unwrap_or("chat");
        let gpus: Vec<String> = one.gpus.iter().map(|gpu| gpu.0.to_string()).collect();
        let attributes = vec![
            text("gen_ai.operation.name", operation),
            text("gen_ai.provider.name", "gswarm"),
            text("gen_ai.request.model", &model.name),
            text("gswarm.node", &workflow.nodes[node as usize]),
            whole("gswarm.node_index", u64::from(node)),
            text("gswarm.status", one.status.name()),
            whole("gswarm.attempt", u64::from(one.attempt)),
            whole("gswarm.batch_size", u64::from(one.batch)),
            text("gswarm.gpus", &gpus.join(",")),
            seconds("gswarm.waited_seconds", one.start.since(one.ready).seconds()),
            seconds("gswarm.load_seconds", one.switch.seconds()),
        ];
        let needs = workflow.predecessors(node).iter().map(|&input| self.node(name, input, 0)).collect();
        let completed = one.status == Status::Completed;
        // Links lead to the attempt that gave the result, whichever it was.
        let attempt = if completed { 0 } else { one.attempt };
        let ids = (self.trace(name), self.node(name, node, attempt), Some(self.root(name)));
        let shown = format!("{operation} {}", model.name);
        self.span(ids, &shown, 3, (one.start, one.end), (attributes, needs), completed)
    }

    fn span(
        &self,
        (trace, id, parent): (String, String, Option<String>),
        name: &str,
        kind: u8,
        (start, end): (Time, Time),
        (attributes, needs): (Vec<Value>, Vec<String>),
        completed: bool,
    ) -> Value {
        let mut span = json!({
            "traceId": trace, "spanId": id, "name": name, "kind": kind, "startTimeUnixNano": self.moment(start),
            "endTimeUnixNano": self.moment(end), "attributes": attributes,
        });
        if let Some(parent) = parent {
            span["parentSpanId"] = parent.into();
        }
        if !needs.is_empty() {
            let links: Vec<Value> =
                needs.into_iter().map(|need| json!({"traceId": trace, "spanId": need})).collect();
            span["links"] = links.into();
        }
        if !completed {
            span["status"] = json!({"code": 2});
        }
        span
    }

    /// Nanoseconds since 1970. JSON has them as a text: they have more digits than its numbers.
    fn moment(&self, at: Time) -> String {
        format!("{}000", self.epoch.saturating_add(at.0))
    }

    fn trace(&self, request: &str) -> String {
        format!("{:016x}{:016x}", self.hash(request, 0, 0), self.hash(request, 1, 0))
    }

    fn root(&self, request: &str) -> String {
        format!("{:016x}", self.hash(request, 2, 0))
    }

    fn node(&self, request: &str, node: u32, attempt: u32) -> String {
        format!("{:016x}", self.hash(request, 3 + u64::from(node), attempt))
    }

    /// Never 0, which stands for no id.
    fn hash(&self, request: &str, what: u64, attempt: u32) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u64(self.run);
        hasher.write(request.as_bytes());
        hasher.write_u64(what);
        hasher.write_u32(attempt);
        hasher.finish().max(1)
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn whole(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

fn seconds(key: &str, value: f64) -> Value {
    json!({"key": key, "value": {"doubleValue": value}})
}

/// What is sent to a collector, or written as a line: some spans, and whose they are.
#[must_use]
pub fn export(spans: Vec<Value>) -> Value {
    let resource = json!({"attributes": [text("service.name", "gswarm")]});
    let scope = json!({"name": "gswarm", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

/// The spans of a whole run, some a line.
///
/// # Errors
/// What `out` says.
pub fn write_spans(
    instance: &Instance,
    log: &ExecutionLog,
    maker: &SpanMaker,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut ends: Vec<(Time, u32)> = vec![(Time::ZERO, 0); instance.requests.len()];
    let mut spans = Vec::new();
    let mut put = |span: Option<Value>, out: &mut dyn Write| -> io::Result<()> {
        let is_over = span.is_none();
        spans.extend(span);
        if spans.len() >= LINE || is_over && !spans.is_empty() {
            serde_json::to_writer(&mut *out, &export(std::mem::take(&mut spans)))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    };
    for one in &log.executions {
        let request = instance.request_of(one.task);
        let (end, done) = &mut ends[request.index()];
        *end = one.end.max(*end);
        *done += u32::from(one.status == Status::Completed);
        put(Some(maker.execution(instance, &instance.requests[request].name, one)), out)?;
    }
    for (id, request) in instance.requests.iter_enumerated() {
        let (end, done) = ends[id.index()];
        let ended = RequestEnd {
            arrival: request.arrival,
            end: end.max(request.arrival),
            completed: done as usize == nodes(instance, id),
        };
        put(Some(maker.request(&request.name, &instance.workflows[request.workflow].name, ended)), out)?;
    }
    put(None, out)
}

fn nodes(instance: &Instance, request: RequestId) -> usize {
    instance.tasks_of(request).map(|_: TaskId| 1).sum()
}
