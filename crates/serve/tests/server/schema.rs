//! Every row of the table of parameters, held against a model on the CPU and against each kind of server.

use crate::support::{Server, write_model};
use gswarm_exec::backend::{CallAbilities, Dialect};
use gswarm_infer::ModelKind;
use gswarm_serve::openai::schema::{
    CallTarget, Endpoint, Own, PARAMS, Param, ParameterShape, admit, markdown,
};
use serde_json::{Map, Value, json};

/// What each endpoint needs at least.
fn least(endpoint: Endpoint) -> Map<String, Value> {
    let body = match endpoint {
        Endpoint::Chat => {
            json!({"model": "tiny-llm", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3})
        }
        Endpoint::Completions => json!({"model": "tiny-llm", "prompt": "Once", "max_tokens": 3}),
        Endpoint::Embeddings => json!({"model": "tiny-embedding", "input": "Once"}),
        Endpoint::Rerank => json!({"model": "tiny-embedding", "query": "a", "documents": ["a", "b"]}),
        Endpoint::Tokenize => json!({"model": "tiny-llm", "prompt": "Once"}),
        Endpoint::Responses | Endpoint::Speech => json!({"model": "m", "input": "Hi"}),
        Endpoint::Images => json!({"model": "m", "prompt": "A cat"}),
    };
    body.as_object().unwrap().clone()
}

/// A request with a parameter, and with what it goes with.
fn with(endpoint: Endpoint, name: &str, value: Value) -> Map<String, Value> {
    let mut body = least(endpoint);
    match name {
        "top_logprobs" if endpoint == Endpoint::Chat => drop(body.insert("logprobs".to_owned(), json!(true))),
        "stream_options" => drop(body.insert("stream".to_owned(), json!(true))),
        "tool_choice" => {
            drop(body.insert("tools".to_owned(), json!([{"type": "function", "function": {"name": "now"}}])))
        }
        "max_completion_tokens" => drop(body.remove("max_tokens")),
        _ => {}
    }
    body.insert(name.to_owned(), value);
    body
}

fn sample(param: &Param, endpoint: Endpoint, dimensions: usize) -> Value {
    match param.sample {
        r#""MODEL""# => least(endpoint)["model"].clone(),
        "DIMENSIONS" => json!(dimensions),
        text => serde_json::from_str(text).unwrap_or_else(|_| panic!("{}: {text}", param.name)),
    }
}

/// A value of another type.
fn wrong(shape: ParameterShape) -> Value {
    match shape {
        ParameterShape::Flag
        | ParameterShape::Whole
        | ParameterShape::Number
        | ParameterShape::FlagOrWhole => json!("many"),
        ParameterShape::Text
        | ParameterShape::TextOrObject
        | ParameterShape::List
        | ParameterShape::Object
        | ParameterShape::TextOrList => json!(1.5),
    }
}

/// A model whose template knows tools and settings.
async fn server() -> Server {
    let server = Server::with(|options| {
        write_model(&options.models, "tiny-llm", ModelKind::Language);
        write_model(&options.models, "tiny-embedding", ModelKind::Embedding);
        let template = "{% if tools %}{{ tools | length }}{% endif %}{{ enable_thinking }}\
                        {% for message in messages %}{{ message.content }}{% endfor %}";
        let path = options.models.join("tiny-llm/tokenizer_config.json");
        let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        config["chat_template"] = json!(template);
        std::fs::write(path, config.to_string()).unwrap();
    })
    .await;
    server.serve("tiny-llm", "cpu").await;
    server.serve("tiny-embedding", "cpu").await;
    server
}

