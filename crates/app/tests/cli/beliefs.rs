//! Runs whose true times are not what is expected of them.

use crate::support::{Place, inputs};
use serde_json::Value;

fn line(policy: &str, flags: &str) -> String {
    format!("run --policy {policy} @work --seed 5 --quiet {flags}")
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
        place.run(&format!("check @work one/{file}")).code(0);
        place.write("other.json", &log("one").replace("lognormal:0.5", "lognormal:0.4"));
        let other = place.run("check @work other.json").code(1);
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

/// A folder with a log, a predictor that was trained on it, and the same work with no time given anywhere.
fn untimed() -> Place {
    let place = Place::with_work("simple", 40);
    place.run(&line("baseline", "--out a")).code(0);
    let log = "a/baseline_execution_log.json";
    place.run(&format!("train --data {log} @work --trees 20 --out n.model --quiet")).code(0);
    let without = |text: String, drop: &dyn Fn(&str) -> bool| {
        text.lines().filter(|line| !drop(line)).map(|line| format!("{line}\n")).collect::<String>()
    };
    std::fs::create_dir(place.path("bare")).unwrap();
    let config = place.read("work/config.yaml");
    let timed = ["tokens_per_second", "token_mean", "token_std", "inference_time"];
    let config = without(config, &|line| timed.iter().any(|field| line.trim().starts_with(field)));
    place.write("bare/config.yaml", &config);
    let mut inside = false;
    let mut requests = String::new();
    for line in place.read("work/requests.yaml").lines() {
        let depth = line.len() - line.trim_start().len();
        inside = line.trim() == "node_execution_times:" || (inside && depth > 4);
        if !inside {
            requests.push_str(&format!("{line}\n"));
        }
    }
    place.write("bare/requests.yaml", &requests);
    place
}

#[test]
fn nodes_without_any_time_take_what_the_predictor_says() {
    let place = untimed();
    let bare = inputs("bare");
    place.run(&format!("run --policy baseline {bare} --gpus 4 --out b")).code(2).says("E111");
    // What is true cannot come from requests that say nothing.
    let truthful =
        format!("run --policy baseline {bare} --gpus 4 --predictor n.model --truth requests --out b");
    place.run(&truthful).code(2).says("E111");
    for policy in ["baseline", "planned", "adaptive"] {
        let run =
            format!("run --policy {policy} {bare} --gpus 4 --predictor n.model --learn --quiet --out b");
        place.run(&run).code(0);
        let log = place.json(&format!("b/{policy}_execution_log.json"));
        for one in log["executions"].as_array().unwrap() {
            let [low, mean, high] = ["predicted_low", "estimated_time", "predicted_high"]
                .map(|field| one[field].as_f64().unwrap());
            assert!(low <= high && low < 2.0 * mean && mean > 0.1, "{one}");
        }
        place.run(&format!("check b/{policy}_execution_log.json {bare} --predictor n.model --quiet")).code(0);
    }
    place
        .run(&format!("plan {bare} --gpus 4 --predictor n.model --budget 1h --rounds 2 --quiet --out c"))
        .code(0);
    place.run(&format!("check c/planned_execution_log.json {bare} --predictor n.model")).code(0);
}

#[test]
fn estimates_of_a_predictor_are_made_again_by_the_check() {
    let place = untimed();
    let bare = inputs("bare");
    let run = format!("run --policy baseline {bare} --gpus 4 --predictor n.model --quiet --out b");
    place.run(&run).code(0);
    let file = "b/baseline_execution_log.json";
    let log = place.read(file);
    for field in ["estimated_time", "predicted_low", "predicted_high"] {
        let (before, after) = log.split_once(&format!("\"{field}\": ")).unwrap();
        let (value, after) = after.split_once(',').unwrap();
        let other: f64 = value.trim_end_matches('}').parse::<f64>().unwrap() + 0.5;
        place.write("other.json", &format!("{before}\"{field}\": {other},{after}"));
        let found = place.run(&format!("check other.json {bare} --predictor n.model")).code(1);
        assert!(found.out.contains(field), "{}", found.out);
    }
    // Another predictor would have said other things.
    let log_of_training = "a/baseline_execution_log.json";
    place.run(&format!("train --data {log_of_training} @work --trees 3 --out o.model")).code(0);
    let other = place.run(&format!("check {file} {bare} --predictor o.model")).code(1);
    let told = "is o.model the predictor of this run? Its log names n.model";
    assert!(other.err.contains(told) && !other.err.contains("--calibration"), "{}", other.err);
    let says = |field: &str| {
        other.out.lines().any(|line| line.contains(field) && line.contains("the predictor says"))
    };
    assert!(says("estimated_time") && !other.out.contains("the node takes"), "{}", other.out);
    place
        .run(&format!("check {log_of_training} @work --predictor n.model"))
        .code(2)
        .says("was not made with a predictor");
}

#[test]
fn a_predictor_is_tried_out_on_the_times_of_requests_and_checked() {
    let place = untimed();
    let flags = "--predictor n.model --truth requests --learn --out t";
    place.run(&line("adaptive", flags)).code(0);
    let check = "check t/adaptive_execution_log.json @work --predictor n.model".to_owned();
    place.run(&check).code(0);
}

#[test]
fn a_run_says_how_well_it_was_predicted_and_learned() {
    let place = untimed();
    let run = "run --policy baseline @work --gpus 4 --seed 5 --out p".to_owned();
    let flags = "--predictor n.model --truth requests --learn --drift 1.5@50";
    let told = place.run(&format!("{run} {flags} --json")).json(0);
    assert_eq!((&told["predictor"], &told["learn"]), (&Value::from("n.model"), &Value::from(true)));
    // The figures are those of the log's records.
    let log = place.json("p/baseline_execution_log.json");
    let all = log["executions"].as_array().unwrap();
    let found = &told["predictions"];
    assert_eq!((&found["predicted"], &found["not_predicted"]), (&Value::from(all.len()), &Value::from(0)));
    let fields = [
        ("predictor", ["estimated_time", "predicted_low", "predicted_high"]),
        ("learned", ["expected_time", "expected_low", "expected_high"]),
    ];
    for (name, fields) in fields {
        let rows = || {
            let number = |one: &Value, field: &str| one[field].as_f64().unwrap();
            all.iter().map(move |one| (fields.map(|field| number(one, field)), number(one, "execution_time")))
        };
        let count = all.len() as f64;
        let error = rows().map(|([mean, ..], took)| (mean - took).abs()).sum::<f64>() / count;
        let within = rows().filter(|&([_, low, high], took)| low <= took && took <= high).count();
        let accuracy = |field: &str| found[name][field].as_f64().unwrap();
        assert_eq!(found[name]["executions"], all.len(), "{name}");
        assert!((accuracy("mean_absolute_error_seconds") - error).abs() < 1e-5, "{name}: {found}");
        assert!((accuracy("interval_coverage") - within as f64 / count).abs() < 1e-9, "{name}: {found}");
        assert!(accuracy("relative_error") > 0.0 && accuracy("bias") < 0.0, "{name}: {found}");
    }
    let learned = found["models"].as_array().unwrap().iter();
    assert!(learned.clone().any(|model| model["factor"].as_f64().unwrap() > 1.2), "{found}");
    let text = place.run(&format!("{run} {flags}")).code(0).out;
    assert!(found["shared"] == 0 && !text.contains("Not compared"), "{text}");
    for said in ["Predictor            n.model", "within their 90% interval", "times the estimate"] {
        assert!(text.contains(said), "{said}\n{text}");
    }
    // Where predictions are taken to be true there is nothing to judge, and without any there is nothing to say.
    let bare = "run --policy baseline @bare --gpus 4 --predictor n.model --json --out q".to_owned();
    let estimate = place.run(&bare).json(0);
    assert_eq!(estimate["predictions"]["predicted"], all.len());
    assert_eq!(estimate["predictions"].get("predictor"), None);
    let plain = place.run(&format!("{run} --json")).json(0);
    assert_eq!((plain.get("predictions"), &plain["predictor"]), (None, &Value::Null));
}

#[test]
fn a_predictor_that_has_nothing_to_say_is_not_named_as_used() {
    let place = untimed();
    let run = "run --policy baseline @work --gpus 4 --predictor n.model --out u".to_owned();
    let done = place.run(&run).code(0).says("`predictor` n.model is not used");
    assert_eq!(done.err.matches("not used").count(), 1, "{}", done.err);
    let log = place.json("u/baseline_execution_log.json");
    assert_eq!(log["summary"].get("predictor"), None);
    let plan = "plan @work --gpus 4 --predictor n.model --budget 1h --rounds 1 --json --out c".to_owned();
    place.run(&plan).code(0).says("is not used");
}

#[test]
fn means_only_says_where_it_does_nothing() {
    let place = untimed();
    let of = |folder: &str, flags: &str| {
        let run = format!("run --policy baseline {} --gpus 4 --out m {flags}", inputs(folder));
        place.run(&run).code(0).err.matches("`means_only` has no effect").count()
    };
    let idle = [
        ("work", "--means-only"),
        ("work", "--means-only --json"),
        ("work", "--means-only --drift 1.3@0 --learn"),
        ("work", "--means-only --noise lognormal:0"),
        ("work", "--means-only --predictor n.model --truth requests"),
        ("bare", "--means-only --predictor n.model"),
        // Policies go by the predictor's interval of each node.
        ("bare", "--means-only --predictor n.model --noise lognormal:0.2"),
    ];
    idle.iter().for_each(|(folder, flags)| assert_eq!(of(folder, flags), 1, "{folder} {flags}"));
    let others = [
        ("work", "--means-only --quiet"),
        ("work", "--noise lognormal:0.2"),
        ("work", "--means-only --noise lognormal:0.2"),
        ("work", "--means-only --noise lognormal:0.2 --predictor n.model"),
    ];
    others.iter().for_each(|(folder, flags)| assert_eq!(of(folder, flags), 0, "{folder} {flags}"));
}

#[test]
fn what_is_no_predictor_is_told_once_with_its_place() {
    let place = Place::with_work("simple", 3);
    let bad = place.run(&line("baseline", "--predictor work/config.yaml")).code(2);
    assert!(bad.err.starts_with("error[E511]: "), "{}", bad.err);
    bad.says("--> work/config.yaml");
    // More than is read of any file, and not a byte of it on the disk.
    std::fs::File::create(place.path("big.model")).unwrap().set_len(3 << 30).unwrap();
    let big = place.run(&line("baseline", "--predictor big.model")).code(2).says("E007");
    assert!(big.err.contains("right file") && !big.err.contains("split the requests"), "{}", big.err);
}

/// Lengths of prompts were once taken for seconds.
#[test]
fn a_predictor_of_something_else_than_times_is_refused_by_all_who_ask_one() {
    let place = untimed();
    let train = "train --data a/baseline_execution_log.json @work --trees 3 --quiet".to_owned();
    place.run(&format!("{train} --target prompt_length --features model,node --out p.model")).code(0);
    place.run(&line("baseline", "--gpus 4 --out b --predictor n.model --truth requests")).code(0);
    for command in [
        line("baseline", "--predictor p.model --truth requests --learn"),
        "plan @bare --gpus 4 --predictor p.model --out c".to_owned(),
        "check b/baseline_execution_log.json @work --predictor p.model".to_owned(),
    ] {
        place.run(&command).code(2).says("E514").says("`prompt_length`").says("gswarm train");
    }
}

/// Such a run once said nothing of errors, nor why.
#[test]
fn executions_that_shared_a_replica_are_counted_where_they_are_not_judged() {
    let place = untimed();
    let batched = place.read("work/config.yaml").replace(
        "    memory_gb:",
        "    batching: {max_batch: 4, slowdown: [[1, 1.0], [4, 1.5]]}\n    memory_gb:",
    );
    place.write("work/config.yaml", &batched);
    let run = "run --policy baseline @work --gpus 4 --seed 5 --out s".to_owned();
    let flags = "--predictor n.model --truth requests --learn";
    let told = place.run(&format!("{run} {flags} --json")).json(0);
    let found = &told["predictions"];
    let [all, shared] = ["predicted", "shared"].map(|field| found[field].as_u64().unwrap());
    let judged = found["predictor"]["executions"].as_u64().unwrap_or(0);
    assert!(shared > 0 && all == judged + shared, "{found}");
    let text = place.run(&format!("{run} {flags}")).code(0).out;
    assert!(text.contains(&format!("Not compared         {shared} executions")), "{text}");
}

/// Predictions were once made anew when an execution began, with what its node took last: mostly noise.
#[test]
fn learning_costs_nothing_where_times_are_as_they_were() {
    let place = Place::with_work("simple", 300);
    let noise = "--gpus 8 --noise lognormal:0.2";
    place.run(&line("adaptive", &format!("{noise} --out a"))).code(0);
    let log = "a/adaptive_execution_log.json";
    place.run(&format!("train --data {log} @work --out n.model --quiet")).code(0);
    place.run("generate --preset simple --requests 300 --seed 8 --out other").code(0);
    for policy in ["adaptive", "baseline"] {
        let flags = format!("{noise} --predictor n.model --truth requests --learn --json --out {policy}");
        let told = place.run(&format!("run --policy {policy} @other {flags}")).code(0).out;
        let told: Value = serde_json::from_str(&told).unwrap();
        let found = &told["predictions"];
        let error = |whose: &str| found[whose]["mean_absolute_error_seconds"].as_f64().unwrap();
        assert!(error("learned") < error("predictor") * 1.02, "{policy}: {found}");
        let factors = found["models"].as_array().unwrap();
        for model in factors {
            let factor = model["factor"].as_f64().unwrap();
            assert!((factor - 1.0).abs() < 0.12, "{policy}: {found}");
        }
    }
}

/// The other way round: where a model is slow for a while, its last executions tell of the next.
#[test]
fn a_predictor_of_times_that_hang_together_expects_them_by_its_last_ones() {
    let place = Place::with_work("simple", 300);
    let spells: String =
        (1..9).map(|at| format!("--drift {}@{}s ", if at % 2 == 1 { 2.0 } else { 0.5 }, at * 600)).collect();
    let flags = format!("--gpus 8 --noise lognormal:0.05 {spells}");
    place.run(&line("adaptive", &format!("{flags} --out a"))).code(0);
    let train = "train --data a/adaptive_execution_log.json @work".to_owned();
    let told = place.run(&format!("{train} --out with.model")).code(0).out;
    assert!(told.contains("carries over to its next execution"), "{told}");
    place.run(&format!("{train} --leave-out history --out without.model --quiet")).code(0);
    place.run("generate --preset simple --requests 300 --seed 8 --out other").code(0);
    let errors = ["with", "without"].map(|model| {
        let flags =
            format!("{flags} --predictor {model}.model --truth requests --learn --json --out {model}");
        let told = place.run(&format!("run --policy adaptive @other {flags}")).code(0).out;
        let told: Value = serde_json::from_str(&told).unwrap();
        let log = format!("{model}/adaptive_execution_log.json");
        place.run(&format!("check {log} @other --predictor {model}.model")).code(0);
        ["predictor", "learned"]
            .map(|whose| told["predictions"][whose]["mean_absolute_error_seconds"].as_f64().unwrap())
    });
    let [[alone, with], [_, without]] = errors;
    assert!(with < 0.9 * alone && with < 0.85 * without, "{errors:?}");
}

/// What executions took in batches was once learned as what they take alone, and slowed down again in the run.
#[test]
fn what_is_learned_from_batches_is_what_executions_take_alone() {
    let place = Place::new();
    let config = "
models:
  chat:
    {memory_gb: 16, gpus_required: 1, load_time_seconds: 10, inference_time_mean: 5,
     batching: {max_batch: 16, slowdown: [[1, 1.0], [8, 1.2], [16, 1.5]]}}
workflows:
  answer: {nodes: [{id: reply, model: chat}], edges: []}
";
    place.write("config.yaml", config);
    let requests = |shift: usize, timed: bool| {
        let request = |at: usize| {
            let tokens = 50 + (at * 37 + shift) % 400;
            let time = if timed {
                format!("node_execution_times: {{reply: {}}}, ", tokens as f64 / 60.0)
            } else {
                String::new()
            };
            format!(
                "- {{request_id: r{at}, workflow_id: answer, {time}node_configs: {{reply: {{max_length: {tokens}}}}}}}\n"
            )
        };
        format!("requests:\n{}", (0..400).map(request).collect::<String>())
    };
    place.write("seen.yaml", &requests(0, true));
    place.write("given.yaml", &requests(11, true));
    place.write("asked.yaml", &requests(11, false));
    let run = |requests: &str, flags: &str| {
        let line = format!(
            "run --policy adaptive --gpus 2 --config config.yaml --requests {requests} --json --out {requests}.out {flags}"
        );
        let told = place.run(&line).json(0);
        told["makespan_seconds"].as_f64().unwrap()
    };
    run("seen.yaml", "");
    let log = "seen.yaml.out/adaptive_execution_log.json";
    assert!(place.read(log).contains("\"batch_size\": 16") || place.read(log).contains("\"batch_size\":16"));
    place
        .run(&format!("train --data {log} --config config.yaml --requests seen.yaml --quiet --out m.model"))
        .code(0);
    let (truth, predicted) = (run("given.yaml", ""), run("asked.yaml", "--predictor m.model"));
    assert!((predicted / truth - 1.0).abs() < 0.03, "{predicted} for {truth}");
}

const VARYING: &str = "
models:
  m: {name: m, memory_gb: 8, gpus_required: 1, load_time_seconds: 5, inference_time_mean: 10, inference_time_std: 3}
workflows:
  w: {name: w, nodes: [{id: a, model: m}, {id: b, model: m}], edges: [{from: a, to: b}]}
cluster: {gpus: 2}
";

#[test]
fn deviations_of_the_configuration_are_the_noise_of_a_run() {
    let place = Place::new();
    place.write("config.yaml", VARYING);
    let requests: String =
        (0..20).map(|n| format!("- {{request_id: r{n}, timestamp: {n}, workflow_id: w}}\n")).collect();
    place.write("requests.yaml", &format!("requests:\n{requests}"));
    let files = "--config config.yaml --requests requests.yaml";
    let run = |flags: &str| place.run(&format!("run --policy online --mode online {files} {flags}")).code(0);
    let said = run("--out varied");
    assert!(said.err.contains("`inference_time_std`"), "{}", said.err);
    let silent = run("--noise none --out exact");
    assert!(!silent.err.contains("_std"), "{}", silent.err);
    run("--noise config --means-only --out told");
    let log = |folder: &str| -> Value {
        serde_json::from_str(&place.read(&format!("{folder}/online_execution_log.json"))).unwrap()
    };
    let off = |folder: &str| {
        let log = log(folder);
        let all = log["executions"].as_array().unwrap().clone();
        all.iter().filter(|one| one["execution_time"] != one["estimated_time"]).count()
    };
    assert_eq!((off("varied"), off("exact"), off("told")), (40, 0, 40));
    assert_eq!(log("varied")["summary"]["truth"]["noise"], "config");
    assert!(log("exact")["summary"]["truth"].is_null());
    place.run(&format!("check {files} varied/online_execution_log.json")).code(0);
}
