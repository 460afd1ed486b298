//! What executions would have taken alone on their replicas: a run that is predicted takes predictions for that, and slows those
//! down that share a replica. So the slowdown is taken out of a log, by the curve of the model and by who was there when.

use gswarm_core::cost::slowdown_table;
use gswarm_core::input::{BatchingSpec, Scenario};
use gswarm_core::log_file::LogFile;
use std::collections::HashMap;

/// A record, and when it was on its replica.
struct Member {
    at: usize,
    start: f64,
    end: f64,
}

/// Seconds alone of each record of a log, where it shared its replica and its model has a curve.
pub(super) fn alone(log: &LogFile, scenario: &Scenario) -> HashMap<usize, f64> {
    let mut found = HashMap::new();
    // Whoever was there counts, whatever came of it.
    let mut replicas: HashMap<(u32, i64), Vec<Member>> = HashMap::new();
    for (at, record) in log.executions.iter().enumerate() {
        if let (Some(model), Some(gpu), Some(start), Some(end)) =
            (record.model, record.gpus().min(), record.start_time, record.end_time)
            && end > start
        {
            replicas.entry((model, gpu)).or_default().push(Member { at, start, end });
        }
    }
    for ((model, _), members) in replicas {
        let curve = scenario.models.iter().find(|one| one.id == log.name(model));
        if let Some(curve) = curve.and_then(|one| one.batching.as_ref()) {
            found.extend(of_replica(&members, curve));
        }
    }
    found
}

/// Of those on one replica, by when they started and ended.
fn of_replica(members: &[Member], curve: &BatchingSpec) -> Vec<(usize, f64)> {
    let slowdown = slowdown_table(&curve.slowdown, curve.max_batch.max(1));
    let speed = |sharing: usize| {
        let most = slowdown.len().min(sharing);
        most.checked_sub(1).map_or(1.0, |at| 1e6 / f64::from(slowdown[at]))
    };
    // Those who end leave room for those who start.
    let mut events: Vec<(f64, bool, usize)> = Vec::with_capacity(2 * members.len());
    for (place, member) in members.iter().enumerate() {
        events.extend([(member.start, true, place), (member.end, false, place)]);
    }
    events.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let (mut now, mut progress, mut sharing) = (0.0, 0.0, 0_usize);
    let mut begun = vec![0.0; members.len()];
    let mut shared = vec![false; members.len()];
    let mut there: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for (time, starts, place) in events {
        progress += (time - now) * speed(sharing);
        now = time;
        if starts {
            sharing += 1;
            begun[place] = progress;
            there.push(place);
            if sharing > 1 {
                there.iter().for_each(|&member| shared[member] = true);
            }
        } else {
            sharing -= 1;
            there.retain(|&member| member != place);
            if shared[place] {
                found.push((members[place].at, progress - begun[place]));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_replica_gets_on_more_slowly_while_it_does() {
        let curve = BatchingSpec { max_batch: 2, slowdown: vec![(1, 1.0), (2, 2.0)] };
        // Two seconds alone, two shared; the second shares all of its time; the third is alone.
        let members =
            [(7, 0.0, 4.0), (8, 2.0, 4.0), (9, 4.0, 5.0)].map(|(at, start, end)| Member { at, start, end });
        let mut found = of_replica(&members, &curve);
        found.sort_by_key(|&(at, _)| at);
        assert_eq!(found, [(7, 3.0), (8, 1.0)]);
    }
}