async fn ask(server: &Server, endpoint: Endpoint, body: &Map<String, Value>) -> (u16, Value) {
    let sent =
        server.client.post(format!("{}{}", server.url, endpoint.path())).json(body).send().await.unwrap();
    let status = sent.status().as_u16();
    let text = sent.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[tokio::test(flavor = "multi_thread")]
async fn own_models_do_with_every_parameter_what_the_table_says() {
    let server = server().await;
    let (_, said) = ask(&server, Endpoint::Embeddings, &least(Endpoint::Embeddings)).await;
    let dimensions = said["data"][0]["embedding"].as_array().unwrap().len();
    for endpoint in Endpoint::ALL.into_iter().filter(|endpoint| endpoint.is_own()) {
        for param in endpoint.params() {
            let at = format!("{} {}", endpoint.path(), param.name);
            let (status, said) =
                ask(&server, endpoint, &with(endpoint, param.name, sample(param, endpoint, dimensions)))
                    .await;
            match param.own {
                Own::Honoured | Own::Ignored => assert_eq!(status, 200, "{at}: {said}"),
                Own::Refused(neutral) => {
                    assert_eq!((status, &said["error"]["param"]), (400, &json!(param.name)), "{at}: {said}");
                    for text in neutral.split('|').filter(|text| !text.is_empty()) {
                        let value: Value = serde_json::from_str(text).unwrap();
                        let (status, said) = ask(&server, endpoint, &with(endpoint, param.name, value)).await;
                        assert_eq!(status, 200, "{at} {text}: {said}");
                    }
                }
            }
            let (status, said) =
                ask(&server, endpoint, &with(endpoint, param.name, wrong(param.shape))).await;
            assert_eq!((status, &said["error"]["param"]), (400, &json!(param.name)), "{at}: {said}");
        }
        let (status, said) = ask(&server, endpoint, &with(endpoint, "of_tomorrow", json!(1))).await;
        assert_eq!((status, &said["error"]["param"]), (400, &json!("of_tomorrow")), "{said}");
        assert_eq!(said["error"]["code"], "unsupported_parameter");
        let (status, said) = ask(&server, endpoint, &with(endpoint, "of_tomorrow", Value::Null)).await;
        assert_eq!(status, 200, "null is as if it were not there: {said}");
    }
}

#[test]
fn servers_with_the_api_are_sent_every_parameter_of_its_type() {
    let (abilities, emulated) = (CallAbilities::of(Dialect::OpenAi), CallAbilities::of(Dialect::Emulated));
    let target = |abilities| CallTarget { model: "m", kind: None, abilities };
    for endpoint in Endpoint::ALL {
        for param in endpoint.params() {
            let at = format!("{} {}", endpoint.path(), param.name);
            let body = with(endpoint, param.name, sample(param, endpoint, 8));
            admit(endpoint, &body, target(&abilities)).unwrap_or_else(|fault| panic!("{at}: {fault}"));
            let fault = admit(endpoint, &with(endpoint, param.name, wrong(param.shape)), target(&abilities));
            assert_eq!(fault.unwrap_err().param.as_deref(), Some(param.name), "{at}");
        }
        let unknown = with(endpoint, "of_tomorrow", json!({"x": 1}));
        admit(endpoint, &unknown, target(&abilities)).unwrap();
        admit(endpoint, &unknown, target(&emulated)).unwrap();
    }
}

#[test]
fn servers_without_the_api_are_sent_texts_and_plain_settings() {
    let abilities = CallAbilities::of(Dialect::Calls);
    let target = CallTarget { model: "m", kind: None, abilities: &abilities };
    for (name, value, refused) in [
        ("temperature", json!(0.5), false),
        ("of_tomorrow", json!(5), false),
        ("stream", json!(true), false),
        ("n", json!(1), false),
        ("n", json!(2), true),
        ("logprobs", json!(true), true),
        ("tools", json!([{"type": "function", "function": {"name": "f"}}]), true),
        ("response_format", json!({"type": "json_object"}), true),
        ("of_tomorrow", json!({}), true),
    ] {
        let fault = admit(Endpoint::Chat, &with(Endpoint::Chat, name, value), target).err();
        assert_eq!(fault.and_then(|fault| fault.param).as_deref(), refused.then_some(name), "{name}");
    }
    assert!(admit(Endpoint::Rerank, &least(Endpoint::Rerank), target).is_err());
}

#[test]
fn a_model_of_another_type_is_refused() {
    let abilities = CallAbilities::of(Dialect::OpenAi);
    for (kind, able) in
        [("llm", Endpoint::Chat), ("embedding", Endpoint::Embeddings), ("image_generation", Endpoint::Images)]
    {
        for endpoint in [Endpoint::Chat, Endpoint::Embeddings, Endpoint::Images] {
            let target = CallTarget { model: "m", kind: Some(kind), abilities: &abilities };
            let fault = admit(endpoint, &least(endpoint), target).err();
            assert_eq!(
                fault.and_then(|fault| fault.param).is_none(),
                endpoint == able,
                "{kind} {}",
                endpoint.path()
            );
        }
    }
    // What the server knows of it counts before what the configuration says.
    let known = CallAbilities { kind: Some("embedding".to_owned()), ..abilities };
    let target = CallTarget { model: "m", kind: Some("llm"), abilities: &known };
    assert!(admit(Endpoint::Chat, &least(Endpoint::Chat), target).is_err());
}

#[test]
fn no_parameter_is_listed_twice() {
    for endpoint in Endpoint::ALL {
        let mut names: Vec<&str> = endpoint.params().map(|param| param.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", endpoint.path());
    }
    assert!(PARAMS.iter().all(|param| !param.at.is_empty()));
}

/// The table of docs/openai.md. `UPDATE_DOCS=1 cargo test -p gswarm-serve` writes it anew.
#[test]
fn the_page_has_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openai.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- generated: parameters -->\n", "<!-- end of generated -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let fresh = format!("{before}{begin}{}{end}{after}", markdown());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, fresh).unwrap();
    } else {
        assert!(page == fresh, "docs/openai.md is not up to date: UPDATE_DOCS=1 cargo test -p gswarm-serve");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_do_what_they_say() {
    let server = server().await;
    let chat = |more: Value| {
        let mut body = least(Endpoint::Chat);
        body.insert("temperature".to_owned(), json!(0));
        body.insert("max_tokens".to_owned(), json!(6));
        body.extend(more.as_object().unwrap().clone());
        body
    };
    let (_, said) = ask(&server, Endpoint::Chat, &chat(json!({"logprobs": true, "top_logprobs": 2}))).await;
    let tokens = said["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(tokens.len(), 6);
    for token in tokens {
        let (own, top) = (token["logprob"].as_f64().unwrap(), token["top_logprobs"].as_array().unwrap());
        assert_eq!(top.len(), 2);
        assert!(own < 0.0 && own == top[0]["logprob"].as_f64().unwrap(), "the likeliest was taken: {token}");
    }
    let text: String = tokens.iter().map(|token| token["token"].as_str().unwrap()).collect();
    let content = said["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(text.trim(), content.trim());
    // A token that is made impossible does not come.
    let (_, found) = ask(
        &server,
        Endpoint::Tokenize,
        json!({"model": "tiny-llm", "prompt": content}).as_object().unwrap(),
    )
    .await;
    let tokens: Vec<u64> = found["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!(found["count"], tokens.len());
    let bias: Map<String, Value> = tokens.iter().map(|token| (token.to_string(), json!(-100))).collect();
    let (_, other) = ask(&server, Endpoint::Chat, &chat(json!({"logit_bias": bias}))).await;
    assert_ne!(other["choices"][0]["message"]["content"], content);
    // Token arrays are the model's own tokens.
    let (_, tokens) = ask(
        &server,
        Endpoint::Tokenize,
        json!({"model": "tiny-embedding", "prompt": "Once upon"}).as_object().unwrap(),
    )
    .await;
    let embed = |input: Value| with(Endpoint::Embeddings, "input", input);
    let (_, by_text) = ask(&server, Endpoint::Embeddings, &embed(json!("Once upon"))).await;
    let (_, by_token) = ask(&server, Endpoint::Embeddings, &embed(tokens["tokens"].clone())).await;
    assert_eq!(by_text["data"], by_token["data"]);
    let (status, said) = ask(&server, Endpoint::Embeddings, &embed(json!([[4_000_000_000_u32]]))).await;
    assert!(status == 400 && said["error"]["message"].as_str().unwrap().contains("vocabulary"), "{said}");
    // Beyond the context is an error that clients know, not a shorter answer.
    let (status, said) = ask(&server, Endpoint::Chat, &chat(json!({"max_tokens": 600}))).await;
    assert_eq!((status, &said["error"]["code"]), (400, &json!("context_length_exceeded")), "{said}");
}
