//! The single owner of GPU contents: turns "load this model there" and "call it" into loads, unloads and calls, in an
//! order in which nothing is unloaded during a call, nothing is evicted during its load, and nothing waits forever.
//!
//! Pure: it receives orders and completions, and returns the next actions. Orders for the same GPUs are executed in
//! their order of arrival; others do not wait for each other.

use crate::replica::{Replica, overlap};
use gswarm_core::{GpuId, Gpus, Span, TaskId};

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuAct {
    /// Bring a model onto empty GPUs; say [`GpuDone::Loaded`] or [`GpuDone::LoadFailed`].
    Load {
        /// What and where.
        replica: Replica,
        /// What it is expected to take.
        expected: Span,
    },
    /// Take a model off; say [`GpuDone::Unloaded`] or [`GpuDone::UnloadFailed`].
    Unload(Replica),
    /// Call a model; say [`GpuDone::Called`].
    Call {
        /// For which task.
        task: TaskId,
        /// What and where.
        replica: Replica,
    },
}

/// What has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuDone {
    /// The model is there.
    Loaded(Replica),
    /// It is not, and what was there before is gone.
    LoadFailed(Replica),
    /// The model is off.
    Unloaded(Replica),
    /// The server would not take it off: what is on these GPUs is unknown.
    UnloadFailed(Replica),
    /// A call has ended, well or not, or was cancelled.
    Called(TaskId, Replica),
}

/// What whoever gave the orders has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuReport {
    /// What was to be brought is there.
    Brought(Gpus),
    /// It could not be brought.
    NotBrought(Gpus),
    /// What was to be called could not be brought.
    CannotRun(TaskId),
    /// These GPUs are in a state that nobody knows: take them out, and [forget](GpuKeeper::forget) them.
    Broken(Gpus),
}

