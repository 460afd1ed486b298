//! Requests that share an instance.

use crate::support::{Place, ask, listen};
use gswarm_infer::{
    EngineOptions, Error, GenerateRequest, GenerationEvent, InferenceEngine, Prompt, SamplingTuning,
};

const PROMPTS: [&str; 9] = [
    "The king",
    "a",
    "Once upon a time there was a machine that",
    "Why does the moon shine?",
    "Zürich, 1905: ",
    "one two three four five six seven eight nine ten",
    "",
    "\u{1F600} \u{1F600}",
    "the the the the the the the the the the the the the the the the the the the the the the the the the",
];

fn requests() -> Vec<GenerateRequest> {
    let settings = |(at, prompt): (usize, &&str)| GenerateRequest {
        // Half of them draw, half take the likeliest; all have different lengths.
        temperature: if at % 2 == 0 { 0.0 } else { 0.9 },
        top_p: if at % 4 == 1 { 0.8 } else { 1.0 },
        seed: at as u64,
        ..ask(prompt, 20 + 3 * at)
    };
    PROMPTS.iter().enumerate().map(settings).collect()
}

#[test]
fn an_answer_does_not_depend_on_what_shares_the_batch() {
    let place = Place::language();
    let options = EngineOptions { prefill_chunk: 8, ..EngineOptions::default() };
    let alone = place.engine(EngineOptions { max_batch: 1, ..options });
    let expected: Vec<(Vec<u32>, String)> = requests()
        .iter()
        .map(|request| {
            let (ids, _, finished) = listen(&alone, request);
            (ids, finished.text)
        })
        .collect();
    for max_batch in [2, 3, 8, 9] {
        let engine = place.engine(EngineOptions { max_batch, ..options });
        let together: Vec<_> = requests().iter().map(|request| engine.submit(request).unwrap()).collect();
        for (mut completion, (ids, text)) in together.into_iter().zip(&expected) {
            let mut found = Vec::new();
            loop {
                match completion.next_blocking().unwrap() {
                    GenerationEvent::Token { id, .. } => found.push(id),
                    GenerationEvent::Done(finished) => break assert_eq!(&finished.text, text),
                    GenerationEvent::Failed(error) => panic!("{error}"),
                }
            }
            assert_eq!(&found, ids);
        }
        let load = engine.load();
        assert_eq!(load.finished, PROMPTS.len());
        assert!(load.tokens > load.steps, "nothing was batched: {load:?}");
    }
}

/// The reason why the test above can hold: the model's scores are the same to the last bit.
#[test]
fn scores_are_the_same_bit_for_bit() {
    same_bits(&Place::language());
    // Longer sums are parted into blocks.
    same_bits(&Place::small());
}

fn same_bits(place: &Place) {
    let model = place.model();
    let prompt = |row: u32| (0..5 + row).map(|at| 100 + 7 * at + row).collect::<Vec<u32>>();
    let begun = |row: u32| {
        let mut sequence = model.sequence();
        model.read(&mut sequence, &prompt(row), false).unwrap();
        sequence
    };
    let alone: Vec<Vec<f32>> =
        (0..20).map(|row| model.step(&mut [(&mut begun(row), row)]).unwrap().remove(0)).collect();
    for count in [2, 5, 8, 9, 16, 20] {
        // In both orders, so that each row stands at different places of a tile.
        for turned in [false, true] {
            let mut rows: Vec<u32> = (0..count).collect();
            if turned {
                rows.reverse();
            }
            let mut sequences: Vec<_> = rows.iter().map(|&row| begun(row)).collect();
            let mut inputs: Vec<_> =
                sequences.iter_mut().zip(&rows).map(|(sequence, &row)| (sequence, row)).collect();
            for (scores, &row) in model.step(&mut inputs).unwrap().iter().zip(&rows) {
                assert!(scores == &alone[row as usize], "row {row} of {count}");
            }
        }
    }
}

#[test]
fn instances_share_weights_and_nothing_else() {
    let place = Place::language();
    let model = place.model();
    let engines: Vec<InferenceEngine> =
        (0..2).map(|_| InferenceEngine::start(model.clone(), EngineOptions::default()).unwrap()).collect();
    let answers: Vec<_> = engines.iter().map(|engine| engine.submit(&ask("the sea", 30)).unwrap()).collect();
    let texts: Vec<String> = answers.into_iter().map(|answer| answer.wait().unwrap().text).collect();
    assert_eq!(texts[0], texts[1]);
    assert!(engines.iter().all(|engine| engine.load().finished == 1));
}

#[test]
fn a_dropped_request_frees_its_place() {
    let place = Place::language();
    let engine = place.engine(EngineOptions { max_batch: 1, ..EngineOptions::default() });
    let mut long = engine.submit(&ask("the sea", 2000)).unwrap();
    assert!(matches!(long.next_blocking(), Some(GenerationEvent::Token { .. })));
    let next = engine.submit(&ask("the sea", 3)).unwrap();
    drop(long);
    // With one place, this is answered only after the other has left.
    assert_eq!(next.wait().unwrap().new_tokens, 3);
    assert!(engine.load().tokens < 2000);
}

