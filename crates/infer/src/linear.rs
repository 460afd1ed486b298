//! Matrix times rows, with results that do not depend on what else is in the batch.
//!
//! The library that multiplies matrices picks its kernel by the number of rows: one row alone is summed in another order
//! than the same row among eight, and the last bits differ. Where rows of different requests are multiplied together,
//! they are therefore padded to tiles of a fixed height and each tile is multiplied by itself: every call has the same
//! shape, whatever the batch. A tile of few rows costs little more than a single row, because reading the weights is
//! what takes the time.

use crate::error::Result;
use crate::weights::Weights;
use candle_core::Tensor;

/// Rows of a tile.
pub(crate) const TILE: usize = 8;

/// How the rows of one forward pass belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// All of one request: multiplied at once, as their number is the request's own.
    Whole,
    /// Of several requests: a multiple of [`TILE`], multiplied tile by tile.
    Tiled,
}

impl Rows {
    /// How many rows `count` become.
    pub(crate) fn padded(self, count: usize) -> usize {
        match self {
            Rows::Whole => count,
            Rows::Tiled => count.next_multiple_of(TILE),
        }
    }
}

/// A linear layer.
pub(crate) struct Linear {
    /// Outputs by inputs, as the files have it.
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// Reads `NAME.weight`, and `NAME.bias` where there has to be one.
    pub(crate) fn read(weights: &Weights, name: &str, inputs: usize, outputs: usize, bias: bool) -> Result<Linear> {
        let weight = weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = bias.then(|| weights.tensor(&format!("{name}.bias"), &[outputs])).transpose()?;
        Ok(Linear { weight, bias })
    }

    /// A layer of a tensor that something else uses too.
    pub(crate) fn shared(weight: Tensor) -> Linear {
        Linear { weight, bias: None }
    }

    /// Rows by inputs to rows by outputs.
    pub(crate) fn forward(&self, input: &Tensor, rows: Rows) -> candle_core::Result<Tensor> {
        let (count, width) = input.dims2()?;
        let weight = self.weight.t()?;
        let output = match rows {
            Rows::Whole => input.matmul(&weight)?,
            Rows::Tiled => {
                let tiles = count / TILE;
                let tiled = input.reshape((tiles, TILE, width))?;
                tiled.matmul(&weight.broadcast_left(tiles)?)?.reshape((count, weight.dim(1)?))?
            }
        };
        match &self.bias {
            Some(bias) => output.broadcast_add(bias),
            None => Ok(output),
        }
    }
}
