//! `gswarm serve`: the front door to a cluster.

use crate::args::{ClusterArgs, not_negative};
use crate::beliefs::PredictorArgs;
use crate::commands::init::found::Found;
use crate::commands::model_server::{ListenArgs, bind, runtime};
use crate::failure::{Failure, FailureKind};
use crate::job;
use crate::output::{self, count, files};
use crate::policy_flags::{PolicyFlags, Scope};
use clap::Args;
use gswarm_core::belief::{Learner, Recent};
use gswarm_core::input::{Diagnostic, Scenario, Source, read_config, render};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{BuildContext, PolicyKind};
use gswarm_core::{Instance, ModelId, Span};
use gswarm_exec::backend::{BackendsFile, LoadRecorder, read_backends_here};
use gswarm_exec::capacity::{self, Capacity};
use gswarm_exec::clock::Clock;
use gswarm_exec::config;
use gswarm_exec::drive::{LiveError, Patience};
use gswarm_exec::fleet::Fleet;
use gswarm_exec::journal::{Durability, JournalError};
use gswarm_exec::preflight::preflight;
use gswarm_exec::service::{Client, Expect, Service, ServiceBeliefs, ServiceLimits, with_direct_workflows};
use gswarm_exec::telemetry::{SpanTarget, sending};
use gswarm_import::llama_swap;
use gswarm_run::live::{self, EmbeddedModels};
use gswarm_serve::embedded::EmbeddedHost;
use gswarm_serve::front;
use gswarm_serve::guard::{self, ServerEnd};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  gswarm serve --config config.yaml --backends backends.yaml --port 8080
  gswarm serve --config config.yaml --backends backends.yaml --max-collate-wait 10 --objective p99
  gswarm serve --from llama-swap.yaml --port 8080
  gswarm serve --from http://localhost:11434 --port 8080
  gswarm serve --config config.yaml --backends backends.yaml --host 0.0.0.0 --token-file token \\
      --tls-cert cert.pem --tls-key key.pem

Then, from elsewhere:
  curl localhost:8080/v1/chat/completions -H 'Content-Type: application/json' \\
       -d '{\"model\": \"llm7b\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'
  curl localhost:8080/v1/workflows/text_to_image/requests -H 'Content-Type: application/json' \\
       -d '{\"input_data\": {\"user_prompt\": \"A cat\"}}'
  curl localhost:8080/v1/queue

The first line of the output is the address. Accepted workflow requests are stored in --state and survive a crash. On
the first TERM or Ctrl-C, running work is finished; docs/serve.md has every endpoint.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Models, workflows and the cluster, JSON or YAML
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    config: Option<PathBuf>,
    /// A configuration of llama-swap, or the addresses of running servers (Ollama, vLLM, ...), instead of --config and
    /// --backends; see docs/coming-from.md
    #[arg(long, value_name = "FILE|URL", num_args = 1.., conflicts_with_all = ["config", "backends"])]
    from: Vec<String>,
    /// Model servers, JSON or YAML; see docs/backends.md. Without it, the models of --models run in this process
    #[arg(long, value_name = "FILE")]
    backends: Option<PathBuf>,
    /// Folder of models, if --backends is not given
    #[arg(long, value_name = "DIR", default_value = "models")]
    models: PathBuf,
    /// Folder for accepted requests and their results
    #[arg(long, value_name = "DIR", default_value = "gswarm-state")]
    state: PathBuf,
    /// Maximum open requests; further ones get 429
    #[arg(long, alias = "max_open", value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_open: u32,
    /// Maximum concurrent calls per model: N for all, or MODEL=N for one; repeatable [default: from the configuration's
    /// `batching` or the server]
    #[arg(long, alias = "max_batch", value_name = "[MODEL=]N", value_parser = max_batch)]
    max_batch: Vec<(Option<String>, u32)>,
    /// Unload a model after this many seconds without use: SECONDS for all models, or MODEL=SECONDS for one;
    /// repeatable. 0 keeps it loaded [default: until its memory is needed]
    #[arg(long, value_name = "[MODEL=]SECONDS", value_parser = time_to_live)]
    ttl: Vec<(Option<String>, f64)>,
    /// Alias of a model in calls; repeatable
    #[arg(long, value_name = "NAME=MODEL", value_parser = alias)]
    alias: Vec<(String, String)>,
    /// Attempts at a node or call before it fails
    #[arg(long, alias = "max_attempts", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_attempts: u32,
    /// Seconds that a request waits for unhealthy servers before it fails
    #[arg(long, alias = "server_patience", value_name = "SECONDS", default_value_t = 600.0, allow_negative_numbers = true,
          value_parser = at_least_a_second)]
    server_patience: f64,
    /// Days to keep results; 0 keeps them forever
    #[arg(long, value_name = "DAYS", default_value_t = 7.0, allow_negative_numbers = true, value_parser = not_negative)]
    keep: f64,
    /// Sync to disk before accepting a request, so that it survives a crash of the machine, not only of the process
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    predictor: PredictorArgs,
    /// Learn from finished executions, per model, and correct later estimates
    #[arg(long, help_heading = "Run times (see docs/learning.md)")]
    learn: bool,
    /// Send OpenTelemetry spans to a collector (http://localhost:4318), or append them to a file, as OTLP JSON
    #[arg(long, value_name = "URL|FILE")]
    otlp: Option<String>,
    /// Log less to standard error
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    params: PolicyFlags<Serving>,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten, next_help_heading = "Cluster (each overrides the configuration's `cluster`)")]
    cluster: ClusterArgs,
}

