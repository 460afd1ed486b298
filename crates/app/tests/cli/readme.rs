use crate::support::{Place, inputs, root};
use std::path::Path;
use std::process::Command;

/// The `sh` blocks of a page, in order.
fn blocks(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_string).collect()
}

/// Runs the `sh` blocks of a page in order, as written, in a shell with `gswarm` on the path, in a folder with the repository's
/// examples. Only the port may be taken, and is another.
fn run_page(page: &str, least: usize) -> Place {
    let (place, blocks) = (Place::new(), blocks(page));
    assert!(blocks.len() >= least, "{page}: {blocks:?}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let copied =
        Command::new("cp").arg("-r").arg(root().join("examples")).arg(place.path("examples")).status();
    assert!(copied.unwrap().success());
    let servers = place.path("examples/live/servers.yaml");
    std::fs::write(&servers, std::fs::read_to_string(&servers).unwrap().replace("8000", &port)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_gswarm")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for block in blocks {
        // Whatever becomes of the block, what it left running ends with it.
        let script = format!(
            "set -eu; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
            block.replace("8000", &port)
        );
        let done = Command::new("bash")
            .args(["-c", &script])
            .env("PATH", &path)
            .current_dir(place.path(""))
            .output();
        let done = done.unwrap();
        assert!(done.status.success(), "{page}\n{block}\n{}", String::from_utf8_lossy(&done.stderr));
    }
    place
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let place = run_page("README.md", 1);
    assert!(place.path("results/adaptive_execution_log.json").exists());
}

#[test]
fn the_commands_of_the_tutorial_work_in_their_order() {
    let place = run_page("docs/tutorial.md", 8);
    // What the page says of the two policies on two GPUs.
    let rows = place.read("comparison/rows.jsonl");
    let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let median = |policy: &str| {
        let row = rows.iter().find(|row| row["policy"] == policy && row["gpus"] == 2).unwrap();
        row["latency_p50_seconds"].as_f64().unwrap()
    };
    assert!(median("lru") > 100.0 && median("adaptive") < 10.0);
    assert!(place.path("report.html").exists());
}

#[test]
fn the_commands_of_live_runs_work_in_their_order() {
    let place = run_page("docs/live.md", 3);
    // What it promises of the runs is seen in their logs.
    let switches = |policy: &str| {
        let log = place.read(&format!("live-{policy}/{policy}_execution_log.json"));
        let log: serde_json::Value = serde_json::from_str(&log).unwrap();
        log["summary"]["model_switches"].as_u64().unwrap()
    };
    assert!(switches("planned") * 5 < switches("baseline"));
    for folder in ["live-planned", "live-killed", "live-served"] {
        let results = place.read(&format!("{folder}/planned_results.jsonl"));
        assert!(
            results.lines().count() == 24 && results.contains("\"text\""),
            "real text came back: {folder}"
        );
    }
}

/// The page shows what commands print (`$ gswarm ...` and the text below it), after those of its first block. What has
/// changed is written into the page with `UPDATE_DOCS=1`, to be looked at like any other change.
#[test]
fn the_examples_of_explain_are_what_the_commands_print() {
    let path = root().join("docs/explain.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let place = Place::new();
    let first = page.split("```\n").nth(1).unwrap();
    first.lines().for_each(|line| drop(place.run(line.strip_prefix("gswarm ").unwrap()).code(0)));
    holds(&path, &page, &place, &inputs("work"));
}

#[test]
fn the_examples_of_import_are_what_the_commands_print() {
    let path = root().join("docs/import.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let place = Place::new();
    std::os::unix::fs::symlink(root().join("examples"), place.path("examples")).unwrap();
    holds(&path, &page, &place, "");
}

/// Holds the examples of a page to what their commands print, with `more` behind each.
fn holds(path: &std::path::Path, page: &str, place: &Place, more: &str) {
    let mut fresh = String::new();
    for (at, part) in page.split("```").enumerate() {
        let (fence, part) = (if at == 0 { "" } else { "```" }, part);
        let Some(line) = part.strip_prefix("\n$ gswarm ").and_then(|rest| rest.lines().next()) else {
            fresh.push_str(&format!("{fence}{part}"));
            continue;
        };
        let done = place.run(&format!("{line} {more}"));
        let shown = if done.code == 0 { done.out } else { done.err };
        fresh.push_str(&format!("{fence}\n$ gswarm {line}\n{}\n", shown.trim_end()));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &fresh).unwrap();
    } else {
        assert!(page == fresh, "run again with UPDATE_DOCS=1: the page would be\n{fresh}");
    }
}

#[test]
fn the_readme_has_the_two_commands() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.contains("```\ncargo run --release\n```") && text.contains("```\ncargo xtask test\n```"));
}
