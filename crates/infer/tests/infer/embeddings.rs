//! Vectors of texts.

use crate::support::Place;
use gswarm_infer::{EmbeddingModel, Error, LanguageModel, ModelKind};

fn alike(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn vectors_have_length_one_and_depend_on_the_text_alone() {
    let model = Place::new(ModelKind::Embedding).embedder();
    let texts = ["the sea", "a", "", "the king and the queen went to the sea in the morning", "漢字"];
    let together = model.embed(&texts).unwrap();
    assert_eq!(together.vectors.len(), texts.len());
    for (text, vector) in texts.iter().zip(&together.vectors) {
        assert_eq!(vector.len(), 128);
        assert!((alike(vector, vector) - 1.0).abs() < 1e-5);
        assert!(&model.embed(&[text]).unwrap().vectors[0] == vector, "`{text}` differs in company");
    }
    let tokens: usize = texts.iter().map(|text| model.tokenizer().encode(text, true).unwrap().len()).sum();
    assert_eq!(together.tokens, tokens);
    assert!(model.embed::<&str>(&[]).unwrap().vectors.is_empty());
}

#[test]
fn texts_with_the_same_words_are_alike() {
    let model = Place::new(ModelKind::Embedding).embedder();
    let found =
        model.embed(&["the king and the queen", "the queen and the king", "a red fish may sing"]).unwrap();
    let [a, b, c] = &found.vectors[..] else { panic!("three texts, three vectors") };
    assert!(alike(a, b) > alike(a, c) + 0.1, "{} {}", alike(a, b), alike(a, c));
}

#[test]
fn many_texts_take_several_passes() {
    let model = Place::new(ModelKind::Embedding).embedder();
    let texts: Vec<String> = (0..60).map(|at| "the sea and the sky ".repeat(1 + at % 20)).collect();
    let found = model.embed(&texts).unwrap();
    assert_eq!(found.vectors.len(), 60);
    assert_eq!(found.vectors[3], found.vectors[23]);
    assert_ne!(found.vectors[3], found.vectors[4]);
}

#[test]
fn what_is_too_long_is_refused_and_estimates_grow() {
    let place = Place::new(ModelKind::Embedding);
    let model = place.embedder();
    let long = "word ".repeat(600);
    assert!(matches!(model.embed(&["a", &long]), Err(Error::Request(reason)) if reason.contains("text 1")));
    let (one, many) = (model.estimate(&["a"]).unwrap(), model.estimate(&["the sea"; 50]).unwrap());
    assert!(one.seconds > 0.0 && many.seconds > one.seconds);
}

#[test]
fn a_model_of_the_other_kind_is_refused() {
    assert!(LanguageModel::from_weights(&Place::new(ModelKind::Embedding).weights()).is_err());
    assert!(EmbeddingModel::from_weights(&Place::language().weights()).is_err());
}
