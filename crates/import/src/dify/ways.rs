//! The ways through the branches of an app, each with its probability.

use super::app::{App, given};
use crate::draft::Draft;
use crate::{File, ImportOptions};
use gswarm_core::input::Code;
use gswarm_core::input::document::{Path, Shown};
use std::collections::BTreeMap;

/// Most ways through one app.
const MAX_WAYS: usize = 64;

pub struct Way {
    /// Whether each node is on it.
    pub active: Vec<bool>,
    /// The case of each branch on it, by its place among the node's cases.
    pub cases: BTreeMap<usize, usize>,
    pub probability: f64,
    /// The cases, for people.
    pub label: String,
}

/// The share of each case of a branch.
type Shares = BTreeMap<usize, Vec<f64>>;

/// All ways that are taken; what is missing or wrong is reported.
pub fn ways(file: &mut File<'_>, app: &App<'_>, options: &ImportOptions, draft: &mut Draft) -> Vec<Way> {
    let everything = reach(app, &|_, _| true);
    let mut shares = Shares::new();
    for (node, own) in app.nodes.iter().enumerate() {
        let cases = &own.cases;
        if !everything[node] {
            draft.notes.say_of("Unreachable nodes, omitted", own.shown());
            continue;
        }
        if cases.len() > 1 {
            shares.extend(shares_of(file, app, node, cases, options).map(|found| (node, found)));
            if own.parent.is_some() {
                draft
                    .notes
                    .say_of("Branches inside iterations take the same path in every round", own.shown());
            }
        }
    }
    if app.edges.iter().any(|edge| edge.handle == "fail-branch") {
        draft.notes.say("No node fails: error branches are ignored");
    }
    if file.faults.has_errors() {
        return Vec::new();
    }
    let (mut found, mut open) = (Vec::new(), vec![(BTreeMap::new(), 1.0)]);
    while let Some((cases, probability)) = open.pop() {
        if found.len() + open.len() >= MAX_WAYS {
            let message = format_args!("more than {MAX_WAYS} paths through the branches");
            let hint = Some("fix some of them with --choose".to_owned());
            file.faults.add_hinted(Code::Expands, 0, &Path::root(), message, hint);
            return Vec::new();
        }
        let active = follow(app, &cases);
        match shares.keys().find(|node| active[**node] && !cases.contains_key(*node)) {
            Some(&node) => {
                for (case, &share) in
                    shares[&node].iter().enumerate().rev().filter(|(_, share)| **share > 0.0)
                {
                    let mut cases = cases.clone();
                    cases.insert(node, case);
                    open.push((cases, probability * share));
                }
            }
            None => {
                let label = label(app, &cases);
                found.push(Way { active, cases, probability, label });
            }
        }
    }
    found
}

/// The nodes that are reached where branches take these cases; those without one yet lead nowhere.
fn follow(app: &App<'_>, cases: &BTreeMap<usize, usize>) -> Vec<bool> {
    reach(app, &|node, handle| {
        let known = &app.nodes[node].cases;
        if known.len() < 2 {
            return handle != "fail-branch";
        }
        cases.get(&node).is_some_and(|&case| known[case].0 == handle)
    })
}

/// The nodes that are reached from the start by edges that are taken.
fn reach(app: &App<'_>, takes: &dyn Fn(usize, &str) -> bool) -> Vec<bool> {
    let count = app.nodes.len();
    let mut after: Vec<Vec<(usize, &str)>> = vec![Vec::new(); count];
    let mut is_fed = vec![false; count];
    for edge in &app.edges {
        after[edge.from].push((edge.to, edge.handle));
        is_fed[edge.to] = true;
    }
    // What stands first in an iteration starts with it.
    for (node, own) in app.nodes.iter().enumerate().filter(|&(node, _)| !is_fed[node]) {
        if let Some(parent) = own.parent {
            after[parent].push((node, "source"));
        }
    }
    let starts = |node: &usize| super::app::STARTS.contains(&app.nodes[*node].kind);
    let mut open: Vec<usize> = (0..count).filter(starts).collect();
    if open.is_empty() {
        open = (0..count).filter(|&node| !is_fed[node] && app.nodes[node].parent.is_none()).collect();
    }
    let mut reached = vec![false; count];
    while let Some(node) = open.pop() {
        if std::mem::replace(&mut reached[node], true) {
            continue;
        }
        open.extend(after[node].iter().filter(|(_, handle)| takes(node, handle)).map(|&(to, _)| to));
    }
    reached
}

fn label(app: &App<'_>, cases: &BTreeMap<usize, usize>) -> String {
    let one = |(&node, &case): (&usize, &usize)| {
        let own = &app.nodes[node];
        let (id, name) = own.cases[case];
        let name: String = name.chars().take(30).collect();
        format!("{}={}", own.shown(), if name.is_empty() { id.to_owned() } else { name })
    };
    cases.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What the flags say of a branch; that they say nothing is reported.
fn shares_of(
    file: &mut File<'_>,
    app: &App<'_>,
    node: usize,
    cases: &[(&str, &str)],
    options: &ImportOptions,
) -> Option<Vec<f64>> {
    let own = &app.nodes[node];
    let root = Path::root();
    let listed: Vec<String> = cases
        .iter()
        .map(|(id, name)| if name.is_empty() { (*id).to_owned() } else { format!("{id} ({})", Shown(name)) })
        .collect();
    let listed = listed.join(", ");
    if let Some(choice) = given(app, node, &options.choices) {
        let found = cases.iter().position(|(id, name)| id == choice || name == choice);
        if found.is_none() {
            let message =
                format_args!("--choose: branch `{}` has no case `{}`", Shown(own.shown()), Shown(choice));
            let hint = Some(format!("its cases are {listed}"));
            file.faults.add_hinted(Code::NoSuchPlace, own.at, &root, message, hint);
        }
        return found.map(|found| (0..cases.len()).map(|case| f64::from(u8::from(case == found))).collect());
    }
    let Some(given) = given(app, node, &options.branches) else {
        let message = format_args!("branch `{}` ({}): which case is taken?", Shown(own.shown()), own.id);
        let hint = format!(
            "--choose {id}=CASE, or --branch {id}=PROBABILITY[,...] in the order of its cases: {listed}",
            id = own.id
        );
        file.faults.add_hinted(Code::NeedsChoice, own.at, &root, message, Some(hint));
        return None;
    };
    let sum: f64 = given.iter().sum();
    let fits = given.len() == cases.len() && (sum - 1.0).abs() < 1e-6
        || given.len() == cases.len() - 1 && sum <= 1.0 + 1e-9;
    if !fits || given.iter().any(|share| !(0.0..=1.0).contains(share)) {
        let message = format_args!(
            "--branch: branch `{}` has {} cases; give the probability of each (sum 1), or of all but the last",
            Shown(own.shown()),
            cases.len()
        );
        file.faults.add_hinted(
            Code::NoSuchPlace,
            own.at,
            &root,
            message,
            Some(format!("its cases are {listed}")),
        );
        return None;
    }
    let mut shares = given.clone();
    shares.resize(cases.len(), (1.0 - sum).max(0.0));
    Some(shares)
}
