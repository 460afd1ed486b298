//! The documentation of codes covers all of them, and its examples give them.

use gswarm_core::input::{Code, Source, read_scenario};
use gswarm_core::instance::Mode;

const CONFIG: &str = "
models:
  llm7b: {memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8.5}
workflows:
  chat: {nodes: [{id: write, model: llm7b}, {id: check, model: llm7b}], edges: [{from: write, to: check}]}
";
const REQUESTS: &str = "requests: [{request_id: r, workflow_id: chat, timestamp: 0}]";
const DOCUMENT: &str = include_str!("../../../docs/errors.md");

/// The examples of a section: which file, and its text.
fn examples(section: &str) -> Vec<(&str, &str)> {
    let fences = section.split("\n```").skip(1).step_by(2);
    fences.filter_map(|fence| fence.split_once('\n')).collect()
}

#[test]
fn every_code_is_documented_with_a_fix_and_an_example_that_gives_it() {
    for &code in Code::ALL {
        let heading = format!("\n## {} {}\n", code.code(), code.title());
        let (_, after) =
            DOCUMENT.split_once(&heading).unwrap_or_else(|| panic!("docs/errors.md lacks {heading}"));
        let section = after.split("\n## ").next().unwrap_or(after);
        assert!(section.contains("\nFix: "), "{code} has no fix");
        let of_files = [Code::NotUtf8, Code::TooDeep, Code::TooBig, Code::LeftOut];
        // What is found of running servers is in no file; the crate that asks them tests it.
        let of_servers = [Code::LargerOnServer, Code::SleepUnneeded];
        let section = format!("\n{section}");
        let examples = examples(&section);
        // Tables, model files and files of others have tests of their own, in the crates that read them.
        if code.code().starts_with("E6") {
            continue;
        }
        let elsewhere = code.code().starts_with("E5") || code.code().starts_with("E7");
        let has_none = elsewhere || of_files.contains(&code) || of_servers.contains(&code);
        assert_eq!(examples.is_empty(), has_none, "{code}: examples {examples:?}");
        for (info, text) in examples {
            let (config, requests) = match info.split(' ').nth(1) {
                // The crates that read files of servers and of runs test these.
                Some("backends" | "spec" | "deployment") => continue,
                Some("config") => (text, REQUESTS),
                Some("requests") => (CONFIG, text),
                _ => panic!("{code}: an example for no file"),
            };
            let mode = if code == Code::NoTimestamp { Mode::Online } else { Mode::Offline };
            let config = Source { name: "config", bytes: config.as_bytes() };
            let reading =
                read_scenario(config, Source { name: "requests", bytes: requests.as_bytes() }, mode);
            let mut found: Vec<Code> = reading.diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
            if code.code().starts_with("W41") {
                let unlikely = reading.scenario.unwrap().plausibility(["config", "requests"]);
                found.extend(unlikely.iter().map(|diagnostic| diagnostic.code));
            }
            assert!(found.contains(&code) && found.iter().all(|&other| other == code), "{code}: {found:?}");
        }
    }
}

#[test]
fn the_documentation_names_no_code_that_does_not_exist() {
    for heading in DOCUMENT.lines().filter_map(|line| line.strip_prefix("## ")) {
        let named = Code::ALL.iter().any(|code| heading == format!("{} {}", code.code(), code.title()));
        assert!(named, "{heading}");
    }
    let mut codes: Vec<&str> = Code::ALL.iter().map(|code| code.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Code::ALL.len(), "two codes are the same");
    assert!(Code::ALL.iter().all(|code| !code.help().is_empty()));
}