/// How long the last spans have to be sent.
const LAST_SPANS: std::time::Duration = std::time::Duration::from_secs(5);

/// Models whose calls at once are told.
const MOST_TOLD: usize = 20;

/// A service runs `adaptive` with this waiting limit.
#[derive(Clone, Copy, Debug)]
struct Serving;

impl Scope for Serving {
    const KINDS: &'static [PolicyKind] = &[PolicyKind::Adaptive];
    const DEFAULTS: &'static [(&'static str, &'static str)] = &[("max_collate_wait", "30")];
}

/// Serves until it is stopped.
pub fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let mut settings = args.listen.settings()?;
    settings.open_paths = front::OPEN_PATHS;
    settings.listening_paths = front::LISTENING_PATHS;
    let Served { mut scenario, backends, mut aliases, at_once, ttl, told } = served(args)?;
    let runtime = runtime(args.quiet)?;
    let named = |flag: &'static str, model: &Option<String>| model.clone().map(|model| (flag, model));
    let named = args.max_batch.iter().filter_map(|(model, _)| named("--max-batch", model));
    let lives = args.ttl.iter().filter_map(|(model, _)| model.clone().map(|model| ("--ttl", model)));
    let meant = args.alias.iter().map(|(_, model)| ("--alias", model.clone()));
    for (flag, model) in named.chain(lives).chain(meant) {
        if scenario.models.iter().all(|known| known.id != model) {
            return Err(Failure::input(format!("{flag}: there is no model `{model}`")));
        }
    }
    aliases.extend(args.alias.iter().cloned());
    let ttl = times_to_live(&scenario, ttl.into_iter().chain(args.ttl.iter().cloned()));
    let fixed: Vec<_> = at_once.into_iter().chain(args.max_batch.iter().cloned()).collect();
    let at_once = runtime.block_on(capacity::fill(&mut scenario, backends.as_ref(), &fixed));
    let cluster = args.cluster.over(&scenario.cluster);
    let scenario = Arc::new(with_direct_workflows(scenario));
    let instance = job::build(&scenario, &cluster, Mode::Online, Some(PolicyKind::Adaptive))?;
    if backends.is_none() {
        EmbeddedHost.check(&args.models, &scenario)?;
    }
    let beliefs = believed(args)?;
    // The first signal drains, the second ends the process.
    let _ = output::interrupt::interrupted_once();
    runtime.block_on(async {
        let record = record(&instance);
        let (clock, fleet) = match &backends {
            Some(backends) => {
                let clock = config::clock(backends).map_err(|faults| live::faulty(&faults))?;
                let fleet = config::fleet(&backends.logging_to(&args.state), &instance, &clock, &record);
                let fleet = fleet.map_err(|faults| live::faulty(&faults))?;
                look_at(args, &fleet, &instance).await?;
                (clock, fleet)
            }
            None => (Clock::real(), EmbeddedHost.serve(&args.models, &scenario, &instance, &record)?),
        };
        let bound = bind(settings).await?;
        let (service, client) = begin(args, Arc::clone(&scenario), &instance, fleet, clock, (beliefs, ttl))?;
        let sending = args.otlp.as_deref().map(|target| sending(SpanTarget::of(target))).transpose();
        let sending = sending.map_err(|why| Failure::input(format!("--otlp: {why}")))?;
        let (service, sent) = match sending {
            Some((sender, sent)) => (service.with_spans(sender), Some(sent)),
            None => (service, None),
        };
        let service = (service, client.with_aliases(aliases));
        output::line(&format!("Listening on {}", bound.url()))?;
        if !args.quiet {
            told.iter().for_each(|sentence| output::note(sentence));
            tell(args, &instance, &service.1, &at_once);
        }
        let spec = args.params.spec(PolicyKind::Adaptive)?;
        let mut policy = spec.build(&instance, &BuildContext::default());
        let ending = async {
            guard::terminated().await;
            output::note("Shutting down: finishing running work; the rest is kept for the next start");
        };
        let ended =
            front::run(bound, service, (policy.as_mut(), &spec), front::count_everything(), ending).await;
        if let Some(sent) = sent {
            // The last spans are on their way; a collector that takes none of them holds nobody up for long.
            let _ = tokio::time::timeout(LAST_SPANS, sent).await;
        }
        match ended {
            Ok(ServerEnd::Drained) => Ok(()),
            Ok(ServerEnd::CutOff) => {
                Err(Failure::new(FailureKind::FailedRequests, "calls that took too long were aborted").hint(
                    "--drain-timeout gives them more time; accepted requests are kept for the next start",
                ))
            }
            Err(LiveError::Journal(error)) => {
                Err(Failure::input(format!("{}: {error}", args.state.display())).hint(
                    "is the disk full? Free some space and restart: accepted requests are kept and continue",
                ))
            }
            Err(error) => Err(Failure::new(FailureKind::Internal, error.to_string())
                .hint("restart to continue: accepted requests are kept")),
        }
    })
}

