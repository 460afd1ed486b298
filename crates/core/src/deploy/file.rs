//! Deployments as files: JSON or YAML, with names, made to be read and changed by hand.

use super::{Demand, Outlook, ThroughputLimit};
use crate::cost;
use crate::deploy::LimitedBy;
use crate::id::{GpuId, Gpus, IdVec, ModelId};
use crate::input::{ClusterSpec, Code};
use crate::instance::{Deployment, Instance, Routing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the form of deployment files.
pub const DEPLOYMENT_SCHEMA: u32 = 1;

/// Where models are kept, for which demand, and what is expected of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentFile {
    /// The version of this form: 1.
    #[schemars(range(min = 1, max = 1))]
    pub schema: u32,
    /// Number of GPUs.
    #[schemars(range(min = 1, max = 1_048_576))]
    pub gpus: u32,
    /// GPUs of one server; all are in one where it is missing.
    #[schemars(range(min = 1, max = 1_048_576))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_server: Option<u32>,
    /// Memory of one GPU in GB.
    #[schemars(extend("exclusiveMinimum" = 0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory_gb: Option<f64>,
    /// What a request does whose server is busy.
    #[serde(default = "whole")]
    pub routing: Routing,
    /// Each model with its replicas.
    pub models: BTreeMap<String, DeployedModel>,
    /// Wishes that the placement has to keep to.
    #[serde(default, skip_serializing_if = "ModelGroups::is_empty")]
    pub groups: ModelGroups,
    /// The demand that it was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_for: Option<DeployedFor>,
    /// What is expected of it under that demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<DeploymentForecast>,
}

fn whole() -> Routing {
    Routing::Whole
}

/// A model of a deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployedModel {
    /// Its replicas.
    pub replicas: Vec<DeployedReplica>,
}

/// A replica of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployedReplica {
    /// Its window: consecutive GPUs, as many as the model needs.
    pub gpus: Vec<u32>,
    /// The share of the model's work that it is expected to get.
    #[schemars(range(min = 0, max = 1))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<f64>,
    /// Executions at once that its GPUs have room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
}

/// Wishes about which models share servers and GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelGroups {
    /// Models that live together: a server that holds one of them holds all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Vec<String>>,
    /// Models that live apart: no GPU holds two of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Vec<String>>,
}

impl ModelGroups {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.together.is_empty() && self.apart.is_empty()
    }
}

named! {
    /// What the numbers of a demand count.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum DemandUnit {
        /// Requests of a batch, or of a sample.
        Requests = "requests",
        /// Requests of a second.
        PerSecond = "per_second",
    }
}

/// The demand that a deployment was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeployedFor {
    /// What the numbers count.
    pub unit: DemandUnit,
    /// Of each workflow, how many.
    pub workflows: BTreeMap<String, f64>,
}

/// What is expected of a deployment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentForecast {
    /// Requests that it can finish in a second, in the mix that it was made for.
    pub requests_per_second: f64,
    /// No placement on these GPUs finishes more.
    pub at_most: f64,
    /// What keeps placements from more.
    pub limited_by: LimitedBy,
    /// Share of the requests that stay on one server.
    #[schemars(range(min = 0, max = 1))]
    pub server_efficiency: f64,
    /// Edges of workflows between servers, for each request on average.
    pub edges_across: f64,
    /// How busy each GPU is at that throughput, from 0 to 1.
    pub gpu_load: Vec<f64>,
}

/// Something wrong with a deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct DeploymentFault {
    /// Where in the file, such as `models.llm7b.replicas[0].gpus`.
    pub path: String,
    /// What kind of fault it is.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// What to do, where more can be said than the code says.
    pub hint: Option<String>,
}

