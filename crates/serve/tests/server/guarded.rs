//! Who may ask, how much, and for how long.

use crate::support::{LIMIT, Server, answer, until};
use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use gswarm_serve::guard::{GuardSettings, Secret, ServerEnd, StartError, TlsFiles, bind};
use reqwest::Method;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const TOKEN: &str = "0123456789abcdef0123";

/// `/wait` answers when it is told to, `/size` with what it got, `/panic` never.
fn routes(go: Arc<Notify>) -> Router {
    let wait = move || async move {
        go.notified().await;
        "\"done\""
    };
    Router::new()
        .route("/health", get(|| async { axum::Json("well") }))
        .route("/size", post(|body: Bytes| async move { axum::Json(body.len()) }))
        .route("/v1/panic", get(|| async { panic!("on purpose") as &'static str }))
        .route("/wait", get(wait))
        .route("/flood", get(|| async { "x".repeat(64 << 20) }))
}

async fn server(change: impl FnOnce(&mut GuardSettings)) -> (Server, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let mut settings = GuardSettings::local(0);
    change(&mut settings);
    let made = routes(Arc::clone(&go));
    (Server::of(settings, |_| made).await, go)
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_token() {
    let open = GuardSettings { address: "0.0.0.0:0".parse().unwrap(), ..GuardSettings::local(0) };
    assert!(matches!(bind(open.clone()).await, Err(StartError::NoToken(_))));
    let weak = GuardSettings { token: Some(Secret::new("short")), ..open.clone() };
    assert!(matches!(bind(weak).await, Err(StartError::WeakToken(5))));
    let guarded = GuardSettings { token: Some(Secret::new(TOKEN)), ..open };
    assert!(bind(guarded).await.is_ok());
}

#[tokio::test]
async fn a_token_is_wanted_from_everybody() {
    let (server, _) = server(|settings| settings.token = Some(Secret::new(TOKEN))).await;
    let ask = |path: &str, header: Option<String>| {
        let request = server.client.post(format!("{}{path}", server.url)).body("abc");
        match header {
            Some(header) => request.header("authorization", header).send(),
            None => request.send(),
        }
    };
    let refused = ask("/size", None).await.unwrap();
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    assert_eq!(answer(refused).await.is(401)["error"]["code"], "invalid_token");
    for wrong in
        [format!("Bearer {TOKEN}x"), "Bearer ".to_string(), format!("Basic {TOKEN}"), TOKEN.to_string()]
    {
        assert_eq!(ask("/size", Some(wrong)).await.unwrap().status(), 401);
    }
    assert_eq!(
        ask("/nothing", None).await.unwrap().status(),
        401,
        "strangers do not learn what routes there are"
    );
    assert_eq!(ask("/size", Some(format!("Bearer {TOKEN}"))).await.unwrap().text().await.unwrap(), "3");
    assert_eq!(server.get("/health").await.is(200), "well");
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let (server, _) = server(|settings| settings.limits.body_bytes = 1000).await;
    let send =
        |length: usize| server.client.post(format!("{}/size", server.url)).body(vec![b'x'; length]).send();
    assert_eq!(answer(send(1000).await.unwrap()).await.is(200), 1000);
    let (roomy, _) = self::server(|_| {}).await;
    let large = roomy.client.post(format!("{}/size", roomy.url)).body(vec![b'x'; 5 << 20]).send().await;
    assert_eq!(answer(large.unwrap()).await.is(200), 5 << 20, "no other limit stands before this one");
    assert_eq!(answer(send(1001).await.unwrap()).await.is(413)["error"]["code"], "body_too_large");
    // Of unknown length, it is read until it is too long.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = "POST /size HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..3 {
        let _ = stream.write_all(format!("190\r\n{}\r\n", "y".repeat(400)).as_bytes()).await;
    }
    assert!(first_line(&mut stream).await.contains("413"));
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = async {
        let mut block = [0; 1024];
        while !text.contains(&b'\n') {
            match stream.read(&mut block).await {
                Ok(0) | Err(_) => break,
                Ok(count) => text.extend_from_slice(&block[..count]),
            }
        }
    };
    tokio::time::timeout(LIMIT, read).await.expect("the connection hangs");
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
}

#[tokio::test]
async fn those_who_are_slow_are_let_go() {
    let (hasty, _) = server(|settings| settings.limits.head_time = Duration::from_millis(200)).await;
    let mut silent = TcpStream::connect(("127.0.0.1", hasty.port)).await.unwrap();
    silent.write_all(b"GET /health HTT").await.unwrap();
    let said = first_line(&mut silent).await;
    assert!(said.is_empty() || said.contains("408"), "{said}");
    let (server, _) = server(|settings| settings.limits.body_time = Duration::from_millis(200)).await;
    let mut slow = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    slow.write_all(b"POST /size HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
    assert!(first_line(&mut slow).await.contains("408"));
}

#[tokio::test]
async fn those_who_do_not_take_their_answer_are_let_go() {
    let (server, _) = server(|settings| {
        settings.limits.requests = 1;
        settings.limits.stall_time = Duration::from_millis(200);
    })
    .await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.write_all(b"GET /flood HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let said = first_line(&mut stream).await;
    assert!(said.contains("200"), "{said}");
    // The one place is free again though nobody has read the rest.
    until("there is room again", || async { server.get("/size").await.status != 503 }).await;
    drop(stream);
}

#[tokio::test]
async fn heads_have_a_limit() {
    let (server, _) = server(|settings| settings.limits.head_bytes = 8192).await;
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let head = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(100_000));
    let _ = stream.write_all(head.as_bytes()).await;
    let said = first_line(&mut stream).await;
    assert!(said.is_empty() || said.contains("431"), "{said}");
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn more_requests_than_there_is_room_for_are_told_to_come_back() {
    let (server, go) = server(|settings| settings.limits.requests = 1).await;
    let url = format!("{}/wait", server.url);
    let waiting = tokio::spawn(server.client.get(&url).send());
    until("the first request is being answered", || async { server.get("/size").await.status == 503 }).await;
    let refused = server.client.get(format!("{}/size", server.url)).send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(answer(refused).await.is(503)["error"]["code"], "too_many_requests");
    assert_eq!(server.get("/health").await.status, 200, "that it lives can always be asked");
    go.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    until("there is room again", || async { server.get("/size").await.status != 503 }).await;
}

#[tokio::test]
async fn what_takes_too_long_is_given_up() {
    let (server, _) = server(|settings| settings.limits.request_time = Duration::from_millis(100)).await;
    assert_eq!(server.get("/wait").await.is(504)["error"]["code"], "timed_out");
}

#[tokio::test]
async fn every_fault_is_an_answer_in_json() {
    let (server, _) = server(|_| {}).await;
    let panicked = server.get("/v1/panic").await.is(500);
    assert_eq!(panicked["error"]["type"], "server_error");
    assert!(!panicked.to_string().contains("on purpose"), "insides are not told");
    assert_eq!(server.get("/v1/nothing").await.is(404)["error"]["code"], "no_such_route");
    assert_eq!(server.get("/nothing").await.is(404)["error"]["code"], "no_such_route");
    let envelope = server.get("/standalone/nothing").await.is(404);
    assert_eq!((&envelope["success"], &envelope["data"]), (&Value::Bool(false), &Value::Null));
    let wrong = server.client.request(Method::PUT, format!("{}/size", server.url)).send().await.unwrap();
    assert!(wrong.headers()["allow"].to_str().unwrap().contains("POST"));
    assert_eq!(answer(wrong).await.is(405)["error"]["code"], "method_not_allowed");
    assert_eq!(server.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_page_of_another_site_is_not_this_machine() {
    let (server, _) = server(|_| {}).await;
    let ask = |host: &str| server.client.get(format!("{}/health", server.url)).header("host", host).send();
    assert_eq!(answer(ask("rebound.example.org").await.unwrap()).await.is(403)["error"]["code"], "not_local");
    assert_eq!(ask("localhost:1").await.unwrap().status(), 200);
}

#[tokio::test]
async fn connections_can_be_encrypted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/tls");
    let files = TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
    let (server, _) = server(|settings| settings.tls = Some(files.clone())).await;
    assert!(server.url.starts_with("https://"));
    let certificate = std::fs::read(&files.certificate).unwrap();
    let certificate = reqwest::Certificate::from_pem(&certificate).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([certificate]).build().unwrap();
    let url = format!("{}/health", server.url);
    assert_eq!(client.get(&url).send().await.unwrap().text().await.unwrap(), "\"well\"");
    assert!(server.client.get(&url).send().await.is_err(), "nobody else vouches for this certificate");
    assert!(client.get(url.replace("https", "http")).send().await.is_err());

    let swapped = TlsFiles { certificate: files.key.clone(), key: files.certificate };
    let refused = bind(GuardSettings { tls: Some(swapped), ..GuardSettings::local(0) })
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(refused.contains("key.pem") && !refused.contains("BEGIN"), "{refused}");
}

#[tokio::test]
async fn calls_that_are_being_answered_end_first() {
    let (mut server, go) = server(|settings| settings.limits.requests = 1).await;
    let (client, url) = (server.client.clone(), server.url.clone());
    let waiting = tokio::spawn(client.get(format!("{url}/wait")).send());
    until("the call is being answered", || async { server.get("/size").await.status == 503 }).await;
    server.tell_to_end();
    // Connections that are kept are closed: who comes anew is told.
    let anew = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let asks = |path: &str| anew.get(format!("{url}{path}")).send();
    until("nobody new is let in", || async {
        answer(asks("/size").await.unwrap()).await.body["error"]["code"] == "stopping"
    })
    .await;
    assert_eq!(asks("/health").await.unwrap().status(), 200, "it still lives");
    go.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    assert_eq!(server.end().await, ServerEnd::Drained);
}

#[tokio::test]
async fn calls_that_do_not_end_are_cut_off() {
    let (server, _go) = server(|settings| {
        settings.limits.requests = 1;
        settings.limits.drain_time = Duration::from_millis(100);
    })
    .await;
    let waiting = tokio::spawn(server.client.get(format!("{}/wait", server.url)).send());
    until("the call is being answered", || async { server.get("/size").await.status == 503 }).await;
    assert_eq!(server.end().await, ServerEnd::CutOff);
    waiting.abort();
}

/// Half a request is no request: whoever has sent no more than that keeps nobody waiting when the server ends.
#[tokio::test]
async fn half_a_request_does_not_hold_up_the_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, _) = server(|settings| {
        settings.limits.requests = 2;
        settings.limits.drain_time = Duration::from_secs(3600);
    })
    .await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut half_head = tokio::net::TcpStream::connect(&address).await.unwrap();
    half_head.write_all(b"POST /size HTTP/1.1\r\nhost: local").await.unwrap();
    let head = "POST /size HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let mut half_bodies = Vec::new();
    for _ in 0..2 {
        let mut half_body = tokio::net::TcpStream::connect(&address).await.unwrap();
        half_body.write_all(head.as_bytes()).await.unwrap();
        half_bodies.push(half_body);
    }
    until("both bodies are waited for", || async { server.get("/size").await.status == 503 }).await;
    // An hour before they would be cut off.
    assert_eq!(server.end().await, ServerEnd::Drained);
    let mut answer = String::new();
    half_bodies[0].read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("stopping"), "{answer}");
}

/// Sockets that are only held open give way to whoever asks for something.
#[tokio::test]
async fn idle_connections_give_way() {
    let (server, _) = server(|settings| {
        settings.limits.connections = 20;
        settings.limits.connections_of_one = 20;
        settings.limits.head_time = Duration::from_secs(3600);
    })
    .await;
    let mut idle = Vec::new();
    for number in 0..60 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        if number % 2 == 0 {
            // One that has been let go already does not take it.
            let _ = stream.write_all(b"GET /health HTT").await;
        }
        idle.push(stream);
    }
    let anew = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    for path in ["/health", "/size"] {
        let answer = anew.get(format!("{}{path}", server.url)).send().await.unwrap();
        assert_ne!(answer.status(), 503, "{path}");
    }
    let mut first = [0; 1];
    let closed = tokio::time::timeout(LIMIT, idle[0].read(&mut first)).await.expect("it was let go");
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
}

/// What has come of all bodies together is bounded, and given back.
#[tokio::test]
async fn half_sent_bodies_share_a_pool() {
    let (server, _) = server(|settings| {
        settings.limits.all_bodies_bytes = 64 << 10;
        settings.limits.body_time = Duration::from_secs(3600);
        settings.limits.body_pause = Duration::from_secs(3600);
    })
    .await;
    let head = "POST /size HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40000\r\n\r\n";
    let half = format!("{head}{}", "x".repeat(30_000));
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        held.push(stream);
    }
    let send = || server.client.post(format!("{}/size", server.url)).body(vec![b'y'; 20_000]).send();
    until("the pool is empty", || async { send().await.unwrap().status() == 503 }).await;
    let refused = answer(send().await.unwrap()).await.is(503);
    assert_eq!(refused["error"]["code"], "too_many_bytes");
    drop(held);
    until("the memory is given back", || async { send().await.unwrap().status() == 200 }).await;
}

#[tokio::test]
async fn a_body_of_which_nothing_more_comes_is_cut_off() {
    let (server, _) = server(|settings| settings.limits.body_pause = Duration::from_millis(100)).await;
    let mut slow = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    slow.write_all(b"POST /size HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc").await.unwrap();
    assert!(first_line(&mut slow).await.contains("408"));
}

/// Those who listen take no place of those who ask.
#[tokio::test]
async fn listeners_have_places_of_their_own() {
    let (server, go) = server(|settings| {
        settings.limits.requests = 1;
        settings.limits.listeners = 2;
        settings.listening_paths = &["/wait"];
    })
    .await;
    let url = format!("{}/wait", server.url);
    let listening: Vec<_> = (0..2).map(|_| tokio::spawn(server.client.get(&url).send())).collect();
    until("all places are taken", || async {
        let asked = tokio::time::timeout(Duration::from_millis(50), server.client.get(&url).send()).await;
        asked.is_ok_and(|answer| answer.unwrap().status() == 503)
    })
    .await;
    let send = server.client.post(format!("{}/size", server.url)).body("abc").send();
    assert_eq!(answer(send.await.unwrap()).await.is(200), 3);
    go.notify_waiters();
    for one in listening {
        one.abort();
    }
}

/// One caller who takes every place leaves some for others, by a header or by the token.
#[tokio::test]
async fn one_caller_does_not_shut_others_out() {
    let tokens = format!("{TOKEN}\n{TOKEN}-of-another\n");
    for by_token in [false, true] {
        let (server, go) = server(|settings| {
            settings.limits.requests = 16;
            settings.token = by_token.then(|| Secret::new(&tokens));
        })
        .await;
        let ask = |path: &str, who: usize| {
            let request = server.client.get(format!("{}{path}", server.url));
            let token = if who == 0 { TOKEN.to_owned() } else { format!("{TOKEN}-of-another") };
            // Where there are several tokens, what a request says of itself does not count.
            let name = if by_token { rand_name().to_string() } else { format!("caller {who}") };
            request.header("authorization", format!("Bearer {token}")).header("x-gswarm-caller", name).send()
        };
        let waiting: Vec<_> = (0..14).map(|_| tokio::spawn(ask("/wait", 0))).collect();
        until("one caller has all but some places", || async {
            ask("/size", 0).await.unwrap().status() == 429
        })
        .await;
        let refused = answer(ask("/size", 0).await.unwrap()).await.is(429);
        assert_eq!(refused["error"]["code"], "over_fair_share");
        assert_eq!(ask("/size", 1).await.unwrap().status(), 405, "another gets through");
        go.notify_waiters();
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

fn rand_name() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
