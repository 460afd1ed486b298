use crate::support::*;
use gswarm_core::explain::{self, QueuePosition, Timeline, Wait};
use gswarm_core::input::Scenario;
use gswarm_core::instance::{Instance, Mode};
use gswarm_core::log::{ExecutionLog, Load};
use gswarm_core::{Gpus, ModelId, RequestId, Span, TaskId};

fn span(seconds: f64) -> Span {
    Span::from_seconds(seconds)
}

/// Three one-node requests of two models on two GPUs. Model a (14 GB, 30 s to load), model b (10 GB, 20 s): a switch takes
/// 24 / 16 + 2 = 3.5 s.
pub fn three(executions: Vec<gswarm_core::log::Execution>) -> (Instance, ExecutionLog) {
    let scenario = Scenario::builder()
        .model("a", 1, 14.0, 30.0)
        .model("b", 1, 10.0, 20.0)
        .workflow("of_a")
        .node("x", "a")
        .workflow("of_b")
        .node("y", "b")
        .request("r1", "of_a")
        .times(&[10.0])
        .request("r2", "of_b")
        .times(&[5.0])
        .request("r3", "of_a")
        .times(&[10.0])
        .build()
        .unwrap();
    let instance = Instance::build(&scenario, cluster(2, None), Mode::Offline).unwrap();
    let log = ExecutionLog { executions, ..ExecutionLog::default() };
    assert_valid(&instance, &log);
    (instance, log)
}

#[test]
fn a_wait_is_parted_by_what_the_gpus_did_and_the_overtaker_is_named() {
    // All on GPU 0: r1 loads a (0-30) and runs to 40; r2 switches to b (40-43.5), runs to 48.5; it stands idle for a second;
    // r3 switches back (49.5-53) and runs to 63. GPU 1 is empty throughout.
    let (instance, log) = three(vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(1, (0, 1), 0.0, 3.5, 43.5, 48.5),
        ran(2, (0, 1), 0.0, 3.5, 53.0, 63.0),
    ]);
    let timeline = Timeline::new(&instance, &log);
    let story = explain::node(&timeline, TaskId(2)).unwrap();
    assert_eq!(
        story.wait,
        Wait {
            total: span(53.0),
            executing: span(15.0),
            loading: span(33.5),
            switching: span(3.5),
            idle: span(1.0)
        }
    );
    let held: Vec<_> = story.held_by.iter().map(|one| (one.node.as_deref().unwrap(), one.overtook)).collect();
    assert_eq!(held, [("r1/x", false), ("r2/y", false)]);
    assert!(
        story.held_by.iter().all(|one| one.went_first),
        "all were ready at once; nobody was there before"
    );
    assert_eq!(story.replaced.len(), 1);
    assert_eq!((story.replaced[0].model.as_str(), story.replaced[0].waiting_nodes), ("b", 0));
    // On the empty GPU 1: a cold load, 30 s from the start, 23 s sooner, and nothing else would have moved.
    let other = story.alternatives.iter().find(|one| !one.chosen).unwrap();
    assert_eq!((other.gpus.as_slice(), other.could_start, other.later_by), (&[1][..], at(30.0), -23_000_000));
    assert!(other.free_room && other.holds.is_empty());
    // On its own GPU it could have gone first.
    let own = story.alternatives.iter().find(|one| one.chosen).unwrap();
    assert_eq!((own.could_start, own.later_by), (at(30.0), -23_000_000));
    assert!(story.critical);
    assert_eq!(story.queue, QueuePosition::default());
}

#[test]
fn a_place_in_the_queue_counts_who_waited_before_and_who_passed() {
    // `simple`: r3/join is ready at 5 and begins to load at 61. r2/write (5 too) is no earlier. Those ready later that took
    // GPUs before 61: r1/paint and r1/join at 38, r2/paint at 46. r2/join (46) begins only at 82.
    let (instance, log) = simple();
    let story = explain::node(&Timeline::new(&instance, &log), TaskId(6)).unwrap();
    assert_eq!(story.queue, QueuePosition { before: 0, overtook: 3 });
    // r2/join, ready at 46: r3/join waited already.
    let story = explain::node(&Timeline::new(&instance, &log), TaskId(5)).unwrap();
    assert_eq!(story.queue, QueuePosition { before: 1, overtook: 0 });
}

#[test]
fn a_model_that_is_given_up_while_others_wait_for_it_is_told() {
    // GPU 0: r1 of a to 40, then b for r2 (40-43.5, to 48.5), then a again for r3, which was ready all the time.
    let (instance, log) = three(vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(1, (0, 1), 0.0, 3.5, 43.5, 48.5),
        ran(2, (0, 1), 0.0, 3.5, 52.0, 62.0),
    ]);
    let story = explain::node(&Timeline::new(&instance, &log), TaskId(1)).unwrap();
    assert_eq!(story.replaced[0].model, "a");
    assert_eq!((story.replaced[0].waiting_nodes, story.replaced[0].waiting_work), (1, span(10.0)));
}

