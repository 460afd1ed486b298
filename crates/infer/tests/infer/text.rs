//! Text: what goes in comes out, in pieces or whole, and ends where it should.

use crate::support::{Place, ask, listen};
use gswarm_infer::{EngineOptions, FinishReason, GenerateRequest, Message, ModelKind, Prompt};

const TEXTS: [&str; 7] = [
    "",
    "the king said: well, 42!",
    "  two  spaces\tand\r\nlines\n",
    "Zürich \u{1F600} 漢字 عربى",
    "\u{0}\u{7f}\u{fffd}\u{10ffff}",
    "kingdom theatre Sea SEA",
    "don't stop'''",
];

#[test]
fn any_text_survives_the_tokenizer() {
    for kind in [ModelKind::Language, ModelKind::Embedding] {
        let weights = Place::new(kind).weights();
        for text in TEXTS {
            for special in [false, true] {
                let tokens = weights.tokenizer().encode(text, special).unwrap();
                assert_eq!(weights.tokenizer().decode(&tokens).unwrap(), text);
            }
        }
        let words = weights.tokenizer().encode(" the king went to the river", false).unwrap();
        assert_eq!(words.len(), 6, "a common word is one token");
    }
}

#[test]
fn the_pieces_together_are_the_whole_text() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    for (seed, prompt) in TEXTS.iter().enumerate() {
        // Hot enough for bytes that are no characters to come up too.
        let request = GenerateRequest { temperature: 3.0, seed: seed as u64, ..ask(prompt, 120) };
        let (ids, pieces, finished) = listen(&engine, &request);
        assert_eq!(pieces.concat(), finished.text);
        assert_eq!(finished.text, engine.model().tokenizer().decode(&ids).unwrap());
        assert_eq!((ids.len(), finished.new_tokens), (120, 120));
        assert_eq!(finished.reason, FinishReason::Length);
        assert!(pieces.iter().filter(|piece| !piece.is_empty()).count() > 30, "not streamed: {pieces:?}");
    }
}

#[test]
fn the_small_model_speaks_in_words() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    let text = engine.submit(&ask("Once upon a time", 40)).unwrap().wait().unwrap().text;
    assert!(text.is_ascii() && text.split_whitespace().count() > 20, "{text}");
    let drawn = GenerateRequest { temperature: 1.0, seed: 1, ..ask("Once upon a time", 40) };
    let other = GenerateRequest { seed: 2, ..drawn.clone() };
    let text = |request| engine.submit(&request).unwrap().wait().unwrap().text;
    assert_eq!(text(drawn.clone()), text(drawn.clone()));
    assert_ne!(text(drawn), text(other));
}

#[test]
fn stop_strings_end_the_text_and_are_not_in_it() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    let whole = listen(&engine, &ask("the sea", 60)).2.text;
    // One that begins and ends inside of words, so that it comes in several tokens.
    let at = whole.char_indices().nth(40).unwrap().0;
    let stop = &whole[at..at + 9];
    let request =
        GenerateRequest { stop: vec!["never here".to_string(), stop.to_string()], ..ask("the sea", 60) };
    let (_, pieces, finished) = listen(&engine, &request);
    assert_eq!(finished.reason, FinishReason::Stop(stop.to_string()));
    assert_eq!(finished.text, whole[..whole.find(stop).unwrap()]);
    assert_eq!(pieces.concat(), finished.text);
    assert!(finished.new_tokens < 60);
}

#[test]
fn the_end_of_a_text_is_heeded_or_ignored() {
    let place = Place::language();
    let (ids, _, whole) = listen(&place.engine(EngineOptions::default()), &ask("the sea", 60));
    // The token that comes tenth, if it has not come before, is made the one that ends a text.
    let at = (10..60).find(|&at| !ids[..at].contains(&ids[at])).unwrap();
    place.edit("generation_config.json", |json| json["eos_token_id"] = serde_json::json!([1, ids[at]]));
    let engine = place.engine(EngineOptions::default());
    let request = GenerateRequest { ignore_eos: false, ..ask("the sea", 60) };
    let (found, pieces, finished) = listen(&engine, &request);
    assert_eq!(found, ids[..=at]);
    assert_eq!((finished.reason, finished.new_tokens), (FinishReason::EndOfText, at + 1));
    assert_eq!(pieces.concat(), finished.text);
    assert_eq!(listen(&engine, &ask("the sea", 60)).2.text, whole.text);
}

#[test]
fn chats_go_through_the_models_template() {
    let place = Place::language();
    let chat = vec![Message::new("system", "Be kind."), Message::new("user", "Who are you?")];
    let engine = place.engine(EngineOptions::default());
    let asked = GenerateRequest { prompt: Prompt::Chat(chat.into()), ..ask("", 8) };
    let (ids, _, finished) = listen(&engine, &asked);
    let same = listen(&engine, &ask("system: Be kind.\nuser: Who are you?\nassistant:", 8));
    assert_eq!((ids, finished.prompt_tokens), (same.0, same.2.prompt_tokens));
    // Without a template of its own, the model gets the default, which is the same here.
    place.edit("tokenizer_config.json", |json| drop(json.as_object_mut().unwrap().remove("chat_template")));
    let plain = listen(&place.engine(EngineOptions::default()), &asked);
    assert_eq!(plain.2.text, finished.text);
}
