//! Ready-made configurations: a small one for a first look, and one with many models for comparisons.

use super::requests::in_order;
use serde::Serialize;
use std::str::FromStr;

/// A ready-made configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 3 models, one of them on 4 GPUs; 2 workflows.
    Simple,
    /// 10 models, one of them on 8 GPUs; 3 workflows.
    Complex,
}

impl Preset {
    /// Every preset.
    pub const ALL: &[Preset] = &[Preset::Simple, Preset::Complex];

    /// As flags spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Preset::Simple => "simple",
            Preset::Complex => "complex",
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(self) -> ConfigFile {
        match self {
            Preset::Simple => simple(),
            Preset::Complex => complex(),
        }
    }
}

impl FromStr for Preset {
    type Err = String;
    fn from_str(name: &str) -> Result<Preset, String> {
        Preset::ALL
            .iter()
            .copied()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| format!("no preset `{name}`: there are simple and complex"))
    }
}

/// A configuration as it is written.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigFile {
    #[serde(serialize_with = "in_order")]
    models: Vec<(&'static str, ModelEntry)>,
    #[serde(serialize_with = "in_order")]
    workflows: Vec<(&'static str, WorkflowEntry)>,
    cluster: ClusterEntry,
}

#[derive(Clone, Debug, Serialize)]
struct ModelEntry {
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    memory_gb: f64,
    gpus_required: u32,
    load_time_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_std: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_time_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_time_std: Option<f64>,
    #[serde(serialize_with = "in_order", skip_serializing_if = "Vec::is_empty")]
    config: Vec<(&'static str, &'static [u32])>,
}

#[derive(Clone, Debug, Serialize)]
struct WorkflowEntry {
    name: &'static str,
    nodes: Vec<NodeEntry>,
    edges: Vec<EdgeEntry>,
}

#[derive(Clone, Debug, Serialize)]
struct NodeEntry {
    id: &'static str,
    model: &'static str,
    inputs: Vec<&'static str>,
    outputs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    config_options: Vec<&'static str>,
}

#[derive(Clone, Debug, Serialize)]
struct EdgeEntry {
    from: &'static str,
    to: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct ClusterEntry {
    gpus: u32,
    gpus_per_server: u32,
}

/// A model of `gpus` GPUs, `memory_gb` large and loaded in `load` seconds; its times come with the calls below.
fn model(name: &'static str, kind: &'static str, gpus: u32, memory_gb: f64, load: f64) -> ModelEntry {
    ModelEntry {
        name,
        kind,
        memory_gb,
        gpus_required: gpus,
        load_time_seconds: load,
        tokens_per_second: None,
        token_mean: None,
        token_std: None,
        inference_time_mean: None,
        inference_time_std: None,
        config: Vec::new(),
    }
}

impl ModelEntry {
    fn tokens(mut self, per_second: f64, mean: f64, std: f64) -> ModelEntry {
        (self.tokens_per_second, self.token_mean, self.token_std) = (Some(per_second), Some(mean), Some(std));
        self
    }

    fn seconds(mut self, mean: f64, std: f64) -> ModelEntry {
        (self.inference_time_mean, self.inference_time_std) = (Some(mean), Some(std));
        self
    }

    fn option(mut self, name: &'static str, values: &'static [u32]) -> ModelEntry {
        self.config.push((name, values));
        self
    }
}

/// A node of a workflow: `id`, model, what it reads, what it writes, the options that a request may set.
type Node = (&'static str, &'static str, &'static [&'static str], &'static str, &'static [&'static str]);

/// The edges follow from the names: a node that reads what another writes comes after it.
fn workflow(name: &'static str, nodes: &[Node]) -> WorkflowEntry {
    let mut edges = Vec::new();
    for &(to, _, inputs, ..) in nodes {
        let sources = inputs.iter().filter_map(|input| nodes.iter().find(|node| node.3 == *input));
        edges.extend(sources.map(|source| EdgeEntry { from: source.0, to }));
    }
    let entry = |&(id, model, inputs, output, options): &Node| NodeEntry {
        id,
        model,
        inputs: inputs.to_vec(),
        outputs: vec![output],
        config_options: options.to_vec(),
    };
    WorkflowEntry { name, nodes: nodes.iter().map(entry).collect(), edges }
}

fn simple() -> ConfigFile {
    ConfigFile {
        models: vec![
            (
                "writer",
                model("Writer 8B", "llm", 1, 16.0, 12.0)
                    .tokens(60.0, 420.0, 110.0)
                    .option("max_length", &[256, 512, 1024]),
            ),
            ("thinker", model("Thinker 34B", "llm", 4, 68.0, 44.0).tokens(24.0, 900.0, 220.0)),
            (
                "painter",
                model("Painter XL", "image_generation", 1, 7.0, 5.5)
                    .seconds(2.4, 0.5)
                    .option("steps", &[20, 30, 40]),
            ),
        ],
        workflows: vec![
            (
                "illustrate",
                workflow(
                    "A picture from an idea",
                    &[
                        ("describe", "writer", &["idea"], "picture_prompt", &["max_length"]),
                        ("paint", "painter", &["picture_prompt"], "picture", &["steps"]),
                    ],
                ),
            ),
            (
                "essay",
                workflow(
                    "An essay, reasoned and illustrated",
                    &[
                        ("outline", "writer", &["question"], "plan", &["max_length"]),
                        ("reason", "thinker", &["plan"], "argument", &[]),
                        ("polish", "writer", &["argument"], "text", &["max_length"]),
                        ("cover", "painter", &["plan"], "cover_picture", &["steps"]),
                    ],
                ),
            ),
        ],
        cluster: ClusterEntry { gpus: 8, gpus_per_server: 8 },
    }
}

fn complex() -> ConfigFile {
    ConfigFile {
        models: vec![
            ("listen", model("Speech to text", "audio", 1, 3.0, 4.0).seconds(1.8, 0.6)),
            ("speak", model("Text to speech", "audio", 1, 2.0, 3.0).seconds(2.6, 0.7)),
            ("embed", model("Embedder", "embedding", 1, 1.5, 2.0).seconds(0.3, 0.05)),
            ("rerank", model("Reranker", "embedding", 1, 2.5, 2.5).seconds(0.6, 0.15)),
            (
                "chat",
                model("Chat 8B", "llm", 1, 16.0, 12.0)
                    .tokens(60.0, 380.0, 120.0)
                    .option("max_length", &[256, 512]),
            ),
            ("coder", model("Coder 14B", "llm", 1, 28.0, 18.0).tokens(42.0, 650.0, 180.0)),
            ("judge", model("Judge 32B", "llm", 2, 64.0, 36.0).tokens(30.0, 500.0, 140.0)),
            ("frontier", model("Frontier 235B", "llm", 8, 470.0, 150.0).tokens(18.0, 700.0, 200.0)),
            (
                "painter",
                model("Painter XL", "image_generation", 1, 7.0, 5.5)
                    .seconds(2.4, 0.5)
                    .option("steps", &[20, 30, 40])
                    .option("width", &[768, 1024]),
            ),
            ("upscale", model("Upscaler", "image_processing", 1, 4.0, 3.5).seconds(1.2, 0.3)),
        ],
        workflows: vec![
            (
                "voice_answer",
                workflow(
                    "A spoken question, answered aloud",
                    &[
                        ("transcribe", "listen", &["recording"], "question", &[]),
                        ("search", "embed", &["question"], "candidates", &[]),
                        ("rank", "rerank", &["candidates", "question"], "passages", &[]),
                        ("answer", "chat", &["passages"], "reply", &["max_length"]),
                        ("say", "speak", &["reply"], "audio", &[]),
                    ],
                ),
            ),
            (
                "illustrated_report",
                workflow(
                    "A researched report with figures",
                    &[
                        ("plan", "chat", &["topic"], "sections", &["max_length"]),
                        ("gather", "embed", &["sections"], "sources", &[]),
                        ("research", "frontier", &["sources"], "findings", &[]),
                        ("draw", "painter", &["sections"], "figure", &["steps", "width"]),
                        ("enlarge", "upscale", &["figure"], "large_figure", &[]),
                        ("assemble", "chat", &["findings", "large_figure"], "report", &["max_length"]),
                        ("verify", "judge", &["report"], "verdict", &[]),
                    ],
                ),
            ),
            (
                "code_change",
                workflow(
                    "A change to a program, reviewed",
                    &[
                        ("locate", "embed", &["request"], "files", &[]),
                        ("implement", "coder", &["files"], "patch", &[]),
                        ("test", "coder", &["files"], "tests", &[]),
                        ("review", "judge", &["patch", "tests"], "remarks", &[]),
                        ("revise", "coder", &["remarks"], "final_patch", &[]),
                        ("announce", "chat", &["final_patch"], "summary", &["max_length"]),
                    ],
                ),
            ),
        ],
        cluster: ClusterEntry { gpus: 16, gpus_per_server: 8 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_promised_shape() {
        for (preset, models, widest, workflows) in [(Preset::Simple, 3, 4, 2), (Preset::Complex, 10, 8, 3)] {
            let config = preset.config();
            assert_eq!(config.models.len(), models);
            assert_eq!(config.workflows.len(), workflows);
            let widths = config.models.iter().map(|(_, model)| model.gpus_required);
            assert_eq!(widths.clone().max(), Some(widest));
            assert_eq!(widths.filter(|&width| width == widest).count(), 1);
            assert_eq!(preset.name().parse(), Ok(preset));
        }
    }

    #[test]
    fn every_model_of_a_preset_is_used_and_known() {
        for preset in Preset::ALL {
            let config = preset.config();
            let nodes: Vec<_> = config.workflows.iter().flat_map(|(_, workflow)| &workflow.nodes).collect();
            assert!(config.models.iter().all(|(id, _)| nodes.iter().any(|node| node.model == *id)));
            assert!(nodes.iter().all(|node| config.models.iter().any(|(id, _)| *id == node.model)));
            for (_, workflow) in &config.workflows {
                assert!(
                    workflow.edges.len() + 1 >= workflow.nodes.len(),
                    "every node but the first has an edge"
                );
            }
        }
    }
}
