//! Inputs that nodes read and nobody gives them: told once, at the start.

use crate::observe::Observer;
use crate::output::count;
use gswarm_core::input::Scenario;
use gswarm_exec::call::missing_inputs;
use std::fmt::Write;

/// The most inputs that are listed.
const MOST_LISTED: usize = 10;

/// A warning where requests lack inputs that their nodes read: they are called without.
pub(super) fn warn_of_lacking_inputs(scenario: &Scenario, observer: &mut dyn Observer) {
    if let Some(warning) = lacking(scenario) {
        observer.note(&warning);
    }
}

fn lacking(scenario: &Scenario) -> Option<String> {
    let (mut all, mut requests, mut listed) = (0_usize, 0_u64, String::new());
    for request in &scenario.requests {
        let missing = missing_inputs(&scenario.workflows[usize::from(request.workflow)], request);
        requests += u64::from(!missing.is_empty());
        for (node, input) in missing {
            all += 1;
            if all <= MOST_LISTED {
                let _ = write!(listed, "\n  - {}: `{node}` reads `{input}`", request.id);
            }
        }
    }
    if all == 0 {
        return None;
    }
    let requests = count(requests, "request");
    let inputs = count(all as u64, "input");
    let more = if all > MOST_LISTED { format!("\n  and {} more", all - MOST_LISTED) } else { String::new() };
    Some(format!(
        "warning: {requests} without {inputs} that nodes read: neither `input_data` nor a node right before gives them\
         {listed}{more}\n  hint: the nodes are called without them; add them to `input_data`, or name them in `outputs`"
    ))
}
