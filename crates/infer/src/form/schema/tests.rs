use crate::form::{AnswerForm, TokenBytes};
use serde_json::{Value, json};
use std::sync::Arc;

/// Whether a text has the form, as the guide of a model with a token for each byte would have it written.
fn keeps(form: &AnswerForm, text: &str) -> bool {
    let letters: Vec<String> = (0..128_u8).map(|byte| char::from(byte).to_string()).collect();
    let mut letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    letters[0] = "";
    let mut guide = form.guide(Arc::new(TokenBytes::from_texts(&letters))).unwrap();
    for byte in text.bytes() {
        let mut scores = vec![0.0; 128];
        guide.mask(&mut scores, &[0]).unwrap();
        if scores[usize::from(byte)] != 0.0 {
            return false;
        }
        guide.accept(byte.into()).unwrap();
    }
    if guide.is_over().unwrap() {
        return true;
    }
    let mut scores = vec![0.0; 128];
    guide.mask(&mut scores, &[0]).unwrap();
    scores[0] == 0.0
}

fn schema(value: Value) -> AnswerForm {
    AnswerForm::Schema(value)
}

#[test]
fn what_keeps_to_a_schema_can_be_written_and_nothing_else() {
    let person = json!({
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "mood": {"enum": ["good", "a \"bad\" one", null]},
            "name": {"type": "string", "maxLength": 5},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 2},
        },
        "required": ["age", "name"],
        "additionalProperties": false,
        "$defs": {"tag": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}},
    });
    let cases: &[(Value, &[&str], &[&str])] = &[
        (
            person,
            &[
                r#"{"age": 7,"name":"Ann"}"#,
                r#"{"age":150, "mood": "a \"bad\" one", "name": "\n\u00e9", "tags": [true, null]}"#,
                r#"{"age":0,"mood":null,"name":""}"#,
            ],
            &[
                r#"{"age":151,"name":"Ann"}"#,
                r#"{"age":7}"#,
                r#"{"name":"Ann"}"#,
                r#"{"age":7,"name":"Annika"}"#,
                r#"{"age":7,"name":"Ann","tags":[]}"#,
                r#"{"age":7,"name":"Ann","more":1}"#,
                r#"{"age":07,"name":"Ann"}"#,
                r#"{"age":7,"name":"Ann"} "#,
                r#"{"age":7,"name":"Ann""#,
            ],
        ),
        (
            json!({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}}),
            &["{}", r#"{"a":1}"#, r#"{"b":2}"#, r#"{"a":1,"c":3}"#, r#"{"a":1,"b":2,"c":3}"#],
            &[r#"{"c":3,"a":1}"#, r#"{,"a":1}"#, r#"{"a":1,}"#, r#"{"a":2}"#],
        ),
        (
            json!({"type": ["number", "null"], "minimum": 0, "maximum": 1}),
            &["0", "1", "0.25", "1.0", "null"],
            &["2", "1.5", "-0.5", "true", "1e5", ""],
        ),
        (json!({"type": "number"}), &["-1.5e-7", "12"], &["1.", ".5", "+1", "NaN"]),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            &["{}", r#"{"x":1, "y": -2}"#],
            &[r#"{"x":"1"}"#],
        ),
        (
            json!({"type": "string", "format": "date"}),
            &[r#""2024-02-28""#],
            &[r#""2024-13-01""#, "2024-02-28"],
        ),
        (json!({"type": "integer", "exclusiveMinimum": 0}), &["1", "900"], &["0", "-1", "1.5"]),
        (json!({}), &["[1,{}]", "\"x\"", r#"{"a":[null]}"#], &["[1,]", "x"]),
    ];
    for (given, good, bad) in cases {
        let form = schema(given.clone());
        good.iter().for_each(|text| assert!(keeps(&form, text), "{given}: {text}"));
        bad.iter().for_each(|text| assert!(!keeps(&form, text), "{given}: {text}"));
        good.iter().for_each(|text| assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}"));
    }
}

#[test]
fn other_forms() {
    let object = AnswerForm::JsonObject;
    assert!(
        keeps(&object, r#"{"a": [1, {"b": "c"}], "d": {}}"#)
            && !keeps(&object, "[1]")
            && !keeps(&object, "{a:1}")
    );
    let choice = AnswerForm::Choice(["yes", "no", "no.way"].map(str::to_owned).to_vec());
    assert!(
        keeps(&choice, "no")
            && keeps(&choice, "no.way")
            && !keeps(&choice, "no_way")
            && !keeps(&choice, "ye")
    );
    let regex = AnswerForm::Regex("a|b+".to_owned());
    assert!(keeps(&regex, "a") && keeps(&regex, "bbb") && !keeps(&regex, "ab") && !keeps(&regex, "aa"));
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    let recursive =
        json!({"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"});
    for (given, why) in [
        (json!({"type": "string", "pattern": "a+"}), "`pattern`"),
        (json!({"type": "array", "uniqueItems": true}), "`uniqueItems`"),
        (json!({"not": {}}), "`not`"),
        (json!({"type": "integer", "minimum": -3}), "bounds"),
        (json!({"type": "thing"}), "`thing`"),
        (json!({"$ref": "#/nowhere"}), "#/nowhere"),
        (json!({"allOf": [{}, {}]}), "allOf"),
        (json!({"type": "array", "minItems": 3, "maxItems": 2}), "at least 3"),
        (recursive, "in themselves"),
        (json!({"required": ["a"], "properties": {"b": {}}}), "`a`"),
    ] {
        let said = schema(given.clone()).check().unwrap_err();
        assert!(said.contains(why), "{given}: {said}");
    }
    assert!(AnswerForm::Regex("a(".to_owned()).check().is_err());
    assert!(AnswerForm::Regex(r"(?:a{1000}){1000}".to_owned()).check().is_err(), "it is too large");
    assert!(AnswerForm::Choice(Vec::new()).check().is_err());
}
