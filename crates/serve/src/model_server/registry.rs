//! What there is: models on disk, models in host memory, serving instances.
//!
//! Each model has a lock of its own, so that it is read from disk once however many ask for it, and so that taking it out
//! of memory and starting an instance of it do not cross.

use super::ModelServerOptions;
use super::devices::{Devices, WantedDevices};
use super::engines::embedded::EmbeddedEngine;
use super::engines::emulated::{EmulatedEngine, EmulatedModel};
use super::engines::{WorkKind, fault, in_thread};
use super::instance::{InstanceEngine, ModelInstance};
use super::place;
use crate::fault::Fault;
use gswarm_exec::clock::Clock;
use gswarm_infer::{ModelFolder, ModelKind, Store, Weights};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::RwLock;
use utoipa::ToSchema;

/// All that the server knows of models.
pub struct Registry {
    /// The folder of models.
    pub store: Store,
    /// How fast time goes for emulated models.
    pub clock: Clock,
    options: ModelServerOptions,
    emulated: BTreeMap<String, Arc<EmulatedModel>>,
    locks: Mutex<HashMap<String, Arc<RwLock<()>>>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    host: BTreeMap<String, InMemory>,
    instances: BTreeMap<String, Arc<ModelInstance>>,
    /// Instances that are being started have their devices already.
    starting: Vec<PlacedModel>,
}

/// A model in host memory.
#[derive(Clone)]
pub struct InMemory {
    /// Since when.
    pub since: Timestamp,
    /// Its weights; none where it is emulated.
    pub weights: Option<Weights>,
    /// How large it is.
    pub bytes: u64,
}

/// Where a model's weights were before it was brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CameFrom {
    /// They were read from disk.
    Disk,
    /// They were in host memory.
    Dram,
}

/// A model on its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedModel {
    /// The model.
    pub model: String,
    /// Its devices.
    pub devices: Devices,
}

/// A model that there is.
#[derive(Clone)]
pub enum FoundModel {
    /// In the folder of models.
    Embedded(ModelFolder),
    /// In the configuration.
    Emulated(Arc<EmulatedModel>),
}

impl FoundModel {
    /// Whether it only takes its time.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        matches!(self, FoundModel::Emulated(_))
    }

    /// Its folder; an emulated model has none.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            FoundModel::Embedded(folder) => Some(folder.path().to_path_buf()),
            FoundModel::Emulated(_) => None,
        }
    }
}

impl Registry {
    pub(super) fn new(options: ModelServerOptions, store: Store) -> Registry {
        let emulated = options.emulated.iter().flat_map(|scenario| {
            let model = |spec| Arc::new(EmulatedModel::new(spec, &scenario.cluster));
            scenario.models.iter().map(move |spec| (spec.id.clone(), model(spec)))
        });
        Registry {
            store,
            clock: options.clock.clone(),
            emulated: emulated.collect(),
            locks: Mutex::default(),
            inner: Mutex::default(),
            options,
        }
    }

    /// The models that only take their time.
    #[must_use]
    pub fn emulated(&self) -> &BTreeMap<String, Arc<EmulatedModel>> {
        &self.emulated
    }

    /// The model of this name.
    pub async fn known(&self, name: &str) -> Result<FoundModel, Fault> {
        if let Some(model) = self.emulated.get(name) {
            return Ok(FoundModel::Emulated(Arc::clone(model)));
        }
        let (store, name) = (self.store.clone(), name.to_string());
        in_thread(move || store.model(&name)).await.map(FoundModel::Embedded)
    }

    /// Models in host memory.
    #[must_use]
    pub fn in_memory(&self) -> BTreeMap<String, InMemory> {
        self.inner().host.clone()
    }

    /// All instances, by id.
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<ModelInstance>> {
        self.inner().instances.values().cloned().collect()
    }

