//! WfCommons instances: scientific workflows with recorded run times. A task is a node, the program that it runs is its model.

use crate::draft::{Draft, DraftNode, unique};
use crate::graph::{MAX_LINKS, acyclic, plain};
use crate::guess::rounded;
use crate::options::{given, report_strangers};
use crate::{File, ImportOptions};
use gswarm_core::input::document::{
    Document, Item, Kind, Path, Shown, not_negative, quantity, text, wrong_type,
};
use gswarm_core::input::{Code, MAX_GB, ModelSpec};
use gswarm_core::time::MAX_SECONDS;
use rustc_hash::FxHashMap;
use serde_json::Map;

/// Tasks that were recorded as taking no time take this many seconds.
const SHORTEST: f64 = 0.001;
/// What a program is taken to need where no task of it says.
const USUAL_GB: f64 = 1.0;

/// One task, as far as it matters.
struct Task<'t> {
    id: &'t str,
    name: &'t str,
    at: u32,
    seconds: Option<f64>,
    gb: Option<f64>,
    program: String,
    cores: f64,
}

pub fn read(file: &mut File<'_>, options: &ImportOptions, draft: &mut Draft) {
    let Some(document) = Document::parse(file.source.bytes, &mut file.faults) else { return };
    let root = document.root();
    let top = Path::root();
    let Some(workflow) = root.get("workflow").filter(|item| item.kind() == Kind::Map) else {
        let message = format_args!("a WfCommons instance has a mapping `workflow`, but this file has none");
        file.faults.add(Code::OtherKind, 0, &top, message);
        return;
    };
    let version = root.get("schemaVersion").map_or("", Item::text);
    if !matches!(version, "1.4" | "1.5") {
        let message =
            format_args!("schemaVersion is `{}`, but only 1.4 and 1.5 are supported", Shown(version));
        let at = root.get("schemaVersion").map_or(0, Item::at);
        let hint = Some("the WfFormat tools convert other versions".to_owned());
        file.faults.add_hinted(Code::OtherKind, at, &top.key("schemaVersion", at), message, hint);
        return;
    }
    let path = top.key("workflow", workflow.at());
    let (listed, runs) = match (workflow.get("specification"), workflow.get("execution")) {
        (Some(specification), execution) if version == "1.5" => {
            (specification.get("tasks"), execution.and_then(|execution| execution.get("tasks")))
        }
        _ => (workflow.get("tasks"), None),
    };
    let Some(listed) = listed.filter(|item| item.kind() == Kind::Seq && item.count() > 0) else {
        file.faults.add(
            Code::Missing,
            workflow.at(),
            &path,
            format_args!("the workflow has no list of tasks"),
        );
        return;
    };
    let mut tasks = tasks(file, listed, version == "1.4");
    if let Some(runs) = runs {
        run_times(file, runs, &mut tasks);
    }
    for task in tasks.iter().filter(|task| task.seconds.is_none()) {
        let message = format_args!("task `{}` has no `runtimeInSeconds`", Shown(task.id));
        file.faults.add(Code::Missing, task.at, &path, message);
    }
    let edges = edges(file, listed, &tasks);
    report_strangers(
        file,
        "--time",
        &options.times,
        &|name| tasks.iter().any(|task| task.id == name || task.program == name),
        "name a task or a program of the workflow",
    );
    let names = |node: usize| (tasks[node].id.to_owned(), tasks[node].at);
    if file.faults.has_errors() || !acyclic(file, &names, tasks.len(), &edges) {
        return;
    }
    let name = root.get("name").map_or(file.source.name, Item::text);
    make(name, &tasks, edges, options, draft);
}

fn tasks<'t>(file: &mut File<'_>, listed: Item<'t>, with_times: bool) -> Vec<Task<'t>> {
    let root = Path::root();
    let path = root.key("tasks", listed.at());
    let mut tasks = Vec::with_capacity(listed.count());
    let mut seen: FxHashMap<&str, usize> = FxHashMap::default();
    for (place, item) in listed.items().enumerate() {
        let path = path.index(place, item.at());
        if item.kind() != Kind::Map {
            wrong_type(item, &path, "a mapping", &mut file.faults);
            continue;
        }
        let name =
            item.get("name").and_then(|name| text(name, &path.key("name", name.at()), &mut file.faults));
        let id = item.get("id").and_then(|id| text(id, &path.key("id", id.at()), &mut file.faults));
        let Some(id) = id.or(name).filter(|id| !id.is_empty()) else {
            file.faults.add(Code::Missing, item.at(), &path, format_args!("the task has no `id`"));
            continue;
        };
        if let Some(first) = seen.insert(id, place) {
            let message = format_args!("task `{}` is already used by tasks[{first}]", Shown(id));
            file.faults.add(Code::Duplicate, item.at(), &path, message);
        }
        let mut task = Task {
            id,
            name: name.unwrap_or(id),
            at: item.at(),
            seconds: None,
            gb: None,
            program: category(item, name.unwrap_or(id)),
            cores: 1.0,
        };
        if with_times {
            measured(file, item, &path, &mut task);
        }
        tasks.push(task);
    }
    tasks
}

