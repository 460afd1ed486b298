//! The trace of a production service of image generation as a problem: a checkpoint is a model, a request is one node.
//!
//! Only requests that succeeded; time runs 20 times as fast; execution times are those recorded. What loading each
//! checkpoint takes is drawn, seeded, from the load times that were measured there, and is paid on every change of model.
//!
//! Seed [`KNOWN_DRAW`] is the draw of Python's `random.Random(1).choice`, one for each checkpoint in order of appearance. It was
//! found by trying some hundreds of ways to draw, as a fit to what a prototype measured for first come, first served: its mean
//! latency is the same within 0.4% on 4, 8 and 16 GPUs. That is likely, not certain: loads differ by up to 0.3%, and `sample`
//! with the same seed fits nearly as well.

use gswarm_core::input::{Scenario, Source};
use gswarm_import::trace::gentd26 as trace;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};

/// How much faster than recorded requests arrive.
const COMPRESSION: f64 = 20.0;

/// The seed that stands for the draw of load times behind the figures of the prototype.
pub const KNOWN_DRAW: u64 = 0;

/// Where the trace is, if it is there.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gentd26")
}

/// The trace as a scenario, as `gswarm import gentd26` makes it; `None` where the files are not there.
pub fn scenario(seed: u64) -> Option<Scenario> {
    let requests = std::fs::read(folder().join("requests_to_2024-11-28.csv")).ok()?;
    let loads = std::fs::read(folder().join("basemodel_load_ms.csv")).ok()?;
    let (requests, _) = trace::generations(Source { name: "requests", bytes: &requests }).expect("a trace");
    let loads = trace::loads(Source { name: "loads", bytes: &loads }).expect("load times");
    let mut draws = Draws::new(seed);
    Some(trace::scenario(&requests, &loads, COMPRESSION, &mut |count| draws.below(count)))
}

enum Draws {
    Seeded(Box<ChaCha8Rng>),
    Known(Box<Twister>),
}

impl Draws {
    fn new(seed: u64) -> Draws {
        match seed {
            KNOWN_DRAW => Draws::Known(Box::new(Twister::new(1))),
            seed => Draws::Seeded(Box::new(ChaCha8Rng::seed_from_u64(seed))),
        }
    }

    fn below(&mut self, count: usize) -> usize {
        match self {
            Draws::Seeded(draws) => draws.random_range(0..count),
            Draws::Known(draws) => draws.below(count),
        }
    }
}

/// MT19937, seeded and drawn from as Python's `random.Random` does it with a seed below 2^32.
struct Twister {
    state: [u32; Twister::SIZE],
    next: usize,
}

impl Twister {
    const SIZE: usize = 624;

    fn new(seed: u32) -> Twister {
        let mut state = [0u32; Twister::SIZE];
        let mixed = |before: u32, factor: u32| (before ^ (before >> 30)).wrapping_mul(factor);
        state[0] = 19_650_218;
        for at in 1..Twister::SIZE {
            state[at] = mixed(state[at - 1], 1_812_433_253).wrapping_add(at as u32);
        }
        // The key has one word, so each of the 624 steps adds the same.
        let mut at = 1;
        for _ in 0..Twister::SIZE {
            state[at] = (state[at] ^ mixed(state[at - 1], 1_664_525)).wrapping_add(seed);
            at = Twister::after(&mut state, at);
        }
        for _ in 1..Twister::SIZE {
            state[at] = (state[at] ^ mixed(state[at - 1], 1_566_083_941)).wrapping_sub(at as u32);
            at = Twister::after(&mut state, at);
        }
        state[0] = 1 << 31;
        Twister { state, next: Twister::SIZE }
    }

    fn after(state: &mut [u32; Twister::SIZE], at: usize) -> usize {
        if at + 1 < Twister::SIZE {
            return at + 1;
        }
        state[0] = state[Twister::SIZE - 1];
        1
    }

    fn word(&mut self) -> u32 {
        if self.next == Twister::SIZE {
            for at in 0..Twister::SIZE {
                let (upper, lower) = (self.state[at], self.state[(at + 1) % Twister::SIZE]);
                let joined = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[at] = self.state[(at + 397) % Twister::SIZE] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number below `count`: as many bits as it has, drawn again while they are too large.
    fn below(&mut self, count: usize) -> usize {
        let bits = usize::BITS - count.leading_zeros();
        loop {
            let drawn = (self.word() >> (32 - bits)) as usize;
            if drawn < count {
                return drawn;
            }
        }
    }
}