    /// How many models are in host memory, and how many instances serve.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.host.len(), inner.instances.len())
    }

    /// The instance of this id.
    pub fn instance(&self, id: &str) -> Result<Arc<ModelInstance>, Fault> {
        self.inner().instances.get(id).cloned().ok_or_else(|| no_instance(id))
    }

    /// The least busy instance of a model; or one instance, by its id.
    pub fn instance_of(&self, model: &str) -> Option<Arc<ModelInstance>> {
        let inner = self.inner();
        if let Some(named) = inner.instances.get(model).filter(|named| !named.gate().is_closed()) {
            return Some(Arc::clone(named));
        }
        let open = inner.instances.values().filter(|other| other.model == model && !other.gate().is_closed());
        open.min_by_key(|other| other.gate().inside()).cloned()
    }

    /// Brings a model into host memory; and where it was before.
    pub async fn load(&self, name: &str, known: &FoundModel) -> Result<CameFrom, Fault> {
        let lock = self.lock(name);
        let _alone = lock.write().await;
        self.load_alone(name, known).await
    }

    async fn load_alone(&self, name: &str, known: &FoundModel) -> Result<CameFrom, Fault> {
        if self.inner().host.contains_key(name) {
            return Ok(CameFrom::Dram);
        }
        let (weights, bytes) = match known {
            FoundModel::Embedded(folder) => {
                let path = folder.path().to_path_buf();
                let weights = in_thread(move || Weights::load(path)).await?;
                let bytes = weights.bytes();
                (Some(weights), bytes)
            }
            FoundModel::Emulated(model) => {
                self.clock.sleep(model.fetch_time()).await;
                (None, (model.spec().memory_gb * 1e9) as u64)
            }
        };
        let loaded = InMemory { since: Timestamp::now(), weights, bytes };
        self.inner().host.insert(name.to_string(), loaded);
        Ok(CameFrom::Disk)
    }

    /// Starts an instance, after bringing the model into host memory where it is not there.
    pub async fn serve(
        &self,
        name: &str,
        known: &FoundModel,
        wanted: WantedDevices,
    ) -> Result<Arc<ModelInstance>, Fault> {
        let start = Start::begin(self, name, known, wanted)?;
        let lock = self.lock(name);
        let alone = lock.write().await;
        let came_from = self.load_alone(name, known).await?;
        // From here on others may start instances too, but nobody may take the model out of memory.
        let _shared = alone.downgrade();
        let weights = self.inner().host.get(name).and_then(|loaded| loaded.weights.clone());
        let (kind, engine) = match known {
            FoundModel::Embedded(_) => {
                let Some(weights) = weights else {
                    return Err(Fault::internal("the model is not in host memory"));
                };
                let kind = match weights.config().kind() {
                    ModelKind::Language => WorkKind::Language,
                    ModelKind::Embedding => WorkKind::Embedding,
                };
                let options = self.options.engine;
                let embedded = in_thread(move || EmbeddedEngine::start(&weights, options)).await?;
                (kind, InstanceEngine::Embedded(embedded))
            }
            FoundModel::Emulated(model) => {
                self.clock.sleep(model.transfer_time()).await;
                let waiting = self.options.engine.max_waiting;
                let emulated = EmulatedEngine::new(Arc::clone(model), self.clock.clone(), waiting);
                (model.kind().clone(), InstanceEngine::Emulated(emulated))
            }
        };
        let mut inner = self.inner();
        let mut id = new_id();
        while inner.instances.contains_key(&id) {
            id = new_id();
        }
        let devices = start.standing.devices.clone();
        let instance = Arc::new(ModelInstance::new(id.clone(), name, kind, devices, engine, came_from));
        inner.instances.insert(id, Arc::clone(&instance));
        drop(inner);
        tracing::info!("{name}: instance {} serves on {}", instance.id, instance.devices.text());
        Ok(instance)
    }

    /// Where an instance would run if it were started now.
    pub fn place(&self, known: &FoundModel, wanted: WantedDevices) -> Result<Devices, Fault> {
        self.place_among(&self.inner(), known, wanted)
    }

    fn place_among(
        &self,
        inner: &Inner,
        known: &FoundModel,
        wanted: WantedDevices,
    ) -> Result<Devices, Fault> {
        match known {
            FoundModel::Embedded(_) => match wanted {
                WantedDevices::Auto | WantedDevices::These(Devices::Cpu) => Ok(Devices::Cpu),
                WantedDevices::These(Devices::Cuda(_)) => Err(Fault::unsupported(
                    "device",
                    "this build has no CUDA engine: models on disk run on `cpu`, and emulated ones on any device",
                )),
            },
            FoundModel::Emulated(model) => {
                let standing = |instance: &Arc<ModelInstance>| PlacedModel {
                    model: instance.model.clone(),
                    devices: instance.devices.clone(),
                };
                let all = inner.instances.values().map(standing).chain(inner.starting.iter().cloned());
                let cluster = self.options.emulated.as_ref().map(|scenario| scenario.cluster.clone());
                let used = place::used(all, |name| Some(self.emulated.get(name)?.spec().memory_gb));
                place::emulated(model.spec(), &cluster.unwrap_or_default(), wanted, &used)
            }
        }
    }

    /// Stops an instance, once those who are using it have got their answers.
    pub async fn stop(&self, id: &str) -> Result<Arc<ModelInstance>, Fault> {
        let instance = self.instance(id)?;
        if !instance.gate().close() {
            let message = format!("the instance `{id}` is already stopping");
            return Err(Fault::conflict("instance_stopping", message));
        }
        self.finish(&instance).await;
        tracing::info!("{}: instance {id} is gone", instance.model);
        Ok(instance)
    }

    /// Stops all instances of a model; with `from_memory`, takes it out of host memory too. The ids that were stopped.
    pub async fn offload(&self, name: &str, from_memory: bool) -> Vec<String> {
        let lock = self.lock(name);
        let _alone = lock.write().await;
        let own: Vec<_> = self.instances().into_iter().filter(|other| other.model == name).collect();
        // Whoever closed one before takes it away; here it only has to be gone.
        let (closed, closing): (Vec<_>, Vec<_>) = own.into_iter().partition(|other| other.gate().close());
        for instance in &closed {
            self.finish(instance).await;
        }
        for instance in &closing {
            instance.gate().empty().await;
        }
        if from_memory {
            let gone = self.inner().host.remove(name);
            // Giving back gigabytes takes a moment.
            tokio::task::spawn_blocking(move || drop(gone));
        }
        closed.iter().map(|instance| instance.id.clone()).collect()
    }

    async fn finish(&self, instance: &Arc<ModelInstance>) {
        instance.gate().empty().await;
        let gone = self.inner().instances.remove(&instance.id);
        // Its thread is waited for, elsewhere.
        tokio::task::spawn_blocking(move || drop(gone));
    }

    fn lock(&self, name: &str) -> Arc<RwLock<()>> {
        // Only models that there are get here: callers cannot make this grow.
        Arc::clone(
            self.locks.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_string()).or_default(),
        )
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance that is being started.
struct Start<'r> {
    registry: &'r Registry,
    standing: PlacedModel,
}

