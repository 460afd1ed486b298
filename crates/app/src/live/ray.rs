//! Live runs on a Ray cluster: how it is found, how many servers it makes, what it is told of the run, and how the run's end
//! is told to it.

use super::Settings;
use crate::failure::{Code, Failure};
use crate::output::{self, progress::Phase};
use base64::Engine as _;
use clap::{Args, ValueEnum};
use gswarm_core::Instance;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::time::MAX_SECONDS;
use gswarm_exec::backend::ray::{self, Bridge};
use gswarm_exec::backend::{BackendError, Known, Record};
use gswarm_exec::drive::Finished;
use gswarm_exec::fleet::Fleet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// Who carries a live run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Servers that this process speaks with itself
    #[default]
    Local,
    /// A Ray cluster, which places the servers and moves what nodes write
    Ray,
}

/// How a Ray cluster is reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ray (with --engine ray; see docs/ray.md)")]
pub struct RayArgs {
    /// Who carries a live run out; `ray` means --simulate true
    #[arg(long, value_enum, default_value_t = Engine::Local)]
    pub engine: Engine,
    /// Where the cluster's head is, as HOST:PORT; `auto` for the one of this machine [default: auto]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// The Python that has Ray and gswarm [default: python3]
    #[arg(long, value_name = "PROGRAM", env = "GSWARM_PYTHON")]
    pub python: Option<String>,
    /// How many times as fast as the clock models are emulated, where neither --models nor --backends says what runs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = speed)]
    pub speed: Option<f64>,
    /// How long a call may take before it counts as failed [default: a minute, and ten times what it is expected to take]
    #[arg(long, alias = "call_timeout", value_name = "SECONDS", allow_negative_numbers = true, value_parser = call_timeout)]
    pub call_timeout: Option<f64>,
}

impl RayArgs {
    /// Whether a run goes to Ray.
    pub fn is_ray(&self) -> bool {
        self.engine == Engine::Ray
    }

    /// Refuses flags that do nothing.
    pub fn are_used(&self) -> Result<(), Failure> {
        let given = [
            ("--address", self.address.is_some()),
            ("--speed", self.speed.is_some()),
            ("--call-timeout", self.call_timeout.is_some()),
        ];
        match given.iter().find(|(_, given)| *given && !self.is_ray()) {
            Some((flag, _)) => Err(Failure::input(format!("{flag} is for runs on a Ray cluster"))
                .hint("add --engine ray, or leave it away")),
            None => Ok(()),
        }
    }
}

/// What a journal keeps of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RaySettings {
    /// Where it is.
    pub address: String,
    /// The Python that has Ray and gswarm.
    pub python: String,
    /// What belongs to this run in the cluster has this name.
    pub namespace: String,
    /// The name and the folder of the file of callables, which the journal holds.
    #[serde(default)]
    pub callables: Option<(String, PathBuf)>,
    /// How long a call may take, in seconds, where that was said.
    #[serde(default)]
    pub call_timeout: Option<f64>,
}

/// A file with a callable for each model.
pub struct Callables {
    /// Its name; one that ends with `.py` is Python, another one a pickle.
    pub name: String,
    /// Where it lies, for what it imports.
    pub folder: PathBuf,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl RaySettings {
    /// Of a run that begins.
    pub fn of(args: &RayArgs, callables: Option<&Callables>) -> RaySettings {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        RaySettings {
            address: args.address.clone().unwrap_or_else(|| "auto".to_owned()),
            python: args.python.clone().unwrap_or_else(|| "python3".to_owned()),
            namespace: format!("gswarm-{now:x}-{}", std::process::id()),
            callables: callables.map(|file| (file.name.clone(), file.folder.clone())),
            call_timeout: args.call_timeout,
        }
    }
}

/// A cluster that was joined.
pub struct Joined {
    runtime: Runtime,
    bridge: Arc<Bridge>,
    /// GPUs of each node, as it is now.
    nodes: Vec<u32>,
    shown: bool,
}

impl Joined {
    /// Joins a cluster.
    pub fn to(settings: &RaySettings, shown: bool) -> Result<Joined, Failure> {
        if shown {
            super::tell_warnings();
        }
        let doing = Phase::new(format!("joining the Ray cluster at {}", settings.address), shown);
        is_listening(&settings.address).map_err(|why| {
            Failure::input(format!("the Ray cluster at {} cannot be joined: {why}", settings.address)).hint(
                "is it the address of the cluster's head, as `ray start --head` tells it, and can it be reached from here?",
            )
        })?;
        let runtime = super::runtime()?;
        let bridge = Arc::new(Bridge::new(&settings.python));
        let join = json!({"op": "join", "address": settings.address, "namespace": settings.namespace});
        let joining = async {
            let mut joining = std::pin::pin!(bridge.introduce(join));
            if let Ok(said) = tokio::time::timeout(SILENT, &mut joining).await {
                return said;
            }
            if shown {
                output::note(&format!("note: waiting for the Ray cluster at {}", settings.address));
            }
            joining.await
        };
        let said = runtime.block_on(joining).map_err(|error| {
            Failure::input(format!("the Ray cluster at {} cannot be joined: {error}", settings.address)).hint(
                format!(
                    "does it run (`ray status`), is its token known here (RAY_AUTH_TOKEN), and does `{} -c \"import gswarm.ray\"` work? --python names another Python",
                    settings.python
                ),
            )
        })?;
        drop(doing);
        let nodes = said["nodes"].as_array().into_iter().flatten();
        let nodes = nodes.filter_map(|gpus| u32::try_from(gpus.as_u64()?).ok()).collect();
        Ok(Joined { runtime, bridge, nodes, shown })
    }

