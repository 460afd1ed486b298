//! Workloads of tasks: made, scheduled, compared and checked.

use crate::support::Place;
use gswarm_testing::until;

#[test]
fn a_workload_is_made_scheduled_and_checked() {
    let place = Place::new();
    let made = place.run("tasks generate --tasks 300 --load 0.9 --seed 4 --out work/w.csv").code(0);
    assert!(made.out.contains("300 tasks") && made.out.contains("load 0.9"), "{}", made.out);
    place.run("tasks generate --tasks 300 --load 0.9 --seed 4 --out work/w.parquet").code(0);
    place.run("tasks generate --tasks 5 --out work/w.csv").code(2).says("already exists");
    place.run("tasks generate --tasks 5 --out work/w.txt").code(2).says("CSV or Parquet");
    let done = place.run("tasks schedule --tasks work/w.csv --policy learned --out a").code(0);
    assert!(done.out.contains("learned") && done.out.contains("No schedule is shorter"), "{}", done.out);
    place.run("tasks check a/task_execution_log.jsonl --tasks work/w.parquet").code(0);
    place.run("tasks schedule --tasks work/w.parquet --policy learned --out b").code(0);
    // The same tasks from either file, and the same bytes.
    assert_eq!(place.read("a/scheduling_results.csv"), place.read("b/scheduling_results.csv"));
    assert!(place.read("a/scheduling_results.csv").starts_with("task_id,device,gpu_fraction"));
    let log = place.read("a/task_execution_log.jsonl");
    place.write("damaged.jsonl", &log.replacen("\"finish\":", "\"finish\":1", 1));
    let found = place.run("tasks check damaged.jsonl --tasks work/w.csv").code(1);
    assert!(found.out.contains("T07"), "{}", found.out);
    let all = place.run("tasks schedule --tasks work/w.csv --policy all --json --out c").code(0);
    assert_eq!(all.out.matches("\"policy\"").count(), 12);
}

#[test]
fn policies_are_compared_over_seeds_and_loads() {
    let place = Place::new();
    let done = place
        .run("tasks schedule --compare --bare --seeds 1..2 --loads 0.5,1.5 --count 200 --out cmp")
        .code(0);
    assert!(done.out.contains("Load 1.5, 2 seeds of 200 tasks"), "{}", done.out);
    assert!(done.out.contains("Shortest on average"), "{}", done.out);
    // Two loads, two seeds, twelve policies and the head.
    assert_eq!(place.read("cmp/policy_comparison.csv").lines().count(), 49);
}

#[test]
fn faults_of_tasks_are_told_at_once_and_leave_nothing() {
    let place = Place::new();
    place.write(
        "w.csv",
        "task_id,size,compute_intensity,memory_required,arrival_time,duration_estimate,dependencies\n\
         1,100,0.5,10,-1,0.1,7\n2,0,0.5,10,0,0.1,\n",
    );
    let done = place.run("tasks schedule --tasks w.csv --out o").code(2);
    for code in ["E202", "E106", "E201"] {
        assert!(done.err.contains(code), "{code} is not in {}", done.err);
    }
    place.write(
        "big.csv",
        "task_id,size,compute_intensity,memory_required,arrival_time,duration_estimate\n1,100,0.5,9e6,0,0.1\n",
    );
    place.run("tasks schedule --tasks big.csv --out o").code(2).says("E204").says("big.csv:2");
    place.write(
        "huge.csv",
        "task_id,size,compute_intensity,memory_required,arrival_time,duration_estimate\n1,1e300,0.5,1e300,0,0.1\n",
    );
    let huge = place.run("tasks schedule --tasks huge.csv --out o").code(2).says("1e300 is above the limit");
    assert!(!huge.err.contains("00000000000000"), "{}", huge.err);
    place.write("p.json", "{\"version\": 3}");
    place.run("tasks schedule --tasks w.csv --hardware p.json --out o").code(2).says("E101");
    place.run("tasks schedule --tasks nowhere.csv --out o").code(2);
    place.run("tasks schedule --policy best --tasks w.csv").code(2).says("learned");
    assert!(!place.path("o").exists());
}

