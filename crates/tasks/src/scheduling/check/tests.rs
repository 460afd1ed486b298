//! Good logs pass; every damage is found, under its own rule.

use super::{TaskRule, check};
use crate::profile::described;
use crate::scheduling::{
    Estimates, Machine, PolicySettings, RunTimes, TaskArrivals, TaskLog, TaskPolicy, TaskRecord, Workload,
    WorkloadOptions, generate, schedule,
};
use gswarm_core::input::Code;
use gswarm_core::{Span, Time};

struct Case {
    workload: Workload,
    truths: Vec<RunTimes>,
    log: TaskLog,
}

fn case(policy: TaskPolicy) -> Case {
    let profile = described();
    let options = WorkloadOptions {
        tasks: 300,
        arrivals: TaskArrivals::Load(0.9),
        seed: 5,
        ..WorkloadOptions::default()
    };
    let workload = generate(&options, &profile).unwrap().workload;
    let estimates = Estimates::of_profile(&workload, &profile).unwrap();
    let machine = Machine::of(&profile, 4);
    let outcome = schedule(&workload, &machine, &estimates, policy, PolicySettings::default()).unwrap();
    Case { truths: workload.truths(&estimates), workload, log: outcome.log }
}

impl Case {
    fn rules(&self) -> Vec<TaskRule> {
        let mut rules: Vec<TaskRule> =
            check(&self.workload, &self.truths, &self.log).into_iter().map(|found| found.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Damages the first record that is of the wanted sort.
    fn damage(&mut self, wanted: impl Fn(&TaskRecord) -> bool, how: impl Fn(&mut TaskRecord)) {
        let found = self.log.records.iter_mut().map(|(_, record)| record).find(|record| wanted(record));
        how(found.expect("a record of this sort"));
    }
}

#[test]
fn every_policy_leaves_a_log_that_passes() {
    for policy in TaskPolicy::ALL {
        assert_eq!(case(policy).rules(), [], "{}", policy.name());
    }
}

#[test]
fn a_log_survives_its_file() {
    let case = case(TaskPolicy::Learned);
    let mut bytes = Vec::new();
    case.log.write(&mut bytes).unwrap();
    assert!(TaskLog::is_one(&bytes));
    let again = TaskLog::read("log", &bytes).unwrap();
    assert_eq!(again.records, case.log.records);
    assert!(check(&case.workload, &case.truths, &again).is_empty());
    assert!(TaskLog::read("log", b"").is_err() && TaskLog::read("log", b"{}\n{}\n").is_err());
}

#[test]
fn a_log_that_was_cut_off_says_so_once_with_its_line() {
    let case = case(TaskPolicy::Greedy);
    let mut bytes = Vec::new();
    case.log.write(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let first = |lines: usize| text.lines().take(lines).map(|line| format!("{line}\n")).collect::<String>();
    let refused = |text: &str| TaskLog::read("log", text.as_bytes()).unwrap_err();
    for (cut, line, tasks) in [(first(1), 1, 0), (first(100), 100, 99), (first(301), 301, 300)] {
        let fault = refused(&cut);
        assert_eq!((fault.code, fault.line), (Code::Truncated, Some(line)));
        let message = format!("the log ends after {tasks} of 300 tasks, without its summary");
        assert_eq!(fault.message, message);
        if tasks > 0 {
            // In the midst of a line, that line is no task.
            let fault = refused(&cut[..cut.len() - 5]);
            let message = format!("the log ends after {} of 300 tasks, without its summary", tasks - 1);
            assert_eq!((fault.code, fault.line, fault.message), (Code::Truncated, Some(line), message));
        }
    }
    // Blank lines count, and no line has two numbers.
    let fault = refused(&text.replacen("{\"task\"", "\n\n{\"tsk\"", 1));
    assert_eq!((fault.code, fault.line), (Code::WrongType, Some(4)));
    assert!(fault.message.contains("`tsk`") && !fault.message.contains("line"), "{}", fault.message);
}

#[test]
fn tasks_that_are_missing_twice_or_unknown_are_found() {
    let mut missing = case(TaskPolicy::Heft);
    missing.log.records.pop();
    assert!(missing.rules().contains(&TaskRule::Identity));
    let mut twice = case(TaskPolicy::Heft);
    let first = twice.log.records[0].clone();
    twice.log.records.push(first);
    assert_eq!(twice.rules(), [TaskRule::Identity]);
    let mut unknown = case(TaskPolicy::Heft);
    unknown.log.records[0].0 = "nobody".to_string();
    assert!(unknown.rules().contains(&TaskRule::Identity));
}

type Damage = fn(&mut TaskRecord);

#[test]
fn every_damage_to_a_record_is_found_under_its_rule() {
    let on_gpu =
        |record: &TaskRecord| record.gpu.is_some() && record.cpu.is_none() && record.ready > Time(1000);
    let damages: [(TaskRule, Damage); 9] = [
        (TaskRule::Share, |record| record.share = 1_000_001),
        (TaskRule::Share, |record| record.share = 0),
        (TaskRule::DeviceIndex, |record| record.gpu.as_mut().unwrap().gpu = 4),
        (TaskRule::Duration, |record| record.gpu.as_mut().unwrap().end.0 += 1),
        (TaskRule::Duration, |record| {
            let part = record.gpu.as_mut().unwrap();
            part.start.0 -= 1;
        }),
        (TaskRule::Transfer, |record| record.gpu.as_mut().unwrap().transfer_end.0 -= 1),
        (TaskRule::Transfer, |record| {
            let part = record.gpu.as_mut().unwrap();
            let length = part.end - part.start;
            part.start = part.transfer_start;
            part.end = part.start + length;
            record.finish = part.end;
        }),
        (TaskRule::Finish, |record| record.finish.0 += 1),
        (TaskRule::Early, |record| record.ready.0 += 1),
    ];
    for (at, (rule, how)) in damages.into_iter().enumerate() {
        let mut case = case(TaskPolicy::EarliestFinish);
        case.damage(on_gpu, how);
        assert!(case.rules().contains(&rule), "damage {at}: {:?} lacks {rule:?}", case.rules());
    }
}

#[test]
fn parts_that_meet_on_a_device_or_the_link_are_found() {
    let mut case = case(TaskPolicy::GpuOnly);
    let whole = |record: &TaskRecord| record.gpu.is_some_and(|part| part.gpu == 0);
    let mut on_first: Vec<usize> =
        (0..case.log.records.len()).filter(|&at| whole(&case.log.records[at].1)).collect();
    on_first.sort_by_key(|&at| case.log.records[at].1.gpu.map(|part| part.start));
    // The second task is moved to the start of the first, its transfer with it.
    let first = case.log.records[on_first[0]].1.gpu.unwrap();
    let second = &mut case.log.records[on_first[1]].1;
    let part = second.gpu.as_mut().unwrap();
    let (run, transfer) = (part.end - part.start, part.transfer_end - part.transfer_start);
    (part.transfer_start, part.transfer_end) = (first.transfer_start, first.transfer_start + transfer);
    (part.start, part.end) = (first.start, first.start + run);
    second.finish = part.end;
    let rules = case.rules();
    assert!(rules.contains(&TaskRule::Overlap) && rules.contains(&TaskRule::Link), "{rules:?}");
}

#[test]
fn a_start_before_arrival_and_before_dependencies_is_found() {
    let mut case = case(TaskPolicy::LeastLoaded);
    let waits = (0..case.workload.tasks.len()).find(|&at| !case.workload.tasks[at].dependencies.is_empty());
    let earlier = case.workload.tasks[waits.unwrap()].dependencies[0] as usize;
    case.workload.tasks[waits.unwrap()].arrival = Time(0);
    case.log.records[earlier].1.finish.0 += 10_000_000;
    assert!(case.rules().contains(&TaskRule::Early));
    let mut late = self::case(TaskPolicy::LeastLoaded);
    late.workload.tasks[7].arrival = Time(u64::MAX / 2);
    assert!(late.rules().contains(&TaskRule::Early));
}

#[test]
fn more_memory_than_there_is_and_a_false_summary_are_found() {
    let mut case = case(TaskPolicy::GpuOnly);
    case.log.machine.gpu_memory_bytes = 400_000_000;
    assert!(case.rules().contains(&TaskRule::Memory));
    let mut host = self::case(TaskPolicy::CpuOnly);
    host.log.machine.cpu_memory_bytes = 400_000_000;
    assert_eq!(host.rules(), [TaskRule::Memory]);
    let mut summary = self::case(TaskPolicy::GpuOnly);
    summary.log.makespan.0 -= 1;
    assert_eq!(summary.rules(), [TaskRule::Summary]);
    let mut energy = self::case(TaskPolicy::GpuOnly);
    energy.log.joules = f64::NAN;
    assert_eq!(energy.rules(), [TaskRule::Summary]);
    // Nor does a machine whose power adds up to no number of joules hide what the log claims.
    for watts in [[1e308; 2], [f64::INFINITY; 2], [f64::NAN; 2], [f64::NEG_INFINITY, f64::INFINITY]] {
        let mut power = self::case(TaskPolicy::GpuOnly);
        power.log.machine.cpu_watts = watts;
        power.log.machine.gpu_watts = watts;
        assert_eq!(power.rules(), [TaskRule::Summary], "{watts:?}");
    }
}

#[test]
fn run_times_are_those_of_the_workload() {
    let mut case = case(TaskPolicy::GpuOnly);
    case.truths[3].gpu = Span(case.truths[3].gpu.0 + 1);
    assert_eq!(case.rules(), [TaskRule::Duration]);
}
