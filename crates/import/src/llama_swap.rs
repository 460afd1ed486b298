//! Configurations of llama-swap: each model becomes a `command` server, and groups become shares of one GPU's memory.

use gswarm_core::input::document::{Document, Faults, Item, Kind, without_mark};
use gswarm_core::input::{Code, Diagnostic, Source};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Memory of the one GPU that stands for the machine, in GB. Only shares of it matter: the file says nothing of memory.
const MEMORY: f64 = 80.0;
/// Expected seconds of a load and of a call, until they are measured.
const LOAD: f64 = 10.0;
const CALL: f64 = 5.0;
/// How often macros may stand inside one another.
const DEPTH: usize = 10;

/// What a file of llama-swap comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaSwap {
    /// A configuration, as JSON.
    pub config: String,
    /// A file of servers, as JSON.
    pub backends: String,
    /// Further names of models.
    pub aliases: BTreeMap<String, String>,
    /// Seconds after which a model is unloaded that nobody uses, where the file says so.
    pub ttl: BTreeMap<String, f64>,
    /// Calls that a model takes at once, where the file says so.
    pub at_once: Vec<(Option<String>, u32)>,
    /// What was assumed, and what has no counterpart; a sentence each.
    pub told: Vec<String>,
}

/// Reads a file of llama-swap.
pub fn llama_swap(source: Source<'_>) -> Result<LlamaSwap, Vec<Diagnostic>> {
    let mut faults = Faults::default();
    let read = Document::parse(source.bytes, &mut faults).map(|document| convert(document.root()));
    let mut found = Vec::new();
    faults.locate(source.name, without_mark(source.bytes), &mut found);
    match read {
        Some(Ok(made)) if found.is_empty() => Ok(made),
        Some(Err(why)) => Err(vec![Diagnostic::of_file(source.name, Code::OtherKind, why)]),
        _ => Err(found),
    }
}

