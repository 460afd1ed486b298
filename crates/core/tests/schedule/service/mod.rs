//! `adaptive` in a service without an end: requests come in while others run and take the numbers of those that are over,
//! some are withdrawn, and GPUs are lost and return.

mod machine;

use crate::support::Problem;
use gswarm_core::engine::Event;
use gswarm_core::instance::{NewRequest, Residency};
use gswarm_core::policy::{Adaptive, AdaptiveParams, Objective};
use gswarm_core::{GpuId, Instance, ModelId, Span, Time, WorkflowId};
use machine::Machine;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rstest::rstest;

const GPUS: u32 = 6;
/// How many requests come in.
const REQUESTS: usize = 3_000;

/// Models on one, two and four GPUs; a chain, a fork that joins, and a node alone.
fn cluster(batching: bool, residency: Residency) -> Instance {
    let slowdown = [(1, 1.0), (4, 1.5)];
    let mut problem = Problem::on(GPUS);
    problem.cluster.residency = residency;
    for (name, gpus, gb) in [("small", 1, 16.0), ("other", 1, 40.0), ("pair", 2, 60.0), ("wide", 4, 140.0)] {
        problem = problem.model(name, gpus, gb, 8.0);
        if batching {
            problem = problem.batching(&slowdown).slot(2.0);
        }
    }
    problem = problem.workflow(&[0, 1, 2], &[(0, 1), (1, 2)]).workflow(&[1], &[]);
    problem.workflow(&[0, 0, 3, 1], &[(0, 1), (0, 2), (1, 3), (2, 3)]).build()
}

fn request(draws: &mut impl Rng, place: usize, arrival: Time, instance: &Instance) -> NewRequest {
    let workflow = WorkflowId(draws.random_range(0..3));
    let nodes = instance.workflows[workflow].nodes.len();
    NewRequest {
        name: format!("r{place}"),
        workflow,
        arrival,
        priority: i32::from(draws.random_bool(0.1)),
        deadline: draws.random_bool(0.3).then(|| Span(draws.random_range(1..200_000_000))),
        executions: (0..nodes).map(|_| Span(draws.random_range(1..20_000_000))).collect(),
    }
}

#[rstest]
fn requests_come_and_go_and_numbers_are_used_again(
    #[values(false, true)] batching: bool,
    #[values(Residency::Single, Residency::Memory)] residency: Residency,
    #[values(None, Some(Span(120_000_000)))] max_collate_wait: Option<Span>,
    #[values(Objective::Mean, Objective::Balanced)] objective: Objective,
) {
    let instance = cluster(batching, residency);
    let params = AdaptiveParams { objective, max_collate_wait, ..AdaptiveParams::default() };
    let policy = Box::new(Adaptive::new(&instance, &params));
    let mut machine = Machine::new(instance.clone(), policy);
    let mut draws = ChaCha8Rng::seed_from_u64(7);
    let (mut now, mut place, mut most_open) = (Time::ZERO, 0, 0);
    while place < REQUESTS {
        // Several things in one instant: a number may go from one request to the next before the policy hears of either.
        for _ in 0..draws.random_range(1..5) {
            let open = machine.open();
            match draws.random_range(0..20) {
                0 => machine.handle(Event::Lost(GpuId(draws.random_range(0..GPUS)))),
                1..4 => (0..GPUS).for_each(|gpu| machine.handle(Event::Returned(GpuId(gpu)))),
                // Models that are in use stay where they are.
                4 => (0..4).for_each(|model| machine.handle(Event::Dismissed(ModelId(model)))),
                5..11 if !open.is_empty() => machine.withdraw(open[draws.random_range(0..open.len())]),
                _ => {
                    machine.arrive(request(&mut draws, place, now, &instance));
                    place += 1;
                }
            }
            most_open = most_open.max(machine.open().len());
        }
        machine.ask();
        now = now + Span(draws.random_range(1..60_000_000));
        machine.run(now);
    }
    (0..GPUS).for_each(|gpu| machine.handle(Event::Returned(GpuId(gpu))));
    machine.ask();
    machine.run(Time::NEVER);
    // Numbers go by workflow, so that each has as many as it had open at once.
    let numbers = machine.engine.view().instance().requests.len();
    assert!(
        numbers <= 3 * most_open && numbers < REQUESTS / 10,
        "{numbers} numbers, {most_open} open at once"
    );
    machine.assert_sound();
}