#[test]
fn a_profile_is_measured_and_used() {
    let place = Place::new();
    let done = place.run("profile --device cpu --sizes 32,64 --budget 0.01 --out hw.json").code(0);
    assert!(done.out.contains("gemm_bf16") && done.out.contains("No CPU/GPU ratio"), "{}", done.out);
    assert!(place.read("hw.json").contains("\"median_seconds\""));
    place.run("profile --device cpu --sizes 32,64 --out hw.json").code(2).says("already exists");
    place.run("profile --device cuda:99 --sizes 32,64 --out gpu.json").code(2).says("G00");
    place.run("profile --device tpu --out gpu.json").code(2).says("cuda:0");
    assert!(!place.path("gpu.json").exists());
    // A profile of the CPU alone cannot say how long tasks take on GPUs.
    let refused = place.run("tasks generate --tasks 10 --hardware hw.json --out w.csv").code(2);
    refused.says("error[E102]: the profile has no GPU").says("--> hw.json").says("omit --hardware");
}

#[test]
fn a_pipeline_runs_is_kept_and_says_which_phase_failed() {
    let place = Place::new();
    let settings = "profile: {measure: false}\nworkload: {tasks: 400}\nschedule: {tasks: 100}\n\
                    evaluate: {seeds: 1, loads: [0.9], tasks: 60}\n";
    place.write("p.yaml", settings);
    place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert!(place.read("run/results.md").contains("| learned |"));
    let page = place.read("run/report.html");
    // What the page says of the models is what the file says.
    let models = place.json("run/model_report.json");
    for model in models.as_array().unwrap() {
        let r2 = model["test"]["r2"].as_f64().unwrap();
        assert!(page.contains(&format!("{r2:.3}")), "{r2}");
    }
    // A device has one colour on all charts, and no title is marked up.
    let chart = |name: &str| place.read(&format!("run/charts/{name}.svg"));
    let (cpu, gpu) = ("#d55e00", "#0072b2");
    assert!(chart("model_predicted_cpu").contains(cpu) && !chart("model_predicted_cpu").contains(gpu));
    assert!(chart("workload_gpu_times").contains(gpu) && !chart("workload_gpu_times").contains(cpu));
    let curve = chart("model_learning_curve");
    assert!(curve.starts_with("<svg") && curve.contains(cpu) && curve.contains(gpu));
    assert!(!chart("policies_speedup_greedy").contains('`'));
    let body = page.split("<body>").nth(1).unwrap().split("<script").next().unwrap();
    assert!(!body.contains('`'), "{body}");
    assert!(body.contains("Nothing was measured"), "{body}");
    place.run("tasks check run/task_execution_log.jsonl --tasks run/scheduled_tasks.csv").code(0);
    let again = place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert_eq!(again.out.matches(" kept").count(), 5, "{}", again.out);
    place.run("tasks pipeline --config p.yaml --out run --results-to results.md").code(0);
    place.run("tasks pipeline --config p.yaml --out run --results-to results.md").code(0);
    assert!(place.read("results.md").contains("](results/policies_flow.svg)"));
    assert!(place.path("results/policies_flow.svg").is_file());
    place.write("p.yaml", &settings.replace("loads: [0.9]", "loads: [1.2]"));
    let changed = place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert_eq!(changed.out.matches(" kept").count(), 4, "{}", changed.out);
    // One task is one task.
    place.write("p.yaml", &settings.replace("schedule: {tasks: 100}", "schedule: {tasks: 1}"));
    let one = place.run("tasks pipeline --config p.yaml --out run").code(0);
    assert!(one.out.contains(" 1 task under 12 policies"), "{}", one.out);
    assert!(place.read("run/results.md").contains("The first task of the workload"));
    place.write("p.yaml", "train: {model: oracle}\nprofile: {measure: false}\nworkload: {tasks: 400}\n");
    // Faults of settings are told before anything is done, all of them.
    place
        .run("tasks pipeline --config p.yaml --out other")
        .code(2)
        .says("train.model")
        .says("workload.tasks");
    assert!(!place.path("other").exists());
    // What somebody else has put there is not replaced.
    std::fs::create_dir(place.path("theirs")).unwrap();
    place.write("theirs/workload.csv", "mine");
    place.run("tasks pipeline --out theirs").code(2).says("was not written by a pipeline");
    assert_eq!(place.read("theirs/workload.csv"), "mine");
    std::fs::rename(place.path("theirs/workload.csv"), place.path("theirs/results.md")).unwrap();
    place
        .run("tasks pipeline --out theirs")
        .code(2)
        .says("theirs/results.md exists, but was not written by a pipeline");
    // Nor elsewhere, and that is said before anything is done.
    let to_theirs = "tasks pipeline --config q.yaml --out fresh --results-to theirs/results.md";
    place.write("q.yaml", settings);
    place.run(to_theirs).code(2).says("was not written by a pipeline").says("choose another file");
    assert_eq!((place.read("theirs/results.md").as_str(), place.path("fresh").exists()), ("mine", false));
    place
        .run("tasks pipeline --config q.yaml --out fresh --results-to nowhere/r.md")
        .code(2)
        .says("there is no folder");
    assert!(!place.path("fresh").exists());
    // Two pipelines in one folder would mix.
    let lock = std::fs::File::create(place.path("run/.pipeline.lock")).unwrap();
    lock.try_lock().unwrap();
    place.run("tasks pipeline --out run").code(2).says("another pipeline is running");
    drop(lock);
    place.run("tasks pipeline --init").code(0);
}

