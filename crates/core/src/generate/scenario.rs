//! A scenario as the two files that it would be read from.

use super::requests::in_order;
use super::write::{Format, write_list, yaml};
use crate::input::{ClusterSpec, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Writes the configuration of a scenario.
pub fn write_config(scenario: &Scenario, format: Format, out: &mut dyn Write) -> io::Result<()> {
    let file = ConfigOut {
        models: scenario.models.iter().map(|model| (model.id.as_str(), model)).collect(),
        workflows: scenario
            .workflows
            .iter()
            .map(|workflow| (workflow.id.as_str(), WorkflowOut::of(workflow, scenario)))
            .collect(),
        cluster: (scenario.cluster != ClusterSpec::default()).then(|| ClusterOut::of(&scenario.cluster)),
        metadata: &scenario.config_metadata,
    };
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &file)?;
            out.write_all(b"\n")
        }
        Format::Yaml => out.write_all(yaml(&file)?.as_bytes()),
    }
}

/// Writes the requests of a scenario, with time stamps in seconds. The `metadata` of the whole file is left out.
pub fn write_scenario_requests(scenario: &Scenario, format: Format, out: &mut dyn Write) -> io::Result<()> {
    write_list(scenario.requests.iter().map(|request| RequestOut::of(request, scenario)), format, out)
}

#[derive(Serialize)]
struct ConfigOut<'s> {
    #[serde(serialize_with = "in_order")]
    models: Vec<(&'s str, &'s ModelSpec)>,
    #[serde(serialize_with = "in_order")]
    workflows: Vec<(&'s str, WorkflowOut<'s>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterOut>,
    #[serde(skip_serializing_if = "Value::is_null")]
    metadata: &'s Value,
}

#[derive(Serialize)]
struct WorkflowOut<'s> {
    name: &'s str,
    nodes: Vec<NodeOut<'s>>,
    edges: Vec<EdgeOut<'s>>,
}

#[derive(Serialize)]
struct NodeOut<'s> {
    id: &'s str,
    model: &'s str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    inputs: &'s [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    outputs: &'s [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    config_options: &'s [String],
}

#[derive(Serialize)]
struct EdgeOut<'s> {
    from: &'s str,
    to: &'s str,
}

impl<'s> WorkflowOut<'s> {
    fn of(workflow: &'s WorkflowSpec, scenario: &'s Scenario) -> WorkflowOut<'s> {
        let node = |node: &'s NodeSpec| NodeOut {
            id: &node.id,
            model: &scenario.models[node.model.index()].id,
            inputs: &node.inputs,
            outputs: &node.outputs,
            config_options: &node.config_options,
        };
        let id = |node: u32| workflow.nodes[node as usize].id.as_str();
        WorkflowOut {
            name: &workflow.name,
            nodes: workflow.nodes.iter().map(node).collect(),
            edges: workflow.edges.iter().map(|&(from, to)| EdgeOut { from: id(from), to: id(to) }).collect(),
        }
    }
}

#[derive(Serialize)]
struct ClusterOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpus_per_server: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_memory_gb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pcie_gb_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_overhead_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    switch_cost: Option<crate::cost::SwitchRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    residency: Option<crate::instance::Residency>,
}

impl ClusterOut {
    fn of(spec: &ClusterSpec) -> ClusterOut {
        ClusterOut {
            gpus: spec.gpus,
            gpus_per_server: spec.gpus_per_server,
            gpu_memory_gb: spec.gpu_memory_gb,
            pcie_gb_per_s: spec.pcie_gb_per_s,
            switch_overhead_seconds: spec.switch_overhead_seconds,
            switch_cost: spec.switch_cost,
            residency: spec.residency,
        }
    }
}

#[derive(Serialize)]
struct RequestOut<'s> {
    request_id: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    workflow_id: &'s str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    input_data: &'s Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    node_configs: &'s Map<String, Value>,
    #[serde(serialize_with = "in_order", skip_serializing_if = "Vec::is_empty")]
    node_execution_times: Vec<(&'s str, f64)>,
    #[serde(skip_serializing_if = "is_usual")]
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Value::is_null")]
    metadata: &'s Value,
}

/// Most requests have no priority.
#[allow(clippy::trivially_copy_pass_by_ref)] // This is how serde asks.
fn is_usual(priority: &i32) -> bool {
    *priority == 0
}

impl<'s> RequestOut<'s> {
    fn of(request: &'s RequestSpec, scenario: &'s Scenario) -> RequestOut<'s> {
        let workflow = &scenario.workflows[request.workflow.index()];
        let times = workflow.nodes.iter().zip(&request.times);
        RequestOut {
            request_id: &request.id,
            timestamp: request.timestamp.map(|micros| micros as f64 / 1e6),
            workflow_id: &workflow.id,
            input_data: &request.input_data,
            node_configs: &request.node_configs,
            node_execution_times: times
                .filter_map(|(node, time)| Some((node.id.as_str(), (*time)?.seconds())))
                .collect(),
            priority: request.priority,
            deadline_seconds: request.deadline.map(crate::Span::seconds),
            metadata: &request.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Source, read_scenario};
    use crate::instance::Mode;

    const CONFIG: &str = r##"{
        "models": {
            "1e3": {"memory_gb": 14, "gpus_required": 2, "load_time_seconds": 30, "unload_time_seconds": 0.5, "inference_time_mean": 8.5,
                    "type": "llm", "batching": {"max_batch": 4, "slowdown": [[1, 1.0], [4, 1.5]]},
                    "config": {"width": [512, 768]}, "memory_gb_per_slot": 0.5},
            "yes: no": {"name": "two\nlines", "memory_gb": 1e-9, "gpus_required": 1, "load_time_seconds": 0.25,
                        "token_mean": 3, "tokens_per_second": 7, "base_model": "1e3"}},
        "workflows": {"全": {"name": "- a", "nodes": [
            {"id": "null", "model": "1e3", "inputs": ["x"], "outputs": ["y"], "config_options": ["width"]},
            {"id": "#2", "model": "yes: no"}], "edges": [{"from": "null", "to": "#2"}]}},
        "cluster": {"gpus": 3, "switch_cost": "load_time", "residency": "memory", "pcie_gb_per_s": 20}}"##;
    const REQUESTS: &str = r##"{"requests": [
        {"request_id": "007", "timestamp": 12.345678, "workflow_id": "全", "priority": -2, "deadline_seconds": 9,
         "node_execution_times": {"#2": 0.000001}, "node_configs": {"null": {"width": 512, "text": "a: b\n - c"}},
         "input_data": {"x": "true"}, "metadata": {"from": [1, null]}},
        {"request_id": "~", "timestamp": 0, "workflow_id": "全"}]}"##;

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        let read = |config: &[u8], requests: &[u8]| {
            let (config, requests) =
                (Source { name: "config", bytes: config }, Source { name: "requests", bytes: requests });
            let reading = read_scenario(config, requests, Mode::Online);
            assert_eq!(reading.diagnostics, []);
            reading.scenario.unwrap()
        };
        let scenario = read(CONFIG.as_bytes(), REQUESTS.as_bytes());
        for format in [Format::Json, Format::Yaml] {
            let (mut config, mut requests) = (Vec::new(), Vec::new());
            write_config(&scenario, format, &mut config).unwrap();
            write_scenario_requests(&scenario, format, &mut requests).unwrap();
            assert_eq!(format!("{:?}", read(&config, &requests)), format!("{scenario:?}"));
        }
    }
}
