//! How many calls the server of a model runs at once, where the configuration has no `batching`: queried from the
//! server, read from its command line, or the default of its kind.

use crate::backend::{BackendSpec, BackendsFile, Http, HttpLimits, ServerSpec, Timeouts};
use gswarm_core::input::{BatchingSpec, Scenario};
use serde_json::Value;
use std::time::Duration;

/// How many calls a model's server runs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// So many.
    pub calls: u32,
    /// Who says so, for people.
    pub source: String,
}

/// How long a server may take to say it.
const PATIENCE: Duration = Duration::from_secs(2);
/// vLLM's default of `--max-num-seqs`.
const VLLM: u32 = 256;
/// What SGLang and servers that say nothing are taken to run.
const USUAL: u32 = 32;
/// What gswarm's own engine runs.
pub const OWN: u32 = 8;
/// How much calls at once slow one another down, as servers of language models usually do. `--learn` and `gswarm calibrate`
/// know better.
const CURVE: [(u32, f64); 5] = [(1, 1.0), (8, 1.2), (32, 1.8), (256, 6.0), (1024, 20.0)];

impl Capacity {
    fn of(calls: u32, source: impl Into<String>) -> Capacity {
        Capacity { calls: calls.max(1), source: source.into() }
    }

    /// As the configuration would say it.
    #[must_use]
    pub fn batching(&self) -> BatchingSpec {
        let mut points: Vec<(u32, f64)> =
            CURVE.iter().copied().filter(|&(calls, _)| calls < self.calls).collect();
        let (before, slow) = points.last().copied().unwrap_or((1, 1.0));
        let next = CURVE.iter().find(|&&(calls, _)| calls >= self.calls);
        let (after, slower) = next.copied().unwrap_or(CURVE[CURVE.len() - 1]);
        let share = f64::from(self.calls - before) / f64::from((after - before).max(1));
        points.push((self.calls, slow + (slower - slow) * share.min(1.0)));
        points.dedup_by_key(|point| point.0);
        BatchingSpec::new(self.calls, points)
    }
}

/// Gives every model without `batching` that of its server, and says what was done: the model, the calls and the source. `fixed`
/// are numbers that somebody has given: of a model, or of all (no name). `file` are the servers; without them models run in
/// this process.
pub async fn fill(
    scenario: &mut Scenario,
    file: Option<&BackendsFile>,
    fixed: &[(Option<String>, u32)],
) -> Vec<(String, Capacity)> {
    let mut said = Vec::new();
    for model in &mut scenario.models {
        let of_model = fixed.iter().rev().find(|(name, _)| name.as_deref() == Some(model.id.as_str()));
        let given = of_model.or_else(|| fixed.iter().rev().find(|(name, _)| name.is_none()));
        let capacity = match (given, &model.batching, file) {
            (Some(&(_, calls)), ..) => Some(Capacity::of(calls, "given")),
            (None, Some(_), _) => None,
            (None, None, None) => Some(Capacity::of(OWN, "gswarm's engine")),
            (None, None, Some(file)) => learn(file, &model.id).await,
        };
        match (capacity, &mut model.batching) {
            // A curve that somebody gave stays; only its end moves.
            (Some(capacity), Some(batching)) => {
                batching.max_batch = capacity.calls;
                said.push((model.id.clone(), capacity));
            }
            (Some(capacity), none) => {
                if capacity.calls > 1 {
                    *none = Some(capacity.batching());
                }
                said.push((model.id.clone(), capacity));
            }
            (None, Some(batching)) => {
                said.push((model.id.clone(), Capacity::of(batching.max_batch, "configuration")));
            }
            (None, None) => {}
        }
    }
    said
}

/// What the first server that has a model says; the least where several differ is not asked for.
async fn learn(file: &BackendsFile, model: &str) -> Option<Capacity> {
    let serves = |spec: &&BackendSpec| spec.models.is_empty() || spec.models.contains_key(model);
    let spec = file.backends.iter().find(serves)?;
    let url = spec.models.get(model).and_then(|at| at.url.as_deref()).or(spec.endpoint.url.as_deref());
    match &spec.server {
        ServerSpec::Emulated(_) => None,
        ServerSpec::Gswarm(_) => Some(Capacity::of(OWN, "gswarm's engine")),
        ServerSpec::Command(command) => Some(of_command(&command.command)),
        ServerSpec::Vllm(_) => {
            let asked = ask(spec, url, "/server_info", |said| number_in(said, "max_num_seqs")).await;
            Some(asked.unwrap_or_else(|| Capacity::of(VLLM, "vLLM's default")))
        }
        ServerSpec::Sglang(_) => {
            let asked =
                ask(spec, url, "/get_server_info", |said| number_in(said, "max_running_requests")).await;
            Some(asked.unwrap_or_else(|| Capacity::of(USUAL, "assumed")))
        }
        ServerSpec::LlamaCpp(_) => {
            let asked = ask(spec, url, "/props", |said| number_in(said, "total_slots")).await;
            Some(asked.unwrap_or_else(|| Capacity::of(1, "llama.cpp does not say")))
        }
        ServerSpec::Ollama(_) => {
            let set = std::env::var("OLLAMA_NUM_PARALLEL").ok().and_then(|text| text.trim().parse().ok());
            Some(set.map_or_else(
                || Capacity::of(1, "Ollama's default"),
                |calls| Capacity::of(calls, "OLLAMA_NUM_PARALLEL"),
            ))
        }
        ServerSpec::OpenAi(_) => Some(Capacity::of(USUAL, "assumed")),
        ServerSpec::KServe(_) => Some(Capacity::of(1, "assumed")),
    }
}

