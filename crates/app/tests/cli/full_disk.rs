//! Disks that are full and files that have gone: what is half-written goes too, and what was there stays as it was.
//! A limit on the length of files is what a full disk is to those who write.

use crate::support::{Done, Place};
use std::process::Command;

/// Runs the command where no file may be longer than so many blocks of 512 bytes.
fn limited(place: &Place, blocks: u32, line: &str) -> Done {
    let program = place.command(line);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""), "sh"]);
    shell.arg(program.get_program()).args(program.get_args()).current_dir(place.path("."));
    let output = shell.output().unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

const TRAIN: &str = "train --data w.csv --target true_gpu_seconds --features size,task_type --trees 20 --depth 5 --out m.model";

#[test]
fn commands_that_find_the_disk_full_leave_nothing_half_written() {
    let place = Place::new();
    for target in ["w.csv", "w.parquet"] {
        limited(&place, 1, &format!("tasks generate --tasks 300 --out {target}")).code(2).says(target);
        assert!(place.names().is_empty(), "{:?}", place.names());
    }
    place.run("tasks generate --tasks 300 --out w.csv").code(0);
    let lines = [
        (4, TRAIN, "m.model"),
        (1, "profile --device cpu --sizes 32 --budget 0.01 --out p.json", "p.json"),
        (8, "tasks schedule --tasks w.csv --policy learned --out o", "o/scheduling_results.csv"),
        (2, "tasks schedule --compare --bare --seeds 1..2 --loads 0.5,1.5 --count 50 --out c", "c/policy"),
    ];
    for (blocks, line, file) in lines {
        limited(&place, blocks, line).code(2).says(&format!("cannot write {file}"));
        assert_eq!(place.names(), ["w.csv"], "{line}");
    }
}

#[test]
fn a_model_that_is_there_outlives_a_full_disk() {
    let place = Place::new();
    place.run("tasks generate --tasks 300 --out w.csv").code(0);
    place.run(TRAIN).code(0);
    let model = std::fs::read(place.path("m.model")).unwrap();
    limited(&place, 4, &format!("{TRAIN} --seed 7 --force")).code(2).says("cannot write m.model");
    assert_eq!(std::fs::read(place.path("m.model")).unwrap(), model);
    assert_eq!(place.names(), ["m.model", "w.csv"]);
}

#[test]
fn a_pipeline_goes_on_where_the_disk_was_full_and_where_files_have_gone() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "profile: {measure: false}\nworkload: {tasks: 400}\nschedule: {tasks: 100}\n\
         evaluate: {seeds: 1, loads: [0.9], tasks: 60}\n",
    );
    let line = "tasks pipeline --config p.yaml --out run";
    limited(&place, 32, line).code(2).says("the phase `profile` failed");
    assert_eq!(place.names(), ["p.yaml"]);
    // Enough for the profile and the workload, and not for the models.
    limited(&place, 128, line).code(2).says("the phase `train` failed");
    let partial = |name: &str| name.starts_with('.') || name.contains("partial");
    let there: Vec<String> = std::fs::read_dir(place.path("run"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(there.iter().all(|name| !partial(name) && !name.ends_with(".model")), "{there:?}");
    let done = place.run(line).code(0);
    assert_eq!(done.out.matches(" kept").count(), 2, "{}", done.out);
    // All but how long models took to fit.
    let results = || -> Vec<String> {
        let untimed = |line: &str| match line.starts_with("| CPU |") || line.starts_with("| GPU |") {
            true => line.rsplitn(3, '|').last().unwrap_or_default().to_owned(),
            false => line.to_owned(),
        };
        place.read("run/results.md").lines().map(untimed).collect()
    };
    let report = results();
    std::fs::remove_file(place.path("run/cpu.model")).unwrap();
    std::fs::remove_file(place.path("run/workload.csv")).unwrap();
    place.run(line).code(0);
    assert!(place.path("run/cpu.model").exists() && place.path("run/workload.csv").exists());
    assert_eq!(results(), report, "what is made again is what was there");
}
