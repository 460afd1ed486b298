//! Small models with seeded random weights, in Hugging Face layout: everything that works with a real model works with
//! them, with no download. What they say is nonsense, in words.

mod layout;
mod tokenizer;
mod words;

use crate::config::ModelKind;
use crate::error::{Error, Result};
use layout::Draw;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use tokenizer::Vocabulary;

/// How large a model is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelSize {
    /// Some 2 MB: loads in milliseconds.
    Tiny,
    /// Some 80 MB: loading takes time that can be seen.
    Small,
}

/// Most tokens of a text.
const POSITIONS: usize = 2048;

/// The files of a model by name. The same arguments give the same bytes, on every machine.
pub fn model_files(kind: ModelKind, size: ModelSize, seed: u64) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let vocabulary = Vocabulary::new(kind);
    let draw = Draw::new(seed);
    let (config, tensors) = match kind {
        ModelKind::Language => layout::decoder(size, &vocabulary, draw),
        ModelKind::Embedding => layout::encoder(size, &vocabulary, draw),
    };
    let mut files = vec![
        ("config.json", text(&config)),
        ("model.safetensors", pack(&tensors)?),
        ("tokenizer.json", text(&vocabulary.tokenizer())),
        ("tokenizer_config.json", text(&vocabulary.tokenizer_config())),
    ];
    if kind == ModelKind::Language {
        files.push(("generation_config.json", text(&json!({"eos_token_id": tokenizer::EOS}))));
    }
    Ok(files)
}

fn text(json: &Value) -> Vec<u8> {
    format!("{:#}\n", sorted(json)).into_bytes()
}

/// With keys in their order, whether the library is built to keep the order of insertion or not.
fn sorted(json: &Value) -> Value {
    match json {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// A tensor of 32-bit floats.
struct Numbers {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

fn pack(tensors: &[Numbers]) -> Result<Vec<u8>> {
    let damaged =
        |error: safetensors::SafeTensorError| Error::Compute(format!("the tensors do not pack: {error}"));
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut views = Vec::with_capacity(tensors.len());
    for (tensor, bytes) in tensors.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).map_err(damaged)?;
        views.push((tensor.name.as_str(), view));
    }
    let note = HashMap::from([("format".to_string(), "pt".to_string())]);
    serialize(views, Some(note)).map_err(damaged)
}
