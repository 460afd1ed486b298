//! Reading it: every fault at once, with its place.

use super::{BackendKind, BackendSpec, BackendsFile, Calls, Device, ModelAt, Timeouts};
use crate::input::code::Code;
use crate::input::config::choice;
use crate::input::diagnostic::Diagnostic;
use crate::input::faults::{Faults, Path, Shown};
use crate::input::fields::{
    Slot, duplicate_key, fields_or, not_negative, positive, text as text_of, whole, wrong_type,
};
use crate::input::text::{self, Form};
use crate::input::tree::{Item, Kind};
use crate::input::{MAX_GPUS, Source};
use crate::time::MAX_SECONDS;
use std::collections::BTreeMap;
use url::Url;

/// What reading gave.
#[derive(Clone, Debug)]
pub struct BackendsReading {
    /// `None` where there is any error.
    pub file: Option<BackendsFile>,
    /// Every finding, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a file of servers, JSON or YAML.
#[must_use]
pub fn read_backends(source: Source<'_>) -> BackendsReading {
    read_backends_for(source, &|_| None)
}

/// The same for a machine that is to start the programs of the file: `why_not` says what keeps one from being started there.
#[must_use]
pub fn read_backends_for(source: Source<'_>, why_not: &dyn Fn(&str) -> Option<String>) -> BackendsReading {
    let mut faults = Faults::default();
    let tree = text::parse(source.bytes, Form::Single, &mut faults);
    let file =
        tree.as_ref().map(|tree| file(tree.root(), why_not, &mut faults)).filter(|_| faults.errors() == 0);
    let mut diagnostics = Vec::new();
    faults.locate(source.name, text::without_mark(source.bytes), &mut diagnostics);
    BackendsReading { file, diagnostics }
}

/// The first and the last of the GPUs that a text names, if it names any.
#[must_use]
pub fn gpu_range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < MAX_GPUS).then_some((first, last))
}

fn file(root: Item<'_>, why_not: &dyn Fn(&str) -> Option<String>, faults: &mut Faults) -> BackendsFile {
    let path = Path::root();
    let mut backends = Vec::new();
    if let Some([list]) = fields_or(Code::NotOfKind, root, &path, ["backends"], faults)
        && list.required(faults).is_some()
        && let Some(items) = list.list(faults)
    {
        if items.count() == 0 {
            faults.add(
                Code::Nothing,
                items.at(),
                &list.path,
                format_args!("there is no server in `backends`"),
            );
        }
        for (place, item) in items.items().enumerate() {
            backends.extend(backend(item, &list.path.index(place, item.at()), why_not, faults));
        }
    }
    BackendsFile { backends }
}

const CALLS: [(&str, Calls); 2] = [("chat", Calls::Chat), ("completions", Calls::Completions)];
const DEVICES: [(&str, Device); 3] = [("cuda", Device::Cuda), ("cpu", Device::Cpu), ("auto", Device::Auto)];

const NAMES: [&str; 18] = [
    "name",
    "kind",
    "gpus",
    "models",
    "speed",
    "url",
    "token_env",
    "timeouts",
    "calls",
    "level",
    "device",
    "first_device",
    "input",
    "command",
    "health",
    "env",
    "grace",
    "description",
];

/// Which kinds have which of the fields that not all kinds have.
fn kinds_with(field: &str) -> Option<&'static [BackendKind]> {
    use BackendKind::{Command, Gswarm, KServe, LlamaCpp, Ollama, OpenAi, Sglang, Vllm};
    Some(match field {
        "speed" => &[BackendKind::Emulated],
        "url" => &[Gswarm, OpenAi, Vllm, Sglang, Ollama, LlamaCpp, KServe],
        "token_env" | "timeouts" => &[Gswarm, OpenAi, Vllm, Sglang, Ollama, LlamaCpp, KServe, Command],
        "calls" => &[OpenAi, Vllm, Sglang, LlamaCpp, Command],
        "level" => &[Vllm, Sglang],
        "device" => &[Gswarm],
        "first_device" => &[Gswarm, Command],
        "input" => &[KServe],
        "command" | "health" | "env" | "grace" => &[Command],
        _ => return None,
    })
}