fn convert(root: Item<'_>) -> Result<LlamaSwap, String> {
    let Some(models) = root.get("models").filter(|models| models.kind() == Kind::Map) else {
        return Err("this is not a configuration of llama-swap: it has no `models`".to_owned());
    };
    let mut told = Told::default();
    for (key, value) in root.entries().filter(|(_, value)| !value.is_null()) {
        match key.text() {
            "models"
            | "macros"
            | "healthCheckTimeout"
            | "globalTTL"
            | "unloadTimeout"
            | "groups"
            | "includeAliasesInList"
            | "logLevel"
            | "logTimeFormat"
            | "logToStdout"
            | "logRequests"
            | "metricsMaxInMemory"
            | "captureBuffer"
            | "startPort"
            | "performance"
            | "ui"
            | "store" => {}
            "routing" => {
                let settings = value.get("router").and_then(|router| router.get("settings"));
                if settings.and_then(|settings| settings.get("matrix")).is_some() {
                    told.lacks("routing.router.settings.matrix");
                }
            }
            "apiKeys" => told.lacks("apiKeys (use --token-file)"),
            other => told.lacks(other),
        }
    }
    let macros = texts(root.get("macros"));
    let shares = shares(root, models);
    let load = root.get("healthCheckTimeout").and_then(number).unwrap_or(120.0).max(15.0);
    let (mut specs, mut servers) = (Map::new(), Vec::new());
    let (mut aliases, mut at_once, mut ttl) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    let global = |name: &str| root.get(name).and_then(number);
    for (key, model) in models.entries() {
        let id = key.text();
        let Some(mut server) = server(id, model, &macros, load, &mut told)? else { continue };
        let own = |name: &str| model.get(name).and_then(number);
        // -1 stands for the global value, 0 for never.
        let lives = own("ttl").filter(|&ttl| ttl >= 0.0).or_else(|| global("globalTTL"));
        if let Some(seconds) = lives.filter(|&ttl| ttl > 0.0) {
            ttl.insert(id.to_owned(), seconds);
        }
        let grace = own("unloadTimeout").filter(|&grace| grace > 0.0).or_else(|| global("unloadTimeout"));
        if let Some(seconds) = grace.filter(|&grace| grace > 0.0) {
            server["grace"] = seconds.into();
        }
        let program = server["command"][0]
            .as_str()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let words = server["command"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |flags: &[&str]| words.iter().filter_map(Value::as_str).any(|word| flags.contains(&word));
        let kind = match program.as_str() {
            "llama-server" if has(&["--reranking", "--rerank"]) => Some("reranker"),
            "llama-server" if has(&["--embedding", "--embeddings"]) => Some("embedding"),
            "llama-server" | "vllm" => Some("llm"),
            "sd-server" => Some("image_generation"),
            _ => None,
        };
        let mut spec = json!({
            "name": model.get("name").map_or(id, Item::text),
            "memory_gb": shares.get(id).copied().unwrap_or(MEMORY),
            "gpus_required": 1,
            "load_time_seconds": LOAD,
            "inference_time_mean": CALL,
        });
        if let Some(kind) = kind {
            spec["type"] = kind.into();
        }
        specs.insert(id.to_owned(), spec);
        servers.push(server);
        for alias in model.get("aliases").into_iter().flat_map(Item::items) {
            aliases.insert(alias.text().to_owned(), id.to_owned());
        }
        if let Some(limit) = model.get("concurrencyLimit").and_then(number).filter(|&limit| limit >= 1.0) {
            at_once.push((Some(id.to_owned()), limit as u32));
        }
    }
    let Some(first) = specs.keys().next().cloned() else {
        return Err("no model of the file has a `cmd`".to_owned());
    };
    // A configuration has a workflow; models are called directly all the same.
    let workflow = json!({"name": first, "nodes": [{"id": "call", "model": first}], "edges": []});
    let config = json!({
        "models": specs,
        "workflows": {"call": workflow},
        "cluster": {"gpus": 1, "gpu_memory_gb": MEMORY, "residency": "memory"},
    });
    told.0.insert(0, format!(
        "Memory is not in the file: models that may be loaded together share one GPU of {MEMORY} GB, all others take all of it. \
         That GPU represents the whole machine: the processes see all its GPUs"
    ));
    told.0.insert(1, format!("A load is expected to take {LOAD} s and a call {CALL} s"));
    let backends = json!({"backends": servers}).to_string();
    Ok(LlamaSwap { config: config.to_string(), backends, aliases, ttl, at_once, told: told.0 })
}

/// The server of a model; `None` where it has no command.
fn server(
    id: &str,
    model: Item<'_>,
    macros: &[(String, String)],
    load: f64,
    told: &mut Told,
) -> Result<Option<Value>, String> {
    for (key, _) in model.entries().filter(|(_, value)| !value.is_null()) {
        match key.text() {
            "cmd" | "proxy" | "env" | "checkEndpoint" | "aliases" | "useModelName" | "concurrencyLimit"
            | "macros" | "name" | "description" | "metadata" | "unlisted" | "capabilities"
            | "sendLoadingState" | "compat" | "ttl" | "unloadTimeout" => {}
            other => told.lacks(other),
        }
    }
    let Some(command) = model.get("cmd") else {
        told.0.push(format!("`{id}` has no `cmd` and is left out"));
        return Ok(None);
    };
    let mut own = texts(model.get("macros"));
    own.extend(macros.iter().cloned());
    own.push(("MODEL_ID".to_owned(), id.to_owned()));
    own.push(("PORT".to_owned(), "{port}".to_owned()));
    let fill = |text: &str| {
        filled(text, &own).map_err(|name| format!("`{id}`: the macro `${{{name}}}` is not defined"))
    };
    let command = fill(command.text())?;
    let mut words =
        shlex::split(&command).ok_or_else(|| format!("`{id}`: the quotes of its `cmd` do not match"))?;
    let proxy = fill(model.get("proxy").map_or("http://localhost:${PORT}", Item::text))?;
    // A port that stands in both is chosen anew for each start.
    if let Some(port) = proxy.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok()) {
        let (flag, sets) = (format!("={port}"), words.iter().any(|word| word == port));
        if !sets && !words.iter().any(|word| word.ends_with(&flag)) {
            let message = format!(
                "`{id}` listens at {proxy}, which its `cmd` does not set: it has to listen at the port {{port}}"
            );
            told.0.push(message);
        }
        for word in &mut words {
            if word == port {
                *word = "{port}".to_owned();
            } else if let Some(before) = word.strip_suffix(&flag) {
                *word = format!("{before}={{port}}");
            }
        }
    }
    let health = match model.get("checkEndpoint").map_or("/health", Item::text) {
        "none" => {
            told.0.push(format!("`{id}` has no health check: it counts as ready when `/` answers"));
            "/".to_owned()
        }
        path => fill(path)?,
    };
    let mut env = Map::new();
    for entry in model.get("env").into_iter().flat_map(Item::items) {
        if let Some((name, value)) = entry.text().split_once('=') {
            env.insert(name.to_owned(), fill(value)?.into());
        }
    }
    // What the file does not set is as it is for us: llama-swap sets nothing.
    env.entry("CUDA_VISIBLE_DEVICES").or_insert_with(|| "{inherit}".into());
    let name = model.get("useModelName").map_or(id, Item::text);
    Ok(Some(json!({
        "kind": "command",
        "name": id,
        "command": words,
        "health": format!("http://127.0.0.1:{{port}}/{}", health.trim_start_matches('/')),
        "env": env,
        "timeouts": {"load": load},
        "models": {id: {"as": if name.is_empty() { id } else { name }}},
    })))
}

