//! Embeddings by an encoder in the manner of BERT: the mean over a text's tokens, scaled to length one.
//!
//! Texts of different lengths lie in one matrix, a row a token, and each attends to itself alone: no padding to the
//! longest, and a text's vector does not depend on what else is embedded with it.

use crate::config::{EncoderConfig, ModelConfig};
use crate::error::{Error, Result};
use crate::linear::{Linear, padded};
use crate::rates::{Average, TimeEstimate};
use crate::text::tokenizer::TextTokenizer;
use crate::weights::Weights;
use candle_core::{Device, Tensor};
use candle_nn::ops::{layer_norm, softmax_last_dim};
use std::sync::Arc;
use std::time::Instant;

/// Tokens of one pass; more texts go into several.
const PASS_TOKENS: usize = 2048;

/// An embedding model that is ready to compute. Clones share everything; calls may come from several threads.
#[derive(Clone)]
pub struct EmbeddingModel {
    parts: Arc<Parts>,
    tokenizer: Arc<TextTokenizer>,
    /// Seconds a token.
    pace: Arc<Average>,
}

/// Vectors of texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings {
    /// One vector a text, in the order of the texts, each of length one.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts together.
    pub tokens: usize,
}

struct Parts {
    config: EncoderConfig,
    words: Tensor,
    positions: Tensor,
    /// The embedding of the first segment; texts have only one.
    segment: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    output_norm: Norm,
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
    eps: f32,
}

impl EmbeddingModel {
    /// Takes the tensors that the architecture needs out of `weights`, without copying them, and embeds a short text to
    /// know how fast it is.
    pub fn from_weights(weights: &Weights) -> Result<EmbeddingModel> {
        let ModelConfig::Encoder(config) = weights.config() else {
            let path = weights.folder().join("config.json");
            return Err(Error::unsupported(&path, "embedding with a language model"));
        };
        let parts = Arc::new(Parts::read(weights, config)?);
        let tokenizer = weights.tokenizer().clone();
        let model = EmbeddingModel { parts, tokenizer, pace: Arc::new(Average::default()) };
        // The first pass of all is slower than those that follow; it does not count.
        let sample = vec![0; config.max_positions.min(32)];
        model.pass(&[&sample])?;
        model.timed(&[&sample])?;
        Ok(model)
    }

    /// Architecture and sizes.
    pub fn config(&self) -> &EncoderConfig {
        &self.parts.config
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The vectors of texts. A text that is too long for the model is refused, not cut.
    pub fn embed<T: AsRef<str>>(&self, texts: &[T]) -> Result<Embeddings> {
        self.embed_tokens(&self.tokens(texts)?)
    }

    /// The vectors of texts that are given as the model's own tokens.
    pub fn embed_tokens(&self, texts: &[Vec<u32>]) -> Result<Embeddings> {
        self.check(texts)?;
        let tokens = texts.iter().map(Vec::len).sum();
        let mut vectors = Vec::with_capacity(texts.len());
        let mut rest: &[Vec<u32>] = texts;
        while !rest.is_empty() {
            let mut sum = 0;
            let fitting = rest.iter().take_while(|text| {
                sum += text.len();
                sum <= PASS_TOKENS
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            vectors.extend(self.timed(&now.iter().map(Vec::as_slice).collect::<Vec<_>>())?);
            rest = later;
        }
        Ok(Embeddings { vectors, tokens })
    }

    /// How long [`EmbeddingModel::embed`] will take, from the pace of those before.
    pub fn estimate<T: AsRef<str>>(&self, texts: &[T]) -> Result<TimeEstimate> {
        let tokens = self.tokens(texts)?.iter().map(Vec::len).sum::<usize>();
        let pace = self.pace.get().unwrap_or(f64::MIN_POSITIVE);
        Ok(TimeEstimate { seconds: pace * tokens.max(1) as f64, prompt_tokens: tokens, new_tokens: 0 })
    }

    fn tokens<T: AsRef<str>>(&self, texts: &[T]) -> Result<Vec<Vec<u32>>> {
        let texts: Vec<Vec<u32>> =
            texts.iter().map(|text| self.tokenizer.encode(text.as_ref(), true)).collect::<Result<_>>()?;
        self.check(&texts)?;
        Ok(texts)
    }

    fn check(&self, texts: &[Vec<u32>]) -> Result<()> {
        let EncoderConfig { max_positions: most, vocab_size, .. } = self.parts.config;
        for (at, tokens) in texts.iter().enumerate() {
            match tokens.len() {
                0 => return Err(Error::Request(format!("text {at} has no tokens"))),
                count if count > most => {
                    return Err(Error::Request(format!(
                        "text {at} has {count} tokens; the model takes at most {most}"
                    )));
                }
                _ => {}
            }
            if let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
                return Err(Error::Request(format!(
                    "text {at} has the token {token}, but the model's vocabulary has {vocab_size}: \
                     send texts, or tokens of this model"
                )));
            }
        }
        Ok(())
    }

    fn timed(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let (start, count) = (Instant::now(), texts.iter().map(|text| text.len()).sum::<usize>());
        let vectors = self.pass(texts)?;
        self.pace.add(start.elapsed().as_secs_f64() / count as f64);
        Ok(vectors)
    }

    fn pass(&self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let parts = &*self.parts;
        let mut tokens: Vec<u32> = texts.concat();
        let mut positions: Vec<u32> = texts.iter().flat_map(|text| 0..text.len() as u32).collect();
        let count = padded(tokens.len());
        tokens.resize(count, 0);
        positions.resize(count, 0);
        let words = parts.words.index_select(&Tensor::from_vec(tokens, count, &Device::Cpu)?, 0)?;
        let places = parts.positions.index_select(&Tensor::from_vec(positions, count, &Device::Cpu)?, 0)?;
        let mut hidden = parts.norm.forward(&(words + places)?.broadcast_add(&parts.segment)?)?;
        for layer in &parts.layers {
            hidden = layer.forward(&hidden, texts, &parts.config)?;
        }
        let mut start = 0;
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let mean: Vec<f32> = hidden.narrow(0, start, text.len())?.mean(0)?.to_vec1()?;
            vectors.push(unit(mean)?);
            start += text.len();
        }
        Ok(vectors)
    }
}

/// Scaled to length one.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>> {
    let length = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if !length.is_finite() {
        return Err(Error::Compute("the model's vector has no length".to_string()));
    }
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
    Ok(vector)
}