#[test]
fn a_stopped_instance_says_so() {
    let place = Place::language();
    let engine = place.engine(EngineOptions { max_batch: 1, ..EngineOptions::default() });
    let running = engine.submit(&ask("the sea", 2000)).unwrap();
    let waiting = engine.submit(&ask("the sea", 2000)).unwrap();
    drop(engine);
    assert!(matches!(running.wait(), Err(Error::Stopped)));
    assert!(matches!(waiting.wait(), Err(Error::Stopped)));
}

#[test]
fn a_full_queue_refuses() {
    let place = Place::language();
    let engine = place.engine(EngineOptions { max_batch: 1, max_waiting: 2, ..EngineOptions::default() });
    let mut first = engine.submit(&ask("the sea", 2000)).unwrap();
    assert!(matches!(first.next_blocking(), Some(GenerationEvent::Token { .. })));
    let kept: Vec<_> = (0..2).map(|_| engine.submit(&ask("a", 1)).unwrap()).collect();
    assert!(matches!(engine.submit(&ask("a", 1)), Err(Error::Full { waiting: 2 })));
    assert_eq!((engine.load().running, engine.load().waiting), (1, 2));
    // Those that give up while they wait make room for others, though the place is still taken.
    drop(kept);
    assert!(matches!(first.next_blocking(), Some(GenerationEvent::Token { .. })));
    let answer = loop {
        // The loop looks between two steps; each token is a step.
        assert!(matches!(first.next_blocking(), Some(GenerationEvent::Token { .. })));
        if let Ok(answer) = engine.submit(&ask("a", 1)) {
            break answer;
        }
    };
    drop(first);
    assert_eq!(answer.wait().unwrap().new_tokens, 1);
}

#[test]
fn estimates_are_near_what_is_measured_and_grow_with_the_work() {
    let place = Place::language();
    let engine = place.engine(EngineOptions::default());
    let (short, long) = (engine.estimate(&ask("a", 1)).unwrap(), engine.estimate(&ask("a", 500)).unwrap());
    assert!(short.seconds > 0.0 && long.seconds > 10.0 * short.seconds, "{short:?} {long:?}");
    assert_eq!((long.prompt_tokens, long.new_tokens), (2, 500));
    let wordy = "the king and the queen ".repeat(60);
    assert!(engine.estimate(&ask(&wordy, 1)).unwrap().seconds > short.seconds);
    // After some work the estimate is of the order of what the work took; a busy machine may triple a time.
    let request = ask("the sea", 200);
    listen(&engine, &request);
    let estimate = engine.estimate(&request).unwrap().seconds;
    let (_, _, finished) = listen(&engine, &request);
    let taken = (finished.prefill + finished.decode).as_secs_f64();
    assert!(estimate < 10.0 * taken && taken < 10.0 * estimate, "{estimate} {taken}");
}

#[test]
fn requests_that_cannot_be_carried_out_are_refused() {
    let place = Place::language();
    let engine = place.engine(EngineOptions { max_context: 32, ..EngineOptions::default() });
    let refused = |request: GenerateRequest, part: &str| {
        let error = engine.submit(&request).unwrap_err();
        assert!(matches!(error, Error::Request(_)) && error.to_string().contains(part), "{error}");
        assert!(engine.estimate(&request).is_err());
    };
    refused(ask("a", 0), "max_tokens");
    let too_long = |request: GenerateRequest| {
        let error = engine.submit(&request).unwrap_err();
        assert!(matches!(error, Error::TooLong { context: 32, .. }), "{error}");
        assert!(error.to_string().contains("maximum context length is 32 tokens"), "{error}");
    };
    too_long(ask(&"word ".repeat(40), 1));
    too_long(GenerateRequest { exact: true, ..ask("a", 1000) });
    assert!(engine.submit(&GenerateRequest { exact: true, ..ask("a", 30) }).is_ok());
    let bias = SamplingTuning { logit_bias: vec![(1 << 30, 1.0)], ..SamplingTuning::default() };
    refused(GenerateRequest { tuning: bias, ..ask("a", 1) }, "no token");
    refused(
        GenerateRequest { tuning: SamplingTuning { min_p: 2.0, ..SamplingTuning::default() }, ..ask("a", 1) },
        "min_p",
    );
    refused(GenerateRequest { temperature: f64::NAN, ..ask("a", 1) }, "temperature");
    refused(GenerateRequest { temperature: -1.0, ..ask("a", 1) }, "temperature");
    refused(GenerateRequest { top_p: 1.5, ..ask("a", 1) }, "top_p");
    refused(GenerateRequest::new(Prompt::Tokens(vec![1 << 30])), "no token");
    // What is longer than there is room for ends at the room's end.
    assert_eq!(engine.submit(&ask("a", 1000)).unwrap().wait().unwrap().new_tokens, 30);
    // Nothing to begin with: the model has a token for that.
    let empty = GenerateRequest { max_tokens: 2, ..GenerateRequest::new(Prompt::Tokens(Vec::new())) };
    assert_eq!(engine.submit(&empty).unwrap().wait().unwrap().prompt_tokens, 1);
}
