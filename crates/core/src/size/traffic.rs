//! More traffic like that of a trace: the trace is cut into blocks of time, and blocks are drawn anew.
//!
//! A block keeps the requests that arrive in it, at their distances, so bursts and what comes together stay together (a block
//! bootstrap). Over the traces of one draw every block occurs equally often (a balanced bootstrap), so rate and mix are those of
//! the trace. Where the trace has a shape, such as a day with a peak, blocks stay in their eighth of it.

use crate::bound::request_work;
use crate::instance::{Instance, Mode};
use crate::scenario::{RequestSpec, Scenario};
use crate::time::Span;
use crate::truth::{mix, unit};
use serde_json::{Map, Value};

/// The parts of a trace that keep their place where it has a shape.
const PARTS: usize = 8;

/// Between parts the work of blocks varies this many times as much as within them where a trace has a shape. Traffic that does
/// not change exceeds it in one of a thousand traces (the F distribution).
const SHAPE: f64 = 4.0;

/// With fewer blocks nothing can be said of how they differ.
const FEW_BLOCKS: usize = 10;

/// A trace that others are drawn from.
#[derive(Clone, Debug)]
pub struct Traffic {
    requests: Vec<RequestSpec>,
    /// The requests that arrive in each block, with the time from its start.
    blocks: Vec<Vec<(u64, u32)>>,
    /// The length of a block in microseconds; zero where all arrive at once.
    slot: u64,
    /// Into how many parts the blocks are divided that keep their place.
    parts: usize,
    /// So many times the traffic.
    multiple: f64,
    /// GPU-time of the requests of each block, in microseconds.
    work: Vec<f64>,
}

/// How many GPUs traffic keeps busy on average, and how well the trace tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfferedLoad {
    /// GPU-time of the requests over the length of the trace.
    pub gpus: f64,
    /// Half of its 95% confidence interval: another trace of the same traffic has another rate and mix.
    pub plus_minus: f64,
}

/// Requests of several traces behind one another.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The requests, by arrival.
    pub requests: Vec<RequestSpec>,
    /// The trace of each; none of those that only warm up.
    pub trace_of: Vec<Option<u32>>,
    /// When the warm-up is over, in seconds from the first arrival.
    pub measured_from: f64,
}

impl Traffic {
    /// The traffic of a scenario's requests, so many times as much. Inputs of calls are kept only where `keep_inputs`: a
    /// predictor reads them.
    #[must_use]
    pub fn of(scenario: &Scenario, instance: &Instance, multiple: f64, keep_inputs: bool) -> Traffic {
        let count = scenario.requests.len();
        let slim = |request: &RequestSpec| RequestSpec {
            input_data: if keep_inputs { request.input_data.clone() } else { Map::new() },
            node_configs: if keep_inputs { request.node_configs.clone() } else { Map::new() },
            metadata: Value::Null,
            ..request.clone()
        };
        let requests: Vec<RequestSpec> = scenario.requests.iter().map(slim).collect();
        let number = ((count as f64).sqrt().round() as usize).max(1);
        let mut blocks = vec![Vec::new(); number];
        let last = instance.requests.iter().map(|request| request.arrival.0).max().unwrap_or(0);
        // The next request after the last would come a mean gap later.
        let period = last + last / (count.max(2) as u64 - 1);
        let slot = if instance.mode == Mode::Offline { 0 } else { period.div_ceil(number as u64) };
        let mut work = vec![0.0; number];
        let of_request = request_work(instance);
        for (id, request) in instance.requests.iter_enumerated() {
            let block = match slot {
                0 => id.index() * number / count,
                slot => (request.arrival.0 / slot) as usize,
            };
            let block = block.min(number - 1);
            blocks[block].push((request.arrival.0 - block as u64 * slot, id.0));
            work[block] += of_request[id] as f64;
        }
        blocks.iter_mut().for_each(|block| block.sort_unstable());
        let parts = if slot > 0 && has_shape(&work) { PARTS } else { 1 };
        Traffic { requests, blocks, slot, parts, multiple, work }
    }

    /// How long a trace is; zero where all its requests arrive at once.
    #[must_use]
    pub fn period(&self) -> Span {
        Span(self.slot * self.blocks.len() as u64)
    }

    /// Requests of one trace, on average.
    #[must_use]
    pub fn requests_per_trace(&self) -> f64 {
        self.requests.len() as f64 * self.multiple
    }

    /// The load that the traffic offers, by how much blocks of the trace differ. None of a batch, or of a few requests.
    #[must_use]
    pub fn load(&self) -> Option<OfferedLoad> {
        let blocks = self.work.len();
        if self.slot == 0 || blocks < FEW_BLOCKS {
            return None;
        }
        let variance = within(&self.work, self.parts) / (blocks - self.parts) as f64;
        let gpus = self.multiple / self.slot as f64;
        let mean = self.work.iter().sum::<f64>() / blocks as f64;
        Some(OfferedLoad { gpus: gpus * mean, plus_minus: 1.96 * gpus * (variance / blocks as f64).sqrt() })
    }

