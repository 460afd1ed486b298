//! Where `static` puts models, and where requests go.

use crate::real_files::published;
use crate::support::{Problem, makespan, run_all};
use gswarm_core::Gpus;
use gswarm_core::Instance;
use gswarm_core::deploy::file::{DemandUnit, DeploymentFile};
use gswarm_core::deploy::{Demand, ThroughputLimit, candidates};
use gswarm_core::input::{ClusterSpec, Code};
use gswarm_core::instance::{Cluster, Deployment, Mode, Routing};
use gswarm_core::policy::PolicyKind;
use gswarm_core::report::metrics;
use proptest::prelude::*;
use std::sync::Arc;

/// Two servers of two GPUs; a GPU holds one of the four models. Each workflow uses two of them.
fn two_servers(memory: [u32; 4], pairs: [[u32; 2]; 2], times: [f64; 4], requests: &[u32]) -> Problem {
    let mut problem = Problem::on(4);
    (problem.cluster.gpus_per_server, problem.cluster.gpu_memory_gb) = (Some(2), 80.0);
    for (name, memory) in ["a", "b", "c", "d"].into_iter().zip(memory) {
        problem = problem.model(name, 1, f64::from(memory), 10.0);
    }
    let problem = pairs.iter().fold(problem, |problem, pair| problem.workflow(pair, &[(0, 1)]));
    requests.iter().fold(problem, |problem, &workflow| {
        let takes = pairs[workflow as usize].map(|model| times[model as usize]);
        problem.request(workflow, 0.0, &takes)
    })
}

fn on_one_server(instance: &Instance) -> f64 {
    metrics(instance, &run_all(instance, PolicyKind::Static)).servers.server_efficiency
}

