use gswarm_core::input::{Code, Scenario, Source, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_core::log_file::LogFile;
use gswarm_learn::nodes::{HISTORY, NodeEncoder, TARGET, executions};
use gswarm_learn::train::{TrainOptions, Trained};
use gswarm_learn::{FitSettings, PredictorKind, encode, fit};
use std::fmt::Write;

const CONFIG: &str = "
models:
  llm: {memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8.5}
  image: {memory_gb: 14, gpus_required: 1, load_time_seconds: 30, inference_time_mean: 8.5}
workflows:
  draw: {nodes: [{id: write, model: llm}, {id: paint, model: image}], edges: [{from: write, to: paint}]}
";
const REQUESTS: usize = 120;

/// Requests of which the second node takes a tenth of a second a step.
fn given() -> (Scenario, String) {
    given_with(&|_| 1.0)
}

/// The same, the second node of each taking so many times as long.
fn given_with(factor: &dyn Fn(usize) -> f64) -> (Scenario, String) {
    let (mut requests, mut log) = (String::from("requests:\n"), String::from("{\"executions\": ["));
    for request in 0..REQUESTS {
        let (steps, prompt) = (10 + request % 7 * 5, "x".repeat(request % 11 + 1));
        let _ = writeln!(
            requests,
            "- {{request_id: r{request}, workflow_id: draw, input_data: {{prompt: {prompt}}}, \
             node_configs: {{paint: {{steps: {steps}, size: 1024x1024, hd: true}}}}}}"
        );
        let (start, took) = (request as f64 * 20.0, steps as f64 * 0.1 * factor(request));
        for (node, model, from, to) in [
            ("write", "llm", start, start + 2.0 + request as f64 % 3.0),
            ("paint", "image", start + 5.0, start + 5.0 + took),
        ] {
            let _ = write!(
                log,
                "{}{{\"request_id\": \"r{request}\", \"workflow_id\": \"draw\", \"node_id\": \"{node}\", \"model_name\": \"{model}\", \
                 \"gpu_id\": 0, \"status\": \"completed\", \"batch_size\": 1, \"start_time\": {from}, \"end_time\": {to}}}",
                if request == 0 && node == "write" { "" } else { ", " },
            );
        }
    }
    log.push_str("]}");
    let source = |name, text: &'static str| Source { name, bytes: text.as_bytes() };
    let requests = Source { name: "requests", bytes: requests.as_bytes() };
    (read_scenario(source("config", CONFIG), requests, Mode::Offline).scenario.unwrap(), log)
}

#[test]
fn execution_times_are_learned_from_a_log_and_predicted_for_its_nodes() {
    let (scenario, log) = given();
    let found = executions("log.json", &LogFile::read(&log), &scenario).unwrap();
    let rows = found.table();
    let names: Vec<&str> = rows.columns().iter().map(|column| column.name.as_str()).collect();
    let expected =
        ["model", "workflow", "node", "prompt_length", "batch", "config.hd", "config.steps", TARGET];
    assert_eq!(names, expected);
    assert_eq!(rows.rows(), 2 * REQUESTS);
    let features: Vec<String> = names[..names.len() - 1].iter().map(ToString::to_string).collect();
    let predictor = fit(rows, TARGET, &features, &FitSettings::new(PredictorKind::GradientBoosting)).unwrap();
    // The row of a node that is about to run is the one that its log would give.
    let encoder = NodeEncoder::new("m.model", &predictor).unwrap();
    let request = &scenario.requests[3];
    let mut row = Vec::new();
    encoder.encode(&scenario, request, 1, 1, &mut row);
    let logged = encode(predictor.features(), rows).unwrap();
    assert_eq!(row, logged.row(3 * 2 + 1), "steps and all");
    assert!((predictor.predict_row(&row).mean - 2.5).abs() < 0.2, "{:?}", predictor.predict_row(&row));
    assert_eq!(row[encoder.batch().unwrap()], 1.0);
}

#[test]
fn a_log_of_other_requests_is_refused() {
    let (scenario, log) = given();
    let found =
        executions("log.json", &LogFile::read(&log.replace("\"r7\"", "\"r7000\"")), &scenario).unwrap_err();
    assert_eq!(found.iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::UnknownNode; 2]);
    let found = executions("log.json", &LogFile::read("{\"executions\": []}"), &scenario).unwrap_err();
    assert_eq!(found[0].code, Code::NoContent);
    assert!(executions("log.json", &LogFile::read("no log"), &scenario).is_err());
}

#[test]
fn a_model_of_other_things_predicts_no_nodes() {
    let runs = crate::support::runs(200, 0.1, 41);
    let predictor =
        fit(&runs, "seconds", &crate::support::features(), &crate::support::small(PredictorKind::Linear))
            .unwrap();
    let found = NodeEncoder::new("m.model", &predictor).unwrap_err();
    assert_eq!(found.iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::OtherFeatures; 3]);
}

