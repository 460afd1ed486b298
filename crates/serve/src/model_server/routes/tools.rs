//! Calls of tools in what a model wrote, in the forms that open models are trained on.

use crate::openai::{CalledFunction, ToolCall};
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};

/// What is said, and the tools that are called. Where no tool can be called, or none is, all of it is said.
pub(super) fn apart(text: String, calls_tools: bool) -> (Option<String>, Option<Vec<ToolCall>>) {
    let found = if calls_tools { found(&text) } else { None };
    match found {
        Some((said, calls)) => (Some(said).filter(|said| !said.is_empty()), Some(calls)),
        None => (Some(text), None),
    }
}

/// `<tool_call>{...}</tool_call>` (Hermes, Qwen), `[TOOL_CALLS][...]` (Mistral), or the whole text as JSON (Llama 3).
fn found(text: &str) -> Option<(String, Vec<ToolCall>)> {
    if let Some((said, rest)) = text.split_once("<tool_call>") {
        let calls = rest.split("<tool_call>").map(|one| {
            let json = one.split("</tool_call>").next().unwrap_or_default();
            call(&serde_json::from_str(json.trim()).ok()?)
        });
        return Some((said.trim().to_owned(), calls.collect::<Option<Vec<_>>>()?));
    }
    if let Some((said, rest)) = text.split_once("[TOOL_CALLS]") {
        return Some((said.trim().to_owned(), calls(&serde_json::from_str(rest.trim()).ok()?)?));
    }
    let whole = text.trim().trim_start_matches("<|python_tag|>");
    Some((String::new(), calls(&serde_json::from_str(whole).ok()?)?))
}

fn calls(value: &Value) -> Option<Vec<ToolCall>> {
    match value {
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => list.iter().map(call).collect(),
        one => Some(vec![call(one)?]),
    }
}

fn call(value: &Value) -> Option<ToolCall> {
    let value = value.get("function").filter(|function| function.is_object()).unwrap_or(value);
    let arguments = value.get("arguments").or_else(|| value.get("parameters"))?;
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    let function = CalledFunction { name: value.get("name")?.as_str()?.to_owned(), arguments };
    let id = format!("call_{:016x}", RandomState::new().hash_one(&function.name));
    Some(ToolCall { id, kind: "function".to_owned(), function })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> (Option<String>, Vec<(String, String)>) {
        let (said, calls) = apart(text.to_owned(), true);
        let named = |call: ToolCall| (call.function.name, call.function.arguments);
        (said, calls.into_iter().flatten().map(named).collect())
    }

    #[test]
    fn each_form_of_a_call_is_found() {
        let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
        let two = "Let me see.\n<tool_call>\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n</tool_call>\n\
                   <tool_call>{\"name\": \"b\", \"arguments\": {}}</tool_call>";
        assert_eq!(
            names(two),
            (Some("Let me see.".to_owned()), vec![call("a", r#"{"x":1}"#), call("b", "{}")])
        );
        let mistral = r#"[TOOL_CALLS][{"name": "a", "arguments": {"x": 1}}]"#;
        assert_eq!(names(mistral), (None, vec![call("a", r#"{"x":1}"#)]));
        let llama = r#"<|python_tag|>{"name": "a", "parameters": {"x": 1}}"#;
        assert_eq!(names(llama), (None, vec![call("a", r#"{"x":1}"#)]));
    }

    #[test]
    fn what_is_no_call_is_said() {
        for text in ["Hello", "{}", "[]", r#"{"name": "a"}"#, "<tool_call>not JSON</tool_call>", "[1, 2]"] {
            assert_eq!(names(text), (Some(text.to_owned()), Vec::new()), "{text}");
        }
        let call = r#"{"name": "a", "parameters": {}}"#;
        assert_eq!(apart(call.to_owned(), false), (Some(call.to_owned()), None), "no tool was offered");
    }
}
