//! Symmetries: interchangeable GPUs, and requests of one workflow with the same times.

use super::problem::{ExactProblem, MOST_GPUS, State, bits};

pub(super) struct Symmetry {
    /// By request: the one before it that is just like it.
    pub twin_before: Vec<Option<usize>>,
    /// By request: its tasks.
    pub of_request: Vec<u64>,
    /// Requests that are alike, where there are two or more of a kind.
    pub kinds: Vec<Vec<usize>>,
    /// Requests that are like no other.
    pub single: Vec<usize>,
    /// GPUs of which any two can change places, in runs of one class each.
    pub classes: Vec<Vec<usize>>,
    /// Whether the order of all GPUs can be turned round.
    pub mirrored: bool,
}

impl Symmetry {
    /// `alike` is a key for each request, equal for those that are just like one another; `windows` are all windows of each
    /// width that is used, as sets of GPUs.
    pub fn new(alike: &[usize], of_request: Vec<u64>, gpus: usize, windows: &[u32]) -> Symmetry {
        let twin_before = (0..alike.len()).map(|at| (0..at).rev().find(|&other| alike[other] == alike[at]));
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        for at in 0..alike.len() {
            match kinds.iter_mut().find(|kind| alike[kind[0]] == alike[at]) {
                Some(kind) => kind.push(at),
                None => kinds.push(vec![at]),
            }
        }
        let single = kinds.iter().filter(|kind| kind.len() == 1).map(|kind| kind[0]).collect();
        kinds.retain(|kind| kind.len() > 1);
        let keeps = |moved: &dyn Fn(usize) -> usize| {
            windows.iter().all(|&window| {
                let image = (0..gpus).filter(|&gpu| window >> gpu & 1 == 1).map(|gpu| 1 << moved(gpu)).sum();
                windows.contains(&image)
            })
        };
        let mut classes: Vec<Vec<usize>> = Vec::new();
        for gpu in 0..gpus {
            let swapped = |other: usize| {
                move |at: usize| {
                    if at == gpu {
                        other
                    } else if at == other {
                        gpu
                    } else {
                        at
                    }
                }
            };
            match classes.iter_mut().find(|class| keeps(&swapped(class[0]))) {
                Some(class) => class.push(gpu),
                None => classes.push(vec![gpu]),
            }
        }
        let mirrored = classes.len() > 1 && keeps(&|gpu| gpus - 1 - gpu);
        Symmetry { twin_before: twin_before.collect(), of_request, kinds, single, classes, mirrored }
    }

    /// Of requests that are alike the first begins first.
    pub fn waits_for_twin(&self, placed: u64, request: usize) -> bool {
        self.twin_before[request]
            .is_some_and(|twin| placed & self.of_request[twin] == 0 && placed & self.of_request[request] == 0)
    }
}

/// A state without the names of what is alike: equal keys can be compared, time by time.
#[derive(Default)]
pub(super) struct Canonical {
    pub placed: u64,
    pub held: u64,
    /// When each GPU is free, and when the waiting tasks of requests that have begun have their inputs.
    pub times: Vec<u64>,
    /// The latest that these could be without making any difference: nothing starts before the task placed last, and a GPU
    /// that has been free for longer than any load takes is as good as one that has been free for just as long.
    pub slack: Vec<u64>,
    alike: Vec<(u64, usize, usize)>,
}

impl Canonical {
    pub fn set(&mut self, problem: &ExactProblem, state: &State) {
        self.times.clear();
        self.slack.clear();
        self.set_gpus(problem, state);
        self.set_requests(problem, state);
    }

    fn set_gpus(&mut self, problem: &ExactProblem, state: &State) {
        let pair = |gpu: usize| (state.held[gpu], state.free[gpu]);
        let arranged = |turned: bool| {
            let mut pairs = [(0, 0); MOST_GPUS];
            for class in &problem.symmetry.classes {
                let mut sorted = [(0, 0); MOST_GPUS];
                let source = |gpu: usize| if turned { problem.gpus - 1 - gpu } else { gpu };
                class.iter().enumerate().for_each(|(at, &gpu)| sorted[at] = pair(source(gpu)));
                sorted[..class.len()].sort_unstable();
                class.iter().enumerate().for_each(|(at, &gpu)| pairs[gpu] = sorted[at]);
            }
            pairs
        };
        let mut pairs = arranged(false);
        if problem.symmetry.mirrored {
            pairs = pairs.min(arranged(true));
        }
        let useful = state.now.saturating_sub(problem.longest_load);
        self.held = 0;
        for &(held, free) in &pairs[..problem.gpus] {
            self.held = self.held << 4 | u64::from(held);
            self.times.push(free);
            self.slack.push(free.max(useful));
        }
    }

    fn set_requests(&mut self, problem: &ExactProblem, state: &State) {
        let symmetry = &problem.symmetry;
        self.placed = state.placed;
        for request in symmetry.single.iter().copied() {
            self.push_inputs(problem, state, request);
        }
        for kind in &symmetry.kinds {
            // Those that are alike stand by what is placed of them, then by their times.
            self.alike.clear();
            let begin = self.times.len();
            for &request in kind {
                let from = self.times.len();
                self.push_inputs(problem, state, request);
                let placed = (state.placed & symmetry.of_request[request]) >> problem.requests[request].0;
                self.alike.push((placed, from, self.times.len()));
            }
            let raw = self.times.split_off(begin);
            let held: Vec<u64> = self.slack.split_off(begin);
            let of = |&(_, from, to): &(u64, usize, usize)| &raw[from - begin..to - begin];
            self.alike.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| of(a).cmp(of(b))));
            for (&request, &(placed, from, to)) in kind.iter().zip(&self.alike) {
                self.placed &= !symmetry.of_request[request];
                self.placed |= placed << problem.requests[request].0;
                self.times.extend_from_slice(&raw[from - begin..to - begin]);
                self.slack.extend_from_slice(&held[from - begin..to - begin]);
            }
        }
    }

    fn push_inputs(&mut self, problem: &ExactProblem, state: &State, request: usize) {
        for task in bits(problem.symmetry.of_request[request] & !state.placed) {
            let there = problem.tasks[task].inputs & state.placed;
            if there != 0 {
                let ready = bits(there).map(|before| state.end[before]).max().unwrap_or(0);
                self.times.push(ready);
                self.slack.push(ready.max(state.now));
            }
        }
    }
}
