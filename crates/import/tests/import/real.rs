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

/// Templates of many kinds: nothing heavy is free, films keep their frames, and what is left out is told.
#[test]
fn comfyui_templates_of_extensions_and_vendors() {
    let files = real("comfy-more", "json");
    if files.is_empty() {
        return;
    }
    let sources: Vec<Source<'_>> = files.iter().map(|(name, bytes)| Source { name, bytes }).collect();
    let all = import(ImportKind::Comfyui, &sources, &ImportOptions::default()).unwrap();
    let share = all.assumptions[0].strip_prefix("Heavy nodes understood: ").unwrap().to_owned();
    println!("{share}\n{}\n{}", all.assumptions[1], all.assumptions[2]);
    let mut numbers = share.split(' ').filter_map(|word| word.parse::<f64>().ok());
    let (understood, heavy) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(understood / heavy >= 0.95, "{share}");
    assert!(
        all.assumptions
            .iter()
            .any(|one| one.starts_with("Nodes that call a vendor's service are left out: "))
    );
    for (name, bytes) in &files {
        let made = import(ImportKind::Comfyui, &[Source { name, bytes }], &ImportOptions::default());
        let made = match made {
            Ok(made) => made,
            Err(found) => {
                let why = &found[0].message;
                assert!(why.contains("call a vendor's service"), "{name}: {found:#?}");
                continue;
            }
        };
        let text = String::from_utf8_lossy(bytes);
        let workflow = &made.scenario.workflows[0];
        for (node, time) in workflow.nodes.iter().zip(&made.scenario.requests[0].times) {
            if node.id.contains("Sampler") {
                assert!(time.unwrap().seconds() > 0.01, "{name}: {} takes {time:?}", node.id);
            }
        }
        // A template of a film has frames in some sampler, where the file has a length for its latents.
        let has_length =
            ["ToVideo\"", "LatentVideo\"", "VACEEncode\""].iter().any(|class| text.contains(class));
        let configs = &made.scenario.requests[0].node_configs;
        let frames = configs.values().filter_map(|config| config["length"].as_f64()).fold(1.0, f64::max);
        let samples = workflow.nodes.iter().any(|node| node.id.contains("Sampler"));
        println!("{name}: {} nodes, {frames} frames", workflow.nodes.len());
        assert!(!has_length || !samples || frames > 1.0, "{name}: no frames");
    }
}

/// `--time` works for every class of the file, and for no other.
#[test]
fn comfyui_times_of_any_class() {
    let text = br#"{"3": {"class_type": "MysteryNode", "inputs": {}},
        "4": {"class_type": "SaveImage", "inputs": {"images": ["3", 0]}}}"#;
    let source = Source { name: "w.json", bytes: text };
    let with = |times: &[(&str, f64)]| ImportOptions { times: pairs(times), ..ImportOptions::default() };
    let found = import(ImportKind::Comfyui, &[source], &with(&[])).unwrap_err();
    assert_eq!(found[0].code, Code::Nothing, "{found:?}");
    let made = import(ImportKind::Comfyui, &[source], &with(&[("MysteryNode", 7.0)])).unwrap();
    assert_eq!(made.scenario.requests[0].times[0].unwrap().seconds(), 7.0);
    assert_eq!(made.assumptions[0], "Heavy nodes understood: 1 of 1 (100%)");
    let found = import(ImportKind::Comfyui, &[source], &with(&[("NoSuchNode", 7.0)])).unwrap_err();
    assert_eq!(found[0].code, Code::NoSuchPlace, "{found:?}");
}

/// llama-swap's own examples become configurations and servers that gswarm reads.
#[test]
fn llama_swap_examples() {
    for (name, bytes) in real("llama-swap", "yaml") {
        let made = gswarm_import::llama_swap(Source { name: &name, bytes: &bytes });
        let made = made.unwrap_or_else(|found| panic!("{name}: {found:#?}"));
        println!("{name}: {:#?}", made.told);
        let reading = gswarm_core::input::read_config(Source { name: &name, bytes: made.config.as_bytes() });
        let scenario = reading.scenario.unwrap_or_else(|| panic!("{name}: {:?}", reading.diagnostics));
        let backends: serde_json::Value = serde_json::from_str(&made.backends).unwrap();
        assert_eq!(backends["backends"].as_array().unwrap().len(), scenario.models.len(), "{name}");
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
