//! How things stand, as `/v1/overview` and `/v1/history` say it. What a newer service adds is passed over.

use serde::Deserialize;

/// How things stand.
#[derive(Clone, Debug, Deserialize)]
pub struct Overview {
    pub title: String,
    pub now: f64,
    pub state: String,
    pub why: Option<String>,
    pub policy: String,
    pub gpus: Vec<Gpu>,
    pub backends: Vec<Backend>,
    pub counts: Counts,
    pub latency: Latency,
    pub minutes: Minutes,
    pub models: Vec<Model>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Gpu {
    pub gpu: u32,
    pub server: u32,
    pub state: String,
    pub models: Vec<String>,
    pub loading: Option<String>,
    pub memory_gb: f64,
    pub memory_total_gb: Option<f64>,
    pub batch: u32,
    pub free_in: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Backend {
    pub name: String,
    pub up: bool,
    pub down_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Counts {
    pub open: u64,
    pub waiting_nodes: u64,
    pub running_nodes: u64,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub executions: u64,
    pub loads: u64,
    pub evictions: u64,
    pub retries: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Minutes {
    pub bucket_seconds: f64,
    pub completed: Vec<u64>,
    pub executions: Vec<u64>,
    pub loads: Vec<u64>,
    pub waiting: Vec<u64>,
}

/// Of requests that ended within a while, or of all.
#[derive(Clone, Debug, Deserialize)]
pub struct Latency {
    pub window_seconds: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Model {
    pub name: String,
    pub waiting: u64,
    pub longest_wait: f64,
    pub why: Option<String>,
    pub resident_on: Vec<u32>,
}

/// What happened after a number.
#[derive(Clone, Debug, Deserialize)]
pub struct History {
    pub last: u64,
    pub happenings: Vec<Happening>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Happening {
    pub t: f64,
    pub kind: String,
    pub text: String,
}

/// Buckets that rates are taken over: the last minute.
const MINUTE: f64 = 60.0;

impl Minutes {
    fn last_minute(&self) -> usize {
        ((MINUTE / self.bucket_seconds.max(0.001)).round() as usize).max(1)
    }

    /// How many a second, of late.
    pub fn rate(&self, counts: &[u64]) -> f64 {
        let late = &counts[counts.len().saturating_sub(self.last_minute())..];
        if late.is_empty() {
            0.0
        } else {
            late.iter().sum::<u64>() as f64 / (late.len() as f64 * self.bucket_seconds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(completed: &[u64]) -> Minutes {
        Minutes {
            bucket_seconds: 5.0,
            completed: completed.to_vec(),
            executions: Vec::new(),
            loads: Vec::new(),
            waiting: Vec::new(),
        }
    }

    #[test]
    fn rates_are_of_the_last_minute() {
        let mut counts = vec![100; 20];
        counts.extend([6; 12]);
        let late = minutes(&counts);
        assert!((late.rate(&late.completed) - 1.2).abs() < 1e-9);
        assert_eq!(minutes(&[]).rate(&[]), 0.0);
    }
}