fn backend(
    item: Item<'_>,
    path: &Path<'_>,
    why_not: &dyn Fn(&str) -> Option<String>,
    faults: &mut Faults,
) -> Option<BackendSpec> {
    let slots = fields_or(Code::NotOfKind, item, path, NAMES, faults)?;
    let kind = slots[1].required(faults).and_then(|_| choice(&slots[1], BackendKind::ALL, faults));
    if let Some(kind) = kind {
        slots.iter().for_each(|slot| belongs(slot, kind, faults));
    }
    let [name, _, gpus, models, speed, url, token, timeouts, calls, level, rest @ ..] = slots;
    let [device, first, input, command, health, env, grace, _] = rest;
    let spec = BackendSpec {
        name: name.string(faults),
        kind: kind.unwrap_or_default(),
        gpus: gpus_of(&gpus, faults),
        models: models_of(&models, kind, faults),
        speed: speed.number(positive(1e6, ""), faults),
        url: address(&url, faults),
        token_env: token.item.and_then(|_| token.id(faults)).map(str::to_owned),
        timeouts: timeouts_of(&timeouts, faults),
        calls: choice(&calls, CALLS, faults).unwrap_or_default(),
        level: level.count(2, faults),
        device: choice(&device, DEVICES, faults).unwrap_or_default(),
        first_device: first
            .number(not_negative(f64::from(MAX_GPUS), ""), faults)
            .and_then(|value| whole(value, first.item?, &first.path, faults).map(|value| value as u32)),
        input: input.string(faults),
        command: command.texts(faults),
        health: address(&health, faults),
        env: env_of(&env, faults),
        grace: grace.number(not_negative(MAX_SECONDS, " s"), faults),
    };
    // What is missing is only said of a server of which the rest is known.
    match kind {
        Some(BackendKind::Emulated) | None => {}
        Some(BackendKind::Command) => {
            let hint = "the program and its arguments, as a list: [llama-server, --model, \"{model}\", --port, \"{port}\"]";
            command.required_hinted(Some(hint), faults);
            // What is filled in is known once a model is started.
            let program = spec.command.first().filter(|program| !program.contains('{'));
            if let Some((program, why)) = program.and_then(|program| Some((program, why_not(program)?))) {
                let at = command.item.map_or(command.path.at, Item::at);
                let hint = "install it, or give its full path; gswarm starts it on this machine".to_owned();
                let message = format_args!("`{}` cannot be started: {why}", Shown(program));
                faults.add_hinted(Code::BadServer, at, &command.path, message, Some(hint));
            }
        }
        Some(kind) => reachable(&spec, kind, &url, &models, faults),
    }
    Some(spec)
}

/// A field that this kind of server does not have.
fn belongs(slot: &Slot<'_, '_>, kind: BackendKind, faults: &mut Faults) {
    if let Some(kinds) = kinds_with(slot.path.name())
        && slot.item.is_some()
        && !kinds.contains(&kind)
    {
        let have: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
        let message = format_args!("a server of kind `{}` has no `{}`", kind.name(), slot.path.name());
        let hint = format!("only {} have it", have.join(", "));
        faults.add_hinted(Code::NotOfKind, slot.path.at, &slot.path, message, Some(hint));
    }
}

