//! A run watched from outside, through its journal, also while it is being written, or its log.

use super::{DashboardAbout, DashboardAnswer, DashboardSource, Present};
use crate::fault::Fault;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::{Instance, RequestId, Span, TaskId, Time};
use gswarm_exec::clock::Clock;
use gswarm_exec::journal::{JournalError, JournalReader, is_written};
use gswarm_exec::scene::{Rank, Scene};
use gswarm_exec::watched::Watched;
use gswarm_exec::wire::{
    ClusterStatus, HistoryPage, Overview, Queue, QueuedRequest, RequestKind, RequestList, RequestRecord,
    RequestState, RequestStatus, RunState,
};
use serde_json::{Map, Number, Value};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Entries that are read at once.
const TOGETHER: u32 = 10_000;

/// A run that is watched.
#[derive(Clone)]
pub struct RunSource {
    about: Arc<DashboardAbout>,
    policy: Arc<PolicySpec>,
    seed: u64,
    /// The problem, for names.
    instance: Arc<Instance>,
    run: Arc<Mutex<Run>>,
}

struct Run {
    watched: Watched,
    journal: Option<Followed>,
}

/// A journal that is followed.
struct Followed {
    path: PathBuf,
    /// Of a journal that nobody writes, as it was then.
    copy: Option<(JournalReader, [Stamp; 2])>,
    read_to: i64,
    /// How fast the run's own time goes.
    clock: Clock,
}

impl RunSource {
    /// A run with a journal.
    pub fn journal(
        about: DashboardAbout,
        instance: Instance,
        policy: (PolicySpec, u64),
        max_attempts: u32,
        path: &Path,
        clock: Clock,
    ) -> Result<RunSource, JournalError> {
        let watched = Watched::new(instance.clone(), max_attempts);
        let mut journal = Followed { path: path.to_owned(), copy: None, read_to: 0, clock };
        let mut run = Run { watched, journal: None };
        journal.read(&mut run.watched)?;
        run.journal = Some(journal);
        Ok(RunSource::of(about, instance, policy, run))
    }

    /// A run that is over, from its log.
    #[must_use]
    pub fn log(about: DashboardAbout, instance: Instance, log: &gswarm_core::log::ExecutionLog) -> RunSource {
        let run = Run { watched: Watched::of_log(instance.clone(), log), journal: None };
        RunSource::of(about, instance, (PolicySpec::default_of(PolicyKind::Adaptive), 0), run)
    }

    fn of(
        about: DashboardAbout,
        instance: Instance,
        (policy, seed): (PolicySpec, u64),
        run: Run,
    ) -> RunSource {
        let (about, instance) = (Arc::new(about), Arc::new(instance));
        RunSource { about, policy: Arc::new(policy), seed, instance, run: Arc::new(Mutex::new(run)) }
    }

    /// Reads what is new and looks, away from the threads that answer.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Look<'_>) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let run = Arc::clone(&self.run);
        let looked = tokio::task::spawn_blocking(move || {
            let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
            run.refresh()?;
            Ok::<T, JournalError>(look(&run.now()))
        });
        match looked.await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(error)) => Err(Fault::unavailable("journal_failed", error.to_string())),
            Err(error) => Err(Fault::internal(error.to_string())),
        }
    }
}

impl Run {
    fn refresh(&mut self) -> Result<(), JournalError> {
        match &mut self.journal {
            Some(journal) => journal.read(&mut self.watched),
            None => Ok(()),
        }
    }

    fn now(&self) -> Look<'_> {
        let last = self.watched.last();
        let followed = self.journal.as_ref().filter(|journal| journal.copy.is_none());
        let state = match (self.watched.is_over(), followed) {
            (true, _) => RunState::Finished,
            (false, Some(_)) => RunState::Running,
            (false, None) => RunState::Interrupted,
        };
        let silent = followed.filter(|_| state == RunState::Running).map(Followed::silent_for);
        let now = silent.map_or(last, |silent| last + silent);
        Look { watched: &self.watched, now, state, journal: self.journal.as_ref() }
    }
}

