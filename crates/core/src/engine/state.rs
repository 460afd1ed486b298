//! The types that engine, drivers and policies exchange, and the parts of the engine's state.

use crate::belief::Estimate;
use crate::id::{GpuId, Gpus, ModelId, RequestId, TaskId};
use crate::time::{Span, Time};

/// What a policy proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run a ready task on these GPUs: load its model if it is not there, or join the batch that runs there.
    Start {
        /// The task.
        task: TaskId,
        /// As many consecutive GPUs as its model needs.
        gpus: Gpus,
    },
    /// Bring a model onto these GPUs ahead of need.
    Load {
        /// The model.
        model: ModelId,
        /// As many consecutive GPUs as it needs.
        gpus: Gpus,
        /// The task that will start there next, where the load is made for one whose inputs are not there yet. If the
        /// two meet to the microsecond, the load is written down as that task's switch.
        ahead_of: Option<TaskId>,
    },
    /// Ask again at this time, even if nothing happens until then.
    Wake {
        /// In the future.
        at: Time,
    },
}

/// What happened. The order of the variants is the order in which events of one instant are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A task gave its result.
    Finished(TaskId),
    /// A task failed.
    Failed(TaskId),
    /// A task failed, and would however often it was tried: it is given up.
    Refused(TaskId),
    /// The load whose window starts at this GPU failed: its window is empty, and what waited for it has failed with it.
    LoadFailed(GpuId),
    /// The server of a task failed, and the task is not to blame: it is ready again, and no attempt of it has failed.
    Deferred(TaskId),
    /// The load whose window starts at this GPU failed by its server's fault: its window is empty, and what waited for it is
    /// ready again.
    LoadDeferred(GpuId),
    /// A task that does not run has waited too long for a server: it is given up.
    Abandoned(TaskId),
    /// A task that has failed at this very moment is tried again, but not at once: it waits, on no GPU, for its release.
    Held(TaskId),
    /// A GPU is gone. A load that would end at the same instant is cut short.
    Lost(GpuId),
    /// The load whose window starts at this GPU has ended.
    Loaded(GpuId),
    /// A GPU that was lost is there again, empty.
    Returned(GpuId),
    /// A task that was held may be tried again.
    Released(TaskId),
    /// Nobody needs a model for now: it leaves all GPUs, unless it executes or loads somewhere.
    Dismissed(ModelId),
    /// A request came in.
    Arrived(RequestId),
    /// A request was withdrawn: nothing more of it is to run.
    Withdrawn(RequestId),
    /// What was given up of a request is to be tried again, as if it had never failed.
    Reopened(RequestId),
    /// A time that a policy asked for.
    Woken,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bring a model onto GPUs; report [`Event::Loaded`] with the first of them.
    Load {
        /// The model.
        model: ModelId,
        /// Where to.
        gpus: Gpus,
        /// What the cost rules say it takes.
        span: Span,
    },
    /// Execute a task on GPUs that hold its model; report [`Event::Finished`] or [`Event::Failed`].
    Execute {
        /// The task.
        task: TaskId,
        /// Where.
        gpus: Gpus,
    },
    /// Forget the execution of a task: its GPUs are gone, or nobody wants it. Report nothing more of it.
    AbortTask {
        /// The task.
        task: TaskId,
        /// Where it ran.
        gpus: Gpus,
    },
    /// Forget a load: its GPUs are gone. Report nothing more of it.
    AbortLoad {
        /// Its window.
        gpus: Gpus,
    },
    /// Take a model off all GPUs; report nothing. What is loaded there next waits until it is gone.
    Unload {
        /// The model.
        model: ModelId,
    },
    /// Report [`Event::Woken`] at this time.
    Wake {
        /// When.
        at: Time,
    },
}

/// What a policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A task has all its inputs, or may be tried again.
    Ready(TaskId),
    /// An execution or a load ended on these GPUs.
    Freed(Gpus),
    /// A GPU is gone.
    Lost(GpuId),
    /// A GPU that was lost is there again, empty.
    Returned(GpuId),
    /// A task will never run: it, or something it needs, failed too often, or its request was withdrawn.
    GivenUp(TaskId),
}

