//! Ready tasks, each in the queue of the replica that it is meant for, and the heads of queues that may be able to start.

use super::replicas::Replicas;
use crate::id::{IdVec, TaskId};
use crate::rules::ready::Rank;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// The head of a queue.
pub(super) type Head = (Rank, TaskId, u32);

pub(super) struct Queues {
    queues: Vec<BinaryHeap<Reverse<(Rank, TaskId)>>>,
    /// In which queue a task waits, or none. What a queue holds of tasks that left is skipped.
    waits_in: IdVec<TaskId, u32>,
    /// Heads that may be able to start, by server.
    armed: Vec<BTreeSet<Head>>,
    /// What stands in `armed` for each replica.
    stands: Vec<Option<Head>>,
    /// Replicas that may have room for tasks of others, by server.
    hungry: Vec<BTreeSet<u32>>,
    /// Servers with any of both.
    stirred: BTreeSet<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Queues {
    pub fn new(replicas: &Replicas) -> Queues {
        let (count, servers) = (replicas.all.len(), replicas.servers as usize);
        Queues {
            queues: vec![BinaryHeap::new(); count],
            waits_in: IdVec::new(),
            armed: vec![BTreeSet::new(); servers],
            stands: vec![None; count],
            hungry: vec![BTreeSet::new(); servers],
            stirred: BTreeSet::new(),
        }
    }

    /// All tasks that wait, and nothing left behind.
    pub fn drain(&mut self) -> Vec<(Rank, TaskId)> {
        let mut all: Vec<(Rank, TaskId)> = Vec::new();
        for (at, queue) in (0..).zip(&mut self.queues) {
            let waits_in = &self.waits_in;
            all.extend(queue.drain().map(|Reverse(item)| item).filter(|&(_, task)| waits_in[task] == at));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    pub fn push(&mut self, replicas: &Replicas, rank: Rank, task: TaskId, at: u32) {
        if task.index() >= self.waits_in.len() {
            self.waits_in.resize((task.index() + 1).next_power_of_two(), NOWHERE);
        }
        self.waits_in[task] = at;
        self.queues[at as usize].push(Reverse((rank, task)));
        self.arm(replicas, at);
    }

    /// A task leaves its queue.
    pub fn remove(&mut self, task: TaskId) -> bool {
        self.waits_in.get_mut(task).is_some_and(|at| std::mem::replace(at, NOWHERE) != NOWHERE)
    }

    /// The first task of a replica.
    pub fn peek(&mut self, at: u32) -> Option<(Rank, TaskId)> {
        let queue = &mut self.queues[at as usize];
        while let Some(&Reverse((rank, task))) = queue.peek() {
            if self.waits_in[task] == at {
                return Some((rank, task));
            }
            queue.pop();
        }
        None
    }

    /// The head of a queue may be able to start.
    pub fn arm(&mut self, replicas: &Replicas, at: u32) {
        let head = self.peek(at).map(|(rank, task)| (rank, task, at));
        let server = replicas.all[at as usize].server;
        if self.stands[at as usize] != head {
            self.disarm(replicas, at);
            if let Some(head) = head {
                self.armed[server as usize].insert(head);
                self.stands[at as usize] = Some(head);
            }
        }
        if head.is_some() {
            self.stirred.insert(server);
        }
    }

    pub fn disarm(&mut self, replicas: &Replicas, at: u32) {
        if let Some(head) = self.stands[at as usize].take() {
            self.armed[replicas.all[at as usize].server as usize].remove(&head);
        }
    }

    /// A replica may have room.
    pub fn stir(&mut self, replicas: &Replicas, at: u32) {
        let server = replicas.all[at as usize].server;
        self.hungry[server as usize].insert(at);
        self.stirred.insert(server);
        self.arm(replicas, at);
    }

    /// A server where something may be able to start.
    pub fn next_server(&self) -> Option<u32> {
        self.stirred.first().copied()
    }

    pub fn settled(&mut self, server: u32) {
        self.stirred.remove(&server);
    }

    /// The first head of a server that may be able to start. Those that have changed are brought up to date.
    pub fn first(&mut self, replicas: &Replicas, server: u32) -> Option<Head> {
        while let Some(&head) = self.armed[server as usize].first() {
            let now = self.peek(head.2).map(|(rank, task)| (rank, task, head.2));
            if now == Some(head) {
                return now;
            }
            self.arm(replicas, head.2);
        }
        None
    }

    pub fn next_hungry(&mut self, server: u32) -> Option<u32> {
        self.hungry[server as usize].pop_first()
    }
}
