//! What a GPU draws, by NVML.

use nvml_wrapper::Nvml;

/// NVML, where it is there.
pub struct Power {
    nvml: Option<Nvml>,
    gpu: u32,
}

impl Power {
    /// Of this GPU. Where NVML is missing every reading is `None`.
    pub fn of(gpu: usize) -> Power {
        Power { nvml: Nvml::init().ok(), gpu: gpu as u32 }
    }

    pub fn watts(&self) -> Option<f64> {
        let device = self.nvml.as_ref()?.device_by_index(self.gpu).ok()?;
        device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3)
    }
}
