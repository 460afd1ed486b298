use crate::support::{Place, inputs};

#[test]
fn without_a_command_the_sample_runs_under_every_policy() {
    let place = Place::new();
    let done = place.run("").code(0);
    assert!(done.out.contains("gap %") && done.out.contains("--gpus 16"), "{}", done.out);
    assert!(done.out.contains("static keeps several models"), "{}", done.out);
    let table = done.out.lines().filter(|line| line.starts_with('|'));
    assert!(table.clone().count() > 2 && table.into_iter().all(|line| line.len() <= 80), "{}", done.out);
    assert!(done.out.contains("gswarm-out/sample-1"), "{}", done.out);
    // What is recommended is what has the star, and that is the first of its table but for yardsticks.
    let starred = |line: &&str| line.starts_with('|') && line.contains(" * ");
    let stars: Vec<&str> =
        done.out.lines().filter(starred).map(|line| line[2..].split(' ').next().unwrap()).collect();
    let [batch, stream] = stars[..] else { panic!("{}", done.out) };
    assert!(
        done.out.contains(&format!("`{batch}` wins the batch and `{stream}` the stream")),
        "{}",
        done.out
    );
    assert!(done.out.contains(&format!("gswarm run --policy {stream} --mode online")), "{}", done.out);
    let policies: serde_json::Value = serde_json::from_str(&place.run("policies --json").out).unwrap();
    for policy in policies.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        if policy["modes"].as_array().unwrap().iter().any(|mode| mode == "offline") {
            assert!(done.out.contains(&format!("| {name}")), "{name} is not in\n{}", done.out);
            let log = format!("gswarm-out/sample-1/{name}_execution_log.json");
            place.run(&format!("check --quiet {log} {}", inputs("gswarm-out/sample-1"))).code(0);
        }
    }
}

#[test]
fn an_earlier_sample_is_never_touched() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("gswarm-out/sample-1")).unwrap();
    place.write("gswarm-out/sample-1/config.yaml", "mine");
    assert!(place.run("").code(0).out.contains("sample-2"));
    assert_eq!(place.read("gswarm-out/sample-1/config.yaml"), "mine");
    place.run("--out gswarm-out").code(2).says("already exists");
}

#[test]
fn samples_that_start_together_get_folders_of_their_own() {
    let place = Place::new();
    let children: Vec<_> = (0..3)
        .map(|_| {
            place.command("").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()
        })
        .collect();
    for child in children {
        assert!(child.unwrap().wait().unwrap().success());
    }
    for number in 1..=3 {
        assert!(place.path(&format!("gswarm-out/sample-{number}/config.yaml")).exists());
    }
}
