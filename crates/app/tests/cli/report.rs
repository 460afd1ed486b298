//! Reports and traces: what is on the page is what is in the logs.

use crate::support::{Place, inputs, root};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn log(place: &Place, policy: &str) -> Value {
    serde_json::from_str(&place.read(&format!("results/{policy}_execution_log.json"))).unwrap()
}

/// Two runs of one problem, as logs in `results`.
fn two_runs() -> Place {
    let place = Place::with_work("simple", 60);
    for policy in ["baseline", "planned"] {
        let line = format!("run --policy {policy} --gpus 8 --mode offline @work --out results");
        place.run(&line).code(0);
    }
    place
}

/// Debian's chromium, or one of its family; tests that need it say so where there is none.
fn browser() -> Option<PathBuf> {
    let found =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    let found = found.into_iter().find(|path| path.is_file());
    if found.is_none() {
        gswarm_testing::skip("there is no chromium");
    }
    found
}

/// What the browser makes of a page, and what the page said on its console.
fn opened(browser: &Path, place: &Place, page: &str, more: &[&str]) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000"])
        .args(["--enable-logging=stderr", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", place.path("profile").display()))
        .args(more)
        .arg(format!("file://{}", place.path(page).display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console.join("\n"))
}

#[test]
fn a_report_has_the_figures_of_its_logs_in_a_real_browser() {
    let place = two_runs();
    let done = place.run("report results --out report.html @work").code(0);
    assert!(done.out.contains("Wrote report.html"), "{}", done.out);
    let Some(browser) = browser() else { return };
    let (dom, console) = opened(&browser, &place, "report.html", &["--dump-dom"]);
    assert_eq!(console, "", "the page has nothing to complain about");
    assert_eq!(dom.matches("data-ready=\"yes\"").count(), 2, "both Gantt charts are drawn");
    let key = |value: f64| format!("data-key=\"{value}\"");
    for policy in ["baseline", "planned"] {
        let log = log(&place, policy);
        let summary = &log["summary"];
        let executions = log["executions"].as_array().unwrap();
        assert!(dom.contains(&key(summary["makespan"].as_f64().unwrap())), "{policy}: the makespan");
        assert!(dom.contains(&key(summary["model_switches"].as_f64().unwrap())), "{policy}: the switches");
        assert!(dom.contains(&key(summary["lower_bound"].as_f64().unwrap())), "{policy}: the bound");
        let bars = executions.len() + log["loads"].as_array().map_or(0, Vec::len);
        assert!(dom.contains(&format!("data-bars=\"{bars}\"")), "{policy}: {bars} bars");
        let busy: f64 = executions.iter().map(|one| one["execution_time"].as_f64().unwrap()).sum();
        assert!(dom.contains(&format!("data-busy=\"{busy:.6}\"")), "{policy}: {busy}");
        // The first bar says what it is.
        let name = first_bar(&log);
        assert!(dom.contains(&format!("data-first=\"{name}")), "{policy}: {name}");
    }
    screenshots(&browser, &place);
}

/// What the bar that begins first is called, the lowest GPU's where several do.
fn first_bar(log: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let moment = |seconds: f64| (seconds * 1e6).round() as u64;
    let executions = log["executions"].as_array().into_iter().flatten().map(|one| {
        let begin = one["start_time"].as_f64().unwrap() - one["switch_time"].as_f64().unwrap();
        let name = format!("{}/{}", text(&one["request_id"]), text(&one["node_id"]));
        (moment(begin), one["gpu_id"].as_u64().unwrap(), 1, name)
    });
    let loads = log["loads"].as_array().into_iter().flatten().map(|one| {
        let name = format!("load of {} before any execution needs it", text(&one["model_name"]));
        (moment(one["start_time"].as_f64().unwrap()), one["gpu_ids"][0].as_u64().unwrap(), 0, name)
    });
    executions.chain(loads).min().unwrap().3
}

/// Pictures of the page, light, dark and narrow; the one in docs/ is made anew with `UPDATE_DOCS=1`.
fn screenshots(browser: &Path, place: &Place) {
    for (name, size, more) in [
        ("report.png", "1280,2300", ""),
        ("dark.png", "1280,2300", "--blink-settings=preferredColorScheme=0"),
        ("narrow.png", "400,2400", ""),
    ] {
        let shot = format!("--screenshot={}", place.path(name).display());
        let size = format!("--window-size={size}");
        let flags: Vec<&str> =
            [shot.as_str(), &size, more].into_iter().filter(|flag| !flag.is_empty()).collect();
        opened(browser, place, "report.html", &flags);
        let bytes = std::fs::read(place.path(name)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000, "{name}");
        if name == "report.png" && std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(root().join("docs/images")).unwrap();
            std::fs::write(root().join("docs/images").join(name), bytes).unwrap();
        }
    }
}

#[test]
fn a_report_comes_as_charts_text_and_pdf() {
    let place = two_runs();
    // Beside the inputs, nothing need be named.
    std::fs::rename(place.path("results"), place.path("work/results")).unwrap();
    place.run("report work/results --out r.html --svg figures --png figures --markdown summary.md").code(0);
    let text = place.read("summary.md");
    assert!(text.contains("| planned |") && text.contains("](figures/makespan-1.svg)"), "{text}");
    assert!(place.read("figures/makespan-1.svg").starts_with("<svg"));
    assert!(std::fs::read(place.path("figures/latency-1.png")).unwrap().starts_with(b"\x89PNG"));
    let page = place.read("r.html");
    assert!(page.contains("default-src 'none'") && !page.contains("src=\"http"));
    if browser().is_some() {
        place.run("report work/results --out r.html --pdf").code(0);
        assert!(std::fs::read(place.path("r.pdf")).unwrap().starts_with(b"%PDF"));
    }
    let output = place
        .command("report work/results --out x.html --pdf")
        .env("GSWARM_BROWSER", "nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("R003"));
    assert!(!place.path("x.html").exists(), "nothing is written where the PDF cannot be");
}

#[test]
fn what_is_missing_is_said_with_a_code() {
    let place = two_runs();
    place.run("report results/planned_execution_log.json --out r.html").code(2).says("R001");
    std::fs::create_dir(place.path("empty")).unwrap();
    place.run("report empty --out r.html").code(2).says("R002");
    place.run("report nowhere.json @work").code(2).says("nowhere.json");
    place.write("damaged_execution_log.json", "{\"schema\": 1");
    place.run("report damaged_execution_log.json @work").code(2);
    assert!(!place.path("r.html").exists() && !place.path("report.html").exists());
}

#[test]
fn a_run_that_breaks_rules_is_shown_and_said_to_do_so() {
    let place = two_runs();
    let good = place.read("results/baseline_execution_log.json");
    let switches = log(&place, "baseline")["summary"]["model_switches"].as_u64().unwrap();
    let bad = good.replacen(&format!("\"model_switches\":{switches}"), "\"model_switches\":1", 1);
    let bad = if bad == good {
        good.replacen(&format!("\"model_switches\": {switches}"), "\"model_switches\": 1", 1)
    } else {
        bad
    };
    assert_ne!(good, bad);
    place.write("results/baseline_execution_log.json", &bad);
    place.run("report results --out r.html --markdown r.md @work").code(0);
    let text = place.read("r.md");
    assert!(text.contains("Not a valid run: results/baseline_execution_log.json"), "{text}");
    // What the page shows is what the executions come to, not what the summary says.
    assert!(
        text.contains(&format!(" **{switches}** |")) || text.contains(&format!(" {switches} |")),
        "{text}"
    );
}

#[test]
fn a_trace_is_valid_and_whole() {
    let place = two_runs();
    let line = "trace results/planned_execution_log.json --out trace.json @work".to_owned();
    place.run(&line).code(0);
    let trace = place.json("trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let log = log(&place, "planned");
    let executions = log["executions"].as_array().unwrap();
    let on_gpus: usize = executions.iter().map(|one| one["gpu_ids"].as_array().unwrap().len()).sum();
    let of = |phase: &str, category: &str| {
        events.iter().filter(|event| event["ph"] == phase && event["cat"] == category).count()
    };
    assert_eq!(of("X", "execution"), on_gpus);
    assert_eq!(of("s", "flow"), of("f", "flow"));
    assert!(of("s", "flow") > 0 && of("X", "load") > 0);
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].is_u64() && event["dur"].is_u64() && event["tid"].is_u64(), "{event}");
    }
}

