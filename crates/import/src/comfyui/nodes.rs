//! Nodes of a workflow, whichever form they come in.

use crate::guess::ENDS;
use serde_json::Value;

/// What passes a link on, slot by slot: the two ends of a subgraph that was written out.
pub const HUB: &str = "<subgraph>";

/// Most inputs, or outputs, of one node.
pub const MAX_SLOTS: usize = 256;

#[derive(Clone, Debug)]
pub struct Node {
    /// As the file numbers it; inside a subgraph behind the number of that.
    pub id: String,
    pub class: String,
    /// Where it stands in the text.
    pub at: u32,
    pub mode: Mode,
    pub inputs: Vec<Input>,
    /// Types of what it gives, where the form says.
    pub outputs: Vec<String>,
    /// Its settings, by name where names are known.
    pub widgets: Vec<(Option<String>, Value)>,
    /// Folders of model files, where the form says.
    pub folders: Vec<(String, String)>,
}

/// Whether a node is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Active,
    /// Neither it nor what needs it is run.
    Muted,
    /// What comes in goes out again.
    Bypassed,
}

/// What comes into a node.
#[derive(Clone, Debug)]
pub struct Input {
    pub name: String,
    /// Its type, where the form says.
    pub kind: Option<String>,
    /// The node and its output that it comes from.
    pub from: Option<(usize, usize)>,
}

impl Node {
    pub fn is_hub(&self) -> bool {
        self.class == HUB
    }

    pub fn is_comment(&self) -> bool {
        matches!(self.class.as_str(), "Note" | "MarkdownNote")
    }

    /// `KSampler_3`.
    pub fn shown(&self) -> String {
        format!("{}_{}", self.class, self.id)
    }

    pub fn input(&self, name: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.name == name)
    }

    /// A setting of this name, as it stands in the node itself.
    pub fn widget(&self, name: &str) -> Option<&Value> {
        let named = self.widgets.iter().find(|(known, _)| known.as_deref() == Some(name));
        named.map(|(_, value)| value)
    }

    /// Names of model files among its settings.
    pub fn files(&self) -> Vec<&str> {
        let texts = self.widgets.iter().filter_map(|(_, value)| value.as_str());
        texts.filter(|text| is_model_file(text)).collect()
    }
}

/// Whether a setting is the name of a file with weights.
pub fn is_model_file(text: &str) -> bool {
    !text.contains('\n')
        && text.len() < 300
        && ENDS.iter().any(|end| text.to_ascii_lowercase().ends_with(end))
}

/// The settings of a class in the order in which the editor saves them. Seeds are followed by what becomes of them.
pub fn widget_names(class: &str) -> &'static [&'static str] {
    match class {
        "KSampler" => &["seed", "control", "steps", "cfg", "sampler_name", "scheduler", "denoise"],
        "KSamplerAdvanced" => &[
            "add_noise",
            "noise_seed",
            "control",
            "steps",
            "cfg",
            "sampler_name",
            "scheduler",
            "start_at_step",
            "end_at_step",
            "return_with_leftover_noise",
        ],
        "BasicScheduler" => &["scheduler", "steps", "denoise"],
        "LTXVScheduler" | "AlignYourStepsScheduler" | "KarrasScheduler" => &["steps"],
        "Flux2Scheduler" => &["steps", "width", "height"],
        "ManualSigmas" => &["sigmas"],
        "EmptyLatentImage" | "EmptySD3LatentImage" | "EmptyFlux2LatentImage" => {
            &["width", "height", "batch_size"]
        }
        "EmptyHunyuanLatentVideo" | "EmptyLTXVLatentVideo" | "EmptyMochiLatentVideo" | "WanImageToVideo" => {
            &["width", "height", "length", "batch_size"]
        }
        "SVD_img2vid_Conditioning" => &["width", "height", "length"],
        "EmptyAceStep1.5LatentAudio" | "EmptyLatentAudio" => &["seconds", "batch_size"],
        "PrimitiveInt"
        | "PrimitiveFloat"
        | "PrimitiveBoolean"
        | "PrimitiveString"
        | "PrimitiveStringMultiline"
        | "PrimitiveNode" => &["value"],
        "ComfySwitchNode" => &["switch"],
        "TextGenerate" | "TextGenerateLTX2Prompt" => &["prompt", "max_length"],
        _ => &[],
    }
}
