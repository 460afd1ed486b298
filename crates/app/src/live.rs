//! Runs on real servers: the journal that they leave, how they are shown, and how they are taken up again.

use crate::failure::{Code, Failure};
use crate::job::{self, Inputs, Job, LogFormat, Outcome};
use crate::output::{self, count, files};
use gswarm_core::check::{check_log, report as render_violations};
use gswarm_core::engine::View;
use gswarm_core::input::{ClusterSpec, Scenario, Source, read_backends_for, render};
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log_file::Timing;
use gswarm_core::policy::{Policy, PolicyKind, PolicyParams, follow_as};
use gswarm_core::report::{RunInfo, metrics, summary};
use gswarm_core::{RequestId, Span, TaskId};
use gswarm_exec::backend::{Record, cannot_start};
use gswarm_exec::config::{self, BackendsFile};
use gswarm_exec::drive::{Finished, Live, LiveError, Patience, Problem};
use gswarm_exec::journal::{Durability, Journal, JournalError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

pub mod embedded;
mod failed;
mod lacking;
mod loads;
pub mod ray;
mod recorded;
mod watch;

pub use failed::FailedNode;
use failed::{all_completed, failed};
pub use lacking::warn_of_lacking_inputs;
use ray::{Joined, RaySettings};
pub use recorded::{Recorded, recorded};

/// The journal's name in the folder of a run.
pub const JOURNAL: &str = "journal.db";

/// All that a run was begun with beside its two input files: what it takes to make the same problem again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The policy's name.
    pub policy: String,
    /// `offline` or `online`.
    pub mode: String,
    /// What the policy is told.
    pub params: PolicyParams,
    /// Attempts at a node.
    pub max_attempts: u32,
    /// Whether what executions take corrects what is expected of the rest.
    #[serde(default)]
    pub learn: bool,
    /// What predicted the estimates, by the name of its file; the journal holds the file.
    #[serde(default)]
    pub predictor: Option<String>,
    /// The cluster, in full.
    pub cluster: ClusterSpec,
    /// The servers.
    pub backends: BackendsFile,
    /// The folder of models that this process serves itself, where no servers were named.
    #[serde(default)]
    pub models: Option<PathBuf>,
    /// The Ray cluster, where the run is on one.
    #[serde(default)]
    pub ray: Option<RaySettings>,
    /// The form of the execution log.
    #[serde(default)]
    pub format: LogFormat,
    /// Names of the input files, for messages.
    pub config_name: String,
    /// The requests' file.
    pub requests_name: String,
}

/// A run that is to be made.
pub struct LiveJob<'a> {
    /// What the files say.
    pub scenario: &'a Scenario,
    /// What is scheduled.
    pub instance: &'a Instance,
    /// The rest.
    pub settings: &'a Settings,
    /// The policy and what it is told.
    pub job: &'a Job,
    /// A plan to follow, as its file says it.
    pub plan: Option<&'a [u8]>,
    /// Whether to show how far it is.
    pub shown: bool,
    /// Where the journal is, and what is measured on the way.
    pub folder: &'a Path,
    /// The Ray cluster, which knows of the run, where it is on one.
    pub ray: Option<&'a Joined>,
}

/// Says at once all that is wrong with the servers of a run, before anything is begun.
pub fn look_at_backends(settings: &Settings, instance: &Instance) -> Result<(), Failure> {
    let clock = config::clock(&settings.backends).map_err(|faults| faulty(&faults))?;
    let nobody: Record = Arc::new(|_| {});
    // On Ray, programs are started and servers are reached from elsewhere.
    if settings.ray.is_some() {
        return Ok(());
    }
    config::fleet(&settings.backends, instance, &clock, &nobody).map_err(|faults| faulty(&faults))?;
    Ok(())
}

/// All that is wrong with the servers, for people.
pub fn faulty(faults: &[String]) -> Failure {
    let list: Vec<String> = faults.iter().map(|fault| format!("\n  - {fault}")).collect();
    Failure::input(format!("the backends do not fit:{}", list.concat()))
}

