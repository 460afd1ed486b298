//! Traces of applications: which models each request called, when, and for how long. A trace becomes a request, a call a node.
//!
//! What follows what is read off the links between calls where there are any. Otherwise it is read off their parents and times:
//! of two children of one span, the one that begins after the other has ended is taken to need it.

mod flow;
mod langfuse;
mod litellm;
mod otlp;

use crate::draft::{Draft, DraftNode, plain_request, span, unique};
use crate::graph::{MAX_LINKS, acyclic};
use crate::trace::{arrival, cut};
use crate::{File, ImportKind, ImportOptions, guess};
use gswarm_core::WorkflowId;
use gswarm_core::input::Code;
use gswarm_core::input::document::{Item, Path, Shown, calendar};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// What a model that nothing is known of is taken to have, in GB.
const USUAL_GB: f64 = 14.0;
/// Numbers from here on are so many milliseconds, microseconds and nanoseconds: as seconds they would be later than the year 5000.
const SUBSECONDS: [(f64, f64); 3] = [(1e17, 1e9), (1e14, 1e6), (1e11, 1e3)];

/// Something that an application did.
#[derive(Clone, Debug, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
    /// Microseconds since 1970.
    start: i64,
    end: i64,
    /// The model that it called, where it called one.
    model: Option<String>,
    /// What the call does: `chat`, `embeddings`, ...
    operation: String,
    prompt_tokens: Option<f64>,
    answer_tokens: Option<f64>,
    /// It came to nothing.
    failed: bool,
    /// Spans whose results it needed.
    needs: Vec<String>,
    /// What gswarm called its node and its workflow.
    node: Option<String>,
    workflow: Option<String>,
    /// The place of the node in its workflow.
    index: Option<f64>,
    /// Where it stands in the file.
    at: u32,
}

/// A call of a trace, as it becomes a node.
struct Call<'s> {
    id: String,
    span: &'s Span,
}

/// A trace, as it becomes a request.
struct Request<'s> {
    at: i64,
    name: String,
    calls: Vec<Call<'s>>,
    edges: Vec<(u32, u32)>,
}

pub(crate) fn read(kind: ImportKind, files: &mut [File<'_>], options: &ImportOptions, draft: &mut Draft) {
    let mut spans = Vec::new();
    for file in files.iter_mut() {
        match kind {
            ImportKind::Langfuse => langfuse::read(file, &mut spans),
            ImportKind::Litellm => litellm::read(file, &mut spans),
            _ => otlp::read(file, &mut spans),
        }
    }
    let Some(file) = files.first_mut() else { return };
    if options.workflow.is_some() {
        let message = format_args!("--workflow does not apply here: traces bring their own workflows");
        file.faults.add(Code::NoSuchPlace, 0, &Path::root(), message);
    }
    if files.iter().any(|file| file.faults.has_errors()) {
        return;
    }
    let requests = requests(&spans, draft);
    let file = &mut files[0];
    if requests.is_empty() {
        let message = format_args!("none of its {} spans calls a model", spans.len());
        let hint = "calls have `gen_ai.request.model`, or another name of the model".to_owned();
        return file.faults.add_hinted(Code::Nothing, 0, &Path::root(), message, Some(hint));
    }
    let Some(requests) = cut(file, requests, |request| request.at, true, options, draft) else { return };
    for request in &requests {
        if request.edges.len() > MAX_LINKS {
            let message = format_args!("trace `{}` has more than {MAX_LINKS} edges", Shown(&request.name));
            return file.faults.add(Code::Inexpressible, 0, &Path::root(), message);
        }
        let names = |node: usize| (request.calls[node].id.clone(), request.calls[node].span.at);
        if !acyclic(file, &names, request.calls.len(), &request.edges) {
            return;
        }
    }
    make(requests, options, draft);
}

/// The traces that call models, by when they began.
fn requests<'s>(spans: &'s [Span], draft: &mut Draft) -> Vec<Request<'s>> {
    let mut order: Vec<&str> = Vec::new();
    let mut traces: FxHashMap<&str, Vec<&Span>> = FxHashMap::default();
    for span in spans {
        let trace = traces.entry(&span.trace).or_default();
        if trace.is_empty() {
            order.push(&span.trace);
        }
        trace.push(span);
    }
    let (mut found, mut failed, mut outer, mut empty) = (Vec::new(), 0, 0, 0);
    for name in order {
        let all = &traces[name];
        failed += all.iter().filter(|span| span.failed && span.model.is_some()).count();
        let good = all.iter().copied().filter(|span| !span.failed);
        let (mut calls, around) = flow::calls(good.collect());
        outer += around;
        if calls.is_empty() {
            empty += 1;
            continue;
        }
        let linked =
            calls.iter().any(|span| !span.needs.is_empty()) || all.iter().any(|span| span.workflow.is_some());
        let edges = if linked {
            draft.notes.say("The order of calls comes from the links between them");
            flow::by_links(&calls)
        } else {
            let told = "The order of calls is derived from parents and times: a call depends on those under the same parent that ended before it began";
            draft.notes.say(told);
            flow::by_times(&calls, all)
        };
        let edges = flow::in_order(&mut calls, edges);
        let ids = calls.iter().map(|span| span.node.clone().unwrap_or_else(|| named(span))).collect();
        let calls = unique(ids).into_iter().zip(calls).map(|(id, span)| Call { id, span }).collect();
        let root = all.iter().find(|span| span.parent.is_empty()).or(all.first());
        let workflow = all.iter().find_map(|span| span.workflow.clone());
        let name = workflow.or_else(|| Some(root?.name.clone())).unwrap_or_default();
        let at = all.iter().map(|span| span.start).min().unwrap_or(0);
        found.push(Request { at, name, calls, edges });
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    if failed > 0 {
        draft.notes.say(format!("Omitted: {failed} call{} that failed", plural(failed)));
    }
    if outer > 0 {
        draft.notes.say(format!(
            "Omitted: {outer} call{} with other calls inside, which count instead",
            plural(outer)
        ));
    }
    if empty > 0 {
        draft.notes.say(format!("Omitted: {empty} trace{} without a call of a model", plural(empty)));
    }
    found
}

