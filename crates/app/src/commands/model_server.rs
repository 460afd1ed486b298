//! `gswarm model-server`: models of this machine, and emulated ones, over HTTP.

use crate::failure::{Failure, FailureKind};
use crate::output::{self, count, files};
use crate::{args, job};
use clap::{ArgAction, Args};
use gswarm_core::input::{Scenario, Source, read_config};
use gswarm_exec::clock::Clock;
use gswarm_infer::EngineOptions;
use gswarm_serve::guard::{
    self, BoundServer, GuardSettings, RequestLimits, Secret, ServerEnd, StartError, TlsFiles,
};
use gswarm_serve::model_server::hub::HubOptions;
use gswarm_serve::model_server::{ModelServer, ModelServerOptions, router};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  gswarm models init --dir models
  gswarm model-server --models models --port 8000
  gswarm model-server --models models --hub https://hub.example.org
  gswarm model-server --emulate config.yaml --speed 10
  gswarm model-server --models models --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem

Then, from elsewhere:
  curl localhost:8000/standalone/serve -H 'Content-Type: application/json' -d '{\"model_name\": \"tiny-llm\"}'
  curl localhost:8000/v1/completions -H 'Content-Type: application/json' \\
       -d '{\"model\": \"tiny-llm\", \"prompt\": \"Once upon a time\", \"max_tokens\": 20}'

The first line of the output is the server's address. On the first TERM or Ctrl-C the server finishes open calls; a
second ends it at once. docs/model-server.md has every endpoint.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelServerArgs {
    /// Folder of models; created if missing
    #[arg(long, value_name = "DIR", default_value = "models")]
    models: PathBuf,
    /// Emulate the models of this configuration: they take time but compute nothing
    #[arg(long, value_name = "CONFIG")]
    emulate: Option<PathBuf>,
    /// Speed of emulated models: emulated seconds per real second
    #[arg(long, value_name = "N", default_value_t = 1.0, allow_negative_numbers = true, value_parser = speed)]
    speed: f64,
    /// Hub to download models from, with the layout of Hugging Face
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", value_parser = web_address)]
    hub: Option<String>,
    /// Largest model to download
    #[arg(long, value_name = "GB", default_value_t = 100.0, allow_negative_numbers = true, value_parser = args::not_negative)]
    max_model_gb: f64,
    #[command(flatten)]
    listen: ListenArgs,
    /// Maximum batch size of an instance
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    max_batch: usize,
    /// Maximum queue of an instance; further calls get 429
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one)]
    max_waiting: usize,
    /// Maximum context: tokens of prompt and answer together
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = at_least_one)]
    max_context: usize,
    /// Maximum number of instances
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    max_instances: usize,
    /// Log less to standard error
    #[arg(long, short, action = ArgAction::SetTrue)]
    quiet: bool,
}

/// Address and access of a server.
#[derive(Clone, Debug, Args)]
pub struct ListenArgs {
    /// Port; 0 lets the system choose
    #[arg(long, value_name = "N", default_value_t = 8000, allow_negative_numbers = true)]
    pub port: u16,
    /// Address to listen on; --token-file is required if other machines can reach it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// File with the token that callers must send as `Authorization: Bearer TOKEN`. Each line is a token; callers share
    /// the capacity fairly
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate in PEM format; enables HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Maximum size of a request body
    #[arg(long, value_name = "MB", default_value_t = 8, value_parser = at_least_one)]
    pub max_body_mb: usize,
    /// Maximum concurrent requests; further ones get 503
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = at_least_one)]
    pub max_requests: usize,
    /// Timeout of a request in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = at_least_one)]
    pub request_timeout: usize,
    /// Grace period for open calls at shutdown, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub drain_timeout: u32,
}

impl ListenArgs {
    /// The options, with the token read.
    pub fn settings(&self) -> Result<GuardSettings, Failure> {
        let token = self.token_file.as_deref().map(token).transpose()?.map(|text| Secret::new(&text));
        self.warnings().iter().for_each(|warning| output::note(&format!("warning: {warning}")));
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let limits = RequestLimits {
            body_bytes: self.max_body_mb.saturating_mul(1 << 20),
            requests: self.max_requests,
            connections: self.max_requests.saturating_mul(4),
            connections_of_one: self.max_requests.saturating_mul(2),
            all_bodies_bytes: self.max_body_mb.saturating_mul(4).max(256).saturating_mul(1 << 20),
            request_time: Duration::from_secs(self.request_timeout as u64),
            drain_time: Duration::from_secs(u64::from(self.drain_timeout)),
            ..RequestLimits::default()
        };
        Ok(GuardSettings {
            address: SocketAddr::from((self.host, self.port)),
            token,
            tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
            limits,
            ..GuardSettings::local(self.port)
        })
    }
}

impl ListenArgs {
    /// What lets others learn the token.
    fn warnings(&self) -> Vec<String> {
        let Some(file) = &self.token_file else { return Vec::new() };
        let mut warnings = Vec::new();
        if !self.host.is_loopback() && self.tls_cert.is_none() {
            warnings.push(
                "the token and all texts cross the network unencrypted; use --tls-cert and --tls-key, or a proxy that encrypts"
                    .to_owned(),
            );
        }
        let mode = std::fs::metadata(file).map_or(0, |found| found.permissions().mode());
        if mode & 0o044 != 0 {
            let path = file.display();
            warnings.push(format!("others on this machine can read {path}; `chmod 600 {path}` stops them"));
        }
        warnings
    }
}

