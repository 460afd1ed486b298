//! Calls that come and go while others are under way: what continuous batching makes of them.
//!
//! Calls that begin together have their prompts read together. In a run each joins when another leaves, and all others wait
//! while its prompt is read: a batch then takes more than one whose calls begin together, and how much more depends on the
//! lengths that are asked for.

use super::types::Cost;

/// One of many calls with never fewer than a batch of them under way, until no more were to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// When it began, in seconds.
    pub begun: f64,
    /// When it ended.
    pub ended: f64,
    /// Units that it read.
    pub prompt: f64,
    /// What it wrote.
    pub output: f64,
}

/// What calls took that came and went, as a share of what `cost` says of calls that begin together; `None` where no call had
/// a full batch about it from its beginning to its end.
///
/// Engines reckon that a call among others takes what it takes alone, times the slowdown of the batch: so it is the sum over
/// all such calls that has to come out.
pub fn mixed(cost: &Cost, calls: &[Passed]) -> Option<f64> {
    let mut ends: Vec<f64> = calls.iter().map(|one| one.ended).collect();
    ends.sort_by(f64::total_cmp);
    // When this many have ended, nobody takes the place of the next one that ends.
    let last = *ends.get(calls.len().checked_sub(cost.batch as usize)?)?;
    // Those who begin the whole find a server that has nothing to do: one that takes calls in turn seems faster to them.
    let first_end = ends[0];
    let in_company = || calls.iter().filter(|one| one.begun >= first_end && one.ended <= last);
    let took: f64 = in_company().map(|one| one.ended - one.begun).sum();
    let together: f64 = in_company().map(|one| cost.seconds(one.prompt, one.output)).sum();
    (took > 0.0 && together > 0.0).then(|| took / together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_in_full_company_count() {
        let cost = Cost { batch: 2, output: 0.1, ..Cost::default() };
        let call = |begun, ended, output| Passed { begun, ended, prompt: 0.0, output };
        // Two at once, a fifth slower than those that begin together; the last has the server to itself for a while.
        let calls = [call(0.0, 1.2, 10.0), call(0.0, 2.4, 20.0), call(1.2, 3.6, 20.0), call(2.4, 5.1, 25.0)];
        assert!((mixed(&cost, &calls).unwrap() - 1.2).abs() < 1e-9);
        assert_eq!(mixed(&cost, &calls[..1]), None, "there was never a batch");
        assert_eq!(mixed(&Cost { batch: 2, ..Cost::default() }, &calls), None, "nothing to compare with");
    }
}
