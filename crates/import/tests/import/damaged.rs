//! Files that are damaged or hostile: refused with codes, never with a panic.

use crate::kinds::{API, BURSTGPT, DIFY, LOG, MOONCAKE, NESTED, OPENAI, WF14, dify_flags};
use crate::spans::{BATCH, LANGFUSE, LITELLM, OTLP, SHAREGPT};
use crate::support::{codes, one, read_back, real};
use gswarm_core::generate::Format;
use gswarm_core::input::{Code, Source};
use gswarm_import::{ImportKind, ImportOptions, import, sizes};
use proptest::collection::vec;
use proptest::prelude::*;

const AZURE: &str = "\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
";
const GENTD26: &str = "\
gmt_create,predict_type,predict_status,exec_time_seconds,checkpoint_model_version_id
2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,M0000
2024-11-15 18:16:14,TXT_2_IMG,FAILED,43.0,M0001
";

/// A valid text of each kind, with the flags that it needs.
fn valid() -> Vec<(ImportKind, &'static str, ImportOptions)> {
    let plain = ImportOptions::default;
    vec![
        (ImportKind::Comfyui, API, plain()),
        (ImportKind::Comfyui, NESTED, plain()),
        (ImportKind::Dify, DIFY, ImportOptions { requests: 3, ..dify_flags() }),
        (ImportKind::Wfcommons, WF14, plain()),
        (ImportKind::Azure, AZURE, plain()),
        (ImportKind::Mooncake, MOONCAKE, plain()),
        (ImportKind::Burstgpt, BURSTGPT, plain()),
        (ImportKind::Gentd26, GENTD26, plain()),
        (ImportKind::OpenaiLog, OPENAI, plain()),
        (ImportKind::GswarmLog, LOG, plain()),
        (ImportKind::Otlp, OTLP, plain()),
        (ImportKind::Langfuse, LANGFUSE, plain()),
        (ImportKind::Litellm, LITELLM, plain()),
        (ImportKind::OpenaiBatch, BATCH, plain()),
        (ImportKind::Sharegpt, SHAREGPT, ImportOptions { rate: Some(1.0), ..plain() }),
    ]
}

/// Either a scenario that can be read back, or reasons with codes.
fn survives(kind: ImportKind, text: &[u8], options: &ImportOptions) {
    match import(kind, &[Source { name: "file", bytes: text }], options) {
        Ok(made) => drop(read_back(&made, Format::Json)),
        Err(found) => {
            assert!(!found.is_empty());
            for one in found {
                assert!(one.message.len() < 2_000 && !one.message.contains('\n'), "{one}");
            }
        }
    }
}

