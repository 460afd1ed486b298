//! Which server a request goes to, and which replica each of its nodes is meant for.
//!
//! A request is given to the server that would finish it first, by the work that its GPUs have been given. It stays there
//! unless a model is missing on every server that it could go to. Nothing is known of requests that have not arrived.

use super::replicas::Replicas;
use crate::engine::{TaskState, View};
use crate::id::{GpuId, Gpus, IdVec, RequestId, TaskId};
use crate::instance::{Instance, Routing};
use crate::time::Time;

pub(super) const NOWHERE: u32 = u32::MAX;

/// Most servers that are weighed for a request: those with the least work.
const WEIGHED: usize = 12;

/// How much sooner, as a share of its time, a request has to end elsewhere to leave its server, where it may.
const WORTH_LEAVING: f64 = 0.05;

/// What a request or a node was given.
#[derive(Clone, Copy)]
struct Given {
    /// The replica.
    replica: u32,
    /// Microseconds of work that it adds to each of its GPUs.
    cost: u64,
}

const NOTHING: Given = Given { replica: NOWHERE, cost: 0 };

/// Where a request is.
#[derive(Clone, Copy)]
struct Home {
    server: u32,
    /// Whether anything of it has run.
    begun: bool,
    /// When it changed its server last.
    moved: Time,
}

const NO_HOME: Home = Home { server: NOWHERE, begun: false, moved: Time::NEVER };

/// A choice of replicas for a request: what each node gets, and when the last would end, in microseconds from now.
type Choice = (u64, Vec<(TaskId, Given)>);

pub(super) struct Routes {
    routing: Routing,
    /// Microseconds of work that each GPU was given and has not finished.
    load: IdVec<GpuId, u64>,
    of_server: Vec<u64>,
    given: IdVec<TaskId, Given>,
    home: IdVec<RequestId, Home>,
}

impl Routes {
    pub fn new(instance: &Instance, routing: Routing) -> Routes {
        Routes {
            routing,
            load: vec![0; instance.cluster.gpus as usize].into(),
            of_server: vec![0; instance.cluster.servers() as usize],
            given: vec![NOTHING; instance.tasks()].into(),
            home: vec![NO_HOME; instance.requests.len()].into(),
        }
    }

    /// Forgets all work that was given, not who has begun where.
    pub fn clear(&mut self) {
        self.load.iter_mut().for_each(|load| *load = 0);
        self.of_server.iter_mut().for_each(|load| *load = 0);
        self.given.iter_mut().for_each(|given| *given = NOTHING);
    }

    /// The replica that a task is meant for.
    pub fn replica(&self, task: TaskId) -> u32 {
        self.given.get(task).map_or(NOWHERE, |given| given.replica)
    }

    pub fn load_of(&self, gpus: Gpus) -> u64 {
        self.load.raw[gpus.range()].iter().copied().max().unwrap_or(0)
    }

    /// What a task adds to the GPUs that it is meant for.
    pub fn cost(&self, task: TaskId) -> u64 {
        self.given[task].cost
    }

    /// Whether a request may still change its server: once in an instant, and before it has begun.
    pub fn may_move(&self, request: RequestId, now: Time) -> bool {
        !self.home[request].begun && self.home[request].moved != now
    }

    pub fn begins(&mut self, request: RequestId, server: u32) {
        (self.home[request].server, self.home[request].begun) = (server, true);
    }

