//! The requests, checked against the configuration.

use super::code::Code;
use super::config::Config;
use super::faults::{Faults, Path, Shown};
use super::fields::{Slot, duplicate_key, fields, finite, keep, positive, quantity};
use super::scenario::RequestSpec;
use super::timestamp::{self, Clock};
use super::tree::{Item, Kind, Scalar, number};
use crate::cost::execution_span;
use crate::id::WorkflowId;
use crate::instance::Mode;
use crate::time::{MAX_SECONDS, Span};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// What the request file says.
#[derive(Default)]
pub(super) struct Requests {
    pub requests: Vec<RequestSpec>,
    pub metadata: Value,
    /// Per workflow and node without an execution time from its model: requests that give none either, and the first
    /// of them. In the order of [`Config::untimed`].
    pub untimed: Vec<Vec<(u32, usize)>>,
}

pub(super) fn read(root: Item<'_>, config: Option<&Config<'_>>, mode: Mode, faults: &mut Faults) -> Requests {
    let path = Path::root();
    let mut found = Requests::default();
    let listed = path.key("requests", root.at());
    let (list, path) = match root.kind() {
        Kind::Seq => (Some(root), listed),
        Kind::Map if is_request(root) => {
            let mut reader = Reader::new(config, mode, faults);
            found.requests.extend(reader.request(root, &listed.index(0, root.at())));
            found.untimed = reader.untimed;
            return found;
        }
        _ => {
            let Some([requests, metadata]) = fields(root, &path, ["requests", "metadata"], faults) else {
                return found;
            };
            found.metadata = metadata.kept(faults);
            let swapped = root.entries().any(|(key, _)| key.text() == "models");
            let hint = swapped.then_some("it looks like a configuration: were the two files swapped?");
            (requests.required_hinted(hint, faults).and_then(|_| requests.list(faults)), requests.path)
        }
    };
    let Some(list) = list else { return found };
    // Lines of which none could be read were reported as such.
    let lines_at_fault = root.kind() == Kind::Seq && faults.has_errors();
    if list.count() == 0 && !lines_at_fault {
        faults.add(Code::Nothing, path.at, &path, format_args!("there are no requests"));
    }
    let mut reader = Reader::new(config, mode, faults);
    found.requests.reserve(list.count());
    reader.ids.reserve(list.count());
    for (place, item) in list.items().enumerate() {
        found.requests.extend(reader.request(item, &path.index(place, item.at())));
    }
    found.untimed = reader.untimed;
    found
}

/// A file of JSON Lines with one line is a request and nothing around it.
fn is_request(root: Item<'_>) -> bool {
    let has = |name: &str| root.entries().any(|(key, _)| key.text() == name);
    !has("requests") && (has("request_id") || has("workflow_id"))
}

struct Reader<'c, 't, 'f> {
    config: Option<&'c Config<'c>>,
    mode: Mode,
    faults: &'f mut Faults,
    ids: FxHashMap<&'t str, usize>,
    clock: Option<Clock>,
    mixed: bool,
    count: usize,
    untimed: Vec<Vec<(u32, usize)>>,
}

