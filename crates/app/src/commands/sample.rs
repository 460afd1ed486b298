//! `gswarm` alone: every policy on a built-in sample, side by side: once as a batch, once as a stream.

use crate::failure::Failure;
use crate::job;
use crate::output::{self, count, files::Batch, progress::Line, table};
use clap::Args;
use gswarm_core::generate::{Format, Preset, RequestOptions, requests, write_config, write_requests};
use gswarm_core::input::{Scenario, Source, read_scenario};
use gswarm_core::instance::Mode;
use gswarm_core::policy::{PolicyKind, PolicySpec};
use gswarm_core::run::RunOutcome;
use gswarm_run::{LogFormat, Materials, Problem, RunSpec, Silent, prepare};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The batch: 10 models, one of them on 8 GPUs, share 16 GPUs.
const PRESET: Preset = Preset::Complex;
const REQUESTS: u32 = 100;
const SEED: u64 = 1;

#[derive(Debug, Default, Args)]
pub struct SampleArgs {
    /// Folder for the sample's inputs and logs; without it, the next free gswarm-out/sample-N
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

pub fn sample(args: &SampleArgs) -> Result<(), Failure> {
    let (folder, mut batch) = match &args.out {
        Some(folder) => match Batch::reserve(folder)? {
            Some(batch) => (folder.clone(), batch),
            None => {
                return Err(Failure::input(format!("{} already exists", folder.display()))
                    .hint("choose another folder, or omit --out"));
            }
        },
        None => next_free(Path::new("gswarm-out"))?,
    };
    let (config_text, requests_text, scenario) = inputs()?;
    let scenario = Arc::new(scenario);
    let gpus = scenario.cluster.gpus.unwrap_or(0);
    output::line(&format!(
        "{} of {}, {} on {}",
        count(scenario.requests.len() as u64, "request"),
        count(scenario.workflows.len() as u64, "workflow"),
        count(scenario.models.len() as u64, "model"),
        count(gpus.into(), "GPU")
    ))?;

    batch.add("config.yaml", |out| std::io::Write::write_all(out, &config_text))?;
    batch.add("requests.yaml", |out| std::io::Write::write_all(out, &requests_text))?;
    let progress = Line::new();
    let batch_results = run_all(&scenario, Mode::Offline, &progress, Some(&mut batch))?;
    let stream_results = run_all(&scenario, Mode::Online, &progress, None)?;
    batch.commit()?;
    drop(progress);
    output::line(&format!(
        "\n{}\n\n{}",
        output::heading("As a batch: all requests are present at the start"),
        batch_table(&batch_results)
    ))?;
    output::line(&format!(
        "\n{}\n\n{}\n\n{}",
        output::heading("As a stream: each request arrives at its time"),
        stream_table(&stream_results),
        legend()
    ))?;
    let best = [winner(&batch_results, makespan), winner(&stream_results, p99)];
    output::line(&next_steps(&folder, gpus, best))
}

/// Every policy that has this mode, one after the other; the logs go into `batch`, where one is given.
fn run_all(
    scenario: &Arc<Scenario>,
    mode: Mode,
    progress: &Line,
    mut batch: Option<&mut Batch>,
) -> Result<Vec<(PolicyKind, RunOutcome)>, Failure> {
    let chosen: Vec<PolicyKind> =
        PolicyKind::ALL.iter().copied().filter(|kind| kind.supports(mode)).collect();
    let mut results = Vec::new();
    for (place, &policy) in chosen.iter().enumerate() {
        let spec =
            RunSpec { mode, policy: Some(PolicySpec::default_of(policy)), seed: SEED, ..RunSpec::default() };
        let materials = Materials::of(Problem::Scenario(Arc::clone(scenario)));
        let prepared = prepare(spec, materials, &mut Silent)?;
        progress.say(&format!("{} [{:>2}/{}] {}", mode.name(), place + 1, chosen.len(), policy.name()));
        let outcome = prepared.simulate(&mut Silent)?.outcome;
        if let Some(batch) = batch.as_deref_mut() {
            gswarm_run::output::save(batch, &prepared.instance, &outcome, LogFormat::Json)?;
        }
        results.push((policy, outcome));
    }
    Ok(results)
}

fn inputs() -> Result<(Vec<u8>, Vec<u8>, Scenario), Failure> {
    let config = PRESET.config();
    let options = RequestOptions { count: REQUESTS, seed: SEED, ..RequestOptions::default() };
    let drawn = requests(&config, &options).map_err(|error| Failure::input(error.to_string()))?;
    let (mut config_text, mut requests_text) = (Vec::new(), Vec::new());
    write_config(&config, Format::Yaml, &mut config_text)
        .and_then(|()| write_requests(drawn, Format::Yaml, &mut requests_text))
        .map_err(|error| Failure::file("make", "the sample".as_ref(), &error))?;
    let reading = read_scenario(
        Source { name: "config.yaml", bytes: &config_text },
        Source { name: "requests.yaml", bytes: &requests_text },
        Mode::Online,
    );
    let scenario = job::accept(reading, false)?;
    Ok((config_text, requests_text, scenario))
}

/// What the tables' marks and columns mean.
fn legend() -> String {
    let yardsticks = PolicyKind::ALL.iter().filter(|policy| policy.is_yardstick());
    let names: Vec<&str> = yardsticks.map(|policy| policy.name()).collect();
    let text = format!(
        "* wins: the shortest makespan of the batch, the lowest P99 latency of the stream. Yardsticks cannot win: {}.",
        names.join(", ")
    );
    format!("{}\n{LEGEND}", output::wrapped(&text, 0, output::width()))
}

const LEGEND: &str = "\
busy: share of the time in which GPUs load or execute. mean, P99: of the latency.
gap: how far above a bound that no schedule can go below.
static keeps several models on a GPU where memory allows; the others hold one.";

fn makespan(outcome: &RunOutcome) -> f64 {
    outcome.summary.makespan.seconds()
}

fn p99(outcome: &RunOutcome) -> f64 {
    outcome.metrics.request_latency.p99
}

/// The policy with the least of a figure. Yardsticks do not win.
fn winner(results: &[(PolicyKind, RunOutcome)], figure: fn(&RunOutcome) -> f64) -> Option<PolicyKind> {
    let usable = results.iter().filter(|(policy, _)| !policy.is_yardstick());
    usable.min_by(|(_, one), (_, other)| figure(one).total_cmp(&figure(other))).map(|&(policy, _)| policy)
}

/// A table in the order of the figure that decides, with a mark at the winner.
fn judged_table(
    results: &[(PolicyKind, RunOutcome)],
    figure: fn(&RunOutcome) -> f64,
    header: &[&str],
    cells: fn(&RunOutcome) -> Vec<String>,
) -> String {
    let best = winner(results, figure);
    let mut sorted: Vec<&(PolicyKind, RunOutcome)> = results.iter().collect();
    sorted.sort_by(|(_, one), (_, other)| figure(one).total_cmp(&figure(other)));
    let row = |(policy, outcome): &(PolicyKind, RunOutcome)| {
        let mark = if Some(*policy) == best { " *" } else { "" };
        let mut row = vec![format!("{}{mark}", policy.name())];
        row.extend(cells(outcome));
        row
    };
    table::table(header, 1, sorted.into_iter().map(row))
}

/// `gap` says how far a makespan can be from the best there is.
fn batch_table(results: &[(PolicyKind, RunOutcome)]) -> String {
    let header = ["policy", "makespan s", "switches", "busy %", "P99 s", "gap %"];
    judged_table(results, makespan, &header, |outcome| {
        vec![
            table::grouped(makespan(outcome), 1),
            table::grouped(outcome.summary.model_switches as f64, 0),
            format!("{:.1}", 100.0 * outcome.metrics.utilisation.mean),
            table::grouped(p99(outcome), 1),
            outcome.summary.gap_percent().map_or("-".to_string(), |gap| format!("{gap:.1}")),
        ]
    })
}

fn stream_table(results: &[(PolicyKind, RunOutcome)]) -> String {
    let header = ["policy", "P99 s", "mean s", "switches", "busy %", "makespan s"];
    judged_table(results, p99, &header, |outcome| {
        vec![
            table::grouped(p99(outcome), 1),
            table::grouped(outcome.metrics.request_latency.mean, 1),
            table::grouped(outcome.summary.model_switches as f64, 0),
            format!("{:.1}", 100.0 * outcome.metrics.utilisation.mean),
            table::grouped(makespan(outcome), 1),
        ]
    })
}

/// The commands for the two winners, and what to try then.
fn next_steps(folder: &Path, gpus: u32, [batch, stream]: [Option<PolicyKind>; 2]) -> String {
    let folder = folder.display();
    let usual = PolicyKind::usual;
    let (batch, stream) = (batch.unwrap_or(usual(Mode::Offline)), stream.unwrap_or(usual(Mode::Online)));
    let defaults = match (usual(Mode::Offline), usual(Mode::Online)) {
        both if both == (batch, stream) => "These are the defaults of `gswarm run`.".to_owned(),
        (for_batch, for_stream) => format!(
            "Without --policy, `gswarm run` uses `{}` for a batch and `{}` for a stream.",
            for_batch.name(),
            for_stream.name()
        ),
    };
    let (batch, stream) = (batch.name(), stream.name());
    let inputs =
        format!("\\\n      --config {folder}/config.yaml \\\n      --requests {folder}/requests.yaml");
    format!(
        "\nInputs and logs are in {folder}\n\n{}\n  \
         gswarm run --policy {batch} --gpus {gpus} {inputs}\n  \
         gswarm run --policy {stream} --mode online --gpus {gpus} {inputs}\n{defaults}\n\n{}\n  \
         gswarm check {folder}/{batch}_execution_log.json {inputs}\n  \
         gswarm explain {folder}/{batch}_execution_log.json {inputs}\n  \
         gswarm size --target makespan=15min {inputs}\n  \
         gswarm generate --preset simple --requests 500 --out work\n  \
         gswarm policies",
        output::heading(&format!("`{batch}` wins the batch and `{stream}` the stream; run them again with:")),
        output::heading("Then:")
    )
}

/// The first `sample-N` that is not there, made for this run: what an earlier run left is never touched.
fn next_free(parent: &Path) -> Result<(PathBuf, Batch), Failure> {
    for folder in (1..=9999).map(|number| parent.join(format!("sample-{number}"))) {
        if let Some(batch) = Batch::reserve(&folder)? {
            return Ok((folder, batch));
        }
    }
    Err(Failure::input(format!("{} holds too many samples", parent.display()))
        .hint("delete some, or choose a folder with --out"))
}
