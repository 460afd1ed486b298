//! Live runs on a Ray cluster: joining it, dividing it into servers, starting the run and ending it.

use crate::failure::{Failure, FailureKind};
use crate::files;
use crate::observe::Observer;
use crate::output::count;
use crate::spec::RaySpec;
use base64::Engine as _;
use gswarm_core::Instance;
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_exec::backend::{BackendError, BackendsFile, KnownModel, LoadRecorder};
use gswarm_exec::drive::FinishedRun;
use gswarm_exec::fleet::Fleet;
use gswarm_exec::ray::{self, Bridge};
use serde_json::{Value, json};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// A file with a callable for each model.
pub struct Callables {
    /// Its name; one that ends with `.py` is Python, another one a pickle.
    pub name: String,
    /// Where it lies, for what it imports.
    pub folder: PathBuf,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl Callables {
    pub(super) fn read(file: &Path) -> Result<Callables, Failure> {
        Callables::from(
            file,
            files::read_or(file, "check the path; docs/ray.md has an example of such a file")?,
        )
    }

    /// The file as it was read before.
    pub(super) fn from(file: &Path, bytes: Vec<u8>) -> Result<Callables, Failure> {
        let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Callables { name, folder: whole.parent().unwrap_or(Path::new("/")).to_owned(), bytes })
    }
}

/// A name for what belongs to a new run in the cluster.
pub(super) fn namespace() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("gswarm-{now:x}-{}", std::process::id())
}

/// A cluster that was joined.
pub struct Joined {
    runtime: Runtime,
    bridge: Arc<Bridge>,
    /// GPUs of each node, as it is now.
    nodes: Vec<u32>,
}

impl Joined {
    pub fn to(settings: &RaySpec, observer: &mut dyn Observer) -> Result<Joined, Failure> {
        observer.waiting(&format!("joining the Ray cluster at {}", settings.address));
        is_listening(&settings.address).map_err(|why| {
            Failure::input(format!("cannot join the Ray cluster at {}: {why}", settings.address))
                .hint("is it the address that `ray start --head` printed, and can this machine reach it?")
        })?;
        let runtime = super::runtime()?;
        let bridge = Arc::new(Bridge::new(&settings.python));
        let namespace = settings.namespace.clone().unwrap_or_else(namespace);
        let join = json!({"op": "join", "address": settings.address, "namespace": namespace});
        let joining = async {
            let mut joining = std::pin::pin!(bridge.introduce(join));
            if let Ok(said) = tokio::time::timeout(SILENT, &mut joining).await {
                return said;
            }
            observer.note(&format!("note: waiting for the Ray cluster at {}", settings.address));
            joining.await
        };
        let said = runtime.block_on(joining).map_err(|error| {
            Failure::input(format!("cannot join the Ray cluster at {}: {error}", settings.address)).hint(
                format!(
                    "does it run (`ray status`), is its token known here (RAY_AUTH_TOKEN), and does `{} -c \"import gswarm.ray\"` work? --python names another Python",
                    settings.python
                ),
            )
        })?;
        let nodes = said["nodes"].as_array().into_iter().flatten();
        let nodes = nodes.filter_map(|gpus| u32::try_from(gpus.as_u64()?).ok()).collect();
        Ok(Joined { runtime, bridge, nodes })
    }

    /// This cluster as a specification: without a server size, Ray's nodes are the servers.
    pub fn cluster(&self, spec: ClusterSpec, scenario: &Scenario) -> Result<ClusterSpec, Failure> {
        let widest = scenario.models.iter().map(|model| model.gpus_required).max().unwrap_or(1);
        let per_server = spec.gpus_per_server.or_else(|| per_server(&self.nodes, widest));
        let there: u32 = per_server.map_or(0, |per| self.nodes.iter().map(|gpus| gpus / per * per).sum());
        let gpus = spec.gpus.or((there > 0).then_some(there)).ok_or_else(|| {
            Failure::input("the Ray cluster has no GPUs at the moment").hint(
                "--gpus N sets how many to use once they join, and --gpus-per-server how many a node has",
            )
        })?;
        Ok(ClusterSpec { gpus: Some(gpus), gpus_per_server: per_server, ..spec })
    }

    /// Tells the cluster of the run, and waits until its servers are there, or as many as there will be soon.
    pub fn prepare(
        &self,
        backends: &BackendsFile,
        instance: &Instance,
        callables: Option<&Callables>,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let servers: Vec<[u32; 2]> =
            ray::servers(&instance.cluster).iter().map(|gpus| [gpus.first.0, gpus.count]).collect();
        let known = |model: KnownModel| json!({"name": model.name, "memory_gb": model.memory_gb, "slowdown": model.slowdown});
        let models: Vec<Value> = KnownModel::all(instance).into_iter().map(known).collect();
        let used = instance.models.iter_enumerated().map(|(id, _)| id);
        let used = used.filter(|&model| instance.task_ids().any(|task| instance.model_of(task) == model));
        let used: Vec<u32> = used.map(|model| model.0).collect();
        let callables = callables.map(|file| {
            let bytes = base64::engine::general_purpose::STANDARD.encode(&file.bytes);
            json!({"name": file.name, "folder": file.folder, "bytes": bytes})
        });
        let prepare = json!({
            "op": "prepare", "servers": servers, "models": models, "used": used,
            "backends": backends, "callables": callables,
        });
        let each = servers.first().map_or(0, |server| server[1]);
        let largest = self.nodes.iter().copied().max().unwrap_or(0);
        if largest < each {
            observer.note(&format!("note: {}; waiting for one to join", too_few(each, largest)));
        }
        observer.waiting(&format!("waiting for {}", count(servers.len() as u64, "server")));
        let said = self.runtime.block_on(self.bridge.introduce(prepare));
        let said = said.map_err(|error| match error {
            BackendError::Refused(why) => Failure::input(why),
            other => Failure::new(
                FailureKind::FailedRequests,
                format!("the connection to the Ray cluster was lost: {other}"),
            ),
        })?;
        let there = said["there"].as_u64().unwrap_or(0);
        if there < servers.len() as u64 {
            let all = count(servers.len() as u64, "server");
            let hint =
                if largest < each { too_few(each, largest) } else { "others may be using them".to_owned() };
            observer.note(&format!(
                "note: Ray has GPUs for {there} of {all} at the moment ({hint}); the rest start once their GPUs join"
            ));
        }
        Ok(())
    }

    /// Where everything of the run happens.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub fn fleet(&self, instance: &Instance, record: &LoadRecorder) -> Fleet {
        ray::fleet(&self.bridge, &instance.cluster, record)
    }

    /// The run has come to its end: what its last nodes wrote is fetched where it is large, and the rest is let go.
    pub fn finish(
        &self,
        instance: &Instance,
        finished: &FinishedRun,
        folder: &Path,
        observer: &mut dyn Observer,
    ) {
        let last = instance.task_ids().filter(|&task| instance.successors(task).next().is_none());
        let last: Vec<_> = last.filter_map(|task| finished.outputs.get(&task)).collect();
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        self.runtime.block_on(async {
            let order = json!({"op": "finish", "outputs": last, "folder": folder});
            if let Err(error) = self.bridge.ask(order).await {
                observer
                    .note(&format!("warning: large outputs of the last nodes could not be saved: {error}"));
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
    let found =
        (host, port).to_socket_addrs().map_err(|error| format!("`{host}` cannot be resolved: {error}"))?;
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
