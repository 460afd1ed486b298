use crate::support::Place;
use serde_json::Value;

fn line(policy: &str) -> String {
    format!("run --policy {policy} @work")
}

#[test]
fn a_run_leaves_its_two_files_and_its_metrics() {
    let place = Place::with_work("simple", 20);
    let done = place.run(&line("baseline")).code(0);
    assert!(done.out.to_lowercase().contains("makespan"), "{}", done.out);
    assert_eq!(place.names(), ["baseline_execution_log.json", "baseline_scheduler.log", "work"]);
    let log = place.json("baseline_execution_log.json");
    assert_eq!(log["schema"], 1);
    assert!(place.read("baseline_scheduler.log").contains("] Completed node "));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let place = Place::with_work("complex", 30);
    let policies = place.run("policies --json").json(0);
    for policy in policies.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        let mode = policy["modes"][0].as_str().unwrap();
        let run = format!("{} --mode {mode} --seed 5 --quiet", line(name));
        place.run(&format!("{run} --out one")).code(0);
        place.run(&format!("{run} --out two")).code(0);
        for file in [format!("{name}_execution_log.json"), format!("{name}_scheduler.log")] {
            assert_eq!(place.read(&format!("one/{file}")), place.read(&format!("two/{file}")), "{file}");
        }
    }
}

