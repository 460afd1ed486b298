//! Deployment files: their faults, each with its code and line.

use gswarm_core::input::{Scenario, Source};
use gswarm_core::instance::Mode;
use gswarm_core::policy::PolicyKind;
use gswarm_run::{build, deployment_faults, read_deployment_file};

/// The document of codes has examples of deployments; each gives its code.
#[test]
fn documented_faults_of_deployments_are_found() {
    let document = include_str!("../../../docs/errors.md");
    let builder = Scenario::builder().gpus(2);
    let builder = builder.model("llm7b", 1, 14.0, 30.0).run_time(8.0);
    let builder = builder.model("llm30b", 1, 70.0, 60.0).run_time(20.0);
    let builder = builder.workflow("chat").node("write", "llm7b").request("r", "chat");
    let scenario = builder.build().unwrap();
    let mut tried = 0;
    for (before, rest) in
        document.match_indices("```yaml deployment\n").map(|(at, fence)| document.split_at(at + fence.len()))
    {
        let heading =
            before.rsplit("\n## ").next().and_then(|section| section.split(' ').next()).unwrap_or_default();
        let text = rest.split("\n```").next().unwrap_or_default();
        let source = Source { name: "deployment.yaml", bytes: text.as_bytes() };
        let (file, _) = read_deployment_file(source).unwrap();
        let cluster = file.cluster().over(&scenario.cluster);
        let instance = build(&scenario, &cluster, Mode::Offline, Some(PolicyKind::Static)).unwrap();
        let found = deployment_faults(source, &file.resolve(&instance).unwrap_err());
        assert!(found.iter().any(|one| one.code.code() == heading), "{heading}: {found:?}");
        assert!(found.iter().all(|one| one.line.is_some()), "{found:?}");
        tried += 1;
    }
    assert_eq!(tried, 4);
}

#[test]
fn faults_of_the_shape_are_told_all_at_once() {
    let text = "schema: 2\ngpus: 0\nmodels: {a: {replicas: [{gpus: x, trafic: 1}]}}\n";
    let faults = read_deployment_file(Source { name: "d.yaml", bytes: text.as_bytes() }).unwrap_err();
    let found: Vec<_> = faults.iter().map(|one| (one.line, one.path.as_str())).collect();
    for expected in [
        (Some(1), "schema"),
        (Some(2), "gpus"),
        (Some(3), "models.a.replicas[0].gpus"),
        (Some(3), "models.a.replicas[0].trafic"),
    ] {
        assert!(found.contains(&expected), "{expected:?}: {found:?}");
    }
}
