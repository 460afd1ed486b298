//! How fast the members of a batch get on: while b share a replica, each progresses at 1/slowdown(b) of its speed alone.

use crate::time::{Span, Time};

/// Work is counted in millionths of a microsecond, so that rounding never adds up to one.
const UNITS: u128 = 1_000_000;

/// Those who share a replica, and how far they are. `slowdown` is the model's, per batch size in millionths.
#[derive(Clone, Debug)]
pub struct Sharing<M> {
    /// What a member will have had of work when it is done, counted as `progress` is.
    members: Vec<(u128, M)>,
    /// Work that each member has had since the batch began.
    progress: u128,
    since: Time,
}

impl<M> Default for Sharing<M> {
    fn default() -> Sharing<M> {
        Sharing { members: Vec::new(), progress: 0, since: Time::ZERO }
    }
}

impl<M: Copy + Ord> Sharing<M> {
    /// Those who share it now.
    pub fn members(&self) -> impl Iterator<Item = M> + '_ {
        self.members.iter().map(|&(_, member)| member)
    }

    /// Somebody comes in, with this much work.
    pub fn join(&mut self, now: Time, member: M, work: Span, slowdown: &[u32]) {
        self.advance(now, slowdown);
        self.members.push((self.progress + u128::from(work.0) * UNITS, member));
    }

    /// Somebody is done, or gives up.
    pub fn leave(&mut self, now: Time, member: M, slowdown: &[u32]) {
        self.advance(now, slowdown);
        self.members.retain(|&(_, other)| other != member);
        if self.members.is_empty() {
            self.progress = 0;
        }
    }

    /// Who is done first if nobody comes or leaves until then, and when.
    #[must_use]
    pub fn next_end(&self, slowdown: &[u32]) -> Option<(Time, M)> {
        let &(target, member) = self.members.iter().min()?;
        let slow = u128::from(slowdown[self.members.len() - 1]);
        let left = target.saturating_sub(self.progress) * slow;
        Some((self.since + Span(left.div_ceil(UNITS * UNITS) as u64), member))
    }

    fn advance(&mut self, now: Time, slowdown: &[u32]) {
        if let Some(last) = self.members.len().checked_sub(1) {
            let elapsed = u128::from((now - self.since).0) * UNITS * UNITS;
            self.progress += elapsed / u128::from(slowdown[last]);
        }
        self.since = now;
    }
}
