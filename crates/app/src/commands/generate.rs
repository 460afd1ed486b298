//! `gswarm generate`: configurations and request files from a seed.

use crate::failure::Failure;
use crate::job;
use crate::output::{self, described, files, progress::Phase};
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use gswarm_core::Span;
use gswarm_core::generate::{
    Arrivals, Format, Preset, RequestOptions, requests as draw, write_config, write_requests,
};
use gswarm_core::input::{Scenario, Source, read_config};
use gswarm_core::schema::SchemaKind;
use gswarm_core::time::duration;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm generate --preset complex --requests 1000 --out work       work/config.yaml and work/requests.yaml
  gswarm generate config --preset simple --out config.json
  gswarm generate requests --config config.json --requests 500 --duration 20min \\
      --arrivals bursty --mix illustrate=2,essay=1 --seed 7 --out requests.yaml

The same seed gives the same bytes. Existing files are kept unless --force is given.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct GenerateArgs {
    #[command(subcommand)]
    only: Option<Only>,
    #[command(flatten)]
    both: BothArgs,
}

#[derive(Debug, Subcommand)]
enum Only {
    /// A configuration alone
    Config(ConfigArgs),
    /// Requests for a configuration of your own
    Requests(RequestsArgs),
    /// The former name of `gswarm tasks generate`
    #[command(hide = true)]
    Tasks(Box<super::tasks::GenerateTasksArgs>),
}

