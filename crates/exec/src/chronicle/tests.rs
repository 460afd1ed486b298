//! The ring keeps what is new, under numbers that never come again.

use super::*;

fn instance() -> Instance {
    use gswarm_core::input::{ClusterSpec, Source, read_config};
    use gswarm_core::instance::{Cluster, Mode};
    let config = "
models: {m: {name: M, memory_gb: 1, gpus_required: 1, load_time_seconds: 2, inference_time_mean: 1}}
workflows: {w: {name: w, nodes: [{id: n, model: m, inputs: [], outputs: []}], edges: []}}
";
    let read = read_config(Source { name: "config", bytes: config.as_bytes() });
    let cluster = Cluster::from_spec(&ClusterSpec { gpus: Some(2), ..ClusterSpec::default() }).unwrap();
    Instance::build(&read.scenario.unwrap(), cluster, Mode::Online).unwrap()
}

#[test]
fn the_ring_is_bounded_and_its_numbers_go_on() {
    let (instance, mut chronicle) = (instance(), Chronicle::new(100, USUAL));
    for at in 0..1000u64 {
        chronicle.loaded(ModelId(0), Gpus::new(0, 1), (Time(at), Time(at + 1)), None);
    }
    assert_eq!((chronicle.records.len(), chronicle.counts().loads), (100, 1000));
    let page = |after, limit| chronicle.after(after, limit).history(&instance, Vec::new());
    let all = page(0, 5000);
    assert_eq!((all.first, all.last, all.more, all.bars.len()), (901, 1000, false, 100));
    // Whoever asks again for what is new misses nothing, however little it takes at once.
    let (mut after, mut seen) = (950, Vec::new());
    loop {
        let part = page(after, 7);
        seen.extend(part.bars.iter().map(|bar| bar.seq));
        after = *seen.last().unwrap();
        if !part.more {
            break;
        }
    }
    assert_eq!(seen, (951..=1000).collect::<Vec<_>>());
    let none = page(u64::MAX, 10);
    assert_eq!((none.bars.len(), none.more), (0, false));
}

#[test]
fn happenings_are_told_in_a_sentence() {
    let (instance, mut chronicle) = (instance(), Chronicle::new(100, USUAL));
    chronicle.accepted(Time(1), "r".into(), WorkflowId(0));
    chronicle.evicted(Time(2), ModelId(0), Gpus::new(0, 2), ModelId(0));
    chronicle.loaded(ModelId(0), Gpus::new(1, 1), (Time(2), Time(3)), Some("no room"));
    chronicle.ended(Time(4), Span(3_000_000), End::Completed, WorkflowId(0), Some(("r".into(), None)));
    chronicle.ended(
        Time(4),
        Span(3_000_000),
        End::GivenUp,
        WorkflowId(0),
        Some(("s".into(), Some("it fell over"))),
    );
    chronicle.ended(Time(4), Span(3_000_000), End::Cancelled, WorkflowId(0), None);
    let told = chronicle.after(0, 100).history(&instance, Vec::new());
    let texts: Vec<&str> = told.happenings.iter().map(|one| one.text.as_str()).collect();
    let expected = [
        "r was accepted (w)",
        "m was evicted for m on GPUs 0-1",
        "m could not be loaded on GPU 1: no room",
        "r was completed after 3.0 s",
        "s was given up: it fell over",
    ];
    assert_eq!(texts, expected);
    let Counts { completed, failed, cancelled, evictions, .. } = chronicle.counts();
    assert_eq!((completed, failed, cancelled, evictions), (1, 1, 1, 1));
}

#[test]
fn slow_requests_say_what_cost_them_most() {
    use super::record::HistoryNode;
    let (instance, mut chronicle) = (instance(), Chronicle::new(100, USUAL));
    let seconds = |at: u64| Time(at * 1_000_000);
    let node = |request: &str| RequestNode {
        request: request.into(),
        node: HistoryNode { workflow: WorkflowId(0), place: 0 },
    };
    // `slow` arrives at 0, waits 3 s for GPUs and 2 s for its model, and executes for 1 s.
    let bar = |whose, start, end| {
        Record::Bar(Bar {
            gpus: Gpus::new(0, 1),
            model: ModelId(0),
            whose,
            start: seconds(start),
            end: seconds(end),
            why: None,
        })
    };
    chronicle.push(bar(None, 3, 5));
    chronicle.push(bar(Some(node("slow")), 5, 6));
    chronicle.push(bar(Some(node("fast")), 6, 7));
    for (name, at, took) in [("slow", 6, 6), ("fast", 7, 1), ("forgotten", 8, 2)] {
        chronicle.ended(
            seconds(at),
            Span(took * 1_000_000),
            End::Completed,
            WorkflowId(0),
            Some((name.into(), None)),
        );
    }
    chronicle.ended(seconds(9), Span(9_000_000), End::GivenUp, WorkflowId(0), Some(("failed".into(), None)));
    let slow = chronicle.slowest(&instance);
    assert_eq!(
        slow.iter().map(|one| one.request.as_str()).collect::<Vec<_>>(),
        ["slow", "forgotten", "fast"]
    );
    assert_eq!((slow[0].waiting, slow[0].loading, slow[0].executing), (3.0, 2.0, 1.0));
    assert_eq!((slow[0].arrived, slow[0].why.as_str()), (0.0, "n waited 3.0 s for GPUs"));
    assert_eq!(slow[1].why, "its executions are no longer kept");
    assert_eq!(slow[2].why, "n executed for 1.0 s (m)");
    let by = chronicle.by_workflow(&instance);
    assert_eq!((by.len(), by[0].completed, by[0].mean, by[0].p50), (1, 3, 3.0, 2.0));
}

#[test]
fn the_traffic_of_the_last_while_comes_again() {
    let mut chronicle = Chronicle::new(100, USUAL);
    let new = |at: u64| gswarm_core::instance::NewRequest {
        name: "r".to_owned(),
        workflow: WorkflowId(0),
        arrival: Time(at),
        priority: 0,
        deadline: None,
        executions: vec![Span(1)],
    };
    [10, 50, 55, 90].map(new).iter().for_each(|new| chronicle.arrived(new));
    let (again, length) = chronicle.traffic(Time(100), Span(60));
    let at: Vec<u64> = again.iter().map(|one| one.arrival.0).collect();
    assert_eq!((at, length), (vec![10, 15, 50], Span(60)));
    assert_eq!(chronicle.traffic(Time(100), Span(1000)).0.len(), 4);
    // Of many, as far back as they are remembered.
    (0..6000).for_each(|at| chronicle.arrived(&new(1000 + at)));
    assert_eq!(
        chronicle.traffic(Time(7000), Span(7000)),
        (chronicle.traffic(Time(7000), Span(5000)).0, Span(5000))
    );
}