/// Characters and milliseconds were once taken for seconds.
#[test]
fn a_model_of_another_target_predicts_no_nodes() {
    let (scenario, log) = given();
    let rows = executions("log.json", &LogFile::read(&log), &scenario).unwrap();
    let settings = crate::support::small(PredictorKind::Linear);
    let predictor = fit(rows.table(), "prompt_length", &["model".to_owned()], &settings).unwrap();
    let found = NodeEncoder::new("m.model", &predictor).unwrap_err();
    assert_eq!(found.iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::OtherFeatures]);
    assert!(found[0].message.contains("`prompt_length`"), "{found:?}");
}

/// Executions listed twice were once both learned from and tested on.
#[test]
fn executions_that_cannot_be_true_are_refused_with_their_line() {
    let (scenario, log) = given();
    let log = log.replace("}, ", "},\n");
    let lines: Vec<&str> = log.lines().collect();
    let record = lines[1].trim_end_matches(',');
    let with = |other: String| {
        let mut lines = lines.clone();
        lines[1] = &other;
        executions("log.json", &LogFile::read(&lines.join("\n")), &scenario).map(|_| ())
    };
    assert_eq!(with(format!("{record},")), Ok(()));
    let cases = [
        (record.replace("\"image\"", "\"imagine\""), Code::UnknownModel),
        (record.replace("\"batch_size\": 1", "\"batch_size\": 0"), Code::NotPositive),
        (record.replace("\"start_time\": 5", "\"start_time\": -5"), Code::Negative),
        (record.replace("\"start_time\": 5", "\"start_time\": 50"), Code::Negative),
        (record.replace("\"start_time\": 5, ", ""), Code::Missing),
        (format!("{record}, {record}"), Code::Duplicate),
        // Whatever else differs: a node is completed once.
        (format!("{record}, {}", record.replace("\"start_time\": 5", "\"start_time\": 4")), Code::Duplicate),
    ];
    for (other, code) in cases {
        assert_ne!(other, record);
        let found = with(format!("{other},")).unwrap_err();
        assert_eq!(found.iter().map(|fault| (fault.code, fault.line)).collect::<Vec<_>>(), [(code, Some(2))]);
        assert!(found[0].hint.as_ref().is_some_and(|hint| hint.contains("gswarm check")), "{found:?}");
    }
    // An attempt that failed before is no completed execution.
    let failed = record.replace("completed", "failed");
    assert_eq!(with(format!("{failed}, {record},")), Ok(()));
}

fn trained(factor: &dyn Fn(usize) -> f64, change: &dyn Fn(&mut TrainOptions)) -> Trained {
    let (scenario, log) = given_with(factor);
    let found = executions("log.json", &LogFile::read(&log), &scenario).unwrap();
    let mut options = TrainOptions::new(TARGET, crate::support::small(PredictorKind::GradientBoosting));
    change(&mut options);
    found.train(&options, &mut |_| ()).unwrap()
}

/// A number between 0.8 and 1.2 that hangs on nothing.
fn noise(request: usize) -> f64 {
    0.8 + 0.4 * ((request as f64 * 12.9898).sin() * 43758.5453).fract().abs()
}

/// Twice as slow for 20 requests, and as ever for the next 20.
fn spells(request: usize) -> f64 {
    noise(request) * if (request / 20).is_multiple_of(2) { 1.0 } else { 2.0 }
}

#[test]
fn what_executions_took_of_late_is_learned_from_where_it_tells_of_the_next() {
    let found = trained(&spells, &|_| ());
    let told = found.report.history.expect("times hang together");
    assert_eq!(found.predictor.history(), Some(told.memory));
    assert!(told.memory.carries > 0.3, "{told:?}");
    assert!(told.mae < told.mae_without * 0.85, "{told:?}");
    let again = gswarm_learn::Predictor::from_bytes("m", &found.predictor.to_bytes().unwrap()).unwrap();
    assert_eq!(again.history(), Some(told.memory));
}

#[test]
fn noise_is_not_taken_for_a_history() {
    let found = trained(&noise, &|_| ());
    assert_eq!((found.predictor.history(), found.report.history), (None, None));
    assert!(
        found.report.notes.iter().any(|note| note.starts_with("`history` is omitted")),
        "{:?}",
        found.report.notes
    );
}

#[test]
fn a_history_that_is_not_wanted_is_not_tried() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let without = [
        trained(&spells, &|options| options.leave_out = names(&[HISTORY])),
        trained(&spells, &|options| options.features = Some(names(&["node", "config.steps"]))),
    ];
    for one in without {
        assert_eq!((one.predictor.history(), one.report.history), (None, None));
        assert!(one.report.notes.iter().all(|note| !note.contains(HISTORY)), "{:?}", one.report.notes);
    }
    let named =
        trained(&spells, &|options| options.features = Some(names(&["node", "config.steps", HISTORY])));
    assert!(named.predictor.history().is_some());
    assert_eq!(named.predictor.features().len(), 2);
}