/// Binds the address of the flags; failures come with a hint.
pub async fn bind(settings: GuardSettings) -> Result<BoundServer, Failure> {
    guard::bind(settings).await.map_err(|error| {
        let failure = Failure::input(error.to_string());
        match error {
            StartError::NoToken(_) => failure.hint(
                "write a token to a file and pass --token-file, or omit --host to serve this machine only",
            ),
            StartError::WeakToken(_) => failure.hint("make one with `openssl rand -hex 32 > token`"),
            StartError::Listen(..) => failure.hint("is another server running? --port 0 picks a free port"),
            StartError::Tls(_) => failure,
        }
    })
}

/// A runtime for a server that logs to standard error.
pub fn runtime(quiet: bool) -> Result<tokio::runtime::Runtime, Failure> {
    let level = if quiet {
        tracing_subscriber::filter::LevelFilter::WARN
    } else {
        tracing_subscriber::filter::LevelFilter::INFO
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_target(false).with_ansi(false);
    // Where somebody else was first, theirs serves as well.
    let _ = lines.with_writer(std::io::stderr).try_init();
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built
        .map_err(|error| Failure::new(FailureKind::Internal, format!("no threads could be started: {error}")))
}

/// Serves models until it is stopped.
pub fn model_server(args: &ModelServerArgs) -> Result<(), Failure> {
    let settings = args.listen.settings()?;
    let options = options(args, settings.limits.request_time)?;
    std::fs::create_dir_all(&args.models)
        .map_err(|error| Failure::file("make the folder", &args.models, &error))?;
    // The first signal drains, the second ends the process.
    let _ = output::interrupt::interrupted_once();
    runtime(args.quiet)?.block_on(serve(args, settings, options))
}

async fn serve(
    args: &ModelServerArgs,
    settings: GuardSettings,
    options: ModelServerOptions,
) -> Result<(), Failure> {
    let drain = settings.limits.drain_time;
    let emulated = options.emulated.as_ref().map_or(0, |scenario| scenario.models.len());
    let bound = bind(settings).await?;
    let server = ModelServer::open(options, &bound).map_err(|error| Failure::input(error.to_string()))?;
    output::line(&format!("Listening on {}", bound.url()))?;
    if !args.quiet {
        output::note(&format!("Models: {}; Ctrl-C ends the server", args.models.display()));
        if emulated > 0 {
            let models = count(emulated as u64, "model");
            output::note(&format!("{models} emulated, at {} times real speed", args.speed));
        }
    }
    let ending = async {
        guard::terminated().await;
        output::note("Shutting down: finishing open calls first");
    };
    match bound.serve(router(server), ending).await {
        ServerEnd::Drained => Ok(()),
        ServerEnd::CutOff => {
            let seconds = drain.as_secs();
            Err(Failure::new(
                FailureKind::FailedRequests,
                format!("calls that took longer than {seconds} s were aborted"),
            )
            .hint("--drain-timeout gives them more time"))
        }
    }
}

fn options(args: &ModelServerArgs, request_time: Duration) -> Result<ModelServerOptions, Failure> {
    let hub = args.hub.clone().map(|url| HubOptions {
        url,
        token: std::env::var("HF_TOKEN").ok().filter(|token| !token.trim().is_empty()),
        max_bytes: (args.max_model_gb * 1e9) as u64,
    });
    Ok(ModelServerOptions {
        emulated: args.emulate.as_deref().map(|path| emulated(path, args.quiet)).transpose()?,
        clock: Clock::at_speed(args.speed),
        hub,
        engine: EngineOptions {
            max_batch: args.max_batch,
            max_waiting: args.max_waiting,
            max_context: args.max_context,
            ..EngineOptions::default()
        },
        max_instances: args.max_instances,
        // A caller is told that a download goes on before the request is given up.
        patience: request_time.mul_f64(0.9),
        ..ModelServerOptions::new(&args.models)
    })
}

fn emulated(path: &Path, quiet: bool) -> Result<Scenario, Failure> {
    let bytes = files::read(path)?;
    let name = path.display().to_string();
    job::accept(read_config(Source { name: &name, bytes: &bytes }), quiet)
}

/// The token in a file.
pub fn token(path: &Path) -> Result<String, Failure> {
    let made = format!("`openssl rand -hex 32 > {}` makes one", path.display());
    let bytes = files::read_or(path, &made)?;
    String::from_utf8(bytes).map_err(|_| Failure::input(format!("{} is not UTF-8 text", path.display())))
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(number) if (1..=1 << 30).contains(&number) => Ok(number),
        _ => Err("give a whole number of at least one".to_string()),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err("give a number above zero".to_string()),
    }
}

fn web_address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest.is_some_and(|rest| !rest.is_empty()) {
        true => Ok(text.to_string()),
        false => Err("the address must start with https:// or http://".to_string()),
    }
}