#[test]
fn quiet_json_and_verbose_do_what_they_say() {
    let place = Place::with_work("simple", 5);
    let quiet = place.run(&format!("{} --quiet", line("baseline"))).code(0);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let json = place.run(&format!("{} --json", line("baseline"))).code(0);
    let object: Value = serde_json::from_str(&json.out).unwrap();
    assert!(object["makespan_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(object["policy"], "baseline");
    assert_eq!(json.err, "");
    let verbose = place.run(&format!("{} --verbose", line("baseline"))).code(0);
    assert!(verbose.out.contains("s] Completed node describe of request req_"), "{}", verbose.out);
    assert!(verbose.out.contains("on GPU(s) ["), "{}", verbose.out);
}

#[test]
fn lines_where_they_are_asked_for() {
    let place = Place::with_work("simple", 5);
    place.run(&format!("{} --quiet --format jsonl --out o", line("baseline"))).code(0);
    assert!(place.path("o/baseline_execution_log.jsonl").exists());
    assert!(!place.path("o/baseline_execution_log.json").exists());
    place.run(&format!("{} --quiet --format parquet --out o", line("baseline"))).code(0);
    assert!(!place.path("o/baseline_execution_log.jsonl").exists());
    place.run("check o/baseline_execution_log.parquet @work").code(0);
}

#[test]
fn bad_input_touches_nothing() {
    let place = Place::with_work("simple", 3);
    place.write("bad.yaml", "models: {a: {memory_gb: -1");
    let run = "run --policy baseline --gpus 8 --config bad.yaml --requests work/requests.yaml --out out/deep";
    place.run(run).code(2).says("error").says("bad.yaml");
    assert_eq!(place.names(), ["bad.yaml", "work"]);
}

#[test]
fn too_few_gpus_is_code_3_and_names_the_model() {
    let place = Place::with_work("simple", 10);
    let done = place.run(&format!("{} --gpus 3 --out out", line("baseline"))).code(3);
    done.says("thinker").says("4").says("--gpus");
    assert_eq!(place.names(), ["work"]);
}

#[test]
fn the_number_of_gpus_has_to_come_from_somewhere() {
    let place = Place::with_work("simple", 3);
    let config = place.read("work/config.yaml");
    let (without, _) = config.split_once("cluster:").unwrap();
    place.write("work/config.yaml", without);
    place.run(&line("baseline")).code(2).says("--gpus N");
    place.run(&format!("{} --gpus 4 --quiet", line("baseline"))).code(0);
}

#[test]
fn a_policy_without_the_mode_names_those_that_have_it() {
    let place = Place::with_work("simple", 3);
    place.run(&format!("{} --mode online", line("offline"))).code(2).says("no online mode").says("baseline");
    assert_eq!(place.names(), ["work"]);
}

#[test]
fn an_unwritable_place_is_named_and_nothing_is_left() {
    let place = Place::with_work("simple", 3);
    place.write("file", "in the way");
    place.run(&format!("{} --out file/below", line("baseline"))).code(2).says("file/below").says("--out");
    // The second of the two files cannot take its name: a folder has it.
    std::fs::create_dir_all(place.path("o/baseline_execution_log.json/x")).unwrap();
    place.run(&format!("{} --out o", line("baseline"))).code(2).says("baseline_execution_log.json");
    let left: Vec<_> = std::fs::read_dir(place.path("o")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

#[test]
fn faults_are_simulated() {
    let place = Place::with_work("simple", 20);
    let all_fail = format!("{} --fail-rate 1 --max-attempts 2 --quiet", line("baseline"));
    place.run(&all_fail).code(4).says("20 of 20 requests failed");
    place.run(&format!("{} --lose-gpu 9@1", line("baseline"))).code(2).says("GPUs are 0 to 7");
    let losses: String = (0..6).map(|gpu| format!(" --lose-gpu {gpu}@10")).collect();
    // What can be done with the two that are left is done and kept.
    let run = format!("{}{losses} --out lost", line("baseline"));
    place.run(&run).code(3).says("of 20 requests not finished").says("needs 4 consecutive GPUs");
    let log = "check lost/baseline_execution_log.json @work".to_owned();
    place.run(&log).code(0);
    let metrics = place.run(&format!("{run} --json")).json(3);
    let (done, left) = (&metrics["completed_requests"], metrics["not_done"].as_array().unwrap());
    assert!(done.as_u64() < Some(20) && left.len() as u64 >= 20 - done.as_u64().unwrap(), "{metrics}");
    place.run(&format!("{} --lose-gpu 0@10 --quiet", line("baseline"))).code(0);
}

#[test]
fn limits_of_the_configuration_hold_for_flags() {
    let place = Place::with_work("simple", 3);
    for (flags, part) in [
        ("--switch-overhead-seconds 1e300", "seconds at most"),
        ("--pcie-gb-per-s 1e300", "at most"),
        ("--pcie-gb-per-s 1e-300", "a model switch takes more than"),
        ("--gpu-memory-gb 1e10", "at most"),
        ("--gpus 4000000", "--gpus"),
        ("--max-attempts 4294967295", "1..=100"),
        ("--max-attempts 0", "1..=100"),
        ("--seed -1", "--seed"),
    ] {
        place.run(&format!("{} {flags}", line("baseline"))).code(2).says(part);
    }
    assert_eq!(place.names(), ["work"]);
}

#[test]
fn what_has_no_effect_is_noted() {
    let place = Place::with_work("simple", 3);
    place.run(&format!("{} --residency single", line("static"))).code(0).says("several models");
    place.run(&format!("{} --lose-gpu 1@5 --lose-gpu 1@9", line("baseline"))).code(0).says("more than once");
    let quiet = place.run(&format!("{} --residency single --json", line("static"))).code(0);
    assert_eq!(quiet.err, "");
    let plain = place.run(&format!("{} --alpha 2", line("online"))).code(0);
    assert_eq!(plain.err, "");
}

#[test]
fn flags_of_another_policy_are_refused_by_name() {
    let place = Place::with_work("simple", 3);
    let refused = |line: &str| place.run(line).code(2);
    refused(&format!("{} --alpha 2 --lookahead 1", line("baseline")))
        .says("`baseline` does not take --alpha, --lookahead")
        .says("`online` does");
    refused(&format!("{} --alpha 2", line("adaptive"))).says("--alpha");
    refused(&format!("{} --objective p99 --beta 1", line("sticky")))
        .says("--objective")
        .says("--beta")
        .says("use --policy");
    refused("run --max-collate-wait 9 --plan p.json @work").says("follows a plan");
    refused("size --target makespan=1h --rounds 3 --policy baseline @work").says("`planned` does");
    place.run(&format!("{} --objective p99 --mode online", line("adaptive"))).code(0);
}

#[test]
fn the_other_form_of_an_earlier_log_goes() {
    let place = Place::with_work("simple", 3);
    for (form, stays, goes) in
        [("json", "json", "jsonl"), ("jsonl", "jsonl", "json"), ("json", "json", "jsonl")]
    {
        place.run(&format!("{} --quiet --format {form} --out o", line("baseline"))).code(0);
        assert!(place.path(&format!("o/baseline_execution_log.{stays}")).exists());
        assert!(!place.path(&format!("o/baseline_execution_log.{goes}")).exists());
    }
}

#[test]
fn no_log_is_replaced_where_one_cannot_be() {
    let place = Place::with_work("simple", 3);
    std::fs::create_dir_all(place.path("o/baseline_execution_log.json/x")).unwrap();
    std::fs::write(place.path("o/baseline_scheduler.log"), "old").unwrap();
    place.run(&format!("{} --out o", line("baseline"))).code(2).says("no files were left behind");
    assert_eq!(place.read("o/baseline_scheduler.log"), "old");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interruption_leaves_nothing() {
    let place = Place::with_work("simple", 20_000);
    let run = format!("{} --quiet --out new/deep", line("baseline"));
    for _ in 0..50 {
        let child = place.command(&run).stderr(std::process::Stdio::piped()).spawn().unwrap();
        gswarm_testing::until("a file is begun", || {
            std::fs::read_dir(place.path("new/deep")).is_ok_and(|mut entries| entries.next().is_some())
        });
        let id = child.id().to_string();
        std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        let done = child.wait_with_output().unwrap();
        if done.status.code() == Some(130) && !place.path("new/deep/baseline_scheduler.log").exists() {
            assert_eq!(place.names(), ["work"]);
            let said = String::from_utf8(done.stderr).unwrap();
            assert!(said.contains("interrupted; no unfinished file is left"), "{said}");
            return;
        }
        // It was faster than the signal.
        std::fs::remove_dir_all(place.path("new")).unwrap();
    }
    panic!("no run could be interrupted while it wrote");
}