/// Files beside the two inputs that a run may need again.
#[derive(Clone, Copy, Default)]
pub struct Extras<'a> {
    /// A plan to follow.
    pub plan: Option<&'a [u8]>,
    /// What predicted the estimates.
    pub predictor: Option<&'a [u8]>,
    /// A callable for each model.
    pub callables: Option<&'a [u8]>,
}

/// Begins a journal in `folder`, which must not have one.
pub fn begin(
    folder: &Path,
    settings: &Settings,
    inputs: &Inputs,
    extras: Extras<'_>,
) -> Result<Journal, Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(Code::Input, format!("cannot make the folder {}: {error}", folder.display()))
    })?;
    let path = folder.join(JOURNAL);
    let taken = || {
        let shown = folder.display();
        Failure::input(format!("there is a journal of an earlier run in {shown}"))
            .hint(format!("`gswarm resume {shown}` goes on with it; give --out another folder to begin anew"))
    };
    let text =
        serde_json::to_vec(settings).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    let mut meta: Vec<(&str, &[u8])> =
        vec![("settings", &text), ("config", &inputs.config.1), ("requests", &inputs.requests.1)];
    let Extras { plan, predictor, callables } = extras;
    let extras = [("plan", plan), ("predictor", predictor), ("callables", callables)];
    meta.extend(extras.into_iter().filter_map(|(name, bytes)| Some((name, bytes?))));
    Journal::create(&path, Durability::Process, &meta).map_err(|error| match error {
        JournalError::Taken => taken(),
        other => journal_failure(folder, &other),
    })
}

/// Refuses a folder in which a live run is under way: what is written there would be taken for its logs.
pub fn is_not_in_use(folder: &Path) -> Result<(), Failure> {
    if Journal::is_in_use(&folder.join(JOURNAL)) {
        return Err(Failure::input(format!("a live run is under way in {}", folder.display()))
            .hint("give --out another folder, or wait until that run has ended"));
    }
    Ok(())
}

/// What went wrong with a journal, for people.
pub fn journal_failure(folder: &Path, error: &JournalError) -> Failure {
    let failure = Failure::input(format!("{}: {error}", folder.join(JOURNAL).display()));
    match error {
        JournalError::InUse => failure.hint("wait until the other run has ended, or use another folder"),
        JournalError::Empty => {
            failure.hint("make the run again as before: nothing was done, and nothing is lost")
        }
        JournalError::Damaged(_) | JournalError::Sqlite(_) => failure.hint(
            "is the disk full, or was the file changed by something else? A copy of it from before can be resumed; without one, begin anew in another folder",
        ),
        _ => failure,
    }
}

