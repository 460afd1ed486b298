use crate::support::{Place, inputs, json};
use serde_json::Value;

#[test]
fn a_plan_is_followed_to_the_microsecond_and_passes_the_check() {
    let place = Place::with_work("complex", 20);
    let planned = place.run("plan --budget 1h --rounds 2 --gpus 16 --json --out one @work").code(0);
    let planned = json(&planned.out);
    assert!(planned["gap_percent"].as_f64().unwrap() >= 0.0);
    let follow = "run --plan one/plan.json --gpus 16 --quiet --out two @work".to_owned();
    place.run(&follow).code(0);
    let log = place.read("two/planned_execution_log.json");
    assert_eq!(place.read("one/planned_execution_log.json"), log);
    assert_eq!(json(&log)["summary"]["makespan"], planned["makespan"]);
    place.run("check two/planned_execution_log.json @work").code(0);
    for policy in ["baseline", "offline", "hybrid", "online"] {
        place.run(&format!("run --policy {policy} --gpus 16 --quiet @work")).code(0);
        let other = place.json(&format!("{policy}_execution_log.json"));
        assert!(other["summary"]["makespan"].as_f64() >= planned["makespan"].as_f64(), "{policy}");
    }
}

#[test]
fn the_same_seed_and_rounds_give_the_same_plan() {
    let place = Place::with_work("simple", 20);
    for folder in ["one", "two"] {
        place
            .run(&format!("plan --budget 1h --rounds 2 --seed 4 --gpus 8 --quiet --out {folder} @work"))
            .code(0);
    }
    assert_eq!(place.read("one/plan.json"), place.read("two/plan.json"));
}

#[test]
fn a_plan_file_has_the_specification_of_its_run_and_so_its_cluster() {
    let place = Place::with_work("simple", 5);
    place.run("plan --budget 1h --rounds 0 --gpus 6 --seed 2 --quiet --out one @work").code(0);
    let spec = &place.json("one/plan.json")["spec"];
    assert_eq!((&spec["cluster"]["gpus"], &spec["seed"]), (&6.into(), &2.into()), "{spec}");
    // The configuration says 8; a flag goes first.
    place.run("run --plan one/plan.json --quiet --out two @work").code(0);
    assert_eq!(place.json("two/planned_execution_log.json")["summary"]["gpus"].as_array().unwrap().len(), 6);
    place.run("run --plan one/plan.json --gpus 8 --out three @work").code(2).says("the plan is for 6 GPUs");
}

#[test]
fn a_plan_for_something_else_is_refused() {
    let place = Place::with_work("simple", 5);
    place.run("plan --budget 1h --rounds 0 --gpus 8 --quiet --out one @work").code(0);
    let run = |gpus: u32, file: &str| place.run(&format!("run --plan {file} --gpus {gpus} --out two @work"));
    run(4, "one/plan.json").code(2).says("the plan is for 8 GPUs, but there are 4");
    let plan = place.read("one/plan.json");
    let mut shorter = json(&plan);
    shorter["plan"].as_array_mut().unwrap().remove(0);
    place.write("shorter.json", &shorter.to_string());
    run(8, "shorter.json").code(2).says("is not in the plan");
    place.write("other.json", &plan.replacen("\"request_id\": \"", "\"request_id\": \"x", 1));
    run(8, "other.json").code(2).says("there is no request `x");
    place.write("broken.json", &plan[..plan.len() / 2]);
    run(8, "broken.json").code(2).says("not a plan");
    assert!(!place.path("two").exists(), "nothing was written");
}

/// One slip of the pen is one fault: what waits for a node with a wrong entry is not at fault itself.
#[test]
fn a_wrong_entry_of_a_plan_is_the_only_fault_told() {
    let place = Place::with_work("simple", 5);
    place.run("plan --budget 1h --rounds 0 --gpus 8 --quiet --out one @work").code(0);
    type Damage = fn(&mut Vec<Value>);
    let damages: [(&str, Damage); 5] = [
        ("has no node `x`", |entries| entries[0]["node_id"] = "x".into()),
        ("there is no request `x`", |entries| entries[0]["request_id"] = "x".into()),
        ("cannot run on GPUs [77]", |entries| entries[0]["gpu_ids"] = serde_json::json!([77])),
        ("is not in the plan", |entries| drop(entries.remove(0))),
        ("appears twice in the plan", |entries| entries.push(entries[0].clone())),
    ];
    for (part, damage) in damages {
        let mut plan = place.json("one/plan.json");
        damage(plan["plan"].as_array_mut().unwrap());
        place.write("wrong.json", &plan.to_string());
        let told = place.run("run --plan wrong.json --gpus 8 --out two @work");
        let told = told.code(2).says(part);
        assert_eq!(told.err.matches("\n  - ").count(), 1, "{}", told.err);
    }
}