    /// Finds a replica for a task that is ready: those of its whole request, where it is the first. A number may have belonged
    /// to another request before.
    pub fn accept(&mut self, view: &View<'_>, replicas: &mut Replicas, task: TaskId) {
        let instance = view.instance();
        let request = instance.request_of(task);
        if task.index() >= self.given.len() {
            self.given.resize(instance.tasks().max(task.index() + 1), NOTHING);
            self.home.resize(instance.requests.len().max(request.index() + 1), NO_HOME);
        }
        if self.replica(task) != NOWHERE {
            return;
        }
        let has_run = |task| matches!(view.state(task), TaskState::Done | TaskState::Running);
        let stays = self.home[request].begun && instance.tasks_of(request).any(has_run);
        let choice = match stays {
            true => self.on_server(view, replicas, request, self.home[request].server),
            false => self.choose(view, replicas, request),
        };
        let Some((_, choice)) = choice else { return };
        if !stays {
            let first = choice.first().map(|(_, given)| replicas.all[given.replica as usize].server);
            self.home[request] = Home { server: first.unwrap_or(NOWHERE), ..NO_HOME };
        }
        choice.into_iter().for_each(|(task, given)| self.give(replicas, task, given));
    }

    /// Moves a task to another replica.
    pub fn move_to(&mut self, replicas: &Replicas, task: TaskId, replica: u32) {
        let given = Given { replica, ..self.given[task] };
        self.settle(replicas, task);
        self.give(replicas, task, given);
    }

    fn give(&mut self, replicas: &Replicas, task: TaskId, given: Given) {
        self.given[task] = given;
        self.add(replicas, given);
    }

    fn add(&mut self, replicas: &Replicas, given: Given) {
        let replica = &replicas.all[given.replica as usize];
        replica.gpus.iter().for_each(|gpu| self.load[gpu] += given.cost);
        self.of_server[replica.server as usize] += given.cost * u64::from(replica.gpus.count);
    }

    fn take(&mut self, replicas: &Replicas, given: Given) {
        let replica = &replicas.all[given.replica as usize];
        replica.gpus.iter().for_each(|gpu| self.load[gpu] = self.load[gpu].saturating_sub(given.cost));
        let load = &mut self.of_server[replica.server as usize];
        *load = load.saturating_sub(given.cost * u64::from(replica.gpus.count));
    }

    /// A task has ended, or is to go elsewhere.
    pub fn settle(&mut self, replicas: &Replicas, task: TaskId) {
        let given = self.given.get_mut(task).map_or(NOTHING, |given| std::mem::replace(given, NOTHING));
        if given.replica != NOWHERE {
            self.take(replicas, given);
        }
    }

    /// Forgets a request all of whose tasks have ended: its number may come again.
    pub fn forget_if_over(&mut self, view: &View<'_>, task: TaskId) {
        let request = view.instance().request_of(task);
        let over = |task| matches!(view.state(task), TaskState::Done | TaskState::GivenUp);
        if view.instance().tasks_of(request).all(over)
            && let Some(home) = self.home.get_mut(request)
        {
            *home = NO_HOME;
        }
    }

    /// The server that would finish a request first; several where none can finish it.
    fn choose(&mut self, view: &View<'_>, replicas: &mut Replicas, request: RequestId) -> Option<Choice> {
        let instance = view.instance();
        let mut servers = replicas.able(instance, instance.requests[request].workflow).to_vec();
        if servers.len() > WEIGHED {
            servers.select_nth_unstable_by_key(WEIGHED, |&server| (self.of_server[server as usize], server));
            servers.truncate(WEIGHED);
        }
        servers.sort_by_key(|&server| (self.of_server[server as usize], server));
        let mut best: Option<Choice> = None;
        for &server in &servers {
            let found = self.on_server(view, replicas, request, server);
            if let Some(found) = found.filter(|found| best.as_ref().is_none_or(|best| found.0 < best.0)) {
                best = Some(found);
            }
        }
        if best.is_some() && (self.routing == Routing::Whole || servers.len() as u32 == replicas.servers) {
            return best;
        }
        let apart = self.apart(view, replicas, request);
        match (best, apart) {
            (Some(whole), Some(apart)) => {
                let leaves = (apart.0 as f64) < whole.0 as f64 * (1.0 - WORTH_LEAVING);
                Some(if leaves { apart } else { whole })
            }
            (whole, apart) => whole.or(apart),
        }
    }

