use crate::support::Place;

#[test]
fn files_that_are_there_are_kept() {
    let place = Place::with_work("simple", 2);
    let before = place.read("work/requests.yaml");
    let again = "generate --preset simple --requests 9 --out work";
    place.run(again).code(2).says("--force");
    assert_eq!(place.read("work/requests.yaml"), before);
    place.run(&format!("{again} --force")).code(0);
    assert_ne!(place.read("work/requests.yaml"), before);
}

#[test]
fn the_ending_decides_the_form() {
    let place = Place::new();
    place.run("generate config --preset complex --out c.json").code(0);
    place.run("generate config --preset complex --out c.yaml").code(0);
    assert!(place.read("c.json").starts_with("{\n  \"$schema\": \"config.schema.json\",\n  \"models\":"));
    assert!(place.read("c.yaml").starts_with("# yaml-language-server: $schema=config.schema.json\nmodels:"));
    place.run("generate config --preset complex --out c.txt").code(2).says(".yaml");
    assert_eq!(place.names(), ["c.json", "c.yaml", "config.schema.json"]);
    assert_eq!(place.read("config.schema.json"), place.run("schema config").code(0).out);
}

#[test]
fn every_form_and_arrival_process_can_be_run() {
    let place = Place::new();
    for (form, arrivals) in [("json", "poisson"), ("yaml", "bursty"), ("json", "diurnal")] {
        place.run(&format!("generate config --preset complex --out c.{form} --force")).code(0);
        let requests = format!(
            "generate requests --config c.{form} --requests 40 --duration 5min --arrivals {arrivals} \
             --mix voice_answer=2,code_change=1 --seed 8 --out r.{form} --force"
        );
        place.run(&requests).code(0);
        assert!(!place.read(&format!("r.{form}")).contains("illustrated_report"));
        place
            .run(&format!(
                "run --policy baseline --mode online --quiet --gpus 8 --config c.{form} --requests r.{form}"
            ))
            .code(0);
    }
}

#[test]
fn the_seed_decides() {
    let place = Place::new();
    let make = |seed: u32| {
        place
            .run(&format!("generate --preset simple --requests 50 --seed {seed} --out work --force"))
            .code(0);
        place.read("work/requests.yaml")
    };
    let one = make(1);
    assert_eq!(make(1), one);
    assert_ne!(make(2), one);
}

#[test]
fn a_workflow_that_is_not_there_is_named() {
    let place = Place::with_work("simple", 2);
    place
        .run("generate requests --config work/config.yaml --mix nothing=1 --out r.yaml")
        .code(2)
        .says("nothing")
        .says("illustrate");
    assert_eq!(place.names(), ["work"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::with_work("simple", 2);
    let generate = "generate requests --config work/config.yaml";
    for (flags, part) in [
        ("--requests 0", "--requests"),
        ("--requests -3", "--requests"),
        ("--seed -1", "--seed"),
        ("--duration -5", "above zero"),
        ("--duration -5min", "above zero"),
        ("--mix essay=1,essay=2", "twice"),
    ] {
        place.run(&format!("{generate} {flags}")).code(2).says(part);
    }
}
