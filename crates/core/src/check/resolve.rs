//! From a file's names and seconds to the instance's ids and microseconds.

use super::arithmetic::{self, Times};
use super::context::{Sound, Sources};
use crate::id::{GpuId, Gpus, ModelId, RequestId, TaskId};
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog, Load, Loss, Status, Unload};
use crate::log_file::{LogFile, Record};
use crate::time::{Span, Time};
use crate::violation::{Place, Violation, ViolationCode as Code};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// A log in terms of the instance.
pub(super) struct Resolved {
    pub log: ExecutionLog,
    pub sources: Sources,
    pub sound: Sound,
    pub violations: Vec<Violation>,
    /// What was estimated of each execution, as the log says it.
    pub estimates: Vec<Option<Span>>,
}

/// A record, and where it stands.
#[derive(Clone, Copy)]
struct At<'r> {
    list: List,
    index: usize,
    record: &'r Record,
}

#[derive(Clone, Copy)]
enum List {
    Executions,
    Loads,
    LostGpus,
    Unloads,
}

struct Resolver<'a> {
    instance: &'a Instance,
    /// The instance with what the log's predictor says of it, where that is known.
    believed: Option<&'a Instance>,
    file: &'a LogFile,
    /// By number of the name in the file.
    requests: Vec<Option<RequestId>>,
    models: Vec<Option<ModelId>>,
    nodes: FxHashMap<(u32, &'a str), u32>,
    gpus: Option<Vec<bool>>,
    out: Vec<Violation>,
}

pub(super) fn resolve(instance: &Instance, believed: Option<&Instance>, file: &LogFile) -> Resolved {
    let mut resolver = Resolver { believed, ..Resolver::new(instance, file) };
    let (mut log, mut sources, mut sound) = (ExecutionLog::default(), Sources::default(), Sound::default());
    let (mut unknown_ready, mut estimates) = (Vec::new(), Vec::new());
    for (index, record) in file.executions.iter().enumerate() {
        let at = At { list: List::Executions, index, record };
        let Some((execution, times, gpus)) = resolver.execution(at) else { continue };
        if execution.ready == Time::NEVER {
            unknown_ready.push(log.executions.len());
        }
        estimates.push(arithmetic::time(record.estimated_time, "", &mut |_, _| {}).map(|at| Span(at.0)));
        log.executions.push(execution);
        sources.executions.push((index as u32, record.line));
        sound.times.push(times);
        sound.gpus.push(gpus);
    }
    for (index, record) in file.loads.iter().enumerate() {
        let at = At { list: List::Loads, index, record };
        let Some((load, usable)) = resolver.load(at) else { continue };
        log.loads.push(load);
        sources.loads.push((index as u32, record.line));
        sound.loads.push(usable);
    }
    for (index, record) in file.lost_gpus.iter().enumerate() {
        let at = At { list: List::LostGpus, index, record };
        let time = resolver.time(record.time, "time", at);
        let until = record.until.and_then(|until| resolver.time(Some(until), "until", at));
        match (record.gpu_id.filter(|&gpu| resolver.has_gpu(gpu)), time) {
            (Some(gpu), Some(at)) => log.losses.push(Loss { gpu: GpuId(gpu as u32), at, until }),
            (None, _) => {
                let message = format!("lost GPU {:?} is not one of the run's", record.gpu_id);
                resolver.report(Code::GpuUnknown, at, message);
            }
            (_, None) => {}
        }
    }
    for (index, record) in file.unloads.iter().enumerate() {
        let at = At { list: List::Unloads, index, record };
        let time = resolver.time(record.time, "time", at);
        let model = record.model.and_then(|name| resolver.models[name as usize]);
        match (record.gpu_id.filter(|&gpu| resolver.has_gpu(gpu)), model, time) {
            (Some(gpu), Some(model), Some(at)) => {
                log.unloads.push(Unload { model, gpu: GpuId(gpu as u32), at });
            }
            (None, ..) => {
                let message = format!("GPU {:?} of an unload is not one of the run's", record.gpu_id);
                resolver.report(Code::GpuUnknown, at, message);
            }
            (_, None, _) => resolver.report(Code::Unknown, at, "an unload of an unknown model"),
            (.., None) => {}
        }
    }
    fill_ready(instance, &mut log, &unknown_ready);
    Resolved { log, sources, sound, violations: resolver.out, estimates }
}

