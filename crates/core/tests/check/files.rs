//! Logs written and read back.

use crate::support::*;
use gswarm_core::check;
use gswarm_core::input::ClusterSpec;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::{ExecutionLog, Load, Loss, Status};
use gswarm_core::log_file::{LogFile, Record, Summary, write_json, write_jsonl, write_parquet};
use gswarm_core::{GpuId, Gpus, ModelId, report};

fn texts(instance: &Instance, log: &ExecutionLog, summary: &Summary) -> [String; 2] {
    let (mut json, mut lines) = (Vec::new(), Vec::new());
    write_json(instance, log, summary, &mut json).unwrap();
    write_jsonl(instance, log, summary, &mut lines).unwrap();
    [String::from_utf8(json).unwrap(), String::from_utf8(lines).unwrap()]
}

/// A log with every field in use; it need not be valid.
fn full() -> (Instance, ExecutionLog) {
    let (mut instance, mut log) = simple();
    instance.requests[gswarm_core::RequestId(0)].name = "r \"1\" \\ é\n\u{1}".into();
    log.executions[0].evicted = Box::new([ModelId(1), ModelId(2)]);
    log.executions[0].attempt = 7;
    log.executions[1].end.0 += 1;
    log.executions[2].batch = 3;
    let load = |status, evicted: &[ModelId]| Load {
        model: ModelId(2),
        gpus: Gpus::new(2, 2),
        start: at(1.25),
        end: at(2.000_001),
        status,
        evicted: evicted.into(),
    };
    log.loads = vec![load(Status::Completed, &[]), load(Status::Lost, &[ModelId(0)])];
    log.losses = vec![Loss { gpu: GpuId(3), at: at(90.5), until: Some(at(91.0)) }];
    (instance, log)
}

#[test]
fn what_is_written_is_read_back() {
    let (instance, log) = full();
    for text in texts(&instance, &log, &summary(&instance, &log)) {
        let file = LogFile::read(&text);
        assert_eq!(file.faults, []);
        let (back, _) = check::read_back(&instance, &file);
        assert_eq!(back, log);
        assert_eq!(file.mode(), Some(Mode::Online));
    }
}

fn columns(instance: &Instance, log: &ExecutionLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_parquet(instance, log, &summary(instance, log), &mut bytes).unwrap();
    bytes
}

#[test]
fn columns_hold_what_lines_hold() {
    let (instance, log) = full();
    let [_, lines] = texts(&instance, &log, &summary(&instance, &log));
    let (lines, columns) = (LogFile::read(&lines), LogFile::read_bytes(&columns(&instance, &log)));
    assert_eq!(columns.faults, []);
    assert_eq!((columns.schema, columns.claims.clone()), (lines.schema, lines.claims.clone()));
    let named = |file: &LogFile, record: &Record| {
        let names = [record.request, record.workflow, record.node, record.model, record.status];
        let names = names.map(|name| name.map(|name| file.name(name).to_owned()));
        let evicted = record
            .evicted
            .as_ref()
            .map(|evicted| evicted.iter().map(|&name| file.name(name).to_owned()).collect::<Vec<_>>());
        let numbers = Record {
            line: 0,
            request: None,
            workflow: None,
            node: None,
            model: None,
            status: None,
            evicted: None,
            ..record.clone()
        };
        (names, evicted, numbers)
    };
    let all = |file: &LogFile| {
        let lists = [&file.executions, &file.loads, &file.lost_gpus, &file.unloads];
        lists.map(|list| list.iter().map(|record| named(file, record)).collect::<Vec<_>>())
    };
    assert_eq!(all(&columns), all(&lines));
    assert_eq!(check::read_back(&instance, &columns).0, log);
}

#[test]
fn damaged_columns_are_faults_and_never_a_panic() {
    let (instance, log) = full();
    let whole = columns(&instance, &log);
    for cut in (0..whole.len()).step_by(17) {
        let file = LogFile::read_bytes(&whole[..cut]);
        assert!(!file.faults.is_empty(), "cut at {cut}");
    }
    for place in (0..whole.len()).step_by(11) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << (place % 8);
        let _ = LogFile::read_bytes(&damaged);
    }
    // Where the rows are, nothing can change unseen.
    let mut damaged = whole.clone();
    damaged[whole.len() / 4] ^= 1;
    let faults = LogFile::read_bytes(&damaged).faults;
    assert!(faults.iter().any(|fault| fault.message.contains("checksum")), "{faults:?}");
}

#[test]
fn an_empty_run_is_read_back_from_both_forms() {
    let (instance, _) = simple();
    let log = ExecutionLog::default();
    for text in texts(&instance, &log, &summary(&instance, &log)) {
        let file = LogFile::read(&text);
        assert_eq!((file.faults.len(), file.executions.len()), (0, 0), "{text}");
    }
}

#[test]
fn both_forms_are_checked_alike_and_name_their_lines() {
    let (instance, log) = simple();
    let [json, lines] = texts(&instance, &log, &summary(&instance, &log));
    for text in [&json, &lines] {
        assert_eq!(check::check(&instance, &LogFile::read(text)), []);
        let found = check::check(
            &instance,
            &LogFile::read(&text.replace("\"end_time\": 86.0", "\"end_time\": \"x\"")),
        );
        let line = text.lines().position(|line| line.contains("\"end_time\": 86.0")).unwrap() as u32 + 1;
        assert_eq!(found[0].place.line, Some(line));
        assert!(found[0].message.contains("end_time cannot be \"x\""), "{}", found[0].message);
    }
    let cut = &lines[..lines.len() - 20];
    let found = check::check(&instance, &LogFile::read(cut));
    assert_eq!(found[0].place.line, Some(8));
}

