//! Folders with small models in them.

use gswarm_infer::init::{ModelSize, model_files};
use gswarm_infer::{
    EmbeddingModel, EngineOptions, FinishedGeneration, GenerateRequest, GenerationEvent, InferenceEngine,
    LanguageModel, ModelKind, Weights,
};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with a model in it that goes away with the test.
pub struct Place(TempDir);

impl Place {
    pub fn new(kind: ModelKind) -> Place {
        Place::of(kind, ModelSize::Tiny)
    }

    /// A language model of the larger size.
    pub fn small() -> Place {
        Place::of(ModelKind::Language, ModelSize::Small)
    }

    fn of(kind: ModelKind, size: ModelSize) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for (name, bytes) in model_files(kind, size, 7).unwrap() {
            std::fs::write(place.path(name), bytes).unwrap();
        }
        place
    }

    pub fn language() -> Place {
        Place::new(ModelKind::Language)
    }

    pub fn folder(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Changes a JSON file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut json: Value = serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap();
        change(&mut json);
        std::fs::write(self.path(name), json.to_string()).unwrap();
    }

    pub fn weights(&self) -> Weights {
        Weights::load(self.folder()).unwrap()
    }

    pub fn model(&self) -> LanguageModel {
        LanguageModel::from_weights(&self.weights()).unwrap()
    }

    pub fn embedder(&self) -> EmbeddingModel {
        EmbeddingModel::from_weights(&self.weights()).unwrap()
    }

    pub fn engine(&self, options: EngineOptions) -> InferenceEngine {
        InferenceEngine::start(self.model(), options).unwrap()
    }

    /// All tensors, read without the library under test.
    pub fn numbers(&self) -> HashMap<String, Vec<f32>> {
        let bytes = std::fs::read(self.path("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let number = |chunk: &[u8]| f32::from_le_bytes(chunk.try_into().unwrap());
        let tensors = file.tensors().into_iter();
        tensors.map(|(name, tensor)| (name, tensor.data().chunks(4).map(number).collect())).collect()
    }
}

/// A request for this many tokens, with no end before.
pub fn ask(prompt: &str, max_tokens: usize) -> GenerateRequest {
    GenerateRequest { max_tokens, ignore_eos: true, ..GenerateRequest::text(prompt) }
}

/// The tokens, the pieces of text, and the whole answer.
pub fn listen(
    engine: &InferenceEngine,
    request: &GenerateRequest,
) -> (Vec<u32>, Vec<String>, FinishedGeneration) {
    let mut completion = engine.submit(request).unwrap();
    let (mut ids, mut pieces) = (Vec::new(), Vec::new());
    loop {
        match completion.next_blocking() {
            Some(GenerationEvent::Token { id, text, .. }) => {
                ids.push(id);
                pieces.push(text);
            }
            Some(GenerationEvent::Done(finished)) => return (ids, pieces, finished),
            other => panic!("{other:?}"),
        }
    }
}
