//! A front door over a disk that cannot be trusted: full, emptied under it, or with bits that have flipped. Nothing that was
//! accepted is lost, and nothing is served that was not written.

use crate::front::{place, serve};
use crate::model_server::{Running, client, post};
use crate::support::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const SUBMIT: &str = "/v1/workflows/picture/requests";

/// Rounds of the soak; `cargo xtask drill` makes more of them.
fn rounds() -> u64 {
    std::env::var("GSWARM_SOAK").ok().and_then(|number| number.parse().ok()).unwrap_or(3)
}

async fn get(url: &str, path: &str) -> (u16, Value) {
    let answer = client().get(format!("{url}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn submit(url: &str, name: &str) -> (u16, Value) {
    post(url, SUBMIT, json!({"request_id": name, "input_data": {"wish": "x".repeat(2000)}})).await
}

/// Waits until a path is answered with this status.
async fn until_status(url: &str, path: &str, status: u16) {
    let comes = async {
        while get(url, path).await.0 != status {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let what = format!("{path} is never answered with {status}");
    tokio::time::timeout(gswarm_testing::LIMIT, comes).await.expect(&what);
}

async fn result(url: &str, name: &str) -> Value {
    let ends = async {
        loop {
            let (status, found) = get(url, &format!("/v1/requests/{name}/result?wait=60")).await;
            assert!(matches!(status, 200 | 202), "{name}: {status} {found}");
            if status == 200 {
                return found;
            }
        }
    };
    tokio::time::timeout(gswarm_testing::LIMIT, ends).await.expect("it ends")
}

/// Files cannot grow beyond so many blocks of 512 bytes until `prlimit` says otherwise: that is what a full disk is to those
/// who write.
fn serve_with_little_room(place: &Place, blocks: u32) -> Running {
    let program = place.command("serve --config config.yaml --backends servers.yaml --port 0 --state state");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$@\""), "sh"]);
    shell.arg(program.get_program()).args(program.get_args()).current_dir(place.path("."));
    Running::from(shell)
}

fn make_room(server: &Running) {
    let done =
        Command::new("prlimit").args(["--pid", &server.id().to_string(), "--fsize=unlimited"]).status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_needs_it_and_nothing_else() {
    let place = place(500);
    let server = serve_with_little_room(&place, 400);
    let url = server.url.clone();
    let mut accepted = Vec::new();
    let refused = loop {
        let name = format!("r{}", accepted.len());
        match submit(&url, &name).await {
            (202, _) => accepted.push(name),
            refused => break refused,
        }
        assert!(accepted.len() < 5000, "the disk is never full");
    };
    assert_eq!((refused.0, &refused.1["error"]["code"]), (507, &json!("storage_full")), "{}", refused.1);
    assert!(!accepted.is_empty());
    let (status, why) = get(&url, "/ready").await;
    assert!(
        status == 503 && why["error"]["message"].as_str().unwrap().contains("cannot be written"),
        "{why}"
    );
    assert_eq!(get(&url, "/health").await.0, 200);
    let chat =
        json!({"model": "writer", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5});
    assert_eq!(post(&url, "/v1/chat/completions", chat).await.0, 200, "a call needs no disk");
    make_room(&server);
    until_status(&url, "/ready", 200).await;
    assert_eq!(submit(&url, "after").await.0, 202);
    for name in accepted.iter().map(String::as_str).chain(["after"]) {
        assert_eq!(result(&url, name).await["status"], "completed", "{name}");
    }
    server.signal("-TERM");
    let (code, told) = server.end();
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("the state can be written again"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_deleted_under_the_service_is_put_back() {
    let place = place(500);
    let server = serve(&place);
    assert_eq!(submit(&server.url, "before").await.0, 202);
    std::fs::remove_dir_all(place.path("state")).unwrap();
    assert_eq!(submit(&server.url, "after").await.0, 202);
    server.signal("-KILL");
    drop(server);
    let server = serve(&place);
    for name in ["before", "after"] {
        assert_eq!(result(&server.url, name).await["status"], "completed", "{name}");
    }
}

/// Flips a bit in each text of a request: some are left over in parts of the file that are not in use.
fn flip_bits(place: &Place) {
    let path = place.path("state/requests.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let mut from = 0;
    while let Some(found) = bytes[from..].windows(64).position(|part| part == [b'x'; 64]) {
        bytes[from + found] ^= 1;
        from += found + 64;
    }
    assert!(from > 0, "there is no text of a request");
    std::fs::write(&path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_refused_with_what_to_do() {
    let place = place(500);
    let server = serve(&place);
    assert_eq!(submit(&server.url, "one").await.0, 202);
    result(&server.url, "one").await;
    server.signal("-TERM");
    assert_eq!(server.end().0, 0);
    flip_bits(&place);
    let refused =
        place.run("serve --config config.yaml --backends servers.yaml --port 0 --state state").code(2);
    refused.says("E522").says("hint").says("checksum");
}

/// The disk full, the database gone, the process killed and bits flipped, in turns.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_nothing_altered_is_served() {
    let place = place(500);
    let mut kept: BTreeMap<String, Option<Value>> = BTreeMap::new();
    for round in 0..rounds() {
        let is_full = round % 3 == 0;
        let server = if is_full { serve_with_little_room(&place, 500) } else { serve(&place) };
        let url = server.url.clone();
        for number in 0..60 {
            let name = format!("r{round}-{number}");
            match submit(&url, &name).await {
                (202, _) => drop(kept.insert(name, None)),
                (507, _) if is_full => {}
                other => panic!("{other:?}"),
            }
            if round % 3 == 1 && number == 30 {
                std::fs::remove_file(place.path("state/requests.db")).unwrap();
            }
        }
        if is_full {
            make_room(&server);
            until_status(&url, "/ready", 200).await;
        }
        // What was read once never changes.
        for (name, known) in kept.iter_mut().filter(|(name, _)| name.len() % 2 == 0) {
            let found = result(&url, name).await;
            assert_eq!(found["status"], "completed", "{name}");
            assert!(known.as_ref().is_none_or(|known| *known == found), "{name}: {known:?}, now {found}");
            *known = Some(found);
        }
        if round % 3 != 2 {
            server.signal("-KILL");
            continue;
        }
        // A process that ends as it should leaves all of it in the one file.
        server.signal("-TERM");
        assert_eq!(server.end().0, 0);
        let whole = std::fs::read(place.path("state/requests.db")).unwrap();
        flip_bits(&place);
        let line = "serve --config config.yaml --backends servers.yaml --port 0 --state state";
        let mut refused = place.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_eq!(gswarm_testing::ended(&mut refused).code(), Some(2));
        std::fs::write(place.path("state/requests.db"), whole).unwrap();
    }
    assert!(kept.len() > 20, "{}", kept.len());
    let server = serve(&place);
    for (name, known) in &kept {
        let found = result(&server.url, name).await;
        assert_eq!(found["status"], "completed", "{name}");
        assert!(known.as_ref().is_none_or(|known| *known == found), "{name}: {known:?}, now {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lets_others_learn_the_token_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let place = place(500);
    place.write("token", "0123456789abcdef0123\n");
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let line = "serve --config config.yaml --backends servers.yaml --port 0 --token-file token --host";
    let told = async |host: &str| {
        let server = Running::of(&place, &format!("{line} {host} --state state-{host}"));
        until_status(&server.url, "/health", 200).await;
        server.signal("-TERM");
        server.end().1
    };
    let open = told("0.0.0.0").await;
    assert!(open.contains("unencrypted") && open.contains("chmod 600 token"), "{open}");
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let closed = told("127.0.0.1").await;
    assert!(!closed.contains("unencrypted") && !closed.contains("chmod"), "{closed}");
}

/// A template that doubles a text forty times, and one that asks for a line of a billion columns.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_template_cannot_take_all_memory() {
    let place = Place::new();
    place.run("models init --dir models --name tiny-llm").code(0);
    let doubled = format!("{{% set s = 'x' %}}{}{{{{ s }}}}", "{% set s = s ~ s %}".repeat(40));
    for template in [doubled.as_str(), "{{ '%1000000000d' | format(1) }}", "{{ 'hello' }}"] {
        let config = place.path("models/tiny-llm/tokenizer_config.json");
        let mut json: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
        json["chat_template"] = json!(template);
        std::fs::write(&config, json.to_string()).unwrap();
        let server = Running::start(&place, "--models models");
        let (status, said) = post(&server.url, "/standalone/serve", json!({"model_name": "tiny-llm"})).await;
        assert_eq!(status, 200, "{said}");
        let chat =
            json!({"model": "tiny-llm", "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}]});
        let (status, said) = post(&server.url, "/v1/chat/completions", chat).await;
        let is_bomb = template != "{{ 'hello' }}";
        assert_eq!(status, if is_bomb { 400 } else { 200 }, "{template:.40}: {said}");
        let plain = json!({"model": "tiny-llm", "prompt": "hi", "max_tokens": 2});
        assert_eq!(post(&server.url, "/v1/completions", plain).await.0, 200, "others are served");
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(most < 600_000, "{most} kB");
    }
}