#[test]
fn the_header_is_one_line_and_the_same_bytes_come_again() {
    let (instance, log) = full();
    let summary = summary(&instance, &log);
    let [json, lines] = texts(&instance, &log, &summary);
    assert_eq!(texts(&instance, &log, &summary), [json.clone(), lines.clone()]);
    assert_eq!(lines.lines().count(), 1 + 7 + 2 + 1);
    assert!(lines.starts_with("{\"kind\": \"header\", \"schema\": 1, \"summary\": {\"policy\":\"by hand\""));
    assert!(lines.contains(
        "{\"kind\": \"load\", \"model_name\": \"wide\", \"gpu_ids\": [2, 3], \"start_time\": 1.25"
    ));
    assert!(lines.contains("{\"kind\": \"lost_gpu\", \"gpu_id\": 3, \"time\": 90.5, \"until\": 91.0}"));
    assert!(json.contains("\"start_time\": 38.0, \"end_time\": 46.000001, \"execution_time\": 8.000001,"));
}

#[test]
fn the_summary_wins_over_the_configuration() {
    let (instance, log) = simple();
    let [json, _] = texts(&instance, &log, &summary(&instance, &log));
    let file = LogFile::read(&json);
    let (same, notes) = file.cluster(&ClusterSpec::default());
    assert_eq!((same, notes), (instance.cluster.clone(), vec![]));
    let other = ClusterSpec {
        gpus: Some(8),
        pcie_gb_per_s: Some(32.0),
        gpus_per_server: Some(2),
        ..ClusterSpec::default()
    };
    let (same, notes) = file.cluster(&other);
    assert_eq!(same, instance.cluster);
    assert_eq!(
        notes,
        [
            "gpus: the run was made with 4, the configuration says 8",
            "pcie_gb_per_s: the run was made with 16, the configuration says 32"
        ]
    );
    let (spec, _) = LogFile::read("{\"executions\": [{\"gpu_id\": 5}]}").cluster(&ClusterSpec::default());
    assert_eq!(spec.gpus, 6);
}

#[test]
fn a_static_run_says_where_its_models_are() {
    let (instance, log) = simple();
    let metrics = report::metrics(&instance, &log);
    let models = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let info = report::RunInfo {
        policy: "static".into(),
        simulate: true,
        gpu_assignments: Some(
            [
                (0, models(&["a", "b", "wide"])),
                (1, models(&["b", "wide"])),
                (2, models(&["wide"])),
                (3, models(&["wide"])),
            ]
            .into(),
        ),
        ..report::RunInfo::default()
    };
    let summary = report::summary(&instance, &metrics, info);
    assert_eq!(check::check_log(&instance, &log, Some(&summary)), []);
    let [json, _] = texts(&instance, &log, &summary);
    let claims = LogFile::read(&json).claims;
    assert_eq!(claims.server_assignments.unwrap()[&0], ["a", "b", "wide"]);
    assert_eq!((claims.intra_server_workflows, claims.inter_server_workflows), (Some(1), Some(2)));
    assert_eq!(claims.cross_server_communications, Some(2));
    // The published programs write the same beside the summary, in another shape, without a schema.
    let mut published: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(published["gpu_assignments"]["1"]["assigned_models"], serde_json::json!(["b", "wide"]));
    assert_eq!(published["server_assignments"]["0"]["gpu_ids"], serde_json::json!([0, 1]));
    published.as_object_mut().unwrap().remove("schema");
    let summary_of = published["summary"].as_object_mut().unwrap();
    for name in ["gpu_assignments", "server_assignments", "server_efficiency", "model_switches"] {
        summary_of.remove(name).unwrap();
    }
    let read = LogFile::read(&published.to_string()).claims;
    let ours = LogFile::read(&json).claims;
    assert_eq!(read.gpu_assignments, ours.gpu_assignments);
    assert_eq!(read.server_assignments, ours.server_assignments);
    assert_eq!(read.model_switches, ours.model_switches);
    assert!((read.server_efficiency.unwrap() - ours.server_efficiency.unwrap()).abs() < 1e-4);
    let text = report::render_text(&metrics, Some(&summary));
    assert!(text.contains("Deployment") && text.contains("GPU 1                b, wide"), "{text}");
}

#[test]
fn no_damage_to_the_bytes_makes_the_check_panic() {
    let (instance, log) = full();
    let summary = summary(&instance, &log);
    let mut seed = 1u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for text in texts(&instance, &log, &summary) {
        for _ in 0..1500 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(4) {
                    0 => bytes[at] = b"0189-.eE\"[]{},:x\xff\n"[next(18)],
                    1 => bytes.truncate(at.max(1)),
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0189-.eE\"[]{},:x\xff\n"[next(18)]),
                }
                bytes.push(b' ');
            }
            let file = LogFile::read_bytes(&bytes);
            let found = check::check(&instance, &file);
            let (back, _) = check::read_back(&instance, &file);
            let _ = (
                check::report(&found),
                report::metrics(&instance, &back),
                file.cluster(&ClusterSpec::default()),
            );
        }
    }
}
