//! Schedules whose right answer is known by hand, and workloads that go to files and back.

use super::check::check;
use super::test_support::{machine, task, workload};
use super::*;
use crate::profile::described;
use gswarm_core::input::{Code, Diagnostic};
use gswarm_core::{Span, Time};

fn run(workload: &Workload, gpus: u32, policy: TaskPolicy) -> TaskOutcome {
    let known = Estimates::certain(workload.tasks.iter().filter_map(|task| task.truth).collect());
    let outcome = schedule(workload, &machine(gpus), &known, policy, PolicySettings::default()).unwrap();
    assert_eq!(check(workload, &known.means, &outcome.log), []);
    outcome
}

#[test]
fn one_task_on_a_gpu_waits_for_its_data() {
    let one = workload(vec![task(5, 100, 30, &[])]);
    // Ten bytes at ten a microsecond: there at 6, done at 36.
    assert_eq!(run(&one, 1, TaskPolicy::GpuOnly).metrics.makespan, Span(36));
    assert_eq!(run(&one, 1, TaskPolicy::CpuOnly).metrics.makespan, Span(105));
}

#[test]
fn a_task_is_cut_so_that_both_parts_end_together() {
    let one = workload(vec![task(0, 100, 100, &[])]);
    let outcome = run(&one, 1, TaskPolicy::Learned);
    let record = outcome.log.records[0].1;
    assert!(record.cpu.is_some() && record.gpu.is_some(), "{record:?}");
    assert!((50..=52).contains(&outcome.metrics.makespan.0), "{:?}", outcome.metrics.makespan);
    assert_eq!(outcome.metrics.placed, [0, 0, 1]);
}

#[test]
fn a_chain_takes_the_sum_and_a_fork_the_longer_side() {
    let chain = workload(vec![task(0, 10, 50, &[]), task(0, 20, 90, &[0]), task(0, 30, 90, &[1])]);
    assert_eq!(run(&chain, 1, TaskPolicy::CpuOnly).metrics.makespan, Span(60));
    assert_eq!(run(&chain, 1, TaskPolicy::EarliestFinish).metrics.makespan, Span(60));
    let fork = workload(vec![task(0, 10, 900, &[]), task(0, 40, 900, &[0]), task(0, 900, 25, &[0])]);
    // One on each side: the CPU from 10 to 50, the GPU from 11 to 36.
    assert_eq!(run(&fork, 1, TaskPolicy::EarliestFinish).metrics.makespan, Span(50));
}

#[test]
fn memory_is_given_back_and_holds_transfers_up() {
    // Two tasks of 60 bytes on a GPU of 100: the second's data comes when the first is done.
    let mut tasks = vec![task(0, 900, 50, &[]), task(0, 900, 50, &[])];
    tasks.iter_mut().for_each(|task| task.memory_bytes = 60);
    let outcome = run(&workload(tasks), 1, TaskPolicy::GpuOnly);
    let second = outcome.log.records[1].1.gpu.unwrap();
    assert_eq!((second.transfer_start, second.start, second.end), (Time(56), Time(62), Time(112)));
}

#[test]
fn the_link_is_shared() {
    let mut tasks = vec![task(0, 900, 50, &[]), task(0, 900, 50, &[])];
    tasks.iter_mut().for_each(|task| task.memory_bytes = 100);
    let outcome = run(&workload(tasks), 2, TaskPolicy::GpuOnly);
    // Both data sets take ten microseconds, one after the other.
    assert_eq!(outcome.metrics.makespan, Span(70));
}

#[test]
fn what_fits_no_gpu_goes_to_the_cpu_and_what_fits_nowhere_is_named() {
    let mut tasks = vec![task(0, 90, 5, &[])];
    tasks[0].memory_bytes = 101;
    for policy in TaskPolicy::ALL {
        let outcome = run(&workload(tasks.clone()), 2, policy);
        assert!(outcome.log.records[0].1.cpu.is_some(), "{}", policy.name());
    }
    tasks[0].memory_bytes = 1001;
    let faults = misfits(&workload(tasks), &machine(2), "w.csv", &[2, 3, 4]);
    assert_eq!(faults[0].code, Code::TooLarge);
}

