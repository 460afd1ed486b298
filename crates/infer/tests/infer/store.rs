//! Folders of models.

use gswarm_infer::init::{ModelSize, model_files};
use gswarm_infer::{Error, ModelKind, Store, Weights};
use std::fs;
use std::path::Path;

fn put(folder: &Path, kind: ModelKind, seed: u64) {
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in model_files(kind, ModelSize::Tiny, seed).unwrap() {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn models_are_listed_with_what_they_are() {
    let root = tempfile::tempdir().unwrap();
    put(&root.path().join("b-llm"), ModelKind::Language, 1);
    put(&root.path().join("owner/embed"), ModelKind::Embedding, 1);
    fs::create_dir_all(root.path().join("broken")).unwrap();
    fs::write(root.path().join("broken/config.json"), "{").unwrap();
    fs::create_dir_all(root.path().join("empty/inner")).unwrap();
    put(&root.path().join(".hidden"), ModelKind::Language, 1);
    let store = Store::open(root.path()).unwrap();
    let list = store.list().unwrap();
    let names: Vec<&str> = list.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["b-llm", "broken", "owner/embed"]);
    let kind = |at: usize| list[at].config.as_ref().unwrap().kind();
    assert_eq!((kind(0), kind(2)), (ModelKind::Language, ModelKind::Embedding));
    assert!(list[1].config.as_ref().unwrap_err().to_string().contains("config.json"));
    assert!(list[0].bytes > 1 << 20 && list[0].bytes < 4 << 20, "{}", list[0].bytes);
    let weights = Weights::load(store.model("owner/embed").unwrap().path()).unwrap();
    assert!(weights.bytes() > 1 << 19);
}

#[test]
fn names_do_not_leave_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("models");
    put(&inside.join("good"), ModelKind::Language, 1);
    put(&root.path().join("outside"), ModelKind::Language, 1);
    let store = Store::open(&inside).unwrap();
    for name in ["../outside", "good/../../outside", "..", "", "/etc", "good/./x/y"] {
        assert!(matches!(store.model(name), Err(Error::Name { .. })), "{name}");
        assert!(matches!(store.place(name), Err(Error::Name { .. })), "{name}");
    }
    assert!(matches!(store.model("absent"), Err(Error::NotFound { .. })));
    assert!(store.place("absent/one").unwrap().starts_with(store.root()));
    assert!(Store::open(root.path().join("nowhere")).is_err());
}

#[cfg(unix)]
#[test]
fn links_do_not_leave_the_folder_either() {
    use std::os::unix::fs::symlink;
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("models");
    put(&inside.join("good"), ModelKind::Language, 1);
    put(&root.path().join("outside/deep"), ModelKind::Language, 1);
    symlink(root.path().join("outside/deep"), inside.join("linked")).unwrap();
    symlink(root.path().join("outside"), inside.join("owner")).unwrap();
    symlink(inside.join("good"), inside.join("alias")).unwrap();
    put(&inside.join("leaky"), ModelKind::Language, 1);
    fs::remove_file(inside.join("leaky/tokenizer.json")).unwrap();
    symlink(root.path().join("outside/deep/tokenizer.json"), inside.join("leaky/tokenizer.json")).unwrap();
    let store = Store::open(&inside).unwrap();
    for name in ["linked", "owner/deep", "leaky"] {
        assert!(matches!(store.model(name), Err(Error::Name { .. })), "{name}");
    }
    assert!(store.place("owner/new").is_err());
    assert!(store.model("alias").is_ok());
}

#[test]
fn checksums_tell_models_apart() {
    let root = tempfile::tempdir().unwrap();
    put(&root.path().join("a"), ModelKind::Language, 1);
    put(&root.path().join("b"), ModelKind::Language, 1);
    put(&root.path().join("c"), ModelKind::Language, 2);
    let store = Store::open(root.path()).unwrap();
    let sum = |name| store.model(name).unwrap().checksum().unwrap();
    assert_eq!((sum("a").len(), sum("a")), (64, sum("b")));
    assert_ne!(sum("a"), sum("c"));
    fs::write(root.path().join("b/more.txt"), "x").unwrap();
    assert_ne!(sum("a"), sum("b"));
}