impl Parts {
    fn read(weights: &Weights, config: &EncoderConfig) -> Result<Parts> {
        // Models saved with a task's head have everything one level down.
        let prefix = if weights.has("bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
        let (width, eps) = (config.hidden_size, config.norm_eps as f32);
        let table =
            |name: &str, rows| weights.tensor(&format!("{prefix}embeddings.{name}.weight"), &[rows, width]);
        let layers =
            (0..config.layers).map(|at| Layer::read(weights, config, &format!("{prefix}encoder.layer.{at}")));
        Ok(Parts {
            words: table("word_embeddings", config.vocab_size)?,
            positions: table("position_embeddings", config.max_positions)?,
            segment: table("token_type_embeddings", config.segments)?.get(0)?,
            norm: Norm::read(weights, &format!("{prefix}embeddings.LayerNorm"), width, eps)?,
            layers: layers.collect::<Result<Vec<Layer>>>()?,
            config: config.clone(),
        })
    }
}

impl Layer {
    fn read(weights: &Weights, config: &EncoderConfig, name: &str) -> Result<Layer> {
        let (width, inner, eps) = (config.hidden_size, config.intermediate_size, config.norm_eps as f32);
        let linear = |part: &str, inputs, outputs| {
            Linear::read(weights, &format!("{name}.{part}"), inputs, outputs, true)
        };
        let norm = |part: &str| Norm::read(weights, &format!("{name}.{part}.LayerNorm"), width, eps);
        Ok(Layer {
            query: linear("attention.self.query", width, width)?,
            key: linear("attention.self.key", width, width)?,
            value: linear("attention.self.value", width, width)?,
            output: linear("attention.output.dense", width, width)?,
            attention_norm: norm("attention.output")?,
            up: linear("intermediate.dense", width, inner)?,
            down: linear("output.dense", inner, width)?,
            output_norm: norm("output")?,
        })
    }

    fn forward(&self, hidden: &Tensor, texts: &[&[u32]], config: &EncoderConfig) -> Result<Tensor> {
        let (count, width) = hidden.dims2()?;
        let head_dim = width / config.heads;
        let split =
            |flat: Tensor| flat.reshape((count, config.heads, head_dim))?.transpose(0, 1)?.contiguous();
        let query = split((self.query.forward(hidden)? / (head_dim as f64).sqrt())?)?;
        let key = split(self.key.forward(hidden)?)?;
        let value = split(self.value.forward(hidden)?)?;
        let mut start = 0;
        let mut taken = Vec::with_capacity(texts.len() + 1);
        for own_count in texts.iter().map(|text| text.len()) {
            let own = |all: &Tensor| all.narrow(1, start, own_count);
            let scores = own(&query)?.matmul(&own(&key)?.transpose(1, 2)?)?;
            let mixed = softmax_last_dim(&scores)?.matmul(&own(&value)?)?;
            taken.push(mixed.transpose(0, 1)?.flatten_from(1)?);
            start += own_count;
        }
        if count > start {
            taken.push(Tensor::zeros((count - start, width), hidden.dtype(), &Device::Cpu)?);
        }
        let attended = self.output.forward(&Tensor::cat(&taken, 0)?)?;
        let hidden = self.attention_norm.forward(&(attended + hidden)?)?;
        let inner = self.up.forward(&hidden)?;
        let inner = if config.gelu_tanh { inner.gelu()? } else { inner.gelu_erf()? };
        Ok(self.output_norm.forward(&(self.down.forward(&inner)? + hidden)?)?)
    }
}

impl Norm {
    fn read(weights: &Weights, name: &str, width: usize, eps: f32) -> Result<Norm> {
        let part = |part: &str| weights.tensor(&format!("{name}.{part}"), &[width]);
        Ok(Norm { weight: part("weight")?, bias: part("bias")?, eps })
    }

    fn forward(&self, input: &Tensor) -> candle_core::Result<Tensor> {
        layer_norm(input, &self.weight, &self.bias, self.eps)
    }
}