impl<'c, 't, 'f> Reader<'c, 't, 'f> {
    fn new(config: Option<&'c Config<'c>>, mode: Mode, faults: &'f mut Faults) -> Reader<'c, 't, 'f> {
        let untimed = config.map_or(Vec::new(), |config| {
            config.untimed.iter().map(|nodes| vec![(0, 0); nodes.len()]).collect()
        });
        let ids = FxHashMap::default();
        Reader { config, mode, faults, ids, clock: None, mixed: false, count: 0, untimed }
    }

    fn request(&mut self, item: Item<'t>, path: &Path<'_>) -> Option<RequestSpec> {
        let names = [
            "request_id",
            "timestamp",
            "workflow_id",
            "input_data",
            "node_configs",
            "node_execution_times",
            "metadata",
            "priority",
            "deadline_seconds",
        ];
        let place = self.count;
        self.count += 1;
        let [id, stamp, workflow, input, configs, times, metadata, priority, deadline] =
            fields(item, path, names, self.faults)?;
        let name = id.id(self.faults);
        if let (Some(name), Some(item)) = (name, id.item)
            && let Some(first) = self.ids.insert(name, place)
        {
            self.ids.insert(name, first);
            let message = format_args!("request id `{}` is that of requests[{first}] already", Shown(name));
            self.faults.add(Code::Duplicate, item.at(), &id.path, message);
        }
        let timestamp = self.timestamp(&stamp);
        let workflow = self.workflow(&workflow);
        let times = self.times(&times, workflow, place);
        let node_configs = self.configs(&configs, workflow);
        Some(RequestSpec {
            id: name.unwrap_or_default().to_owned(),
            timestamp,
            workflow: workflow.unwrap_or(WorkflowId(0)),
            times,
            priority: priority.integer(self.faults).unwrap_or(0),
            deadline: deadline.number(positive(MAX_SECONDS, " seconds"), self.faults).map(Span::from_seconds),
            input_data: input.kept_map(self.faults),
            node_configs,
            metadata: metadata.kept(self.faults),
        })
    }

    fn workflow(&mut self, slot: &Slot<'t, '_>) -> Option<WorkflowId> {
        let name = slot.id(self.faults)?;
        let config = self.config?;
        let found = config.workflow_ids.get(name).copied();
        if found.is_none() && !config.incomplete {
            let hint = self.faults.nearest(name, config.workflows.iter().map(|known| known.id.as_str()));
            let at = slot.item.map_or(slot.path.at, Item::at);
            let message = format_args!("unknown workflow `{}`", Shown(name));
            self.faults.add_hinted(Code::UnknownWorkflow, at, &slot.path, message, hint);
        }
        found
    }

    fn timestamp(&mut self, slot: &Slot<'t, '_>) -> Option<i64> {
        let Some(item) = slot.item else {
            if self.mode == Mode::Online {
                let message = format_args!("online mode needs the `timestamp` of every request");
                self.faults.add(Code::NoTimestamp, slot.path.at, &slot.path, message);
            }
            return None;
        };
        let (clock, stamp) = match item.scalar() {
            Some(Scalar::Number(_)) => (Clock::Seconds, self.seconds(item, &slot.path)?),
            Some(Scalar::Text) => (Clock::Calendar, self.calendar(item, &slot.path)?),
            _ => {
                let message =
                    format_args!("a timestamp is a date and time or a number, not {}", item.described());
                self.faults.add(Code::BadTimestamp, item.at(), &slot.path, message);
                return None;
            }
        };
        if clock != *self.clock.get_or_insert(clock) && !self.mixed {
            self.mixed = true;
            let message = format_args!("timestamps are numbers in some requests and dates in others");
            self.faults.add(Code::MixedTimestamps, item.at(), &slot.path, message);
        }
        Some(stamp)
    }

    fn seconds(&mut self, item: Item<'t>, path: &Path<'_>) -> Option<i64> {
        let seconds = finite(item, path, self.faults)?;
        let message = format_args!("{} is no number of seconds from 0 to the year 9999", Shown(item.text()));
        if seconds < 0.0 {
            self.faults.add(Code::Negative, item.at(), path, message);
            return None;
        }
        if seconds > timestamp::MAX_STAMP {
            let hint = (seconds / 1000.0 <= timestamp::MAX_STAMP)
                .then(|| "it looks like milliseconds; give seconds".to_owned());
            self.faults.add_hinted(Code::TooLarge, item.at(), path, message, hint);
            return None;
        }
        Some((seconds * 1e6).round() as i64)
    }

    fn calendar(&mut self, item: Item<'t>, path: &Path<'_>) -> Option<i64> {
        let text = item.text();
        timestamp::calendar(text)
            .map_err(|reason| {
                let hint = match number(text) {
                    Some(_) => format!("for seconds, write the number without quotes: {}", Shown(text)),
                    None => "write it like `2024-01-01T10:00:00`".to_owned(),
                };
                let message = format_args!("bad timestamp `{}`: {}", Shown(text), Shown(&reason));
                self.faults.add_hinted(Code::BadTimestamp, item.at(), path, message, Some(hint));
            })
            .ok()
    }

    /// The time of each node of the workflow, and a note of the nodes that get one from nowhere.
    fn times(
        &mut self,
        slot: &Slot<'t, '_>,
        workflow: Option<WorkflowId>,
        place: usize,
    ) -> Vec<Option<Span>> {
        let nodes = self.config.zip(workflow).map(|(config, workflow)| &config.nodes[workflow.index()]);
        let count = self.config.zip(workflow).map_or(0, |(c, w)| c.workflows[w.index()].nodes.len());
        let mut times = vec![None; count];
        let mut unknown: Vec<&str> = Vec::new();
        for (key, value) in slot.map(self.faults).into_iter().flat_map(Item::entries) {
            let path = slot.path.key(key.text(), key.at());
            let limits = positive(MAX_SECONDS, " seconds");
            let time = if value.is_null() {
                None
            } else {
                quantity(value, &path, limits, self.faults).map(execution_span)
            };
            let Some(nodes) = nodes else { continue };
            match nodes.get(key.text()) {
                // A time that is at fault was reported; the node is not reported again for lack of one.
                Some(&node) if times[node as usize].is_none() => {
                    times[node as usize] = time.or((!value.is_null()).then_some(Span(1)));
                }
                Some(_) => duplicate_key(key, &slot.path, self.faults),
                None if unknown.contains(&key.text()) => duplicate_key(key, &slot.path, self.faults),
                None => {
                    if unknown.len() < 100 {
                        unknown.push(key.text());
                    }
                    self.unknown_node(key, &path, workflow);
                }
            }
        }
        if let (Some(config), Some(workflow)) = (self.config, workflow) {
            let missing = &mut self.untimed[workflow.index()];
            for (&(node, _), missing) in config.untimed[workflow.index()].iter().zip(missing) {
                if times[node as usize].is_none() {
                    *missing = if missing.0 == 0 { (1, place) } else { (missing.0 + 1, missing.1) };
                }
            }
        }
        times
    }

    fn configs(&mut self, slot: &Slot<'t, '_>, workflow: Option<WorkflowId>) -> Map<String, Value> {
        let nodes = self.config.zip(workflow).map(|(config, workflow)| &config.nodes[workflow.index()]);
        let mut kept = Map::new();
        for (key, value) in slot.map(self.faults).into_iter().flat_map(Item::entries) {
            let path = slot.path.key(key.text(), key.at());
            if !matches!(value.kind(), Kind::Map) && !value.is_null() {
                super::fields::wrong_type(value, &path, "a mapping", self.faults);
            }
            let value = keep(value, &path, self.faults);
            if kept.insert(key.text().to_owned(), value).is_some() {
                duplicate_key(key, &slot.path, self.faults);
            } else if nodes.is_some_and(|nodes| !nodes.contains_key(key.text())) {
                self.unknown_node(key, &path, workflow);
            }
        }
        kept
    }

    fn unknown_node(&mut self, key: Item<'t>, path: &Path<'_>, workflow: Option<WorkflowId>) {
        let Some((config, workflow)) = self.config.zip(workflow) else { return };
        let workflow = &config.workflows[workflow.index()];
        let hint = self.faults.nearest(key.text(), workflow.nodes.iter().map(|node| node.id.as_str()));
        let message = format_args!("workflow `{}` has no node `{}`", Shown(&workflow.id), Shown(key.text()));
        self.faults.add_hinted(Code::UnknownNode, key.at(), path, message, hint);
    }
}
