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
    chronicle.ended(Time(4), Span(3_000_000), End::Completed, Some(("r".into(), None)));
    chronicle.ended(Time(4), Span(3_000_000), End::GivenUp, Some(("s".into(), Some("it fell over"))));
    chronicle.ended(Time(4), Span(3_000_000), End::Cancelled, None);
    let told = chronicle.after(0, 100).history(&instance, Vec::new());
    let texts: Vec<&str> = told.happenings.iter().map(|one| one.text.as_str()).collect();
    let expected = [
        "r was accepted (w)",
        "m made way for m on GPUs 0-1",
        "m could not be loaded on GPU 1: no room",
        "r was completed after 3.0 s",
        "s was given up: it fell over",
    ];
    assert_eq!(texts, expected);
    let Counts { completed, failed, cancelled, evictions, .. } = chronicle.counts();
    assert_eq!((completed, failed, cancelled, evictions), (1, 1, 1, 1));
}
