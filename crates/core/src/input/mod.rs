//! From the text of input files to a valid [`Scenario`], with every fault in them reported at once.
//!
//! A file is parsed into a flat tree whose nodes know their place in the text, whichever format it is in. Fields are
//! then read from the tree; what is wrong is noted with its path and offset, and reading goes on. Lines and columns
//! are worked out at the end, and only where something was wrong.

mod builder;
mod code;
mod config;
mod cycle;
mod diagnostic;
pub mod document;
mod faults;
mod fields;
mod json;
mod plausible;
mod requests;
mod text;
mod timestamp;
mod tree;
mod validate;
mod validity;
mod workflow;
mod yaml;

pub use crate::scenario::{
    BatchingSpec, ClusterSpec, ModelSpec, NodeSpec, RequestSpec, Scenario, WorkflowSpec,
};
pub use builder::ScenarioBuilder;
pub use code::{Code, Severity};
pub use diagnostic::{Diagnostic, SHOWN, render};
pub use text::MAX_BYTES;
pub use validate::Lacking;
pub use validity::{MAX_GB, MAX_GPUS, too_slow};

use crate::scenario::Mode;
use config::Config;
use document::Document;
use faults::Faults;
use requests::Requests;
use text::Form;
use tree::Tree;

/// The text of a file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file, as diagnostics name it.
    pub name: &'a str,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// What reading gave.
#[derive(Clone, Debug)]
pub struct Reading {
    /// `None` where there is any error.
    pub scenario: Option<Scenario>,
    /// Every finding: those of the configuration first, each file's in the order of its text.
    pub diagnostics: Vec<Diagnostic>,
    /// How many errors there are, those counted in that were too many to be kept.
    pub errors: usize,
}

/// Reads a configuration and the requests made of it. Either may be JSON or YAML, and the requests JSON Lines.
#[must_use]
pub fn read_scenario(config: Source<'_>, requests: Source<'_>, mode: Mode) -> Reading {
    read_lacking(config, requests, mode, Lacking::Nothing)
}

/// The same where a predictor will say how long nodes take that neither file gives a time for.
#[must_use]
pub fn read_predicted(config: Source<'_>, requests: Source<'_>, mode: Mode) -> Reading {
    read_lacking(config, requests, mode, Lacking::Times)
}

/// The same where a calibration will say how long nodes and switches take.
#[must_use]
pub fn read_profiled(config: Source<'_>, requests: Source<'_>, mode: Mode) -> Reading {
    read_lacking(config, requests, mode, Lacking::Costs)
}

/// The same where something else supplies what is `lacking`.
#[must_use]
pub fn read_lacking(config: Source<'_>, requests: Source<'_>, mode: Mode, lacking: Lacking) -> Reading {
    let mut faults = [Faults::default(), Faults::default()];
    let trees = [
        text::parse(config.bytes, Form::Single, &mut faults[0]),
        text::parse(requests.bytes, Form::SingleOrLines, &mut faults[1]),
    ];
    read_trees(trees.each_ref().map(Option::as_ref), faults, [config, requests], mode, lacking)
}

/// Reads a configuration and requests that are values already and no text; `names` are theirs in diagnostics, which have no
/// lines.
#[must_use]
pub fn read_documents(
    documents: [&Document<'_>; 2],
    names: [&str; 2],
    mode: Mode,
    lacking: Lacking,
) -> Reading {
    let sources = names.map(|name| Source { name, bytes: &[] });
    let trees = documents.map(|document| Some(document.tree()));
    let mut reading = read_trees(trees, [Faults::default(), Faults::default()], sources, mode, lacking);
    reading.diagnostics.iter_mut().for_each(|found| (found.line, found.column) = (None, None));
    reading
}

fn read_trees(
    [config, requests]: [Option<&Tree<'_>>; 2],
    [mut config_faults, mut request_faults]: [Faults; 2],
    sources: [Source<'_>; 2],
    mode: Mode,
    lacking: Lacking,
) -> Reading {
    let config = config.map(|tree| config::read(tree.root(), &mut config_faults));
    let (mut config, mut untimed) = config.map_or((None, Vec::new()), |mut config| {
        let untimed = std::mem::take(&mut config.untimed);
        (Some(config), untimed)
    });
    let requests = requests
        .map(|tree| requests::read(tree.root(), config.as_ref(), &mut untimed, mode, &mut request_faults));
    if let (Some(config), Some(_), Lacking::Nothing) = (&config, &requests, lacking) {
        for (workflow, nodes) in config.workflows.iter().zip(&untimed) {
            nodes.iter().for_each(|node| node.report(workflow, &config.models, &mut config_faults));
        }
    }
    report_unmeasured(config.as_ref(), lacking, &mut config_faults);
    let errors = config_faults.errors() + request_faults.errors();
    let parsed = config.take().zip(requests).filter(|_| errors == 0);
    let scenario = parsed.map(|(config, requests)| scenario(config, requests));
    let mut diagnostics = Vec::new();
    for (faults, source) in [config_faults, request_faults].into_iter().zip(sources) {
        faults.locate(source.name, text::without_mark(source.bytes), &mut diagnostics);
    }
    Reading { scenario, diagnostics, errors }
}

fn report_unmeasured(config: Option<&Config<'_>>, lacking: Lacking, faults: &mut Faults) {
    if let Some(config) = config.filter(|_| lacking != Lacking::Costs) {
        validity::measured_costs(&config.cluster, &config.models, config.rule_at, faults);
    }
}

/// Reads a configuration alone; the scenario has no requests.
#[must_use]
pub fn read_config(config: Source<'_>) -> Reading {
    read_config_lacking(config, Lacking::Nothing)
}

/// The same where a calibration will say how long switches take.
#[must_use]
pub fn read_profiled_config(config: Source<'_>) -> Reading {
    read_config_lacking(config, Lacking::Costs)
}

fn read_config_lacking(config: Source<'_>, lacking: Lacking) -> Reading {
    let mut faults = Faults::default();
    let tree = text::parse(config.bytes, Form::Single, &mut faults);
    let parsed = tree.as_ref().map(|tree| config::read(tree.root(), &mut faults));
    report_unmeasured(parsed.as_ref(), lacking, &mut faults);
    located(parsed.map(|config| scenario(config, Requests::default())), faults, config)
}

/// Reads requests of a configuration that has been read before. What their nodes take may be left open.
///
/// The requests are those of the reading's scenario, which has nothing else.
#[must_use]
pub fn read_requests(known: &Scenario, requests: Source<'_>, mode: Mode) -> Reading {
    let mut faults = Faults::default();
    let tree = text::parse(requests.bytes, Form::SingleOrLines, &mut faults);
    let mut config = Config::of(known);
    let mut untimed = std::mem::take(&mut config.untimed);
    let parsed =
        tree.as_ref().map(|tree| requests::read(tree.root(), Some(&config), &mut untimed, mode, &mut faults));
    located(parsed.map(|requests| scenario(Config::default(), requests)), faults, requests)
}

fn located(scenario: Option<Scenario>, faults: Faults, source: Source<'_>) -> Reading {
    let errors = faults.errors();
    let mut diagnostics = Vec::new();
    faults.locate(source.name, text::without_mark(source.bytes), &mut diagnostics);
    Reading { scenario: scenario.filter(|_| errors == 0), diagnostics, errors }
}

fn scenario(config: Config<'_>, requests: Requests) -> Scenario {
    Scenario {
        models: config.models,
        workflows: config.workflows,
        cluster: config.cluster,
        requests: requests.requests,
        config_metadata: config.metadata,
        requests_metadata: requests.metadata,
    }
}