impl<'r> Start<'r> {
    fn begin(
        registry: &'r Registry,
        name: &str,
        known: &FoundModel,
        wanted: WantedDevices,
    ) -> Result<Start<'r>, Fault> {
        let mut inner = registry.inner();
        let most = registry.options.max_instances;
        if inner.instances.len() + inner.starting.len() >= most {
            let message = format!("there are {most} instances already: stop one first");
            return Err(Fault::conflict("too_many_instances", message));
        }
        let devices = registry.place_among(&inner, known, wanted)?;
        let standing = PlacedModel { model: name.to_string(), devices };
        inner.starting.push(standing.clone());
        drop(inner);
        Ok(Start { registry, standing })
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        let mut inner = self.registry.inner();
        if let Some(at) = inner.starting.iter().position(|other| *other == self.standing) {
            inner.starting.swap_remove(at);
        }
    }
}

pub(super) fn no_instance(id: &str) -> Fault {
    let id: String = id.chars().take(40).collect();
    Fault::not_found("instance_not_found", format!("there is no instance `{id}`"))
}

/// Six letters and digits. They need to differ, not to be secret.
fn new_id() -> String {
    const SIGNS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut number = RandomState::new().hash_one(());
    let mut sign = || {
        let at = (number % 36) as usize;
        number /= 36;
        char::from(SIGNS[at])
    };
    (0..6).map(|_| sign()).collect()
}

/// A model's folder in the store, for those who want to know whether it is there.
pub(super) fn on_disk(store: &Store, name: &str) -> Result<Option<ModelFolder>, Fault> {
    match store.model(name) {
        Ok(folder) => Ok(Some(folder)),
        Err(gswarm_infer::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(fault(error)),
    }
}
