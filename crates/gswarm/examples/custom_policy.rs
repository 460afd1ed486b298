//! A policy of your own: the widest models first, wherever they fit.
//!
//! `cargo run -p gswarm --example custom_policy`

use gswarm::prelude::*;

/// Starts the ready task that needs the most GPUs, on the first free GPUs that hold it.
#[derive(Default)]
struct WidestFirst {
    ready: Vec<TaskId>,
}

impl Policy for WidestFirst {
    fn ready(&mut self, task: TaskId, _view: &View<'_>) {
        self.ready.push(task);
    }

    fn decide(&mut self, view: &View<'_>) -> Option<Decision> {
        let instance = view.instance();
        self.ready.sort_by_key(|&task| std::cmp::Reverse(instance.models[instance.model_of(task)].gpus));
        for place in 0..self.ready.len() {
            let task = self.ready[place];
            let model = &instance.models[instance.model_of(task)];
            let free = |gpus: &Gpus| gpus.iter().all(|gpu| !view.is_running(gpu) && !view.is_loading(gpu));
            if let Some(gpus) = model.windows().find(free) {
                self.ready.remove(place);
                return Some(Decision::Start { task, gpus });
            }
        }
        None
    }
}

/// Simulates it beside `baseline` and prints both makespans.
pub fn main() -> Result<(), Failure> {
    let scenario = Scenario::builder()
        .gpus(4)
        .model("small", 1, 8.0, 5.0)
        .run_time(3.0)
        .model("wide", 4, 80.0, 20.0)
        .run_time(10.0)
        .workflow("answer")
        .node("draft", "small")
        .node("judge", "wide")
        .edge("draft", "judge");
    let scenario =
        (0..12).fold(scenario, |scenario, number| scenario.request(&format!("r{number}"), "answer"));
    let scenario = scenario.build().map_err(Failure::faults)?;
    let spec = RunSpec { policy: Some(PolicySpec::default_of(PolicyKind::Baseline)), ..RunSpec::default() };
    let baseline = gswarm::simulate_scenario(spec, scenario, &mut Silent)?;
    // The same problem under the policy above. Its log passes the same check.
    let log = baseline.prepared.log_of(&mut WidestFirst::default(), &mut |_, _| {});
    let log = log.map_err(|error| Failure::input(error.to_string()))?;
    let own = baseline.prepared.assess("widest_first", log)?;
    println!("baseline     {:6.1} s", baseline.outcome.summary.makespan.seconds());
    println!("widest_first {:6.1} s", own.summary.makespan.seconds());
    Ok(())
}
