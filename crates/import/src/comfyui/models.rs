//! Which model a node runs: back from the node through patches and guiders to the loaders, and the files that these name.

use super::flow::Flow;
use super::nodes::Node;
use crate::ImportOptions;
use crate::draft::Draft;
use crate::guess::{self, From};
use gswarm_core::ModelId;
use gswarm_core::input::ModelSpec;

/// What part of a model a link brings. The order is that of importance: a node that gets several runs the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Diffusion,
    Text,
    Upscaler,
    Vision,
    Audio,
    Other,
    Vae,
    /// Runs inside a sampler, not by itself.
    Attached,
    /// Says how to sample: sigmas, samplers and noise.
    Plan,
}

impl Part {
    /// Whether a node that gets it may run it.
    pub fn is_run(self) -> bool {
        !matches!(self, Part::Attached | Part::Plan)
    }

    fn usual_gb(self) -> f64 {
        match self {
            Part::Diffusion => 12.0,
            Part::Text => 5.0,
            Part::Vision => 1.3,
            Part::Upscaler => 0.2,
            Part::Vae => 0.4,
            _ => 2.0,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Part::Diffusion => "image_generation",
            Part::Text => "embedding",
            Part::Audio => "audio",
            _ => "image_processing",
        }
    }
}

/// The part of a model that a link of this type brings to an input of this name; `None` for everything that is no model.
pub fn part(kind: Option<&str>, name: &str) -> Option<Part> {
    let found = match kind.unwrap_or("*") {
        "MODEL" | "GUIDER" => Part::Diffusion,
        "CLIP" => Part::Text,
        "VAE" => Part::Vae,
        "CLIP_VISION" => Part::Vision,
        "UPSCALE_MODEL" | "LATENT_UPSCALE_MODEL" => Part::Upscaler,
        "AUDIO_ENCODER" => Part::Audio,
        "CONTROL_NET" | "STYLE_MODEL" | "GLIGEN" | "MODEL_PATCH" | "HOOKS" | "IPADAPTER" | "M_MODELS"
        | "MOTION_MODEL_ADE" => Part::Attached,
        "SIGMAS" | "SAMPLER" | "NOISE" => Part::Plan,
        // Those of extensions, which are called after what they bring: WANVIDEOMODEL, WANVAE, SAM2MODEL, NORMALCRAFTER_PIPE.
        kind if kind.ends_with("VIDEOMODEL") || kind.ends_with("VIDMODEL") => Part::Diffusion,
        kind if kind.ends_with("VAE") => Part::Vae,
        kind if kind.ends_with("TEXTENCODER") => Part::Text,
        kind if kind.ends_with("MODEL") || kind.ends_with("_PIPE") || kind.ends_with("PIPELINE") => {
            Part::Other
        }
        "BACKGROUND_REMOVAL" => Part::Other,
        "*" | "COMBO" => match name {
            "model" | "guider" | "model1" | "model2" => Part::Diffusion,
            "clip" | "clip1" | "clip2" => Part::Text,
            "clip_vision" => Part::Vision,
            "upscale_model" => Part::Upscaler,
            "audio_encoder" => Part::Audio,
            "control_net" | "style_model" | "model_patch" => Part::Attached,
            "sigmas" | "sampler" | "noise" => Part::Plan,
            name if name == "vae" || name.ends_with("_vae") => Part::Vae,
            _ => return None,
        },
        _ => return None,
    };
    Some(found)
}

#[derive(Clone, Debug)]
pub struct Run {
    pub part: Part,
    /// Files of the loader, with their folders where these are known; its class where it names none.
    files: Vec<(String, Option<String>)>,
    /// Files that are put over it on the way.
    adapters: Vec<String>,
    /// Whether other models come into the node as well.
    others: bool,
    shown: String,
}

/// A node that runs a model of its own, which no loader brings.
pub fn alone(node: &Node) -> Run {
    Run { part: Part::Other, files: files(node), adapters: Vec::new(), others: false, shown: node.shown() }
}

