//! The terminal view, in a terminal: what is on its screen is what the service says.

use crate::front::{place, serve};
use crate::model_server::{client, post};
use crate::support::Place;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

/// A terminal with a command in it.
struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    fn of(line: &str, rows: u16, cols: u16) -> Terminal {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_gswarm"));
        command.args(line.split_whitespace());
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 0)));
        let (mut said, shown) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = said.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Terminal { screen, keys, child, master: pair.master }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&str) -> bool) {
        gswarm_testing::until(what, || wanted(&self.text()));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn end(mut self) -> u32 {
        self.child.wait().unwrap().exit_code()
    }
}

async fn overview(url: &str) -> Value {
    client().get(format!("{url}/v1/overview")).send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_shows_what_the_service_says_and_goes_on_after_it_was_away() {
    let place = place(500);
    let server = serve(&place);
    let url = server.url.clone();
    for at in 0..3 {
        let request = json!({"request_id": format!("r{at}"), "input_data": {"wish": "a cat"}});
        assert_eq!(post(&url, "/v1/workflows/picture/requests", request).await.0, 202);
    }
    for at in 0..3 {
        let done = client().get(format!("{url}/v1/requests/r{at}/result?wait=60")).send().await.unwrap();
        assert_eq!(done.status().as_u16(), 200);
    }
    let said = overview(&url).await;
    let counts = &said["counts"];
    assert_eq!((&counts["completed"], &counts["executions"]), (&json!(3), &json!(6)), "{said}");

    let mut terminal = Terminal::of(&format!("top {url} --every 0.2"), 40, 120);
    // A screen is read while it is drawn: it is waited for all that has to be on it.
    let loads = format!("{} loads", counts["loads"]);
    let expected = [
        "3 completed",
        "0 open",
        "6 executed",
        &loads,
        "1 GPUs",
        "2 Queue",
        "3 Events",
        "last minute:",
        "r2",
    ];
    for part in expected {
        terminal.until(part, |text| text.contains(part));
    }
    for gpu in said["gpus"].as_array().unwrap() {
        let models: Vec<&str> =
            gpu["models"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        let models = if models.is_empty() { "-".to_owned() } else { models.join(", ") };
        let row = |line: &str| {
            let cells: Vec<&str> = line.trim_matches('│').split_whitespace().collect();
            cells.first() == Some(&gpu["gpu"].to_string().as_str())
                && line.contains(&models)
                && line.contains("idle")
        };
        terminal.until(&format!("the row of {gpu}"), |text| text.lines().any(row));
    }

    terminal.press("?");
    terminal.until("the keys", |text| text.contains("close this"));
    terminal.press("?");
    terminal.press("p");
    terminal.until("that it is paused", |text| text.contains("paused, p resumes"));
    terminal.press("p");
    // A smaller window is drawn anew.
    terminal.master.resize(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 }).unwrap();
    terminal.screen.lock().unwrap().screen_mut().set_size(24, 80);
    terminal.until("a small window", |text| text.contains("? help") && text.contains("1 GPUs"));
    for part in [
        "requests: 0 open, 3 completed | nodes: 0 waiting, 0 running",
        "policy adaptive",
        "latency P50",
        "2 Queue",
        "free in",
    ] {
        terminal.until(part, |text| text.contains(part));
    }
    // There is room for one part beside the GPUs.
    terminal.press("4");
    for part in ["4 Slowest requests", "main cause", "r0", "picture"] {
        terminal.until(part, |text| text.contains(part) && !text.contains("2 Queue"));
    }

    server.signal("-TERM");
    assert_eq!(server.end().0, 0);
    terminal.until("that nobody answers", |text| text.contains("not reachable, retrying"));
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_look_is_text_and_nobody_there_is_an_error() {
    let place = place(500);
    let server = serve(&place);
    let done = place.run(&format!("top {} --once", server.url)).code(0);
    for expected in ["0 open", "| GPU", "| model", "writer", "last minute: 0.00 requests/s"] {
        assert!(done.out.contains(expected), "{expected}:\n{}", done.out);
    }
    let url = server.url.clone();
    server.signal("-TERM");
    assert_eq!(server.end().0, 0);
    let refused = Place::new().run(&format!("top {url}")).code(2);
    assert!(refused.err.contains("hint"), "{}", refused.err);
}

#[test]
fn a_run_is_shown_by_its_folder_and_has_the_figures_of_its_log() {
    let place = Place::with_work("simple", 20);
    place.run("run --policy lru --gpus 4 --mode offline @work --out results").code(0);
    let log = place.json("results/lru_execution_log.json");
    let (summary, executions) = (&log["summary"], log["executions"].as_array().unwrap().len());
    let loads = summary["model_switches"].as_u64().unwrap() + summary["cold_loads"].as_u64().unwrap();
    let done = place.run("top results --once @work").code(0);
    for expected in [
        format!("{executions} executed"),
        format!("{loads} loads"),
        "20 completed".to_owned(),
        "finished".to_owned(),
    ] {
        assert!(done.out.contains(&expected), "{expected}:\n{}", done.out);
    }
    let refused = place.run("top nowhere").code(2);
    assert!(refused.err.contains("V001"), "{}", refused.err);
}
