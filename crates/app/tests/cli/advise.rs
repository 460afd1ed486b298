use crate::support::Place;

#[test]
fn gpus_policy_and_placement_are_advised_on_in_text_json_and_one_page() {
    let place = Place::with_work("simple", 60);
    let advise = "advise --target mean=20min --policy baseline --price 2 @work";
    let text = place.run(&format!("{advise} --html advice.html")).code(0).out;
    for part in ["under baseline: mean latency of 1200", "* the answer", "It costs", "permanent placement"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = place.read("advice.html");
    assert!(page.contains("By number of GPUs") && page.contains("<svg"), "no curve");
    let answer = place.run(&format!("{advise} --json")).json(0);
    let gpus = answer["gpus"].as_u64().unwrap();
    assert!(text.contains(&format!("{gpus} GPU")));
    assert_eq!(answer["cost"]["per_hour"].as_f64(), Some(2.0 * gpus as f64));
    assert_eq!(answer["check"]["met"], true);
    assert_eq!(answer["policy"]["name"], "baseline");
    let again = place.run(&format!("{advise} --json")).json(0);
    assert_eq!(answer, again, "the same seed gives the same answer");
}

#[test]
fn what_cannot_be_met_is_code_3_with_the_reason() {
    let place = Place::with_work("simple", 40);
    let done = place.run("advise --target p50=1s --policy baseline --json @work").code(3);
    let report = crate::support::json(&done.says("is the floor").out);
    assert_eq!(report["verdict"], "below_floor");
    assert!(!report["floor"]["path"].as_array().unwrap().is_empty());
    place
        .run("advise --target p99=150s --policy baseline --max-gpus 4 @work")
        .code(3)
        .says("slowest requests spend");
}

#[test]
fn wrong_questions_are_code_2() {
    let place = Place::with_work("simple", 5);
    let advise = |rest: &str| place.run(&format!("advise {rest} @work")).code(2);
    advise("").says("--target");
    advise("--target speed=3").says("p99=60s");
    advise("--target deadline=99%").says("no request has a deadline");
    advise("--target nobody:p99=3s").says("there is no workflow `nobody`");
    advise("--target mean=1h --traffic x0").says("x2");
    advise("--target mean=1h --spare some").says("server");
    advise("--target p99=5min --policy planned").says("has no online mode");
}
