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
        "WanVideoSampler" => &["steps", "cfg", "shift", "seed", "control"],
        "WanVideoEmptyEmbeds" | "WanVideoVACEEncode" => &["width", "height", "num_frames"],
        "EmptyQwenImageLayeredLatentImage" => &["width", "height", "layers", "batch_size"],
        "NormalCrafterNode" => &["seed", "control", "max_res", "window_size"],
        "AILab_QwenVL" => &["model_name", "quantization", "attention", "preset", "prompt", "max_tokens"],
        "SVD_img2vid_Conditioning" => &["width", "height", "length"],
        "EmptyAceStep1.5LatentAudio" | "EmptyLatentAudio" => &["seconds", "batch_size"],
        "PrimitiveInt"
        | "PrimitiveFloat"
        | "PrimitiveBoolean"
        | "PrimitiveString"
        | "PrimitiveStringMultiline"
        | "PrimitiveNode"
        | "INTConstant"
        | "FloatConstant"
        | "BOOLConstant" => &["value"],
        "ComfySwitchNode" => &["switch"],
        "TextGenerate" | "TextGenerateLTX2Prompt" => &["prompt", "max_length"],
        // Classes that nobody has listed are called after what they do.
        class if class.ends_with("ToVideo") || class.contains("LatentVideo") => {
            &["width", "height", "length", "batch_size"]
        }
        class if class.starts_with("Empty") && class.ends_with("LatentImage") => {
            &["width", "height", "batch_size"]
        }
        class if class.ends_with("LatentAudio") => &["seconds", "batch_size"],
        _ => &[],
    }
}

/// What becomes of a seed, which the editor saves behind it without an input of its own.
const CONTROL: &str = "control";

/// Names of settings, by the inputs that a file has for them. `inputs` are names and types. A file that lists all of them
/// names each setting; one that lists some names those that fit by their types.
pub fn named_by_inputs(inputs: &[(String, String)], values: &[Value]) -> Vec<Option<String>> {
    let mut all: Vec<Option<String>> = Vec::new();
    for (name, _) in inputs {
        all.push(Some(name.clone()));
        if matches!(name.as_str(), "seed" | "noise_seed") {
            all.push(Some(CONTROL.to_owned()));
        }
    }
    if all.len() == values.len() {
        return all;
    }
    if inputs.len() == values.len() {
        return inputs.iter().map(|(name, _)| Some(name.clone())).collect();
    }
    let mut names = vec![None; values.len()];
    let mut from = 0;
    for (name, kind) in inputs {
        let fits = |value: &Value| match kind.as_str() {
            "INT" => value.is_i64() || value.is_u64(),
            "FLOAT" => value.is_number(),
            "BOOLEAN" => value.is_boolean(),
            _ => value.is_string(),
        };
        let Some(at) = (from..values.len()).find(|&at| fits(&values[at])) else { continue };
        names[at] = Some(name.clone());
        from = at + 1;
    }
    names
}

/// Whether a node has a vendor's service compute something. Such classes are called after the vendor.
pub fn calls_a_vendor(node: &Node) -> bool {
    const VENDORS: [&str; 41] = [
        "Beeble",
        "Bria",
        "ByteDance",
        "ElevenLabs",
        "Flux2Max",
        "Flux2Pro",
        "FluxKontextMax",
        "FluxKontextPro",
        "FluxPro",
        "Freepik",
        "Gemini",
        "Grok",
        "HeyGen",
        "Hitem3D",
        "Ideogram",
        "Kling",
        "LtxvApi",
        "Luma",
        "Magnific",
        "Meshy",
        "MiniMax",
        "Minimax",
        "Moonvalley",
        "OpenAI",
        "PixVerse",
        "Pixverse",
        "Quiver",
        "Recraft",
        "Reve",
        "Rodin",
        "Runway",
        "Seedance",
        "Seedream",
        "Sora",
        "Stability",
        "Tencent",
        "Topaz",
        "Tripo",
        "Veo",
        "Vidu",
        "WaveSpeed",
    ];
    const GIVES: [&str; 6] = ["IMAGE", "VIDEO", "AUDIO", "STRING", "SVG", "MESH"];
    let of_vendor = VENDORS.iter().any(|vendor| node.class.starts_with(vendor));
    let gives = |kind: &String| GIVES.contains(&kind.as_str()) || kind.starts_with("FILE_");
    let gives = node.outputs.is_empty() || node.outputs.iter().any(gives);
    (of_vendor || node.class.ends_with("Api") || node.class.ends_with("ApiNode")) && gives
}

/// Whether a node that gets no model from a loader runs one of its own: it names a file with weights, or is called after what
/// only models do.
pub fn holds_a_model(node: &Node) -> bool {
    const WORDS: [&str; 18] = [
        "BiRefNet",
        "Caption",
        "Crafter",
        "DepthAnything",
        "FILM VFI",
        "Florence",
        "Interpolat",
        "JoyCaption",
        "LLM",
        "QwenVL",
        "RIFE",
        "Rembg",
        "SeedVR",
        "Separation",
        "TTS",
        "Transcri",
        "Whisper",
        "Ollama",
    ];
    const LOADS: [&str; 4] = ["Loader", "Load", "Select", "Settings"];
    if LOADS.iter().any(|word| node.class.contains(word)) || calls_a_vendor(node) {
        return false;
    }
    let samples = node.class.ends_with("Sampler") || node.class.contains("Sampler (");
    !node.files().is_empty() || samples || WORDS.iter().any(|word| node.class.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(inputs: &[(&str, &str)], values: Value) -> Vec<String> {
        let inputs: Vec<(String, String)> =
            inputs.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
        let names = named_by_inputs(&inputs, values.as_array().unwrap());
        names.into_iter().map(Option::unwrap_or_default).collect()
    }

    #[test]
    fn settings_are_named_by_the_inputs_of_the_file() {
        let all = [("seed", "INT"), ("steps", "INT"), ("scheduler", "COMBO")];
        assert_eq!(names(&all, json!([7, "fixed", 20, "simple"])), ["seed", "control", "steps", "scheduler"]);
        assert_eq!(names(&all, json!([7, 20, "simple"])), ["seed", "steps", "scheduler"]);
        let some = [("width", "INT"), ("height", "INT")];
        assert_eq!(names(&some, json!(["lanczos", 832, 480, "center"])), ["", "width", "height", ""]);
        assert_eq!(names(&some, json!(["lanczos"])), [""]);
        assert_eq!(names(&[], json!([])), Vec::<String>::new());
    }
}