/// What a command line says, or its program usually does.
fn of_command(command: &[String]) -> Capacity {
    const FLAGS: [&str; 4] = ["--max-num-seqs", "--max-running-requests", "--parallel", "-np"];
    for (at, word) in command.iter().enumerate() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word.as_str(), command.get(at + 1).map(String::as_str)),
        };
        if let (true, Some(calls)) = (FLAGS.contains(&flag), value.and_then(|value| value.parse().ok())) {
            return Capacity::of(calls, flag);
        }
    }
    let has = |name: &str| {
        command.iter().any(|word| word.rsplit('/').next().is_some_and(|last| last.starts_with(name)))
    };
    match () {
        () if has("vllm") => Capacity::of(VLLM, "vLLM's default"),
        () if has("sglang") => Capacity::of(USUAL, "assumed"),
        () if has("llama-server") => Capacity::of(1, "no --parallel"),
        () => Capacity::of(1, "the command does not say"),
    }
}

async fn ask(
    spec: &BackendSpec,
    url: Option<&str>,
    path: &str,
    read: impl Fn(&Value) -> Option<u64>,
) -> Option<Capacity> {
    let token = spec.endpoint.token_env.as_deref().and_then(|name| std::env::var(name).ok());
    let limits = HttpLimits { answer: PATIENCE, connect: PATIENCE, ..HttpLimits::from(&Timeouts::default()) };
    let http = Http::new(url?, token.as_deref(), limits).ok()?;
    let said = http.get(path).await.ok()?;
    let calls = u32::try_from(read(&said)?).ok().filter(|&calls| calls > 0)?;
    Some(Capacity::of(calls.min(1 << 16), path))
}

/// A number of this name, wherever it stands; servers move it about between versions.
fn number_in(value: &Value, name: &str) -> Option<u64> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .and_then(Value::as_u64)
            .or_else(|| fields.values().find_map(|inner| number_in(inner, name))),
        Value::Array(list) => list.iter().find_map(|inner| number_in(inner, name)),
        // Some print their settings as one text.
        Value::String(text) => {
            let (_, rest) = text.split_once(&format!("{name}="))?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn commands_say_how_many_calls_they_run() {
        for (line, calls) in [
            ("vllm serve m --port 1 --max-num-seqs 64", 64),
            ("python -m sglang.launch_server --max-running-requests=12", 12),
            ("/opt/bin/llama-server -m x.gguf -np 4", 4),
            ("llama-server --parallel 6 -m x", 6),
            ("llama-server -m x", 1),
            ("/usr/bin/vllm serve m", 256),
            ("my-server --parallel many", 1),
        ] {
            assert_eq!(of_command(&words(line)).calls, calls, "{line}");
        }
    }

    #[test]
    fn servers_say_it_in_many_places() {
        assert_eq!(number_in(&json!({"total_slots": 4}), "total_slots"), Some(4));
        let nested = json!({"internal_states": [{"max_running_requests": 7}]});
        assert_eq!(number_in(&nested, "max_running_requests"), Some(7));
        let printed = json!({"vllm_config": "Config(max_num_seqs=96, seed=0)"});
        assert_eq!(number_in(&printed, "max_num_seqs"), Some(96));
        assert_eq!(number_in(&json!({"x": [1, "y"]}), "max_num_seqs"), None);
    }

    #[test]
    fn curves_are_valid_for_every_capacity() {
        for calls in [1, 2, 7, 8, 9, 32, 100, 256, 1000, 1024, 4000] {
            let curve = Capacity::of(calls, "").batching();
            assert_eq!(curve.slowdown.first(), Some(&(1, 1.0)), "{calls}");
            assert_eq!((curve.max_batch, curve.slowdown.last().unwrap().0), (calls, calls));
            let rises = |pair: &[(u32, f64)]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
            assert!(curve.slowdown.windows(2).all(rises), "{curve:?}");
        }
    }

    #[tokio::test]
    async fn what_somebody_says_wins() {
        let config = "models:\n  a: {memory_gb: 1, gpus_required: 1, load_time_seconds: 1, inference_time_mean: 1}\n  \
                      b: {memory_gb: 1, gpus_required: 1, load_time_seconds: 1, inference_time_mean: 1, \
                      batching: {max_batch: 4, slowdown: [[1, 1.0], [4, 2.0]]}}\n\
                      workflows: {w: {nodes: [{id: n, model: a}], edges: []}}\n";
        let source = gswarm_core::input::Source { name: "config", bytes: config.as_bytes() };
        let scenario = gswarm_core::input::read_config(source).scenario.unwrap();
        let calls = |scenario: &Scenario| {
            scenario
                .models
                .iter()
                .map(|model| model.batching.as_ref().map(|it| it.max_batch))
                .collect::<Vec<_>>()
        };
        let mut own = scenario.clone();
        let said = fill(&mut own, None, &[]).await;
        assert_eq!(calls(&own), [Some(OWN), Some(4)]);
        assert_eq!(said[1].1, Capacity::of(4, "configuration"));
        let mut told = scenario.clone();
        fill(&mut told, None, &[(None, 3), (Some("b".to_owned()), 2)]).await;
        assert_eq!(calls(&told), [Some(3), Some(2)]);
        let mut one = scenario;
        fill(&mut one, None, &[(None, 1)]).await;
        assert_eq!(calls(&one), [None, Some(1)]);
    }
}