#[test]
fn what_is_damaged_is_refused_with_its_code() {
    use ImportKind::{Azure, Burstgpt, Comfyui, Dify, Gentd26, GswarmLog, Mooncake, OpenaiLog, Wfcommons};
    let changed = [
        (Comfyui, API, r#""latent_image": ["5", 0]"#, r#""latent_image": ["8", 0]"#, Code::Cycle),
        (Comfyui, API, r#"["5", 0]"#, r#"["55", 0]"#, Code::UnknownNode),
        (Comfyui, API, r#""model": ["9", 0], "#, "", Code::Missing),
        (Comfyui, API, r#""inputs": {"images""#, r#""inputs": 3, "x": {"images""#, Code::WrongType),
        (
            Comfyui,
            NESTED,
            r#""id": 1, "type": "UNETLoader""#,
            r#""id": 9, "type": "outer""#,
            Code::ContainsItself,
        ),
        (Comfyui, NESTED, r#"[1, 1, 0, 2, 0, "IMAGE"]"#, r#"[1, 1, 0, 77, 0, "IMAGE"]"#, Code::UnknownNode),
        (Comfyui, NESTED, r#"[1, 1, 0, 2, 0, "IMAGE"]"#, "[1, 1]", Code::WrongType),
        (Comfyui, API, r#""latent_image": ["5", 0]"#, r#""latent_image": ["3", 0]"#, Code::SelfEdge),
        (Wfcommons, WF14, r#""parents": []"#, r#""parents": ["ID01"]"#, Code::SelfEdge),
        (Dify, DIFY, "target: '8'", "target: '7'", Code::SelfEdge),
        (Dify, DIFY, "type: start", "type: human-input", Code::Inexpressible),
        (Dify, DIFY, "target: '8'", "target: '2'", Code::Cycle),
        (Dify, DIFY, "target: '8'", "target: '88'", Code::UnknownNode),
        (Dify, DIFY, "model: {name: big-70b}", "model: {}", Code::Missing),
        (Dify, DIFY, "id: '6', data", "id: '5', data", Code::Duplicate),
        (Dify, DIFY, "type: if-else", "type: loop, loop_count: 4, parentId: '4'", Code::NoSuchPlace),
        (Wfcommons, WF14, "1.4", "1.2", Code::OtherKind),
        (Wfcommons, WF14, r#""runtimeInSeconds": 4"#, r#""runtimeInSeconds": -4"#, Code::Negative),
        (Wfcommons, WF14, r#""runtimeInSeconds": 4"#, r#""runtimeInSeconds": "4""#, Code::WrongType),
        (Wfcommons, WF14, r#""runtimeInSeconds": 4"#, r#""runtimeInSeconds": 1e99"#, Code::TooLarge),
        (Wfcommons, WF14, r#""runtimeInSeconds": 4, "#, "", Code::Missing),
        (Wfcommons, WF14, r#""parents": []"#, r#""parents": ["ID03"]"#, Code::Cycle),
        (Wfcommons, WF14, r#"["ID01"]"#, r#"["ID09"]"#, Code::UnknownNode),
        (Azure, AZURE, "4808,10", "4808", Code::Ragged),
        (Azure, AZURE, "4808", "many", Code::WrongType),
        (Azure, AZURE, "4808", "-4808", Code::Negative),
        (Azure, AZURE, "2023-11-16 18", "2023-13-16 18", Code::BadTimestamp),
        (Mooncake, MOONCAKE, r#""timestamp": 27482, "#, "", Code::Missing),
        (Mooncake, MOONCAKE, "27482", r#""soon""#, Code::WrongType),
        (Mooncake, MOONCAKE, "27482", "1e300", Code::TooLarge),
        (Burstgpt, BURSTGPT, "GPT-4", "", Code::Missing),
        (Burstgpt, BURSTGPT, ",500,", ",inf,", Code::NotFinite),
        (Gentd26, GENTD26, "32.0", "0", Code::NotPositive),
        (OpenaiLog, OPENAI, r#""model": "llama-8b", "usage""#, r#""usage""#, Code::Missing),
        (OpenaiLog, OPENAI, "2024-05-01T10", "yesterday", Code::BadTimestamp),
    ];
    let changed = changed.map(|(kind, text, from, to, code)| {
        assert!(text.contains(from), "{from}");
        (kind, text.replacen(from, to, 1), code)
    });
    let others = [
        (Comfyui, &API[..600], Code::Truncated),
        (Comfyui, r#"{"a": 1}"#, Code::OtherKind),
        (Comfyui, DIFY, Code::OtherKind),
        (Comfyui, r#"{"nodes": [{"id": 1, "type": "SaveImage"}], "links": []}"#, Code::Nothing),
        (Dify, &DIFY[..500], Code::Truncated),
        (Dify, "app: {name: x}", Code::OtherKind),
        (Wfcommons, &WF14[..300], Code::Truncated),
        (Azure, "a,b\n1,2\n", Code::OtherKind),
        (Azure, "", Code::NoContent),
        (Azure, AZURE.lines().next().unwrap(), Code::Nothing),
        (Mooncake, &MOONCAKE[..120], Code::Truncated),
        (Gentd26, AZURE, Code::OtherKind),
        (GswarmLog, r#"{"models": {}}"#, Code::OtherKind),
        (GswarmLog, &LOG[..200], Code::OtherKind),
        (GswarmLog, &LOG.replace("\"execution_time\": 2.0", "\"execution_time\": 0"), Code::NotPositive),
    ];
    let others = others.map(|(kind, text, code)| (kind, text.to_owned(), code));
    for (kind, text, code) in changed.into_iter().chain(others) {
        let options = if kind == ImportKind::Dify { dify_flags() } else { ImportOptions::default() };
        let found = codes(kind, &text, &options);
        assert!(found.contains(&code), "{}: {code} is not in {found:?}\n{text}", kind.name());
    }
}

#[test]
fn faults_have_their_lines() {
    let text = AZURE.replace("3180", "x");
    let found = one(ImportKind::Azure, &text, &ImportOptions::default()).unwrap_err();
    assert_eq!((found[0].line, found[0].path.as_str()), (Some(3), "ContextTokens"));
    let all = "TIMESTAMP,ContextTokens,GeneratedTokens\nx,y,z\n1,2\n";
    assert_eq!(codes(ImportKind::Azure, all, &ImportOptions::default()).len(), 4);
    let found = one(ImportKind::Dify, DIFY, &ImportOptions::default()).unwrap_err();
    assert_eq!(found.iter().map(|one| one.line.unwrap()).collect::<Vec<_>>(), [9, 10, 14]);
}

#[test]
fn what_grows_without_end_is_refused() {
    let options = ImportOptions { counts: vec![("Each".to_owned(), 9_999)], ..dify_flags() };
    assert_eq!(codes(ImportKind::Dify, DIFY, &options), [Code::Expands]);
    // Each subgraph holds the next one twice: written out, 2 to the power of 40 nodes.
    let subgraph = |level: u32| {
        let inner = if level == 40 { "KSampler".to_owned() } else { format!("s{}", level + 1) };
        format!(
            "{{\"id\": \"s{level}\", \"nodes\": [{{\"id\": 1, \"type\": \"{inner}\"}}, {{\"id\": 2, \"type\": \"{inner}\"}}], \"links\": []}}"
        )
    };
    let subgraphs: Vec<String> = (0..=40).map(subgraph).collect();
    let bomb = |subgraphs: &[String]| {
        format!(
            "{{\"nodes\": [{{\"id\": 1, \"type\": \"s0\"}}], \"links\": [], \"definitions\": {{\"subgraphs\": [{}]}}}}",
            subgraphs.join(",")
        )
    };
    assert_eq!(codes(ImportKind::Comfyui, &bomb(&subgraphs), &ImportOptions::default()), [Code::Expands]);
    // A thousand deep, one in each.
    let deep: Vec<String> = (0..1_000)
        .map(|level| {
            format!("{{\"id\": \"s{level}\", \"nodes\": [{{\"id\": 1, \"type\": \"s{}\"}}]}}", level + 1)
        })
        .collect();
    assert_eq!(codes(ImportKind::Comfyui, &bomb(&deep), &ImportOptions::default()), [Code::Expands]);
    let brackets = format!("{{\"nodes\": {}", "[".repeat(100_000));
    assert_eq!(codes(ImportKind::Comfyui, &brackets, &ImportOptions::default()), [Code::TooDeep]);
    let many: Vec<String> = (0..20_000).map(|id| format!("{{\"id\": {id}, \"type\": \"Note\"}}")).collect();
    let many = format!("{{\"nodes\": [{}], \"links\": []}}", many.join(","));
    assert_eq!(codes(ImportKind::Comfyui, &many, &ImportOptions::default()), [Code::Expands]);
    // Sixteen branches one after the other.
    let mut branches = "app: {name: x}\nworkflow:\n  graph:\n    nodes:\n".to_owned();
    for id in 0..16 {
        branches.push_str(&format!("    - {{id: b{id}, data: {{type: if-else, title: b{id}}}}}\n"));
        branches.push_str(&format!(
            "    - {{id: l{id}, data: {{type: llm, title: l{id}, model: {{name: m}}}}}}\n"
        ));
    }
    branches.push_str("    edges:\n");
    for id in 0..15 {
        let next = id + 1;
        branches.push_str(&format!("    - {{source: b{id}, target: l{id}, sourceHandle: 'true'}}\n"));
        branches.push_str(&format!("    - {{source: l{id}, target: b{next}}}\n"));
        branches.push_str(&format!("    - {{source: b{id}, target: b{next}, sourceHandle: 'false'}}\n"));
    }
    let options = ImportOptions {
        branches: (0..16).map(|id| (format!("b{id}"), vec![0.5])).collect(),
        ..ImportOptions::default()
    };
    assert_eq!(codes(ImportKind::Dify, &branches, &options), [Code::Expands]);
}

/// Following each of 180,000 links through 9,000 reroutes took minutes; each way is followed once.
#[test]
fn long_ways_are_followed_once() {
    let reroute = |id: u32| format!("{{\"id\": {id}, \"type\": \"Reroute\", \"inputs\": [{{}}]}}");
    let sampler = |id: u32| format!("{{\"id\": {id}, \"type\": \"KSampler\"}}");
    let nodes: Vec<String> = (0..9_000).map(reroute).chain((9_000..9_900).map(sampler)).collect();
    let chain = (1..9_000).map(|id| format!("[1, {}, 0, {id}, 0, \"MODEL\"]", id - 1));
    let fans = (9_000..9_900)
        .flat_map(|id| (0..200).map(move |slot| format!("[1, 8999, 0, {id}, {slot}, \"MODEL\"]")));
    let links: Vec<String> = chain.chain(fans).collect();
    let text = format!("{{\"nodes\": [{}], \"links\": [{}]}}", nodes.join(","), links.join(","));
    assert!(
        codes(ImportKind::Comfyui, &text, &ImportOptions::default())
            .iter()
            .all(|&code| code == Code::Missing)
    );
}

#[test]
fn tables_of_sizes_are_read() {
    let read = |text: &str| sizes(Source { name: "sizes", bytes: text.as_bytes() });
    assert_eq!(read("file,bytes\na.safetensors,2500000000\n").unwrap(), [("a.safetensors".to_owned(), 2.5)]);
    assert_eq!(read("memory_gb,file\n1.5,b\n").unwrap(), [("b".to_owned(), 1.5)]);
    assert_eq!(read("directory,file,n_templates\nvae,ae,1\n").unwrap_err()[0].code, Code::OtherKind);
    assert_eq!(read("file,bytes\na,0\n").unwrap_err()[0].code, Code::NotPositive);
}

#[test]
fn the_texts_that_are_mutated_are_valid() {
    for (kind, text, options) in valid() {
        one(kind, text, &options).unwrap_or_else(|found| panic!("{}: {found:#?}", kind.name()));
    }
}

/// A change to a text: at a place (in thousandths), remove some bytes and put others there.
fn mutation() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let pieces = prop_oneof![
        vec(any::<u8>(), 0..4),
        "[\\[\\]{},:\"'&*<!|>#%@`~ \n\t-]{1,4}".prop_map(String::into_bytes),
        prop::sample::select(vec![
            "null", "-1", "1e999", "NaN", "0", "1", "\"1\"", "[]", "{}", "true", "llm", "loop", "KSampler",
            "outer"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    (0..1_000_usize, 0..12_usize, pieces)
}

fn mutated(text: &[u8], changes: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for (place, removed, piece) in changes {
        let start = place * bytes.len() / 1_000;
        let end = (start + removed).min(bytes.len());
        bytes.splice(start..end, piece.iter().copied());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn texts_with_some_bytes_changed(which in 0..10_usize, changes in vec(mutation(), 1..5)) {
        let (kind, text, options) = valid().swap_remove(which);
        survives(kind, &mutated(text.as_bytes(), &changes), &options);
    }

    #[test]
    fn texts_that_end_early(which in 0..10_usize, at in 0..1_000_usize) {
        let (kind, text, options) = valid().swap_remove(which);
        survives(kind, &text.as_bytes()[..text.len() * at / 1_000], &options);
    }

    #[test]
    fn any_bytes_as_any_kind(which in 0..9_usize, bytes in vec(any::<u8>(), 0..120)) {
        survives(ImportKind::ALL[which], &bytes, &ImportOptions::default());
    }

    #[test]
    fn texts_of_other_kinds(which in 0..9_usize, text in 0..10_usize) {
        survives(ImportKind::ALL[which], valid()[text].1.as_bytes(), &ImportOptions::default());
    }
}

/// Real files, each cut and changed at some places.
#[test]
fn real_files_that_are_damaged() {
    let kinds = [
        (ImportKind::Comfyui, "comfy", "json"),
        (ImportKind::Dify, "dify", "yml"),
        (ImportKind::Wfcommons, "wfinstances", "json"),
    ];
    for (kind, folder, ending) in kinds {
        for (at, (_, bytes)) in real(folder, ending).into_iter().enumerate() {
            let cut = |share: usize| &bytes[..bytes.len() * share / 100];
            for share in [1, 33, 70, 99] {
                survives(kind, cut(share), &ImportOptions::default());
            }
            for (place, piece) in [(at * 37 % 1_000, "null"), (at * 91 % 1_000, "[[["), (500, "-1e9")] {
                survives(
                    kind,
                    &mutated(&bytes, &[(place, 5, piece.as_bytes().to_vec())]),
                    &ImportOptions::default(),
                );
            }
        }
    }
}
