//! A decoder language model in the manner of Llama.
//!
//! Tokens of all requests in a pass lie in one matrix, a row each. Everything but attention works on that matrix; each
//! request attends to its own cache alone. There is no padding to the longest, and no request sees another.

mod attention;
mod cache;
mod rope;

pub use cache::Sequence;

use crate::config::{DecoderConfig, ModelConfig};
use crate::error::{Error, Result};
use crate::linear::{Linear, padded};
use crate::text::chat::ChatTemplate;
use crate::text::tokenizer::TextTokenizer;
use crate::weights::Weights;
use attention::{Attention, Span};
use candle_core::{Device, Tensor};
use candle_nn::ops::{rms_norm, silu};
use rope::Rope;
use std::sync::Arc;

/// A language model that is ready to compute. Clones share everything.
#[derive(Clone)]
pub struct LanguageModel {
    parts: Arc<Parts>,
    tokenizer: Arc<TextTokenizer>,
    chat: Arc<ChatTemplate>,
}

struct Parts {
    config: DecoderConfig,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Linear,
    rope: Rope,
}

struct Layer {
    attention_norm: Tensor,
    attention: Attention,
    mlp_norm: Tensor,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl LanguageModel {
    /// Takes the tensors that the architecture needs out of `weights`, without copying them.
    pub fn from_weights(weights: &Weights) -> Result<LanguageModel> {
        let ModelConfig::Decoder(config) = weights.config() else {
            let path = weights.folder().join("config.json");
            return Err(Error::unsupported(&path, "generating text with an embedding model"));
        };
        let width = config.hidden_size;
        let embedding = weights.tensor("model.embed_tokens.weight", &[config.vocab_size, width])?;
        let head = match config.tied {
            true => Linear::of_table(&embedding)?,
            false => Linear::read(weights, "lm_head", width, config.vocab_size, false)?,
        };
        let layers = (0..config.layers).map(|layer| Layer::read(weights, config, layer));
        let parts = Parts {
            embedding,
            layers: layers.collect::<Result<Vec<Layer>>>()?,
            norm: weights.tensor("model.norm.weight", &[width])?,
            head,
            rope: Rope::new(config),
            config: config.clone(),
        };
        let (tokenizer, chat) = (weights.tokenizer().clone(), weights.chat().clone());
        Ok(LanguageModel { parts: Arc::new(parts), tokenizer, chat })
    }

    /// Architecture and sizes.
    pub fn config(&self) -> &DecoderConfig {
        &self.parts.config
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    pub(crate) fn shared_tokenizer(&self) -> Arc<TextTokenizer> {
        self.tokenizer.clone()
    }

    /// Its chat template.
    pub fn chat(&self) -> &ChatTemplate {
        &self.chat
    }

    /// The beginning of a text, with nothing read yet.
    pub fn sequence(&self) -> Sequence {
        Sequence::new(&self.parts.config)
    }

    /// Reads a piece of a text; with `scores`, gives those of the token that comes next.
    pub fn read(&self, sequence: &mut Sequence, tokens: &[u32], scores: bool) -> Result<Option<Vec<f32>>> {
        let hidden = self.forward(&mut [(sequence, tokens)])?;
        if !scores {
            return Ok(None);
        }
        let last = hidden.narrow(0, tokens.len() - 1, 1)?;
        let scores = self.parts.head.forward(&last.pad_with_zeros(0, 0, 1)?)?;
        Ok(Some(scores.get(0)?.to_vec1()?))
    }

    /// Adds one token to each of several texts in one pass, and gives the scores of what comes next in each.
    pub fn step(&self, rows: &mut [(&mut Sequence, u32)]) -> Result<Vec<Vec<f32>>> {
        let count = rows.len();
        let tokens: Vec<[u32; 1]> = rows.iter().map(|(_, token)| [*token]).collect();
        let mut pieces: Vec<(&mut Sequence, &[u32])> = rows
            .iter_mut()
            .zip(&tokens)
            .map(|((sequence, _), token)| (&mut **sequence, &token[..]))
            .collect();
        let hidden = self.forward(&mut pieces)?;
        let scores = self.parts.head.forward(&hidden)?;
        Ok(scores.narrow(0, 0, count)?.to_vec2()?)
    }

    /// One pass over pieces of texts. Sequences grow only when all of it went well, so that a pass that failed can be
    /// repeated.
    fn forward(&self, pieces: &mut [(&mut Sequence, &[u32])]) -> Result<Tensor> {
        let parts = &*self.parts;
        let mut tokens = Vec::new();
        let mut positions = Vec::new();
        let mut spans = Vec::new();
        for (sequence, piece) in pieces.iter_mut() {
            sequence.make_room(piece.len())?;
            spans.push(Span::new(tokens.len(), piece.len(), sequence.len(), parts.config.window)?);
            tokens.extend_from_slice(piece);
            positions.extend((sequence.len()..).take(piece.len()));
        }
        if tokens.is_empty() || tokens.iter().any(|&token| token as usize >= parts.config.vocab_size) {
            return Err(Error::Request("there is no token, or an unknown one".to_string()));
        }
        let count = padded(tokens.len());
        tokens.resize(count, 0);
        positions.resize(count, 0);
        let (cos, sin) = parts.rope.at(&positions)?;
        let ids = Tensor::from_vec(tokens, count, &Device::Cpu)?;
        let mut hidden = parts.embedding.index_select(&ids, 0)?;
        let eps = parts.config.norm_eps as f32;
        for (at, layer) in parts.layers.iter().enumerate() {
            let normed = rms_norm(&hidden, &layer.attention_norm, eps)?;
            let (query, key, value) = layer.attention.project(&normed, &cos, &sin)?;
            let mut outputs = Vec::with_capacity(spans.len() + 1);
            for ((sequence, _), span) in pieces.iter_mut().zip(&spans) {
                let cache = sequence.layer(at);
                outputs.push(layer.attention.attend(&query, &key, &value, cache, span)?);
            }
            hidden = (hidden + layer.attention.output(outputs, count)?)?;
            let normed = rms_norm(&hidden, &layer.mlp_norm, eps)?;
            hidden = (hidden + layer.feed_forward(&normed)?)?;
        }
        for (sequence, piece) in pieces.iter_mut() {
            sequence.grow(piece.len());
        }
        Ok(rms_norm(&hidden, &parts.norm, eps)?)
    }
}

impl Layer {
    fn read(weights: &Weights, config: &DecoderConfig, at: usize) -> Result<Layer> {
        let name = |part: &str| format!("model.layers.{at}.{part}");
        let (width, inner, bias) = (config.hidden_size, config.intermediate_size, config.mlp_bias);
        Ok(Layer {
            attention_norm: weights.tensor(&name("input_layernorm.weight"), &[width])?,
            attention: Attention::read(weights, config, &name("self_attn"))?,
            mlp_norm: weights.tensor(&name("post_attention_layernorm.weight"), &[width])?,
            gate: Linear::read(weights, &name("mlp.gate_proj"), width, inner, bias)?,
            up: Linear::read(weights, &name("mlp.up_proj"), width, inner, bias)?,
            down: Linear::read(weights, &name("mlp.down_proj"), inner, width, bias)?,
        })
    }

    fn feed_forward(&self, input: &Tensor) -> candle_core::Result<Tensor> {
        let gated = (silu(&self.gate.forward(input)?)? * self.up.forward(input)?)?;
        self.down.forward(&gated)
    }
}
