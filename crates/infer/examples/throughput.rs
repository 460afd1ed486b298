//! How fast this machine reads, embeds and generates: `cargo run --release -p gswarm-infer --example throughput [DIR...]`,
//! for models in folders, or for small ones made on the spot.

use gswarm_infer::init::{ModelSize, model_files};
use gswarm_infer::{
    EmbeddingModel, EngineOptions, GenerateRequest, InferenceEngine, LanguageModel, ModelConfig, ModelKind,
    Weights,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let given: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if !given.is_empty() {
        return given.iter().try_for_each(|folder| report(folder));
    }
    for (kind, size) in [
        (ModelKind::Language, ModelSize::Tiny),
        (ModelKind::Language, ModelSize::Small),
        (ModelKind::Embedding, ModelSize::Tiny),
        (ModelKind::Embedding, ModelSize::Small),
    ] {
        let folder = tempfile::tempdir()?;
        for (name, bytes) in model_files(kind, size, 0)? {
            std::fs::write(folder.path().join(name), bytes)?;
        }
        println!("{} {size:?}", kind.name());
        report(folder.path())?;
    }
    Ok(())
}

fn report(folder: &Path) -> Outcome<()> {
    let start = Instant::now();
    let weights = Weights::load(folder)?;
    println!(
        "  loaded {:.1} MB in {:.1} ms",
        weights.bytes() as f64 / 1e6,
        start.elapsed().as_secs_f64() * 1e3
    );
    match weights.config() {
        ModelConfig::Decoder(_) => generate(&weights),
        ModelConfig::Encoder(_) => embed(&weights),
    }
}

fn generate(weights: &Weights) -> Outcome<()> {
    let start = Instant::now();
    let model = LanguageModel::from_weights(weights)?;
    drop(InferenceEngine::start(model.clone(), EngineOptions::default())?);
    println!("  serving after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let prompt = "the king and the queen went to the sea ".repeat(28);
    let request = GenerateRequest { max_tokens: 64, ignore_eos: true, ..GenerateRequest::text(prompt) };
    for max_batch in [1, 2, 4, 8, 16] {
        let engine =
            InferenceEngine::start(model.clone(), EngineOptions { max_batch, ..EngineOptions::default() })?;
        let estimate = engine.estimate(&request)?.seconds;
        let answers = (0..max_batch).map(|_| engine.submit(&request)).collect::<Result<Vec<_>, _>>()?;
        let finished = answers.into_iter().map(|answer| answer.wait()).collect::<Result<Vec<_>, _>>()?;
        // The last to begin has nobody left to read for.
        let last = &finished[max_batch - 1];
        let decode = max_batch as f64 * (last.new_tokens - 1) as f64 / last.decode.as_secs_f64();
        let first = &finished[0];
        let read = first.prompt_tokens as f64 / first.prefill.as_secs_f64();
        if max_batch == 1 {
            println!("  says:{}", first.text.chars().take(90).collect::<String>());
        }
        let took = (first.prefill + first.decode).as_secs_f64();
        println!(
            "  batch of {max_batch:>2}: {decode:>7.0} tokens/s written, {read:>7.0} read; \
             first took {took:.3} s, estimated {estimate:.3}"
        );
    }
    Ok(())
}

fn embed(weights: &Weights) -> Outcome<()> {
    let model = EmbeddingModel::from_weights(weights)?;
    let texts = vec!["the king and the queen went to the sea in the morning and came back late"; 64];
    let (estimate, start) = (model.estimate(&texts)?.seconds, Instant::now());
    let tokens = model.embed(&texts)?.tokens;
    let took = start.elapsed().as_secs_f64();
    println!("  {:.0} tokens/s embedded; took {took:.3} s, estimated {estimate:.3}", tokens as f64 / took);
    Ok(())
}