/// Looks at the servers before anything is accepted.
async fn look_at(args: &ServeArgs, fleet: &Fleet, instance: &Instance) -> Result<(), Failure> {
    let mut told = false;
    let waiting = |what: &str| {
        if !std::mem::replace(&mut told, true) {
            output::note(what);
        }
        !output::interrupt::is_interrupted()
    };
    let patience = Span::from_seconds(args.server_patience);
    let found = preflight(fleet, instance, |_| true, patience, waiting).await;
    let found = found.map_err(|findings| live::unwell(&findings))?;
    found.iter().for_each(|one| output::note(&format!("warning: {}", live::told(one))));
    Ok(())
}

fn at_least_a_second(text: &str) -> Result<f64, String> {
    let seconds = not_negative(text)?;
    if seconds >= 1.0 { Ok(seconds) } else { Err("give at least 1 second".to_owned()) }
}

/// What is served.
struct Served {
    scenario: Scenario,
    /// The servers; without them, models run in this process.
    backends: Option<BackendsFile>,
    /// Further names of models.
    aliases: BTreeMap<String, String>,
    /// Calls at once that the files give.
    at_once: Vec<(Option<String>, u32)>,
    /// Seconds after which models are unloaded that nobody uses, as the files give them.
    ttl: Vec<(Option<String>, f64)>,
    /// What was assumed.
    told: Vec<String>,
}

