use crate::support::Place;
use gswarm::core::input::Source;
use gswarm::prelude::*;

#[path = "../../../gswarm/examples/embed_a_run.rs"]
#[allow(dead_code, missing_docs)]
mod embed_a_run;

/// The log that a program which embeds gswarm gets for the specification in a file.
fn by_library(place: &Place, name: &str) -> String {
    let text = place.read(name);
    let read = RunSpec::read(Source { name, bytes: text.as_bytes() }, &place.path(""));
    String::from_utf8(embed_a_run::log_of(read.unwrap().0).unwrap()).unwrap()
}

#[test]
fn flags_their_specification_and_the_library_give_the_same_bytes() {
    let place = Place::with_work("simple", 40);
    for (policy, flags) in [
        ("planned", "--gpus 8 --rounds 2"),
        ("online", "--mode online --gpus 8 --alpha 2 --lookahead 5 --seed 9"),
        (
            "adaptive",
            "--mode online --gpus 8 --objective p99 --max-collate-wait 600 --noise lognormal:0.2 --learn",
        ),
        ("static", "--gpus 8 --gpus-per-server 4"),
        ("lru", "--gpus 8 --fail-rate 0.05 --lose-gpu 3@60 --residency memory"),
    ] {
        let line = format!("run --policy {policy} @work {flags}");
        place.run(&format!("{line} --quiet --out flags")).code(0);
        let printed = place.run(&format!("{line} --print-spec")).code(0).out;
        place.write("run.yaml", &printed);
        place.run("run --spec run.yaml --quiet --out spec").code(0);
        let file = format!("{policy}_execution_log.json");
        let log = place.read(&format!("flags/{file}"));
        assert_eq!(log, place.read(&format!("spec/{file}")), "{printed}");
        assert_eq!(log, by_library(&place, "run.yaml"), "{printed}");
    }
}

#[test]
fn flags_override_a_specification() {
    let place = Place::with_work("simple", 10);
    place.write(
        "run.yaml",
        "config: work/config.yaml\nrequests: work/requests.yaml\ncluster: {gpus: 4}\npolicy: {name: online, alpha: 2}\n",
    );
    let printed = place.run("run --spec run.yaml --gpus 8 --beta 3 --seed 5 --print-spec").code(0).out;
    for part in ["gpus: 8", "alpha: 2", "beta: 3", "seed: 5"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
    let printed = place.run("run --spec run.yaml --policy lru --print-spec").code(0).out;
    assert!(printed.contains("name: lru") && !printed.contains("alpha"), "{printed}");
}

#[test]
fn every_fault_of_a_specification_is_told_with_its_line() {
    let place = Place::new();
    place.write(
        "run.yaml",
        "config: c.yaml\nrequests: r.yaml\nmode: never\npolicy: {name: online, alhpa: 1}\nseed: -3\n",
    );
    let told = place.run("run --spec run.yaml").code(2).err;
    for part in ["run.yaml:3", "run.yaml:4", "`alpha`", "run.yaml:5", "docs/run-spec.md"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    place.write("run.yaml", "config: c.yaml\nrequests: r.yaml\nlive: {}\nfaults: {fail_rate: 0.5}\n");
    place.run("run --spec run.yaml").code(2).says("E117").says("faults.fail_rate");
    place.run("run --spec nowhere.yaml").code(2).says("--print-spec");
}

#[test]
fn schemas_are_printed() {
    let place = Place::new();
    for kind in ["config", "requests", "backends", "plan", "log", "spec"] {
        let schema = place.run(&format!("schema {kind}")).json(0);
        assert!(schema.is_object(), "{kind}");
    }
}
