//! Prompts that begin as earlier ones did: what a cache of prefixes has of them need not be read again.

use super::Row;
use crate::File;
use crate::draft::Draft;
use gswarm_core::input::Code;
use gswarm_core::input::document::Path;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Tokens of a block, as Mooncake's traces number them.
const BLOCK: f64 = 512.0;

/// Plays a cache with room for so many blocks, from which the one that was used least recently leaves first. `false` where the
/// trace does not say what prompts hold, which is reported.
pub(super) fn reuse(file: &mut File<'_>, rows: &mut [Row], room: usize, draft: &mut Draft) -> bool {
    if rows.iter().all(|row| row.blocks.is_empty()) {
        let message = format_args!("--prefix-cache: this trace does not say which prompts share a prefix");
        let hint = "Mooncake's traces do, by their `hash_ids`".to_owned();
        file.faults.add_hinted(Code::NoSuchPlace, 0, &Path::root(), message, Some(hint));
        return false;
    }
    // When each block was used last, and the other way round.
    let mut used: FxHashMap<u64, u64> = FxHashMap::default();
    let mut order: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut moment, mut read, mut cached) = (0, 0.0, 0.0);
    for row in rows.iter_mut() {
        let hits = row.blocks.iter().take_while(|block| used.contains_key(block)).count();
        // The last token is always computed: the answer begins with it.
        row.cached_tokens = (hits as f64 * BLOCK).min((row.prompt_tokens - 1.0).max(0.0));
        (read, cached) = (read + row.prompt_tokens, cached + row.cached_tokens);
        // Later blocks are of no use without earlier ones: those stay the longest.
        for &block in row.blocks.iter().rev() {
            moment += 1;
            if let Some(before) = used.insert(block, moment) {
                order.remove(&before);
            }
            order.insert(moment, block);
        }
        while used.len() > room {
            let Some((_, oldest)) = order.pop_first() else { break };
            used.remove(&oldest);
        }
    }
    let share = if read > 0.0 { 100.0 * cached / read } else { 0.0 };
    draft.notes.say(format!(
        "A cache of {room} blocks of 512 tokens, shared by all replicas, holds {share:.1}% of the prompts' tokens, which take no time (--prefix-cache)"
    ));
    true
}
