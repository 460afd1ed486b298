//! Reading a file of servers: every fault at once, with its place.

use super::field::{Described, Field, Shape};
use super::kinds::{BackendKind, ServerSpec};
use super::program::cannot_start;
use super::spec::{BackendSpec, BackendsFile, COMMON, Endpoint, ModelAt, Reach, gpu_range};
use gswarm_core::input::document::{
    Document, Faults, Item, Kind, Path, Shown, Slot, choice, duplicate_key, fields_among, fields_or,
    text as text_of, without_mark, wrong_type,
};
use gswarm_core::input::{Code, Diagnostic, Source};
use reqwest::Url;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What reading gave.
#[derive(Clone, Debug)]
pub struct BackendsReading {
    /// `None` where there is any error.
    pub file: Option<BackendsFile>,
    /// Every finding, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a file says of one server: its fields, there or not.
pub struct GivenFields<'g> {
    slots: &'g [Slot<'g, 'g>],
    why_not: &'g dyn Fn(&str) -> Option<String>,
}

impl<'g> GivenFields<'g> {
    /// A field, by its name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<&'g Slot<'g, 'g>> {
        self.slots.iter().find(|slot| slot.path.name() == name)
    }

    /// Why this machine cannot start a program, if it is to start it.
    #[must_use]
    pub fn cannot_start(&self, program: &str) -> Option<String> {
        (self.why_not)(program)
    }
}

/// Reads a file of servers, JSON or YAML, whose programs other machines start.
#[must_use]
pub fn read_backends(source: Source<'_>) -> BackendsReading {
    read(source, &|_| None)
}

/// The same where this machine starts the programs: those that it cannot start are reported.
#[must_use]
pub fn read_backends_here(source: Source<'_>) -> BackendsReading {
    read(source, &cannot_start)
}

fn read(source: Source<'_>, why_not: &dyn Fn(&str) -> Option<String>) -> BackendsReading {
    let mut faults = Faults::default();
    let document = Document::parse(source.bytes, &mut faults);
    let file = document.as_ref().map(|document| file(document.root(), why_not, &mut faults));
    let file = file.filter(|_| !faults.has_errors());
    let mut diagnostics = Vec::new();
    faults.locate(source.name, without_mark(source.bytes), &mut diagnostics);
    BackendsReading { file, diagnostics }
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

/// The fields of all kinds, each once.
fn all_fields() -> Vec<&'static Field> {
    let mut all: Vec<&Field> = COMMON.iter().collect();
    for field in BackendKind::ALL.iter().flat_map(|kind| kind.fields()) {
        if !all.iter().any(|known| known.name == field.name) {
            all.push(field);
        }
    }
    all
}

fn backend(
    item: Item<'_>,
    path: &Path<'_>,
    why_not: &dyn Fn(&str) -> Option<String>,
    faults: &mut Faults,
) -> Option<BackendSpec> {
    let fields = all_fields();
    let names: Vec<&'static str> = fields.iter().map(|field| field.name).collect();
    let slots = fields_among(Code::NotOfKind, item, path, &names, faults)?;
    let given = GivenFields { slots: &slots, why_not };
    let slot = |name: &str| given.slot(name).copied();
    let kinds: Vec<(&str, BackendKind)> = BackendKind::ALL.iter().map(|kind| (kind.name(), *kind)).collect();
    let named = slot("kind")?;
    let kind = named.required(faults).and_then(|_| choice(&named, &kinds, faults));
    // What is wrong with the fields of other kinds is reported too.
    let mut values = Map::new();
    for (field, slot) in fields.iter().zip(&slots).filter(|(field, _)| !is_common(field)) {
        let value = value_of(field.shape, slot, faults);
        let Some(kind) = kind else { continue };
        if kind.fields().any(|own| own.name == field.name) {
            values.extend(value.map(|value| (field.name.to_owned(), value)));
        } else if slot.item.is_some() {
            not_of(kind, slot, faults);
        }
    }
    let models = slot("models")?;
    let (name, gpus) = (slot("name")?.string(faults), gpus_of(&slot("gpus")?, faults));
    slot("description")?.string(faults);
    let served = models_of(&models, kind, faults);
    let kind = kind?;
    let reached = values.clone().into_iter().filter(|(name, _)| is_endpoint(name)).collect();
    values.retain(|name, _| !is_endpoint(name));
    let endpoint = serde_json::from_value(Value::Object(reached));
    let server = ServerSpec::from_fields(kind, values);
    let (endpoint, server): (Endpoint, ServerSpec) =
        match endpoint.and_then(|endpoint| Ok((endpoint, server?))) {
            Ok(both) => both,
            // A description that allows what its field cannot hold.
            Err(error) => {
                faults.add(Code::WrongType, item.at(), path, format_args!("{error}"));
                return None;
            }
        };
    for field in kind.fields().filter(|field| field.required.is_some()) {
        slot(field.name)?.required_hinted(field.required, faults);
    }
    server.check(&given, faults);
    let spec = BackendSpec { name, gpus, models: served, endpoint, server };
    if matches!(kind.about().reach, Reach::One | Reach::OneOrEach | Reach::Each) {
        reachable(&spec, kind, &slot("url")?, &models, faults);
    }
    Some(spec)
}

fn is_common(field: &Field) -> bool {
    COMMON.iter().any(|common| common.name == field.name)
}

fn is_endpoint(name: &str) -> bool {
    Endpoint::FIELDS.iter().any(|field| field.name == name)
}