#[test]
fn requests_stay_on_one_server_where_that_costs_nothing() {
    let requests: Vec<u32> = (0..60).map(|request| request % 2).collect();
    let problem = two_servers([60; 4], [[0, 1], [2, 3]], [5.0; 4], &requests);
    assert_eq!(on_one_server(&problem.build_for(PolicyKind::Static)), 1.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn drawn_pairs_of_models_share_a_server(
        memory in proptest::array::uniform4(45u32..76),
        pairs in prop::sample::select(vec![[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]]),
        times in proptest::array::uniform4(2.0..12.0f64),
        requests in prop::collection::vec(0u32..2, 40..80),
    ) {
        let problem = two_servers(memory, pairs, times, &requests);
        prop_assert_eq!(on_one_server(&problem.build_for(PolicyKind::Static)), 1.0);
    }

    /// Whatever is given to `static` is kept to, and every deployment can be written and read again.
    #[test]
    fn deployments_are_read_as_they_were_written(seed in 0u32..1000) {
        let requests: Vec<u32> = (0..20).map(|request| (request * seed / 7) % 2).collect();
        let problem = two_servers([30; 4], [[0, 1], [2, 3]], [3.0, 4.0, 5.0, 6.0], &requests);
        let instance = problem.build_for(PolicyKind::Static);
        let demand = Demand::of(&instance);
        for deployment in candidates(&instance, &demand) {
            let file = DeploymentFile::of(&instance, &demand, DemandUnit::Requests, &deployment);
            prop_assert_eq!(&file.resolve(&instance), &Ok(deployment.clone()));
            let limit = ThroughputLimit::of(&instance, &demand).times_a_second;
            let reached = file.predicted.unwrap().requests_per_second / demand.requests();
            prop_assert!(reached <= limit * 1.0001, "{reached} exceeds {limit}");
            let mut given = instance.clone();
            given.deployment = Some(Arc::new(deployment.clone()));
            let log = run_all(&given, PolicyKind::Static);
            for one in &log.executions {
                let place = (given.model_of(one.task), one.gpus);
                prop_assert!(deployment.replicas.contains(&place));
            }
        }
    }
}

#[test]
fn published_requests_stay_on_one_server() {
    let today = [
        ("simple", 8, 4, 0.98, 14_096.5),
        ("simple", 16, 4, 0.98, 7_045.4),
        ("complex", 32, 8, 0.60, 27_116.9),
    ];
    for (name, gpus, per, least, before) in today {
        let Some(scenario) = published(name, Mode::Offline) else { return };
        let spec = ClusterSpec { gpus: Some(gpus), gpus_per_server: Some(per), ..scenario.cluster.clone() };
        let mut cluster = Cluster::from_spec(&spec).unwrap();
        cluster.residency = PolicyKind::Static.residency(cluster.residency);
        let instance = Instance::build(&scenario, cluster, Mode::Offline).unwrap();
        let log = run_all(&instance, PolicyKind::Static);
        let share = metrics(&instance, &log).servers.server_efficiency;
        assert!(share >= least, "{name} {gpus}/{per}: {share}");
        let takes = makespan(&log).seconds();
        assert!(takes <= before * 1.005, "{name} {gpus}/{per}: {takes} s");
    }
}

/// A stream is routed without its future: what comes later changes nothing of what was decided before.
#[test]
fn later_requests_change_no_earlier_decision() {
    let build = |late: u32| {
        let mut problem = two_servers([30; 4], [[0, 1], [2, 3]], [3.0, 4.0, 5.0, 6.0], &[]);
        problem.mode = Mode::Online;
        for request in 0..40u32 {
            let workflow = if request < 30 { request % 2 } else { late };
            problem = problem.request(workflow, f64::from(request) * 3.0, &[3.0, 5.0]);
        }
        problem.build_for(PolicyKind::Static)
    };
    let (first, second) = (build(0), build(1));
    let deployment = Some(gswarm_core::run::deployment(&first));
    let logs = [first, second].map(|mut instance| {
        instance.deployment.clone_from(&deployment);
        let log = run_all(&instance, PolicyKind::Static);
        let early = log.executions.into_iter().filter(|one| one.start.seconds() < 90.0);
        early.map(|one| (one.task, one.gpus, one.start)).collect::<Vec<_>>()
    });
    assert_eq!(logs[0], logs[1]);
    assert!(logs[0].len() > 40);
}

#[test]
fn everything_wrong_with_a_deployment_is_told_at_once() {
    let requests = [0, 1];
    let problem = two_servers([60; 4], [[0, 1], [2, 3]], [5.0; 4], &requests);
    let instance = problem.build_for(PolicyKind::Static);
    let deployment = Deployment {
        replicas: instance.models.keys().map(|model| (model, Gpus::new(model.0, 1))).collect(),
        fits: true,
        routing: Routing::Whole,
    };
    let demand = Demand::of(&instance);
    let good = DeploymentFile::of(&instance, &demand, DemandUnit::Requests, &deployment);
    assert_eq!(good.resolve(&instance), Ok(deployment));
    let mut bad = good.clone();
    let mut replicas = |name: &str, gpus: Vec<u32>| {
        let model = bad.models.entry(name.to_owned()).or_default();
        model.replicas[0].gpus = gpus;
    };
    replicas("a", vec![1]);
    replicas("b", vec![7]);
    bad.models.remove("d");
    bad.models.insert("e".to_owned(), good.models["a"].clone());
    bad.models.get_mut("c").unwrap().replicas.push(good.models["b"].replicas[0].clone());
    bad.groups.apart = vec![vec!["a".to_owned(), "c".to_owned()]];
    let found = bad.resolve(&instance).unwrap_err();
    let mut found: Vec<(Code, &str)> = found.iter().map(|fault| (fault.code, fault.path.as_str())).collect();
    found.sort_unstable();
    let expected = [
        (Code::UnknownModel, "models.e"),
        (Code::BadPlacement, "models.b.replicas[0].gpus"),
        (Code::NoRoom, "models.c"),
        (Code::NoReplica, "models"),
        (Code::BrokenGroup, "groups.apart[0]"),
    ];
    assert_eq!(found, expected);
    let other = DeploymentFile { gpus: 8, ..good };
    assert_eq!(other.resolve(&instance).unwrap_err()[0].code, Code::BadPlacement);
}