/// Why a decision cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The task waits for inputs, runs or has ended.
    #[error("task {} is not ready", task.0)]
    NotReady {
        /// The task.
        task: TaskId,
    },
    /// Wrong number of GPUs, or across servers.
    #[error("model {} cannot be put on GPUs {gpus}", model.0)]
    IllegalWindow {
        /// The model.
        model: ModelId,
        /// The window.
        gpus: Gpus,
    },
    /// The GPU is gone.
    #[error("GPU {} is lost", gpu.0)]
    GpuLost {
        /// The GPU.
        gpu: GpuId,
    },
    /// Another replica executes there.
    #[error("GPU {} is busy", gpu.0)]
    Busy {
        /// The GPU.
        gpu: GpuId,
    },
    /// Another load goes on there.
    #[error("GPU {} is loading a model", gpu.0)]
    Loading {
        /// The GPU.
        gpu: GpuId,
    },
    /// The replica runs as many executions as it can.
    #[error("the batch on GPUs {gpus} is full, task {} cannot join", task.0)]
    BatchFull {
        /// The task.
        task: TaskId,
        /// The replica.
        gpus: Gpus,
    },
    /// The model is already there.
    #[error("model {} is already on GPUs {gpus}", model.0)]
    AlreadyThere {
        /// The model.
        model: ModelId,
        /// The window.
        gpus: Gpus,
    },
    /// What runs there cannot be evicted and leaves too little memory.
    #[error("GPU {} has no room for model {} next to what runs there", gpu.0, model.0)]
    NoRoom {
        /// The model.
        model: ModelId,
        /// The GPU.
        gpu: GpuId,
    },
    /// The models there leave too little memory for one more execution.
    #[error("GPU {} has no memory for one more execution of model {}", gpu.0, model.0)]
    NoSlot {
        /// The model.
        model: ModelId,
        /// The GPU.
        gpu: GpuId,
    },
    /// A policy asked to be woken at a time that is not in the future.
    #[error("cannot wake at {at}: it is {now}")]
    WakeInThePast {
        /// The time asked for.
        at: Time,
        /// The time it is.
        now: Time,
    },
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Not all inputs are there.
    Waiting,
    /// All inputs are there.
    Ready,
    /// It failed, and a while passes before it is tried again.
    Held,
    /// On GPUs, or waiting there for its model.
    Running,
    /// Finished.
    Done,
    /// It, or something it needs, failed too often, or its request was withdrawn.
    GivenUp,
}

/// How far a task is; one small record, so that handling an event touches memory once for each task.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    /// When it became ready.
    pub ready_at: Time,
    /// Inputs that are still missing.
    pub missing: u32,
    /// Where a running task runs: the first GPU of its replica.
    pub lead: GpuId,
    pub state: TaskState,
}

impl Progress {
    pub fn waiting_for(missing: u32) -> Progress {
        Progress { ready_at: Time::ZERO, missing, lead: GpuId(u32::MAX), state: TaskState::Waiting }
    }

    pub fn becomes_ready(&mut self, now: Time) {
        (self.state, self.ready_at) = (TaskState::Ready, now);
    }

    pub fn is_free_to_start(self) -> bool {
        self.missing == 0 && self.state == TaskState::Waiting
    }
}

/// A model on a GPU.
#[derive(Clone, Copy)]
pub(super) struct Resident {
    pub model: ModelId,
    pub last_used: Time,
    /// Whether it has executed anything here since it was loaded.
    pub has_executed: bool,
}

#[derive(Default)]
pub(super) struct Gpu {
    /// First GPU of the replica that executes here.
    pub run: Option<GpuId>,
    /// First GPU of the load that goes on here.
    pub load: Option<GpuId>,
    pub residents: Vec<Resident>,
    pub idle_since: Time,
    pub busy_from: Time,
    pub busy: Span,
}

/// A replica at work, or the empty shell of the last one that started at this GPU: its list keeps its memory.
pub(super) struct Run {
    pub model: ModelId,
    pub gpus: Gpus,
    pub loading: bool,
    pub members: Vec<Member>,
    pub expected_end: Time,
    pub expected_load_end: Time,
    /// Work that a member would have done that has been here since the batch began, in microseconds, up to `since`; only
    /// kept where somebody learns from it.
    pub progress: f64,
    pub since: Time,
}

impl Default for Run {
    fn default() -> Run {
        Run {
            model: ModelId(0),
            gpus: Gpus::new(0, 0),
            loading: false,
            members: Vec::new(),
            expected_end: Time::ZERO,
            expected_load_end: Time::ZERO,
            progress: 0.0,
            since: Time::ZERO,
        }
    }
}

impl Run {
    pub fn is_active(&self) -> bool {
        !self.members.is_empty()
    }

    /// Adds up what the members have done by now, before one comes or leaves.
    pub fn advance(&mut self, now: Time, slowdown: &[u32]) {
        if let Some(last) = self.members.len().checked_sub(1) {
            self.progress += now.since(self.since).0 as f64 * 1e6 / f64::from(slowdown[last]);
        }
        self.since = now;
    }

    /// All that start at the same moment see the same batch: the one that is there when the moment has passed.
    pub fn count_batch(&mut self, now: Time) {
        let count = self.members.len() as u32;
        self.members.iter_mut().filter(|member| member.start == now).for_each(|member| member.batch = count);
    }
}

pub(super) struct Member {
    pub task: TaskId,
    pub ready: Time,
    pub switch: Span,
    pub start: Time,
    /// The progress of its batch when it began.
    pub begun: f64,
    pub batch: u32,
    pub evicted: Box<[ModelId]>,
    /// What the learner expected of it when it began.
    pub expected: Option<Box<Estimate>>,
}

pub(super) struct LoadState {
    pub model: ModelId,
    pub gpus: Gpus,
    pub start: Time,
    /// An execution waits for it; else it was made ahead of need.
    pub for_run: bool,
    pub ahead_of: Option<TaskId>,
    pub evicted: Box<[ModelId]>,
}
