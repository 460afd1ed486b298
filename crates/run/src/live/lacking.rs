//! Missing inputs of nodes, reported once, at the start.

use crate::observe::Observer;
use crate::output::count;
use gswarm_core::input::Scenario;
use gswarm_exec::call::missing_inputs;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most inputs that are listed.
const MOST_LISTED: usize = 10;

/// A warning where requests lack inputs that their nodes read: they are called without.
pub(super) fn warn_of_lacking_inputs(scenario: &Scenario, observer: &mut dyn Observer) {
    if let Some(warning) = lacking(scenario) {
        observer.note(&warning);
    }
}

/// Grouped: a node that lacks an input lacks it in many requests.
fn lacking(scenario: &Scenario) -> Option<String> {
    let mut lacks: BTreeMap<(&str, &str, &str), (&str, u64)> = BTreeMap::new();
    let mut requests = 0;
    for request in &scenario.requests {
        let workflow = &scenario.workflows[usize::from(request.workflow)];
        let missing = missing_inputs(workflow, request);
        requests += u64::from(!missing.is_empty());
        for (node, input) in missing {
            lacks.entry((&workflow.id, node, input)).or_insert((&request.id, 0)).1 += 1;
        }
    }
    if lacks.is_empty() {
        return None;
    }
    let mut listed = String::new();
    for ((workflow, node, input), (first, times)) in lacks.iter().take(MOST_LISTED) {
        let times = if *times > 1 { format!("{times} requests, first {first}") } else { (*first).to_owned() };
        let _ = write!(listed, "\n  - {workflow}: `{node}` reads `{input}` ({times})");
    }
    if lacks.len() > MOST_LISTED {
        let _ = write!(listed, "\n  and {} more", lacks.len() - MOST_LISTED);
    }
    let (verb, requests) = (if requests == 1 { "lacks" } else { "lack" }, count(requests, "request"));
    Some(format!(
        "warning: {requests} {verb} inputs that nodes read; the nodes are called without them{listed}\n  \
         hint: add them to `input_data`, or to `outputs` of a direct predecessor"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_many_requests_lack_is_told_once() {
        let mut builder = Scenario::builder().gpus(1).model("llm", 1, 8.0, 2.0).run_time(1.0);
        builder = builder.workflow("chat").node("answer", "llm");
        for at in 0..50 {
            builder = builder.request(&format!("r{at}"), "chat").arrival(f64::from(at));
        }
        let mut scenario = builder.build().unwrap();
        assert_eq!(lacking(&scenario), None);
        scenario.workflows[0].nodes[0].inputs = vec!["question".to_owned()];
        let said = lacking(&scenario).unwrap();
        assert!(said.starts_with("warning: 50 requests lack inputs"), "{said}");
        assert!(said.contains("\n  - chat: `answer` reads `question` (50 requests, first r0)\n"), "{said}");
        scenario.requests.truncate(1);
        let said = lacking(&scenario).unwrap();
        assert!(said.contains("1 request lacks") && said.contains("(r0)"), "{said}");
    }
}