    /// What a run calls this cluster: where nothing is said of servers, Ray's nodes are the servers.
    pub fn cluster(&self, spec: ClusterSpec, scenario: &Scenario) -> Result<ClusterSpec, Failure> {
        let widest = scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1);
        let per_server = spec.gpus_per_server.or_else(|| per_server(&self.nodes, widest));
        let there: u32 = per_server.map_or(0, |per| self.nodes.iter().map(|gpus| gpus / per * per).sum());
        let gpus = spec.gpus.or((there > 0).then_some(there)).ok_or_else(|| {
            Failure::input("the Ray cluster has no GPUs at the moment")
                .hint("--gpus N says how many to use once they are there, and --gpus-per-server how many a node has")
        })?;
        Ok(ClusterSpec { gpus: Some(gpus), gpus_per_server: per_server, ..spec })
    }

    /// Tells the cluster of the run, and waits until its servers are there, or as many as there will be soon.
    pub fn prepare(
        &self,
        settings: &Settings,
        instance: &Instance,
        callables: Option<&Callables>,
    ) -> Result<(), Failure> {
        let servers: Vec<[u32; 2]> =
            ray::servers(&instance.cluster).iter().map(|gpus| [gpus.first.0, gpus.count]).collect();
        let known = |model: Known| json!({"name": model.name, "memory_gb": model.memory_gb, "slowdown": model.slowdown});
        let models: Vec<Value> = Known::all(instance).into_iter().map(known).collect();
        let used = instance.models.iter_enumerated().map(|(id, _)| id);
        let used = used.filter(|&model| instance.task_ids().any(|task| instance.model_of(task) == model));
        let used: Vec<u32> = used.map(|model| model.0).collect();
        let callables = callables.map(|file| {
            let bytes = base64::engine::general_purpose::STANDARD.encode(&file.bytes);
            json!({"name": file.name, "folder": file.folder, "bytes": bytes})
        });
        let prepare = json!({
            "op": "prepare", "servers": servers, "models": models, "used": used,
            "backends": settings.backends, "callables": callables,
        });
        let each = servers.first().map_or(0, |server| server[1]);
        let largest = self.nodes.iter().copied().max().unwrap_or(0);
        if self.shown && largest < each {
            output::note(&format!("note: {}; waiting for one that joins", too_few(each, largest)));
        }
        let waiting =
            Phase::new(format!("waiting for {}", output::count(servers.len() as u64, "server")), self.shown);
        let said = self.runtime.block_on(self.bridge.introduce(prepare));
        drop(waiting);
        let said = said.map_err(|error| match error {
            BackendError::Refused(why) => Failure::input(why),
            other => Failure::new(Code::FailedRequests, format!("the Ray cluster is lost: {other}")),
        })?;
        let there = said["there"].as_u64().unwrap_or(0);
        if self.shown && there < servers.len() as u64 {
            let all = output::count(servers.len() as u64, "server");
            let hint =
                if largest < each { too_few(each, largest) } else { "others may be using them".to_owned() };
            output::note(&format!(
                "note: Ray has GPUs for {there} of {all} at the moment ({hint}); the rest is used once its GPUs are there"
            ));
        }
        Ok(())
    }