#[test]
fn a_bound_of_zero_has_no_gap_in_percent() {
    let place = Place::with_work("simple", 4);
    let plan = "plan --objective switches --budget 1h --rounds 1 --gpus 4 @work".to_owned();
    let done = place.run(&plan).code(0);
    assert!(!done.out.contains("inf") && !done.err.contains("inf"), "{}{}", done.out, done.err);
}

#[test]
fn the_bound_says_which_argument_gives_it() {
    let place = Place::with_work("simple", 20);
    let bound = place.run("bound --gpus 6 --json @work").json(0);
    let best = bound["lower_bound"].as_f64().unwrap();
    assert!(bound["bounds"].as_array().unwrap().iter().all(|one| one["seconds"].as_f64().unwrap() <= best));
    let text = place.run("bound --gpus 6 @work").code(0).out;
    assert!(text.contains("No schedule of these requests on 6 GPUs ends before"), "{text}");
}

/// Batches, models that share GPUs and memory of executions: the plan says more than an order, and is followed all the same.
#[test]
fn a_plan_with_batches_is_followed_to_the_microsecond() {
    let place = Place::with_work("simple", 5);
    let config = "
models:
  chat: {memory_gb: 14, memory_gb_per_slot: 8, gpus_required: 1, load_time_seconds: 9, inference_time_mean: 8,
         batching: {max_batch: 8, slowdown: [[1, 1.0], [8, 1.2]]}}
  judge: {memory_gb: 60, gpus_required: 2, load_time_seconds: 30, inference_time_mean: 25}
  paint: {memory_gb: 30, gpus_required: 1, load_time_seconds: 12, inference_time_mean: 3}
workflows:
  picture: {nodes: [{id: write, model: chat}, {id: draw, model: paint}], edges: [{from: write, to: draw}]}
  review: {nodes: [{id: write, model: chat}, {id: judge, model: judge}], edges: [{from: write, to: judge}]}
cluster: {residency: memory, gpu_memory_gb: 80}
";
    let request = |number: u32| {
        let workflow = if number.is_multiple_of(4) { "review" } else { "picture" };
        format!("  - {{request_id: r{number}, timestamp: 0, workflow_id: {workflow}}}\n")
    };
    place.write("c.yaml", config);
    place.write("r.yaml", &format!("requests:\n{}", (0..40).map(request).collect::<String>()));
    let inputs = "--gpus 4 --config c.yaml --requests r.yaml";
    let planned = place.run(&format!("plan --budget 1h --rounds 2 --json --out one {inputs}")).json(0);
    assert_eq!(place.json("one/plan.json")["schema"], 2);
    place.run(&format!("run --plan one/plan.json --quiet --out two {inputs}")).code(0);
    let log = place.read("two/planned_execution_log.json");
    assert_eq!(place.read("one/planned_execution_log.json"), log);
    assert_eq!(json(&log)["summary"]["makespan"], planned["makespan"]);
    place.run("check two/planned_execution_log.json --config c.yaml --requests r.yaml").code(0);
    for policy in ["baseline", "static", "online", "batch"] {
        place.run(&format!("run --policy {policy} --quiet {inputs}")).code(0);
        let other = place.json(&format!("{policy}_execution_log.json"));
        assert!(other["summary"]["makespan"].as_f64() >= planned["makespan"].as_f64(), "{policy}");
    }
}

