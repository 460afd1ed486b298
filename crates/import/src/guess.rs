//! Sizes of models of which only the name is known.

use gswarm_core::input::{BatchingSpec, ModelSpec};

/// Read from local disks into the GPU, in GB a second.
const LOAD_GB_PER_SECOND: f64 = 2.0;
/// What a GPU is taken to have room for, of its 80 GB.
const GB_A_GPU: f64 = 72.0;

/// A size in GB, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    pub gb: f64,
    pub from: From,
}

/// Where a size comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The table that the user gave.
    Table,
    /// Parameters and precision, as the name gives them.
    Name,
    /// What models of its sort usually have.
    Sort,
}

/// The size of a model: from the table, else from its name, else what is usual.
pub fn size(name: &str, usual: f64, table: &[(String, f64)]) -> Size {
    let plain = name.rsplit(['/', '\\']).next().unwrap_or(name);
    if let Some((_, gb)) = table.iter().find(|(file, _)| file == name || file == plain) {
        return Size { gb: *gb, from: From::Table };
    }
    match billions(plain) {
        Some(billions) => Size { gb: rounded(billions * bytes_each(plain)), from: From::Name },
        None => Size { gb: usual, from: From::Sort },
    }
}

/// A model of this size: what loading takes and how many GPUs it needs follow from it.
pub fn model(gb: f64, kind: &str) -> ModelSpec {
    ModelSpec {
        memory_gb: gb,
        gpus_required: (gb / GB_A_GPU).ceil().clamp(1.0, 64.0) as u32,
        load_time_seconds: rounded(1.0 + gb / LOAD_GB_PER_SECOND),
        kind: Some(kind.to_owned()),
        ..ModelSpec::default()
    }
}

/// What is said of where a size comes from.
pub fn told(from: From) -> &'static str {
    match from {
        From::Table => "Model sizes come from --sizes",
        From::Name => {
            "Model sizes are derived from names: two bytes per parameter unless the name says otherwise"
        }
        From::Sort => "Model sizes are unknown, assumed to be 14 GB",
    }
}

/// What is said of [`batched`].
pub const BATCHED: &str = "Calls run together, up to 32 on a replica: 8 take 1.11 times as long as one alone, 32 take 1.42 times (set `batching` otherwise)";

/// The model, with what batching costs a language model on one H200.
pub fn batched(model: ModelSpec) -> ModelSpec {
    let slowdown = vec![(1, 1.0), (8, 1.11), (32, 1.42)];
    ModelSpec { batching: Some(BatchingSpec { max_batch: 32, slowdown }), ..model }
}

/// To three digits behind the point, and never nothing.
pub fn rounded(value: f64) -> f64 {
    ((value * 1e3).round() / 1e3).max(0.001)
}

/// How names of files with weights end.
pub const ENDS: [&str; 8] = [".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf", ".sft", ".onnx"];

/// Billions of parameters, where a part of the name says so: `14B`, `1.3b`, `0.6b`, `8x7b`.
fn billions(name: &str) -> Option<f64> {
    let lower = name.to_ascii_lowercase();
    let lower = ENDS.iter().find_map(|end| lower.strip_suffix(end)).unwrap_or(&lower);
    let parts = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    let mut found = parts.filter_map(|part| {
        let number = part.strip_suffix('b')?;
        let (times, number) = number
            .split_once('x')
            .map_or((1.0, number), |(times, number)| (times.parse().unwrap_or(f64::NAN), number));
        let billions: f64 = number.parse().ok()?;
        Some(times * billions).filter(|value| (0.05..=2_000.0).contains(value))
    });
    found.next_back()
}

/// Bytes of a parameter at the precision that the name gives; two where it gives none.
fn bytes_each(name: &str) -> f64 {
    let lower = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["fp4", "nf4", "q4", "int4", "awq", "gptq"]) {
        0.55
    } else if has(&["fp8", "e4m3", "e5m2", "int8", "q8"]) {
        1.0
    } else if has(&["fp32", "f32"]) {
        4.0
    } else {
        2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_off_names() {
        let cases = [
            ("wan2.2_i2v_low_noise_14B_fp8_scaled.safetensors", 14.0),
            ("wan2.1_t2v_1.3B_fp16.safetensors", 2.6),
            ("qwen_0.6b_ace15.safetensors", 1.2),
            ("qwen_3_4b.safetensors", 8.0),
            ("deepseek-r1-distill-llama-8b", 16.0),
            ("mixtral-8x7b-q4", 30.8),
        ];
        for (name, gb) in cases {
            assert_eq!(size(name, 5.0, &[]), Size { gb, from: From::Name }, "{name}");
        }
        for name in ["gpt-4o", "ae.safetensors", "9999999b", "umt5_xxl_fp8_e4m3fn_scaled.safetensors"] {
            assert_eq!(size(name, 5.0, &[]), Size { gb: 5.0, from: From::Sort }, "{name}");
        }
        let table = [("ae.safetensors".to_owned(), 0.335)];
        assert_eq!(size("vae/ae.safetensors", 1.0, &table).gb, 0.335);
    }
}
