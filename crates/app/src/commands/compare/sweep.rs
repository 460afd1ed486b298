//! All the runs of a comparison, over all cores.

use super::CompareArgs;
use super::rows::Rows;
use crate::beliefs::Beliefs;
use crate::failure::{Code, Failure};
use crate::job::{self, Inputs, Job};
use crate::output::progress::{Bar, Phase};
use gswarm_core::compare::{Key, Row};
use gswarm_core::input::{ClusterSpec, Scenario};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicyParams};
use gswarm_core::sim::SimOptions;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// What is run, and on what.
pub struct Sweep<'a> {
    args: &'a CompareArgs,
    problems: Vec<Problem>,
    /// What the inputs, and whatever else all runs depend on, come to.
    pub fingerprint: String,
}

/// Inputs as one mode reads them, with or without batching.
struct Problem {
    input: String,
    mode: Mode,
    batching: bool,
    scenario: Scenario,
    spec: ClusterSpec,
}

impl<'a> Sweep<'a> {
    /// Reads everything; all that is wrong is said at once.
    pub fn new(args: &'a CompareArgs) -> Result<Sweep<'a>, Failure> {
        let _reading = Phase::new("reading the inputs", !args.quiet);
        let (mut problems, mut failure) = (Vec::new(), None::<Failure>);
        let mut hash = Sha256::new();
        hash.update(format!("{} {} {:?}", env!("CARGO_PKG_VERSION"), args.rounds, args.machines));
        let names = names(&args.config);
        for ((config, requests), name) in args.config.iter().zip(&args.requests).zip(names) {
            let input = crate::args::InputArgs {
                config: config.clone(),
                requests: requests.clone(),
                measured: args.measured.clone(),
            };
            let read = Inputs::read(&input).and_then(|inputs| {
                let [config, requests] = inputs.texts()?;
                for part in [name.as_bytes(), &config, &requests] {
                    hash.update((part.len() as u64).to_le_bytes());
                    hash.update(part);
                }
                // What is wrong is the same in both modes, and is said once.
                args.modes().iter().enumerate().try_for_each(|(at, &mode)| {
                    let scenario = inputs.scenario(mode, args.quiet || at > 0)?;
                    let spec = args.machines.over(&scenario.cluster);
                    for batching in
                        ["on", "off"].iter().filter(|one| args.batching.iter().any(|given| given == *one))
                    {
                        let batching = *batching == "on";
                        let scenario =
                            if batching { scenario.clone() } else { without_batching(scenario.clone()) };
                        problems.push(Problem {
                            input: name.clone(),
                            mode,
                            batching,
                            scenario,
                            spec: spec.clone(),
                        });
                    }
                    Ok(())
                })
            });
            if let Err(error) = read {
                failure = Some(match failure {
                    Some(earlier) => earlier.and(error),
                    None => error,
                });
            }
        }
        let fingerprint = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        match failure {
            Some(failure) => Err(failure),
            None => Ok(Sweep { args, problems, fingerprint }),
        }
    }

    /// Every run that is asked for, in the order of the tables.
    pub fn keys(&self) -> Vec<Key> {
        let mut gpus = self.args.gpus.clone();
        gpus.sort_unstable();
        gpus.dedup();
        let mut keys = Vec::new();
        for problem in &self.problems {
            for &gpus in &gpus {
                for policy in self.args.kinds().into_iter().filter(|kind| kind.supports(problem.mode)) {
                    keys.extend(self.args.seeds.0.iter().map(|&seed| Key {
                        input: problem.input.clone(),
                        mode: problem.mode.name().to_owned(),
                        batching: problem.batching,
                        gpus,
                        policy: policy.name().to_owned(),
                        seed,
                    }));
                }
            }
        }
        keys
    }

    /// Runs these; each row is kept as it comes. Nothing new is begun once `is_interrupted`.
    pub fn run(
        &self,
        keys: &[Key],
        rows: &mut Rows,
        shown: bool,
        is_interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Failure> {
        let bar = Mutex::new((Bar::of("comparing", "runs", shown), 0, rows));
        keys.par_iter().try_for_each(|key| {
            if is_interrupted() {
                return Ok(());
            }
            let row = self.row(key)?;
            let mut held = bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (bar, done, rows) = &mut *held;
            *done += 1;
            bar.update(*done, keys.len());
            rows.keep(row)
        })
    }

    fn row(&self, key: &Key) -> Result<Row, Failure> {
        let is_its = |problem: &&Problem| {
            (&problem.input, problem.mode.name(), problem.batching)
                == (&key.input, key.mode.as_str(), key.batching)
        };
        let policy = PolicyKind::ALL.iter().copied().find(|kind| kind.name() == key.policy);
        let (Some(problem), Some(policy)) = (self.problems.iter().find(is_its), policy) else {
            return Err(Failure::new(Code::Internal, format!("there is no such run: {key:?}")));
        };
        let spec = ClusterSpec { gpus: Some(key.gpus), ..problem.spec.clone() };
        let instance = match job::build(&problem.scenario, &spec, problem.mode, policy) {
            Ok(instance) => instance,
            Err(failure) if failure.code == Code::Infeasible => {
                return Ok(Row::infeasible(key, &self.fingerprint, failure.message().to_owned()));
            }
            Err(failure) => return Err(failure),
        };
        let params = PolicyParams { seed: key.seed, rounds: self.args.rounds, ..PolicyParams::default() };
        let job = Job { policy, params, sim: SimOptions::default(), beliefs: Beliefs::default() };
        let begun = Instant::now();
        let mut chooser = policy.build(&instance, &job.params);
        let planned = begun.elapsed().as_secs_f64();
        let outcome = job::execute_with(&instance, &job, chooser.as_mut(), false)?;
        let seconds = [planned, begun.elapsed().as_secs_f64()];
        Ok(Row::of(key, &self.fingerprint, &outcome.metrics, &outcome.summary, seconds))
    }
}

fn without_batching(mut scenario: Scenario) -> Scenario {
    scenario.models.iter_mut().for_each(|model| model.batching = None);
    scenario
}

/// What people call the inputs: by the file, or by its folder where all files are called the same.
fn names(configs: &[std::path::PathBuf]) -> Vec<String> {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let name = |path: &Path| {
        let stem = text(path.file_stem());
        let stem = stem.trim_end_matches("config").trim_end_matches(['_', '-', '.']);
        let folder = text(path.parent().and_then(Path::file_name));
        let found = if stem.is_empty() { folder } else { stem.to_owned() };
        if found.is_empty() { "input".to_owned() } else { found }
    };
    let mut names: Vec<String> = Vec::new();
    for path in configs {
        let plain = name(path);
        let mut unique = plain.clone();
        for number in 2.. {
            if !names.contains(&unique) {
                break;
            }
            unique = format!("{plain}-{number}");
        }
        names.push(unique);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn inputs_are_called_by_their_files_or_folders() {
        let paths = ["data/simple_config.json", "jobs/config.yaml", "other/jobs/config.yaml", "config.yaml"];
        assert_eq!(names(&paths.map(Into::into)), ["simple", "jobs", "jobs-2", "input"]);
    }
}
