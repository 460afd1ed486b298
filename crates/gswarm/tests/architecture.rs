//! ARCHITECTURE.md says which crates may depend on which, and the crates keep to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The dependencies between the crates of the workspace, those of tests left out.
fn crates() -> Graph {
    let mut graph = Graph::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let manifest = std::fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
        let name = |line: &str| line.strip_prefix("name = \"")?.split('"').next().map(str::to_owned);
        let package = manifest.lines().find_map(name).unwrap();
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap_or_default();
        let uses = section.lines().filter(|line| line.starts_with("gswarm"));
        let uses = uses.map(|line| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned());
        graph.insert(package, uses.collect());
    }
    graph
}

/// The graph in the document: a line for each crate, as in `gswarm-run: gswarm-core gswarm-exec`.
fn documented() -> Graph {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let block = text.split("```crates\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let line = |line: &str| {
        let (name, uses) = line.split_once(':').unwrap();
        (name.to_owned(), uses.split_whitespace().map(str::to_owned).collect())
    };
    block.lines().map(line).collect()
}

#[test]
fn crates_depend_on_one_another_as_the_document_says() {
    assert_eq!(crates(), documented(), "change ARCHITECTURE.md together with the crates");
}

#[test]
fn no_crate_depends_on_itself_by_way_of_others() {
    let graph = crates();
    let mut done = BTreeSet::new();
    while done.len() < graph.len() {
        let next = graph
            .iter()
            .find(|(name, uses)| !done.contains(*name) && uses.iter().all(|one| done.contains(one)));
        let left: Vec<_> = graph.keys().filter(|name| !done.contains(*name)).collect();
        done.insert(next.unwrap_or_else(|| panic!("a cycle among {left:?}")).0.clone());
    }
}
