//! On which GPUs an emulated instance stands.

use super::devices::{Devices, WantedDevices};
use super::registry::PlacedModel;
use crate::fault::Fault;
use gswarm_core::input::{ClusterSpec, ModelSpec};
use std::collections::BTreeMap;

/// GPUs where nobody said how many there are.
const USUAL_GPUS: u32 = 8;

/// What is on each GPU: how many instances, and how many GB of weights.
pub type Used = BTreeMap<u32, (usize, f64)>;

/// Counts what stands where. `memory_of` is a model's size in GB.
pub fn used(standing: impl Iterator<Item = PlacedModel>, memory_of: impl Fn(&str) -> Option<f64>) -> Used {
    let mut used = Used::new();
    for PlacedModel { model, devices } in standing {
        if let (Devices::Cuda(gpus), Some(memory)) = (&devices, memory_of(&model)) {
            for &gpu in gpus {
                let entry = used.entry(gpu).or_default();
                entry.0 += 1;
                entry.1 += memory / gpus.len() as f64;
            }
        }
    }
    used
}

/// The devices of a new instance: those that were asked for, where they are enough and have room; or the consecutive GPUs
/// with the fewest instances.
pub fn emulated(
    spec: &ModelSpec,
    cluster: &ClusterSpec,
    wanted: WantedDevices,
    used: &Used,
) -> Result<Devices, Fault> {
    let share = |count: usize| spec.memory_gb / count.max(1) as f64;
    let full = |gpu: u32, count: usize| {
        let taken = used.get(&gpu).map_or(0.0, |&(_, gb)| gb);
        cluster
            .gpu_memory_gb
            .filter(|memory| taken + share(count) > memory * (1.0 + 1e-9))
            .map(|memory| (taken, memory))
    };
    let count = spec.gpus_required.max(1);
    match wanted {
        WantedDevices::These(Devices::Cpu) => Ok(Devices::Cpu),
        WantedDevices::These(Devices::Cuda(gpus)) => {
            if gpus.len() < count as usize {
                let message = format!("`{}` needs {count} GPUs, but {} were given", spec.id, gpus.len());
                return Err(Fault::param("device", message));
            }
            if let Some(number) = gpus.iter().find(|&&gpu| cluster.gpus.is_some_and(|most| gpu >= most)) {
                let most = cluster.gpus.unwrap_or_default();
                let message = format!("there is no cuda:{number}: the configuration has {most} GPUs");
                return Err(Fault::param("device", message));
            }
            if let Some((gpu, (taken, memory))) =
                gpus.iter().find_map(|&gpu| Some((gpu, full(gpu, gpus.len())?)))
            {
                let needed = share(gpus.len());
                let message = format!(
                    "`{}` needs {needed:.1} GB on cuda:{gpu}, where {taken:.1} of {memory:.1} GB are taken: offload first",
                    spec.id
                );
                return Err(Fault::conflict("out_of_gpu_memory", message));
            }
            Ok(Devices::Cuda(gpus))
        }
        WantedDevices::Auto => {
            let gpus = cluster.gpus.unwrap_or(USUAL_GPUS.max(count));
            let windows = (0..=gpus.saturating_sub(count)).map(|first| first..first + count);
            let free = windows.filter(|window| {
                window.end <= gpus && window.clone().all(|gpu| full(gpu, count as usize).is_none())
            });
            let load = |gpu: u32| used.get(&gpu).map_or(0, |&(instances, _)| instances);
            let least = free.min_by_key(|window| window.clone().map(load).max());
            least.map(|window| Devices::Cuda(window.collect())).ok_or_else(|| {
                let message = format!(
                    "no {count} consecutive GPUs of {gpus} have room for the {:.1} GB of `{}`: offload first",
                    spec.memory_gb, spec.id
                );
                Fault::conflict("out_of_gpu_memory", message)
            })
        }
    }
}
