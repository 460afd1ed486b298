//! The requests, checked against the configuration.

use super::code::Code;
use super::config::Config;
use super::faults::{Faults, Path, Shown};
use super::fields::{Slot, duplicate_key, fields, finite, keep, quantity};
use super::timestamp::{self, Clock};
use super::tree::{Item, Kind, Scalar, number};
use super::validity::{self, Untimed};
use crate::cost::execution_span;
use crate::id::WorkflowId;
use crate::scenario::Mode;
use crate::scenario::RequestSpec;
use crate::time::Span;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

/// What the request file says.
#[derive(Default)]
pub(super) struct Requests {
    pub requests: Vec<RequestSpec>,
    pub metadata: Value,
}

/// Reads them; requests that give no time to nodes of `untimed`, which is by workflow, are counted there.
pub(super) fn read(
    root: Item<'_>,
    config: Option<&Config<'_>>,
    untimed: &mut [Vec<Untimed>],
    mode: Mode,
    faults: &mut Faults,
) -> Requests {
    let path = Path::root();
    let mut found = Requests::default();
    let listed = path.key("requests", root.at());
    let (list, path) = match root.kind() {
        Kind::Seq => (Some(root), listed),
        Kind::Map if is_request(root) => {
            let mut reader = Reader::new(config, untimed, mode, faults);
            found.requests.extend(reader.request(root, &listed.index(0, root.at())));
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
    let mut reader = Reader::new(config, untimed, mode, faults);
    found.requests.reserve(list.count());
    reader.ids.reserve(list.count());
    for (place, item) in list.items().enumerate() {
        found.requests.extend(reader.request(item, &path.index(place, item.at())));
    }
    found
}

/// A file of JSON Lines with one line is a request and nothing around it.
fn is_request(root: Item<'_>) -> bool {
    let has = |name: &str| root.entries().any(|(key, _)| key.text() == name);
    !has("requests") && (has("request_id") || has("workflow_id"))
}

struct Reader<'c, 't, 'f> {
    config: Option<&'c Config<'c>>,
    untimed: &'f mut [Vec<Untimed>],
    mode: Mode,
    faults: &'f mut Faults,
    ids: FxHashMap<&'t str, usize>,
    clock: Option<Clock>,
    mixed: bool,
    count: usize,
}

impl<'c, 't, 'f> Reader<'c, 't, 'f> {
    fn new(
        config: Option<&'c Config<'c>>,
        untimed: &'f mut [Vec<Untimed>],
        mode: Mode,
        faults: &'f mut Faults,
    ) -> Reader<'c, 't, 'f> {
        Reader {
            config,
            untimed,
            mode,
            faults,
            ids: FxHashMap::default(),
            clock: None,
            mixed: false,
            count: 0,
        }
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
            validity::taken("request", "requests", name, first, item.at(), &id.path, self.faults);
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
            deadline: deadline.amount(self.faults).map(Span::from_seconds),
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
            let at = slot.item.map_or(slot.path.at, Item::at);
            validity::unknown_workflow(name, &config.workflows, at, &slot.path, self.faults);
        }
        found
    }

    fn timestamp(&mut self, slot: &Slot<'t, '_>) -> Option<i64> {
        let Some(item) = slot.item else {
            if self.mode == Mode::Online {
                validity::no_timestamp(&slot.path, self.faults);
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
        if !(0.0..=timestamp::MAX_STAMP).contains(&seconds) {
            validity::beyond_the_calendar(item.text(), seconds, item.at(), path, self.faults);
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
        // A time that is at fault was reported; its node is not reported again for lack of one.
        let mut is_given = vec![false; count];
        let mut unknown: Vec<&str> = Vec::new();
        let limits = validity::limits(slot.path.name());
        for (key, value) in slot.map(self.faults).into_iter().flat_map(Item::entries) {
            let path = slot.path.key(key.text(), key.at());
            let time = if value.is_null() { None } else { quantity(value, &path, limits, self.faults) };
            let Some(nodes) = nodes else { continue };
            match nodes.get(key.text()) {
                Some(&node) if !is_given[node as usize] => {
                    times[node as usize] = time.map(execution_span);
                    is_given[node as usize] = !value.is_null();
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
        if let (Some(_), Some(workflow)) = (self.config, workflow) {
            let nodes = self.untimed[workflow.index()].iter_mut();
            nodes.filter(|node| !is_given[node.node as usize]).for_each(|node| node.count(place));
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
        validity::no_such_node(key.text(), &config.workflows[workflow.index()], key.at(), path, self.faults);
    }
}
