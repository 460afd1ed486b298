//! A batch whose process is killed again and again, anywhere in its journal, ends as if it had not been.

use crate::support::Place;
use gswarm_testing::until;
use std::collections::BTreeMap;
use std::process::Stdio;

/// How many kills; `GSWARM_KILLS=300` tries more of them.
fn kills() -> u64 {
    std::env::var("GSWARM_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(12)
}

/// The bytes of a journal, with what was written beside it.
fn written(place: &Place, out: &str) -> u64 {
    let size = |file: &str| std::fs::metadata(place.path(out).join(file)).map_or(0, |found| found.len());
    size("journal.db") + size("journal.db-wal")
}

/// Kills a command once it has written so much to its journal; whether it had ended by itself before.
fn killed_after(place: &Place, line: &str, out: &str, bytes: u64) -> bool {
    let before = written(place, out);
    let mut command = place.command(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut ended = false;
    until("the journal grows, or the run is over", || {
        ended = child.try_wait().unwrap().is_some();
        // What is beside the journal moves into it: then it is shorter.
        ended || written(place, out).abs_diff(before) >= bytes
    });
    child.kill().unwrap();
    child.wait().unwrap();
    ended
}

#[test]
fn a_run_that_is_killed_at_random_moments_loses_nothing_and_does_nothing_twice() {
    let place = Place::with_work("simple", 20);
    place.write("servers.yaml", "backends: [{kind: emulated, speed: 3000}]");
    let line = "run --live --backends servers.yaml --policy offline --gpus 4 --quiet @work".to_owned();
    // What a run writes in all; each is killed after a part of it, the same parts every time.
    place.run(&format!("{line} --out whole")).code(0);
    let all = written(&place, "whole");
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut done, mut runs) = (0, 0);
    while done < kills() {
        let out = format!("out{runs}");
        runs += 1;
        let mut ended = killed_after(&place, &format!("{line} --out {out}"), &out, random(all / 2));
        while !ended && done < kills() {
            done += 1;
            // Killed before it had begun: nothing is there, and nothing is lost.
            if !place.path(&out).join("journal.db").exists() {
                break;
            }
            ended = killed_after(&place, &format!("resume {out} --quiet"), &out, random(all / 2));
        }
        finish(&place, &out, &line);
    }
}

/// Lets a run come to its end, and checks all of it.
fn finish(place: &Place, out: &str, line: &str) {
    let resumed = place.run(&format!("resume {out} --quiet"));
    if resumed.code != 0 {
        // Only a run that had not begun cannot be resumed; it begins anew.
        assert!(
            resumed.err.contains("had not begun")
                || resumed.err.contains("before it had begun")
                || !place.path(out).join("journal.db").exists(),
            "{}",
            resumed.err
        );
        let _ = std::fs::remove_dir_all(place.path(out));
        place.run(&format!("{line} --out {out}")).code(0);
    }
    place.run(&format!("check {out}/offline_execution_log.json @work")).code(0);
    let log = place.json(&format!("{out}/offline_execution_log.json"));
    let mut completed: BTreeMap<(String, String), u32> = BTreeMap::new();
    for one in log["executions"].as_array().unwrap() {
        if one["status"] == "completed" {
            let text = |field: &str| one[field].as_str().unwrap().to_owned();
            *completed.entry((text("request_id"), text("node_id"))).or_default() += 1;
        }
    }
    assert!(completed.values().all(|&times| times == 1), "nothing was done twice");
    let results = place.read(&format!("{out}/offline_results.jsonl"));
    assert_eq!(results.lines().count(), 20);
    assert!(results.lines().all(|line| line.contains("\"status\":\"completed\"")));
}