/// Follows an input back to its loader.
pub fn trace(flow: &Flow<'_>, node: usize, input: usize, part: Part, others: bool) -> Run {
    let mut run =
        Run { part, files: Vec::new(), adapters: Vec::new(), others, shown: flow.nodes[node].shown() };
    let mut at = flow.source(node, input);
    // No cycle was found before; the limit is for safety's sake.
    for _ in 0..flow.nodes.len() {
        let Some((from, _)) = at else { break };
        let loader = &flow.nodes[from];
        let inputs = flow.model_inputs(from);
        let next =
            inputs.iter().find(|(_, kind)| *kind == part).or(inputs.iter().find(|(_, kind)| kind.is_run()));
        match next {
            Some(&(input, _)) => {
                run.adapters.extend(loader.files().into_iter().map(str::to_owned));
                at = flow.source(from, input);
            }
            None => {
                run.files = files(loader);
                break;
            }
        }
    }
    run.adapters.sort_unstable();
    run.adapters.dedup();
    run
}

fn files(loader: &Node) -> Vec<(String, Option<String>)> {
    let folder =
        |file: &str| loader.folders.iter().find(|(name, _)| name == file).map(|(_, folder)| folder.clone());
    let found: Vec<_> = loader.files().iter().map(|&file| (file.to_owned(), folder(file))).collect();
    if found.is_empty() { vec![(loader.class.clone(), None)] } else { found }
}

/// The model in the draft: the files of its loader together, with what is put over them.
pub fn model(run: &Run, options: &ImportOptions, draft: &mut Draft) -> ModelId {
    if run.others {
        draft.notes.say_of("Nodes that use several models count for the first of them", run.shown.as_str());
    }
    let base = run.files.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>().join(" + ");
    let base = if base.is_empty() { "unknown model".to_owned() } else { base };
    let id = run.adapters.iter().fold(base.clone(), |id, adapter| format!("{id} + {adapter}"));
    draft.model(&id, |notes| {
        let mut gb = 0.0;
        for (file, folder) in &run.files {
            let usual = folder.as_deref().and_then(usual_of).unwrap_or(run.part.usual_gb());
            let usual = if is_checkpoint(file, folder.as_deref()) { 7.0_f64.max(usual) } else { usual };
            gb += size(file, usual, options, notes);
        }
        for adapter in &run.adapters {
            gb += size(adapter, 0.5, options, notes);
        }
        notes.say("Models load at 2 GB a second, after 1 s; those above 72 GB take several GPUs");
        let made = guess::model(guess::rounded(gb.max(0.05)), run.part.kind());
        ModelSpec { base_model: (!run.adapters.is_empty()).then_some(base), ..made }
    })
}

fn size(file: &str, usual: f64, options: &ImportOptions, notes: &mut crate::draft::Notes) -> f64 {
    // A rank or a step count in the name of an adapter is no number of parameters, but `14B` in it is that of its base.
    let size = if usual <= 0.5 && options.sizes.iter().all(|(name, _)| name != file) {
        guess::Size { gb: usual, from: From::Sort }
    } else {
        guess::size(file, usual, &options.sizes)
    };
    let sentence = match size.from {
        From::Table => "File sizes come from --sizes",
        From::Name => "File sizes derived from names: parameters times bytes of the precision",
        From::Sort => "Unknown file sizes; typical values are used (set them with --sizes)",
    };
    notes.say_of(sentence, format!("{file} ({} GB)", size.gb));
    size.gb
}

fn is_checkpoint(file: &str, folder: Option<&str>) -> bool {
    folder == Some("checkpoints") || file.contains("checkpoint")
}

/// What files of a folder usually have, in GB.
fn usual_of(folder: &str) -> Option<f64> {
    Some(match folder {
        "checkpoints" => 7.0,
        "diffusion_models" => 12.0,
        "text_encoders" => 5.0,
        "vae" => 0.4,
        "loras" => 0.5,
        "clip_vision" => 1.3,
        "controlnet" | "model_patches" => 2.5,
        "upscale_models" | "latent_upscale_models" => 0.2,
        _ => return None,
    })
}
