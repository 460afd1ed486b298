//! The bytes that each token of a model adds to a text.

use serde_json::Value;
use tokenizers::Tokenizer;

/// The bytes of all tokens, in their order.
#[derive(Debug)]
pub(crate) struct TokenBytes {
    /// Tokens that have no text are left out.
    sorted: Vec<(Box<[u8]>, u32)>,
}

/// How tokens are written in the vocabulary.
#[derive(Clone, Copy)]
enum Spelling {
    /// A letter for each byte, as GPT-2 has it.
    Letters,
    /// As SentencePiece has it: a mark for a space, `<0x0A>` for a byte.
    Marks,
}

impl TokenBytes {
    /// `None` where the tokenizer has another way to write tokens: their bytes are not known then.
    pub(crate) fn of(tokenizer: &Tokenizer) -> Option<TokenBytes> {
        let spelling = spelling(tokenizer)?;
        let added = tokenizer.get_added_vocabulary();
        let bytes = |token: &str, id: u32| match added.get_added_tokens_decoder().get(&id) {
            Some(one) if one.special => None,
            // What was added stands as it is.
            Some(one) => Some(one.content.as_bytes().to_vec()),
            None => match spelling {
                Spelling::Letters => token.chars().map(byte).collect(),
                Spelling::Marks => Some(marked(token)),
            },
        };
        let vocabulary = tokenizer.get_vocab(true);
        let mut sorted: Vec<(Box<[u8]>, u32)> = vocabulary
            .into_iter()
            .filter_map(|(token, id)| Some((bytes(&token, id)?.into_boxed_slice(), id)))
            .filter(|(bytes, _)| !bytes.is_empty())
            .collect();
        sorted.sort_unstable();
        Some(TokenBytes { sorted })
    }

    /// The tokens in the order of their bytes.
    pub(super) fn sorted(&self) -> &[(Box<[u8]>, u32)] {
        &self.sorted
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, token: u32) -> Option<&[u8]> {
        self.sorted.iter().find(|(_, id)| *id == token).map(|(bytes, _)| &**bytes)
    }

    #[cfg(test)]
    pub(super) fn from_texts(texts: &[&str]) -> TokenBytes {
        let tokens = texts.iter().zip(0..).filter(|(text, _)| !text.is_empty());
        let mut sorted: Vec<(Box<[u8]>, u32)> =
            tokens.map(|(text, id)| (text.as_bytes().into(), id)).collect();
        sorted.sort_unstable();
        TokenBytes { sorted }
    }
}

fn spelling(tokenizer: &Tokenizer) -> Option<Spelling> {
    let as_json = |value: serde_json::Result<Value>| value.unwrap_or_default().to_string();
    let decoder = as_json(serde_json::to_value(tokenizer.get_decoder()));
    let before = as_json(serde_json::to_value(tokenizer.get_pre_tokenizer()));
    if decoder.contains("\"ByteLevel\"") || before.contains("\"ByteLevel\"") {
        return Some(Spelling::Letters);
    }
    let marks = ["\"ByteFallback\"", "\"Metaspace\"", "\u{2581}"];
    marks.iter().any(|mark| decoder.contains(mark)).then_some(Spelling::Marks)
}

/// The byte that a letter stands for: printable ones stand for themselves, the others follow from 256 on.
fn byte(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    let stands_for_itself = |code: u32| matches!(code, 33..=126 | 161..=172 | 174..=255);
    if code < 256 {
        return stands_for_itself(code).then_some(code as u8);
    }
    let mut others = (0..=255_u8).filter(|&byte| !stands_for_itself(u32::from(byte)));
    others.nth(usize::try_from(code - 256).ok()?)
}

fn marked(token: &str) -> Vec<u8> {
    let hex = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    match hex.filter(|hex| hex.len() == 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None => token.replace('\u{2581}', " ").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_marks_stand_for_bytes() {
        let all: Vec<u8> = (0..=0x143).filter_map(|code| byte(char::from_u32(code)?)).collect();
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..=255).collect::<Vec<u8>>(), "each byte has one letter");
        assert_eq!((byte('\u{120}'), byte('\u{10a}'), byte('{')), (Some(b' '), Some(b'\n'), Some(b'{')));
        assert_eq!(marked("\u{2581}the"), b" the");
        assert_eq!((marked("<0x0A>"), marked("<0x>")), (vec![b'\n'], b"<0x>".to_vec()));
    }
}