impl DeploymentFile {
    /// A deployment with the names of its models, and what is expected of it.
    #[must_use]
    pub fn of(
        instance: &Instance,
        demand: &Demand,
        unit: DemandUnit,
        deployment: &Deployment,
    ) -> DeploymentFile {
        let outlook = Outlook::of(instance, demand, deployment);
        let limit = ThroughputLimit::of(instance, demand);
        let requests = demand.requests();
        let mut models: BTreeMap<String, DeployedModel> = BTreeMap::new();
        let mut weights: IdVec<GpuId, u64> = vec![0; instance.cluster.gpus as usize].into();
        for &(model, gpus) in &deployment.replicas {
            gpus.iter().for_each(|gpu| weights[gpu] += instance.models[model].memory_per_gpu);
        }
        for (&(model, gpus), &traffic) in deployment.replicas.iter().zip(&outlook.traffic) {
            let spec = &instance.models[model];
            let replica = DeployedReplica {
                gpus: gpus.iter().map(|gpu| gpu.0).collect(),
                traffic: Some(rounded(traffic.min(1.0))),
                slots: Some(slots(instance, model, gpus, &weights)),
            };
            models.entry(spec.name.clone()).or_default().replicas.push(replica);
        }
        models.values_mut().for_each(|model| model.replicas.sort_by(|a, b| a.gpus.cmp(&b.gpus)));
        let workflows = demand.flows.iter();
        let workflows =
            workflows.map(|flow| (instance.workflows[flow.workflow].name.clone(), flow.requests)).collect();
        let busiest = outlook.busiest.max(1e-12);
        DeploymentFile {
            schema: DEPLOYMENT_SCHEMA,
            gpus: instance.cluster.gpus,
            gpus_per_server: instance.cluster.gpus_per_server,
            gpu_memory_gb: Some(instance.cluster.gpu_memory_gb),
            routing: deployment.routing,
            models,
            groups: ModelGroups::default(),
            made_for: Some(DeployedFor { unit, workflows }),
            predicted: (requests > 0.0).then(|| DeploymentForecast {
                requests_per_second: significant(requests / busiest),
                at_most: significant(requests * limit.times_a_second),
                limited_by: limit.by,
                server_efficiency: rounded(outlook.whole.min(1.0)),
                edges_across: rounded(outlook.edges_across),
                gpu_load: outlook.load.iter().map(|load| rounded(load / busiest)).collect(),
            }),
        }
    }

    /// The cluster that it is for.
    #[must_use]
    pub fn cluster(&self) -> ClusterSpec {
        ClusterSpec {
            gpus: Some(self.gpus),
            gpus_per_server: self.gpus_per_server,
            gpu_memory_gb: self.gpu_memory_gb,
            ..ClusterSpec::default()
        }
    }

    /// The deployment for a problem, whose models it names.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn resolve(&self, instance: &Instance) -> Result<Deployment, Vec<DeploymentFault>> {
        let mut reader = Reader { instance, faults: Vec::new(), replicas: Vec::new() };
        reader.cluster(self);
        if reader.faults.is_empty() {
            reader.replicas(self);
            reader.memory(self);
            reader.groups(&self.groups);
            reader.all_used(self);
        }
        let Reader { faults, mut replicas, .. } = reader;
        replicas.sort_unstable();
        if faults.is_empty() {
            Ok(Deployment { replicas, fits: true, routing: self.routing })
        } else {
            Err(faults)
        }
    }
}

/// To a ten-thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// To six digits.
fn significant(value: f64) -> f64 {
    let scale = 10f64.powi(5 - value.abs().max(1e-12).log10().floor() as i32);
    (value * scale).round() / scale
}

/// Executions of a model at once that its window has room for beside all weights.
fn slots(instance: &Instance, model: ModelId, gpus: Gpus, weights: &IdVec<GpuId, u64>) -> u32 {
    let spec = &instance.models[model];
    if spec.slot_per_gpu == 0 {
        return spec.max_batch();
    }
    let room = cost::megabytes(instance.cluster.gpu_memory_gb);
    let free = gpus.iter().map(|gpu| room.saturating_sub(weights[gpu]) / spec.slot_per_gpu).min();
    spec.max_batch().min(free.unwrap_or(0) as u32)
}