/// Memory of models in groups: those of a group that does not swap share what the group has; groups that others do not push out
/// have a share of their own.
fn shares(root: Item<'_>, models: Item<'_>) -> BTreeMap<String, f64> {
    let settings = root.get("routing").and_then(|routing| routing.get("router")?.get("settings"));
    let groups = root.get("groups").or_else(|| settings.and_then(|settings| settings.get("groups")));
    let groups: Vec<Item<'_>> = groups
        .into_iter()
        .filter(|groups| groups.kind() == Kind::Map)
        .flat_map(Item::entries)
        .map(|(_, group)| group)
        .collect();
    let says = |group: &Item<'_>, name: &str, otherwise: bool| {
        group.get(name).map_or(otherwise, |value| value.text() == "true")
    };
    let members = |group: &Item<'_>| -> Vec<String> {
        let members =
            group.get("members").into_iter().flat_map(Item::items).map(|member| member.text().to_owned());
        members.filter(|member| models.get(member).is_some()).collect()
    };
    let stays = |group: &&Item<'_>| {
        (says(group, "persistent", false) || !says(group, "exclusive", true)) && !members(group).is_empty()
    };
    let parts = groups.iter().filter(stays).count() + 1;
    let share = MEMORY / parts as f64;
    let mut found: BTreeMap<String, f64> =
        models.entries().map(|(key, _)| (key.text().to_owned(), share)).collect();
    for group in &groups {
        let members = members(group);
        if !says(group, "swap", true) && !members.is_empty() {
            // Rounded down, so that all of them fit.
            let each = (share / members.len() as f64 * 1000.0).floor() / 1000.0;
            found.extend(members.into_iter().map(|member| (member, each)));
        }
    }
    found
}

/// A text with its macros replaced; the name of one that is not there.
fn filled(text: &str, macros: &[(String, String)]) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..DEPTH {
        let before = text.clone();
        for (name, value) in macros {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        if text == before {
            break;
        }
    }
    while let Some(from) = text.find("${env.") {
        let Some(length) = text[from..].find('}') else { break };
        let name = text[from + 6..from + length].to_owned();
        let value = std::env::var(&name).map_err(|_| format!("env.{name}"))?;
        text.replace_range(from..=from + length, &value);
    }
    match text.find("${").and_then(|from| Some(&text[from + 2..from + text[from..].find('}')?])) {
        Some(name) => Err(name.to_owned()),
        None => Ok(text),
    }
}

fn texts(map: Option<Item<'_>>) -> Vec<(String, String)> {
    let entries = map.into_iter().filter(|map| map.kind() == Kind::Map).flat_map(Item::entries);
    entries.map(|(key, value)| (key.text().to_owned(), value.text().trim().to_owned())).collect()
}

fn number(item: Item<'_>) -> Option<f64> {
    item.text().parse().ok()
}

