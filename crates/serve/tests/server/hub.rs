//! Downloads from a hub, well-behaved or not.

use crate::hub_stand_in::{Manners, StandIn};
use crate::support::{Answer, Server};
use gswarm_serve::model_server::hub::HubOptions;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// A hub with these manners, and a model server that downloads from it.
async fn pair(manners: Manners) -> (Server, Arc<StandIn>, Server) {
    pair_with(manners, |_| {}).await
}

async fn pair_with(manners: Manners, change: impl FnOnce(&mut HubOptions)) -> (Server, Arc<StandIn>, Server) {
    let (hub_server, hub) = StandIn::start(manners).await;
    let mut options = HubOptions { url: format!("{}/", hub_server.url), token: None, max_bytes: 1 << 30 };
    change(&mut options);
    let server = Server::with(|all| all.hub = Some(options)).await;
    (hub_server, hub, server)
}

async fn download(server: &Server) -> Answer {
    server.post("/standalone/download", json!({"model_name": "team/tiny", "source": "huggingface"})).await
}

/// Every file below a folder, as paths relative to it.
fn all_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}

fn is_whole(server: &Server, hub: &StandIn) {
    let expected: Vec<String> = hub.files().keys().map(|name| format!("team/tiny/{name}")).collect();
    assert_eq!(all_files(server.path()), expected);
    for (name, bytes) in hub.files() {
        assert!(
            std::fs::read(server.path().join("team/tiny").join(name)).unwrap() == *bytes,
            "{name} differs"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downloaded_model_serves() {
    for tells_all in [true, false] {
        let (_hub_server, hub, server) = pair(Manners { tells_all, ..Manners::default() }).await;
        let done = download(&server).await.is(200)["data"].clone();
        assert_eq!((&done["already_downloaded"], &done["source"]), (&json!(false), &json!("huggingface")));
        assert!(done["model_path"].as_str().unwrap().ends_with("team/tiny"));
        is_whole(&server, &hub);
        let id = server.serve("team/tiny", "cpu").await;
        let call = json!({"data": {"prompt": "Once", "max_length": 5}});
        assert_eq!(
            server.post(&format!("/standalone/call/{id}"), call).await.is(200)["data"]["new_tokens"],
            5
        );
        assert_eq!(download(&server).await.is(200)["data"]["already_downloaded"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_taken_up_where_it_was_cut() {
    let (_hub_server, hub, server) =
        pair(Manners { tells_all: true, cut_after: Some(700_000), ..Manners::default() }).await;
    download(&server).await.is(200);
    is_whole(&server, &hub);
    let asked = hub.asked.lock().unwrap();
    let ranges: Vec<Option<u64>> =
        asked.iter().filter(|(name, _)| name == "model.safetensors").map(|&(_, range)| range).collect();
    assert!(ranges.len() >= 3 && ranges[0].is_none(), "{ranges:?}");
    assert!(ranges[1..].windows(2).all(|pair| pair[0] < pair[1]) && ranges[1] > Some(0), "{ranges:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_of_an_earlier_server_is_taken_up() {
    let (_hub_server, hub, server) =
        pair(Manners { tells_all: true, cut_after: Some(0), ..Manners::default() }).await;
    assert_eq!(download(&server).await.is(502)["error"]["code"], "hub_failed");
    // As much as an earlier server left behind.
    let part = all_files(server.path()).into_iter().find(|name| name.ends_with(".part")).unwrap();
    let name = part.trim_start_matches(".partial/team@tiny/");
    let name = hub.files().keys().find(|file| name.starts_with(&format!("{file}."))).unwrap().clone();
    std::fs::write(server.path().join(&part), &hub.files()[&name][..10]).unwrap();
    hub.manners.lock().unwrap().cut_after = None;
    hub.asked.lock().unwrap().clear();
    download(&server).await.is(200);
    is_whole(&server, &hub);
    assert_eq!(hub.asked.lock().unwrap()[0], (name, Some(10)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_ranges_sends_the_whole_again() {
    let (_hub_server, hub, server) =
        pair(Manners { tells_all: true, cut_after: Some(0), no_ranges: true, ..Manners::default() }).await;
    download(&server).await.is(502);
    for part in all_files(server.path()) {
        std::fs::write(server.path().join(part), "begun").unwrap();
    }
    hub.manners.lock().unwrap().cut_after = None;
    download(&server).await.is(200);
    is_whole(&server, &hub);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_add_up_is_thrown_away() {
    for damaged in ["config.json", "model.safetensors"] {
        let (_hub_server, hub, server) =
            pair(Manners { tells_all: true, damages: Some(damaged), ..Manners::default() }).await;
        let said = download(&server).await.is(502);
        assert_eq!(said["error"]["code"], "checksum_mismatch");
        assert!(said["message"].as_str().unwrap().contains(damaged), "{said}");
        assert!(!server.path().join("team/tiny").exists());
        assert!(!all_files(server.path()).iter().any(|name| name.contains(damaged)));
        hub.manners.lock().unwrap().damages = None;
        download(&server).await.is(200);
        is_whole(&server, &hub);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_lists_paths_out_of_its_folder_is_not_trusted() {
    for hostile in ["../evil.safetensors", "/tmp/evil.json", "a/../../evil", "..\\evil"] {
        let (_hub_server, hub, server) =
            pair(Manners { tells_all: true, also_lists: vec![hostile], ..Manners::default() }).await;
        assert_eq!(download(&server).await.is(502)["error"]["code"], "hub_failed");
        assert!(all_files(server.path()).is_empty());
        assert!(hub.asked.lock().unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused() {
    let (_hub_server, hub, server) =
        pair_with(Manners { tells_all: true, ..Manners::default() }, |options| options.max_bytes = 1000)
            .await;
    assert_eq!(download(&server).await.is(422)["error"]["code"], "model_too_large");
    assert!(hub.asked.lock().unwrap().is_empty(), "nothing of it is fetched");
    // A hub that sends more than it said.
    let (_hub_server, _, server) =
        pair(Manners { tells_all: true, sends_more: 10, ..Manners::default() }).await;
    assert!(download(&server).await.is(502)["message"].as_str().unwrap().contains("more"));
    // And one that has less than it said.
    let (_hub_server, _, server) =
        pair(Manners { tells_all: true, claims_more: 10, ..Manners::default() }).await;
    download(&server).await.is(502);
    assert!(!server.path().join("team/tiny").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_checksums_is_refused() {
    let (_hub_server, _, server) = pair(Manners { no_checksums: true, ..Manners::default() }).await;
    assert!(download(&server).await.is(502)["message"].as_str().unwrap().contains("checksum"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_wants_a_token_gets_it_and_nobody_sees_it() {
    let manners = || Manners { tells_all: true, token: Some("hf_secret"), ..Manners::default() };
    let (_hub_server, _, server) = pair(manners()).await;
    assert_eq!(download(&server).await.is(403)["error"]["code"], "hub_refused");
    let (_hub_server, hub, server) =
        pair_with(manners(), |options| options.token = Some("hf_secret".to_string())).await;
    download(&server).await.is(200);
    is_whole(&server, &hub);
    let options = HubOptions { url: "http://x".into(), token: Some("hf_secret".into()), max_bytes: 1 };
    assert!(!format!("{options:?}").contains("hf_secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_the_hub_does_not_have_and_hubs_that_are_not_there() {
    let (hub_server, _, server) = pair(Manners::default()).await;
    server.post("/standalone/download", json!({"model_name": "team/other"})).await.is(404);
    hub_server.end().await;
    assert_eq!(download(&server).await.is(502)["error"]["code"], "hub_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_download_serves_all_who_ask_for_it() {
    let (_hub_server, hub, server) = pair(Manners { tells_all: true, ..Manners::default() }).await;
    let all = futures_util::future::join_all((0..4).map(|_| download(&server))).await;
    assert!(all.iter().all(|answer| answer.status == 200), "{all:?}");
    is_whole(&server, &hub);
    assert_eq!(hub.asked.lock().unwrap().len(), hub.files().len());
    assert_eq!(server.get("/standalone/status").await.is(200)["downloads"], json!([]));
}
