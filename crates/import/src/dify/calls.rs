//! Nodes that call a model: which one, and for how long.

use super::app::{App, CALLS, given};
use crate::draft::{Draft, DraftNode, shown_number};
use crate::guess::{self, From};
use crate::{File, ImportOptions};
use gswarm_core::input::document::{Item, Path, Shown};
use gswarm_core::input::{Code, ModelSpec};
use serde_json::Map;

/// Tokens that a call writes, by the kind of its node.
const ANSWER: f64 = 512.0;
const VERDICT: f64 = 32.0;
const EXTRACT: f64 = 64.0;
/// How often an agent asks its model.
const AGENT_ROUNDS: f64 = 3.0;
/// Seconds of looking something up.
const LOOKUP: f64 = 0.1;
/// What models of unknown size are taken to have, in GB.
const USUAL_GB: f64 = 16.0;
const EMBEDDING_GB: f64 = 1.3;

/// Whether a node calls a model: by its kind, or because a flag says so.
pub fn is_call(app: &App<'_>, node: usize, options: &ImportOptions) -> bool {
    CALLS.contains(&app.nodes[node].kind) || given(app, node, &options.calls).is_some()
}

/// The name of the model that a node calls.
fn model_name<'t>(app: &App<'t>, node: usize) -> Option<&'t str> {
    let data = app.nodes[node].data;
    let named = |model: Option<Item<'t>>| {
        model.and_then(|model| model.get("name").or(model.get("model"))).map(Item::text)
    };
    let name = match app.nodes[node].kind {
        "agent" => {
            let parameter = data.get("agent_parameters").and_then(|found| found.get("model")?.get("value"));
            named(parameter.or(data.get("model")))
        }
        "knowledge-retrieval" => Some(embedding(data).unwrap_or("embedding")),
        _ => named(app.only_model.or(data.get("model"))),
    };
    name.filter(|name| !name.trim().is_empty())
}

fn embedding(data: Item<'_>) -> Option<&str> {
    let weights = data.get("multiple_retrieval_config")?.get("weights")?;
    let name = weights.get("vector_setting")?.get("embedding_model_name")?.text();
    (!name.trim().is_empty()).then_some(name)
}

/// Calls of which the app does not say which model they go to.
pub fn report_unnamed(file: &mut File<'_>, app: &App<'_>, options: &ImportOptions) {
    for node in (0..app.nodes.len()).filter(|&node| CALLS.contains(&app.nodes[node].kind)) {
        if model_name(app, node).is_none() && given(app, node, &options.calls).is_none() {
            let own = &app.nodes[node];
            let message = format_args!("node `{}` does not say which model it calls", Shown(own.shown()));
            let hint = Some(format!("--call {}=MODEL", own.id));
            file.faults.add_hinted(Code::Missing, own.at, &Path::root(), message, hint);
        }
    }
}

/// The node in the draft.
pub fn node(app: &App<'_>, node: usize, id: String, options: &ImportOptions, draft: &mut Draft) -> DraftNode {
    let own = &app.nodes[node];
    let flagged = given(app, node, &options.calls).map(String::as_str);
    let name = flagged.or(model_name(app, node)).unwrap_or("llm");
    let looks_up = own.kind == "knowledge-retrieval" && flagged.is_none();
    let pace = options.tokens_per_second;
    let model = draft.model(name, |notes| {
        let usual = if looks_up { EMBEDDING_GB } else { USUAL_GB };
        let size = guess::size(name, usual, &options.sizes);
        let sentence = match size.from {
            From::Table => "Model sizes come from --sizes",
            From::Name => {
                "Model sizes are derived from names: two bytes per parameter unless the name says otherwise"
            }
            From::Sort => "Unknown model sizes; typical values are used (set them with --sizes)",
        };
        notes.say_of(sentence, format!("{name} ({} GB)", size.gb));
        notes.say("Models load at 2 GB a second, after 1 s; those above 72 GB take several GPUs");
        let made = guess::model(size.gb, if looks_up { "embedding" } else { "llm" });
        if looks_up {
            return made;
        }
        ModelSpec { tokens_per_second: Some(pace), token_mean: Some(ANSWER), ..made }
    });
    let mut config = Map::new();
    let tokens = match own.kind {
        "question-classifier" => VERDICT,
        "parameter-extractor" => EXTRACT,
        "agent" => ANSWER * AGENT_ROUNDS,
        _ => ANSWER,
    };
    let most = most_tokens(app, node).filter(|&most| most > 0.0);
    let tokens = most.map_or(tokens, |most| tokens.min(most));
    let usual = if looks_up {
        draft.notes.say(format!(
            "A knowledge-base lookup is one call of its embedding model, of {LOOKUP} s; reranking is ignored"
        ));
        LOOKUP
    } else {
        config.insert("max_tokens".to_owned(), shown_number(tokens));
        draft.notes.say(format!(
            "A call writes {ANSWER} tokens, a classifier {VERDICT}, an extractor {EXTRACT}, an agent {} in {AGENT_ROUNDS} rounds, and never more than its `max_tokens`; at {pace} tokens a second",
            ANSWER * AGENT_ROUNDS
        ));
        tokens / pace
    };
    draft.notes.say("All other nodes (tools, code, templates, requests) take no GPU time, unless --call NODE=MODEL names them");
    let seconds = given(app, node, &options.times).copied().unwrap_or(usual);
    DraftNode { id, model, seconds: guess::rounded(seconds), config }
}

fn most_tokens(app: &App<'_>, node: usize) -> Option<f64> {
    let model = app.only_model.or(app.nodes[node].data.get("model"))?;
    let most = model.get("completion_params")?.get("max_tokens")?;
    most.text().parse().ok().filter(|most: &f64| most.is_finite())
}