#[test]
fn two_runs_are_put_side_by_side_and_all_figures_are_those_of_the_logs() {
    let place = two_runs();
    let (one, other) = ("results/baseline_execution_log.json", "results/planned_execution_log.json");
    let done = place.run(&format!("diff {one} {other} @work")).code(0);
    for expected in [
        "first: baseline, 8 GPUs; second: planned, 8 GPUs",
        "What moved",
        "The runs diverge at",
        "Gained most",
    ] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
    assert!(done.out.lines().all(|line| line.chars().count() <= 80), "{}", done.out);
    let done = place.run(&format!("diff {one} {other} --json --top 2 @work")).code(0);
    let found: Value = serde_json::from_str(&done.out).unwrap();
    let logs = [log(&place, "baseline"), log(&place, "planned")];
    let makespan = &found["figures"][0];
    for (side, log) in ["first", "second"].iter().zip(&logs) {
        let difference = makespan[side].as_f64().unwrap() - log["summary"]["makespan"].as_f64().unwrap();
        assert!(difference.abs() < 1e-6, "{makespan}");
    }
    assert_eq!(found["requests"]["gained"].as_array().unwrap().len(), 2);
    assert_eq!(found["nodes"]["in_both"], logs[0]["executions"].as_array().unwrap().len());
    let same = place.run(&format!("diff {one} {one} @work")).code(0);
    assert!(same.out.contains("The two runs are the same"), "{}", same.out);
    let other = Place::with_work("complex", 4);
    other.run("run --policy lru --gpus 8 --mode offline @work --out results").code(0);
    let lru = other.path("results/lru_execution_log.json");
    let refused = place.run(&format!("diff {one} {} @work", lru.display())).code(2);
    assert!(refused.err.contains("hint"), "{}", refused.err);
    place.run(&format!("diff {one} missing.json @work")).code(2);
    // Logs of other inputs with some of the same names give no figures, and a trace says what it leaves out.
    let fewer = Place::with_work("simple", 20);
    let fewer = inputs(&fewer.path("work").display().to_string());
    let refused = place.run(&format!("diff {one} {one} {fewer}")).code(2);
    assert!(refused.err.contains("mismatch"), "{}", refused.err);
    let traced = place.run(&format!("trace {one} {fewer}")).code(0);
    assert!(traced.err.contains("mismatch"), "{}", traced.err);
}
