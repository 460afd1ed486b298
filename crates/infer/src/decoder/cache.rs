//! What a model remembers of a text: keys and values of every token in every layer.

use crate::config::DecoderConfig;
use crate::error::{Error, Result};
use candle_core::{DType, Device, Tensor};

/// Tokens for which room is made at first.
const FIRST_ROOM: usize = 64;

/// A text that a model is reading or writing. It belongs to one request.
pub struct Sequence {
    layers: Vec<LayerCache>,
    layer_count: usize,
    heads: usize,
    width: usize,
    /// Tokens that were read.
    len: usize,
    /// Tokens for which there is room.
    room: usize,
    most: usize,
}

/// Keys and values of one layer: heads by room by width.
pub(super) struct LayerCache {
    keys: Tensor,
    values: Tensor,
}

impl Sequence {
    pub(super) fn new(config: &DecoderConfig) -> Sequence {
        Sequence {
            layers: Vec::new(),
            layer_count: config.layers,
            heads: config.kv_heads,
            width: config.head_dim,
            len: 0,
            room: 0,
            most: config.max_positions,
        }
    }

    /// Tokens that were read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was read yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for this many more tokens, twice as much each time, so that copying does not add up.
    pub(super) fn make_room(&mut self, more: usize) -> Result<()> {
        let needed = self.len + more;
        if needed > self.most {
            let most = self.most;
            return Err(Error::Request(format!("{needed} tokens exceed the model's context of {most}")));
        }
        if needed <= self.room {
            return Ok(());
        }
        let room = needed.next_power_of_two().max(FIRST_ROOM).min(self.most);
        let fresh = |old: Option<&Tensor>| -> candle_core::Result<Tensor> {
            let tensor = Tensor::zeros((self.heads, room, self.width), DType::F32, &Device::Cpu)?;
            if let Some(old) = old.filter(|_| self.len > 0) {
                tensor.slice_set(&old.narrow(1, 0, self.len)?.contiguous()?, 1, 0)?;
            }
            Ok(tensor)
        };
        let mut layers = Vec::with_capacity(self.layer_count);
        for at in 0..self.layer_count {
            let old = self.layers.get(at);
            let keys = fresh(old.map(|old| &old.keys))?;
            layers.push(LayerCache { keys, values: fresh(old.map(|old| &old.values))? });
        }
        (self.layers, self.room) = (layers, room);
        Ok(())
    }

    pub(super) fn layer(&self, at: usize) -> &LayerCache {
        &self.layers[at]
    }

    /// What a pass has written behind the end now belongs to the text.
    pub(super) fn grow(&mut self, more: usize) {
        self.len += more;
    }
}

impl LayerCache {
    /// Writes keys and values of new tokens behind the `past` that are there.
    pub(super) fn put(&self, keys: &Tensor, values: &Tensor, past: usize) -> candle_core::Result<()> {
        self.keys.slice_set(keys, 1, past)?;
        self.values.slice_set(values, 1, past)
    }

    /// Keys and values of `count` tokens.
    pub(super) fn get(&self, first: usize, count: usize) -> candle_core::Result<(Tensor, Tensor)> {
        Ok((self.keys.narrow(1, first, count)?, self.values.narrow(1, first, count)?))
    }
}
