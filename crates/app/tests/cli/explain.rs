use crate::support::{Place, inputs};

fn explained() -> (Place, String) {
    let place = Place::with_work("simple", 20);
    place.run("run --policy baseline --quiet @work").code(0);
    (place, inputs("work"))
}

/// Some node of the log, as `request/node`.
fn some_node(place: &Place) -> (String, String) {
    let log = place.json("baseline_execution_log.json");
    let last = log["executions"].as_array().unwrap().last().unwrap().clone();
    let text = |field: &str| last[field].as_str().unwrap().to_string();
    (text("request_id"), text("node_id"))
}

#[test]
fn every_question_is_answered_for_people_and_for_programs() {
    let (place, inputs) = explained();
    let (request, node) = some_node(&place);
    let questions = [
        (format!("--node {request}/{node}"), "Where it could have run", "alternatives"),
        (format!("--request {request}"), "On its critical path", "path"),
        ("--gpu 0".to_string(), "Executing", "models"),
        ("--idle".to_string(), "idle", "causes"),
    ];
    for (question, words, field) in questions {
        let line = format!("explain baseline_execution_log.json {question} {inputs}");
        let text = place.run(&line).code(0).out;
        assert!(text.contains(words), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let answer = place.run(&format!("{line} --json")).json(0);
        assert!(answer[field].is_array(), "{answer}");
    }
}

#[test]
fn the_inputs_nearest_to_the_log_are_found() {
    let place = Place::with_work("simple", 20);
    place.run("run --policy baseline --quiet @work --out work/results").code(0);
    let log = "explain work/results/baseline_execution_log.json";
    assert_eq!(place.run(log).code(0).out, place.run(&format!("{log} {}", inputs("work"))).code(0).out);
    place.run("run --policy baseline --quiet @work --out elsewhere").code(0);
    place.run("explain elsewhere/baseline_execution_log.json").code(2).says("R001").says("--config");
}

#[test]
fn slow_requests_say_the_whole_reason() {
    let (place, inputs) = explained();
    let text = place.run(&format!("explain baseline_execution_log.json {inputs}")).code(0).out;
    let (_, table) = text.split_once("slowest requests").unwrap();
    assert!(
        !table.contains("..") && !table.contains("late s"),
        "nothing is cut, and nothing is late: {text}"
    );
}

#[test]
fn without_a_question_the_slowest_request_is_explained() {
    let (place, inputs) = explained();
    let line = format!("explain baseline_execution_log.json {inputs}");
    let answer = place.run(&format!("{line} --json")).json(0);
    let slowest = answer["slowest"].as_array().unwrap();
    let told = &answer["slowest_request"];
    assert_eq!((slowest.len(), &told["request"]), (10, &slowest[0]["request"]), "{answer}");
    let metrics = place.run("run --policy baseline --json @work").json(0);
    assert_eq!(told["latency_seconds"], metrics["request_latency"]["max"], "{answer}");
    assert_eq!(answer["slowest"], metrics["slowest"], "`run` tells the same");
    let text = place.run(&format!("{line} --top 3")).code(0).out;
    assert!(text.starts_with(told["request"].as_str().unwrap()), "{text}");
    assert!(text.contains("On its critical path") && text.contains("The 3 slowest requests"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_parts_of_a_requests_time_add_up() {
    let (place, inputs) = explained();
    let (request, _) = some_node(&place);
    let line = format!("explain baseline_execution_log.json --request {request} --json {inputs}");
    let story = place.run(&line).json(0);
    let part = |field: &str| story[field].as_f64().unwrap();
    let parts = part("waiting_seconds") + part("switching_seconds") + part("executing_seconds");
    assert!((parts + part("retrying_seconds") - part("latency_seconds")).abs() < 1e-6, "{story}");
}

#[test]
fn what_is_not_there_is_code_2_with_near_names() {
    let (place, inputs) = explained();
    let (request, node) = some_node(&place);
    let run = |question: &str| {
        place.run(&format!("explain baseline_execution_log.json {question} {inputs}")).code(2)
    };
    run(&format!("--node {request}/{node}x")).says("did you mean").says(&format!("{request}/{node}"));
    run(&format!("--node x{request}/{node}")).says(&format!("{request}/{node}"));
    run("--request nobody-knows-this-one").says("there is no request `nobody-knows-this-one`");
    run("--gpu 99").says("GPUs 0 to");
    run("--idle --gpu 1").says("cannot be used");
    place.run(&format!("explain none.json --idle {inputs}")).code(2).says("none.json");
    place.write("empty.json", "{}");
    place.run(&format!("explain empty.json --idle {inputs}")).code(2).says("gswarm check");
}

#[test]
fn logs_by_line_and_streams_are_explained_too() {
    let place = Place::with_work("simple", 20);
    let run = "run --policy online --mode online --format jsonl --quiet";
    place.run(&format!("{run} @work")).code(0);
    let line = "explain online_execution_log.jsonl --idle --top 2 --json @work".to_owned();
    let story = place.run(&line).json(0);
    assert!(story["gaps"].as_array().unwrap().len() <= 2);
    let causes = story["causes"].as_array().unwrap().iter();
    let sum: f64 = causes.map(|one| one["gpu_seconds"].as_f64().unwrap()).sum();
    assert!((sum - story["idle_gpu_seconds"].as_f64().unwrap()).abs() < 1e-3, "{story}");
}

/// The reason for a retry is what happened to the attempt before, not the input that was there long since.
#[test]
fn a_node_that_was_tried_again_says_so() {
    let place = Place::with_work("simple", 20);
    let inputs = inputs("work");
    place.run(&format!("run --policy baseline --gpus 8 --lose-gpu 0@60 --quiet {inputs}")).code(0);
    let log = place.json("baseline_execution_log.json");
    let again = log["executions"].as_array().unwrap().iter().find(|one| one["attempt"] == 2).unwrap();
    let node = format!("{}/{}", again["request_id"].as_str().unwrap(), again["node_id"].as_str().unwrap());
    let out = place.run(&format!("explain baseline_execution_log.json --node {node} {inputs}")).code(0).out;
    assert!(
        out.contains("its first attempt failed or lost a GPU then") && !out.contains("ended then"),
        "{out}"
    );
}
