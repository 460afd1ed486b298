//! Every real file of every kind imports, runs and passes the check.

use crate::support::{BOTH, pairs, real, run};
use gswarm_core::input::{Code, Source};
use gswarm_core::policy::PolicyKind;
use gswarm_import::{ImportKind, ImportOptions, Imported, Moment, import};

#[track_caller]
fn imported(kind: ImportKind, name: &str, bytes: &[u8], options: &ImportOptions) -> Imported {
    let made = import(kind, &[Source { name, bytes }], options);
    made.unwrap_or_else(|found| panic!("{name}: {found:#?}"))
}

#[test]
fn comfyui() {
    let files = real("comfy", "json");
    for (name, bytes) in &files {
        let made = imported(
            ImportKind::Comfyui,
            name,
            bytes,
            &ImportOptions { requests: 4, ..ImportOptions::default() },
        );
        let workflow = &made.scenario.workflows[0];
        assert!(!workflow.nodes.is_empty(), "{name}");
        println!("{name}: {} nodes, {} models", workflow.nodes.len(), made.scenario.models.len());
        run(&made, 3, &BOTH);
    }
    // Together they are one configuration.
    let sources: Vec<Source<'_>> = files.iter().map(|(name, bytes)| Source { name, bytes }).collect();
    if !sources.is_empty() {
        let made = import(ImportKind::Comfyui, &sources, &ImportOptions::default()).unwrap();
        assert_eq!(made.scenario.workflows.len(), sources.len());
        run(&made, 4, &BOTH);
    }
}

/// What a template is known to hold.
#[test]
fn a_template_with_a_subgraph_gives_its_sampler_with_steps_and_size() {
    let files = real("comfy", "json");
    if files.is_empty() {
        return;
    }
    let (name, bytes) = files.iter().find(|(name, _)| name == "image_z_image_turbo.json").unwrap();
    let made = imported(ImportKind::Comfyui, name, bytes, &ImportOptions::default());
    let workflow = &made.scenario.workflows[0];
    let ids: Vec<&str> = workflow.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["VAEDecode_57:8", "CLIPTextEncode_57:27", "KSampler_57:3"]);
    assert_eq!(workflow.edges, [(1, 2), (2, 0)]);
    let model = |node: usize| made.scenario.models[workflow.nodes[node].model.index()].id.as_str();
    assert_eq!(model(0), "ae.safetensors");
    assert_eq!(model(1), "qwen_3_4b.safetensors");
    assert_eq!(model(2), "z_image_turbo_bf16.safetensors");
    let config = &made.scenario.requests[0].node_configs["KSampler_57:3"];
    assert_eq!((config["steps"].as_f64(), config["width"].as_f64()), (Some(8.0), Some(1024.0)));
}

fn dify_options(name: &str) -> ImportOptions {
    let mut options = ImportOptions { requests: 6, ..ImportOptions::default() };
    match name {
        "Deep Researcher On Dify .yml" => {
            options.branches = pairs(&[
                ("1739087643444", vec![0.2, 0.1, 0.1, 0.1, 0.4]),
                ("1739292584847", vec![0.5]),
                ("1739534132840", vec![1.0]),
            ]);
            options.counts = pairs(&[("1739189441547", 3), ("17391916793430", 3), ("17391916807390", 2)]);
        }
        "Document_chat_template.yml" => {
            options.choices = pairs(&[("1720795610192", "true".to_owned())]);
            options.branches = pairs(&[("Question Classifier", vec![0.25, 0.25, 0.25])]);
        }
        "json_translate.yml" => {
            options.calls = pairs(&[("翻译", "translator-7b".to_owned())]);
            options.counts = pairs(&[("迭代", 20)]);
        }
        "llm2o1.cn.yml" => options.counts = pairs(&[("1727189041788", 3)]),
        "simple-kimi.yml" => {
            options.choices = pairs(&[("1727357893396", "true".to_owned())]);
            options.branches = pairs(&[("条件分支 3", vec![0.3, 0.3, 0.3])]);
        }
        "translation_workflow.yml" => options.branches = pairs(&[("COUNTRY IS NULL", vec![0.3])]),
        "全书翻译.yml" => options.counts = pairs(&[("迭代", 12)]),
        _ => {}
    }
    options
}

