//! What an answer of an own model is held to: by OpenAI's `response_format`, vLLM's names for the same, or a tool that has to be
//! called.

use crate::fault::Fault;
use gswarm_infer::AnswerForm;
use serde_json::{Map, Value, json};

/// What a request says of the form of its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct FormFields {
    pub response_format: Option<Value>,
    pub structured_outputs: Option<Map<String, Value>>,
    pub guided_json: Option<Value>,
    pub guided_regex: Option<String>,
    pub guided_choice: Option<Vec<String>>,
}

impl FormFields {
    /// The form, where there is one and only one.
    pub fn form(&self) -> Result<Option<AnswerForm>, Fault> {
        let mut found: Vec<(&str, AnswerForm)> = Vec::new();
        if let Some(form) = self.response_format.as_ref().map(response_format).transpose()?.flatten() {
            found.push(("response_format", form));
        }
        let outputs = self.structured_outputs.iter().flatten().filter(|(_, value)| !value.is_null());
        for (name, value) in outputs {
            found.push(("structured_outputs", structured(name, value)?));
        }
        if let Some(schema) = &self.guided_json {
            found.push(("guided_json", AnswerForm::Schema(schema_of("guided_json", schema)?)));
        }
        if let Some(pattern) = &self.guided_regex {
            found.push(("guided_regex", AnswerForm::Regex(pattern.clone())));
        }
        if let Some(texts) = &self.guided_choice {
            found.push(("guided_choice", AnswerForm::Choice(texts.clone())));
        }
        if let [_, (second, _), ..] = &found[..] {
            return Err(Fault::param(*second, "an answer has one form: it is given twice"));
        }
        let Some((name, form)) = found.pop() else { return Ok(None) };
        checked(name, form).map(Some)
    }
}

/// A form that answers can be held to.
fn checked(name: &str, form: AnswerForm) -> Result<AnswerForm, Fault> {
    let wrong = |why: String| Fault::param(name, format!("the answer cannot be held to {name}: {why}"));
    form.check().map_err(wrong)?;
    Ok(form)
}

fn response_format(given: &Value) -> Result<Option<AnswerForm>, Fault> {
    let wrong = |what: &str| Fault::param("response_format", what);
    match given.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(AnswerForm::JsonObject)),
        Some("json_schema") => {
            let schema = given.pointer("/json_schema/schema");
            let schema = schema.ok_or_else(|| wrong("`json_schema` has no `schema`"))?;
            Ok(Some(AnswerForm::Schema(schema.clone())))
        }
        _ => Err(wrong("the type of response_format is `text`, `json_object` or `json_schema`")),
    }
}

fn structured(name: &str, value: &Value) -> Result<AnswerForm, Fault> {
    let wrong =
        || Fault::param("structured_outputs", format!("`{name}` of structured_outputs is not of its type"));
    Ok(match name {
        "json" => AnswerForm::Schema(schema_of("structured_outputs", value)?),
        "json_object" if value == &Value::Bool(true) => AnswerForm::JsonObject,
        "regex" => AnswerForm::Regex(value.as_str().ok_or_else(wrong)?.to_owned()),
        "choice" => {
            let texts = value.as_array().ok_or_else(wrong)?.iter();
            AnswerForm::Choice(
                texts
                    .map(|text| text.as_str().map(str::to_owned))
                    .collect::<Option<_>>()
                    .ok_or_else(wrong)?,
            )
        }
        "json_object" => return Err(wrong()),
        other => {
            let message = format!("this model cannot do what `{other}` of structured_outputs asks for");
            return Err(Fault {
                code: "unsupported_parameter",
                ..Fault::param("structured_outputs", message)
            });
        }
    })
}

/// A schema, which may be JSON in a text.
fn schema_of(name: &str, value: &Value) -> Result<Value, Fault> {
    match value {
        Value::String(text) => serde_json::from_str(text)
            .map_err(|error| Fault::param(name, format!("the schema is not JSON: {error}"))),
        other => Ok(other.clone()),
    }
}