#[test]
fn a_pipeline_does_a_phase_again_whose_files_were_damaged() {
    let place = Place::new();
    place.write(
        "p.yaml",
        "profile: {measure: false}\nworkload: {tasks: 400}\nschedule: {tasks: 100}\n\
         evaluate: {seeds: 1, loads: [0.9], tasks: 60}\n",
    );
    let line = "tasks pipeline --config p.yaml --out run";
    place.run(line).code(0);
    let files = [
        ("hardware_profile.json", "profile"),
        ("workload.csv", "workload"),
        ("cpu.model", "train"),
        ("gpu.model", "train"),
        ("scheduling_results.csv", "schedule"),
        ("policy_comparison.csv", "evaluate"),
        ("results.md", "report"),
    ];
    for (file, phase) in files {
        let path = place.path(&format!("run/{file}"));
        let whole = std::fs::read(&path).unwrap();
        // One bit, in the midst of it: neither its length nor its beginning tells.
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let again = place.run(line).code(0);
        let said = format!("{phase:<9} {file} has changed since it was written: repeated");
        assert!(again.out.contains(&said), "{}", again.out);
        // What is made again is what was there, so the phases behind it are kept.
        assert_eq!(
            again.out.matches(" kept").count(),
            if phase == "report" { 5 } else { 4 },
            "{}",
            again.out
        );
        // The comparison holds how long policies took to decide, the report how long models took to fit.
        if !["evaluate", "report"].contains(&phase) {
            assert!(std::fs::read(&path).unwrap() == whole, "{file}");
        }
    }
    // Charts are files of the report like any other.
    let chart = place.path("run/charts/model_coverage.svg");
    std::fs::write(&chart, "<svg").unwrap();
    let again = place.run(line).code(0);
    assert!(
        again.out.contains("charts/model_coverage.svg has changed since it was written"),
        "{}",
        again.out
    );
    std::fs::remove_file(&chart).unwrap();
    let again = place.run(line).code(0);
    assert!(again.out.contains("charts/model_coverage.svg is missing: repeated"), "{}", again.out);
    assert!(chart.is_file());
    std::fs::write(place.path("run/pipeline_state.json"), "{").unwrap();
    let all = place.run(line).code(0);
    assert!(all.out.contains("pipeline_state.json is damaged"), "{}", all.out);
    assert_eq!(all.out.matches(" kept").count(), 0, "{}", all.out);
}

#[test]
fn leaks_are_all_named_and_a_model_of_other_features_is_refused_with_a_code() {
    let place = Place::new();
    place.run("tasks generate --tasks 300 --out w.csv").code(0);
    let target = "train --data w.csv --target true_cpu_seconds";
    // The same column twice under other names.
    let table = place.read("w.csv");
    let column =
        table.lines().next().unwrap().split(',').position(|name| name == "true_cpu_seconds").unwrap();
    let copied = |(at, line): (usize, &str)| {
        let cell = if at == 0 { "copy" } else { line.split(',').nth(column).unwrap() };
        format!("{line},{cell}\n")
    };
    place.write("w.csv", &table.lines().enumerate().map(copied).collect::<String>());
    let refused = place.run(&format!("{target} --features size,true_cpu_joules,copy --out m.model")).code(2);
    refused.says("`true_cpu_joules` is known only after the run").says("`copy` is a copy of");
    assert!(!place.path("m.model").exists());
    place.run(&format!("{target} --features size,arrival_time --out m.model")).code(0);
    // It was trained on columns that are no features of a task that is yet to run.
    let other = place.run("tasks schedule --tasks w.csv --predictor m.model --out results").code(2);
    other.says("m.model").says("E514").says("`arrival_time`").says("--target true_cpu_seconds");
    assert!(!place.path("results").exists());
    // Without more being said, what is learned from is what tasks have before they run.
    place.run(&format!("{target} --out cpu.model")).code(0);
    place.run("train --data w.csv --target true_gpu_seconds --out gpu.model").code(0);
    let both = "tasks schedule --tasks w.csv --predictor cpu.model --predictor gpu.model --out results";
    place.run(both).code(0);
    place.run(&format!("{both} --predictor cpu.model")).code(2).says("2 predictors cover the cpu");
}