/// A configuration and requests for it, in one folder.
#[derive(Debug, Args)]
struct BothArgs {
    /// Ready-made configuration: 3 models and 2 workflows, or 10 models and 3 workflows
    #[arg(long, required = true, value_name = "NAME", value_parser = preset_parser())]
    preset: Option<Preset>,
    /// Folder for the two files
    #[arg(long, short, required = true, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Format of the two files
    #[arg(long, value_name = "FORM", default_value = "yaml", value_parser = format_parser())]
    format: Format,
    #[command(flatten)]
    draw: DrawArgs,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ConfigArgs {
    /// Ready-made configuration
    #[arg(long, value_name = "NAME", value_parser = preset_parser())]
    preset: Preset,
    /// File to write, JSON or YAML by its extension; default: YAML to standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct RequestsArgs {
    /// Configuration to make requests for
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    draw: DrawArgs,
    /// File to write, JSON or YAML by its extension; default: YAML to standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

/// What requests to draw.
#[derive(Debug, Args)]
struct DrawArgs {
    /// Number of requests
    #[arg(long, alias = "num-requests", alias = "num_requests", value_name = "N", default_value_t = 500,
          allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
    /// Period in which requests arrive: seconds, or 90s, 20min, 2h
    #[arg(long, value_name = "TIME", default_value = "20min", allow_hyphen_values = true, value_parser = duration)]
    duration: Span,
    /// How they are spread over it
    #[arg(long, value_name = "PROCESS", default_value = "poisson", value_parser = arrivals_parser())]
    arrivals: Arrivals,
    /// Weights of the workflows, such as a=2,b=1 [default: equal]
    #[arg(long, value_name = "ID=WEIGHT,...", value_delimiter = ',', value_parser = weight)]
    mix: Vec<(String, f64)>,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
}

impl DrawArgs {
    fn options(&self) -> Result<RequestOptions, Failure> {
        let names = self.mix.iter().map(|(name, _)| name);
        if let Some((_, name)) =
            names.enumerate().find(|&(at, name)| self.mix[..at].iter().any(|(n, _)| n == name))
        {
            return Err(
                Failure::input(format!("--mix gives `{name}` twice")).hint("give each workflow one weight")
            );
        }
        Ok(RequestOptions {
            count: self.requests,
            duration: self.duration,
            arrivals: self.arrivals,
            mix: self.mix.clone(),
            seed: self.seed,
        })
    }
}

/// Progress message for long generation.
const MAKING: &str = "making the requests";

pub fn generate(args: &GenerateArgs) -> Result<(), Failure> {
    match &args.only {
        Some(Only::Config(args)) => {
            let config = args.preset.config();
            emit(args.out.as_deref(), args.force, SchemaKind::Config, |format, out| {
                write_config(&config, format, out)
            })
        }
        Some(Only::Requests(args)) => {
            // What goes to standard output may go to the same terminal.
            let making = Phase::new(MAKING, args.out.is_some());
            let bytes = files::read(&args.config)?;
            let scenario = read(&args.config.display().to_string(), &bytes)?;
            let drawn = draw(&scenario, &args.draw.options()?).map_err(fault)?;
            emit(args.out.as_deref(), args.force, SchemaKind::Requests, |format, out| {
                let _making = making;
                write_requests(drawn, format, out)
            })
        }
        Some(Only::Tasks(args)) => super::tasks::generate(args),
        None => both(&args.both),
    }
}

fn both(args: &BothArgs) -> Result<(), Failure> {
    let (Some(preset), Some(folder)) = (args.preset, &args.out) else {
        return Err(Failure::input("--preset and --out are both needed").hint("see `gswarm generate --help`"));
    };
    let ending = if args.format == Format::Json { "json" } else { "yaml" };
    let names = [format!("config.{ending}"), format!("requests.{ending}")];
    for name in &names {
        keep(&folder.join(name), args.force)?;
    }
    let making = Phase::new(MAKING, true);
    let config = preset.config();
    let drawn = draw(&config, &args.draw.options()?).map_err(fault)?;
    let mut batch = files::Batch::new(folder)?.replacing(args.force);
    let kinds = [SchemaKind::Config, SchemaKind::Requests];
    described::add(&mut batch, &names[0], kinds[0], args.format, |out| {
        write_config(&config, args.format, out)
    })?;
    described::add(&mut batch, &names[1], kinds[1], args.format, |out| {
        write_requests(drawn, args.format, out)
    })?;
    let paths = batch.commit()?;
    described::beside(folder, &kinds)?;
    drop(making);
    output::line(&format!("Wrote {} and {}", paths[0].display(), paths[1].display()))?;
    output::line(&format!(
        "Next: gswarm run --policy baseline --config {} --requests {}",
        paths[0].display(),
        paths[1].display()
    ))
}

fn read(name: &str, bytes: &[u8]) -> Result<Scenario, Failure> {
    job::accept(read_config(Source { name, bytes }), false)
}

fn fault(error: gswarm_core::generate::GenerateError) -> Failure {
    Failure::input(error.to_string()).hint("see `gswarm generate requests --help`")
}

/// Writes to a file, in the format of its extension, or to standard output.
fn emit(
    path: Option<&Path>,
    force: bool,
    kind: SchemaKind,
    write: impl FnOnce(Format, &mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let Some(path) = path else {
        return output::stream(|out| write(Format::Yaml, out));
    };
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    let format = Format::of_extension(&ending).ok_or_else(|| {
        Failure::input(format!("cannot tell from the name {} whether to write JSON or YAML", path.display()))
            .hint("use the extension .json, .yaml or .yml")
    })?;
    keep(path, force)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or("".as_ref());
    let mut batch = files::Batch::new(folder)?.replacing(force);
    described::add(&mut batch, &name, kind, format, |out| write(format, out))?;
    batch.commit()?;
    described::beside(folder, &[kind])?;
    output::line(&format!("Wrote {}", path.display()))
}

pub fn keep(path: &Path, force: bool) -> Result<(), Failure> {
    if path.exists() && !force {
        return Err(files::is_there(path));
    }
    Ok(())
}

fn preset_parser() -> impl TypedValueParser<Value = Preset> {
    crate::args::choice(Preset::ALL.iter().map(|&preset| (preset.name(), preset)).collect())
}

fn arrivals_parser() -> impl TypedValueParser<Value = Arrivals> {
    crate::args::choice(Arrivals::ALL.iter().map(|&kind| (kind.name(), kind)).collect())
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    crate::args::choice(vec![("yaml", Format::Yaml), ("json", Format::Json)])
}

fn weight(text: &str) -> Result<(String, f64), String> {
    let usage = || format!("`{text}` is not a weight: write a workflow and a number, such as a=2");
    let (name, weight) = text.rsplit_once('=').ok_or_else(usage)?;
    let weight = crate::args::not_negative(weight).map_err(|_| usage())?;
    Ok((name.to_string(), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read() {
        assert_eq!(weight("a=2"), Ok(("a".to_string(), 2.0)));
        assert_eq!(weight("a=b=0.5"), Ok(("a=b".to_string(), 0.5)));
        assert!(weight("a").is_err() && weight("a=x").is_err() && weight("a=-1").is_err());
    }
}
