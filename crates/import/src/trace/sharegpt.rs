//! Datasets of prompts without times: conversations of ShareGPT, of which vLLM's benchmark takes the first prompt and its answer,
//! and lines with a `prompt` and how many tokens are to be written.

use super::mooncake::lines;
use super::{MAX_TOKENS, Trace};
use crate::{File, ImportOptions};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Document, Item, Kind, Path, not_negative, quantity, wrong_type};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Characters of a token, as English text has them.
const CHARACTERS: f64 = 4.0;
/// Tokens of an answer where nothing says how long it is.
const USUAL: f64 = 256.0;
/// Seconds after which the slowest rate still has a request, at most: a rate may be anything.
const LONGEST: f64 = 1e9;

pub(super) fn read(file: &mut File<'_>, options: &ImportOptions, trace: &mut Trace) {
    let Some(document) = Document::parse_lines(file.source.bytes, &mut file.faults) else { return };
    let root = Path::root();
    let mut draws = ChaCha8Rng::seed_from_u64(options.seed);
    let (mut at, mut short) = (0.0_f64, 0);
    for (place, line) in lines(&document).enumerate() {
        let path = root.index(place, line.at());
        if line.kind() != Kind::Map {
            wrong_type(line, &path, "a mapping", &mut file.faults);
            continue;
        }
        let Some((prompt, answer)) = turn(file, line, &path, &mut short) else { continue };
        trace.push((at * 1e6).round() as i64, "llm", prompt, answer);
        if let Some(rate) = options.rate {
            let draw: f64 = draws.random();
            at = (at - (1.0 - draw).ln() / rate).min(LONGEST);
        }
    }
    if short > 0 {
        let plural = if short == 1 { "" } else { "s" };
        trace.notes.push(format!("Omitted: {short} conversation{plural} without a prompt and an answer"));
    }
    let arrive = match options.rate {
        Some(rate) => format!("Requests arrive at random, {rate} a second (--rate, seed {})", options.seed),
        None => "All requests arrive at the start (give --rate REQUESTS_PER_SECOND)".to_owned(),
    };
    trace.notes.push(arrive);
    trace.notes.push("Tokens are a quarter of the characters, where the file does not count them".to_owned());
}

/// Tokens of the first prompt and of its answer.
fn turn(file: &mut File<'_>, line: Item<'_>, path: &Path<'_>, short: &mut usize) -> Option<(f64, f64)> {
    let mut number = |names: &[&str]| {
        let found = names.iter().find_map(|name| line.get(name))?;
        quantity(found, path, not_negative(MAX_TOKENS, ""), &mut file.faults)
    };
    let counted = number(&["prompt_len", "prompt_tokens", "input_length"]);
    let wanted = number(&["output_tokens", "expected_output_len", "output_len", "max_tokens"]);
    let listed =
        line.get("conversations").or_else(|| line.get("conversation")).or_else(|| line.get("messages"));
    if let Some(turns) = listed.filter(|turns| turns.kind() == Kind::Seq) {
        let mut texts =
            turns.items().filter_map(said).skip_while(|&(is_human, _)| !is_human).map(|(_, text)| text);
        let (prompt, answer) = (texts.next(), texts.next());
        return match (prompt, answer, wanted) {
            (Some(prompt), _, Some(wanted)) => Some((counted.unwrap_or_else(|| tokens(prompt)), wanted)),
            (Some(prompt), Some(answer), None) => {
                Some((counted.unwrap_or_else(|| tokens(prompt)), tokens(answer)))
            }
            _ => {
                *short += 1;
                None
            }
        };
    }
    let prompt = line.get("prompt").or_else(|| line.get("text")).map(Item::text);
    if prompt.is_none() && counted.is_none() {
        let message = format_args!("there are neither `conversations` nor a `prompt`");
        file.faults.add(Code::Missing, line.at(), path, message);
        return None;
    }
    let answer = line.get("completion").or_else(|| line.get("response")).map(|answer| tokens(answer.text()));
    Some((counted.unwrap_or_else(|| tokens(prompt.unwrap_or_default())), wanted.or(answer).unwrap_or(USUAL)))
}

/// Whether a person says it, and what.
fn said<'t>(turn: Item<'t>) -> Option<(bool, &'t str)> {
    let who = turn.get("from").or_else(|| turn.get("role"))?.text();
    let what = turn.get("value").or_else(|| turn.get("content"))?;
    what.scalar().is_some().then(|| (matches!(who, "human" | "user"), what.text()))
}

fn tokens(text: &str) -> f64 {
    (text.chars().count() as f64 / CHARACTERS).ceil().max(1.0)
}
