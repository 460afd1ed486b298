//! Models of a running server or of a folder, as a configuration to start from.

use crate::failure::{Failure, FailureKind};
use gswarm_exec::backend::{Http, HttpLimits};
use gswarm_infer::{ModelKind, Store};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Requests for each workflow.
const REQUESTS: usize = 8;
/// Memory of an unknown model.
const USUAL_GB: f64 = 16.0;

/// Kinds of servers that hold one model; others that they list are its adapters.
const HOLD_ONE: [&str; 2] = ["vllm", "sglang"];

/// What was found, and where.
pub struct Found {
    place: String,
    /// The kind of server, where it is one.
    server: Option<&'static str>,
    models: Vec<Model>,
}

struct Model {
    id: String,
    /// Where it is served, where it is.
    url: String,
    memory_gb: f64,
    embeds: bool,
}

impl Model {
    /// GPUs of 80 GB, with room for calls beside the weights.
    fn gpus(&self) -> f64 {
        (self.memory_gb * 1.2 / 80.0).ceil().max(1.0)
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
    #[serde(default)]
    owned_by: String,
}

/// What Ollama lists.
#[derive(Default, Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
    /// In bytes.
    size: f64,
}

impl Found {
    /// At an address, or in a folder.
    pub fn at(place: &str) -> Result<Found, Failure> {
        let found = if place.contains("://") { server(place) } else { folder(place) }?;
        if found.models.is_empty() {
            return Err(Failure::input(format!("there is no model at {place}"))
                .hint("start the server with a model, or make one with `gswarm models init`"));
        }
        Ok(found)
    }

    /// At some addresses. Several are those of servers that hold one model each.
    pub fn at_all(places: &[String]) -> Result<Found, Failure> {
        let mut found = places.iter().map(|place| Found::at(place)).collect::<Result<Vec<_>, _>>()?;
        let mut all = found.remove(0);
        for other in found {
            let holds_one = |found: &Found| found.server.is_some_and(|kind| HOLD_ONE.contains(&kind));
            if other.server != all.server || !holds_one(&all) {
                let message = format!(
                    "{} and {} cannot be served together from their addresses",
                    all.place, other.place
                );
                return Err(Failure::input(message).hint(
                    "several addresses work only for vLLM and SGLang; for other servers write a backends file (docs/backends.md)",
                ));
            }
            if let Some(twice) =
                other.models.iter().find(|model| all.models.iter().any(|known| known.id == model.id))
            {
                return Err(Failure::input(format!("`{}` is served at two addresses", twice.id)));
            }
            all.place = format!("{}, {}", all.place, other.place);
            all.models.extend(other.models);
        }
        Ok(all)
    }

    /// What is guessed, for people; a sentence each.
    pub fn told(&self) -> Vec<String> {
        let sizes = if self.server == Some("ollama") {
            "Model sizes are those that Ollama reports"
        } else {
            "Model sizes are guessed from their names"
        };
        let mut told = vec![
            format!("{sizes}; assuming GPUs of 80 GB (--gpu-memory), {} in number (--gpus)", self.gpus()),
            "Times are guesses: `gswarm init --from` writes a configuration to put in your own".to_owned(),
        ];
        if self.models.len() > 1 && self.server.is_some_and(|kind| HOLD_ONE.contains(&kind)) {
            told.push(
                "The servers are assumed to share their GPUs, so that one model is awake at a time"
                    .to_owned(),
            );
        }
        told
    }

    /// The address or the folder.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// GPUs that hold the largest model.
    pub fn gpus(&self) -> f64 {
        self.models.iter().map(Model::gpus).fold(1.0, f64::max)
    }

    /// The configuration.
    pub fn config(&self) -> String {
        let mut text = format!(
            "# The models found at {}, with a workflow for each. Sizes are GB, times are seconds.\n\
             # Sizes and times are guesses until you put in your own: `gswarm calibrate` measures them.\n\
             # docs/formats.md describes every field.\nmodels:\n",
            self.place
        );
        for model in &self.models {
            let (gb, load) = (model.memory_gb, (model.memory_gb * 0.75).max(0.5));
            let gpus = model.gpus();
            let _ = write!(
                text,
                "  {}:\n    type: {}\n    memory_gb: {gb}\n    gpus_required: {gpus}\n    load_time_seconds: {load}\n",
                quoted(&model.id),
                if model.embeds { "embedding" } else { "llm" },
            );
            text.push_str(if model.embeds {
                "    inference_time_mean: 0.05\n    batching: {max_batch: 64, slowdown: [[1, 1.0], [16, 1.5], [64, 3.0]]}\n"
            } else {
                "    token_mean: 250\n    tokens_per_second: 80\n    \
                 batching: {max_batch: 32, slowdown: [[1, 1.0], [8, 1.15], [16, 1.35], [32, 1.8]]}\n"
            });
        }
        text.push_str("workflows:\n");
        for model in &self.models {
            let _ = writeln!(
                text,
                "  {0}:\n    nodes: [{{id: call, model: {0}, inputs: [prompt], outputs: [{1}]}}]",
                quoted(&model.id),
                if model.embeds { "vector" } else { "text" },
            );
        }
        let _ = writeln!(
            text,
            "cluster: {{gpus: {}, gpu_memory_gb: 80{}}}",
            self.gpus(),
            if self.server == Some("ollama") { ", residency: memory" } else { "" }
        );
        text
    }