impl Followed {
    /// Takes in what is new. While the run goes on, the journal is open only for the moment of reading: nothing of it stays
    /// behind in the folder when the run ends.
    fn read(&mut self, watched: &mut Watched) -> Result<(), JournalError> {
        // A run may have gone on and ended between two looks.
        let stamps = stamps(&self.path);
        let copy = self.copy.take().filter(|(_, then)| *then == stamps && !is_written(&self.path));
        let reader = match copy {
            Some((reader, _)) => reader,
            None => opened(&self.path)?,
        };
        loop {
            let written = reader.after(self.read_to, TOGETHER)?;
            for one in &written {
                watched.take(one.at, one.entry, one.note.as_deref())?;
                self.read_to = one.id;
            }
            if (written.len() as u32) < TOGETHER {
                break;
            }
        }
        self.copy = Some((reader, stamps)).filter(|(reader, _)| !reader.is_followed());
        Ok(())
    }

    /// What a task wrote, where it has finished.
    fn output(&self, task: TaskId) -> Option<Map<String, Value>> {
        match &self.copy {
            Some((copy, _)) => copy.output(task).ok()?,
            None => opened(&self.path).ok()?.output(task).ok()?,
        }
    }

    /// What has gone by of the run since its journal was written last.
    fn silent_for(&self) -> Span {
        let last = stamps(&self.path).into_iter().filter_map(|(changed, _)| changed).max();
        let silent = last.and_then(|last| SystemTime::now().duration_since(last).ok()).unwrap_or_default();
        self.clock.of_wall(Span(silent.as_micros() as u64))
    }
}

/// Opens a journal, once more where its writer ended at the same moment.
fn opened(path: &Path) -> Result<JournalReader, JournalError> {
    JournalReader::open(path).or_else(|error| match error {
        JournalError::Sqlite(_) => {
            std::thread::sleep(Duration::from_millis(50));
            JournalReader::open(path)
        }
        other => Err(other),
    })
}

/// When a file was changed last, and how long it is.
type Stamp = (Option<SystemTime>, u64);

/// Of a journal and of what is written beside it.
fn stamps(path: &Path) -> [Stamp; 2] {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    [path, Path::new(&beside)]
        .map(|path| std::fs::metadata(path).map_or((None, 0), |about| (about.modified().ok(), about.len())))
}

/// A run at one moment.
pub(super) struct Look<'r> {
    watched: &'r Watched,
    now: Time,
    state: RunState,
    journal: Option<&'r Followed>,
}

