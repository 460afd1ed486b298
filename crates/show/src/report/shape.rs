//! How runs are grouped: by configuration and mode, in the order in which they come.

use crate::run::ReportRun;

/// Runs that can be compared with one another.
pub struct Group<'r> {
    /// The configuration, and the mode where the runs have both.
    pub name: String,
    /// Its runs.
    pub runs: Vec<&'r ReportRun>,
}

/// The groups.
pub fn groups(runs: &[ReportRun]) -> Vec<Group<'_>> {
    let mut groups: Vec<((&str, &str), Vec<&ReportRun>)> = Vec::new();
    for run in runs {
        let key = (run.configuration.as_str(), run.mode);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    groups.into_iter().map(|((name, mode), runs)| Group { name: format!("{name}, {mode}"), runs }).collect()
}

impl<'r> Group<'r> {
    /// Whether its runs are streams.
    pub fn is_stream(&self) -> bool {
        self.runs.iter().any(|run| run.is_stream())
    }

    /// The numbers of GPUs, rising.
    pub fn gpu_counts(&self) -> Vec<u32> {
        let mut counts: Vec<u32> = self.runs.iter().map(|run| run.gpus).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The policies, the one with the best run first.
    pub fn policies(&self) -> Vec<&'r str> {
        let mut ranked: Vec<&&ReportRun> = self.runs.iter().collect();
        ranked.sort_by(|one, other| one.judged().total_cmp(&other.judged()));
        let mut names: Vec<&str> = Vec::new();
        for run in ranked {
            if !names.contains(&run.policy.as_str()) {
                names.push(&run.policy);
            }
        }
        names
    }

    /// The best run of a policy on so many GPUs: there may be several, of other seeds.
    pub fn best(&self, policy: &str, gpus: u32) -> Option<&'r ReportRun> {
        let fits = |run: &&&ReportRun| run.policy == policy && run.gpus == gpus;
        self.runs.iter().filter(fits).min_by(|one, other| one.judged().total_cmp(&other.judged())).copied()
    }

    /// The highest bound on so many GPUs: each of them holds.
    pub fn bound(&self, gpus: u32) -> Option<f64> {
        let bounds = self.runs.iter().filter(|run| run.gpus == gpus).filter_map(|run| run.bound);
        bounds.fold(None, |most: Option<f64>, bound| Some(most.map_or(bound, |most| most.max(bound))))
    }

    /// Those that get a curve of their own: the best on the most GPUs first.
    pub fn few(&self, most: usize) -> Vec<&'r ReportRun> {
        let mut ranked: Vec<&ReportRun> = self.runs.clone();
        ranked.sort_by(|one, other| other.gpus.cmp(&one.gpus).then(one.judged().total_cmp(&other.judged())));
        ranked.truncate(most);
        ranked
    }
}
