//! Attention of each request to its own cache, with groups of query heads that share keys and values.

use super::cache::LayerCache;
use crate::config::DecoderConfig;
use crate::error::Result;
use crate::linear::Linear;
use crate::weights::Weights;
use candle_core::{DType, Device, Tensor};
use candle_nn::ops::softmax_last_dim;
use candle_nn::rotary_emb::rope_thd;

pub(super) struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    window: Option<usize>,
}

/// Where the tokens of one request lie in a pass, and what they may see.
pub(super) struct Span {
    /// The first of its rows.
    start: usize,
    /// Its rows.
    count: usize,
    /// Tokens that it read before.
    past: usize,
    /// Nought where a row may look, minus infinity where it may not; a single row needs none.
    mask: Option<Tensor>,
}

impl Span {
    pub(super) fn new(start: usize, count: usize, past: usize, window: Option<usize>) -> Result<Span> {
        let total = past + count;
        let sees = |row: usize, at: usize| {
            let here = past + row;
            at <= here && window.is_none_or(|window| at + window > here)
        };
        let mask = (count > 1).then(|| {
            let cells = (0..count).flat_map(|row| (0..total).map(move |at| (row, at)));
            let cells = cells.map(|(row, at)| if sees(row, at) { 0f32 } else { f32::NEG_INFINITY }).collect();
            Tensor::from_vec(cells, (count, total), &Device::Cpu)
        });
        Ok(Span { start, count, past, mask: mask.transpose()? })
    }
}

impl Attention {
    pub(super) fn read(weights: &Weights, config: &DecoderConfig, name: &str) -> Result<Attention> {
        let DecoderConfig { hidden_size, heads, kv_heads, head_dim, window, .. } = *config;
        let part = |part: &str, inputs, outputs, bias| {
            Linear::read(weights, &format!("{name}.{part}"), inputs, outputs, bias)
        };
        Ok(Attention {
            query: part("q_proj", hidden_size, heads * head_dim, config.qkv_bias)?,
            key: part("k_proj", hidden_size, kv_heads * head_dim, config.qkv_bias)?,
            value: part("v_proj", hidden_size, kv_heads * head_dim, config.qkv_bias)?,
            output: part("o_proj", heads * head_dim, hidden_size, config.output_bias)?,
            heads,
            kv_heads,
            head_dim,
            window,
        })
    }

    /// Queries, keys and values of all rows, each rows by heads by width, with positions turned in.
    pub(super) fn project(
        &self,
        input: &Tensor,
        cos: &Tensor,
        sin: &Tensor,
    ) -> candle_core::Result<(Tensor, Tensor, Tensor)> {
        let count = input.dim(0)?;
        let split = |flat: Tensor, heads: usize| flat.reshape((1, count, heads, self.head_dim));
        let query = rope_thd(&split(self.query.forward(input)?, self.heads)?, cos, sin)?.squeeze(0)?;
        let key = rope_thd(&split(self.key.forward(input)?, self.kv_heads)?, cos, sin)?.squeeze(0)?;
        let value = split(self.value.forward(input)?, self.kv_heads)?.squeeze(0)?;
        Ok((query, key, value))
    }

    /// What the rows of one request take from its cache, to which their own keys and values are added first.
    pub(super) fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        cache: &LayerCache,
        span: &Span,
    ) -> candle_core::Result<Tensor> {
        let Span { start, count, past, .. } = *span;
        let own = |all: &Tensor| all.narrow(0, start, count)?.transpose(0, 1)?.contiguous();
        cache.put(&own(key)?, &own(value)?, past)?;
        // A single row that sees only a window needs no mask: it reads no more than the window.
        let total = past + count;
        let first = if count == 1 { total.saturating_sub(self.window.unwrap_or(total)) } else { 0 };
        let (keys, values) = cache.get(first, total - first)?;
        let group = self.heads / self.kv_heads;
        let query = own(query)?.reshape((self.kv_heads, group * count, self.head_dim))?;
        let scale = 1.0 / (self.head_dim as f64).sqrt();
        let mut scores = (query.matmul(&keys.transpose(1, 2)?)? * scale)?;
        if let Some(mask) = &span.mask {
            let shape = (self.kv_heads, group, count, total);
            scores =
                scores.reshape(shape)?.broadcast_add(mask)?.reshape((self.kv_heads, group * count, total))?;
        }
        let taken = softmax_last_dim(&scores)?.matmul(&values)?;
        taken.reshape((self.heads, count, self.head_dim))?.transpose(0, 1)?.flatten_from(1)
    }

    /// All rows back to the width of the residual stream, `count` of them with those that only fill up.
    pub(super) fn output(&self, mut taken: Vec<Tensor>, count: usize) -> candle_core::Result<Tensor> {
        let mut filled = 0;
        for part in &taken {
            filled += part.dim(0)?;
        }
        if count > filled {
            let width = self.heads * self.head_dim;
            taken.push(Tensor::zeros((count - filled, width), DType::F32, &Device::Cpu)?);
        }
        let all = Tensor::cat(&taken, 0)?;
        self.output.forward(&all)
    }
}
