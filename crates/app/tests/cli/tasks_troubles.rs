//! Tasks, profiles and logs that do not go together as one would think.

use crate::support::Place;
use gswarm_tasks::profile::described;

const HEAD: &str = "task_id,size,compute_intensity,memory_required,arrival_time,duration_estimate";

/// A profile of a machine ten times as slow as the described one.
fn slow(place: &Place, name: &str) {
    let mut profile = described();
    for device in &mut profile.devices {
        device.memory_gb_per_s /= 10.0;
        device.measurements.iter_mut().for_each(|one| one.median_seconds *= 10.0);
    }
    place.write(name, &serde_json::to_string(&profile).unwrap());
}

#[test]
fn a_table_that_says_what_the_profile_says_is_believed() {
    let place = Place::new();
    let table = format!("{HEAD},profile_cpu_seconds,profile_gpu_seconds\n1,100,0.5,10,0,0.1,1,0.1\n");
    place.write("w.csv", &table);
    let seconds = |flags: &str| {
        let done =
            place.run(&format!("tasks schedule --tasks w.csv --policy cpu_only --json {flags}")).code(0);
        let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        (told["policies"][0]["makespan_seconds"].as_f64().unwrap(), done.err)
    };
    let (own, said) = seconds("--out own");
    assert_eq!(own, 1.0, "{said}");
    assert!(!said.contains("--hardware"), "{said}");
    place.run("tasks check own/task_execution_log.jsonl --tasks w.csv").code(0);
    // A profile that is named goes first, and that it says something else is told.
    slow(&place, "slow.json");
    let (named, said) = seconds("--hardware slow.json --out named");
    assert!(named < 1.0 && said.contains("note: times of --hardware differ"), "{named} {said}");
    place.run("tasks check named/task_execution_log.jsonl --tasks w.csv --hardware slow.json").code(0);
    place.run("tasks check named/task_execution_log.jsonl --tasks w.csv").code(1);
}

#[test]
fn tasks_of_a_profile_are_predicted_by_what_was_learned_from_them() {
    let place = Place::new();
    slow(&place, "slow.json");
    let made = place.run("tasks generate --tasks 300 --load 0.5 --hardware slow.json --out w.csv").code(0);
    let next = "Next: gswarm tasks schedule --tasks w.csv --gpus 4 --hardware slow.json";
    assert!(made.out.contains(next), "{}", made.out);
    for device in ["cpu", "gpu"] {
        let out = format!("--target true_{device}_seconds --trees 20 --out {device}.model --quiet");
        place.run(&format!("train --data w.csv {out}")).code(0);
    }
    let models = "--predictor cpu.model --predictor gpu.model";
    place.run(&format!("tasks schedule --tasks w.csv {models} --hardware slow.json --out named")).code(0);
    place.run(&format!("tasks schedule --tasks w.csv {models} --out own")).code(0);
    // The table has the times of its profile, so nobody need name it again.
    assert_eq!(place.read("named/scheduling_results.csv"), place.read("own/scheduling_results.csv"));
}

#[test]
fn a_log_that_is_damaged_or_cut_off_is_refused() {
    let place = Place::new();
    place.run("tasks generate --tasks 200 --out w.csv").code(0);
    let all = place.run("tasks schedule --tasks w.csv --policy all --out all").code(0);
    assert!(all.out.contains("Wrote 24 files into all"), "{}", all.out);
    let done = place.run("tasks schedule --tasks w.csv --out o").code(0);
    assert!(done.out.contains("Wrote o/scheduling_results.csv, o/task_execution_log.jsonl"), "{}", done.out);
    let log = place.read("o/task_execution_log.jsonl");
    let cut: String = log.lines().take(100).map(|line| format!("{line}\n")).collect();
    place.write("cut.jsonl", &cut);
    let refused = place.run("tasks check cut.jsonl --tasks w.csv").code(2);
    let refused = refused.says("error[E002]: the log ends after 99 of 200 tasks, without its summary");
    refused.says("--> cut.jsonl:100").says("`gswarm tasks schedule` wrote");
    // A machine of such a power takes an energy that is no number.
    let (before, after) = log.split_once("\"cpu_watts\":[").unwrap();
    let (_, after) = after.split_once(']').unwrap();
    place.write("hot.jsonl", &format!("{before}\"cpu_watts\":[1e308,1e308]{after}"));
    let found = place.run("tasks check hot.jsonl --tasks w.csv").code(1);
    assert!(found.out.contains("T11") && found.out.contains("the energy is inf J"), "{}", found.out);
}

