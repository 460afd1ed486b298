//! `gswarm validate`: faults and implausible values in input files, grouped.

mod grouped;

use crate::failure::{Failure, FailureKind};
use crate::output::{self, count, files};
use clap::Args;
use grouped::{Group, grouped};
use gswarm_core::input::document::{Document, Faults, Kind};
use gswarm_core::input::{Diagnostic, Scenario, Severity, Source, read_config, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_run::RunSpec;
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm validate config.yaml requests.yaml
  gswarm validate servers.yaml run.yaml
  gswarm validate config.yaml requests.yaml --strict --json

Files are configurations, requests, lists of servers (--backends) or run specifications (--spec), recognised by content.
Requests are checked against the configuration given with them. A fault that occurs in many places is printed once, with
the number of places. Warnings point out what is valid but probably not intended, such as a language model without
batching. `gswarm help CODE` explains a code.
Exit code 0: files can be used; 2: they cannot, or with --strict there are warnings.";

/// Arguments of `gswarm validate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
    /// Files to check, JSON or YAML
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a file is, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Config,
    Requests,
    Backends,
    Spec,
    Unknown,
}

struct Input<'p> {
    path: &'p Path,
    name: String,
    bytes: Vec<u8>,
    kind: FileKind,
}

impl Input<'_> {
    fn source(&self) -> Source<'_> {
        Source { name: &self.name, bytes: &self.bytes }
    }
}

/// Checks the files.
pub fn validate(args: &ValidateArgs) -> Result<(), Failure> {
    let mut inputs = Vec::new();
    let mut unreadable: Option<Failure> = None;
    for path in &args.files {
        match files::read(path) {
            Ok(bytes) => {
                let kind = kind_of(&bytes);
                inputs.push(Input { path, name: path.display().to_string(), bytes, kind });
            }
            Err(failure) => {
                unreadable = Some(match unreadable {
                    Some(first) => first.and(failure),
                    None => failure,
                });
            }
        }
    }
    if let Some(failure) = unreadable {
        return Err(failure);
    }
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    check_problem(&inputs, &mut found, &mut lines)?;
    for input in &inputs {
        match input.kind {
            FileKind::Backends => {
                let reading = gswarm_exec::backend::read_backends(input.source());
                let servers = reading.file.map_or(0, |file| file.backends.len());
                found.extend(reading.diagnostics);
                lines.push(described(input, "servers", &[count(servers as u64, "server")]));
            }
            FileKind::Spec => {
                check_spec(input, &mut found);
                lines.push(described(input, "run specification", &[]));
            }
            FileKind::Unknown => {
                let hint = "files have `models` and `workflows`, `requests`, `backends`, or a run's settings; \
                            `gswarm check` checks logs and plans";
                return Err(
                    Failure::input(format!("{}: not a file that can be validated", input.name)).hint(hint)
                );
            }
            FileKind::Config | FileKind::Requests => {}
        }
    }
    report(args, &found, &lines)
}