/// Logs of other programs may not say when a node was ready: then it was when its inputs were there.
fn fill_ready(instance: &Instance, log: &mut ExecutionLog, unknown: &[usize]) {
    if unknown.is_empty() {
        return;
    }
    let mut ends = vec![Time::ZERO; instance.tasks()];
    for execution in log.executions.iter().filter(|one| one.status == Status::Completed) {
        ends[execution.task.index()] = execution.end;
    }
    for &index in unknown {
        let task = log.executions[index].task;
        let inputs = instance.predecessors(task).map(|input| ends[input.index()]).max();
        let arrival = instance.requests[instance.request_of(task)].arrival;
        log.executions[index].ready = inputs.unwrap_or(arrival).max(arrival);
    }
}

impl<'a> Resolver<'a> {
    fn new(instance: &'a Instance, file: &'a LogFile) -> Resolver<'a> {
        let named: FxHashMap<&str, RequestId> =
            instance.requests.iter_enumerated().map(|(id, request)| (request.name.as_str(), id)).collect();
        let models: FxHashMap<&str, ModelId> =
            instance.models.iter_enumerated().map(|(id, model)| (model.name.as_str(), id)).collect();
        let names = 0..file.names() as u32;
        let gpus = file.claims.gpus.as_ref().map(|gpus| {
            let mut known = vec![false; instance.cluster.gpus as usize];
            gpus.iter().for_each(|&gpu| known.get_mut(gpu as usize).into_iter().for_each(|one| *one = true));
            known
        });
        Resolver {
            instance,
            believed: None,
            file,
            requests: names.clone().map(|name| named.get(file.name(name)).copied()).collect(),
            models: names.map(|name| models.get(file.name(name)).copied()).collect(),
            nodes: instance
                .workflows
                .iter_enumerated()
                .flat_map(|(id, workflow)| {
                    (0..).zip(&workflow.nodes).map(move |(node, name)| ((id.0, name.as_str()), node))
                })
                .collect(),
            gpus,
            out: Vec::new(),
        }
    }

    /// Names are looked up only here: almost no record of almost any log has to be named.
    fn place(&self, at: At<'_>) -> Place {
        let name = |name: Option<u32>| name.map(|name| self.file.name(name).to_string());
        let line = Place::line(at.record.line);
        match at.list {
            List::Executions => Place {
                record: Some(at.index),
                request: name(at.record.request),
                node: name(at.record.node),
                ..line
            },
            List::Loads => Place { load: Some(at.index), ..line },
            List::LostGpus | List::Unloads => line,
        }
    }

    fn report(&mut self, code: Code, at: At<'_>, message: impl Into<String>) {
        self.out.push(Violation::new(code, self.place(at), message));
    }

    fn time(&mut self, value: Option<f64>, field: &str, at: At<'_>) -> Option<Time> {
        arithmetic::time(value, field, &mut |code, message| self.report(code, at, message))
    }

    /// The execution, and whether its times and its GPUs can be used.
    fn execution(&mut self, at: At<'_>) -> Option<(Execution, bool, bool)> {
        let record = at.record;
        self.fields(at);
        let task = self.task(at)?;
        let model = self.instance.model_of(task);
        self.names(at, task);
        // Estimates of a predictor are not in the inputs: unless it is asked again, they are held against nothing here.
        let claims = &self.file.claims;
        let given = self.file.schema.is_some() && (claims.predictor.is_none() || self.believed.is_some());
        let instance = self.believed.unwrap_or(self.instance);
        let report = &mut |code, message| self.report(code, at, message);
        let times = arithmetic::execution(instance, given, task, record, report);
        let gpus = self.gpus(at, model);
        let status = self.status(at);
        let attempt = match record.attempt {
            None => 1,
            Some(attempt) if attempt >= 1 => u32::try_from(attempt).unwrap_or(u32::MAX),
            Some(attempt) => {
                self.report(Code::Attempt, at, format!("attempt is {attempt}, but attempts count from 1"));
                1
            }
        };
        let batch = match record.batch_size {
            None => 0,
            Some(batch) if batch >= 1 => u32::try_from(batch).unwrap_or(u32::MAX),
            Some(batch) => {
                self.report(
                    Code::BatchSize,
                    at,
                    format!("batch_size is {batch}, but it is at least 1: the execution itself counts"),
                );
                0
            }
        };
        let evicted = self.evicted(at);
        let expected = arithmetic::expected(record);
        let known = times.unwrap_or_default();
        let Times { ready, switch, start, end } = known;
        let ready = ready.unwrap_or(Time::NEVER);
        let window = gpus.unwrap_or(Gpus::new(0, 0));
        let execution = Execution {
            task,
            gpus: window,
            attempt,
            batch,
            status,
            ready,
            switch,
            start,
            end,
            evicted,
            expected,
        };
        Some((execution, times.is_some(), gpus.is_some()))
    }

    fn load(&mut self, at: At<'_>) -> Option<(Load, bool)> {
        let record = at.record;
        let Some(name) = record.model else {
            self.report(Code::Field, at, "a load has no `model_name`");
            return None;
        };
        let Some(model) = self.models[name as usize] else {
            let message = format!("model `{}` is not in the configuration", self.file.name(name));
            self.report(Code::Unknown, at, message);
            return None;
        };
        let gpus = self.gpus(at, model);
        let start = self.time(record.start_time, "start_time", at);
        let end = self.time(record.end_time, "end_time", at);
        let (start, end) = (start?, end?);
        if end < start {
            self.report(Code::TimeSum, at, "a load ends before it starts");
        }
        let status = self.status(at);
        let evicted = self.evicted(at);
        let window = gpus.unwrap_or(Gpus::new(0, 0));
        Some((Load { model, gpus: window, start, end, status, evicted }, gpus.is_some() && start <= end))
    }

    fn task(&mut self, at: At<'_>) -> Option<TaskId> {
        let request = at.record.request?;
        let Some(id) = self.requests[request as usize] else {
            self.report(
                Code::Unknown,
                at,
                format!("request `{}` is not in the inputs", self.file.name(request)),
            );
            return None;
        };
        let (request, node) = (&self.instance.requests[id], self.file.name(at.record.node?));
        match self.nodes.get(&(request.workflow.0, node)) {
            Some(node) => Some(TaskId(request.first_task.0 + node)),
            None => {
                let workflow = &self.instance.workflows[request.workflow].name;
                self.report(Code::Unknown, at, format!("workflow `{workflow}` has no node `{node}`"));
                None
            }
        }
    }

    /// Workflow and model, which the node's ids already determine.
    fn names(&mut self, at: At<'_>, task: TaskId) {
        let instance = self.instance;
        let workflow = &instance.workflow_of(task).name;
        if let Some(said) =
            at.record.workflow.map(|name| self.file.name(name)).filter(|said| said != workflow)
        {
            if instance.workflows.iter().any(|workflow| workflow.name == said) {
                let message = format!("workflow is `{said}`, but the request's is `{workflow}`");
                self.report(Code::Workflow, at, message);
            } else {
                self.report(Code::Unknown, at, format!("workflow `{said}` is not in the configuration"));
            }
        }
        let model = instance.model_of(task);
        if let Some(name) = at.record.model.filter(|&name| self.models[name as usize] != Some(model)) {
            let (said, is) = (self.file.name(name), &instance.models[model].name);
            if self.models[name as usize].is_none() {
                self.report(Code::Unknown, at, format!("model `{said}` is not in the configuration"));
            } else {
                self.report(Code::Model, at, format!("model is `{said}`, but the node's is `{is}`"));
            }
        }
    }

    /// The window of a record: consecutive GPUs of the run.
    fn gpus(&mut self, at: At<'_>, model: ModelId) -> Option<Gpus> {
        let needed = self.instance.models[model].gpus;
        let record = at.record;
        let ids: Cow<'_, [i64]> = match (&record.gpu_ids, record.gpu_id) {
            (Some(ids), _) => Cow::Borrowed(ids),
            (None, Some(first)) if needed == 1 => Cow::Owned(vec![first]),
            (None, Some(first)) => {
                let message = format!("names GPU {first} only, but the model needs {needed}");
                self.report(Code::GpuCount, at, message);
                // Held against the others as the window that it should have held.
                let last = i64::from(self.instance.cluster.gpus);
                (first..(first.saturating_add(i64::from(needed))).min(last)).collect()
            }
            (None, None) => {
                self.report(Code::Field, at, "neither `gpu_ids` nor `gpu_id`");
                return None;
            }
        };
        if let Some(&unknown) = ids.iter().find(|&&id| !self.has_gpu(id)) {
            let place = self.place(at).on(unknown.max(0) as u32);
            self.out.push(Violation::new(Code::GpuUnknown, place, format!("the run has no GPU {unknown}")));
            return None;
        }
        let Some(&first) = ids.first() else {
            self.report(Code::GpuCount, at, "`gpu_ids` is empty");
            return None;
        };
        if let Some(said) = record.gpu_id.filter(|&said| said != first) {
            self.report(Code::GpuWindow, at, format!("gpu_id {said} is not the first of gpu_ids {ids:?}"));
        }
        if ids.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            let mut sorted = ids.to_vec();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let message = format!("gpu_ids {ids:?} names GPU {} more than once", pair[0]);
                self.report(Code::GpuCount, at, message);
                return None;
            }
            self.report(Code::GpuWindow, at, format!("GPUs {ids:?} are not consecutive"));
            return None;
        }
        Some(Gpus::new(first as u32, ids.len() as u32))
    }

    fn has_gpu(&self, gpu: i64) -> bool {
        let in_cluster = gpu >= 0 && gpu < i64::from(self.instance.cluster.gpus);
        in_cluster && self.gpus.as_ref().is_none_or(|known| known[gpu as usize])
    }

    fn status(&mut self, at: At<'_>) -> Status {
        let all = [Status::Completed, Status::Failed, Status::Lost, Status::Deferred, Status::Cancelled];
        let Some(said) = at.record.status.map(|name| self.file.name(name)) else { return Status::Completed };
        all.into_iter().find(|status| status.name() == said).unwrap_or_else(|| {
            self.report(
                Code::Record,
                at,
                format!("status `{said}` is not one of completed, failed, lost, deferred, cancelled"),
            );
            Status::Completed
        })
    }

    fn evicted(&mut self, at: At<'_>) -> Box<[ModelId]> {
        let names = at.record.evicted.as_deref().unwrap_or_default();
        let mut models = Vec::with_capacity(names.len());
        for &name in names {
            match self.models[name as usize] {
                Some(model) => models.push(model),
                None => {
                    let message =
                        format!("evicted model `{}` is not in the configuration", self.file.name(name));
                    self.report(Code::Unknown, at, message);
                }
            }
        }
        models.into()
    }

    /// What the format requires; of logs without a schema only what nothing can be checked without.
    fn fields(&mut self, at: At<'_>) {
        let record = at.record;
        let always = [
            ("request_id", record.request.is_none()),
            ("node_id", record.node.is_none()),
            ("start_time", record.start_time.is_none()),
            ("end_time", record.end_time.is_none()),
        ];
        let by_schema = [
            ("workflow_id", record.workflow.is_none()),
            ("model_name", record.model.is_none()),
            ("gpu_id", record.gpu_id.is_none()),
            ("gpu_ids", record.gpu_ids.is_none()),
            ("arrival_time", record.arrival_time.is_none()),
            ("ready_time", record.ready_time.is_none()),
            ("switch_time", record.switch_time.is_none()),
            ("execution_time", record.execution_time.is_none()),
            ("estimated_time", record.estimated_time.is_none()),
            ("batch_size", record.batch_size.is_none()),
            ("attempt", record.attempt.is_none()),
            ("status", record.status.is_none()),
        ];
        let by_schema = by_schema.into_iter().filter(|_| self.file.schema.is_some());
        let missing: Vec<&str> = always
            .into_iter()
            .chain(by_schema)
            .filter(|&(_, missing)| missing)
            .map(|(name, _)| name)
            .collect();
        if !missing.is_empty() {
            self.report(Code::Field, at, format!("no `{}`", missing.join("`, `")));
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times { ready: Some(Time::ZERO), switch: Span::ZERO, start: Time::ZERO, end: Time::ZERO }
    }
}
