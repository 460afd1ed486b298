//! Workloads from files: every fault at once, with the line it is on.

use super::machine::Machine;
use super::workload::{RunTimes, Task, TaskKind, Workload};
use gswarm_core::input::{Code, Diagnostic};
use gswarm_core::time::MAX_SECONDS;
use gswarm_core::{Span, Time};
use gswarm_learn::table::{NO_TEXT, Table, TableFaults, Values, nearest, short, shown};
use rustc_hash::FxHashMap;

const REQUIRED: [&str; 6] =
    ["task_id", "size", "compute_intensity", "memory_required", "arrival_time", "duration_estimate"];
/// Columns of ids, which are texts even where they look like numbers.
const IDS: [&str; 2] = ["task_id", "dependencies"];
/// The most memory that a task may ask for, in MB; what no device has is found when the devices are known.
const MAX_MB: f64 = 1e12;

/// Reads a workload, CSV or Parquet. `dependencies`, `task_type` and the true times may be absent.
pub fn read(name: &str, bytes: Vec<u8>) -> Result<Workload, Vec<Diagnostic>> {
    read_with_lines(name, bytes).map(|(workload, _)| workload)
}

/// The same, and the line of each task in its file; no lines where the file has none.
pub fn read_with_lines(name: &str, bytes: Vec<u8>) -> Result<(Workload, Vec<u32>), Vec<Diagnostic>> {
    let mut faults = TableFaults::new(name);
    let Some(table) = Table::read_with(name, bytes, &IDS, &mut faults) else {
        return Err(faults.into_diagnostics());
    };
    let mut reader = Reader { faults, table: &table };
    let workload = reader.workload();
    if !reader.faults.is_empty() {
        return Err(reader.faults.into_diagnostics());
    }
    let lines = (0..table.rows()).filter_map(|row| table.line(row)).collect();
    Ok((workload, lines))
}

/// Tasks that no device of this machine has the memory for; `lines` are those of the tasks in their file.
pub fn misfits(workload: &Workload, machine: &Machine, file: &str, lines: &[u32]) -> Vec<Diagnostic> {
    let most = machine.cpu_memory_bytes.max(if machine.gpus > 0 { machine.gpu_memory_bytes } else { 0 });
    let mut faults = TableFaults::new(file);
    for (row, task) in workload.tasks.iter().enumerate().filter(|(_, task)| task.memory_bytes > most) {
        let (needs, has) = (short(task.memory_bytes as f64 / 1e6), most as f64 / 1e6);
        let id = shown(&task.id);
        let message = format!("task `{id}` needs {needs} MB, but no device has more than {has} MB");
        faults.add(
            Code::TooLarge,
            lines.get(row).copied(),
            "memory_required",
            message,
            Some("memory_required is in MB".to_string()),
        );
    }
    faults.into_diagnostics()
}

/// Whether a list of tasks is in a pair of brackets, or in none. Half a list is not one: the rest of it is lost.
fn brackets_match(text: &str) -> bool {
    let text = text.trim();
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    !inside.unwrap_or(text).contains(['[', ']'])
}

struct Reader<'t> {
    faults: TableFaults,
    table: &'t Table,
}

/// What a number has to be.
#[derive(Clone, Copy)]
struct Range {
    least: f64,
    /// Whether the least itself will do.
    with_least: bool,
    most: f64,
}

/// What is wrong with a cell that has nothing in it.
const EMPTY: &str = "the cell is empty";
/// What to do about it, and about one with something else in it.
const A_NUMBER: &str = "give every task a number, without a unit";

/// What a column's numbers are counted in.
fn unit(name: &str) -> Option<&'static str> {
    match name {
        "memory_required" => Some("MB"),
        _ => (name.ends_with("_seconds") || ["arrival_time", "duration_estimate"].contains(&name))
            .then_some("seconds"),
    }
}

const TIME: Range = Range { least: 0.0, with_least: true, most: MAX_SECONDS };
const RUN_TIME: Range = Range { least: 0.0, with_least: false, most: MAX_SECONDS };

