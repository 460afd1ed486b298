//! The way to a Ray cluster without one: a shell script in the place of Python answers like the bridge, dies and hangs.

use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::Cluster;
use gswarm_core::{Gpus, ModelId, Span};
use gswarm_exec::backend::{BackendError, LoadRecorder, Replica};
use gswarm_exec::call::Call;
use gswarm_exec::fleet::Fleet;
use gswarm_exec::ray::{Bridge, fleet};
use serde_json::{Map, Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Writes down what it is told, answers each order with the order itself, and does as models ask that are called.
const SCRIPT: &str = r#"#!/bin/sh
echo started >> "FOLDER/starts"
while read -r line; do
    echo "$line" >> "FOLDER/orders"
    id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
        *'"op":"cancel"'*) ;;
        *'"name":"die"'*) echo "out of luck" >&2; exit 3 ;;
        *'"name":"hang"'*) ;;
        *'"name":"refuse"'*) echo "{\"id\":$id,\"err\":{\"kind\":\"refused\",\"why\":\"no\"}}" ;;
        *'"name":"rubbish"'*) echo "no json"; echo "{\"id\":$id,\"ok\":1}" ;;
        *) echo "{\"id\":$id,\"ok\":$line}" ;;
    esac
done
"#;

struct Scene {
    folder: tempfile::TempDir,
    fleet: Fleet,
    bridge: Arc<Bridge>,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let script: PathBuf = folder.path().join("python");
    std::fs::write(&script, SCRIPT.replace("FOLDER", &folder.path().display().to_string())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let spec = ClusterSpec { gpus: Some(6), gpus_per_server: Some(2), ..ClusterSpec::default() };
    let cluster = Cluster::from_spec(&spec).unwrap();
    let bridge = Arc::new(Bridge::new(script.to_str().unwrap()));
    let nobody: LoadRecorder = Arc::new(|_| {});
    Scene { fleet: fleet(&bridge, &cluster, &nobody), bridge, folder }
}

impl Scene {
    async fn call(&self, name: &str, gpus: Gpus) -> Result<Value, BackendError> {
        let replica = Replica { model: ModelId(1), gpus };
        let member = self.fleet.serves(replica).unwrap();
        let (inputs, config) = (Map::new(), Map::new());
        let call = Call { name: name.to_owned(), inputs, config, kind: None, estimate: Span(5) };
        self.fleet.members()[member].backend.call(replica, &call).await
    }

    /// Waits until the bridge has read an order with this in it.
    async fn was_told(&self, part: &str) {
        let read = async {
            while !self.lines("orders").iter().any(|line| line.contains(part)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let told = tokio::time::timeout(gswarm_testing::LIMIT, read).await;
        assert!(told.is_ok(), "no {part} in {:?}", self.lines("orders"));
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(Path::new(self.folder.path()).join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_server_counts_its_own_gpus_and_names_those_over_which_a_model_stretches() {
    let scene = scene();
    scene.bridge.introduce(json!({"op": "join"})).await.unwrap();
    let said = scene.call("narrow", Gpus::new(3, 1)).await.unwrap();
    assert_eq!((&said["server"], &said["gpus"], &said["with"]), (&json!(1), &json!([1, 1]), &json!([])));
    let said = scene.call("wide", Gpus::new(2, 4)).await.unwrap();
    assert_eq!((&said["server"], &said["gpus"], &said["with"]), (&json!(1), &json!([0, 4]), &json!([2])));
    assert_eq!(scene.call("refuse", Gpus::new(0, 1)).await, Err(BackendError::Refused("no".to_owned())));
    assert_eq!(
        scene.call("rubbish", Gpus::new(0, 1)).await,
        Ok(json!(1)),
        "what makes no sense is passed over"
    );
}

#[tokio::test]
async fn a_bridge_that_dies_fails_what_it_was_asked_and_is_started_again_by_a_reset() {
    let scene = scene();
    let gone = scene.call("early", Gpus::new(0, 1)).await;
    assert!(matches!(gone, Err(BackendError::Gone(_))), "nobody is there yet: {gone:?}");
    scene.bridge.introduce(json!({"op": "join"})).await.unwrap();
    let (hangs, dies) = tokio::join!(scene.call("hang", Gpus::new(0, 1)), scene.call("die", Gpus::new(1, 1)));
    for result in [hangs, dies] {
        let Err(BackendError::Gone(why)) = result else { panic!("{result:?}") };
        assert!(why.contains("out of luck"), "{why}");
    }
    assert!(matches!(scene.call("late", Gpus::new(0, 1)).await, Err(BackendError::Gone(_))));
    scene.fleet.members()[0].backend.reset().await.unwrap();
    assert!(scene.call("again", Gpus::new(0, 1)).await.is_ok());
    assert_eq!(scene.lines("starts").len(), 2);
    let joins = scene.lines("orders").iter().filter(|line| line.contains(r#""op":"join""#)).count();
    assert_eq!(joins, 2, "the second one was told where the cluster is, too");
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_cancelled() {
    let scene = scene();
    scene.bridge.introduce(json!({"op": "join"})).await.unwrap();
    tokio::select! {
        result = scene.call("hang", Gpus::new(0, 1)) => panic!("{result:?}"),
        () = scene.was_told(r#""name":"hang""#) => {}
    }
    scene.was_told(r#""op":"cancel""#).await;
    scene.bridge.end().await;
    assert!(matches!(scene.call("after", Gpus::new(0, 1)).await, Err(BackendError::Gone(_))));
}

#[tokio::test]
async fn a_python_that_is_not_there_is_told() {
    let bridge = Bridge::new("/nowhere/python");
    let Err(BackendError::Gone(why)) = bridge.introduce(json!({"op": "join"})).await else { panic!() };
    assert!(why.contains("/nowhere/python"), "{why}");
}
