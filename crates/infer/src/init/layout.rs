//! The tensors of the small models, and the configurations that describe them.

use super::tokenizer::{self, Vocabulary};
use super::{ModelSize, Numbers, POSITIONS};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// Spread of the scores of words: large enough that the likeliest stands out.
const SCORE_SPREAD: f32 = 4.0;

/// What the weights of tokens that are no words are scaled by, so that texts are made of words.
const QUIET: f32 = 0.05;

/// Random numbers for weights. They are uniform, which needs no functions that differ between machines.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Draw {
        Draw(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Numbers around zero with this standard deviation.
    fn numbers(&mut self, count: usize, spread: f32) -> Vec<f32> {
        // A uniform distribution from -1 to 1 has a deviation of one over the root of three.
        let scale = spread * 1.732_050_8;
        (0..count).map(|_| (self.0.random::<f32>() * 2.0 - 1.0) * scale).collect()
    }

    /// A matrix that keeps the size of what it is applied to.
    fn matrix(&mut self, name: String, outputs: usize, inputs: usize) -> Numbers {
        let values = self.numbers(outputs * inputs, (inputs as f32).sqrt().recip());
        Numbers { name, shape: vec![outputs, inputs], values }
    }

    fn table(&mut self, name: &str, rows: usize, width: usize, spread: f32) -> Numbers {
        Numbers {
            name: name.to_string(),
            shape: vec![rows, width],
            values: self.numbers(rows * width, spread),
        }
    }
}

fn constant(name: String, width: usize, value: f32) -> Numbers {
    Numbers { name, shape: vec![width], values: vec![value; width] }
}

pub(super) fn decoder(size: ModelSize, vocabulary: &Vocabulary, mut draw: Draw) -> (Value, Vec<Numbers>) {
    let (width, inner, layers, heads, kv_heads) = match size {
        ModelSize::Tiny => (128, 352, 2, 4, 2),
        ModelSize::Small => (512, 1408, 6, 8, 4),
    };
    let (tokens, kv_width) = (vocabulary.len(), width / heads * kv_heads);
    let config = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": false,
        "attention_bias": false,
        "mlp_bias": false,
        "vocab_size": tokens,
        "bos_token_id": tokenizer::BOS,
        "eos_token_id": tokenizer::EOS,
        "torch_dtype": "float32",
    });
    let mut tensors = vec![draw.table("model.embed_tokens.weight", tokens, width, 1.0)];
    for layer in 0..layers {
        let name = |part: &str| format!("model.layers.{layer}.{part}.weight");
        tensors.push(constant(name("input_layernorm"), width, 1.0));
        tensors.push(draw.matrix(name("self_attn.q_proj"), width, width));
        tensors.push(draw.matrix(name("self_attn.k_proj"), kv_width, width));
        tensors.push(draw.matrix(name("self_attn.v_proj"), kv_width, width));
        tensors.push(draw.matrix(name("self_attn.o_proj"), width, width));
        tensors.push(constant(name("post_attention_layernorm"), width, 1.0));
        tensors.push(draw.matrix(name("mlp.gate_proj"), inner, width));
        tensors.push(draw.matrix(name("mlp.up_proj"), inner, width));
        tensors.push(draw.matrix(name("mlp.down_proj"), width, inner));
    }
    tensors.push(constant("model.norm.weight".to_string(), width, 1.0));
    let mut head = draw.table("lm_head.weight", tokens, width, SCORE_SPREAD / (width as f32).sqrt());
    for (token, row) in head.values.chunks_mut(width).enumerate() {
        if !vocabulary.is_word(token) {
            row.iter_mut().for_each(|value| *value *= QUIET);
        }
    }
    tensors.push(head);
    (config, tensors)
}

pub(super) fn encoder(size: ModelSize, vocabulary: &Vocabulary, mut draw: Draw) -> (Value, Vec<Numbers>) {
    let (width, inner, layers, heads) = match size {
        ModelSize::Tiny => (128, 256, 2, 4),
        ModelSize::Small => (512, 2048, 6, 8),
    };
    let (tokens, positions) = (vocabulary.len(), 512);
    let config = json!({
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": positions,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "vocab_size": tokens,
        "torch_dtype": "float32",
    });
    // Words weigh more than places, so that texts with the same words are alike.
    let mut tensors = vec![
        draw.table("embeddings.word_embeddings.weight", tokens, width, 1.0),
        draw.table("embeddings.position_embeddings.weight", positions, width, 0.1),
        draw.table("embeddings.token_type_embeddings.weight", 2, width, 0.1),
        constant("embeddings.LayerNorm.weight".to_string(), width, 1.0),
        constant("embeddings.LayerNorm.bias".to_string(), width, 0.0),
    ];
    for layer in 0..layers {
        let linears = [
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ];
        for (part, outputs, inputs) in linears {
            let name = format!("encoder.layer.{layer}.{part}");
            tensors.push(draw.matrix(format!("{name}.weight"), outputs, inputs));
            let values = draw.numbers(outputs, 0.02);
            tensors.push(Numbers { name: format!("{name}.bias"), shape: vec![outputs], values });
        }
        for part in ["attention.output", "output"] {
            let name = format!("encoder.layer.{layer}.{part}.LayerNorm");
            tensors.push(constant(format!("{name}.weight"), width, 1.0));
            tensors.push(constant(format!("{name}.bias"), width, 0.0));
        }
    }
    (config, tensors)
}