/// Configurations with the requests made of them.
fn check_problem(
    inputs: &[Input<'_>],
    found: &mut Vec<Diagnostic>,
    lines: &mut Vec<String>,
) -> Result<(), Failure> {
    let of = |kind| inputs.iter().filter(move |input| input.kind == kind);
    let configs: Vec<_> = of(FileKind::Config).collect();
    let requests: Vec<_> = of(FileKind::Requests).collect();
    if let [_, second, ..] = &configs[..]
        && !requests.is_empty()
    {
        return Err(Failure::input(format!("{} is a second configuration", second.name))
            .hint("requests are checked against one configuration: pass one at a time"));
    }
    let Some(&config) = configs.first() else {
        return match requests.first() {
            Some(requests) => {
                Err(Failure::input(format!("{} has requests, but no configuration was given", requests.name))
                    .hint("requests are checked against their configuration: pass both files"))
            }
            None => Ok(()),
        };
    };
    if requests.is_empty() {
        for config in configs {
            let reading = read_config(config.source());
            found.extend(reading.diagnostics);
            if let Some(scenario) = &reading.scenario {
                found.extend(scenario.plausibility([&config.name, ""]));
            }
            lines.push(described(config, "configuration", &parts(reading.scenario.as_ref())));
        }
        return Ok(());
    }
    for (place, requests) in requests.iter().enumerate() {
        let reading = read_scenario(config.source(), requests.source(), Mode::Offline);
        let mut all = reading.diagnostics;
        if let Some(scenario) = &reading.scenario {
            all.extend(scenario.plausibility([&config.name, &requests.name]));
        }
        // The configuration is read again with each file of requests, and its findings are told once.
        found.extend(all.into_iter().filter(|one| place == 0 || one.file == requests.name));
        let scenario = reading.scenario.as_ref();
        if place == 0 {
            lines.push(described(config, "configuration", &parts(scenario)));
        }
        let sent = scenario.map(|scenario| count(scenario.requests.len() as u64, "request"));
        lines.push(described(requests, "requests", &sent.into_iter().collect::<Vec<_>>()));
    }
    Ok(())
}

fn check_spec(input: &Input<'_>, found: &mut Vec<Diagnostic>) {
    let folder = input.path.parent().unwrap_or(Path::new(""));
    match RunSpec::read(input.source(), folder) {
        Ok((spec, warnings)) => {
            found.extend(warnings);
            found.extend(
                spec.validate().into_iter().map(|fault| Diagnostic { file: input.name.clone(), ..fault }),
            );
        }
        Err(faults) => found.extend(faults),
    }
}

fn parts(scenario: Option<&Scenario>) -> Vec<String> {
    scenario.map_or(Vec::new(), |scenario| {
        vec![count(scenario.models.len() as u64, "model"), count(scenario.workflows.len() as u64, "workflow")]
    })
}

fn described(input: &Input<'_>, kind: &str, parts: &[String]) -> String {
    let parts: String = parts.iter().map(|part| format!(", {part}")).collect();
    format!("{}: {kind}{parts}", input.name)
}

/// What `gswarm validate --json` prints.
#[derive(Serialize)]
struct Report<'r> {
    errors: usize,
    warnings: usize,
    findings: &'r [Group],
}

fn report(args: &ValidateArgs, found: &[Diagnostic], lines: &[String]) -> Result<(), Failure> {
    let groups = grouped(found);
    let of = |severity: Severity| groups.iter().filter(|group| group.severity == severity.name()).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    if args.json {
        output::json(&Report { errors, warnings, findings: &groups })?;
    } else {
        lines.iter().try_for_each(|line| output::line(line))?;
        groups.iter().try_for_each(|group| output::line(&group.to_string()))?;
        if groups.is_empty() {
            output::line("No faults found.")?;
        }
    }
    if errors == 0 && (warnings == 0 || !args.strict) {
        return Ok(());
    }
    let told = format!("{}, {}", count(errors as u64, "error"), count(warnings as u64, "warning"));
    Err(Failure::new(FailureKind::Input, told).hint("`gswarm help CODE` explains a code"))
}

/// By the outermost keys.
fn kind_of(bytes: &[u8]) -> FileKind {
    let mut faults = Faults::default();
    let Some(document) = Document::parse_lines(bytes, &mut faults) else {
        return by_text(bytes);
    };
    let root = document.root();
    if root.kind() == Kind::Seq {
        return FileKind::Requests;
    }
    let value = |name: &str| root.entries().find(|(key, _)| key.text() == name).map(|(_, value)| value);
    let is_list = |name: &str| value(name).is_some_and(|value| value.kind() == Kind::Seq);
    let has = |name: &str| value(name).is_some();
    if is_list("backends") {
        FileKind::Backends
    } else if is_list("requests") || has("request_id") || has("workflow_id") {
        FileKind::Requests
    } else if has("models") || has("workflows") {
        FileKind::Config
    } else if has("config") || has("policy") || has("live") {
        FileKind::Spec
    } else if has("requests") {
        FileKind::Requests
    } else if has_slashes(bytes) {
        by_text(bytes)
    } else {
        FileKind::Unknown
    }
}

/// Whether a line begins with `//`. In YAML that is part of a key and hides the file's own; the file's reader has a hint.
fn has_slashes(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).lines().any(|line| line.trim_start().starts_with("//"))
}

/// A file that cannot be parsed is taken for what its text mentions first, so that its reader says what is wrong.
fn by_text(bytes: &[u8]) -> FileKind {
    let text = String::from_utf8_lossy(bytes);
    let kinds = [
        ("models", FileKind::Config),
        ("workflows", FileKind::Config),
        ("requests", FileKind::Requests),
        ("request_id", FileKind::Requests),
        ("backends", FileKind::Backends),
    ];
    let first = kinds.iter().filter_map(|&(word, kind)| Some((text.find(word)?, kind)));
    first.min_by_key(|&(at, _)| at).map_or(FileKind::Config, |(_, kind)| kind)
}