    /// Where everything of the run happens.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The servers.
    pub fn fleet(&self, instance: &Instance, record: &Record) -> Fleet {
        ray::fleet(&self.bridge, &instance.cluster, record)
    }

    /// The run has come to its end: what its last nodes wrote is fetched where it is large, and the rest is let go.
    pub fn finish(&self, instance: &Instance, finished: &Finished, folder: &Path) {
        let last = instance.task_ids().filter(|&task| instance.successors(task).next().is_none());
        let last: Vec<_> = last.filter_map(|task| finished.outputs.get(&task)).collect();
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        self.runtime.block_on(async {
            let order = json!({"op": "finish", "outputs": last, "folder": folder});
            if let Err(error) = self.bridge.ask(order).await {
                output::note(&format!(
                    "warning: large outputs of the last nodes could not be saved: {error}"
                ));
            }
            self.bridge.end().await;
        });
    }
}

/// How long a cluster may take to be joined before that is told, also where nobody watches.
const SILENT: Duration = Duration::from_secs(10);
/// How long the head of a cluster may take to take up a connection.
const CONNECTS: Duration = Duration::from_secs(5);

/// Whether anybody is at an address, in so far as it says where that is: Ray itself asks for minutes before it says so.
fn is_listening(address: &str) -> Result<(), String> {
    let place = address.split_once("://").map_or(address, |(_, place)| place);
    let Some((host, port)) = place.rsplit_once(':') else { return Ok(()) };
    let Ok(port) = port.parse::<u16>() else { return Ok(()) };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = (host, port).to_socket_addrs().map_err(|error| format!("`{host}` is not known: {error}"))?;
    let mut why = format!("`{host}` has no address");
    for place in found {
        match TcpStream::connect_timeout(&place, CONNECTS) {
            Ok(_) => return Ok(()),
            Err(error) => why = format!("nothing answers at {place}: {error}"),
        }
    }
    Err(why)
}

/// Why no server finds a node.
fn too_few(each: u32, largest: u32) -> String {
    match largest {
        0 => "no node of the Ray cluster has GPUs".to_owned(),
        _ => format!(
            "no node of the Ray cluster has {each} GPUs: --gpus-per-server {largest} makes servers that fit"
        ),
    }
}

/// GPUs of a server for nodes with so many GPUs each: as many of them as can be are used, and then servers are as large as
/// can be. The widest model fits into one, if it fits into a node.
fn per_server(nodes: &[u32], widest: u32) -> Option<u32> {
    let largest = nodes.iter().copied().max()?;
    let used = |per: u32| nodes.iter().map(|gpus| gpus / per * per).sum::<u32>();
    // A model that is wider than any node lies on several whole ones.
    (widest.clamp(1, largest)..=largest).max_by_key(|&per| (used(per), per))
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("give a number above zero, of a million at most".to_owned()),
    }
}

fn call_timeout(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= MAX_SECONDS => Ok(value),
        _ => Err(format!("give seconds above zero, of {MAX_SECONDS} at most")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_at_which_nobody_listens_is_told_at_once() {
        for unknown in ["auto", "local", "somewhere"] {
            assert_eq!(is_listening(unknown), Ok(()), "Ray knows what it means");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert_eq!(is_listening(&address), Ok(()));
        assert_eq!(is_listening(&format!("ray://{address}")), Ok(()));
        drop(listener);
        let why = is_listening(&address).unwrap_err();
        assert!(why.starts_with(&format!("nothing answers at {address}: ")), "{why}");
    }

    #[test]
    fn servers_are_nodes_where_nodes_are_alike_and_parts_of_them_elsewhere() {
        for (nodes, widest, expected) in [
            (vec![4, 4, 4], 1, Some(4)),
            (vec![8, 4, 4], 2, Some(4)),
            (vec![8, 4], 8, Some(8)),
            (vec![4, 2], 1, Some(2)),
            (vec![4, 2], 4, Some(4)),
            (vec![2, 2], 4, Some(2)),
            (vec![], 1, None),
        ] {
            assert_eq!(per_server(&nodes, widest), expected, "{nodes:?} {widest}");
        }
    }
}
