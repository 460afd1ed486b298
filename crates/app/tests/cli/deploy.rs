//! `gswarm deploy`: makes deployments, and shows, checks and compares them.

use crate::support::Place;

#[test]
fn a_deployment_is_made_shown_checked_and_run() {
    let place = Place::with_work("simple", 20);
    let made = place.run("deploy --gpus 8 --gpus-per-server 4 @work").code(0);
    assert!(
        made.out.contains("8 GPUs in 2 servers") && made.out.contains("Wrote deployment.yaml"),
        "{}",
        made.out
    );
    place.run("deploy show deployment.yaml").code(0);
    let shown = place.run("deploy show deployment.yaml --json").json(0);
    assert_eq!((&shown["gpus"], &shown["gpus_per_server"]), (&8.into(), &4.into()));
    assert!(shown["predicted"]["requests_per_second"].as_f64() <= shown["predicted"]["at_most"].as_f64());
    let checked = place.run("deploy check deployment.yaml @work").code(0);
    assert!(checked.out.contains("is valid"), "{}", checked.out);
    // The deployment says on which GPUs.
    place.run("run --deployment deployment.yaml --quiet --out with @work").code(0);
    let log = "with/static_execution_log.json";
    assert_eq!(place.json(log)["summary"]["gpus"].as_array().unwrap().len(), 8);
    let assigned = &place.json(log)["summary"]["gpu_assignments"];
    for (model, placed) in shown["models"].as_object().unwrap() {
        for gpu in
            placed["replicas"].as_array().unwrap().iter().flat_map(|one| one["gpus"].as_array().unwrap())
        {
            let there = assigned[gpu.to_string()].as_array().unwrap();
            assert!(there.contains(&model.as_str().into()), "{model} on {gpu}: {assigned}");
        }
    }
    place.run(&format!("check {log} @work")).code(0);
    // Without the file, `static` works the same one out.
    place.run("run --policy static --gpus 8 --gpus-per-server 4 --quiet --out without @work").code(0);
    assert_eq!(place.read(log), place.read("without/static_execution_log.json"));
}

#[test]
fn rates_alone_make_a_deployment() {
    let place = Place::with_work("complex", 5);
    let config = "--config work/config.yaml";
    let unknown = place.run(&format!("deploy --gpus 16 --rate nothing=1 {config}")).code(2);
    let known = unknown.says("there is no workflow `nothing`").err;
    let workflow = known.split("there are ").nth(1).unwrap().split([',', '\n']).next().unwrap();
    let made = place.run(&format!("deploy --gpus 16 --rate {workflow}=0.01 {config} --out d.json --json"));
    let made = made.json(0);
    assert_eq!(made["made_for"]["unit"], "per_second");
    assert_eq!(made, place.json("d.json"));
    place.run(&format!("deploy --gpus 16 --rate {workflow}=-1 {config}")).code(2).says("requests a second");
    place.run(&format!("deploy --gpus 16 {config}")).code(2).says("--requests");
}

#[test]
fn faults_of_a_deployment_are_told_at_once() {
    let place = Place::with_work("simple", 5);
    place.run("deploy --gpus 8 --out good.json @work").code(0);
    let mut bad = place.json("good.json");
    let models = bad["models"].as_object_mut().unwrap();
    let first = models.keys().next().unwrap().clone();
    models[&first]["replicas"][0]["gpus"] = serde_json::json!([99]);
    let moved = models[&first].clone();
    models.insert("stranger".to_owned(), moved);
    place.write("bad.json", &bad.to_string());
    for line in ["deploy check bad.json @work", "run --deployment bad.json @work"] {
        let told = place.run(line).code(2);
        assert!(told.err.contains("E104") && told.err.contains("E118"), "{line}: {}", told.err);
    }
    place.run("run --deployment good.json --gpus 4 @work").code(2).says("is for 8 GPUs");
    place.run("run --deployment none.yaml @work").code(2).says("gswarm deploy");
    place.run("run --policy lru --deployment good.json @work").code(2).says("--policy static");
    place.run("deploy show bad.yaml").code(2);
}

#[test]
fn two_deployments_are_compared() {
    let place = Place::with_work("simple", 20);
    place.run("deploy --gpus 8 --out one.yaml @work").code(0);
    place.run("deploy --gpus 8 --gpus-per-server 4 --out two.yaml @work").code(0);
    let same = place.run("deploy diff one.yaml one.yaml --json").json(0);
    assert_eq!((same["loads"].as_array().unwrap().len(), same["unloads"].as_array().unwrap().len()), (0, 0));
    let text = place.run("deploy diff one.yaml two.yaml").code(0).out;
    assert!(text.contains("to load") && text.contains("throughput"), "{text}");
}
