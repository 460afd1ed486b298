//! The forward passes against loops that were written for this test alone.

use crate::support::Place;
use gswarm_infer::ModelKind;
use std::collections::HashMap;

type Matrix = Vec<Vec<f32>>;

/// Tensors by name, and the sizes of the small models.
struct Plain {
    tensors: HashMap<String, Vec<f32>>,
    width: usize,
    heads: usize,
    kv_heads: usize,
    layers: usize,
}

impl Plain {
    fn new(place: &Place, heads: usize, kv_heads: usize) -> Plain {
        Plain { tensors: place.numbers(), width: 128, heads, kv_heads, layers: 2 }
    }

    fn row(&self, name: &str, at: usize) -> Vec<f32> {
        self.tensors[name][at * self.width..(at + 1) * self.width].to_vec()
    }

    fn linear(&self, name: &str, input: &[f32]) -> Vec<f32> {
        let weight = &self.tensors[&format!("{name}.weight")];
        let bias = self.tensors.get(&format!("{name}.bias"));
        let rows = weight.chunks(input.len()).enumerate();
        let dot = |row: &[f32]| row.iter().zip(input).map(|(a, b)| f64::from(a * b)).sum::<f64>() as f32;
        rows.map(|(at, row)| dot(row) + bias.map_or(0.0, |bias| bias[at])).collect()
    }

    fn rms(&self, name: &str, input: &[f32]) -> Vec<f32> {
        let mean = input.iter().map(|x| x * x).sum::<f32>() / input.len() as f32;
        let scale = 1.0 / (mean + 1e-5).sqrt();
        input.iter().zip(&self.tensors[name]).map(|(x, w)| x * scale * w).collect()
    }

    fn norm(&self, name: &str, input: &[f32]) -> Vec<f32> {
        let mean = input.iter().sum::<f32>() / input.len() as f32;
        let variance = input.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / input.len() as f32;
        let scale = 1.0 / (variance + 1e-12).sqrt();
        let (weight, bias) =
            (&self.tensors[&format!("{name}.weight")], &self.tensors[&format!("{name}.bias")]);
        (0..input.len()).map(|at| (input[at] - mean) * scale * weight[at] + bias[at]).collect()
    }

    /// What one query takes from the first `visible` tokens.
    fn attend(&self, query: &[f32], keys: &Matrix, values: &Matrix, visible: usize) -> Vec<f32> {
        let size = self.width / self.heads;
        let mut output = vec![0.0; self.width];
        for head in 0..self.heads {
            let shared = head / (self.heads / self.kv_heads) * size;
            let own = head * size;
            let score = |at: usize| {
                let dot: f32 = (0..size).map(|i| query[own + i] * keys[at][shared + i]).sum();
                (dot / (size as f32).sqrt()).exp()
            };
            let scores: Vec<f32> = (0..visible).map(score).collect();
            let total: f32 = scores.iter().sum();
            for (at, score) in scores.iter().enumerate() {
                (0..size).for_each(|i| output[own + i] += score / total * values[at][shared + i]);
            }
        }
        output
    }

    fn turn(&self, flat: &mut [f32], position: usize) {
        let size = self.width / self.heads;
        for head in flat.chunks_mut(size) {
            for pair in 0..size / 2 {
                let angle = position as f32 / 10000f32.powf(2.0 * pair as f32 / size as f32);
                let (a, b) = (head[pair], head[pair + size / 2]);
                head[pair] = a * angle.cos() - b * angle.sin();
                head[pair + size / 2] = b * angle.cos() + a * angle.sin();
            }
        }
    }

    /// The scores after the last of these tokens.
    fn llama(&self, tokens: &[u32]) -> Vec<f32> {
        let mut hidden: Matrix =
            tokens.iter().map(|&token| self.row("model.embed_tokens.weight", token as usize)).collect();
        for layer in 0..self.layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let normed: Matrix =
                hidden.iter().map(|x| self.rms(&name("input_layernorm.weight"), x)).collect();
            let all = |part: &str| -> Matrix { normed.iter().map(|x| self.linear(&name(part), x)).collect() };
            let (mut queries, mut keys, values) =
                (all("self_attn.q_proj"), all("self_attn.k_proj"), all("self_attn.v_proj"));
            queries.iter_mut().enumerate().for_each(|(at, query)| self.turn(query, at));
            keys.iter_mut().enumerate().for_each(|(at, key)| self.turn(key, at));
            for (at, row) in hidden.iter_mut().enumerate() {
                let taken = self.attend(&queries[at], &keys, &values, at + 1);
                add(row, &self.linear(&name("self_attn.o_proj"), &taken));
                let normed = self.rms(&name("post_attention_layernorm.weight"), row);
                let (gate, up) = (
                    self.linear(&name("mlp.gate_proj"), &normed),
                    self.linear(&name("mlp.up_proj"), &normed),
                );
                let inner: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
                add(row, &self.linear(&name("mlp.down_proj"), &inner));
            }
        }
        self.linear("lm_head", &self.rms("model.norm.weight", hidden.last().unwrap()))
    }

    /// The vector of a text.
    fn bert(&self, tokens: &[u32]) -> Vec<f32> {
        let embed = |(at, &token): (usize, &u32)| {
            let mut sum = self.row("embeddings.word_embeddings.weight", token as usize);
            add(&mut sum, &self.row("embeddings.position_embeddings.weight", at));
            add(&mut sum, &self.row("embeddings.token_type_embeddings.weight", 0));
            self.norm("embeddings.LayerNorm", &sum)
        };
        let mut hidden: Matrix = tokens.iter().enumerate().map(embed).collect();
        for layer in 0..self.layers {
            let name = |part: &str| format!("encoder.layer.{layer}.{part}");
            let all = |part: &str| -> Matrix { hidden.iter().map(|x| self.linear(&name(part), x)).collect() };
            let (queries, keys, values) =
                (all("attention.self.query"), all("attention.self.key"), all("attention.self.value"));
            for (row, query) in hidden.iter_mut().zip(&queries) {
                let taken = self.attend(query, &keys, &values, tokens.len());
                add(row, &self.linear(&name("attention.output.dense"), &taken));
                *row = self.norm(&name("attention.output.LayerNorm"), row);
                let inner: Vec<f32> =
                    self.linear(&name("intermediate.dense"), row).into_iter().map(gelu).collect();
                add(row, &self.linear(&name("output.dense"), &inner));
                *row = self.norm(&name("output.LayerNorm"), row);
            }
        }
        let mut mean = vec![0.0; self.width];
        hidden.iter().for_each(|row| add(&mut mean, row));
        let length = mean.iter().map(|x| x * x).sum::<f32>().sqrt();
        mean.iter().map(|x| x / length).collect()
    }
}

