//! Beam search for a good first schedule: the most promising states of each size are extended by one task, and the best
//! are kept.

use super::bounds::Bounds;
use super::memo::Memo;
use super::problem::{ExactProblem, State, Step};
use super::symmetry::Canonical;

/// The best schedule that `width` states at a time lead to, if it ends before `target`. Takes what it looks at off `states`,
/// and gives up where they do not last.
pub(super) fn beam(
    problem: &ExactProblem,
    target: u64,
    width: usize,
    states: &mut u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<(u64, Vec<Step>)> {
    let (mut bounds, mut canonical, mut next_steps) = (Bounds::new(), Canonical::default(), Vec::new());
    let latest = problem.latest_before(target);
    let mut level: Vec<(State, Vec<Step>)> = vec![(State::empty(), Vec::new())];
    for _ in 0..problem.tasks.len() {
        let mut grown: Vec<((u64, u64), usize, Step)> = Vec::new();
        let mut memo = Memo::new(usize::MAX);
        for (parent, (state, _)) in level.iter().enumerate() {
            if parent % 64 == 0 && stop() {
                return None;
            }
            if problem.steps(state, target, &mut next_steps).is_none() {
                continue;
            }
            if *states < next_steps.len() as u64 {
                return None;
            }
            *states -= next_steps.len() as u64;
            for &step in &next_steps {
                let mut next = state.clone();
                problem.place(&mut next, step);
                if bounds.exceed(problem, &next, latest) {
                    continue;
                }
                canonical.set(problem, &next);
                if !memo.covers(problem, &canonical) {
                    grown.push((bounds.estimate(problem, &next), parent, step));
                }
            }
        }
        if grown.len() > width {
            grown.select_nth_unstable(width - 1);
            grown.truncate(width);
        }
        grown.sort_unstable();
        level = grown
            .into_iter()
            .map(|(_, parent, step)| {
                let (mut state, mut steps) = level[parent].clone();
                problem.place(&mut state, step);
                steps.push(step);
                (state, steps)
            })
            .collect();
    }
    let ended = level.into_iter().map(|(state, steps)| (state.makespan(problem), steps));
    ended.min_by(|a, b| a.0.cmp(&b.0)).filter(|&(makespan, _)| makespan < target)
}