#[test]
fn no_schedule_beats_the_bound_and_the_same_seed_gives_the_same_log() {
    let profile = described();
    for (seed, load) in [(1, 0.6), (2, 0.95), (3, 2.0)] {
        let options = WorkloadOptions {
            tasks: 400,
            arrivals: TaskArrivals::Load(load),
            seed,
            ..WorkloadOptions::default()
        };
        let workload = generate(&options, &profile).unwrap().workload;
        assert_eq!(generate(&options, &profile).unwrap().workload, workload);
        let machine = Machine::of(&profile, 4);
        let estimates = Estimates::of_profile(&workload, &profile).unwrap();
        let truths = workload.truths(&estimates);
        let least = bound::makespan(&workload, &truths, &machine);
        for policy in TaskPolicy::ALL {
            let once = schedule(&workload, &machine, &estimates, policy, PolicySettings::default()).unwrap();
            let again = schedule(&workload, &machine, &estimates, policy, PolicySettings::default()).unwrap();
            assert_eq!(once.log, again.log, "{}", policy.name());
            assert!(once.metrics.makespan >= least, "{}", policy.name());
            assert!(once.metrics.busy.iter().all(|&busy| busy <= once.metrics.makespan));
        }
    }
}

#[test]
fn a_workload_survives_both_files() {
    let profile = described();
    let options = WorkloadOptions { tasks: 200, ..WorkloadOptions::default() };
    let workload = generate(&options, &profile).unwrap().workload;
    let estimates = Estimates::of_profile(&workload, &profile).unwrap();
    let (mut csv, mut parquet) = (Vec::new(), Vec::new());
    write_csv(&workload, &estimates, [220.0, 150.0], &mut csv).unwrap();
    write_parquet(&workload, &estimates, [220.0, 150.0], &mut parquet).unwrap();
    assert_eq!(read("w.csv", csv).unwrap(), workload);
    assert_eq!(read("w.parquet", parquet).unwrap(), workload);
}

const HEAD: &str =
    "task_id,size,compute_intensity,memory_required,arrival_time,duration_estimate,dependencies\n";

fn codes(text: &str) -> Vec<Code> {
    let faults = read("w.csv", text.as_bytes().to_vec()).unwrap_err();
    // The message itself lists what there is to choose from.
    let helps = |fault: &Diagnostic| fault.hint.is_some() || fault.code == Code::UnknownChoice;
    assert!(faults.iter().all(helps), "{faults:?}");
    let mut codes: Vec<Code> = faults.iter().map(|fault| fault.code).collect();
    codes.sort_unstable();
    codes
}

#[test]
fn the_described_columns_are_enough() {
    let text = format!("{HEAD}1,100,0.5,10,0,0.1,\n2,200,1,20,0.5,0.2,[1]\n3,300,1,20,0.5,0.2,\"[1, 2]\"\n");
    let workload = read("w.csv", text.into_bytes()).unwrap();
    assert_eq!(workload.tasks[2].dependencies, [0, 1]);
    assert_eq!((workload.tasks[1].memory_bytes, workload.tasks[1].arrival), (20_000_000, Time(500_000)));
    assert!(workload.tasks.iter().all(|task| task.truth.is_none()));
}

#[test]
fn faults_of_a_workload_are_found_all_at_once() {
    let text = format!("{HEAD}1,0,0.5,-10,0,0.1,9\n1,200,1,20,0.5,0.2,\n");
    assert_eq!(codes(&text), [Code::Duplicate, Code::UnknownNode, Code::NotPositive, Code::Negative]);
    assert_eq!(codes(&format!("{HEAD}1,100,0.5,10,0,0.1,2\n2,100,0.5,10,0,0.1,1\n")), [Code::Cycle]);
    assert_eq!(codes(&format!("{HEAD}1,100,0.5,10,0,0.1,1\n")), [Code::SelfEdge]);
    assert_eq!(codes(&format!("{HEAD}1,100,0.5,10,0\n")), [Code::Ragged]);
    assert_eq!(codes("task_id,size\n1,5\n").iter().filter(|&&code| code == Code::Missing).count(), 4);
    let typed = HEAD.replace("dependencies", "task_type");
    assert_eq!(codes(&format!("{typed}1,100,0.5,10,0,0.1,baking\n")), [Code::UnknownChoice]);
}