/// Reports a field that this kind of server does not have.
fn not_of(kind: BackendKind, slot: &Slot<'_, '_>, faults: &mut Faults) {
    let name = slot.path.name();
    let have: Vec<String> = BackendKind::having(name).map(|kind| format!("`{}`", kind.name())).collect();
    let message = format_args!("a server of kind `{}` has no `{name}`", kind.name());
    let hint = format!("only {} have it", have.join(", "));
    faults.add_hinted(Code::NotOfKind, slot.path.at, &slot.path, message, Some(hint));
}

/// What a field says, as JSON; nothing where it is not there, or is not what it may be, which is reported.
fn value_of(shape: Shape, slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<Value> {
    slot.item?;
    Some(match shape {
        Shape::Number(limits) => slot.number(limits, faults)?.into(),
        Shape::Whole(limits) => slot.whole(limits, faults)?.into(),
        Shape::Text | Shape::Gpus | Shape::Models => slot.string(faults)?.into(),
        Shape::Name => slot.id(faults)?.into(),
        Shape::Address => address(slot, faults)?.into(),
        Shape::Texts => slot.texts(faults).into(),
        Shape::TextMap => Value::Object(text_map(slot, faults)),
        Shape::Choice(words) => {
            let known: Vec<(&str, &str)> = words.iter().map(|&word| (word, word)).collect();
            choice(slot, &known, faults)?.into()
        }
        Shape::Fields(fields) => {
            let names: Vec<&'static str> = fields.iter().map(|field| field.name).collect();
            let slots = fields_among(Code::NotOfKind, slot.map(faults)?, &slot.path, &names, faults)?;
            let values = fields.iter().zip(&slots).filter_map(|(field, slot)| {
                Some((field.name.to_owned(), value_of(field.shape, slot, faults)?))
            });
            Value::Object(values.collect())
        }
    })
}

fn gpus_of(slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<String> {
    let text = slot.text(faults)?;
    if gpu_range(text).is_none() {
        let at = slot.item.map_or(slot.path.at, Item::at);
        let hint = Some("give one, such as 3, or a range, such as 0-7".to_owned());
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
    let own = |kind: BackendKind| matches!(kind.about().reach, Reach::OneOrEach | Reach::Each);
    let mut models = BTreeMap::new();
    for (key, item) in slot.map(faults).into_iter().flat_map(Item::entries) {
        let path = slot.path.key(key.text(), key.at());
        let model = if item.kind() == Kind::Map {
            let found = fields_or(Code::NotOfKind, item, &path, ["as", "url"], faults);
            let Some([name, url]) = found else { continue };
            if url.item.is_some() && kind.is_some_and(|kind| !own(kind)) {
                let message = format_args!("models of this kind of server have no `url` of their own");
                let kinds: Vec<String> = BackendKind::ALL
                    .iter()
                    .filter(|kind| own(**kind))
                    .map(|kind| format!("`{}`", kind.name()))
                    .collect();
                let hint = kinds
                    .split_last()
                    .map(|(last, others)| format!("only those of {} and {last} do", others.join(", ")));
                faults.add_hinted(Code::NotOfKind, url.path.at, &url.path, message, hint);
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

fn text_map(slot: &Slot<'_, '_>, faults: &mut Faults) -> Map<String, Value> {
    let mut texts = Map::new();
    for (key, value) in slot.map(faults).into_iter().flat_map(Item::entries) {
        let path = slot.path.key(key.text(), key.at());
        if value.kind() == Kind::Map || value.kind() == Kind::Seq {
            wrong_type(value, &path, "text", faults);
        } else if texts.insert(key.text().to_owned(), value.text().into()).is_some() {
            duplicate_key(key, &slot.path, faults);
        }
    }
    texts
}

/// An address without its last slash.
fn address(slot: &Slot<'_, '_>, faults: &mut Faults) -> Option<String> {
    let text = slot.text(faults)?;
    // The port of a process is known once it is started.
    let sample = text.replace("{port}", "1");
    let reason = match Url::parse(&sample) {
        Err(error) => format!("is not an address: {error}"),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => "is neither http:// nor https://".to_owned(),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            // The text itself is not repeated: what stands before the host is a secret.
            let message = format_args!("an address cannot contain a user or a password");
            let hint = "put the token in an environment variable and name it in `token_env`".to_owned();
            let at = slot.item.map_or(slot.path.at, Item::at);
            faults.add_hinted(Code::BadServer, at, &slot.path, message, Some(hint));
            return None;
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => "has a query".to_owned(),
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
        let hint = format!("a {} server holds one model: give each model its own address", kind.name());
        match models.item {
            Some(item) if item.kind() == Kind::Map => {
                let message = format_args!("there is no model in `models`");
                faults.add_hinted(Code::Nothing, item.at(), &models.path, message, Some(hint));
            }
            _ => {
                models.required_hinted(Some(&hint), faults);
            }
        }
        return;
    }
    let each_has_one = !spec.models.is_empty() && spec.models.values().all(|model| model.url.is_some());
    // One that is there and wrong has been reported.
    if url.item.is_none() && !each_has_one {
        url.required(faults);
    }
    let mut servers: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, model) in spec.models.iter().filter(|_| kind.holds_one_model()) {
        let Some(address) = model.url.as_deref().or(spec.endpoint.url.as_deref()) else { continue };
        if let Some(other) = servers.insert(address, name) {
            let at = models.item.map_or(models.path.at, Item::at);
            let (kind, name, other) = (kind.name(), Shown(name), Shown(other));
            let message = format_args!("`{other}` and `{name}` share a server, but {kind} holds one model");
            let hint = Some("give each model a `url` of its own".to_owned());
            faults.add_hinted(Code::BadServer, at, &models.path, message, hint);
        }
    }
}
