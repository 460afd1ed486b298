//! Workloads that people already have, as gswarm's configurations and requests.
//!
//! Text goes in; a [`Scenario`] and a list of what was assumed come out. Nothing is left out in silence: what has no
//! counterpart is refused by name, and what takes no GPU time is listed.

mod comfyui;
mod dify;
mod draft;
mod graph;
mod gswarm_log;
mod guess;
mod llama_swap;
mod options;
mod spans;
mod table;
pub mod trace;
mod wfcommons;

pub use llama_swap::{LlamaSwap, llama_swap};
pub use options::{ImportOptions, Moment, TraceTarget, sizes};

use draft::Draft;
use gswarm_core::input::document::{Faults, without_mark};
use gswarm_core::input::{Code, Diagnostic, Lacking, Scenario, Severity, Source};
use gswarm_core::instance::Mode;

macro_rules! kinds {
    ($($kind:ident $name:literal $what:literal)*) => {
        /// What sort of file is imported.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ImportKind {
            $(#[doc = concat!($what, ".")] $kind,)*
        }

        impl ImportKind {
            /// All of them.
            pub const ALL: &'static [ImportKind] = &[$(ImportKind::$kind),*];

            /// As the command line spells it.
            pub fn name(self) -> &'static str {
                match self { $(ImportKind::$kind => $name,)* }
            }

            /// What it is, in a few words.
            pub fn what(self) -> &'static str {
                match self { $(ImportKind::$kind => $what,)* }
            }
        }
    };
}

kinds! {
    Comfyui "comfyui" "ComfyUI workflows, in the format of the editor or of the API"
    Dify "dify" "Dify apps (DSL, YAML)"
    Wfcommons "wfcommons" "WfCommons instances, WfFormat 1.4 and 1.5"
    Azure "azure" "Azure LLM inference traces (CSV)"
    Mooncake "mooncake" "Mooncake traces (JSON lines)"
    Burstgpt "burstgpt" "BurstGPT traces (CSV)"
    Gentd26 "gentd26" "GenTD26: requests, and load times of checkpoints (CSV)"
    OpenaiLog "openai-log" "access logs of OpenAI-compatible servers (JSON lines)"
    OpenaiBatch "openai-batch" "results of OpenAI's batch API (JSON lines)"
    Sharegpt "sharegpt" "ShareGPT conversations, and prompts for vLLM's benchmark"
    Otlp "otlp" "OpenTelemetry spans of gen_ai calls (OTLP JSON)"
    Langfuse "langfuse" "exports of Langfuse: observations, or traces with them"
    Litellm "litellm" "call logs of LiteLLM (JSON lines)"
    GswarmLog "gswarm-log" "execution logs, of gswarm or of the published programs"
}

impl ImportKind {
    /// Whether rows with a moment each are read, which can be cut, thinned out and joined with a workflow.
    pub fn is_trace(self) -> bool {
        matches!(
            self,
            ImportKind::Azure
                | ImportKind::Mooncake
                | ImportKind::Burstgpt
                | ImportKind::Gentd26
                | ImportKind::OpenaiLog
                | ImportKind::OpenaiBatch
                | ImportKind::Sharegpt
                | ImportKind::Otlp
                | ImportKind::Langfuse
                | ImportKind::Litellm
        )
    }
}

/// What was made of the files.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Models, workflows and requests.
    pub scenario: Scenario,
    /// What the files do not say and was assumed, and what was left out; a sentence each.
    pub assumptions: Vec<String>,
}

/// A file, and what is wrong with it.
struct File<'a> {
    source: Source<'a>,
    faults: Faults,
}

/// Reads `files`, which are of this `kind`.
pub fn import(
    kind: ImportKind,
    files: &[Source<'_>],
    options: &ImportOptions,
) -> Result<Imported, Vec<Diagnostic>> {
    let mut draft = Draft::default();
    let mut read: Vec<File<'_>> =
        files.iter().map(|&source| File { source, faults: Faults::default() }).collect();
    match kind {
        ImportKind::Comfyui => each(&mut read, |file| comfyui::read(file, options, &mut draft)),
        ImportKind::Dify => dify::read_all(&mut read, options, &mut draft),
        ImportKind::Wfcommons => each(&mut read, |file| wfcommons::read(file, options, &mut draft)),
        ImportKind::GswarmLog => gswarm_log::read(&mut read, options, &mut draft),
        ImportKind::Azure
        | ImportKind::Mooncake
        | ImportKind::Burstgpt
        | ImportKind::OpenaiLog
        | ImportKind::OpenaiBatch
        | ImportKind::Sharegpt => {
            trace::read(kind, &mut read, options, &mut draft);
        }
        ImportKind::Otlp | ImportKind::Langfuse | ImportKind::Litellm => {
            spans::read(kind, &mut read, options, &mut draft);
        }
        ImportKind::Gentd26 => trace::gentd26::read(&mut read, options, &mut draft),
    }
    let mut found = Vec::new();
    for file in read {
        file.faults.locate(file.source.name, without_mark(file.source.bytes), &mut found);
    }
    if found.iter().all(|finding| finding.severity == Severity::Warning) && draft.scenario.requests.is_empty()
    {
        let name = files.first().map_or("", |file| file.name);
        let why = match draft.heavy.vendors() {
            Some(classes) => {
                format!("there is nothing to import: all heavy nodes call a vendor's service: {classes}")
            }
            None => "there is nothing to import".to_owned(),
        };
        found.push(Diagnostic::of_file(name, Code::Nothing, why));
    }
    if found.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(found);
    }
    // Numbers that only become too large on the way are found here.
    let names = ["the configuration made of it", "the requests made of it"];
    let made = draft.scenario.validated(names, Mode::Online, Lacking::Nothing);
    let scenario = made.scenario.ok_or(made.diagnostics)?;
    let mut assumptions = draft.heavy.sentences();
    assumptions.extend(draft.notes.finish());
    Ok(Imported { scenario, assumptions })
}

fn each<'a>(files: &mut [File<'a>], mut read: impl FnMut(&mut File<'a>)) {
    files.iter_mut().for_each(&mut read);
}