/// What is to be told, each once.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    fn lacks(&mut self, what: &str) {
        let sentence = format!("No counterpart, ignored: {what}");
        if !self.0.contains(&sentence) {
            self.0.push(sentence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LlamaSwap {
        llama_swap(Source { name: "llama-swap.yaml", bytes: text.as_bytes() })
            .unwrap_or_else(|found| panic!("{found:?}"))
    }

    const FILE: &str = r#"
healthCheckTimeout: 60
globalTTL: 900
unloadTimeout: 5
macros:
  server: /opt/llama-server --port ${PORT}
models:
  coder:
    macros: {ctx: 4096}
    cmd: |
      ${server} --ctx-size ${ctx}
      -m "my model.gguf" -np 4
    env: ["CUDA_VISIBLE_DEVICES=1"]
    aliases: [gpt-4, small]
    useModelName: org/coder
    concurrencyLimit: 3
    ttl: 60
  finder: {cmd: "llama-server --embeddings --port 9000 -m e.gguf", proxy: "http://127.0.0.1:9000", checkEndpoint: /ready, ttl: -1, unloadTimeout: 7}
  ranker: {cmd: "llama-server --reranking --port=${PORT} -m r.gguf", ttl: 0}
groups:
  small: {swap: false, exclusive: false, members: [finder, ranker]}
"#;

    #[test]
    fn commands_macros_ports_groups_and_names() {
        let made = read(FILE);
        let backends: Value = serde_json::from_str(&made.backends).unwrap();
        let coder = &backends["backends"][0];
        let words = [
            "/opt/llama-server",
            "--port",
            "{port}",
            "--ctx-size",
            "4096",
            "-m",
            "my model.gguf",
            "-np",
            "4",
        ];
        assert_eq!(coder["command"], json!(words));
        assert_eq!(coder["models"]["coder"]["as"], "org/coder");
        assert_eq!(
            (&coder["env"]["CUDA_VISIBLE_DEVICES"], &coder["timeouts"]["load"]),
            (&json!("1"), &json!(60.0))
        );
        let finder = &backends["backends"][1];
        assert_eq!(finder["command"][3], "{port}", "a fixed port is chosen anew");
        assert_eq!(finder["health"], "http://127.0.0.1:{port}/ready");
        let config: Value = serde_json::from_str(&made.config).unwrap();
        let gb = |model: &str| config["models"][model]["memory_gb"].as_f64().unwrap();
        assert_eq!((gb("coder"), gb("finder"), gb("ranker")), (40.0, 20.0, 20.0));
        assert_eq!(finder["env"]["CUDA_VISIBLE_DEVICES"], "{inherit}", "it sees what we see");
        let kind = |model: &str| config["models"][model]["type"].as_str().unwrap().to_owned();
        assert_eq!([kind("coder"), kind("finder"), kind("ranker")], ["llm", "embedding", "reranker"]);
        assert_eq!(made.aliases["gpt-4"], "coder");
        assert_eq!(made.at_once, [(Some("coder".to_owned()), 3)]);
        assert_eq!(made.ttl, BTreeMap::from([("coder".to_owned(), 60.0), ("finder".to_owned(), 900.0)]));
        assert_eq!((&coder["grace"], &finder["grace"]), (&json!(5.0), &json!(7.0)));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let wrong = |text: &str| {
            let found = llama_swap(Source { name: "f", bytes: text.as_bytes() }).unwrap_err();
            found[0].message.clone()
        };
        assert!(wrong("a: 1").contains("no `models`"));
        assert!(wrong("models: {m: {cmd: 'x ${nothing}'}}").contains("${nothing}"));
        assert!(wrong("models: {m: {cmd: 'x \"open'}}").contains("quotes"));
        assert!(wrong("models: {m: {proxy: 'http://h:1'}}").contains("no model of the file has a `cmd`"));
        let made =
            read("models: {m: {cmd: 'x', checkEndpoint: none, filters: {stripParams: a}}}\npeers: {p: {}}");
        for part in ["filters", "peers", "no health check"] {
            assert!(made.told.iter().any(|one| one.contains(part)), "{part}: {:?}", made.told);
        }
    }
}