impl GpuReport {
    /// The first GPU of the window that it speaks of.
    #[must_use]
    pub fn lead(self) -> Option<GpuId> {
        match self {
            GpuReport::Brought(gpus) | GpuReport::NotBrought(gpus) | GpuReport::Broken(gpus) => {
                Some(gpus.first)
            }
            GpuReport::CannotRun(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum State {
    Loading,
    Ready { calls: u32 },
    Unloading,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Order {
    /// Nobody may wait for it any more: then it is carried out in silence.
    Bring {
        replica: Replica,
        expected: Span,
        evict: Vec<Replica>,
        wanted: bool,
        loading: bool,
    },
    Run {
        task: TaskId,
        replica: Replica,
    },
    /// Models go, and nothing comes in their place.
    Clear {
        evict: Vec<Replica>,
    },
}

/// The state of all GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GpuKeeper {
    replicas: Vec<(Replica, State)>,
    /// In the order in which they came.
    orders: Vec<Order>,
}

impl GpuKeeper {
    /// Everything that is there, is coming, is going or is ordered.
    pub fn replicas(&self) -> impl Iterator<Item = Replica> + Clone + '_ {
        let ordered = self.orders.iter().filter_map(|order| match order {
            Order::Bring { replica, loading: false, .. } if self.state(*replica).is_none() => Some(*replica),
            _ => None,
        });
        self.replicas.iter().map(|&(replica, _)| replica).chain(ordered)
    }

    /// Whether a model is there, or will be once earlier orders are carried out.
    #[must_use]
    pub fn expects(&self, replica: Replica) -> bool {
        let ordered = self.orders.iter().rev().find_map(|order| match order {
            Order::Bring { replica: brought, evict, .. } => {
                (*brought == replica).then_some(true).or(evict.contains(&replica).then_some(false))
            }
            Order::Clear { evict } => evict.contains(&replica).then_some(false),
            Order::Run { .. } => None,
        });
        ordered.unwrap_or_else(|| self.state(replica).is_some_and(|state| state != State::Unloading))
    }

    /// Orders a model onto GPUs; `evict` goes first.
    pub fn bring(&mut self, replica: Replica, expected: Span, evict: Vec<Replica>) {
        debug_assert!(!evict.contains(&replica), "a model does not make way for itself");
        self.orders.push(Order::Bring { replica, expected, evict, wanted: true, loading: false });
    }

    /// Orders a call. Where the model is only there in parts, as replicas on other windows, those make way for it first.
    pub fn run(&mut self, task: TaskId, replica: Replica) {
        if !self.expects(replica) {
            let parts = self.replicas().filter(|part| {
                part.model == replica.model && *part != replica && overlap(part.gpus, replica.gpus)
            });
            let evict = parts.collect();
            let expected = Span::ZERO;
            self.orders.push(Order::Bring { replica, expected, evict, wanted: false, loading: false });
        }
        self.orders.push(Order::Run { task, replica });
    }

    /// Orders models off their GPUs, once earlier orders for them are carried out.
    pub fn clear(&mut self, evict: Vec<Replica>) {
        self.orders.push(Order::Clear { evict });
    }

    /// Takes an order to call back; `false` where the call is under way, and has to be cancelled.
    pub fn withdraw_run(&mut self, task: TaskId) -> bool {
        let before = self.orders.len();
        self.orders.retain(|order| !matches!(order, Order::Run { task: other, .. } if *other == task));
        self.orders.len() < before
    }

    /// Nobody waits for what was ordered onto these GPUs any more: it does not come, unless it is coming already.
    pub fn withdraw_bring(&mut self, gpus: Gpus) {
        let waits = |order: &Order| matches!(order, Order::Bring { replica, loading: false, .. } if replica.gpus == gpus);
        self.orders.retain(|order| !waits(order));
        for order in &mut self.orders {
            if let Order::Bring { replica, wanted, .. } = order
                && replica.gpus == gpus
            {
                *wanted = false;
            }
        }
    }

    /// These GPUs are gone, with all that was on them and all that was ordered onto them.
    pub fn forget(&mut self, gpus: Gpus) {
        self.replicas.retain(|(replica, _)| !overlap(replica.gpus, gpus));
        self.orders.retain(|order| order.gpus().is_none_or(|its| !overlap(its, gpus)));
        for order in &mut self.orders {
            if let Order::Bring { evict, .. } | Order::Clear { evict } = order {
                evict.retain(|replica| !overlap(replica.gpus, gpus));
            }
        }
    }

    /// Something has been done. What is not known any more was forgotten, and nobody cares.
    pub fn done(&mut self, done: GpuDone, reports: &mut Vec<GpuReport>) {
        match done {
            GpuDone::Loaded(replica) => {
                if self.state(replica) == Some(State::Loading) {
                    self.set(replica, State::Ready { calls: 0 });
                    self.brought(replica, GpuReport::Brought(replica.gpus), reports);
                }
            }
            GpuDone::LoadFailed(replica) => {
                if self.state(replica) == Some(State::Loading) {
                    self.remove(replica);
                    self.brought(replica, GpuReport::NotBrought(replica.gpus), reports);
                    self.cannot_run(replica, reports);
                }
            }
            GpuDone::Unloaded(replica) => {
                if self.state(replica) == Some(State::Unloading) {
                    self.remove(replica);
                }
            }
            GpuDone::UnloadFailed(replica) => {
                if self.state(replica) == Some(State::Unloading) {
                    reports.push(GpuReport::Broken(replica.gpus));
                }
            }
            GpuDone::Called(_, replica) => {
                if let Some(State::Ready { calls }) = self.state(replica) {
                    self.set(replica, State::Ready { calls: calls.saturating_sub(1) });
                }
            }
        }
    }

    /// What can be done now; each answer counts as begun.
    pub fn next(&mut self, reports: &mut Vec<GpuReport>) -> Option<GpuAct> {
        let mut at = 0;
        while at < self.orders.len() {
            let order = self.orders[at].clone();
            let waits = self.orders[..at].iter().any(|earlier| earlier.goes_before(&order));
            if !waits {
                match self.step(at, &order, reports) {
                    Step::Act(act) => return Some(act),
                    Step::Over => {
                        self.orders.remove(at);
                        continue;
                    }
                    Step::Wait => {}
                }
            }
            at += 1;
        }
        None
    }

    /// Whether nothing is under way and nothing is ordered.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let rests = |&(_, state): &(Replica, State)| state == State::Ready { calls: 0 };
        self.orders.is_empty() && self.replicas.iter().all(rests)
    }

    fn step(&mut self, at: usize, order: &Order, reports: &mut Vec<GpuReport>) -> Step {
        match order {
            Order::Run { task, replica } => match self.state(*replica) {
                Some(State::Ready { calls }) => {
                    self.orders.remove(at);
                    self.set(*replica, State::Ready { calls: calls + 1 });
                    Step::Act(GpuAct::Call { task: *task, replica: *replica })
                }
                _ => Step::Wait,
            },
            Order::Bring { loading: true, .. } => Step::Wait,
            Order::Clear { evict } => self.leave(evict).unwrap_or(Step::Over),
            Order::Bring { replica, expected, evict, wanted, .. } => {
                let (replica, expected, wanted) = (*replica, *expected, *wanted);
                if let Some(step) = self.leave(evict) {
                    return step;
                }
                match self.state(replica) {
                    None => {
                        self.replicas.push((replica, State::Loading));
                        if let Order::Bring { loading, .. } = &mut self.orders[at] {
                            *loading = true;
                        }
                        Step::Act(GpuAct::Load { replica, expected })
                    }
                    Some(State::Ready { .. }) => {
                        if wanted {
                            reports.push(GpuReport::Brought(replica.gpus));
                        }
                        Step::Over
                    }
                    Some(State::Loading | State::Unloading) => Step::Wait,
                }
            }
        }
    }

    /// The next step towards taking models off; `None` where they are gone.
    fn leave(&mut self, evict: &[Replica]) -> Option<Step> {
        let leaving: Vec<Replica> =
            evict.iter().copied().filter(|&victim| self.state(victim).is_some()).collect();
        // One that is called is waited for; one that loads is too, and so is one that goes already.
        let free =
            leaving.iter().copied().find(|&victim| self.state(victim) == Some(State::Ready { calls: 0 }));
        if let Some(victim) = free {
            self.set(victim, State::Unloading);
            return Some(Step::Act(GpuAct::Unload(victim)));
        }
        (!leaving.is_empty()).then_some(Step::Wait)
    }

    /// A load has come to an end: its order is over.
    fn brought(&mut self, replica: Replica, report: GpuReport, reports: &mut Vec<GpuReport>) {
        let its = |order: &Order| matches!(order, Order::Bring { replica: other, loading: true, .. } if *other == replica);
        if let Some(at) = self.orders.iter().position(its)
            && let Order::Bring { wanted: true, .. } = self.orders.remove(at)
        {
            reports.push(report);
        }
    }

    /// Calls of what will not come have failed: those that no order before them brings.
    fn cannot_run(&mut self, replica: Replica, reports: &mut Vec<GpuReport>) {
        let mut comes = false;
        self.orders.retain(|order| match order {
            Order::Run { task, replica: other } if *other == replica && !comes => {
                reports.push(GpuReport::CannotRun(*task));
                false
            }
            Order::Bring { replica: other, .. } => {
                comes |= *other == replica;
                true
            }
            Order::Run { .. } | Order::Clear { .. } => true,
        });
    }

    fn state(&self, replica: Replica) -> Option<State> {
        self.replicas.iter().find(|(other, _)| *other == replica).map(|&(_, state)| state)
    }

    fn set(&mut self, replica: Replica, state: State) {
        self.replicas.iter_mut().filter(|(other, _)| *other == replica).for_each(|(_, old)| *old = state);
    }

    fn remove(&mut self, replica: Replica) {
        self.replicas.retain(|(other, _)| *other != replica);
    }
}

enum Step {
    Act(GpuAct),
    Over,
    Wait,
}

impl Order {
    /// The GPUs without which there is nothing to do.
    fn gpus(&self) -> Option<Gpus> {
        match self {
            Order::Bring { replica, .. } | Order::Run { replica, .. } => Some(replica.gpus),
            Order::Clear { .. } => None,
        }
    }

    /// Whether a later order has to wait for this one: it brings or takes off something there, or calls what the later
    /// one would take off.
    fn goes_before(&self, later: &Order) -> bool {
        match (self, later) {
            (Order::Run { .. }, Order::Run { .. }) => false,
            (Order::Run { replica, .. }, Order::Bring { evict, .. } | Order::Clear { evict }) => {
                evict.contains(replica)
            }
            (Order::Bring { replica: brought, evict, .. }, Order::Run { replica, .. }) => {
                brought == replica || evict.contains(replica)
            }
            (Order::Clear { evict }, Order::Run { replica, .. } | Order::Bring { replica, .. })
            | (Order::Bring { replica, .. }, Order::Clear { evict }) => evict.contains(replica),
            (Order::Clear { .. }, Order::Clear { .. }) => false,
            // What only makes way for both is in nobody's way: whoever comes first takes it off.
            (
                Order::Bring { replica, evict, .. },
                Order::Bring { replica: later, evict: later_evicts, .. },
            ) => overlap(replica.gpus, later.gpus) || evict.contains(later) || later_evicts.contains(replica),
        }
    }
}
