//! Ready-made configurations: a small one for a first look, and one with many models for comparisons.

use crate::input::{Scenario, Source, read_config};

named! {
    /// A ready-made configuration.
    pub enum Preset {
        /// 3 models, one of them on 4 GPUs; 2 workflows.
        Simple = "simple",
        /// 10 models, one of them on 8 GPUs; 3 workflows.
        Complex = "complex",
    }
}

impl Preset {
    /// The configuration, without requests.
    #[must_use]
    pub fn config(self) -> Scenario {
        let text = match self {
            Preset::Simple => include_str!("presets/simple.json"),
            Preset::Complex => include_str!("presets/complex.json"),
        };
        let reading = read_config(Source { name: self.name(), bytes: text.as_bytes() });
        reading.scenario.expect("presets are valid")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_promised_shape() {
        for (preset, models, widest, workflows) in [(Preset::Simple, 3, 4, 2), (Preset::Complex, 10, 8, 3)] {
            let config = preset.config();
            assert_eq!(config.models.len(), models);
            assert_eq!(config.workflows.len(), workflows);
            let widths = config.models.iter().map(|model| model.gpus_required);
            assert_eq!(widths.clone().max(), Some(widest));
            assert_eq!(widths.filter(|&width| width == widest).count(), 1);
            assert_eq!(Preset::of_name(preset.name()), Some(preset));
        }
    }

    #[test]
    fn every_model_of_a_preset_is_used_and_known() {
        for preset in Preset::ALL {
            let config = preset.config();
            let nodes: Vec<_> = config.workflows.iter().flat_map(|workflow| &workflow.nodes).collect();
            for (place, model) in config.models.iter().enumerate() {
                assert!(nodes.iter().any(|node| node.model.index() == place), "{} is not used", model.id);
            }
            for workflow in &config.workflows {
                assert!(
                    workflow.edges.len() + 1 >= workflow.nodes.len(),
                    "every node but the first has an edge"
                );
            }
        }
    }
}
