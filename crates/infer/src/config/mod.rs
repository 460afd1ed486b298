//! `config.json`: what a model is, and how large. Sizes are checked here, so that no later allocation follows a number
//! that nobody looked at.

mod fields;

use crate::error::{Error, Result};
use crate::files;
use fields::Fields;
use serde_json::Value;
use std::path::Path;

/// What a model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Continues text.
    Language,
    /// Turns texts into vectors.
    Embedding,
}

impl ModelKind {
    /// As the model server and the command call it.
    pub fn name(self) -> &'static str {
        match self {
            ModelKind::Language => "llm",
            ModelKind::Embedding => "embedding",
        }
    }
}

/// A model's architecture and sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// A decoder language model.
    Decoder(DecoderConfig),
    /// An encoder for embeddings.
    Encoder(EncoderConfig),
}

/// A decoder in the manner of Llama: rotary positions, grouped queries, gated feed-forward, RMS norm.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Tokens that the model knows.
    pub vocab_size: usize,
    /// Maximum context: tokens of prompt and answer together.
    pub max_positions: usize,
    /// Added to the variance in norms.
    pub norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How the frequencies are stretched for long contexts.
    pub rope_scaling: RopeScaling,
    /// Whether the output layer is the input embedding.
    pub tied: bool,
    /// Whether queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// Whether the attention's output has a bias.
    pub output_bias: bool,
    /// Whether the feed-forward layers have biases.
    pub mlp_bias: bool,
    /// How far back attention looks, where that is limited.
    pub window: Option<usize>,
    /// Tokens that end an answer.
    pub eos: Vec<u32>,
    /// The token that begins a text.
    pub bos: Option<u32>,
}

/// How rotary frequencies are stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All by one factor.
    Linear(f64),
    /// The rule of Llama 3.1: long waves by the factor, short ones not, those between in part.
    Llama3 {
        /// Stretch of the long waves.
        factor: f64,
        /// Waves longer than the original context over this are long.
        low: f64,
        /// Waves shorter than the original context over this are short.
        high: f64,
        /// The context that the model was first trained with.
        original: f64,
    },
}

/// An encoder in the manner of BERT.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// Width of the vectors.
    pub hidden_size: usize,
    /// Width of the feed-forward layers.
    pub intermediate_size: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// Tokens that the model knows.
    pub vocab_size: usize,
    /// Most tokens of a text.
    pub max_positions: usize,
    /// Kinds of segment.
    pub segments: usize,
    /// Added to the variance in norms.
    pub norm_eps: f64,
    /// Whether the activation is the approximation of GELU by tanh.
    pub gelu_tanh: bool,
}

/// Largest of any one width; a file that says more is damaged.
const MAX_WIDTH: u64 = 1 << 20;
const MAX_LAYERS: u64 = 1 << 10;
const MAX_VOCAB: u64 = 1 << 22;
const MAX_POSITIONS: u64 = 1 << 24;

impl ModelConfig {
    /// Reads `config.json` of a model's folder.
    pub fn read(folder: &Path) -> Result<ModelConfig> {
        let path = folder.join("config.json");
        let json = files::read_json(&path)?;
        let fields = Fields { path: &path, json: &json };
        let architecture = fields.architecture();
        match architecture {
            "LlamaForCausalLM" | "MistralForCausalLM" | "Qwen2ForCausalLM" => {
                let mut config = decoder(&fields, architecture)?;
                // Chat models end a turn with a token that only this file names.
                let generation = folder.join("generation_config.json");
                if let Some(json) = files::read_json_if_there(&generation)? {
                    let more = Fields { path: &generation, json: &json }
                        .tokens("eos_token_id", config.vocab_size)?;
                    config.eos.extend(more);
                    config.eos.sort_unstable();
                    config.eos.dedup();
                }
                Ok(ModelConfig::Decoder(config))
            }
            "BertModel" | "BertForMaskedLM" => encoder(&fields).map(ModelConfig::Encoder),
            "" => Err(Error::invalid(&path, "it names no architecture")),
            other => Err(Error::unsupported(&path, format!("the architecture {other}"))),
        }
    }

    /// What the model does.
    pub fn kind(&self) -> ModelKind {
        match self {
            ModelConfig::Decoder(_) => ModelKind::Language,
            ModelConfig::Encoder(_) => ModelKind::Embedding,
        }
    }

    /// Tokens that the model knows.
    pub fn vocab_size(&self) -> usize {
        match self {
            ModelConfig::Decoder(config) => config.vocab_size,
            ModelConfig::Encoder(config) => config.vocab_size,
        }
    }

    /// Most tokens that the model reads at once.
    pub fn max_positions(&self) -> usize {
        match self {
            ModelConfig::Decoder(config) => config.max_positions,
            ModelConfig::Encoder(config) => config.max_positions,
        }
    }
}

