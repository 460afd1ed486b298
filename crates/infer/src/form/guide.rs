//! Which tokens may come next in an answer that is held to a form.

use super::TokenBytes;
use crate::error::{Error, Result};
use regex_automata::Anchored;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::start;
use std::collections::HashMap;
use std::sync::Arc;

/// How far one answer has come in its form.
pub(crate) struct Guide {
    automaton: DFA,
    cache: Cache,
    tokens: Arc<TokenBytes>,
    state: LazyStateID,
    /// Whether a state can still lead to a whole text. Only looked up, so that its order does not matter.
    alive: HashMap<LazyStateID, bool>,
    /// The tokens that may follow a state.
    allowed: HashMap<LazyStateID, Arc<[u32]>>,
}

fn too_complex() -> Error {
    Error::Request("the answer cannot be held to this form: it is too complex".to_owned())
}

impl Guide {
    pub(super) fn new(automaton: DFA, tokens: Arc<TokenBytes>) -> Result<Guide> {
        let mut cache = automaton.create_cache();
        let config = start::Config::new().anchored(Anchored::Yes);
        let state = automaton.start_state(&mut cache, &config).map_err(|_| too_complex())?;
        let (alive, allowed) = (HashMap::new(), HashMap::new());
        Ok(Guide { automaton, cache, tokens, state, alive, allowed })
    }

    /// Takes every token out of the scores that would leave the form. `ends` are the tokens that end an answer.
    pub(crate) fn mask(&mut self, scores: &mut [f32], ends: &[u32]) -> Result<()> {
        let allowed = self.allowed()?;
        let may_end = self.is_whole()?;
        let ends = ends.iter().filter(|_| may_end);
        let mut kept: Vec<(u32, f32)> = Vec::with_capacity(allowed.len() + 1);
        kept.extend(
            allowed.iter().chain(ends).filter_map(|&token| Some((token, *scores.get(token as usize)?))),
        );
        if kept.iter().all(|&(_, score)| score == f32::NEG_INFINITY) {
            // What was made impossible by other settings is all that is left.
            kept.iter_mut().for_each(|(_, score)| *score = 0.0);
        }
        if kept.is_empty() {
            return Err(Error::Compute(
                "the model has no token with which the answer could go on".to_owned(),
            ));
        }
        scores.fill(f32::NEG_INFINITY);
        kept.into_iter().for_each(|(token, score)| scores[token as usize] = score);
        Ok(())
    }

    /// Goes on by a token. One that has no text ends the answer, and changes nothing.
    pub(crate) fn accept(&mut self, token: u32) -> Result<()> {
        let tokens = Arc::clone(&self.tokens);
        for &byte in tokens.bytes(token).unwrap_or_default() {
            self.state = self.next(self.state, byte)?;
        }
        Ok(())
    }

    /// Whether the text is whole and nothing can follow.
    pub(crate) fn is_over(&mut self) -> Result<bool> {
        Ok(self.is_whole()? && self.allowed()?.is_empty())
    }

    fn is_whole(&mut self) -> Result<bool> {
        self.ends(self.state)
    }

    fn next(&mut self, state: LazyStateID, byte: u8) -> Result<LazyStateID> {
        self.automaton.next_state(&mut self.cache, state, byte).map_err(|_| too_complex())
    }

    /// Whether the text up to a state is whole. The automaton says so one step later.
    fn ends(&mut self, state: LazyStateID) -> Result<bool> {
        let end = self.automaton.next_eoi_state(&mut self.cache, state).map_err(|_| too_complex())?;
        Ok(end.is_match())
    }

    /// Whether a text up to a state can become whole. A state of which only is known that the text before it was whole leads
    /// nowhere.
    fn is_alive(&mut self, state: LazyStateID) -> Result<bool> {
        if state.is_dead() || state.is_quit() {
            return Ok(false);
        }
        if let Some(&known) = self.alive.get(&state) {
            return Ok(known);
        }
        let mut alive = self.ends(state)?;
        for byte in 0..=255 {
            if alive {
                break;
            }
            let next = self.next(state, byte)?;
            alive = !next.is_dead() && !next.is_quit();
        }
        self.alive.insert(state, alive);
        Ok(alive)
    }

    /// The tokens after which the text can still become whole. Those that begin alike are walked together.
    fn allowed(&mut self) -> Result<Arc<[u32]>> {
        if let Some(known) = self.allowed.get(&self.state) {
            return Ok(Arc::clone(known));
        }
        let tokens = Arc::clone(&self.tokens);
        let (mut found, mut path): (Vec<u32>, Vec<LazyStateID>) = (Vec::new(), vec![self.state]);
        let mut before: &[u8] = &[];
        // As many bytes of the token before as lead somewhere.
        let mut good = 0;
        for (bytes, token) in tokens.sorted() {
            let alike = before.iter().zip(bytes.iter()).take_while(|(a, b)| a == b).count();
            before = bytes;
            // It begins with what led nowhere.
            if alike > good {
                continue;
            }
            path.truncate(alike + 1);
            good = alike;
            while good < bytes.len() {
                let next = self.next(path[good], bytes[good])?;
                if !self.is_alive(next)? {
                    break;
                }
                path.push(next);
                good += 1;
            }
            if good == bytes.len() {
                found.push(*token);
            }
        }
        found.sort_unstable();
        let found: Arc<[u32]> = found.into();
        self.allowed.insert(self.state, Arc::clone(&found));
        Ok(found)
    }
}
