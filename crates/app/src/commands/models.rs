//! `gswarm models`: makes small models for experiments, and lists folders of models.

use crate::failure::{Failure, FailureKind};
use crate::output;
use crate::output::files::Batch;
use crate::output::table::{fitted, grouped};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use gswarm_infer::init::{ModelSize, model_files};
use gswarm_infer::{Error, ModelConfig, ModelKind, Store, StoreEntry};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm models init --dir models                       models/tiny-llm and models/tiny-embedding
  gswarm models init --dir models --name writer --seed 7
  gswarm models init --dir models --kind embedding --size small --name team/finder
  gswarm models list --dir models
  gswarm models list --dir models --checksum --json

The models that `init` makes have random weights: they load, run and answer as real ones do, but their text is nonsense.
The same seed gives the same bytes. Models from elsewhere go into the same folder: config.json, tokenizer.json and
model.safetensors in a folder of their own.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make small models with random weights from a seed
    Init(InitArgs),
    /// List the models of a folder
    List(ListArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct InitArgs {
    /// Folder of models
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of the model, NAME or OWNER/NAME [default: by size and kind, such as tiny-llm]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What to make [default: both, or a language model with --name]
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    kind: Option<Kinds>,
    /// Seed for the weights
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// About 2 MB, or about 80 MB, which takes a moment to load
    #[arg(long, value_name = "SIZE", default_value = "tiny", value_parser = size_parser())]
    size: ModelSize,
    /// Overwrite an existing model
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ListArgs {
    /// Folder of models
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Also print the SHA-256 of each model's files
    #[arg(long)]
    checksum: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    One(ModelKind),
    Both,
}

pub fn models(args: &ModelsArgs) -> Result<(), Failure> {
    match &args.what {
        What::Init(args) => init(args),
        What::List(args) => list(args),
    }
}

fn init(args: &InitArgs) -> Result<(), Failure> {
    let default = if args.name.is_some() { Kinds::One(ModelKind::Language) } else { Kinds::Both };
    let wanted: Vec<(ModelKind, String)> = match (args.kind.unwrap_or(default), &args.name) {
        (Kinds::Both, Some(name)) => {
            return Err(Failure::input(format!("--name {name} names one model, but --kind both makes two"))
                .hint("omit --name, or make one kind at a time"));
        }
        (Kinds::One(kind), Some(name)) => vec![(kind, name.clone())],
        (Kinds::One(kind), None) => vec![(kind, default_name(args.size, kind))],
        (Kinds::Both, None) => [ModelKind::Language, ModelKind::Embedding]
            .map(|kind| (kind, default_name(args.size, kind)))
            .to_vec(),
    };
    // All are written before the first takes its name.
    let mut written = Vec::new();
    for (kind, name) in wanted {
        let folder = place(&args.dir, &name)?;
        let mut batch = reserve(&folder, &name, args.force)?;
        let files = model_files(kind, args.size, args.seed).map_err(fault)?;
        for outdated in ["generation_config.json", "chat_template.jinja", "model.safetensors.index.json"] {
            if !files.iter().any(|(name, _)| *name == outdated) {
                batch.supersede(outdated);
            }
        }
        for (name, bytes) in &files {
            batch.add(name, |out| std::io::Write::write_all(out, bytes))?;
        }
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        written.push((batch, folder, kind, bytes));
    }
    for (batch, folder, kind, bytes) in written {
        batch.commit()?;
        output::line(&format!("Wrote {} ({}, {})", folder.display(), kind.name(), megabytes(bytes as u64)))?;
    }
    output::line(&format!("Next: gswarm models list --dir {}", args.dir.display()))
}

fn default_name(size: ModelSize, kind: ModelKind) -> String {
    let size = match size {
        ModelSize::Tiny => "tiny",
        ModelSize::Small => "small",
    };
    format!("{size}-{}", kind.name())
}

/// Where a model of this name goes. The folder of models need not be there yet.
fn place(dir: &Path, name: &str) -> Result<PathBuf, Failure> {
    Store::check_name(name).map_err(fault)?;
    if dir.exists() {
        Store::open(dir).and_then(|store| store.place(name)).map_err(fault)?;
    }
    Ok(dir.join(name))
}

fn reserve(folder: &Path, name: &str, force: bool) -> Result<Batch, Failure> {
    if force {
        return Batch::new_for(folder, "--dir");
    }
    Batch::reserve_for(folder, "--dir")?.ok_or_else(|| {
        Failure::input(format!("{} already exists", folder.display()))
            .hint(format!("choose another name than {name}, or add --force to replace it"))
    })
}

fn list(args: &ListArgs) -> Result<(), Failure> {
    let store = Store::open(&args.dir).map_err(fault)?;
    let entries = store.list().map_err(fault)?;
    let checksums = match args.checksum {
        true => entries.iter().map(|entry| store.model(&entry.name)?.checksum()).map(Result::ok).collect(),
        false => vec![None; entries.len()],
    };
    if args.json {
        let all = entries.iter().zip(&checksums).map(|(entry, sum)| ModelJson::of(entry, sum.as_deref()));
        return output::json_lines(&all.collect::<Vec<_>>());
    }
    if entries.is_empty() {
        output::line(&format!("There is no model in {}", args.dir.display()))?;
        return output::line(&format!("Next: gswarm models init --dir {}", args.dir.display()));
    }
    let row = |entry: &StoreEntry| {
        let (kind, tokens, context) = match &entry.config {
            Ok(config) => {
                let count = |count: usize| grouped(count as f64, 0);
                (config.kind().name(), count(config.vocab_size()), count(config.max_positions()))
            }
            Err(_) => ("unusable", String::new(), String::new()),
        };
        vec![entry.name.clone(), kind.to_string(), megabytes(entry.bytes), tokens, context]
    };
    let header = ["model", "kind", "on disk", "vocabulary", "context"];
    let rows = entries.iter().map(row).collect();
    output::line(&fitted(&header, 2, rows, output::width()))?;
    for (entry, checksum) in entries.iter().zip(&checksums) {
        if let Some(sum) = checksum {
            output::line(&format!("{sum}  {}", entry.name))?;
        }
    }
    for entry in &entries {
        if let Err(error) = &entry.config {
            output::note(&format!("note: {} cannot be used: {error}", entry.name));
        }
    }
    Ok(())
}

/// What `--json` prints of a model.
#[derive(Serialize)]
struct ModelJson<'a> {
    name: &'a str,
    path: &'a Path,
    bytes: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    config: Option<ConfigJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<&'a str>,
}

#[derive(Serialize)]
struct ConfigJson {
    kind: &'static str,
    vocab_size: usize,
    max_positions: usize,
    hidden_size: usize,
    layers: usize,
}

impl ModelJson<'_> {
    fn of<'a>(entry: &'a StoreEntry, checksum: Option<&'a str>) -> ModelJson<'a> {
        let config = entry.config.as_ref().ok().map(|config| {
            let (hidden_size, layers) = match config {
                ModelConfig::Decoder(config) => (config.hidden_size, config.layers),
                ModelConfig::Encoder(config) => (config.hidden_size, config.layers),
            };
            ConfigJson {
                kind: config.kind().name(),
                vocab_size: config.vocab_size(),
                max_positions: config.max_positions(),
                hidden_size,
                layers,
            }
        });
        let error = entry.config.as_ref().err().map(ToString::to_string);
        ModelJson {
            name: &entry.name,
            path: &entry.path,
            bytes: entry.bytes,
            config,
            error,
            sha256: checksum,
        }
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The failure for a library error: only a failed computation is not the user's fault.
fn fault(error: Error) -> Failure {
    match &error {
        Error::Compute(_) => Failure::new(FailureKind::Internal, error.to_string()),
        Error::File { path, source } => Failure::file("read", path, source),
        Error::Name { .. } => {
            Failure::input(error.to_string()).hint("use NAME or OWNER/NAME, such as team/writer")
        }
        _ => Failure::input(error.to_string()),
    }
}

fn kind_parser() -> impl TypedValueParser<Value = Kinds> {
    crate::args::choice(vec![
        ("llm", Kinds::One(ModelKind::Language)),
        ("embedding", Kinds::One(ModelKind::Embedding)),
        ("both", Kinds::Both),
    ])
}

fn size_parser() -> impl TypedValueParser<Value = ModelSize> {
    crate::args::choice(vec![("tiny", ModelSize::Tiny), ("small", ModelSize::Small)])
}