fn decoder(fields: &Fields<'_>, architecture: &str) -> Result<DecoderConfig> {
    fields.word("hidden_act", "silu", &["silu"])?;
    let hidden_size = fields.size("hidden_size", None, MAX_WIDTH)?;
    let heads = fields.size("num_attention_heads", None, MAX_WIDTH)?;
    let kv_heads = fields.size("num_key_value_heads", Some(heads), MAX_WIDTH)?;
    if !heads.is_multiple_of(kv_heads) {
        return Err(fields.wrong(format!("{heads} heads cannot share {kv_heads} keys and values evenly")));
    }
    let head_dim = match hidden_size.is_multiple_of(heads) {
        true => fields.size("head_dim", Some(hidden_size / heads), MAX_WIDTH)?,
        false => fields.size("head_dim", None, MAX_WIDTH)?,
    };
    if !head_dim.is_multiple_of(2) {
        return Err(fields.wrong(format!("rotary positions need heads of even width, not {head_dim}")));
    }
    let vocab_size = fields.size("vocab_size", None, MAX_VOCAB)?;
    let qwen = architecture == "Qwen2ForCausalLM";
    let window = match fields.json.get("sliding_window") {
        // Qwen2 files name a window that is off unless another field turns it on.
        _ if qwen && !fields.flag("use_sliding_window")? => None,
        _ if architecture == "LlamaForCausalLM" => None,
        None | Some(Value::Null) => None,
        Some(_) => Some(fields.size("sliding_window", None, MAX_POSITIONS)?),
    };
    let bias = fields.flag("attention_bias")?;
    let rope = fields.nested("rope_parameters").unwrap_or(*fields);
    Ok(DecoderConfig {
        hidden_size,
        intermediate_size: fields.size("intermediate_size", None, MAX_WIDTH)?,
        layers: fields.size("num_hidden_layers", None, MAX_LAYERS)?,
        heads,
        kv_heads,
        head_dim,
        vocab_size,
        max_positions: fields.size("max_position_embeddings", Some(2048), MAX_POSITIONS)?,
        norm_eps: fields.positive("rms_norm_eps", 1e-6)?,
        rope_theta: rope.positive("rope_theta", 10_000.0)?,
        rope_scaling: rope_scaling(fields)?,
        tied: fields.flag("tie_word_embeddings")?,
        qkv_bias: bias || qwen,
        output_bias: bias && !qwen,
        mlp_bias: fields.flag("mlp_bias")?,
        window,
        eos: fields.tokens("eos_token_id", vocab_size)?,
        bos: fields.tokens("bos_token_id", vocab_size)?.first().copied(),
    })
}

fn rope_scaling(fields: &Fields<'_>) -> Result<RopeScaling> {
    let Some(inner) = fields.nested("rope_scaling").or_else(|| fields.nested("rope_parameters")) else {
        return Ok(RopeScaling::None);
    };
    let old_name = inner.json.get("type").and_then(Value::as_str);
    match inner.json.get("rope_type").and_then(Value::as_str).or(old_name).unwrap_or("default") {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear(inner.positive("factor", 1.0)?)),
        "llama3" => {
            let (low, high) =
                (inner.positive("low_freq_factor", 1.0)?, inner.positive("high_freq_factor", 4.0)?);
            if high <= low {
                return Err(fields.wrong("high_freq_factor is not above low_freq_factor"));
            }
            let original = inner.positive("original_max_position_embeddings", 8192.0)?;
            Ok(RopeScaling::Llama3 { factor: inner.positive("factor", 8.0)?, low, high, original })
        }
        other => Err(Error::unsupported(fields.path, format!("the rotary scaling {other}"))),
    }
}

fn encoder(fields: &Fields<'_>) -> Result<EncoderConfig> {
    let activation = fields.word("hidden_act", "gelu", &["gelu", "gelu_new", "gelu_pytorch_tanh"])?;
    fields.word("position_embedding_type", "absolute", &["absolute"])?;
    let hidden_size = fields.size("hidden_size", None, MAX_WIDTH)?;
    let heads = fields.size("num_attention_heads", None, MAX_WIDTH)?;
    if !hidden_size.is_multiple_of(heads) {
        return Err(fields.wrong(format!("{heads} heads cannot share a width of {hidden_size} evenly")));
    }
    Ok(EncoderConfig {
        hidden_size,
        intermediate_size: fields.size("intermediate_size", None, MAX_WIDTH)?,
        layers: fields.size("num_hidden_layers", None, MAX_LAYERS)?,
        heads,
        vocab_size: fields.size("vocab_size", None, MAX_VOCAB)?,
        max_positions: fields.size("max_position_embeddings", Some(512), MAX_POSITIONS)?,
        segments: fields.size("type_vocab_size", Some(2), MAX_WIDTH)?,
        norm_eps: fields.positive("layer_norm_eps", 1e-12)?,
        gelu_tanh: activation != "gelu",
    })
}
