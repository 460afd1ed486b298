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
    in_layers(&crates());
}

/// Fails where there is a cycle.
fn in_layers(graph: &Graph) {
    let mut done = BTreeSet::new();
    while done.len() < graph.len() {
        let is_next = |(name, uses): &(&String, &BTreeSet<String>)| {
            !done.contains(*name) && uses.iter().all(|one| done.contains(one))
        };
        let left: Vec<_> = graph.iter().filter(|(name, _)| !done.contains(*name)).collect();
        let next = graph.iter().find(is_next).unwrap_or_else(|| panic!("a cycle among {left:?}"));
        done.insert(next.0.clone());
    }
}

/// The modules of a crate that each of them names as `crate::module`; comments and unit tests are left out.
fn modules(source: &Path) -> Graph {
    let mut graph = Graph::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let first = path.strip_prefix(source).unwrap().iter().next().unwrap().to_string_lossy();
            let module = first.trim_end_matches(".rs").to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            let code: Vec<&str> = code.collect();
            let uses = graph.entry(module).or_default();
            for after in code.join("\n").split("crate::").skip(1) {
                let name =
                    after.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next();
                uses.extend(name.map(str::to_owned));
            }
        }
    }
    let known: BTreeSet<String> = graph.keys().cloned().collect();
    for (module, uses) in &mut graph {
        uses.retain(|name| known.contains(name) && name != module);
    }
    graph.remove("lib");
    graph
}

#[test]
fn no_module_depends_on_itself_by_way_of_others() {
    let mut found = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        println!("{}", folder.display());
        let graph = modules(&folder.join("src"));
        found += graph.len();
        in_layers(&graph);
    }
    assert!(found > 100, "only {found} modules were found");
}

#[test]
fn policies_know_no_planner_and_checks_know_no_engine() {
    let graph = modules(&root().join("crates/core/src"));
    assert!(graph.len() > 20 && graph["plan"].contains("rules"), "{graph:?}");
    assert!(!graph["rules"].contains("plan") && !graph["check"].contains("engine"), "{graph:?}");
}

/// The types that other crates can name: `pub` in a module that is public from the root down, or named in a `pub use`.
fn public_types(source: &Path) -> Vec<String> {
    let (mut declared, mut exported) = (Vec::new(), BTreeSet::new());
    let mut modules = vec![(source.join("lib.rs"), source.to_owned(), true)];
    while let Some((file, folder, is_public)) = modules.pop() {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for after in text.split("\npub use ").skip(1) {
            let named = after.split(';').next().unwrap_or_default();
            exported.extend(named.split(|letter: char| !letter.is_ascii_alphanumeric()).map(str::to_owned));
        }
        for line in text.lines().map(str::trim_start) {
            let words: Vec<&str> =
                line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
            match words[..] {
                ["pub", "struct" | "enum" | "trait" | "type" | "union", name, ..] if !name.is_empty() => {
                    declared.push((name.to_owned(), is_public));
                }
                ["mod", name, ""] | ["pub", "mod", name, ""] => {
                    let inside = folder.join(name);
                    let alone = folder.join(format!("{name}.rs"));
                    let file = if alone.exists() { alone } else { inside.join("mod.rs") };
                    modules.extend(file.exists().then_some((file, inside, is_public && words[0] == "pub")));
                }
                _ => {}
            }
        }
    }
    let reachable = declared.into_iter().filter(|(name, is_public)| *is_public || exported.contains(name));
    reachable.map(|(name, _)| name).collect()
}

#[test]
fn no_two_public_types_have_the_same_name() {
    let mut crates_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        for name in public_types(&folder.join("src")) {
            crates_of.entry(name).or_default().push(folder.display().to_string());
        }
    }
    assert!(crates_of.len() > 500, "only {} types were found", crates_of.len());
    crates_of.retain(|_, places| places.len() > 1);
    assert!(crates_of.is_empty(), "give one of each pair another name: {crates_of:?}");
}
