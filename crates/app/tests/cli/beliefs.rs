//! Runs whose true times are not what is expected of them.

use crate::support::{Place, inputs};
use serde_json::Value;

fn line(policy: &str, flags: &str) -> String {
    format!("run --policy {policy} {} --seed 5 --quiet {flags}", inputs("work"))
}

#[test]
fn noise_is_the_same_for_the_same_seed_and_passes_the_check() {
    let place = Place::with_work("complex", 30);
    for policy in ["planned", "adaptive", "baseline"] {
        let flags = "--noise lognormal:0.5 --drift 1.5@100s --learn";
        place.run(&line(policy, &format!("{flags} --out one"))).code(0);
        place.run(&line(policy, &format!("{flags} --out two"))).code(0);
        place.run(&line(policy, "--out plain")).code(0);
        place.run(&line(policy, "--noise lognormal:0 --out silent")).code(0);
        let file = format!("{policy}_execution_log.json");
        let log = |folder: &str| place.read(&format!("{folder}/{file}"));
        assert_eq!(log("one"), log("two"));
        assert_eq!(log("plain"), log("silent"));
        let noisy: Value = serde_json::from_str(&log("one")).unwrap();
        assert_eq!(noisy["summary"]["truth"]["noise"], "lognormal:0.5");
        let differ = noisy["executions"].as_array().unwrap().iter();
        let differ = differ.filter(|one| one["execution_time"] != one["estimated_time"]).count();
        assert!(differ > 50, "{differ} took what was not expected");
        place.run(&format!("check {} one/{file}", inputs("work"))).code(0);
        place.write("other.json", &log("one").replace("lognormal:0.5", "lognormal:0.4"));
        let other = place.run(&format!("check {} other.json", inputs("work"))).code(1);
        assert!(format!("{}{}", other.out, other.err).contains("C-WORK-"), "{}{}", other.out, other.err);
    }
}

#[test]
fn flags_that_say_nothing_are_refused() {
    let place = Place::with_work("simple", 3);
    place.run(&line("baseline", "--noise normal:0.2")).code(2).says("lognormal:0.2");
    place.run(&line("baseline", "--drift 1.3")).code(2).says("1.3@1000s");
    place.run(&line("baseline", "--drift nobody=1.3@0")).code(2).says("nobody");
    place.run(&line("baseline", "--truth requests")).code(2).says("--predictor");
    place.run(&line("baseline", "--predictor nowhere.model")).code(2).says("nowhere.model");
}