    /// A request with all its nodes on one server, as far as it holds their models.
    fn on_server(
        &mut self,
        view: &View<'_>,
        replicas: &Replicas,
        request: RequestId,
        server: u32,
    ) -> Option<Choice> {
        self.placed(view, replicas, request, |_, _, _| Some(server))
    }

    /// A request on as few servers as can be: a node follows those before it where their server holds its model.
    fn apart(&mut self, view: &View<'_>, replicas: &Replicas, request: RequestId) -> Option<Choice> {
        let spill = self.routing == Routing::Spill;
        self.placed(view, replicas, request, |_, before, _| if spill { None } else { before })
    }

    /// Gives each node that is left to the replica that would finish it first, of those on the server that `server` names; of
    /// all where it names none, or has none.
    fn placed(
        &mut self,
        view: &View<'_>,
        replicas: &Replicas,
        request: RequestId,
        server: impl Fn(TaskId, Option<u32>, u32) -> Option<u32>,
    ) -> Option<Choice> {
        let instance = view.instance();
        let workflow = &instance.workflows[instance.requests[request].workflow];
        let first = instance.requests[request].first_task;
        let mut ends: Vec<(u64, Option<u32>)> = vec![(0, None); workflow.nodes.len()];
        let mut choice: Vec<(TaskId, Given)> = Vec::with_capacity(workflow.nodes.len());
        let mut latest = 0;
        let mut complete = true;
        for &node in &workflow.order {
            let task = TaskId(first.0 + node);
            let before = workflow.predecessors(node).iter().map(|&before| ends[before as usize]);
            let (ready, near) = before.max().unwrap_or((0, None));
            let is_left = matches!(view.state(task), TaskState::Waiting | TaskState::Ready | TaskState::Held);
            if !is_left || self.replica(task) != NOWHERE {
                continue;
            }
            let model = workflow.models[node as usize];
            let here = server(task, near, node).map(|server| replicas.on_server(model, server));
            let range = here.filter(|range| !range.is_empty()).unwrap_or_else(|| replicas.of_model(model));
            let away = |at: usize| near.is_some_and(|near| near != replicas.all[at].server);
            let best = range.min_by_key(|&at| (self.load_of(replicas.all[at].gpus), away(at), at));
            let Some(at) = best else {
                complete = false;
                continue;
            };
            let expected = view.expected(task);
            let cost = (expected.0 as f64 * instance.models[model].share()) as u64;
            let end = ready.max(self.load_of(replicas.all[at].gpus)) + expected.0;
            let given = Given { replica: at as u32, cost };
            self.add(replicas, given);
            choice.push((task, given));
            ends[node as usize] = (end, Some(replicas.all[at].server));
            latest = latest.max(end);
        }
        choice.iter().for_each(|&(_, given)| self.take(replicas, given));
        (complete || !choice.is_empty()).then_some((latest, choice))
    }

    /// Moves a request that has not begun to another server, which can finish it. Its tasks, where they were and where they are.
    pub fn moves(
        &mut self,
        view: &View<'_>,
        replicas: &Replicas,
        request: RequestId,
        server: u32,
    ) -> Vec<(TaskId, u32, u32)> {
        let tasks = || view.instance().tasks_of(request);
        let from: Vec<u32> = tasks().map(|task| self.replica(task)).collect();
        tasks().for_each(|task| self.settle(replicas, task));
        let Some((_, choice)) = self.on_server(view, replicas, request, server) else { return Vec::new() };
        self.home[request] = Home { server, begun: false, moved: view.now() };
        let first = view.instance().requests[request].first_task;
        let place = |task: TaskId| (task.0 - first.0) as usize;
        let moved = choice.iter().map(|&(task, given)| (task, from[place(task)], given.replica)).collect();
        choice.into_iter().for_each(|(task, given)| self.give(replicas, task, given));
        moved
    }
}
