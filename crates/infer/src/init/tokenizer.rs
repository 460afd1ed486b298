//! A tokenizer on bytes, so that every text can be written, with merges that make one token of common words.

use super::words::WORDS;
use crate::config::ModelKind;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Begins a text.
pub(super) const BOS: u32 = 0;
/// Ends a text.
pub(super) const EOS: u32 = 1;
const SPECIAL: [&str; 2] = ["<s>", "</s>"];

/// A chat as a list of lines, each begun by its role.
const CHAT: &str = "{{ bos_token }}{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n\
                    {% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

/// The tokens of a small model, by number.
pub(super) struct Vocabulary {
    kind: ModelKind,
    tokens: Vec<String>,
    /// Pairs that become one token, the first first.
    merges: Vec<(String, String)>,
    /// Which tokens are whole words or punctuation.
    words: Vec<bool>,
}

impl Vocabulary {
    pub(super) fn new(kind: ModelKind) -> Vocabulary {
        let mut tokens: Vec<String> = SPECIAL.iter().map(|token| token.to_string()).collect();
        tokens.extend((0..=255).map(|byte| letter(byte).to_string()));
        let mut known: BTreeMap<String, usize> =
            tokens.iter().enumerate().map(|(at, token)| (token.clone(), at)).collect();
        let mut words = vec![false; tokens.len()];
        for mark in [b'.', b',', b'!', b'?', b'\n'] {
            words[SPECIAL.len() + usize::from(mark)] = true;
        }
        let mut merges = Vec::new();
        // Every merge lengthens the beginning of a word by one letter, so that none comes in another's way.
        for word in WORDS.split_whitespace() {
            let mut begun = letter(b' ').to_string();
            for byte in word.bytes() {
                let longer = format!("{begun}{}", letter(byte));
                if !known.contains_key(&longer) {
                    merges.push((begun, letter(byte).to_string()));
                    known.insert(longer.clone(), tokens.len());
                    tokens.push(longer.clone());
                    words.push(false);
                }
                begun = longer;
            }
            words[known[&begun]] = true;
        }
        Vocabulary { kind, tokens, merges, words }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether a token is a whole word or punctuation.
    pub(super) fn is_word(&self, token: usize) -> bool {
        self.words[token]
    }

    /// The content of `tokenizer.json`.
    pub(super) fn tokenizer(&self) -> Value {
        let vocab: Map<String, Value> =
            self.tokens.iter().enumerate().map(|(at, token)| (token.clone(), json!(at))).collect();
        let special = |id: u32| {
            json!({"id": id, "content": SPECIAL[id as usize], "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false, "special": true})
        };
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let token = |id: u32| json!({"SpecialToken": {"id": SPECIAL[id as usize], "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let (single, used) = match self.kind {
            ModelKind::Language => (json!([token(BOS), text]), vec![BOS]),
            ModelKind::Embedding => (json!([token(BOS), text, token(EOS)]), vec![BOS, EOS]),
        };
        let named = |id: u32| {
            let token = SPECIAL[id as usize];
            (token.to_string(), json!({"id": token, "ids": [id], "tokens": [token]}))
        };
        json!({
            "version": "1.0",
            "truncation": null,
            "padding": null,
            "added_tokens": [special(BOS), special(EOS)],
            "normalizer": null,
            "pre_tokenizer": bytes,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": single,
                "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": used.into_iter().map(named).collect::<Map<String, Value>>(),
            },
            "decoder": bytes,
            "model": {
                "type": "BPE",
                "dropout": null,
                "unk_token": null,
                "continuing_subword_prefix": null,
                "end_of_word_suffix": null,
                "fuse_unk": false,
                "byte_fallback": false,
                "ignore_merges": false,
                "vocab": vocab,
                "merges": self.merges.iter().map(|(left, right)| json!([left, right])).collect::<Vec<_>>(),
            },
        })
    }

    /// The content of `tokenizer_config.json`.
    pub(super) fn tokenizer_config(&self) -> Value {
        let mut config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[BOS as usize],
            "eos_token": SPECIAL[EOS as usize],
        });
        if self.kind == ModelKind::Language {
            config["chat_template"] = json!(CHAT);
        }
        config
    }
}

/// The character that stands for a byte in byte-level tokenizers: itself where it can be seen, one from further up where
/// it cannot.
fn letter(byte: u8) -> char {
    let visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if visible(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !visible(other)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_letters_that_tokenizers_give_them() {
        assert_eq!((letter(b' '), letter(b'\n'), letter(b'a'), letter(0xFF)), ('Ġ', 'Ċ', 'a', 'ÿ'));
        let all: std::collections::BTreeSet<char> = (0..=255).map(letter).collect();
        assert_eq!(all.len(), 256);
    }

    #[test]
    fn words_end_in_tokens_of_their_own() {
        let vocabulary = Vocabulary::new(ModelKind::Language);
        let the = vocabulary.tokens.iter().position(|token| token == "Ġthe").unwrap();
        assert!(
            vocabulary.is_word(the) && !vocabulary.is_word(BOS as usize) && !vocabulary.is_word(EOS as usize)
        );
    }
}