/// What the run says of a task: seconds, memory and the program.
fn measured(file: &mut File<'_>, item: Item<'_>, path: &Path<'_>, task: &mut Task<'_>) {
    let mut number = |name: &str, max: f64| {
        let found = item.get(name)?;
        quantity(found, &path.key(name, found.at()), not_negative(max, ""), &mut file.faults)
    };
    let seconds = number("runtimeInSeconds", MAX_SECONDS).or_else(|| number("runtime", MAX_SECONDS));
    let cores = number("coreCount", 1e6).or_else(|| number("cores", 1e6));
    task.gb = number("memoryInBytes", MAX_GB * 1e9).map(|bytes| bytes / 1e9).filter(|&gb| gb > 0.0);
    // What is at fault was reported; the task is not reported again for lack of it.
    task.seconds = seconds.or(item.get("runtimeInSeconds").map(|_| 1.0));
    task.cores = cores.unwrap_or(1.0);
    let program = item.get("command").and_then(|command| command.get("program")).map_or("", Item::text);
    let program = program.rsplit('/').next().unwrap_or_default().trim();
    if !program.is_empty() {
        task.program = program.to_owned();
    }
}

/// The sort of a task, where its program is not known: its category, or its name without the number behind it.
fn category(item: Item<'_>, name: &str) -> String {
    if let Some(category) = item.get("category").map(Item::text).filter(|category| !category.is_empty()) {
        return category.to_owned();
    }
    let end = |c: char| c.is_ascii_digit() || matches!(c, '_' | '-' | '.' | '#');
    let stem = name.split("_ID").next().unwrap_or(name).trim_end_matches(end);
    if stem.is_empty() { name.to_owned() } else { stem.to_owned() }
}

fn run_times(file: &mut File<'_>, runs: Item<'_>, tasks: &mut [Task<'_>]) {
    let numbers: FxHashMap<&str, usize> = tasks.iter().enumerate().map(|(at, task)| (task.id, at)).collect();
    let root = Path::root();
    let path = root.key("execution", runs.at());
    for (place, run) in runs.items().enumerate() {
        let path = path.index(place, run.at());
        let id = run.get("id").map_or("", Item::text);
        match numbers.get(id) {
            Some(&task) => measured(file, run, &path, &mut tasks[task]),
            None => {
                let message = format_args!("there is no task `{}`", Shown(id));
                file.faults.add(Code::UnknownNode, run.at(), &path, message);
            }
        }
    }
}

/// What parents and children say. Tasks of 1.4 go by their names, those of 1.5 by their ids: both are known here.
fn edges(file: &mut File<'_>, listed: Item<'_>, tasks: &[Task<'_>]) -> Vec<(u32, u32)> {
    let mut numbers: FxHashMap<&str, u32> = tasks.iter().zip(0..).map(|(task, at)| (task.name, at)).collect();
    numbers.extend(tasks.iter().zip(0..).map(|(task, at)| (task.id, at)));
    let (mut edges, root) = (Vec::new(), Path::root());
    for item in listed.items() {
        let id = item.get("id").or_else(|| item.get("name")).map_or("", Item::text);
        let Some(&own) = numbers.get(id) else { continue };
        for (field, is_parent) in [("parents", true), ("children", false)] {
            let Some(list) = item.get(field) else { continue };
            let path = root.key(field, list.at());
            if list.kind() != Kind::Seq {
                wrong_type(list, &path, "a list", &mut file.faults);
            }
            for other in list.items() {
                match numbers.get(other.text()) {
                    Some(&other) if is_parent => edges.push((other, own)),
                    Some(&other) => edges.push((own, other)),
                    None => {
                        let message = format_args!("there is no task `{}`", Shown(other.text()));
                        file.faults.add(Code::UnknownNode, other.at(), &path, message);
                    }
                }
            }
        }
        if edges.len() > MAX_LINKS {
            let message = format_args!("more than {MAX_LINKS} edges");
            file.faults.add(Code::Expands, item.at(), &root, message);
            break;
        }
    }
    plain(edges)
}

fn make(name: &str, tasks: &[Task<'_>], edges: Vec<(u32, u32)>, options: &ImportOptions, draft: &mut Draft) {
    let mut sizes: FxHashMap<&str, f64> = FxHashMap::default();
    for task in tasks {
        let size = sizes.entry(&task.program).or_insert(0.0);
        *size = size.max(task.gb.unwrap_or(0.0));
    }
    let notes = &mut draft.notes;
    notes.say("A task is a node on one GPU; the program that it runs is its model, loaded in 1 ms");
    if sizes.values().any(|&gb| gb == 0.0) {
        notes.say(format!("Programs without a memory measurement are assumed to need {USUAL_GB} GB"));
    }
    if tasks.iter().any(|task| task.cores > 1.0) {
        notes.say("Cores, files and machines of tasks are ignored");
    } else {
        notes.say("Files and machines of tasks are ignored");
    }
    let instant = tasks.iter().filter(|task| task.seconds == Some(0.0)).count();
    if instant > 0 {
        notes.say(format!("{instant} tasks of `{name}` with a recorded time of zero take 1 ms"));
    }
    let ids = unique(tasks.iter().map(|task| task.id.to_owned()).collect());
    let nodes: Vec<DraftNode> = tasks
        .iter()
        .zip(ids)
        .map(|(task, id)| {
            let model = draft.model(&task.program, |_| ModelSpec {
                memory_gb: rounded(
                    Some(sizes[task.program.as_str()]).filter(|&gb| gb > 0.0).unwrap_or(USUAL_GB),
                ),
                gpus_required: 1,
                load_time_seconds: 0.001,
                ..ModelSpec::default()
            });
            let flagged = given(&options.times, &[task.id, &task.program]).copied();
            let seconds = flagged.or(task.seconds).unwrap_or(0.0).max(SHORTEST);
            DraftNode { id, model, seconds, config: Map::new() }
        })
        .collect();
    let workflow = draft.workflow(name, &nodes, edges);
    draft.requests(workflow, &nodes, options.requests, options.every);
    draft.fill_mean_times();
}
