use crate::support::{Place, json};

#[test]
fn the_fewest_gpus_are_found_and_a_run_on_them_meets_the_target() {
    let place = Place::with_work("simple", 20);
    let size = "size --target makespan=20min --policy baseline @work".to_owned();
    let text = place.run(&size).code(0).out;
    assert!(
        text.contains("meet the target, under `baseline`") && text.contains("Tried in the search"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let answer = place.run(&format!("{size} --json")).json(0);
    let gpus = answer["gpus"].as_u64().unwrap();
    assert_eq!(answer["verdict"], "met");
    let run = format!("run --policy baseline --gpus {gpus} --json @work");
    let metrics = place.run(&run).json(0);
    let makespan = metrics["makespan_seconds"].as_f64().unwrap();
    assert!(makespan <= 1200.0);
    let points = answer["points"].as_array().unwrap();
    let point = points.iter().find(|point| point["gpus"] == gpus).unwrap();
    assert_eq!(point["makespan"].as_f64(), Some(makespan));
    assert!(answer["fewest_not_ruled_out"].as_u64().unwrap() <= gpus);
}

#[test]
fn a_latency_is_of_a_stream_and_several_targets_hold_at_once() {
    let place = Place::with_work("simple", 20);
    let targets = "--target p99=30min --target mean=20min";
    let answer = place.run(&format!("size {targets} --json @work")).json(0);
    assert_eq!(answer["mode"], "online");
    let points = answer["points"].as_array().unwrap();
    let point = points.iter().find(|point| point["gpus"] == answer["gpus"]).unwrap();
    assert!(point["p99"].as_f64().unwrap() <= 1800.0 && point["mean"].as_f64().unwrap() <= 1200.0);
    // The traces of a stream run one after the other: their makespan would mislead.
    let text = place.run(&format!("size {targets} @work")).code(0).out;
    assert!(text.contains("P99 s") && !text.contains("makespan") && !text.contains("bound"), "{text}");
}

#[test]
fn what_cannot_be_met_is_code_3_and_says_what_can() {
    let place = Place::with_work("simple", 20);
    let size = |rest: &str| place.run(&format!("size {rest} --policy baseline @work"));
    size("--target makespan=1s").code(3).says("the floor is");
    size("--target p99=1s").code(3).says("the floor is");
    size("--target p99=1ms").code(3).says("a p99 of 1 ms");
    // A stream's traces never end, so no number of GPUs is the most that is of use.
    assert!(size("--target p99=1ms --json").json(3)["most_of_use"].is_null());
    size("--target makespan=2min --max-gpus 4").code(3).says("on 4 GPUs");
    let floor = size("--target makespan=1s --json").json(3);
    assert_eq!(floor["verdict"], "below_floor");
    assert!(floor["floor_seconds"].as_f64().unwrap() > 1.0);
}

#[test]
fn a_high_limit_costs_nothing_and_ends_where_more_gpus_change_nothing() {
    let place = Place::with_work("simple", 20);
    let size = |rest: &str| place.run(&format!("size {rest} --policy random --json @work"));
    let low = size("--target makespan=20min").json(0);
    let high = size("--target makespan=20min --max-gpus 1000000").json(0);
    assert_eq!(low["points"], high["points"]);
    // Just above the floor, which no policy by chance reaches.
    let floor = json(&size("--target makespan=1s").code(3).out)["floor_seconds"].as_f64().unwrap();
    let target = format!("--target makespan={} --max-gpus 1000000", floor + 0.01);
    let answer = json(&size(&target).code(3).says("more GPUs cannot help").out);
    let most = answer["most_of_use"].as_u64().unwrap();
    assert!(answer["points"].as_array().unwrap().iter().all(|point| point["gpus"].as_u64().unwrap() <= most));
    assert!(most < 1000, "{most}");
}

#[test]
fn wrong_targets_are_code_2() {
    let place = Place::with_work("simple", 2);
    let size = |rest: &str| place.run(&format!("size {rest} @work")).code(2);
    size("").says("--target");
    size("--target speed=3").says("makespan=2h");
    size("--target makespan=soon").says("20min");
    size("--target p99=5min --policy planned").says("has no online mode");
}
