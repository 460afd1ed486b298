//! From the text of input files to a valid [`Scenario`], with every fault in them reported at once.
//!
//! A file is parsed into a flat tree whose nodes know their place in the text, whichever format it is in. Fields are
//! then read from the tree; what is wrong is noted with its path and offset, and reading goes on. Lines and columns
//! are worked out at the end, and only where something was wrong.

mod code;
mod config;
mod cycle;
mod diagnostic;
pub mod document;
mod faults;
mod fields;
mod json;
mod requests;
mod scenario;
mod text;
mod timestamp;
mod tree;
mod workflow;
mod yaml;

pub use code::{Code, Severity};
pub use config::{MAX_GB, MAX_GPUS, too_slow};
pub use diagnostic::{Diagnostic, SHOWN, render};
pub use scenario::*;
pub use text::MAX_BYTES;

use crate::cost::SwitchRule;
use crate::instance::Mode;
use config::Config;
use faults::{Faults, Path, Shown};
use requests::Requests;
use text::Form;

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
    read_both(config, requests, mode, Lacks::default())
}

/// The same where a predictor will say how long nodes take that neither file gives a time for.
#[must_use]
pub fn read_predicted(config: Source<'_>, requests: Source<'_>, mode: Mode) -> Reading {
    read_both(config, requests, mode, Lacks { times: true, ..Lacks::default() })
}

/// The same where a profile of measurements will say how long nodes and switches take.
#[must_use]
pub fn read_profiled(config: Source<'_>, requests: Source<'_>, mode: Mode) -> Reading {
    read_both(config, requests, mode, Lacks { times: true, costs: true })
}

/// What files may lack because it comes from elsewhere.
#[derive(Clone, Copy, Default)]
struct Lacks {
    times: bool,
    costs: bool,
}

fn read_both(config: Source<'_>, requests: Source<'_>, mode: Mode, lacks: Lacks) -> Reading {
    let (mut config_faults, mut request_faults) = (Faults::default(), Faults::default());
    let config_tree = text::parse(config.bytes, Form::Single, &mut config_faults);
    let request_tree = text::parse(requests.bytes, Form::SingleOrLines, &mut request_faults);
    let parsed_config = config_tree.as_ref().map(|tree| config::read(tree.root(), &mut config_faults));
    let parsed_requests = request_tree
        .as_ref()
        .map(|tree| requests::read(tree.root(), parsed_config.as_ref(), mode, &mut request_faults));
    if let (Some(config), Some(requests), true) = (&parsed_config, &parsed_requests, !lacks.times) {
        report_untimed(config, requests, &mut config_faults);
    }
    if let (Some(config), false) = (&parsed_config, lacks.costs) {
        report_unmeasured(config, &mut config_faults);
    }
    let errors = config_faults.errors() + request_faults.errors();
    let parsed = parsed_config.zip(parsed_requests).filter(|_| errors == 0);
    let scenario = parsed.map(|(config, requests)| scenario(config, requests));
    let mut diagnostics = Vec::new();
    config_faults.locate(config.name, text::without_mark(config.bytes), &mut diagnostics);
    request_faults.locate(requests.name, text::without_mark(requests.bytes), &mut diagnostics);
    Reading { scenario, diagnostics, errors }
}

/// Reads a configuration alone; the scenario has no requests.
#[must_use]
pub fn read_config(config: Source<'_>) -> Reading {
    read_config_lacking(config, Lacks::default())
}

/// The same where a profile of measurements will say how long switches take.
#[must_use]
pub fn read_profiled_config(config: Source<'_>) -> Reading {
    read_config_lacking(config, Lacks { times: true, costs: true })
}

fn read_config_lacking(config: Source<'_>, lacks: Lacks) -> Reading {
    let mut faults = Faults::default();
    let tree = text::parse(config.bytes, Form::Single, &mut faults);
    let parsed = tree.as_ref().map(|tree| config::read(tree.root(), &mut faults));
    if let (Some(config), false) = (&parsed, lacks.costs) {
        report_unmeasured(config, &mut faults);
    }
    let errors = faults.errors();
    let parsed = parsed.filter(|_| errors == 0);
    let scenario = parsed.map(|config| scenario(config, Requests::default()));
    let mut diagnostics = Vec::new();
    faults.locate(config.name, text::without_mark(config.bytes), &mut diagnostics);
    Reading { scenario, diagnostics, errors }
}

/// Reads requests of a configuration that has been read before. What their nodes take may be left open.
///
/// The requests are those of the reading's scenario, which has nothing else.
#[must_use]
pub fn read_requests(known: &Scenario, requests: Source<'_>, mode: Mode) -> Reading {
    let mut faults = Faults::default();
    let tree = text::parse(requests.bytes, Form::SingleOrLines, &mut faults);
    let config = Config::of(known);
    let parsed = tree.as_ref().map(|tree| requests::read(tree.root(), Some(&config), mode, &mut faults));
    let errors = faults.errors();
    let parsed = parsed.filter(|_| errors == 0);
    let scenario = parsed.map(|requests| scenario(Config::default(), requests));
    let mut diagnostics = Vec::new();
    faults.locate(requests.name, text::without_mark(requests.bytes), &mut diagnostics);
    Reading { scenario, diagnostics, errors }
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

/// A cluster that goes by measured costs, with a model of which none are known.
fn report_unmeasured(config: &Config<'_>, faults: &mut Faults) {
    let unmeasured = config.models.iter().find(|model| model.unload_time_seconds.is_none());
    let (Some(SwitchRule::Measured), Some(model)) = (config.cluster.switch_cost, unmeasured) else { return };
    let root = Path::root();
    let cluster = root.key("cluster", config.rule_at);
    let path = cluster.key("switch_cost", config.rule_at);
    let message = format_args!(
        "`switch_cost: measured` needs measurements, and model `{}` has no `unload_time_seconds`",
        Shown(&model.id)
    );
    let hint = "`gswarm calibrate` measures, and --calibration reads what it wrote; or use `transfer` or `load_time`";
    faults.add_hinted(Code::NoProfile, config.rule_at, &path, message, Some(hint.to_owned()));
}

/// Nodes that some request runs and nothing gives a time for: once a node, however many requests there are.
fn report_untimed(config: &Config<'_>, requests: &Requests, faults: &mut Faults) {
    for ((workflow, nodes), counts) in config.workflows.iter().zip(&config.untimed).zip(&requests.untimed) {
        for (&(number, at), &(count, first)) in nodes.iter().zip(counts).filter(|(_, (count, _))| *count > 0)
        {
            let node = &workflow.nodes[number as usize];
            let model = &config.models[node.model.index()];
            let lacks = match (model.token_mean, model.tokens_per_second) {
                (Some(_), None) => "`tokens_per_second`",
                (None, Some(_)) => "`token_mean`",
                _ => "`token_mean` and `tokens_per_second`",
            };
            let root = Path::root();
            let (workflows, number) = (root.key("workflows", at), number as usize);
            let (workflow, model) = (workflows.key(&workflow.id, at), Shown(&model.id));
            let nodes = workflow.key("nodes", at);
            let place = nodes.index(number, at);
            let path = place.key("model", at);
            let others = match count {
                1 => format!("requests[{first}] gives none either"),
                _ => format!("{count} requests give none either, requests[{first}] first"),
            };
            let message = format_args!(
                "no execution time for node `{}`: model `{model}` lacks `inference_time_mean`, and {lacks}; {others}",
                Shown(&node.id),
            );
            faults.add(Code::NoTime, at, &path, message);
        }
    }
}