struct Reader<'i> {
    instance: &'i Instance,
    faults: Vec<DeploymentFault>,
    replicas: Vec<(ModelId, Gpus)>,
}

impl Reader<'_> {
    fn fault(&mut self, code: Code, path: impl Into<String>, message: String) {
        self.faults.push(DeploymentFault { path: path.into(), code, message, hint: None });
    }

    fn cluster(&mut self, file: &DeploymentFile) {
        let cluster = &self.instance.cluster;
        if file.gpus != cluster.gpus {
            let message =
                format!("the deployment is for {} GPUs, but the run has {}", file.gpus, cluster.gpus);
            self.fault(Code::BadPlacement, "gpus", message);
        }
        let per = |per: Option<u32>| per.unwrap_or(cluster.gpus);
        if per(file.gpus_per_server) != per(cluster.gpus_per_server) {
            let message = format!(
                "the deployment is for servers of {} GPUs, but those of the run have {}",
                per(file.gpus_per_server),
                per(cluster.gpus_per_server)
            );
            self.fault(Code::BadPlacement, "gpus_per_server", message);
        }
    }

    fn model(&self, name: &str) -> Option<ModelId> {
        self.instance.models.iter_enumerated().find(|(_, model)| model.name == name).map(|(id, _)| id)
    }

    fn known(&self) -> Vec<&str> {
        self.instance.models.iter().map(|model| model.name.as_str()).collect()
    }

    fn unknown(&mut self, path: String, name: &str) {
        let nearest = self.known().into_iter().min_by_key(|known| strsim::levenshtein(known, name));
        let hint = nearest.map(|nearest| format!("did you mean `{nearest}`?"));
        let message = format!("unknown model `{name}`");
        self.faults.push(DeploymentFault { path, code: Code::UnknownModel, message, hint });
    }

    fn replicas(&mut self, file: &DeploymentFile) {
        for (name, model) in &file.models {
            let Some(id) = self.model(name) else {
                self.unknown(format!("models.{name}"), name);
                continue;
            };
            for (place, replica) in model.replicas.iter().enumerate() {
                let path = format!("models.{name}.replicas[{place}].gpus");
                let spec = &self.instance.models[id];
                let first = replica.gpus.first().copied().unwrap_or(u32::MAX);
                let consecutive = replica.gpus.iter().copied().eq((first..).take(spec.gpus as usize));
                let window = Gpus::new(first, spec.gpus);
                if first < file.gpus && consecutive && spec.starts.contains(window.first) {
                    if self.replicas.contains(&(id, window)) {
                        self.fault(Code::Duplicate, path, format!("`{name}` is on GPUs {window} already"));
                    } else if let Some((_, other)) = self
                        .replicas
                        .iter()
                        .find(|&&(of, other)| of == id && other.iter().any(|gpu| window.contains(gpu)))
                    {
                        let message = format!("two replicas of `{name}` share GPUs: {window} and {other}");
                        self.fault(Code::BadPlacement, path, message);
                    } else {
                        self.replicas.push((id, window));
                    }
                } else {
                    let needs = spec.gpus;
                    let what = if needs == 1 {
                        "one GPU".to_owned()
                    } else {
                        format!("{needs} consecutive GPUs of one server")
                    };
                    let message = format!(
                        "`{name}` cannot be on GPUs {:?}: it needs {what}, and the GPUs are 0 to {}",
                        replica.gpus,
                        file.gpus - 1
                    );
                    self.fault(Code::BadPlacement, path, message);
                }
            }
        }
    }

    fn memory(&mut self, file: &DeploymentFile) {
        let room = cost::megabytes(self.instance.cluster.gpu_memory_gb);
        let mut on: BTreeMap<GpuId, Vec<ModelId>> = BTreeMap::new();
        for &(model, gpus) in &self.replicas {
            gpus.iter().for_each(|gpu| on.entry(gpu).or_default().push(model));
        }
        let mut told: BTreeSet<Vec<ModelId>> = BTreeSet::new();
        for (gpu, models) in on {
            let specs = || models.iter().map(|&model| &self.instance.models[model]);
            let weights: u64 = specs().map(|spec| spec.memory_per_gpu).sum();
            let slot = specs().map(|spec| spec.slot_per_gpu).max().unwrap_or(0);
            if weights + slot <= room || !told.insert(models.clone()) {
                continue;
            }
            let names: Vec<&str> = specs().map(|spec| spec.name.as_str()).collect();
            let last = names.last().copied().unwrap_or_default();
            let path = format!("models.{last}");
            let path = if file.models.contains_key(last) { path } else { String::new() };
            let message = format!(
                "GPU {} cannot hold {} at once: they need {:.1} GB with room for one execution, and it has {:.1} GB",
                gpu.0,
                names.join(", "),
                (weights + slot) as f64 / 1e3,
                room as f64 / 1e3
            );
            self.fault(Code::NoRoom, path, message);
        }
    }

    fn groups(&mut self, groups: &ModelGroups) {
        for (kind, list) in [("together", &groups.together), ("apart", &groups.apart)] {
            for (place, names) in list.iter().enumerate() {
                let path = format!("groups.{kind}[{place}]");
                let ids: Vec<Option<ModelId>> = names.iter().map(|name| self.model(name)).collect();
                for (name, id) in names.iter().zip(&ids) {
                    if id.is_none() {
                        self.unknown(path.clone(), name);
                    }
                }
                let ids: Vec<ModelId> = ids.into_iter().flatten().collect();
                if kind == "together" { self.together(&path, &ids) } else { self.apart(&path, &ids) }
            }
        }
    }

    fn together(&mut self, path: &str, models: &[ModelId]) {
        let cluster = &self.instance.cluster;
        let holds = |server: u32, model: ModelId| {
            self.replicas.iter().any(|&(of, gpus)| of == model && cluster.server_of(gpus.first.0) == server)
        };
        let name = |model: ModelId| &self.instance.models[model].name;
        let broken = (0..cluster.servers()).find_map(|server| {
            let there = models.iter().copied().find(|&model| holds(server, model))?;
            let missing = models.iter().copied().find(|&model| !holds(server, model))?;
            Some(format!("server {server} holds `{}` without `{}`", name(there), name(missing)))
        });
        if let Some(message) = broken {
            self.fault(Code::BrokenGroup, path, message);
        }
    }

    fn apart(&mut self, path: &str, models: &[ModelId]) {
        let of_group = || self.replicas.iter().filter(move |(model, _)| models.contains(model));
        let broken = of_group().find_map(|&(a, gpus)| {
            let (b, there) =
                of_group().find(|&&(b, other)| b > a && other.iter().any(|gpu| gpus.contains(gpu)))?;
            let gpu = there.iter().find(|&gpu| gpus.contains(gpu))?;
            let name = |model: ModelId| &self.instance.models[model].name;
            Some(format!("GPU {} holds both `{}` and `{}`", gpu.0, name(a), name(*b)))
        });
        if let Some(message) = broken {
            self.fault(Code::BrokenGroup, path, message);
        }
    }

    /// Every model that the requests use has a replica.
    fn all_used(&mut self, file: &DeploymentFile) {
        let used: BTreeSet<ModelId> =
            self.instance.task_ids().map(|task| self.instance.model_of(task)).collect();
        for model in used {
            let name = self.instance.models[model].name.clone();
            let is_listed = file.models.get(&name).is_some_and(|model| !model.replicas.is_empty());
            if !is_listed {
                let path = if file.models.contains_key(&name) {
                    format!("models.{name}")
                } else {
                    "models".to_owned()
                };
                let message = format!("the requests use model `{name}`, which has no replica");
                self.fault(Code::NoReplica, path, message);
            }
        }
    }
}