#[test]
fn an_immediate_start_has_no_wait_and_a_later_alternative() {
    // r1 on GPU 0 and r2 on GPU 1 at once; r3 follows r1 with its model there.
    let (instance, log) = three(vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(1, (1, 1), 0.0, 20.0, 20.0, 25.0),
        ran(2, (0, 1), 0.0, 0.0, 40.0, 50.0),
    ]);
    let timeline = Timeline::new(&instance, &log);
    let story = explain::node(&timeline, TaskId(0)).unwrap();
    // The only wait is its own load; GPU 1 was as good.
    assert_eq!((story.wait.total, story.wait.switching), (span(30.0), span(30.0)));
    assert!(story.held_by.is_empty() && story.alternatives.iter().all(|one| one.later_by == 0));
    let story = explain::node(&timeline, TaskId(2)).unwrap();
    assert_eq!(story.wait.executing, span(10.0));
    assert_eq!(story.wait.loading, span(30.0));
    assert_eq!(story.replaced, []);
}

#[test]
fn a_load_made_ahead_counts_as_the_nodes_own() {
    let (instance, mut log) = three(vec![
        ran(0, (0, 1), 0.0, 30.0, 30.0, 40.0),
        ran(1, (1, 1), 0.0, 20.0, 20.0, 25.0),
        ran(2, (0, 1), 0.0, 0.0, 40.0, 50.0),
    ]);
    log.executions[0].switch = Span::ZERO;
    log.loads.push(Load {
        model: ModelId(0),
        gpus: Gpus::new(0, 1),
        start: at(0.0),
        end: at(30.0),
        status: gswarm_core::log::Status::Completed,
        evicted: Box::new([]),
    });
    assert_valid(&instance, &log);
    let story = explain::node(&Timeline::new(&instance, &log), TaskId(0)).unwrap();
    assert_eq!(
        (story.wait.switching, story.wait.loading, story.wait.idle),
        (span(30.0), Span::ZERO, Span::ZERO)
    );
    assert!(story.held_by.is_empty());
}

#[test]
fn the_critical_path_of_a_request_adds_up_to_its_latency() {
    // `simple`: r2 arrives at 5; write 38-46 (waits 33: 25 for r1's load, 8 for r1's execution); paint off the path (46-52.5);
    // join waits from 46 to 82 for r1/join's load (38-78) and execution (to 82), runs to 86.
    let (instance, log) = simple();
    let timeline = Timeline::new(&instance, &log);
    let story = explain::request(&timeline, RequestId(1)).unwrap();
    assert_eq!(story.latency, span(81.0));
    let steps: Vec<_> = story.path.iter().map(|step| step.node.as_str()).collect();
    assert_eq!(steps, ["write", "join"]);
    assert_eq!(
        (story.path[0].waiting, story.path[0].switching, story.path[0].executing),
        (span(33.0), Span::ZERO, span(8.0))
    );
    assert_eq!((story.path[0].wait.loading, story.path[0].wait.executing), (span(25.0), span(8.0)));
    assert_eq!((story.path[1].waiting, story.path[1].executing), (span(36.0), span(4.0)));
    assert_eq!((story.path[1].wait.loading, story.path[1].wait.executing), (span(32.0), span(4.0)));
    assert_eq!(story.waiting + story.switching + story.executing + story.retrying, story.latency);
    assert_eq!(story.undisturbed, span(12.0));
    assert_eq!((story.others[0].node.as_str(), story.others[0].slack), ("paint", span(33.5)));
    // r2/paint is off the path, r2/join on it; its last input is write.
    assert!(!explain::node(&timeline, TaskId(4)).unwrap().critical);
    let join = explain::node(&timeline, TaskId(5)).unwrap();
    assert!(join.critical && join.inputs[0].node == "r2/write" && join.inputs[0].end == at(46.0));
}

#[test]
fn names_that_are_not_there_bring_near_ones() {
    let (instance, _) = simple();
    assert_eq!(explain::find_task(&instance, "r2/join"), Ok(TaskId(5)));
    let unknown = explain::find_task(&instance, "r2/jion").unwrap_err();
    assert_eq!(unknown.near, ["r2/join"]);
    assert_eq!(
        explain::find_task(&instance, "r2/zzzzzz").unwrap_err().near,
        ["r2/write", "r2/paint", "r2/join"]
    );
    let unknown = explain::find_task(&instance, "rr2/join").unwrap_err();
    assert_eq!(unknown.near[0], "r2/join");
    assert_eq!(explain::find_request(&instance, "r3"), Ok(RequestId(2)));
    assert_eq!(explain::find_request(&instance, "completely-other").unwrap_err().near, Vec::<String>::new());
}
