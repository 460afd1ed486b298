//! Rotary positions: each pair of a head's numbers is turned by an angle that grows with the position.

use crate::config::{DecoderConfig, RopeScaling};
use candle_core::{Device, Tensor};
use std::f64::consts::TAU;

/// The frequencies of one model.
pub(super) struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    pub(super) fn new(config: &DecoderConfig) -> Rope {
        let width = config.head_dim as f64;
        let plain = (0..config.head_dim / 2).map(|pair| config.rope_theta.powf(-2.0 * pair as f64 / width));
        Rope { frequencies: plain.map(|frequency| scaled(frequency, config.rope_scaling) as f32).collect() }
    }

    /// Cosines and sines for these positions, a row each. Made for each pass: a table for the longest text that a model
    /// allows would take more memory than the passes take time.
    pub(super) fn at(&self, positions: &[usize]) -> candle_core::Result<(Tensor, Tensor)> {
        let angles = positions.iter().flat_map(|&at| self.frequencies.iter().map(move |f| at as f32 * f));
        let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
        let shape = (positions.len(), self.frequencies.len());
        Ok((Tensor::from_vec(cos, shape, &Device::Cpu)?, Tensor::from_vec(sin, shape, &Device::Cpu)?))
    }
}

fn scaled(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear(factor) => frequency / factor,
        RopeScaling::Llama3 { factor, low, high, original } => {
            let wave = TAU / frequency;
            if wave < original / high {
                frequency
            } else if wave > original / low {
                frequency / factor
            } else {
                let share = (original / wave - low) / (high - low);
                (1.0 - share) * frequency / factor + share * frequency
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_stretches_long_waves_only() {
        let rule = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        assert_eq!(scaled(1.0, rule), 1.0);
        assert_eq!(scaled(1e-5, rule), 1e-5 / 8.0);
        let between = TAU / 4096.0;
        let expected = between * ((1.0 / 3.0) + (2.0 / 3.0) / 8.0);
        assert!((scaled(between, rule) - expected).abs() < 1e-12);
        assert_eq!(scaled(1.0, RopeScaling::Linear(4.0)), 0.25);
    }
}