/// What a node is called after its span. Names that hold the model are cut to what is done.
fn named(span: &Span) -> String {
    let operation = if span.operation.is_empty() { &span.name } else { &span.operation };
    let model = span.model.as_deref().unwrap_or_default();
    if span.name.is_empty() || span.name == model || span.name == format!("{} {model}", span.operation) {
        if operation.is_empty() { "call".to_owned() } else { operation.clone() }
    } else {
        span.name.clone()
    }
}

/// Workflows are the same where nodes, models and edges are.
type Shape = (String, Vec<(String, String)>, Vec<(u32, u32)>);

fn make(requests: Vec<Request<'_>>, options: &ImportOptions, draft: &mut Draft) {
    draft.notes.say("A trace is a request, a call of a model is a node; times are as measured, including waits at the server");
    draft.notes.say("Models load at 2 GB a second, after 1 s; those above 72 GB take several GPUs");
    let first = requests.first().map_or(0, |request| request.at);
    let mut workflows: FxHashMap<Shape, WorkflowId> = FxHashMap::default();
    for request in requests {
        let nodes: Vec<DraftNode> = request.calls.iter().map(|call| node(call, options, draft)).collect();
        let models =
            request.calls.iter().map(|call| (call.id.clone(), call.span.model.clone().unwrap_or_default()));
        let shape = (request.name.clone(), models.collect(), request.edges.clone());
        let workflow = *workflows
            .entry(shape)
            .or_insert_with(|| draft.workflow(&request.name, &nodes, request.edges.clone()));
        let configs = nodes.iter().filter(|node| !node.config.is_empty());
        let node_configs =
            configs.map(|node| (node.id.clone(), Value::Object(node.config.clone()))).collect();
        let times = nodes.iter().map(|node| Some(span(node.seconds))).collect();
        let id = format!("req_{}", draft.scenario.requests.len() + 1);
        let plain = plain_request(id, arrival(request.at, first, options), workflow, times);
        draft.scenario.requests.push(gswarm_core::input::RequestSpec { node_configs, ..plain });
    }
    draft.fill_mean_times();
}

fn node(call: &Call<'_>, options: &ImportOptions, draft: &mut Draft) -> DraftNode {
    let name = call.span.model.clone().unwrap_or_default();
    let kind = match call.span.operation.as_str() {
        "embeddings" | "embedding" | "aembedding" => "embedding",
        "image_generation" | "aimage_generation" => "image_generation",
        _ => "llm",
    };
    let model = draft.model(&name, |notes| {
        let size = guess::size(&name, USUAL_GB, &options.sizes);
        notes.say_of(guess::told(size.from), &name);
        notes.say(guess::BATCHED);
        guess::batched(guess::model(size.gb, kind))
    });
    let mut config = Map::new();
    let tokens = [("prompt_tokens", call.span.prompt_tokens), ("max_tokens", call.span.answer_tokens)];
    for (name, count) in tokens.into_iter().filter_map(|(name, count)| Some((name, count?))) {
        config.insert(name.to_owned(), Value::from(count as u64));
    }
    // A call that took no time that a clock saw took some.
    let micros = (call.span.end - call.span.start).max(1);
    DraftNode { id: call.id.clone(), model, seconds: micros as f64 / 1e6, config }
}

/// A moment in microseconds: a date, or a number of seconds or parts of them; reported where it is none.
fn moment(file: &mut File<'_>, item: Option<Item<'_>>, name: &str, at: u32, path: &Path<'_>) -> Option<i64> {
    let Some(item) = item.filter(|item| !item.is_null()) else {
        file.faults.add(Code::Missing, at, path, format_args!("field `{name}` is missing"));
        return None;
    };
    let text = item.text().trim();
    let number = match text.parse::<i128>() {
        // Nanoseconds have more digits than a number with a point holds.
        Ok(nanoseconds) if nanoseconds > 100_000_000_000_000_000 => i64::try_from(nanoseconds / 1000).ok(),
        _ => text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0).map(|number| {
            let unit = SUBSECONDS.iter().find(|(from, _)| number >= *from).map_or(1.0, |(_, unit)| *unit);
            (number / unit * 1e6).round() as i64
        }),
    };
    let found = number.map_or_else(|| calendar(text), Ok);
    found
        .map_err(|reason| {
            let message = format_args!("`{name}` is `{}`: {}", Shown(text), Shown(&reason));
            file.faults.add(Code::BadTimestamp, item.at(), path, message);
        })
        .ok()
}

/// A number that may stand there as a text, and is left out where it is none.
fn count(item: Option<Item<'_>>) -> Option<f64> {
    item?.text().trim().parse::<f64>().ok().filter(|count| (0.0..=1e9).contains(count))
}

/// A text, where there is one.
fn text(item: Option<Item<'_>>) -> Option<String> {
    item.filter(|item| item.scalar().is_some())
        .map(Item::text)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
