//! The published files: read whole, with exactly the findings that they deserve.

use gswarm_core::input::{Code, Reading, Source, read_scenario};
use gswarm_core::instance::Mode;
use std::path::Path;

fn read(name: &str) -> Option<Reading> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gswarm");
    let (config, requests) = (format!("{name}_config.json"), format!("{name}_requests.yaml"));
    let (Ok(config_bytes), Ok(request_bytes)) =
        (std::fs::read(folder.join(&config)), std::fs::read(folder.join(&requests)))
    else {
        gswarm_testing::skip("the published files are not beside the checkout");
        return None;
    };
    let config = Source { name: &config, bytes: &config_bytes };
    let requests = Source { name: &requests, bytes: &request_bytes };
    Some(read_scenario(config, requests, Mode::Online))
}

fn nodes(reading: &Reading) -> (usize, usize) {
    let scenario = reading.scenario.as_ref().expect("the files are valid");
    (scenario.requests.len(), scenario.requests.iter().map(|request| request.times.len()).sum())
}

#[test]
fn simple_files_have_no_fault() {
    let Some(reading) = read("simple") else { return };
    assert_eq!(reading.diagnostics, []);
    assert_eq!(nodes(&reading), (500, 1_486));
    let first = &reading.scenario.as_ref().unwrap().requests[0];
    assert_eq!(first.timestamp, Some(1_750_825_559_662_004));
    assert_eq!(first.times[0].unwrap().0, 12_320_000);
}

#[test]
fn complex_files_have_one_edge_repaired() {
    let Some(reading) = read("complex") else { return };
    assert_eq!(nodes(&reading), (1_000, 5_660));
    let [warning] = &reading.diagnostics[..] else { panic!("{:#?}", reading.diagnostics) };
    assert_eq!(warning.code, Code::EdgeByOutput);
    assert!(warning.message.contains("`performance_report` is an output of node `performance_analysis`"));
}