/// Reads gswarm's own files, or one of llama-swap.
fn served(args: &ServeArgs) -> Result<Served, Failure> {
    if args.from.iter().any(|from| from.contains("://")) {
        return running(&args.from);
    }
    if let [_, second, ..] = &args.from[..] {
        return Err(Failure::input(format!("--from {second}: give one file, or addresses of servers")));
    }
    let own = args.config.as_deref().unwrap_or(Path::new(""));
    let path = args.from.first().map_or(own, Path::new);
    let (name, bytes) = (path.display().to_string(), files::read(path)?);
    let source = Source { name: &name, bytes: &bytes };
    if args.from.is_empty() {
        let scenario = job::accept(read_config(source), args.quiet)?;
        let backends = args.backends.as_deref().map(live::read_backends).transpose()?;
        let (aliases, at_once, ttl, told) = Default::default();
        return Ok(Served { scenario, backends, aliases, at_once, ttl, told });
    }
    let wrong = |found: &[Diagnostic]| Failure::input(format!("{name} cannot be served\n{}", render(found)));
    let made = llama_swap(source).map_err(|found| wrong(&found))?;
    let text = Source { name: "the configuration made of it", bytes: made.config.as_bytes() };
    let scenario = job::accept(read_config(text), true)?;
    let reading =
        read_backends_here(Source { name: "the servers made of it", bytes: made.backends.as_bytes() });
    let backends = Some(reading.file.ok_or_else(|| wrong(&reading.diagnostics))?);
    let (aliases, at_once, told) = (made.aliases, made.at_once, made.told);
    let ttl = made.ttl.into_iter().map(|(model, seconds)| (Some(model), seconds)).collect();
    Ok(Served { scenario, backends, aliases, at_once, ttl, told })
}

/// The models of servers that run.
fn running(addresses: &[String]) -> Result<Served, Failure> {
    let found = Found::at_all(addresses)?;
    let (config, servers) = (found.config(), found.servers().unwrap_or_default());
    let text = Source { name: "the configuration made of it", bytes: config.as_bytes() };
    let scenario = job::accept(read_config(text), true)?;
    let reading = read_backends_here(Source { name: "the servers made of it", bytes: servers.as_bytes() });
    let wrong = || {
        Failure::input(format!("{} cannot be served\n{}", addresses.join(", "), render(&reading.diagnostics)))
    };
    let backends = Some(reading.file.clone().ok_or_else(wrong)?);
    let (aliases, at_once, ttl) = Default::default();
    Ok(Served { scenario, backends, aliases, at_once, ttl, told: found.told() })
}

/// Estimates of run times besides the configuration's.
fn believed(args: &ServeArgs) -> Result<ServiceBeliefs, Failure> {
    let expect = args.predictor.one_by_one()?.map(|predictor| -> Expect {
        Box::new(move |scenario, request, node| predictor.expected(scenario, request, node))
    });
    let learner = args.learn.then(|| -> Box<dyn Learner> { Box::new(Recent::new()) });
    Ok(ServiceBeliefs { expect, learner })
}

/// Logs and counts loads and unloads.
fn record(instance: &Instance) -> LoadRecorder {
    let names: Vec<String> = instance.models.iter().map(|model| model.name.clone()).collect();
    Arc::new(move |timed| {
        let name = &names[timed.model.index()];
        let what = if timed.load { "loaded" } else { "unloaded" };
        tracing::info!("{name} on GPU {}: {what} in {:.2} s", timed.gpus, timed.seconds);
        let measure = if timed.load { "gswarm_load_seconds" } else { "gswarm_unload_seconds" };
        metrics::histogram!(measure, "model" => name.clone()).record(timed.seconds);
    })
}