impl Look<'_> {
    fn scene(&self) -> Scene<'_> {
        self.watched.scene(self.now)
    }

    /// When a moment of the run was, in seconds since 1970; known only while it runs.
    fn unix(&self, at: Time) -> Option<f64> {
        let journal = self.journal.filter(|_| self.state == RunState::Running)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let a_second = journal.clock.of_wall(Span(1_000_000)).seconds().max(1e-6);
        Some(now - self.now.since(at).seconds() / a_second)
    }

    fn present(&self) -> (Present, Option<f64>) {
        let open = self.watched.open();
        let mut present = Present::of(&self.scene(), self.watched.chronicle(), open.len());
        present.state = self.state;
        present.speed = self.journal.map_or(1.0, |journal| journal.clock.speed());
        let is_over = matches!(self.state, RunState::Finished | RunState::Interrupted);
        present.whole = is_over.then(|| self.watched.latency());
        present.why =
            (self.state == RunState::Interrupted).then(|| "`gswarm resume` continues it".to_owned());
        (present, self.unix(Time::ZERO))
    }

    /// As `/v1/queue` of a service answers.
    pub fn queue(&self, from: usize, limit: usize) -> Queue {
        let scene = self.scene();
        let (open, ranks) = (self.watched.open(), scene.ranks());
        let shown = open.iter().skip(from).take(limit);
        Queue {
            open: open.len() as u64,
            waiting_nodes: scene.ready.len() as u64,
            by_model: scene.by_model(),
            requests: shown.map(|&id| self.describe(&scene, id, &ranks)).collect(),
        }
    }

    fn describe(&self, scene: &Scene<'_>, id: RequestId, ranks: &[Vec<Rank>]) -> QueuedRequest {
        let instance = scene.view.instance();
        let (request, stand) = (&instance.requests[id], &self.watched.requests()[id]);
        QueuedRequest {
            request_id: request.name.clone(),
            workflow_id: instance.workflows[request.workflow].name.clone(),
            kind: RequestKind::Workflow,
            accepted_at: stand.arrived.and_then(|at| self.unix(at)),
            priority: request.priority,
            trouble: stand.trouble.clone(),
            nodes: scene.nodes(id, ranks),
            status: None,
        }
    }

    /// As `/v1/requests` of a service answers: those that came last.
    pub fn latest(&self, from: usize, limit: usize) -> RequestList {
        let requests = self.watched.requests().iter_enumerated();
        let mut came: Vec<(Time, RequestId)> =
            requests.filter_map(|(id, stand)| Some((stand.arrived?, id))).collect();
        came.sort_unstable_by(|one, other| other.cmp(one));
        let shown = came.iter().skip(from).take(limit);
        let requests = shown.map(|&(_, id)| self.summary(id)).collect();
        RequestList { requests, total: Some(came.len() as u64) }
    }

    fn summary(&self, id: RequestId) -> RequestRecord {
        let scene = self.scene();
        let instance = scene.view.instance();
        let (request, stand) = (&instance.requests[id], &self.watched.requests()[id]);
        RequestRecord {
            request_id: request.name.clone(),
            workflow_id: instance.workflows[request.workflow].name.clone(),
            status: stand.ended.map_or(RequestState::Open, |(_, end)| end.state()),
            why: stand.trouble.clone(),
            accepted_at: stand.arrived.and_then(|at| self.unix(at)),
            ended_at: stand.ended.and_then(|(at, _)| self.unix(at)),
            arrived: Some(stand.arrived.map(Time::seconds)),
            ended: Some(stand.ended.map(|(at, _)| at.seconds())),
            deadline_seconds: request.deadline.and_then(|deadline| Number::from_f64(deadline.seconds())),
            deadline_missed: self.missed(id),
            ..RequestRecord::default()
        }
    }

    /// Whether a request that has ended did so after its deadline, where it has one.
    fn missed(&self, id: RequestId) -> Option<bool> {
        let (scene, stand) = (self.scene(), &self.watched.requests()[id]);
        let deadline = scene.view.instance().requests[id].deadline?;
        let (arrived, (at, end)) = stand.arrived.zip(stand.ended)?;
        Some(end.state() != RequestState::Completed || at.since(arrived) > deadline)
    }

    fn find(&self, name: &str) -> Option<RequestId> {
        let scene = self.scene();
        let found = scene.view.instance().requests.iter_enumerated().find(|(_, one)| one.name == name);
        found.map(|(id, _)| id)
    }

    /// As `/v1/requests/{request}` of a service answers.
    pub fn request(&self, name: &str) -> Option<RequestStatus> {
        let id = self.find(name)?;
        if self.watched.requests()[id].ended.is_some() {
            return Some(RequestStatus::Recorded(self.summary(id)));
        }
        let scene = self.scene();
        let queued = self.describe(&scene, id, &scene.ranks());
        Some(RequestStatus::Open(QueuedRequest { status: Some(RequestState::Open), ..queued }))
    }

    /// As `/v1/requests/{request}/result` of a service answers, and whether it has ended.
    pub fn result(&self, name: &str) -> Option<(RequestRecord, bool)> {
        let id = self.find(name)?;
        let scene = self.scene();
        let instance = scene.view.instance();
        let outputs: Map<String, Value> = instance
            .tasks_of(id)
            .filter_map(|task| {
                let node = &instance.workflow_of(task).nodes[instance.node_of(task) as usize];
                let written = self.journal?.output(task)?;
                Some((node.clone(), Value::Object(written)))
            })
            .collect();
        let record = RequestRecord { outputs: Some(outputs), ..self.summary(id) };
        Some((record, self.watched.requests()[id].ended.is_some()))
    }

    /// As `/v1/cluster` of a service answers.
    pub fn cluster(&self) -> ClusterStatus {
        let open_requests = self.watched.open().len() as u64;
        ClusterStatus { gpus: self.scene().gpus(), backends: Vec::new(), open_requests }
    }
}

impl DashboardSource for RunSource {
    fn overview(&self) -> DashboardAnswer<'_, Overview> {
        Box::pin(async {
            let (present, started_at) = self.look(|look| look.present()).await?;
            Ok(present.told(&DashboardAbout { started_at, ..(*self.about).clone() }))
        })
    }

    fn history(&self, after: u64, limit: usize) -> DashboardAnswer<'_, HistoryPage> {
        Box::pin(async move {
            let look =
                move |look: &Look<'_>| (look.watched.chronicle().after(after, limit), look.scene().ongoing());
            let (part, ongoing) = self.look(look).await?;
            Ok(part.history(&self.instance, ongoing))
        })
    }

    fn onward(&self, gpus: Option<u32>) -> super::Ahead<'_> {
        Box::pin(async move {
            let state =
                self.look(move |look| super::what_if::WhatIfState::of(&look.scene(), gpus, None)).await??;
            Ok((state, (*self.policy).clone(), self.seed))
        })
    }
}