#[test]
fn half_a_list_of_dependencies_is_none() {
    for list in ["\"[1, 2\"", "\"1, 2]\"", "[1", "[[1]", "1]", "[1] 2", "[]]"] {
        let text = format!("{HEAD}1,100,0.5,10,0,0.1,\n2,100,0.5,10,0,0.1,\n3,100,0.5,10,0,0.1,{list}\n");
        assert_eq!(codes(&text), [Code::WrongType], "{list}");
    }
    for list in ["[]", "\" [1, 2] \"", "1;2", "\"['1', '2']\""] {
        let text = format!("{HEAD}1,100,0.5,10,0,0.1,\n2,100,0.5,10,0,0.1,\n3,100,0.5,10,0,0.1,{list}\n");
        assert!(read("w.csv", text.into_bytes()).is_ok(), "{list}");
    }
}

#[test]
fn what_nobody_sees_in_a_cell_is_written_out() {
    let typed = HEAD.replace("dependencies", "task_type");
    let text = format!("{typed}1,100,0.5,10,0,0.1,mat\0mul\n");
    let faults = read("w.csv", text.into_bytes()).unwrap_err();
    assert!(faults[0].message.starts_with("`mat\\0mul` is not a type of task"), "{}", faults[0].message);
}

#[test]
fn what_a_file_says_of_a_profile_is_kept_and_needs_both_devices() {
    let head = HEAD.replace("dependencies", "profile_cpu_seconds,profile_gpu_seconds");
    let told = read("w.csv", format!("{head}1,100,0.5,10,0,0.1,1,0.1\n").into_bytes()).unwrap();
    let estimates = Estimates::of_file(&told).unwrap();
    assert_eq!(estimates.means, [RunTimes { cpu: Span(1_000_000), gpu: Span(100_000) }]);
    assert!(estimates.doubt.is_some());
    let untold = read("w.csv", format!("{HEAD}1,100,0.5,10,0,0.1,\n").into_bytes()).unwrap();
    assert!(Estimates::of_file(&untold).is_none());
    let one = HEAD.replace("dependencies", "profile_gpu_seconds");
    assert_eq!(codes(&format!("{one}1,100,0.5,10,0,0.1,2\n")), [Code::Missing]);
    assert_eq!(codes(&format!("{head}1,100,0.5,10,0,0.1,-1,\n")), [Code::Missing, Code::Negative]);
}

#[test]
fn a_price_on_energy_saves_energy() {
    let profile = described();
    let options =
        WorkloadOptions { tasks: 500, arrivals: TaskArrivals::Load(0.7), ..WorkloadOptions::default() };
    let workload = generate(&options, &profile).unwrap().workload;
    let estimates = Estimates::of_profile(&workload, &profile).unwrap();
    let machine = Machine::of(&profile, 4);
    let joules = |seconds_per_joule| {
        let settings = PolicySettings { seconds_per_joule, ..PolicySettings::default() };
        let outcome =
            schedule(&workload, &machine, &estimates, TaskPolicy::EarliestFinish, settings).unwrap();
        // The work itself: idle power follows from the makespan.
        let busy: f64 = outcome.metrics.busy[1..].iter().map(|busy| busy.seconds()).sum();
        outcome.metrics.busy[0].seconds() * 160.0 + busy * 120.0
    };
    assert!(joules(0.01) < joules(0.0), "{} {}", joules(0.01), joules(0.0));
}

#[test]
fn ids_are_texts_even_where_they_look_like_numbers() {
    let rows = "7,100,0.5,10,0,0.1,\n07,100,0.5,10,0,0.1,7\n7.5,100,0.5,10,0,0.1,07;7\n\
                9007199254740992,100,0.5,10,0,0.1,\n9007199254740993,100,0.5,10,0,0.1,9007199254740992\n\
                last,100,0.5,10,0,0.1,9007199254740993 7.0\n";
    let workload = read("t.csv", format!("{HEAD}{rows}").into_bytes()).unwrap();
    let ids: Vec<&str> = workload.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["7", "07", "7.5", "9007199254740992", "9007199254740993", "last"]);
    let waits: Vec<&[u32]> = workload.tasks.iter().map(|task| task.dependencies.as_slice()).collect();
    // What a tool has made a number of, `7.0`, is the task `7`.
    assert_eq!(waits, [&[][..], &[0], &[0, 1], &[], &[3], &[0, 4]]);
}
