//! A specification runs the same wherever it comes from, and what is wrong with it is told all at once.

use gswarm_core::input::{Code, Source};
use gswarm_core::log_file::write_json;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_run::{LiveSpec, Materials, Problem, RunSpec, Silent, prepare};
use std::path::{Path, PathBuf};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn spec() -> RunSpec {
    let folder = example("text_to_image");
    RunSpec {
        config: folder.join("config.yaml"),
        requests: folder.join("requests.yaml"),
        ..RunSpec::default()
    }
}

fn log(spec: RunSpec, materials: Materials) -> Vec<u8> {
    let prepared = prepare(spec, materials, &mut Silent).unwrap();
    let outcome = prepared.simulate(&mut Silent).unwrap().outcome;
    let mut bytes = Vec::new();
    write_json(&prepared.instance, &outcome.log, &outcome.summary, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_printed_specification_gives_the_same_log() {
    for &kind in PolicyKind::ALL {
        for &mode in kind.modes() {
            let mut spec = spec();
            spec.mode = mode;
            spec.cluster.gpus = Some(4);
            spec.policy = Some(PolicySpec::default_of(kind));
            spec.seed = 7;
            let text = spec.to_yaml().unwrap();
            let source = Source { name: "run.yaml", bytes: text.as_bytes() };
            let (again, _) = RunSpec::read(source, Path::new("")).unwrap();
            let (one, other) = (spec.load().unwrap(), again.load().unwrap());
            assert_eq!(log(spec, one), log(again, other), "{text}");
        }
    }
}

#[test]
fn a_scenario_in_memory_gives_the_log_of_its_files() {
    let spec = RunSpec { seed: 3, ..spec() };
    let materials = spec.load().unwrap();
    let scenario = materials.scenario(&spec, &mut Silent).unwrap();
    assert_eq!(log(spec.clone(), materials), log(spec, Materials::of(Problem::Scenario(scenario))));
}

#[test]
fn settings_that_do_not_apply_are_all_named() {
    let mut spec = RunSpec { live: Some(LiveSpec::default()), ..spec() };
    spec.faults.fail_rate = 0.1;
    spec.times.noise = Some("lognormal:0.2".parse().unwrap());
    spec.policy = Some(PolicySpec::default_of(PolicyKind::Planned));
    spec.mode = gswarm_core::instance::Mode::Online;
    spec.cluster.gpus = Some(0);
    let found = spec.validate();
    let paths: Vec<(&str, Code)> = found.iter().map(|one| (one.path.as_str(), one.code)).collect();
    for expected in [
        ("cluster.gpus", Code::NotPositive),
        ("policy", Code::NotApplicable),
        ("faults.fail_rate", Code::NotApplicable),
        ("times.noise", Code::NotApplicable),
    ] {
        assert!(paths.contains(&expected), "{expected:?} is not among {paths:?}");
    }
    assert!(prepare(spec.clone(), spec.load().unwrap(), &mut Silent).is_err());
}

/// The document of codes has examples of specifications; each gives its code.
#[test]
fn documented_faults_of_specifications_are_found() {
    let document = include_str!("../../../docs/errors.md");
    let mut tried = 0;
    for (before, rest) in
        document.match_indices("```yaml spec\n").map(|(at, fence)| document.split_at(at + fence.len()))
    {
        let heading =
            before.rsplit("\n## ").next().and_then(|section| section.split(' ').next()).unwrap_or_default();
        let text = rest.split("\n```").next().unwrap_or_default();
        let source = Source { name: "run.yaml", bytes: text.as_bytes() };
        let found = match RunSpec::read(source, Path::new("")) {
            Ok((spec, _)) => spec.validate(),
            Err(faults) => faults,
        };
        assert!(found.iter().any(|one| one.code.code() == heading), "{heading}: {found:?}");
        tried += 1;
    }
    assert!(tried >= 1);
}

/// The example of the page about specifications is one.
#[test]
fn the_documented_specification_is_valid() {
    let document = include_str!("../../../docs/run-spec.md");
    let text = document.split("```yaml spec\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let (spec, warnings) =
        RunSpec::read(Source { name: "run.yaml", bytes: text.as_bytes() }, Path::new("")).unwrap();
    assert!(warnings.is_empty() && spec.validate().is_empty(), "{warnings:?}");
}

/// Every field of the type is described, and no other.
#[test]
fn every_field_is_documented() {
    let document = include_str!("../../../docs/run-spec.md");
    let schema = RunSpec::schema();
    for name in schema["properties"].as_object().unwrap().keys() {
        assert!(document.contains(&format!("`{name}")), "docs/run-spec.md lacks `{name}`");
    }
}