fn add(to: &mut [f32], other: &[f32]) {
    to.iter_mut().zip(other).for_each(|(a, b)| *a += b);
}

/// By the series of the error function, which is exact enough for what is this small.
fn gelu(x: f32) -> f32 {
    let z = f64::from(x) / 2f64.sqrt();
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= -z * z / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    let erf = if z.abs() > 5.0 { z.signum() } else { sum * 2.0 / std::f64::consts::PI.sqrt() };
    (f64::from(x) * (1.0 + erf) / 2.0) as f32
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let spread = expected.iter().map(|x| x.abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance * spread, "off by {worst} where the largest is {spread}");
}

#[test]
fn the_decoder_computes_what_loops_compute() {
    let place = Place::language();
    let (model, plain) = (place.model(), Plain::new(&place, 4, 2));
    let tokens =
        model.tokenizer().encode("The old king went to the sea, and the wind said: näher!", true).unwrap();
    let expected = plain.llama(&tokens);
    // At once, in chunks, and token by token: all three are what a request may go through.
    let whole = model.read(&mut model.sequence(), &tokens, true).unwrap().unwrap();
    close(&whole, &expected, 1e-4);
    let mut sequence = model.sequence();
    let (early, late) = tokens.split_at(7);
    assert!(model.read(&mut sequence, early, false).unwrap().is_none());
    close(&model.read(&mut sequence, late, true).unwrap().unwrap(), &expected, 1e-4);
    let mut sequence = model.sequence();
    let mut last = Vec::new();
    for &token in &tokens {
        last = model.step(&mut [(&mut sequence, token)]).unwrap().remove(0);
    }
    close(&last, &expected, 1e-4);
    assert_eq!(sequence.len(), tokens.len());
}

#[test]
fn a_window_hides_what_lies_behind_it() {
    let place = Place::language();
    place.edit("config.json", |json| {
        json["architectures"][0] = "MistralForCausalLM".into();
        json["sliding_window"] = 4.into();
        // With one layer nothing from behind the window comes in through the tokens between.
        json["num_hidden_layers"] = 1.into();
    });
    let model = place.model();
    let tokens: Vec<u32> = (300..312).collect();
    let other: Vec<u32> = [vec![500; 8], tokens[8..].to_vec()].concat();
    let scores = |tokens: &[u32]| model.read(&mut model.sequence(), tokens, true).unwrap().unwrap();
    close(&scores(&tokens), &scores(&other), 1e-5);
    let mut sequence = model.sequence();
    model.read(&mut sequence, &tokens[..11], false).unwrap();
    let stepped = model.step(&mut [(&mut sequence, tokens[11])]).unwrap().remove(0);
    close(&stepped, &scores(&tokens), 1e-4);
}

#[test]
fn tied_weights_and_biases_are_used() {
    let place = Place::language();
    let untied = place.model();
    place.edit("config.json", |json| json["tie_word_embeddings"] = true.into());
    let tied = place.model();
    let scores =
        |model: &gswarm_infer::LanguageModel| model.read(&mut model.sequence(), &[5], true).unwrap().unwrap();
    assert_ne!(scores(&untied), scores(&tied));
    place.edit("config.json", |json| json["architectures"][0] = "Qwen2ForCausalLM".into());
    let error = gswarm_infer::LanguageModel::from_weights(&place.weights()).err().unwrap().to_string();
    assert!(error.contains("q_proj.bias is missing"), "{error}");
}

#[test]
fn the_encoder_computes_what_loops_compute() {
    let place = Place::new(ModelKind::Embedding);
    let (model, plain) = (place.embedder(), Plain::new(&place, 4, 4));
    let texts = ["the sea", "A story about a machine that could think, and of those who built it."];
    let found = model.embed(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&found.vectors) {
        let tokens = model.tokenizer().encode(text, true).unwrap();
        close(vector, &plain.bert(&tokens), 1e-4);
    }
}