/// Runs on the servers, from the start or from where the journal ends.
pub fn execute(live: &LiveJob<'_>, journal: Journal, resumes: bool) -> Result<(Outcome, Finished), Failure> {
    let LiveJob { scenario, instance, settings, job, .. } = *live;
    let mut policy = policy(live)?;
    if live.shown {
        tell_warnings();
    }
    let own = if live.ray.is_none() { Some(runtime()?) } else { None };
    let Some(here) = live.ray.map(Joined::runtime).or(own.as_ref()) else {
        return Err(Failure::new(Code::Internal, "nothing to run on"));
    };
    let finished = here.block_on(async {
        let mut backends = settings.backends.clone();
        if let Some(models) = &settings.models {
            let url = embedded::start(models, instance.cluster.gpus).await?;
            backends.backends.iter_mut().for_each(|backend| backend.url = Some(url.clone()));
        }
        let clock = config::clock(&backends).map_err(|faults| faulty(&faults))?;
        let record = loads::record(live.folder, instance);
        let fleet = match live.ray {
            Some(joined) => joined.fleet(instance, &record),
            None => config::fleet(&backends, instance, &clock, &record).map_err(|faults| faulty(&faults))?,
        };
        let mut patience = Patience { max_attempts: settings.max_attempts, ..Patience::default() };
        if live.ray.is_some() {
            // What Ray needs to carry a call, or to start a process, is no shorter where models are emulated fast.
            for limit in [&mut patience.call_grace, &mut patience.load_grace, &mut patience.without_backends]
            {
                *limit = clock.of_wall(*limit);
            }
            let limit = settings.ray.as_ref().and_then(|ray| ray.call_timeout);
            patience.call_limit = limit.map(|seconds| clock.of_wall(Span::from_seconds(seconds)));
        }
        let mut run = Live::new(Problem { scenario, instance }, fleet, clock, journal, patience);
        if let Some(learner) = job.beliefs.learner(instance) {
            run.learn_with(learner);
        }
        if resumes {
            run.restore(policy.as_mut()).map_err(|error| match error {
                LiveError::Journal(error @ JournalError::Damaged(_)) => journal_failure(live.folder, &error),
                other => ended_early(other),
            })?;
        }
        let mut screen = watch::Screen::new(job.policy.name(), live.shown);
        let interrupted = files::interrupted_once();
        let mut watch = |view: &View<'_>| {
            screen.show(view);
            !interrupted()
        };
        run.run(policy.as_mut(), &mut watch).await.map_err(ended_early)
    })?;
    match (live.ray, own) {
        (Some(joined), _) => joined.finish(instance, &finished, live.folder),
        // Calls that were given up are not waited for.
        (None, own) => own.into_iter().for_each(Runtime::shutdown_background),
    }
    let measured = metrics(instance, &finished.log);
    let info = RunInfo {
        policy: job.policy.name().to_owned(),
        simulate: true,
        timing: Timing::Measured,
        predictor: job.beliefs.predictor(),
        learn: job.beliefs.learn,
        seed: Some(settings.params.seed),
        ..RunInfo::default()
    };
    let summary = summary(instance, &measured, info);
    let violations = check_log(instance, &finished.log, Some(&summary));
    if !violations.is_empty() {
        // What the models gave is in the journal, and stays there.
        output::note(&format!(
            "warning: the log of this run fails the check:\n{}",
            render_violations(&violations)
        ));
    }
    let log = finished.log.clone();
    Ok((Outcome { log, metrics: measured, summary }, finished))
}

/// Has servers that do not answer, and loads that fail, told as they happen.
fn tell_warnings() {
    let lines = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    let lines = lines.with_target(false).with_ansi(false).without_time().with_writer(std::io::stderr);
    let _ = lines.try_init();
}

/// What live runs happen on.
fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(Code::Internal, format!("cannot start: {error}")))
}

fn policy<'i>(live: &LiveJob<'i>) -> Result<Box<dyn Policy + 'i>, Failure> {
    let LiveJob { instance, job, .. } = *live;
    // A plan is bent by what is believed of times. Where nobody has learned them, they may be off by any factor, and a
    // model that is fetched to save a second of them may take longer than that to come.
    let strict_plan = !job.beliefs.learn && job.beliefs.source.is_none();
    let params = PolicyParams { strict_plan, ..job.params.clone() };
    match live.plan {
        None => Ok(job.policy.build(instance, &params)),
        Some(bytes) => Ok(follow_as(instance, &job::plan_of(instance, "the plan", bytes)?, &params)),
    }
}

fn ended_early(error: LiveError) -> Failure {
    match error {
        LiveError::Interrupted { left } => Failure::new(
            Code::Interrupted,
            format!("interrupted; {} are not done", count(left as u64, "node")),
        )
        .hint("`gswarm resume FOLDER` goes on where it stopped"),
        LiveError::Rejected { .. } => Failure::new(Code::Internal, error.to_string()),
        LiveError::Journal(error) => Failure::input(error.to_string()).hint(
            "is the disk full? What has been done is kept: make room, and `gswarm resume FOLDER` goes on",
        ),
        other => Failure::new(Code::FailedRequests, other.to_string())
            .hint("what has been done is kept: `gswarm resume FOLDER` goes on when the servers are there"),
    }
}