#[test]
fn a_plan_can_be_made_for_other_ends() {
    let place = Place::with_work("simple", 12);
    let terms = ["mean", "p99", "switches", "makespan=1,mean=0.2"];
    for (at, objective) in terms.into_iter().enumerate() {
        let line =
            format!("plan --objective {objective} --budget 1h --rounds 1 --gpus 4 --json --out o{at} @work");
        let planned = place.run(&line).json(0);
        let found = &planned["objective"];
        assert_eq!(found["terms"], *objective);
        assert!(found["value"].as_f64() >= found["lower_bound"].as_f64(), "{found}");
        place.run(&format!("check o{at}/planned_execution_log.json @work")).code(0);
    }
    let both = "plan --objective speed --gpus 4 @work".to_owned();
    place.run(&both).code(2).says("unknown term `speed`");
}

#[test]
fn a_small_plan_is_proved() {
    let place = Place::with_work("simple", 4);
    let planned = place.run("plan --budget 1h --rounds 40 --gpus 4 --json --out one @work").code(0);
    let planned = json(&planned.out);
    assert_eq!(planned["optimal"], true);
    let file = place.json("one/plan.json");
    assert_eq!((&file["optimal"], &file["proof"]), (&planned["optimal"], &planned["proof"]));
}

#[test]
fn bounds_in_files_plans_and_logs_are_recomputed_by_the_check() {
    let place = Place::with_work("complex", 10);
    let inputs = inputs("work");
    place.run(&format!("bound --gpus 16 --out bound.json {inputs}")).code(0);
    place.run(&format!("check bound.json {inputs}")).code(0);
    place.run(&format!("plan --budget 1h --rounds 1 --gpus 16 --quiet {inputs}")).code(0);
    for file in ["plan.json", "planned_execution_log.json"] {
        place.run(&format!("check {file} {inputs}")).code(0);
    }
    let raised = |file: &str, change: fn(&mut Value)| {
        let mut value = place.json(file);
        change(&mut value);
        place.write("damaged.json", &value.to_string());
        place.run(&format!("check damaged.json --json {inputs}")).code(1).out
    };
    let out = raised("bound.json", |value| {
        let bounds = value["bounds"].as_array_mut().unwrap();
        let area = bounds.iter_mut().find(|bound| bound["witness"]["argument"] == "area").unwrap();
        area["seconds"] = (area["seconds"].as_f64().unwrap() + 0.5).into();
    });
    assert!(out.contains("C-BOUND-VALUE"), "{out}");
    let out = raised("plan.json", |value| {
        value["lower_bound"] = (value["lower_bound"].as_f64().unwrap() + 0.5).into();
    });
    // In a longer run fewer GPUs need visit a model: then it is the witness that does not fit.
    assert!(out.contains("C-BOUND-VALUE") || out.contains("C-BOUND-WITNESS"), "{out}");
    let out = raised("planned_execution_log.json", |value| {
        value["summary"]["bound"] =
            serde_json::json!({"argument": "area", "gpus": 1, "work_gpu_seconds": 9.0});
    });
    assert!(out.contains("C-BOUND-WITNESS"), "{out}");
}

/// What a plan file promises is held against what following it gives.
#[test]
fn a_plan_that_promises_too_much_is_found_out() {
    let place = Place::with_work("simple", 8);
    let inputs = inputs("work");
    place.run(&format!("plan --budget 1h --rounds 1 --gpus 4 --quiet {inputs}")).code(0);
    place.run(&format!("check plan.json {inputs}")).code(0);
    let good = place.json("plan.json");
    type Lie = fn(&mut Value);
    let lies: [(&str, Lie); 5] = [
        ("C-SUM-MAKESPAN", |plan| plan["makespan"] = 1.0.into()),
        ("C-SUM-MAKESPAN", |plan| plan["makespan"] = plan["lower_bound"].clone()),
        ("C-SUM-BOUND", |plan| (plan["optimal"], plan["proof"]) = (true.into(), "bound".into())),
        ("C-SUM-BOUND", |plan| (plan["optimal"], plan["proof"]) = (true.into(), "banana".into())),
        ("C-SUM-BOUND", |plan| (plan["optimal"], plan["proof"]) = (true.into(), Value::Null)),
    ];
    assert_eq!(good["optimal"], false, "else the lies below are none");
    for (code, lie) in lies {
        let mut plan = good.clone();
        lie(&mut plan);
        place.write("lie.json", &plan.to_string());
        let out = place.run(&format!("check lie.json --json {inputs}")).code(1).out;
        assert!(out.contains(code), "{code}: {out}");
    }
}