    /// Requests of every workflow, by turns.
    pub fn requests(&self) -> String {
        let mut text = String::from("# Requests and their arrivals, in seconds.\nrequests:\n");
        for at in 0..REQUESTS * self.models.len() {
            let _ = writeln!(
                text,
                "  - {{request_id: r{at:03}, timestamp: {:.1}, workflow_id: {}, input_data: {{prompt: \"Prompt {at}\"}}}}",
                at as f64 * 0.5,
                quoted(&self.models[at % self.models.len()].id),
            );
        }
        text
    }

    /// The file of servers, for a server.
    pub fn servers(&self) -> Option<String> {
        let kind = self.server?;
        let url = quoted(&self.place);
        let rest = match self.models.first() {
            Some(_) if HOLD_ONE.contains(&kind) => {
                let each = self.models.iter().map(|model| {
                    let (id, url) = (quoted(&model.id), quoted(&model.url));
                    format!("{id}: {{as: {id}, url: {url}}}")
                });
                format!("models: {{{}}}", each.collect::<Vec<_>>().join(", "))
            }
            _ => format!("url: {url}"),
        };
        Some(format!(
            "# The servers of live runs; docs/backends.md describes every kind and field.\n\
             backends:\n  - {{name: here, kind: {kind}, {rest}}}\n"
        ))
    }
}

/// The models that a server lists.
fn server(address: &str) -> Result<Found, Failure> {
    let base = address.trim_end_matches('/').trim_end_matches("/v1");
    let second = Duration::from_secs(1);
    let limits =
        HttpLimits { connect: 5 * second, answer: 10 * second, load: 10 * second, unload: 10 * second };
    let http = Http::new(base, None, limits).map_err(Failure::input)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(FailureKind::Internal, format!("internal error: {error}")))?;
    let asked = runtime.block_on(http.get("/v1/models")).map_err(|error| error.to_string());
    let listed: Result<Listed, String> =
        asked.and_then(|answer| serde_json::from_value(answer).map_err(|error| error.to_string()));
    let listed = listed.map_err(|error| {
        Failure::input(format!("{base}/v1/models: {error}"))
            .hint("is the server running? It must list its models at /v1/models, as the OpenAI API does")
    })?;
    let owner = listed.data.first().map_or("", |model| model.owned_by.as_str());
    let kind = match owner {
        "gswarm" => "gswarm",
        "vllm" => "vllm",
        "sglang" => "sglang",
        "library" => "ollama",
        "llamacpp" => "llamacpp",
        _ => "openai",
    };
    // Only Ollama says how large each model is.
    let sizes = if kind == "ollama" {
        runtime.block_on(http.get("/api/tags")).unwrap_or_default()
    } else {
        Value::Null
    };
    let sizes: Tags = serde_json::from_value(sizes).unwrap_or_default();
    let size = |id: &str| {
        let found = sizes.models.iter().find(|tag| tag.name == id || tag.name == format!("{id}:latest"));
        found.map(|tag| (tag.size / 1e7).ceil() / 100.0).filter(|&gb| gb > 0.0)
    };
    let models = listed.data.into_iter().map(|model| Model {
        memory_gb: size(&model.id).unwrap_or_else(|| guessed_gb(&model.id)),
        url: base.to_owned(),
        embeds: model.id.to_lowercase().contains("embed"),
        id: model.id,
    });
    let most = if HOLD_ONE.contains(&kind) { 1 } else { usize::MAX };
    Ok(Found { place: base.to_owned(), server: Some(kind), models: models.take(most).collect() })
}

/// The models of a folder.
fn folder(place: &str) -> Result<Found, Failure> {
    let fault = |error: gswarm_infer::Error| {
        Failure::input(error.to_string()).hint(
            "--from takes the address of a server, such as http://localhost:8000, or a folder of models",
        )
    };
    let entries = Store::open(Path::new(place)).and_then(|store| store.list()).map_err(fault)?;
    let models = entries.into_iter().filter_map(|entry| {
        let embeds = entry.config.ok()?.kind() == ModelKind::Embedding;
        let memory_gb = (entry.bytes as f64 / 1e7).ceil().max(1.0) / 100.0;
        Some(Model { id: entry.name, url: String::new(), memory_gb, embeds })
    });
    Ok(Found { place: place.to_owned(), server: None, models: models.collect() })
}

/// Two bytes per parameter, if the name gives the billions, such as `llama-3-8b`.
fn guessed_gb(name: &str) -> f64 {
    let lower = name.to_lowercase();
    let words = lower.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    let mut billions = words.filter_map(|word| word.strip_suffix('b')?.parse::<f64>().ok());
    billions.rfind(|count| (0.05..5000.0).contains(count)).map_or(USUAL_GB, |count| 2.0 * count)
}

/// A name quoted for YAML.
fn quoted(name: &str) -> String {
    let simple = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    if simple && name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        name.to_owned()
    } else {
        serde_json::Value::from(name).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_guessed_from_names() {
        for (name, gb) in [("meta/Llama-3.1-8B-Instruct", 16.0), ("qwen2.5:0.5b", 1.0), ("mystery", USUAL_GB)]
        {
            assert_eq!(guessed_gb(name), gb, "{name}");
        }
    }

    #[test]
    fn names_are_quoted_where_yaml_needs_it() {
        assert_eq!(quoted("llm-8b"), "llm-8b");
        assert_eq!(quoted("meta/llama: x"), "\"meta/llama: x\"");
        assert_eq!(quoted("8b"), "\"8b\"");
    }
}