impl Reader<'_> {
    fn workload(&mut self) -> Workload {
        if self.table.rows() == 0 {
            self.faults.add(Code::Nothing, None, "", "there is no task in this file", None);
        }
        for name in REQUIRED {
            if self.table.column(name).is_none() {
                let hint = nearest(name, self.table.columns().iter().map(|column| column.name.as_str()))
                    .unwrap_or_else(|| format!("tasks need the columns {}", REQUIRED.join(", ")));
                let hint = Some(hint);
                self.faults.add(Code::Missing, Some(1), name, format!("there is no column `{name}`"), hint);
            }
        }
        let positive = |most| Range { least: 0.0, with_least: false, most };
        let sizes = self.numbers("size", positive(1e9));
        let intensities = self.numbers("compute_intensity", positive(1e6));
        let memory = self.numbers("memory_required", Range { least: 0.0, with_least: true, most: MAX_MB });
        let arrivals = self.numbers("arrival_time", TIME);
        let estimates = self.numbers("duration_estimate", TIME);
        let profiled = self.run_times(["profile_cpu_seconds", "profile_gpu_seconds"]);
        let truths = self.run_times(["true_cpu_seconds", "true_gpu_seconds"]);
        let (ids, kinds) = (self.ids(), self.kinds());
        let dependencies = self.dependencies(&ids);
        let at = |values: &[f64], row: usize| values.get(row).copied().unwrap_or(0.0);
        let span = |values: &[f64], row: usize| Span(Span::from_seconds(at(values, row)).0.max(1));
        let both = |values: &[Vec<f64>; 2], row: usize| {
            let [cpu, gpu] = values;
            (!cpu.is_empty()).then(|| RunTimes { cpu: span(cpu, row), gpu: span(gpu, row) })
        };
        let task = |row: usize| Task {
            id: ids.get(row).cloned().unwrap_or_default(),
            kind: kinds.get(row).copied().unwrap_or(TaskKind::Matmul),
            size: at(&sizes, row),
            intensity: at(&intensities, row),
            memory_bytes: (at(&memory, row) * 1e6).round() as u64,
            arrival: Time(Span::from_seconds(at(&arrivals, row)).0),
            estimate: Span::from_seconds(at(&estimates, row)),
            dependencies: dependencies.get(row).cloned().unwrap_or_default(),
            profiled: both(&profiled, row),
            truth: both(&truths, row),
        };
        let workload = Workload { tasks: (0..self.table.rows()).map(task).collect() };
        self.cycle(&workload);
        workload
    }

    /// The columns of both devices, the CPU's first; empty where there are none.
    fn run_times(&mut self, names: [&str; 2]) -> [Vec<f64>; 2] {
        let columns = names.map(|name| self.numbers(name, RUN_TIME));
        let lacking = names.iter().filter(|name| self.table.column(name).is_none());
        if let ([missing], true) = (lacking.collect::<Vec<_>>().as_slice(), self.table.rows() > 0) {
            let message = format!("there is no column `{missing}`, only the other one");
            let hint = Some("give the times of both devices, or of neither".to_owned());
            self.faults.add(Code::Missing, Some(1), missing, message, hint);
        }
        columns
    }

    /// The numbers of a column; empty where there is none.
    fn numbers(&mut self, name: &str, range: Range) -> Vec<f64> {
        let Some(column) = self.table.column(name) else { return Vec::new() };
        let Values::Numbers(numbers) = &column.values else {
            let Values::Texts { codes, names } = &column.values else { return Vec::new() };
            for (row, &code) in codes.iter().enumerate() {
                let text = names.get(code as usize).map_or("", String::as_str);
                let (code, message) = match text.parse::<f64>() {
                    Ok(_) => continue,
                    Err(_) if text.is_empty() => (Code::Missing, EMPTY.to_string()),
                    Err(_) => (Code::WrongType, format!("`{}` is not a number", shown(text))),
                };
                let hint = Some(A_NUMBER.to_owned());
                self.faults.add(code, self.table.line(row), name, message, hint);
            }
            return Vec::new();
        };
        for (row, &number) in numbers.iter().enumerate() {
            let (code, message) = if number.is_nan() {
                // A cell that is no number is empty here, and was told already.
                if self.faults.has(self.table.line(row), name) {
                    continue;
                }
                (Code::Missing, EMPTY.to_string())
            } else if !number.is_finite() {
                (Code::NotFinite, format!("{number} is not a finite number"))
            } else if number < range.least {
                (Code::Negative, format!("{} is below zero", short(number)))
            } else if number == range.least && !range.with_least {
                (Code::NotPositive, "the number must be above zero".to_string())
            } else if number > range.most {
                (Code::TooLarge, format!("{} is above the limit of {}", short(number), short(range.most)))
            } else {
                continue;
            };
            let hint = match (code, unit(name)) {
                (Code::Missing, _) => A_NUMBER.to_owned(),
                (_, Some(unit)) => format!("check the unit: {name} is in {unit}"),
                (_, None) => format!("check what has written {name}"),
            };
            self.faults.add(code, self.table.line(row), name, message, Some(hint));
        }
        numbers.clone()
    }

    /// The text of a cell, whatever its column holds; empty where the cell is.
    fn text(values: &Values, row: usize) -> String {
        match values {
            Values::Numbers(numbers) if numbers[row].is_nan() => String::new(),
            Values::Numbers(numbers) => numbers[row].to_string(),
            Values::Texts { codes, .. } if codes[row] == NO_TEXT => String::new(),
            Values::Texts { codes, names } => names[codes[row] as usize].clone(),
        }
    }

    fn ids(&mut self) -> Vec<String> {
        let Some(column) = self.table.column("task_id") else { return Vec::new() };
        let mut first: FxHashMap<String, usize> = FxHashMap::default();
        let mut ids = Vec::with_capacity(self.table.rows());
        for row in 0..self.table.rows() {
            let id = Reader::text(&column.values, row);
            if id.is_empty() {
                self.faults.add(Code::BadId, self.table.line(row), "task_id", "the task has no id", None);
            } else if let Some(&before) = first.get(&id) {
                let place =
                    self.table.line(before).map_or(String::new(), |line| format!(", first in line {line}"));
                let message = format!("the id `{}` is given twice{place}", shown(&id));
                let hint = Some("rename or remove one of the two".to_owned());
                self.faults.add(Code::Duplicate, self.table.line(row), "task_id", message, hint);
            } else {
                first.insert(id.clone(), row);
            }
            ids.push(id);
        }
        ids
    }

    fn kinds(&mut self) -> Vec<TaskKind> {
        let Some(column) = self.table.column("task_type") else { return Vec::new() };
        let mut kinds = Vec::with_capacity(self.table.rows());
        for row in 0..self.table.rows() {
            let name = Reader::text(&column.values, row);
            kinds.push(TaskKind::of_name(&name).unwrap_or_else(|| {
                let known: Vec<&str> = TaskKind::ALL.iter().map(|kind| kind.name()).collect();
                let message =
                    format!("`{}` is not a type of task; the types are {}", shown(&name), known.join(", "));
                self.faults.add(Code::UnknownChoice, self.table.line(row), "task_type", message, None);
                TaskKind::Matmul
            }));
        }
        kinds
    }

    fn dependencies(&mut self, ids: &[String]) -> Vec<Vec<u32>> {
        let Some(column) = self.table.column("dependencies") else { return Vec::new() };
        let numbers: FxHashMap<&str, u32> =
            ids.iter().enumerate().map(|(row, id)| (id.as_str(), row as u32)).collect();
        let mut all = Vec::with_capacity(self.table.rows());
        for row in 0..self.table.rows() {
            let text = Reader::text(&column.values, row);
            let mut found = Vec::new();
            if !brackets_match(&text) {
                let message = format!("`{}` is not a list of tasks: its brackets do not match", shown(&text));
                let hint = Some("as in `3;17` or `[3, 17]`".to_string());
                self.faults.add(Code::WrongType, self.table.line(row), "dependencies", message, hint);
                all.push(found);
                continue;
            }
            // `3;17`, `3 17` and `[3, 17]` all mean the same.
            for id in text.split([';', ',', ' ', '[', ']', '\'', '"']).filter(|id| !id.is_empty()) {
                let line = self.table.line(row);
                // Tools that read the column as numbers write `7.0` for the task `7`.
                match numbers.get(id).or_else(|| numbers.get(id.strip_suffix(".0")?)) {
                    Some(&earlier) if earlier as usize == row => {
                        self.faults.add(
                            Code::SelfEdge,
                            line,
                            "dependencies",
                            format!("task `{}` depends on itself", shown(id)),
                            Some("remove its own id from its dependencies".to_owned()),
                        );
                    }
                    Some(&earlier) => found.push(earlier),
                    None => {
                        let message = format!("there is no task `{}` to depend on", shown(id));
                        let hint = Some("use the task_id of another row".to_owned());
                        self.faults.add(Code::UnknownNode, line, "dependencies", message, hint);
                    }
                }
            }
            found.sort_unstable();
            found.dedup();
            all.push(found);
        }
        all
    }

    /// Names the tasks of one circle.
    fn cycle(&mut self, workload: &Workload) {
        if workload.topological().is_some() {
            return;
        }
        let mut left: Vec<bool> = vec![true; workload.tasks.len()];
        // What waits for nobody is in no circle, nor is what waits only for such.
        let mut waiting: Vec<usize> = workload.tasks.iter().map(|task| task.dependencies.len()).collect();
        let dependents = workload.dependents();
        let mut done: Vec<usize> = (0..left.len()).filter(|&at| waiting[at] == 0).collect();
        while let Some(at) = done.pop() {
            left[at] = false;
            for &later in &dependents[at] {
                waiting[later as usize] -= 1;
                if waiting[later as usize] == 0 {
                    done.push(later as usize);
                }
            }
        }
        let Some(mut at) = left.iter().position(|&is_left| is_left) else { return };
        let mut path: Vec<usize> = Vec::new();
        while !path.contains(&at) {
            path.push(at);
            let next = workload.tasks[at].dependencies.iter().find(|&&earlier| left[earlier as usize]);
            let Some(&next) = next else { return };
            at = next as usize;
        }
        let circle = &path[path.iter().position(|&one| one == at).unwrap_or(0)..];
        let names: Vec<String> = circle.iter().take(12).map(|&one| shown(&workload.tasks[one].id)).collect();
        let more = if circle.len() > 12 { " -> ..." } else { "" };
        let message = format!("the tasks form a cycle: {}{more} -> {}", names.join(" -> "), names[0]);
        let hint = Some("remove one of these from the dependencies of the one before it".to_owned());
        self.faults.add(Code::Cycle, self.table.line(circle[0]), "dependencies", message, hint);
    }
}
