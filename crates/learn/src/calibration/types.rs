//! The file of a calibration.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the file says of itself.
pub const CALIBRATION: &str = "calibration";
/// The form of the file.
pub const SCHEMA: u32 = 1;

/// What servers were measured to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`CALIBRATION`].
    pub kind: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// When it was begun, as the machine's clock had it.
    pub created: String,
    /// What measuring took altogether, in seconds.
    pub seconds: f64,
    /// By the names of the configuration.
    pub models: BTreeMap<String, ModelCalibration>,
    /// Models that could not be measured, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
}

/// What one model was measured to take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCalibration {
    /// The server that it was measured on.
    pub backend: String,
    /// Its GPUs there.
    pub gpus: Vec<u32>,
    /// What its calls are counted in.
    pub work: Work,
    /// From nothing on the GPUs to a model that answers.
    pub load: Loads,
    /// Until it is seen to be gone.
    pub unload: Quartiles,
    /// What the first call after a load took beyond later ones, in seconds.
    pub first_call_extra: f64,
    /// How prompts are counted.
    pub prompt: Unit,
    /// How much of what was asked for is written, and how long that is.
    pub answers: Answers,
    /// What calls take, by batch: rising from 1.
    pub execution: Vec<Cost>,
    /// What it all rests on.
    pub observations: Vec<MeasuredPoint>,
    /// What measuring it took, in seconds.
    pub seconds: f64,
    /// What is worth knowing about the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a model's calls are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// Tokens read and tokens written.
    Text,
    /// Tokens read.
    Embedding,
    /// Steps.
    Image,
}

impl Work {
    /// By the kind that the configuration gives a model.
    pub fn of(kind: Option<&str>) -> Work {
        match kind {
            Some("embedding") => Work::Embedding,
            Some("image_generation") => Work::Image,
            _ => Work::Text,
        }
    }

    /// The settings of a node that say how much work there is.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            Work::Text => &["max_tokens", "max_length", "max_new_tokens"],
            Work::Embedding => &[],
            Work::Image => &["steps", "num_inference_steps"],
        }
    }
}

/// Where weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Disk, as far as anybody knows.
    Disk,
    /// The memory of the host.
    Host,
}

/// Seconds, measured several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quartiles {
    /// Half of them were shorter.
    pub median: f64,
    /// A quarter of them were shorter.
    pub q1: f64,
    /// A quarter of them were longer.
    pub q3: f64,
    /// How often it was measured.
    pub n: u32,
}

impl Quartiles {
    /// Half the distance of the quartiles as a share of the median.
    pub fn share(&self) -> f64 {
        if self.median > 0.0 { (self.q3 - self.q1) / 2.0 / self.median } else { 0.0 }
    }
}

/// What loads take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loads {
    /// Where the server says that weights come from when it is told to load again.
    pub tier: Tier,
    /// The first load, of a server that may have to read the weights from disk.
    pub first: Quartiles,
    /// Every load after it.
    pub again: Quartiles,
}

/// How prompts are counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unit {
    /// Whether the server counts tokens; characters are counted where it does not.
    pub tokens: bool,
    /// Of an empty prompt.
    pub fixed: f64,
    /// Of each character.
    pub per_character: f64,
}

impl Unit {
    /// Characters, one by one.
    pub const CHARACTERS: Unit = Unit { tokens: false, fixed: 0.0, per_character: 1.0 };

    /// What a prompt of so many characters counts.
    pub fn of(&self, characters: f64) -> f64 {
        self.fixed + self.per_character * characters
    }
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Asked for, and written: rising.
    pub written: Vec<(f64, f64)>,
    /// What is written where a call does not say how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<f64>,
    /// Characters that an answer has besides those below.
    pub fixed_characters: f64,
    /// Characters of each token, or step.
    pub characters_each: f64,
}

impl Answers {
    /// What is written where so much is asked for.
    pub fn of(&self, asked: f64) -> f64 {
        let (Some(&first), Some(&last)) = (self.written.first(), self.written.last()) else { return asked };
        if asked <= first.0 {
            return asked.min(first.1);
        }
        let after = self.written.partition_point(|&(point, _)| point < asked);
        match (self.written.get(after), self.written[after - 1]) {
            (Some(&(x1, y1)), (x0, y0)) => y0 + (y1 - y0) * (asked - x0) / (x1 - x0),
            // A model that stopped by itself before goes no further when it may.
            (None, _) => {
                if last.1 < 0.99 * last.0 {
                    last.1
                } else {
                    asked * last.1 / last.0
                }
            }
        }
    }
}

/// What a call takes in seconds among so many: `fixed + prompt * P + output * O + context * O * (P + O / 2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Calls at once.
    pub batch: u32,
    /// Of every call.
    pub fixed: f64,
    /// Of each unit of the prompt.
    pub prompt: f64,
    /// Of each token written, or each step.
    pub output: f64,
    /// Of each token written, for each unit that it follows: what longer contexts add.
    pub context: f64,
    /// How far the observations are off this, in percent: the median and the worst.
    pub residual_percent: (f64, f64),
    /// What calls took that came and went one by one, with the lengths of the requests mixed, as a share of the above; `None`
    /// where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<f64>,
}

impl Cost {
    /// The seconds of a call.
    pub fn seconds(&self, prompt: f64, output: f64) -> f64 {
        let followed = output * (prompt + output / 2.0);
        self.fixed + self.prompt * prompt + self.output * output + self.context * followed
    }
}

/// One point that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPoint {
    /// Calls at once.
    pub batch: u32,
    /// Units of the prompt.
    pub prompt: f64,
    /// Tokens written, or steps.
    pub output: f64,
    /// Seconds from the first call to the last answer.
    pub seconds: Quartiles,
}