#[test]
fn workloads_that_cannot_be_are_refused_with_a_code() {
    let place = Place::new();
    for flags in
        ["--load 1e-300", "--rate 1e-300", "--sizes 1,1000000000", "--memory 1e9,1e9", "--memory 10,70000"]
    {
        let refused = place.run(&format!("tasks generate --tasks 50 {flags} --out w.csv")).code(2);
        refused.says("error[E204]").says(flags.split(' ').next().unwrap());
    }
    place.run("tasks schedule --compare --bare --count 20 --loads 1e-300 --out o").code(2).says("E204");
    assert!(place.names().is_empty(), "{:?}", place.names());
    let one = place.run("tasks generate --tasks 1 --out w.csv").code(0);
    assert!(one.out.starts_with("1 task\n"), "{}", one.out);
}

#[test]
fn flags_of_a_comparison_go_with_one_and_loads_count_once() {
    let place = Place::new();
    place.run("tasks generate --tasks 20 --out w.csv").code(0);
    for flag in ["--seeds 1..2", "--loads 0.5", "--count 10", "--bare"] {
        place.run(&format!("tasks schedule --tasks w.csv {flag} --out o")).code(2).says("--compare");
    }
    for flag in ["--policy greedy", "--seed 3"] {
        let line = format!("tasks schedule --compare --bare --count 10 {flag} --out o");
        place.run(&line).code(2).says("cannot be used with");
    }
    let line = "tasks schedule --compare --bare --seeds 1..1 --loads 0.5,0.5 --count 20 --out o";
    let done = place.run(line).code(0);
    assert!(done.out.contains("Load 0.5, 1 seed of 20 tasks") && done.out.contains("1/1"), "{}", done.out);
    assert!(!done.out.contains("2/2"), "{}", done.out);
    // Predictors of something else are named, in a comparison too.
    place.run("tasks generate --tasks 300 --seed 2 --out h.csv").code(0);
    place.run("train --data h.csv --target true_cpu_seconds --trees 5 --out c.model --quiet").code(0);
    let refused =
        place.run("tasks schedule --compare --count 20 --loads 0.5 --predictor c.model --out p").code(2);
    refused.says("error[E514]").says("--> c.model").says("true_gpu_seconds");
}

#[test]
fn an_interrupted_pipeline_says_where_it_was() {
    let place = Place::new();
    place.write("p.yaml", "profile: {measure: false}\nevaluate: {seeds: 40, tasks: 5000}\n");
    let child = place
        .command("tasks pipeline --config p.yaml --out run")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The first phase is over in no time, and the last would take minutes.
    until("a phase is done", || place.path("run/pipeline_state.json").exists());
    let said = interrupt(child);
    assert!(said.contains("interrupted in phase `") && said.contains("continues here"), "{said}");
}

/// The seconds that a process has had a processor: other than those of the wall, they tell how far it is on a busy machine.
#[cfg(target_os = "linux")]
fn computed(child: &std::process::Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    // After the name, in brackets: the 12th and the 13th are hundredths in user and in system mode.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_measurement_or_training_says_that_nothing_was_written() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|row| format!("{},{}\n", row % 977, row % 89 + 1)).collect();
    place.write("runs.csv", &format!("size,run_seconds\n{rows}"));
    for line in [
        "profile --device cpu --sizes 4096 --budget 600 --out new/hw.json",
        "train --model random_forest --data runs.csv --target run_seconds --trees 10000 --out new/run.model",
    ] {
        let mut child = place
            .command(line)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // So much that the work has begun, and far from its end.
        until("a second was computed", || {
            assert_eq!(child.try_wait().unwrap(), None, "{line}: it has ended");
            computed(&child) >= 1.0
        });
        let said = interrupt(child);
        assert_eq!(said.matches("interrupted: nothing was written").count(), 1, "{line}: {said}");
        assert_eq!(place.names(), ["runs.csv"], "{line}");
    }
}

/// What a command says when it is interrupted.
fn interrupt(mut child: std::process::Child) -> String {
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    said
}
