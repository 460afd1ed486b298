//! Regression cases for what the published programs got wrong.

use crate::support::{Problem, run_all};
use gswarm_core::instance::{Infeasible, Instance};
use gswarm_core::policy::PolicyKind;

/// A model that needs more GPUs than there are is refused before anything starts, whatever else could run.
#[test]
fn too_few_gpus_are_refused_with_the_model_and_its_need() {
    let problem = Problem::on(3).model("m", 1, 8.0, 1.0).model("wide", 4, 8.0, 1.0);
    let problem = problem.workflow(&[0, 1], &[(0, 1)]).request(0, 0.0, &[1.0, 1.0]);
    let faults = Instance::build(&problem.scenario(), problem.cluster.clone(), problem.mode).unwrap_err();
    let expected = Infeasible::TooFewGpus { model: "wide".into(), needs: 4, gpus: 3, per_server: None };
    assert_eq!(faults, [expected]);
    assert_eq!(faults[0].to_string(), "model `wide` needs 4 consecutive GPUs, but there are 3");
}

/// A model that no request uses stops nobody.
#[test]
fn an_unused_model_may_be_too_large() {
    let problem = Problem::on(1).model("m", 1, 8.0, 1.0).model("wide", 4, 8.0, 1.0);
    let instance = problem.workflow(&[0], &[]).workflow(&[1], &[]).request(0, 0.0, &[1.0]).build();
    PolicyKind::ALL.iter().for_each(|&kind| drop(run_all(&instance, kind)));
}

/// Equal times everywhere: ties are broken by number, and everything runs.
#[test]
fn equal_times_are_no_trouble() {
    let mut problem = Problem::on(4)
        .model("a", 1, 8.0, 1.0)
        .model("b", 2, 8.0, 1.0)
        .workflow(&[0, 1, 0], &[(0, 1), (1, 2)]);
    for _ in 0..50 {
        problem = problem.request(0, 0.0, &[1.0, 1.0, 1.0]);
    }
    let instance = problem.build();
    PolicyKind::ALL.iter().for_each(|&kind| drop(run_all(&instance, kind)));
}

/// Whole servers for a model wider than one; inside one server otherwise.
#[test]
fn windows_respect_servers() {
    let mut problem = Problem::on(10).model("two", 2, 8.0, 1.0).model("five", 5, 8.0, 1.0);
    problem.cluster.gpus_per_server = Some(3);
    problem = problem.workflow(&[0, 1], &[(0, 1)]);
    for _ in 0..12 {
        problem = problem.request(0, 0.0, &[1.0, 2.0]);
    }
    let instance = problem.build();
    for &kind in PolicyKind::ALL {
        for execution in run_all(&instance, kind).executions {
            let (first, count) = (execution.gpus.first.0, execution.gpus.count);
            match count {
                2 => assert_eq!(first / 3, (first + 1) / 3, "{}", kind.name()),
                _ => assert_eq!(first % 3, 0, "{}", kind.name()),
            }
        }
    }
}
