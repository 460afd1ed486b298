//! Imported files, written, read back, run and checked.

use gswarm_core::Instance;
use gswarm_core::check::check_log;
use gswarm_core::generate::{Format, write_config, write_scenario_requests};
use gswarm_core::input::{ClusterSpec, Code, Diagnostic, Scenario, Source, read_scenario};
use gswarm_core::instance::{Cluster, Mode};
use gswarm_core::policy::{BuildContext, PolicyKind, PolicySpec};
use gswarm_core::sim::{SimOptions, simulate};
use gswarm_import::{ImportKind, ImportOptions, Imported, import};
use std::path::{Path, PathBuf};

pub fn one(kind: ImportKind, text: &str, options: &ImportOptions) -> Result<Imported, Vec<Diagnostic>> {
    import(kind, &[Source { name: "file", bytes: text.as_bytes() }], options)
}

/// The same where it has to succeed.
#[track_caller]
pub fn good(kind: ImportKind, text: &str, options: &ImportOptions) -> Imported {
    one(kind, text, options).unwrap_or_else(|found| panic!("{found:#?}"))
}

/// The codes of what is wrong with a text.
#[track_caller]
pub fn codes(kind: ImportKind, text: &str, options: &ImportOptions) -> Vec<Code> {
    let found = one(kind, text, options).map(|made| made.assumptions).expect_err("a fault");
    assert!(found.iter().all(|one| !one.message.is_empty() && !one.message.contains('\n')), "{found:#?}");
    found.iter().map(|one| one.code).collect()
}

/// What is written, read again: without an error or a warning.
pub fn read_back(made: &Imported, format: Format) -> Scenario {
    let (mut config, mut requests) = (Vec::new(), Vec::new());
    write_config(&made.scenario, format, &mut config).unwrap();
    write_scenario_requests(&made.scenario, format, &mut requests).unwrap();
    let (config, requests) =
        (Source { name: "config", bytes: &config }, Source { name: "requests", bytes: &requests });
    let reading = read_scenario(config, requests, Mode::Online);
    assert_eq!(reading.diagnostics, []);
    reading.scenario.unwrap()
}

/// Runs what was imported under `policies`, as a batch; every log passes the check and holds every node.
pub fn run(made: &Imported, gpus: u32, policies: &[PolicyKind]) {
    assert!(!made.assumptions.is_empty());
    let scenario = read_back(made, Format::Yaml);
    for &kind in policies {
        let spec = ClusterSpec { gpus: Some(gpus), ..scenario.cluster.clone() };
        let mut cluster = Cluster::from_spec(&spec).unwrap();
        cluster.residency = kind.residency(cluster.residency);
        let instance = Instance::build(&scenario, cluster, Mode::Offline).expect("feasible");
        let spec = PolicySpec::default_of(kind).with_rounds(2);
        let mut policy = spec.build(&instance, &BuildContext::default());
        let log = simulate(&instance, &mut *policy, &SimOptions::default(), &mut |_| {}).unwrap();
        assert_eq!(check_log(&instance, &log, None), [], "{}", kind.name());
        let nodes: usize = scenario.requests.iter().map(|request| request.times.len()).sum();
        assert_eq!(log.executions.len(), nodes);
    }
}

/// Both policies that every import is tried with.
pub const BOTH: [PolicyKind; 2] = [PolicyKind::Baseline, PolicyKind::Planned];

/// The real files of a folder, with their names; none where they are not there.
pub fn real(folder: &str, ending: &str) -> Vec<(String, Vec<u8>)> {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(folder);
    let Ok(entries) = std::fs::read_dir(&root) else {
        gswarm_testing::skip(&format!("the {folder} files are not beside the checkout"));
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let fitting = paths.into_iter().filter(|path| path.extension().is_some_and(|found| found == ending));
    let named = |path: PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
    };
    fitting.map(named).collect()
}

/// Pairs of texts, as flags give them.
pub fn pairs<T: Clone>(given: &[(&str, T)]) -> Vec<(String, T)> {
    given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