/// Runs, and writes the logs and what came of each request beside the journal.
pub fn run_and_save(live: &LiveJob<'_>, journal: Journal, resumes: bool) -> Result<Saved, Failure> {
    let folder = live.folder;
    let (outcome, finished) = execute(live, journal, resumes).map_err(|failure| failure.in_folder(folder))?;
    let mut batch = files::Batch::new(folder)?;
    job::save(&mut batch, live.instance, live.job, &outcome, live.settings.format)?;
    let results = format!("{}_results.jsonl", live.job.policy.name());
    batch.add(&results, |mut out| write_results(live.instance, &finished, &mut out))?;
    let written = batch.commit()?;
    let failed = failed(live.instance, &finished, live.ray.is_some());
    Ok(Saved { failed, outcome, written, results: folder.join(results) })
}

/// What a run left.
pub struct Saved {
    /// What came of it.
    pub outcome: Outcome,
    /// The files.
    pub written: Vec<PathBuf>,
    /// The nodes that were given up.
    pub failed: Vec<FailedNode>,
    /// The file of results.
    pub results: PathBuf,
}

impl Saved {
    /// A failure where requests failed, which says which and why.
    pub fn all_completed(&self, instance: &Instance) -> Result<(), Failure> {
        all_completed(instance, self.outcome.metrics.failed_requests, &self.failed, &self.results)
    }
}

/// Reads the file that names the servers.
pub fn read_backends(file: &Path) -> Result<BackendsFile, Failure> {
    backends_of(file, &cannot_start)
}

/// The same where programs are started on other machines.
pub fn read_backends_elsewhere(file: &Path) -> Result<BackendsFile, Failure> {
    backends_of(file, &|_| None)
}

fn backends_of(file: &Path, why_not: &dyn Fn(&str) -> Option<String>) -> Result<BackendsFile, Failure> {
    let bytes = files::read(file)?;
    let name = file.display().to_string();
    let reading = read_backends_for(Source { name: &name, bytes: &bytes }, why_not);
    reading.file.ok_or_else(|| {
        Failure::input(render(&reading.diagnostics)).hint("docs/backends.md shows what it may say")
    })
}

/// What came of each request, one a line: its status, what its nodes wrote, and what went wrong.
pub fn write_results(instance: &Instance, finished: &Finished, out: &mut dyn Write) -> io::Result<()> {
    let name = |task: TaskId| instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
    let mut failed_in: BTreeMap<RequestId, Vec<Value>> = BTreeMap::new();
    for one in &finished.failures {
        let failure = json!({"node": name(one.task), "at": one.at.seconds(), "why": one.why});
        failed_in.entry(instance.request_of(one.task)).or_default().push(failure);
    }
    for (id, request) in instance.requests.iter_enumerated() {
        let tasks: Vec<TaskId> = instance.tasks_of(id).collect();
        let outputs: serde_json::Map<String, Value> = tasks
            .iter()
            .filter_map(|&task| Some((name(task), Value::Object(finished.outputs.get(&task)?.clone()))))
            .collect();
        let status = if outputs.len() == tasks.len() { "completed" } else { "failed" };
        let mut line = json!({"request_id": request.name, "status": status, "outputs": outputs});
        if let (Some(failures), Some(fields)) = (failed_in.remove(&id), line.as_object_mut()) {
            fields.insert("failures".to_owned(), Value::Array(failures));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The mode that settings name.
pub fn mode(settings: &Settings) -> Mode {
    if settings.mode == Mode::Online.name() { Mode::Online } else { Mode::Offline }
}

/// The policy that settings name.
pub fn policy_of(settings: &Settings) -> Result<PolicyKind, Failure> {
    settings
        .policy
        .parse()
        .map_err(|error: gswarm_core::policy::UnknownPolicy| Failure::input(error.to_string()))
}
