//! Answers that are held to a form have it, whatever the model would rather write.

use crate::support::{Place, ask, listen};
use gswarm_infer::{AnswerForm, EngineOptions, Error, FinishReason, GenerateRequest, SamplingTuning};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": {"enum": ["city", "lighthouse"]},
            "name": {"type": "string", "minLength": 1, "maxLength": 6},
            "old": {"type": "boolean"},
            "rank": {"type": "integer", "minimum": 1, "maximum": 12},
            "words": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        },
        "required": ["kind", "name", "old", "rank"],
        "additionalProperties": false,
    })
}

#[test]
fn json_keeps_to_its_schema_at_every_temperature() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    for seed in 0..12 {
        let request = GenerateRequest {
            temperature: seed as f64 / 3.0,
            seed,
            form: Some(AnswerForm::Schema(schema())),
            ignore_eos: seed % 2 == 0,
            ..ask("Tell of a place", 400)
        };
        let (_, pieces, finished) = listen(&engine, &request);
        assert_eq!(finished.reason, FinishReason::EndOfText, "{}", finished.text);
        assert_eq!(pieces.concat(), finished.text);
        let value: Value =
            serde_json::from_str(&finished.text).unwrap_or_else(|_| panic!("{}", finished.text));
        assert!(["city", "lighthouse"].contains(&value["kind"].as_str().unwrap()));
        assert!((1..=6).contains(&value["name"].as_str().unwrap().chars().count()), "{value}");
        assert!(value["old"].is_boolean() && (1..=12).contains(&value["rank"].as_i64().unwrap()), "{value}");
        let words = value.get("words").map_or(0, |words| words.as_array().unwrap().len());
        assert!(words <= 2 && value.as_object().unwrap().len() <= 5, "{value}");
    }
}

#[test]
fn other_forms_and_other_settings_go_together() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    let answer = |form: AnswerForm, tuning: SamplingTuning| {
        let request = GenerateRequest { form: Some(form), tuning, temperature: 1.0, ..ask("Well", 40) };
        engine.submit(&request).unwrap().wait().unwrap()
    };
    let choice = || AnswerForm::Choice(["yes", "no"].map(str::to_owned).to_vec());
    let banned = engine.model().tokenizer().encode("y", false).unwrap()[0];
    let biased = SamplingTuning { logit_bias: vec![(banned, -100.0)], ..SamplingTuning::default() };
    assert_eq!(answer(choice(), biased).text, "no");
    // More tokens than the form has: it wins.
    let longer = SamplingTuning { min_tokens: 30, top_k: 1, min_p: 0.9, ..SamplingTuning::default() };
    let said = answer(choice(), longer);
    assert!(["yes", "no"].contains(&said.text.as_str()), "{}", said.text);
    let regex = answer(AnswerForm::Regex("[a-c]{3}-[0-9]+".to_owned()), SamplingTuning::default()).text;
    assert!(regex.len() > 4 && regex.as_bytes()[3] == b'-', "{regex}");
    // An answer that is cut off has the beginning of the form.
    let object = answer(AnswerForm::JsonObject, SamplingTuning::default());
    assert!(object.text.starts_with('{'), "{}", object.text);
    let wrong = GenerateRequest { form: Some(AnswerForm::Regex("a(".to_owned())), ..ask("Well", 4) };
    assert!(matches!(engine.submit(&wrong), Err(Error::Request(_))));
}