#[test]
fn flags_in_messages_are_those_that_were_given() {
    let place = Place::new();
    let refused = place.run("tasks schedule --compare --bare --loads 0 --count 20 --out o").code(2);
    refused.says("error[E201]").says("--> --loads");
    place.write("file", "");
    place.run("tasks pipeline --out file/run").code(2).says("hint: choose another place with --out");
}

#[test]
fn a_pipeline_that_measures_nothing_leaves_no_measurements() {
    let place = Place::new();
    let settings = "profile: {measure: false}\nworkload: {tasks: 400}\nschedule: {tasks: 100}\n\
                    evaluate: {seeds: 1, loads: [0.9], tasks: 60}\n";
    place.write("p.yaml", settings);
    let done = place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert!(!place.path("run/measured_profile.json").exists());
    // The same tasks are of the same load, whoever says it.
    let made = place.run("tasks generate --tasks 400 --out w.csv").code(0);
    let load = made.out.split("; load ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(done.out.contains(&format!("a load of {load}\n")), "{load}: {}", done.out);
    // Charts that have no place are those of --results-to.
    place.write("r", "a file where the folder of the charts would be");
    let refused = place.run("tasks pipeline --config p.yaml --out run --results-to r.md").code(2);
    refused.says("hint: choose another place with --results-to");
    // What an earlier run has measured is not of this one.
    place.write("run/measured_profile.json", "{}");
    place.write("p.yaml", &settings.replace("measure: false", "measure: false, sizes: [64]"));
    place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert!(!place.path("run/measured_profile.json").exists());
}

#[test]
fn commands_and_flags_still_work_by_their_former_names() {
    let place = Place::new();
    place.write("hw.json", &serde_json::to_string(&described()).unwrap());
    place.run("tasks generate --tasks 60 --hardware hw.json --out new.csv").code(0);
    place.run("generate tasks --tasks 60 --profile hw.json --out old.csv").code(0);
    assert_eq!(place.read("new.csv"), place.read("old.csv"));
    place.run("tasks schedule --tasks new.csv --hardware hw.json --out new").code(0);
    place.run("schedule-tasks --tasks old.csv --profile hw.json --out old").code(0);
    let log = |folder: &str| place.read(&format!("{folder}/task_execution_log.jsonl"));
    assert_eq!(log("new"), log("old"));
    place.run("check-tasks old/task_execution_log.jsonl --tasks old.csv --profile hw.json").code(0);
    assert_eq!(place.run("pipeline --init").code(0).out, place.run("tasks pipeline --init").code(0).out);
    place.run("profile --device tpu --out p.json").code(2).says("write cpu, cuda:0 or all");
    place.run("train --profile p.json --data d.csv").code(2).says("--config <FILE>");
    for (line, hidden) in [
        ("completions fish", "schedule-tasks"),
        ("--help", "schedule-tasks"),
        ("--help", "\n  pipeline"),
        ("generate --help", "\n  tasks"),
    ] {
        let shown = place.run(line).code(0).out;
        assert!(!shown.contains(hidden), "`{hidden}` is in\n{shown}");
    }
    for command in ["tasks profile", "tasks generate", "tasks schedule", "tasks check"] {
        assert!(!place.run(&format!("{command} --help")).code(0).out.contains("--profile"), "{command}");
    }
}
