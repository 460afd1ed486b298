//! Stand-ins for parts of the library that are written elsewhere; goes away with them.
#![allow(missing_docs, dead_code, unused)]
use gswarm_core::input::*;
use gswarm_core::instance::*;
use gswarm_core::log::*;
use gswarm_core::*;
use serde_json::{Map, Value, json};
use std::io::Write;

pub struct Source<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    Error,
    Warning,
}
pub struct Diagnostic {
    pub severity: Severity,
    pub text: String,
}
pub struct Reading {
    pub scenario: Option<Scenario>,
    pub diagnostics: Vec<Diagnostic>,
}
pub fn render(d: &[Diagnostic]) -> String {
    d.iter().map(|d| format!("{:?}[E000]: {}\n", d.severity, d.text)).collect()
}
fn value(s: &Source<'_>) -> Result<Value, String> {
    let t = std::str::from_utf8(s.bytes).map_err(|e| e.to_string())?;
    serde_json::from_str(t).or_else(|_| serde_saphyr::from_str(t).map_err(|e| e.to_string()))
}
fn config(v: &Value, sc: &mut Scenario) -> Result<(), String> {
    for (id, m) in v["models"].as_object().ok_or("no models")? {
        let f = |k: &str| m[k].as_f64();
        sc.models.push(ModelSpec {
            id: id.clone(),
            name: id.clone(),
            memory_gb: f("memory_gb").ok_or("memory_gb")?,
            gpus_required: f("gpus_required").ok_or("gpus_required")? as u32,
            load_time_seconds: f("load_time_seconds").ok_or("load_time")?,
            tokens_per_second: f("tokens_per_second"),
            token_mean: f("token_mean"),
            token_std: f("token_std"),
            inference_time_mean: f("inference_time_mean"),
            inference_time_std: f("inference_time_std"),
            config: m["config"].as_object().cloned().unwrap_or_default(),
            ..Default::default()
        });
    }
    let strings = |v: &Value| -> Vec<String> {
        v.as_array().into_iter().flatten().filter_map(|s| s.as_str().map(Into::into)).collect()
    };
    for (id, w) in v["workflows"].as_object().ok_or("no workflows")? {
        let mut spec = WorkflowSpec { id: id.clone(), name: id.clone(), ..Default::default() };
        for n in w["nodes"].as_array().ok_or("no nodes")? {
            let model = sc
                .models
                .iter()
                .position(|m| n["model"] == m.id)
                .ok_or_else(|| format!("unknown model {}", n["model"]))?;
            spec.nodes.push(NodeSpec {
                id: n["id"].as_str().ok_or("id")?.into(),
                model: model.into(),
                inputs: strings(&n["inputs"]),
                outputs: strings(&n["outputs"]),
                config_options: strings(&n["config_options"]),
            });
        }
        for e in w["edges"].as_array().into_iter().flatten() {
            let at = |k: &str| spec.nodes.iter().position(|n| e[k] == n.id).map(|i| i as u32).ok_or("edge");
            spec.edges.push((at("from")?, at("to")?));
        }
        sc.workflows.push(spec);
    }
    sc.cluster.gpus = v["cluster"]["gpus"].as_u64().map(|g| g as u32);
    sc.cluster.gpus_per_server = v["cluster"]["gpus_per_server"].as_u64().map(|g| g as u32);
    Ok(())
}
fn reading(r: Result<Scenario, String>) -> Reading {
    match r {
        Ok(s) => Reading { scenario: Some(s), diagnostics: vec![] },
        Err(text) => {
            Reading { scenario: None, diagnostics: vec![Diagnostic { severity: Severity::Error, text }] }
        }
    }
}
pub fn read_config(c: Source<'_>) -> Reading {
    reading((|| {
        let mut sc = Scenario::default();
        config(&value(&c)?, &mut sc)?;
        Ok(sc)
    })())
}
pub fn read_scenario(c: Source<'_>, r: Source<'_>, _: Mode) -> Reading {
    reading((|| {
        let mut sc = Scenario::default();
        config(&value(&c)?, &mut sc)?;
        for q in value(&r)?["requests"].as_array().ok_or("no requests")? {
            let w = sc
                .workflows
                .iter()
                .position(|w| q["workflow_id"] == w.id)
                .ok_or_else(|| format!("unknown workflow {}", q["workflow_id"]))?;
            let times = sc.workflows[w]
                .nodes
                .iter()
                .map(|n| q["node_execution_times"][&n.id].as_f64().map(Span::from_seconds))
                .collect();
            sc.requests.push(RequestSpec {
                id: q["request_id"].as_str().ok_or("id")?.into(),
                timestamp: None,
                workflow: w.into(),
                times,
                priority: 0,
                deadline: None,
                input_data: Map::new(),
                node_configs: Map::new(),
                metadata: Value::Null,
            });
        }
        Ok(sc)
    })())
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    Baseline,
    Offline,
}
#[derive(Clone, Debug)]
pub struct PolicyParams {
    pub seed: u64,
    pub alpha: f64,
    pub beta: f64,
    pub gamma: f64,
    pub delta: f64,
    pub lookahead: u32,
}
impl Default for PolicyParams {
    fn default() -> Self {
        PolicyParams { seed: 0, alpha: 1.0, beta: 1.5, gamma: 0.3, delta: 0.5, lookahead: 3 }
    }
}
pub trait Policy {}
struct P;
impl Policy for P {}
impl PolicyKind {
    pub const ALL: &[PolicyKind] = &[PolicyKind::Baseline, PolicyKind::Offline];
    pub fn name(self) -> &'static str {
        if self == PolicyKind::Baseline { "baseline" } else { "offline" }
    }
    pub fn about(self) -> &'static str {
        "first come, first served"
    }
    pub fn modes(self) -> &'static [Mode] {
        if self == PolicyKind::Baseline { &[Mode::Offline, Mode::Online] } else { &[Mode::Offline] }
    }
    pub fn supports(self, m: Mode) -> bool {
        self.modes().contains(&m)
    }
    pub fn residency(self, r: Residency) -> Residency {
        r
    }
    pub fn build<'i>(self, _: &'i Instance, _: &PolicyParams) -> Box<dyn Policy + 'i> {
        Box::new(P)
    }
}
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub fail_rate: f64,
    pub seed: u64,
    pub lose: Vec<(Time, GpuId)>,
}
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub max_attempts: u32,
    pub faults: Faults,
}
impl Default for SimOptions {
    fn default() -> Self {
        SimOptions { max_attempts: 3, faults: Faults::default() }
    }
}
pub struct Progress {
    pub done: usize,
    pub total: usize,
    pub now: Time,
}
#[derive(Debug)]
pub struct SimError(bool);
impl std::fmt::Display for SimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stalled")
    }
}
impl SimError {
    pub fn is_infeasible(&self) -> bool {
        self.0
    }
}
pub fn simulate(
    i: &Instance,
    _: &mut dyn Policy,
    o: &SimOptions,
    p: &mut dyn FnMut(Progress),
) -> Result<ExecutionLog, SimError> {
    if o.faults.lose.len() as u32 >= i.cluster.gpus {
        return Err(SimError(true));
    }
    let mut log = ExecutionLog::default();
    let mut now = Time::ZERO;
    for r in 0..i.requests.len() {
        let req = &i.requests[RequestId::from(r)];
        for &n in &i.workflows[req.workflow].order {
            let task = TaskId(req.first_task.0 + n);
            let ready = now;
            let end = now + i.execution(task);
            log.executions.push(Execution {
                task,
                gpus: Gpus::new(0, i.models[i.model_of(task)].gpus),
                attempt: 1,
                batch: 1,
                status: Status::Completed,
                ready,
                switch: Span::ZERO,
                start: now,
                end,
                evicted: Box::default(),
            });
            now = end;
            p(Progress { done: log.executions.len(), total: i.tasks(), now });
        }
    }
    Ok(log)
}
pub fn lower_bound(i: &Instance) -> Span {
    i.task_ids().map(|t| i.execution(t)).max().unwrap_or_default()
}
#[derive(serde::Serialize)]
pub struct Latency {
    pub mean: f64,
    pub p99: f64,
}
#[derive(serde::Serialize)]
pub struct Metrics {
    pub makespan: f64,
    pub request_latency: Latency,
    pub mean_utilisation: f64,
}
pub fn metrics(_: &Instance, l: &ExecutionLog) -> Metrics {
    Metrics {
        makespan: l.executions.last().map_or(0.0, |e| e.end.seconds()),
        request_latency: Latency { mean: 1.0, p99: 2.0 },
        mean_utilisation: 0.5,
    }
}
pub fn render_text(_: &Instance, m: &Metrics, _: &Summary) -> String {
    format!("Makespan: {:.2} s\n", m.makespan)
}
pub fn write_events(i: &Instance, l: &ExecutionLog, out: &mut impl Write) -> std::io::Result<()> {
    for e in &l.executions {
        writeln!(
            out,
            "[{}] Completed node {} of request {} on GPU(s) {}",
            e.end,
            i.workflow_of(e.task).nodes[i.node_of(e.task) as usize],
            i.requests[i.request_of(e.task)].name,
            e.gpus
        )?;
    }
    Ok(())
}
pub struct Summary {
    pub total_requests: u64,
    pub completed_requests: u64,
    pub total_nodes_executed: u64,
    pub makespan: Span,
    pub model_switches: u64,
    pub lower_bound: Option<Span>,
}
impl Summary {
    pub fn gap_percent(&self) -> Option<f64> {
        self.lower_bound.map(|b| (self.makespan.seconds() / b.seconds() - 1.0) * 100.0)
    }
    pub fn of(i: &Instance, l: &ExecutionLog, _: &str, _: Option<u64>, b: Option<Span>) -> Summary {
        Summary {
            total_requests: i.requests.len() as u64,
            completed_requests: i.requests.len() as u64,
            total_nodes_executed: l.executions.len() as u64,
            makespan: l.executions.last().map_or(Span::ZERO, |e| e.end.since(Time::ZERO)),
            model_switches: 0,
            lower_bound: b,
        }
    }
}
pub fn write_json(i: &Instance, l: &ExecutionLog, s: &Summary, out: &mut impl Write) -> std::io::Result<()> {
    let list: Vec<_> =
        l.executions.iter().map(|e| json!({"task": e.task.0, "end_time": e.end.seconds()})).collect();
    writeln!(
        out,
        "{:#}",
        json!({"schema": 1, "summary": {"makespan": s.makespan.seconds()}, "executions": list})
    )
}
pub fn write_jsonl(i: &Instance, l: &ExecutionLog, s: &Summary, out: &mut impl Write) -> std::io::Result<()> {
    write_json(i, l, s, out)
}
pub struct LogFile {
    pub executions: Vec<Value>,
}
impl LogFile {
    pub fn read_bytes(b: &[u8]) -> LogFile {
        let v: Value = serde_json::from_slice(b).unwrap_or_default();
        LogFile { executions: v["executions"].as_array().cloned().unwrap_or_default() }
    }
    pub fn mode(&self) -> Option<Mode> {
        None
    }
    pub fn cluster(&self, s: &ClusterSpec) -> (Cluster, Vec<String>) {
        (Cluster::from_spec(&ClusterSpec { gpus: s.gpus.or(Some(8)), ..s.clone() }).unwrap(), vec![])
    }
}
pub struct Violation;
pub fn check(i: &Instance, f: &LogFile) -> Vec<Violation> {
    if f.executions.len() == i.tasks() { vec![] } else { vec![Violation] }
}
pub fn check_log(_: &Instance, _: &ExecutionLog, _: Option<&Summary>) -> Vec<Violation> {
    vec![]
}
pub fn render_violations(v: &[Violation]) -> String {
    if v.is_empty() { "no violation\n".into() } else { "V001 nodes are missing\n".into() }
}
pub fn violations_to_json(v: &[Violation]) -> Value {
    json!(vec!["V001"; v.len()])
}