fn begin(
    args: &ServeArgs,
    scenario: Arc<gswarm_core::input::Scenario>,
    instance: &Instance,
    fleet: Fleet,
    clock: Clock,
    (beliefs, ttl): (ServiceBeliefs, BTreeMap<ModelId, Span>),
) -> Result<(Service, Client), Failure> {
    let durability = if args.sync { Durability::Machine } else { Durability::Process };
    let for_servers = Span::from_seconds(args.server_patience);
    let patience = Patience { max_attempts: args.max_attempts, for_servers, ..Patience::default() };
    let limits = ServiceLimits {
        open: args.max_open as usize,
        drain: Span::from_seconds(f64::from(args.listen.drain_timeout)),
        keep: (args.keep > 0.0).then(|| Span::from_seconds(args.keep * 86_400.0)),
        ttl,
    };
    let settings = (durability, patience, limits);
    let begun = Service::begin(scenario, instance.clone(), fleet, clock, &args.state, settings, beliefs);
    begun.map_err(|error| {
        let failure = Failure::input(format!("{}: {error}", args.state.display()));
        match error {
            JournalError::InUse => {
                failure.hint("another `gswarm serve` uses this folder: choose another with --state")
            }
            JournalError::Folder(_) => failure.hint("choose a writable folder with --state"),
            JournalError::OtherConfiguration { .. } => failure.hint(
                "start with the configuration they were accepted under, or choose another folder with --state",
            ),
            JournalError::Version(_) => {
                failure.hint("serve with the version that wrote it, or choose another folder with --state")
            }
            JournalError::Damaged(_) => failure.hint(
                "nothing was started: restore a copy of the folder, or choose another with --state; and check the disk",
            ),
            _ => failure,
        }
    })
}

/// How long each model stays that nobody uses; what comes later counts.
fn times_to_live(
    scenario: &Scenario,
    given: impl Iterator<Item = (Option<String>, f64)>,
) -> BTreeMap<ModelId, Span> {
    let mut all = BTreeMap::new();
    for (model, seconds) in given {
        let meant = scenario.models.iter().enumerate();
        for (at, _) in meant.filter(|(_, known)| model.as_ref().is_none_or(|model| *model == known.id)) {
            all.insert(ModelId::from(at), Span::from_seconds(seconds));
        }
    }
    all.retain(|_, ttl| *ttl > Span::ZERO);
    all
}

/// `gpt-4=writer`.
fn alias(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, model)) if !name.is_empty() && !model.is_empty() => {
            Ok((name.to_owned(), model.to_owned()))
        }
        _ => Err("write NAME=MODEL".to_owned()),
    }
}

/// `600`, or `writer=600`.
fn time_to_live(text: &str) -> Result<(Option<String>, f64), String> {
    let (model, seconds) = match text.rsplit_once('=') {
        Some((model, seconds)) => (Some(model.to_owned()), seconds),
        None => (None, text),
    };
    not_negative(seconds.trim()).map(|seconds| (model, seconds))
}

/// `8`, or `writer=8`.
fn max_batch(text: &str) -> Result<(Option<String>, u32), String> {
    let (model, number) = match text.rsplit_once('=') {
        Some((model, number)) => (Some(model.to_owned()), number),
        None => (None, text),
    };
    let most = 1 << 16;
    let number = number.trim().parse().ok().filter(|number| (1..=most).contains(number));
    let wrong = || format!("give a whole number from 1 to {most}, or MODEL=N");
    number.map(|number| (model, number)).ok_or_else(wrong)
}

fn tell(args: &ServeArgs, instance: &Instance, client: &Client, at_once: &[(String, Capacity)]) {
    let models = count(instance.models.len() as u64, "model");
    let workflows = count(client.workflows().len() as u64, "workflow");
    let gpus = count(instance.cluster.gpus.into(), "GPU");
    output::note(&format!("{models} and {workflows} on {gpus}; state in {}", args.state.display()));
    let shown =
        at_once.iter().take(MOST_TOLD).map(|(model, it)| format!("{model} {} ({})", it.calls, it.source));
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        let more = if at_once.len() > MOST_TOLD { ", ..." } else { "" };
        output::note(&format!("Calls at once: {}{more}; --max-batch sets others", shown.join(", ")));
    }
    let never = instance.models.keys().filter_map(|model| client.cannot_run(model));
    never.for_each(|why| output::note(&format!("warning: {why}: its calls will be refused")));
}
