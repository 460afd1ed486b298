//! The health of a server: its state, when it leaves rotation, and when it returns.
//!
//! Pure: it receives the results of loads, calls and probes, and decides when the server leaves rotation. A server that
//! does not answer leaves at once. One that answers and fails is suspect, and leaves when it fails one task after the
//! other. A server that left is probed until it answers, and is then empty.

use gswarm_core::{ModelId, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// A server is out once so many things were asked of it and failed, with none between them that went well.
const STRIKES: usize = 8;

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// Nothing has been asked of it yet.
    Unknown,
    /// It has never answered.
    Starting,
    /// It holds a model and answers.
    Ready,
    /// It answers and holds no model.
    Asleep,
    /// It loads a model.
    Loading,
    /// It has failed since it last answered a call; it is still used.
    Suspect,
    /// It answers, but failed too often: it is left alone for a while.
    Out,
    /// It does not answer.
    Gone,
}

impl ServerState {
    /// Every state, in order.
    pub const ALL: [ServerState; 8] = [
        ServerState::Unknown,
        ServerState::Starting,
        ServerState::Ready,
        ServerState::Asleep,
        ServerState::Loading,
        ServerState::Suspect,
        ServerState::Out,
        ServerState::Gone,
    ];

    /// As files, metrics and people spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ServerState::Unknown => "unknown",
            ServerState::Starting => "starting",
            ServerState::Ready => "ready",
            ServerState::Asleep => "asleep",
            ServerState::Loading => "loading",
            ServerState::Suspect => "suspect",
            ServerState::Out => "out",
            ServerState::Gone => "gone",
        }
    }
}

/// What was asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServerWork {
    /// A call for a task.
    Call(TaskId),
    /// A load of a model.
    Load(ModelId),
}

/// That a server leaves rotation. It is probed until it answers: then say [`ServerHealth::is_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// How often it has left since it last answered a call.
    pub times: u32,
    /// It is left alone for so long that what failed goes elsewhere.
    pub moves: bool,
}

/// What else is known when something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Other calls are under way there: one of them may yet go well.
    pub is_called: bool,
    /// Another server could do it.
    pub elsewhere: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Rotation {
    #[default]
    In,
    Out,
    Silent,
}

/// The health of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerHealth {
    has_answered: bool,
    rotation: Rotation,
    loading: u32,
    held: u32,
    /// What has failed since a call went well.
    failed: BTreeSet<ServerWork>,
    /// What of that has failed since it last left.
    lately: BTreeSet<ServerWork>,
    times: u32,
}

impl ServerHealth {
    /// Its state.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match self.rotation {
            Rotation::Silent if !self.has_answered => ServerState::Starting,
            Rotation::Silent => ServerState::Gone,
            Rotation::Out => ServerState::Out,
            Rotation::In if !self.failed.is_empty() => ServerState::Suspect,
            Rotation::In if self.loading > 0 => ServerState::Loading,
            Rotation::In if self.held > 0 => ServerState::Ready,
            Rotation::In if self.has_answered => ServerState::Asleep,
            Rotation::In => ServerState::Unknown,
        }
    }

    /// Whether anything may be asked of it.
    #[must_use]
    pub fn is_in_rotation(&self) -> bool {
        self.rotation == Rotation::In
    }

    /// A load begins.
    pub fn load_begins(&mut self) {
        self.loading += 1;
    }

    /// A load has ended. One that was begun before the server left counts for nothing.
    pub fn load_ends(&mut self, model: ModelId, is_there: bool) {
        if self.rotation != Rotation::In {
            return;
        }
        self.loading = self.loading.saturating_sub(1);
        if is_there {
            self.has_answered = true;
            self.held += 1;
            self.failed.remove(&ServerWork::Load(model));
            self.lately.remove(&ServerWork::Load(model));
        }
    }

    /// A model was taken off.
    pub fn unloaded(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// A call was answered: whatever failed before is forgiven.
    pub fn answered(&mut self) {
        if self.rotation == Rotation::In {
            self.has_answered = true;
            self.failed.clear();
            self.lately.clear();
            self.times = 0;
        }
    }

    /// Something failed that it was asked. What has failed there before is tried elsewhere, where that is possible: then the
    /// server is left alone meanwhile.
    pub fn failed(&mut self, asked: ServerWork, Beside { is_called, elsewhere }: Beside) -> Option<Leaves> {
        if self.rotation != Rotation::In {
            return None;
        }
        self.has_answered = true;
        let has_failed_here = !self.failed.insert(asked);
        self.lately.insert(asked);
        // One that has been out before has fewer of them. One that never lets go of its calls is not waited for.
        let most = STRIKES >> self.times.min(2);
        let is_out = self.lately.len() >= most && (!is_called || self.lately.len() >= 2 * most);
        let moves = elsewhere && has_failed_here && (!is_called || self.failed.len() > 1);
        (is_out || moves).then(|| {
            self.leaves(Rotation::Out);
            Leaves { times: self.times, moves }
        })
    }

    /// It does not answer. Whether it leaves by that.
    pub fn is_silent(&mut self) -> bool {
        let leaves = self.rotation == Rotation::In;
        if leaves {
            self.leaves(Rotation::Silent);
        }
        leaves
    }

    /// What it holds is not known. Whether it leaves by that.
    pub fn is_broken(&mut self) -> bool {
        let leaves = self.rotation == Rotation::In;
        if leaves {
            self.leaves(Rotation::Out);
        }
        leaves
    }

    /// A probe of one that has left was answered: it holds nothing, and is used again.
    pub fn is_back(&mut self) {
        self.has_answered = true;
        self.rotation = Rotation::In;
    }

    fn leaves(&mut self, how: Rotation) {
        self.rotation = how;
        (self.loading, self.held) = (0, 0);
        self.lately.clear();
        if how == Rotation::Out {
            self.times += 1;
        }
    }
}
