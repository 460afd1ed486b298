//! Matrix times rows, with results that do not depend on what else is in the batch.
//!
//! The library that multiplies matrices picks its way by the number of rows, and ways differ in the order in which they
//! add, which shows in the last bits: a row alone goes another way than a row among others, and so may blocks of more
//! than 64 rows. Between 2 and 64 rows there is only one way, so all rows are multiplied in such blocks; a row that would
//! be alone gets an empty one beside it. It is also the faster way: see [`for_products`].

use crate::error::Result;
use crate::weights::{Weights, for_products};
use candle_core::Tensor;

/// Most rows of a block.
const BLOCK: usize = 64;

/// How many rows there have to be for `count` of them: no block may be left with one.
pub(crate) fn padded(count: usize) -> usize {
    if count % BLOCK == 1 { count + 1 } else { count }
}

/// A linear layer.
pub(crate) struct Linear {
    /// Outputs by inputs, stored by columns.
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// Reads `NAME.weight`, and `NAME.bias` where there has to be one.
    pub(crate) fn read(
        weights: &Weights,
        name: &str,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<Linear> {
        let weight = weights.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = bias.then(|| weights.tensor(&format!("{name}.bias"), &[outputs])).transpose()?;
        Ok(Linear { weight, bias })
    }

    /// A layer of a table that is used as such too, and therefore copied.
    pub(crate) fn of_table(table: &Tensor) -> Result<Linear> {
        Ok(Linear { weight: for_products(table)?, bias: None })
    }

    /// Rows by inputs to rows by outputs. The number of rows is a [`padded`] one.
    pub(crate) fn forward(&self, input: &Tensor) -> candle_core::Result<Tensor> {
        let count = input.dim(0)?;
        let weight = self.weight.t()?;
        let output = if count <= BLOCK {
            input.matmul(&weight)?
        } else {
            let block = |start: usize| input.narrow(0, start, BLOCK.min(count - start))?.matmul(&weight);
            let blocks =
                (0..count).step_by(BLOCK).map(block).collect::<candle_core::Result<Vec<Tensor>>>()?;
            Tensor::cat(&blocks, 0)?
        };
        match &self.bias {
            Some(bias) => output.broadcast_add(bias),
            None => Ok(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn no_block_has_one_row() {
        for (count, expected) in
            [(1, 2), (2, 2), (3, 3), (64, 64), (65, 66), (66, 66), (128, 128), (129, 130)]
        {
            assert_eq!(padded(count), expected);
        }
    }

    /// What everything rests on: a row's result is the same to the last bit wherever it stands.
    #[test]
    fn a_row_does_not_depend_on_its_company() {
        for (inputs, outputs) in [(64, 16), (128, 64), (700, 48), (1408, 512), (2048, 33)] {
            let weight = Tensor::randn(0f32, 1.0, (outputs, inputs), &Device::Cpu).unwrap();
            let layer = Linear { weight: for_products(&weight).unwrap(), bias: None };
            let rows = Tensor::randn(0f32, 1.0, (130, inputs), &Device::Cpu).unwrap();
            let all: Vec<Vec<f32>> = layer.forward(&rows).unwrap().to_vec2().unwrap();
            for (start, count) in
                [(0, 2), (1, 2), (7, 3), (128, 2), (60, 8), (13, 63), (60, 64), (2, 66), (0, 100)]
            {
                let some = rows.narrow(0, start, count).unwrap().contiguous().unwrap();
                let some: Vec<Vec<f32>> = layer.forward(&some).unwrap().to_vec2().unwrap();
                assert!(
                    some[..] == all[start..start + count],
                    "{inputs}x{outputs}: {count} rows from {start}"
                );
            }
        }
    }
}