fn gpus_of(slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<String> {
    let text = slot.text(faults)?;
    if gpu_range(text).is_none() {
        let at = slot.item.map_or(slot.path.at, Item::at);
        let hint = Some("give one, as 3, or a range, as 0-7".to_owned());
        let message = format_args!("`{}` names no GPUs", Shown(text));
        faults.add_hinted(Code::BadServer, at, &slot.path, message, hint);
    }
    Some(text.to_owned())
}

/// Either a name, or a mapping with a name and an address.
fn models_of(
    slot: &Slot<'_, '_>,
    kind: Option<BackendKind>,
    faults: &mut Faults,
) -> BTreeMap<String, ModelAt> {
    let mut models = BTreeMap::new();
    for (key, item) in slot.map(faults).into_iter().flat_map(Item::entries) {
        let path = slot.path.key(key.text(), key.at());
        let model = if item.kind() == Kind::Map {
            let found = fields_or(Code::NotOfKind, item, &path, ["as", "url"], faults);
            let Some([name, url]) = found else { continue };
            let own = |kind: BackendKind| kind.holds_one_model() || kind == BackendKind::OpenAi;
            if url.item.is_some() && kind.is_some_and(|kind| !own(kind)) {
                let message = format_args!("a model has no address of its own there");
                let hint = "only models of `openai`, `vllm` and `sglang` have one".to_owned();
                faults.add_hinted(Code::NotOfKind, url.path.at, &url.path, message, Some(hint));
            }
            ModelAt { name: name.string(faults), url: address(&url, faults) }
        } else if item.is_null() {
            ModelAt::default()
        } else {
            ModelAt { name: text_of(item, &path, faults).map(str::to_owned), url: None }
        };
        if models.insert(key.text().to_owned(), model).is_some() {
            duplicate_key(key, &slot.path, faults);
        }
    }
    models
}

fn timeouts_of(slot: &Slot<'_, '_>, faults: &mut Faults) -> Timeouts {
    let names = ["connect", "answer", "load", "unload"];
    let found = slot.map(faults).and_then(|map| fields_or(Code::NotOfKind, map, &slot.path, names, faults));
    let Some(slots) = found else { return Timeouts::default() };
    let [connect, answer, load, unload] = slots.map(|slot| slot.number(positive(MAX_SECONDS, " s"), faults));
    Timeouts { connect, answer, load, unload }
}

fn env_of(slot: &Slot<'_, '_>, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for (key, value) in slot.map(faults).into_iter().flat_map(Item::entries) {
        let path = slot.path.key(key.text(), key.at());
        let value = if value.kind() == Kind::Map || value.kind() == Kind::Seq {
            wrong_type(value, &path, "text", faults);
            continue;
        } else {
            value.text().to_owned()
        };
        if env.insert(key.text().to_owned(), value).is_some() {
            duplicate_key(key, &slot.path, faults);
        }
    }
    env
}

/// An address without its last slash.
fn address(slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<String> {
    let text = slot.text(faults)?;
    // The port of a process is known once it is started.
    let sample = text.replace("{port}", "1");
    let reason = match Url::parse(&sample) {
        Err(error) => format!("is no address: {error}"),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "is neither http:// nor https://".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            // The text itself is not repeated: what stands before the host is a secret.
            let message = format_args!("an address has no user and no password in it");
            let hint = "name the environment variable that holds the token in `token_env`".to_owned();
            let at = slot.item.map_or(slot.path.at, Item::at);
            faults.add_hinted(Code::BadServer, at, &slot.path, message, Some(hint));
            return None;
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => "has a query in it".to_owned(),
        Ok(_) => return Some(text.trim_end_matches('/').to_owned()),
    };
    let at = slot.item.map_or(slot.path.at, Item::at);
    let hint = Some("an address is like http://localhost:8000".to_owned());
    faults.add_hinted(Code::BadServer, at, &slot.path, format_args!("`{}` {reason}", Shown(text)), hint);
    None
}

/// A server, or each of its models, needs an address; a server that holds one model has one model.
fn reachable(
    spec: &BackendSpec,
    kind: BackendKind,
    url: &Slot<'_, '_>,
    models: &Slot<'_, '_>,
    faults: &mut Faults,
) {
    if kind.holds_one_model() && spec.models.is_empty() {
        let hint = format!("a {} server holds one model: name each with its address", kind.name());
        models.required_hinted(Some(&hint), faults);
        return;
    }
    let each_has_one = !spec.models.is_empty() && spec.models.values().all(|model| model.url.is_some());
    // One that is there and wrong has been reported.
    if url.item.is_none() && !each_has_one {
        url.required(faults);
    }
    let mut servers: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, model) in spec.models.iter().filter(|_| kind.holds_one_model()) {
        let Some(address) = model.url.as_deref().or(spec.url.as_deref()) else { continue };
        if let Some(other) = servers.insert(address, name) {
            let at = models.item.map_or(models.path.at, Item::at);
            let (kind, name, other) = (kind.name(), Shown(name), Shown(other));
            let message = format_args!("`{other}` and `{name}` share a server, and {kind} holds one model");
            let hint = Some("give each model a `url` of its own".to_owned());
            faults.add_hinted(Code::BadServer, at, &models.path, message, hint);
        }
    }
}