/// The form of a call of a tool, where one has to be called.
pub(super) fn of_tools(choice: Option<&Value>, tools: &[Value]) -> Result<Option<AnswerForm>, Fault> {
    let wrong = |what: &str| Fault::param("tool_choice", what);
    let name_of = |tool: &Value| tool.pointer("/function/name").and_then(Value::as_str).map(str::to_owned);
    let wanted = match choice {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => match text.as_str() {
            "auto" | "none" => return Ok(None),
            "required" => None,
            _ => return Err(wrong("tool_choice is `auto`, `none`, `required` or a function")),
        },
        Some(choice) => Some(name_of(choice).ok_or_else(|| wrong("tool_choice names no function"))?),
    };
    let meant = tools.iter().filter(|tool| wanted.is_none() || name_of(tool) == wanted);
    let call = |tool: &Value| {
        let parameters =
            tool.pointer("/function/parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
        // Places in a schema go by its beginning, which is another here.
        let (parameters, definitions) = apart(parameters);
        let properties = json!({"name": {"const": name_of(tool)}, "arguments": parameters});
        let mut schema = json!({"type": "object", "properties": properties, "required": ["name", "arguments"], "additionalProperties": false});
        definitions.into_iter().for_each(|(name, value)| schema[name] = value);
        schema
    };
    let mut calls: Vec<Value> = meant.map(call).collect();
    match calls.len() {
        0 => Err(wrong("there is no tool that could be called: give it in `tools`")),
        1 => Ok(calls.pop().map(|call| checked("tools", AnswerForm::Schema(call))).transpose()?),
        _ if calls.iter().any(|call| call.get("$defs").or(call.get("definitions")).is_some()) => {
            Err(wrong("name the function: schemas of several tools with definitions cannot be told apart"))
        }
        _ => checked("tools", AnswerForm::Schema(json!({"anyOf": calls}))).map(Some),
    }
}

/// A schema without its definitions, and these.
fn apart(mut schema: Value) -> (Value, Vec<(&'static str, Value)>) {
    let mut definitions = Vec::new();
    if let Some(fields) = schema.as_object_mut() {
        for name in ["$defs", "definitions"] {
            definitions.extend(fields.remove(name).map(|value| (name, value)));
        }
        // An empty schema of parameters is one of any object.
        if fields.is_empty() {
            fields.insert("type".to_owned(), json!("object"));
        }
    }
    (schema, definitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(given: Value) -> Result<Option<AnswerForm>, Fault> {
        FormFields { response_format: Some(given), ..FormFields::default() }.form()
    }

    #[test]
    fn forms_by_all_their_names() {
        let schema = json!({"type": "integer"});
        let as_schema = || Some(AnswerForm::Schema(schema.clone()));
        assert_eq!(format(json!({"type": "text"})).unwrap(), None);
        assert_eq!(format(json!({"type": "json_object"})).unwrap(), Some(AnswerForm::JsonObject));
        let named =
            json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}});
        assert_eq!(format(named).unwrap(), as_schema());
        let text = FormFields { guided_json: Some(json!(schema.to_string())), ..FormFields::default() };
        assert_eq!(text.form().unwrap(), as_schema());
        let outputs =
            |value: Value| FormFields { structured_outputs: value.as_object().cloned(), ..text.clone() };
        let twice = outputs(json!({"regex": "a"})).form().unwrap_err();
        assert_eq!(twice.param.as_deref(), Some("guided_json"));
        let alone = FormFields { guided_json: None, ..outputs(json!({"choice": ["a"], "regex": null})) };
        assert_eq!(alone.form().unwrap(), Some(AnswerForm::Choice(vec!["a".to_owned()])));
        for wrong in [json!({"type": "xml"}), json!({"type": "json_schema"}), json!({})] {
            assert_eq!(format(wrong).unwrap_err().param.as_deref(), Some("response_format"));
        }
        let grammar = FormFields { guided_json: None, ..outputs(json!({"grammar": "root ::= a"})) };
        assert_eq!(grammar.form().unwrap_err().code, "unsupported_parameter");
    }

    #[test]
    fn a_tool_that_has_to_be_called() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {}}});
        let tools = [tool("a"), tool("b")];
        let form = |choice: Value| of_tools(Some(&choice), &tools);
        assert_eq!(form(json!("auto")).unwrap(), None);
        let Some(AnswerForm::Schema(both)) = form(json!("required")).unwrap() else { panic!("a schema") };
        assert_eq!(both["anyOf"].as_array().unwrap().len(), 2);
        let named = json!({"type": "function", "function": {"name": "b"}});
        let Some(AnswerForm::Schema(one)) = form(named).unwrap() else { panic!("a schema") };
        assert_eq!(one["properties"]["name"], json!({"const": "b"}));
        for wrong in [json!("perhaps"), json!({"type": "function", "function": {"name": "c"}}), json!({})] {
            assert_eq!(form(wrong).unwrap_err().param.as_deref(), Some("tool_choice"));
        }
        assert!(of_tools(Some(&json!("required")), &[]).is_err());
    }
}
