//! Damaged files: an error that names the file, and neither a panic nor memory for what is not there.

use crate::support::Place;
use gswarm_infer::{EmbeddingModel, Error, LanguageModel, ModelConfig, ModelKind, Weights};
use serde_json::json;

/// What loading says, down to the model that would serve.
fn fault(place: &Place) -> Error {
    let weights = match Weights::load(place.folder()) {
        Ok(weights) => weights,
        Err(error) => return error,
    };
    match weights.config() {
        ModelConfig::Decoder(_) => LanguageModel::from_weights(&weights).err(),
        ModelConfig::Encoder(_) => EmbeddingModel::from_weights(&weights).err(),
    }
    .expect("the damage was not seen")
}

#[track_caller]
fn says(place: &Place, file: &str, part: &str) {
    let text = fault(place).to_string();
    assert!(text.contains(file) && text.contains(part), "`{file}` and `{part}` are not in: {text}");
}

#[test]
fn cut_off_tensors() {
    let place = Place::language();
    let path = place.path("model.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for keep in [0, 3, 8, 100, 5000, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..keep]).unwrap();
        says(&place, "model.safetensors", "");
    }
    std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
    says(&place, "model.safetensors", "its header gives");
    std::fs::remove_file(&path).unwrap();
    says(&place, "model.safetensors", "cannot read");
    std::fs::create_dir(&path).unwrap();
    says(&place, "model.safetensors", "not a regular file");
}

#[test]
fn tensor_headers_that_lie() {
    let place = Place::language();
    let path = place.path("model.safetensors");
    let with = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        std::fs::write(&path, bytes).unwrap();
    };
    // Sizes that overflow, offsets that overlap or leave the file, types that do not fit, no JSON at all.
    let huge = u64::MAX;
    for header in [
        format!(r#"{{"a":{{"dtype":"F32","shape":[{huge},{huge}],"data_offsets":[0,16]}}}}"#),
        r#"{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#.to_string(),
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#.to_string(),
        r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}}"#.to_string(),
        r#"{"a":{"dtype":"F99","shape":[4],"data_offsets":[0,16]}}"#.to_string(),
        r#"{"a":"#.to_string(),
        "[]".to_string(),
        "\u{0}".to_string(),
    ] {
        with(&header, 16);
        says(&place, "model.safetensors", "");
    }
    std::fs::write(&path, huge.to_le_bytes()).unwrap();
    says(&place, "model.safetensors", "beyond the end of the file");
    with(r#"{"a":{"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]}}"#, 16);
    says(&place, "model.safetensors", "not supported");
}

#[test]
fn missing_and_misshapen_tensors() {
    let place = Place::language();
    let damage = |change: &[(&str, serde_json::Value)]| {
        let place = Place::language();
        place.edit("config.json", |json| change.iter().for_each(|(key, value)| json[*key] = value.clone()));
        place
    };
    says(
        &damage(&[("num_hidden_layers", json!(3))]),
        "model.safetensors",
        "layers.2.input_layernorm.weight is missing",
    );
    says(
        &damage(&[("intermediate_size", json!(353))]),
        "model.safetensors",
        "gate_proj.weight is [352, 128]",
    );
    says(&damage(&[("hidden_size", json!(256))]), "model.safetensors", "embed_tokens");
    says(&damage(&[("num_key_value_heads", json!(4))]), "model.safetensors", "k_proj");
    says(&damage(&[("vocab_size", json!(100_000))]), "model.safetensors", "embed_tokens");
    drop(place);
    let embedding = Place::new(ModelKind::Embedding);
    embedding.edit("config.json", |json| json["max_position_embeddings"] = json!(1024));
    says(&embedding, "model.safetensors", "position_embeddings");
}

#[test]
fn configurations_with_absurd_numbers() {
    for (key, value) in [
        ("hidden_size", json!(1u64 << 60)),
        ("hidden_size", json!(-1)),
        ("hidden_size", json!(0)),
        ("hidden_size", json!("128")),
        ("hidden_size", json!(1.5)),
        ("hidden_size", json!(null)),
        ("vocab_size", json!(u64::MAX)),
        ("num_hidden_layers", json!(1_000_000)),
        ("num_attention_heads", json!(0)),
        ("num_attention_heads", json!(3)),
        ("num_key_value_heads", json!(3)),
        ("head_dim", json!(31)),
        ("max_position_embeddings", json!(1u64 << 40)),
        ("rms_norm_eps", json!(-1e-5)),
        ("rope_theta", json!(0)),
        ("rope_theta", json!("x")),
        ("eos_token_id", json!(1_000_000)),
        ("eos_token_id", json!([1, "a"])),
        ("tie_word_embeddings", json!("yes")),
        ("architectures", json!(["GPT2LMHeadModel"])),
        ("architectures", json!([])),
        ("architectures", json!(7)),
        ("hidden_act", json!("relu")),
        ("rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
        ("rope_scaling", json!({"rope_type": "llama3", "low_freq_factor": 4.0, "high_freq_factor": 4.0})),
    ] {
        let place = Place::language();
        place.edit("config.json", |json| json[key] = value.clone());
        says(&place, "config.json", "");
    }
    for text in ["", "{", "[]", "null", "\u{0}"] {
        let place = Place::language();
        std::fs::write(place.path("config.json"), text).unwrap();
        says(&place, "config.json", "");
    }
}

#[test]
fn tokenizers_that_are_none() {
    for text in
        ["", "{}", "garbage", "[1]", r#"{"version":"1.0","model":{"type":"BPE","vocab":{},"merges":[]}}"#]
    {
        let place = Place::language();
        std::fs::write(place.path("tokenizer.json"), text).unwrap();
        says(&place, "tokenizer.json", "");
    }
    let place = Place::language();
    place.edit("tokenizer.json", |json| json["model"]["vocab"]["extra"] = json!(50_000));
    says(&place, "tokenizer.json", "50000");
    let place = Place::language();
    place.edit("tokenizer.json", |json| json["model"]["merges"][0] = json!(["no", "such"]));
    says(&place, "tokenizer.json", "");
    let place = Place::language();
    place.edit("tokenizer_config.json", |json| json["chat_template"] = json!("{% if %}"));
    says(&place, "tokenizer_config.json", "chat template");
}

#[test]
fn an_index_may_only_name_files_beside_it() {
    let place = Place::language();
    std::fs::rename(place.path("model.safetensors"), place.path("part-1.safetensors")).unwrap();
    let index = |name: &str| {
        let json = json!({"weight_map": {"a": name}});
        std::fs::write(place.path("model.safetensors.index.json"), json.to_string()).unwrap();
    };
    for name in ["../x.safetensors", "/x.safetensors", "a/b.safetensors", "config.json", "", ".."] {
        index(name);
        says(&place, "model.safetensors.index.json", "not the name of a safetensors file");
    }
    index("part-1.safetensors");
    assert!(LanguageModel::from_weights(&place.weights()).is_ok());
}

#[cfg(unix)]
#[test]
fn a_device_in_place_of_a_file_is_not_read() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let place = Place::language();
        std::fs::remove_file(place.path(name)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", place.path(name)).unwrap();
        says(&place, name, "not a regular file");
    }
}

/// The library panics over a merge that is shorter than the prefix which it is to lose: the file is refused like any other.
#[test]
fn tokenizers_that_make_their_library_panic() {
    let place = Place::language();
    place.edit("tokenizer.json", |json| {
        json["model"]["continuing_subword_prefix"] = json!("longer than any token that there is");
    });
    says(&place, "tokenizer.json", "its library fails");
    assert!(!gswarm_infer::is_panic_expected(), "others' panics are told as ever");
}