    /// Whether the trace has a shape that draws keep.
    #[must_use]
    pub fn has_shape(&self) -> bool {
        self.parts > 1
    }

    /// Traces behind one another, after a warm-up of at least this length.
    #[must_use]
    pub fn draw(&self, seed: u64, warm_up: Span, traces: usize) -> Drawn {
        let slots = self.blocks.len();
        let warm = if self.slot == 0 { 0 } else { warm_up.0.div_ceil(self.slot) as usize };
        let before = warm.div_ceil(slots);
        self.lay_out(seed, warm, traces, |seed| {
            // The warm-up is the end of the traces before the first, so that a shape goes on.
            let mut order = self.balanced(mix(seed), before).split_off(before * slots - warm);
            order.extend(self.balanced(mix(seed ^ 0x6d65_6173), traces));
            order
        })
    }

    /// The trace as it is; what a multiple adds to it is drawn.
    #[must_use]
    pub fn as_given(&self, seed: u64) -> Drawn {
        let mut first = true;
        self.lay_out(seed, 0, 1, |seed| {
            if std::mem::take(&mut first) {
                (0..self.blocks.len()).collect()
            } else {
                self.balanced(mix(seed), 1)
            }
        })
    }

    /// Puts blocks behind one another: as many independent rows of them as the traffic is multiplied by, the last thinned out.
    fn lay_out(
        &self,
        seed: u64,
        warm: usize,
        traces: usize,
        mut order: impl FnMut(u64) -> Vec<usize>,
    ) -> Drawn {
        let slots = self.blocks.len();
        let mut rows: Vec<(u64, u32, Option<u32>)> = Vec::with_capacity((warm + traces * slots) * slots);
        for copy in 0..self.multiple.ceil() as u64 {
            let (seed, share) = (mix(seed ^ mix(copy)), self.multiple - copy as f64);
            for (place, block) in order(seed).into_iter().enumerate() {
                let trace = place.checked_sub(warm).map(|place| (place / slots) as u32);
                for &(offset, request) in &self.blocks[block] {
                    let is_kept = || unit(mix(seed ^ mix((place as u64) << 32 | u64::from(request)))) < share;
                    if share >= 1.0 || is_kept() {
                        rows.push((place as u64 * self.slot + offset, request, trace));
                    }
                }
            }
        }
        rows.sort_by_key(|&(at, ..)| at);
        let first = rows.first().map_or(0, |&(at, ..)| at);
        let drawn = |(number, &(at, request, _)): (usize, &(u64, u32, Option<u32>))| RequestSpec {
            id: format!("r{number}"),
            timestamp: Some(at as i64),
            ..self.requests[request as usize].clone()
        };
        Drawn {
            requests: rows.iter().enumerate().map(drawn).collect(),
            trace_of: rows.iter().map(|&(.., trace)| trace).collect(),
            measured_from: Span((warm as u64 * self.slot).saturating_sub(first)).seconds(),
        }
    }

    /// The blocks of so many traces: in each part of the trace every block that belongs there, equally often, in any order.
    fn balanced(&self, seed: u64, traces: usize) -> Vec<usize> {
        let slots = self.blocks.len();
        let mut order = vec![0; slots * traces];
        for part in 0..self.parts {
            let members: Vec<usize> = (0..slots).filter(|block| block * self.parts / slots == part).collect();
            let mut pool: Vec<usize> = members.iter().copied().cycle().take(members.len() * traces).collect();
            shuffle(&mut pool, seed ^ mix(part as u64));
            let places = (0..traces).flat_map(|trace| members.iter().map(move |place| trace * slots + place));
            places.zip(pool).for_each(|(place, block)| order[place] = block);
        }
        order
    }
}

/// Puts items in an order drawn from a seed.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = mix(state);
        items.swap(last, (unit(state) * (last + 1) as f64) as usize);
    }
}

/// Whether the parts of a trace differ by more than their blocks do: one-way analysis of variance.
fn has_shape(work: &[f64]) -> bool {
    if work.len() < 2 * PARTS {
        return false;
    }
    let apart = within(work, PARTS);
    let between = (within(work, 1) - apart) / (PARTS - 1) as f64;
    between > SHAPE * apart / (work.len() - PARTS) as f64
}

/// The sum of the squares by which blocks differ from the mean of their part.
fn within(work: &[f64], parts: usize) -> f64 {
    let part_of = |block: usize| block * parts / work.len();
    let (mut sums, mut counts) = (vec![0.0; parts], vec![0.0; parts]);
    for (block, &work) in work.iter().enumerate() {
        sums[part_of(block)] += work;
        counts[part_of(block)] += 1.0;
    }
    let differs = |(block, work): (usize, &f64)| {
        let part = part_of(block);
        (work - sums[part] / counts[part]).powi(2)
    };
    work.iter().enumerate().map(differs).sum()
}