#[test]
fn dify() {
    for (name, bytes) in real("dify", "yml") {
        let made = imported(ImportKind::Dify, &name, &bytes, &dify_options(&name));
        println!("{name}: {} workflows", made.scenario.workflows.len());
        run(&made, 4, &BOTH);
        // Without flags, everything that needs one is named at once.
        let bare =
            import(ImportKind::Dify, &[Source { name: &name, bytes: &bytes }], &ImportOptions::default());
        match (name.as_str(), bare) {
            ("AgentFlow.yml", bare) => assert!(bare.is_ok()),
            ("json_translate.yml", bare) => assert_eq!(bare.unwrap_err()[0].code, Code::Nothing),
            (name, bare) => {
                let found = bare.unwrap_err();
                assert!(
                    found.iter().all(|one| one.code == Code::NeedsChoice && one.hint.is_some()),
                    "{found:#?}"
                );
                let expected = dify_options(name);
                let flags = expected.branches.len() + expected.counts.len() + expected.choices.len();
                assert_eq!(found.len(), flags, "{name}: {found:#?}");
            }
        }
    }
}

#[test]
fn wfcommons() {
    for (name, bytes) in real("wfinstances", "json") {
        let made = imported(ImportKind::Wfcommons, &name, &bytes, &ImportOptions::default());
        println!("{name}: {} nodes", made.scenario.workflows[0].nodes.len());
        run(&made, 4, &BOTH);
    }
}

#[test]
fn a_chain_of_five_takes_the_sum_of_its_tasks() {
    let files = real("wfinstances", "json");
    if files.is_empty() {
        return;
    }
    let (name, bytes) = files.iter().find(|(name, _)| name.contains("chain-5")).unwrap();
    let made = imported(ImportKind::Wfcommons, name, bytes, &ImportOptions::default());
    let workflow = &made.scenario.workflows[0];
    assert_eq!((workflow.nodes.len(), workflow.edges.len()), (5, 4));
    let seconds: f64 = made.scenario.requests[0].times.iter().map(|time| time.unwrap().seconds()).sum();
    assert!((495.0..506.0).contains(&seconds), "{seconds}");
}

#[test]
fn azure() {
    let files = real("azure", "csv");
    let Some((name, bytes)) = files.first() else { return };
    let made = imported(ImportKind::Azure, name, bytes, &ImportOptions::default());
    assert_eq!(made.scenario.requests.len(), 8_819);
    // 18:17:03.9799600, 4808 tokens read and 10 written; the next is 52 ms later.
    let (first, second) = (&made.scenario.requests[0], &made.scenario.requests[1]);
    assert_eq!(first.times[0].unwrap().0, 4_808 * 200 + 200_000);
    assert_eq!((first.timestamp, second.timestamp), (Some(0), Some(52_000)));
    run(&made, 4, &[PolicyKind::Baseline]);
    let part = ImportOptions {
        from: Some(Moment::Offset(600.0)),
        until: Some(Moment::Offset(1200.0)),
        sample: 0.1,
        compress: 10.0,
        ..ImportOptions::default()
    };
    let part = imported(ImportKind::Azure, name, bytes, &part);
    assert!((50..400).contains(&part.scenario.requests.len()), "{}", part.scenario.requests.len());
    assert!(part.scenario.requests.iter().all(|request| request.timestamp < Some(60_000_000)));
    run(&part, 4, &BOTH);
}

#[test]
fn gentd26() {
    let files = real("gentd26", "csv");
    if files.is_empty() {
        return;
    }
    let sources: Vec<Source<'_>> = files.iter().map(|(name, bytes)| Source { name, bytes }).collect();
    let made =
        import(ImportKind::Gentd26, &sources, &ImportOptions { compress: 20.0, ..ImportOptions::default() })
            .unwrap();
    assert_eq!(made.scenario.requests.len(), 12_977);
    let part = ImportOptions { sample: 0.02, seed: 3, ..ImportOptions::default() };
    let part = import(ImportKind::Gentd26, &sources, &part).unwrap();
    assert!((150..400).contains(&part.scenario.requests.len()));
    run(&part, 4, &BOTH);
}
