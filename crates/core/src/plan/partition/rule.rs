//! What the search chooses: when each block turns to the widest models, how many requests are under way, in which order.

use super::work::{Demand, Demands};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A rule for the dispatcher.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// When each block turns to the widest models.
    pub turns: Vec<u64>,
    /// Requests at once whose wide tasks still wait for narrow ones.
    pub under_way: f64,
    /// How many more for each wide task that is ready and waits for a block: what is made in advance can be made in bulk,
    /// with few switches.
    pub growth: f64,
    /// Whether a block without a wide task to run serves others meanwhile.
    pub lends: bool,
    /// Whether the longest wide task goes first, or that of the first request.
    pub longest_first: bool,
    /// The requests, first to begin first.
    pub order: Vec<u32>,
}

/// What a grid of rules is laid out around.
pub(super) struct Scale {
    /// How long the blocks can serve others if nothing is ever to be idle.
    pub spare: f64,
    /// About how long it takes until the first wide tasks can begin.
    pub lead: f64,
    pub blocks: usize,
}

/// Requests under way and growth, from hand to mouth to in bulk.
const PACES: [(f64, f64); 3] = [(2.0, 1.0), (8.0, 1.0), (24.0, 0.7)];
/// When the blocks turn, in leads beyond the spare time.
const DELAYS: [f64; 4] = [0.0, 1.0, 2.0, 5.0];

/// Rules to begin with.
pub(super) fn grid(demands: &Demands, scale: &Scale) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (delay, (under_way, growth)) in DELAYS.iter().flat_map(|&delay| PACES.map(|pace| (delay, pace))) {
        for order in orders(demands) {
            for longest_first in [true, false] {
                let turn = (scale.spare + delay * scale.lead) as u64;
                let turns = vec![turn; scale.blocks];
                rules.push(Rule {
                    turns,
                    under_way,
                    growth,
                    lends: false,
                    longest_first,
                    order: order.clone(),
                });
            }
        }
    }
    // Where wide tasks come and go with narrow ones between them, blocks that lend themselves out do better.
    let lending: Vec<Rule> =
        rules.iter().step_by(3).map(|rule| Rule { lends: true, ..rule.clone() }).collect();
    rules.extend(lending);
    rules
}

/// Orders of requests: those that the widest models wait for before the others, and of them first those that are soon
/// through with their narrow tasks, and leave much to do behind the wide ones.
fn orders(demands: &Demands) -> [Vec<u32>; 4] {
    let by = |key: &dyn Fn(&Demand) -> f64| {
        let mut keyed: Vec<(bool, f64, u32)> =
            (0..).zip(&demands.requests).map(|(id, demand)| (demand.wide == 0.0, key(demand), id)).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        keyed.into_iter().map(|(_, _, id)| id).collect()
    };
    [
        by(&|_| 0.0),
        by(&|demand| demand.before / demand.wide.max(1.0)),
        by(&|demand| demand.before),
        by(&|demand| demand.before - demand.after),
    ]
}

impl Rule {
    /// A rule that differs a little.
    pub fn varied(&self, scale: &Scale, rng: &mut ChaCha8Rng) -> Rule {
        let mut rule = self.clone();
        let either = |rng: &mut ChaCha8Rng| rng.random::<f64>() * 2.0 - 1.0;
        match rng.random_range(0..100) {
            0..15 => {
                let block = rng.random_range(0..rule.turns.len());
                rule.turns[block] = later(rule.turns[block], scale.step(rng) * either(rng));
            }
            15..25 => {
                let by = scale.step(rng) * either(rng);
                rule.turns.iter_mut().for_each(|turn| *turn = later(*turn, by));
            }
            25..35 => rule.under_way = (rule.under_way * either(rng).exp()).max(1.0),
            35..43 => rule.growth = (rule.growth * either(rng).exp() + 0.1 * either(rng)).clamp(0.0, 8.0),
            43..46 => rule.longest_first = !rule.longest_first,
            46..48 => rule.lends = !rule.lends,
            _ => {
                let most = 1 << rng.random_range(0..5);
                for _ in 0..rng.random_range(1..=most) {
                    rule.move_request(rng);
                }
            }
        }
        rule
    }

    /// The first and the last requests decide how the widest models begin and end: they move more often.
    fn move_request(&mut self, rng: &mut ChaCha8Rng) {
        let count = self.order.len();
        let edge = (count / 12).clamp(1, 64).min(count);
        let from = match rng.random_range(0..3) {
            0 => rng.random_range(0..edge),
            1 => count - 1 - rng.random_range(0..edge),
            _ => rng.random_range(0..count),
        };
        let reach = if rng.random::<f64>() < 0.7 { edge } else { count };
        let to = rng.random_range(from.saturating_sub(reach)..=(from + reach).min(count - 1));
        if rng.random::<f64>() < 0.5 {
            self.order.swap(from, to);
        } else if from < to {
            self.order[from..=to].rotate_left(1);
        } else {
            self.order[to..=from].rotate_right(1);
        }
    }
}

impl Scale {
    /// How far a turn moves at most: mostly by parts of a lead, now and then by much of the spare time.
    fn step(&self, rng: &mut ChaCha8Rng) -> f64 {
        if rng.random::<f64>() < 0.25 { self.lead + 0.5 * self.spare } else { 0.5 * self.lead }
    }
}

fn later(turn: u64, by: f64) -> u64 {
    (turn as f64 + by).max(0.0) as u64
}
