//! The JSON that a service, or a watched run, exchanges with the dashboard, `gswarm top` and other clients: each shape is one type, with
//! its OpenAPI schema. The dashboard's TypeScript types are generated from these schemas.
//!
//! Times are seconds since the service or the run began, except fields named `..._at`, which are seconds since 1970.

mod event;
mod health;
mod history;
mod overview;
mod policies;
mod queue;
mod request;
mod what_if;

pub use event::{ServiceEvent, TimedEvent};
pub use health::Health;
pub use history::{Bar, BarKind, Happening, HappeningKind, HistoryPage, OngoingBar};
pub use overview::{
    Abilities, ActivitySeries, BackendStatus, ClusterStatus, Counts, GpuState, GpuStatus, LatencySummary,
    ModelStatus, Overview, OverviewSource, RunState, SlowRequestRow, WorkflowLatency, WorkflowNode,
    WorkflowOutline,
};
pub use policies::{ParameterValues, PolicyList, PolicyOutline, PolicyParameter};
pub use queue::{CallStanding, ModelQueue, NodeState, Queue, QueuedNode, QueuedRequest, RequestKind};
pub use request::{
    AcceptedRequest, CancelledRequest, RequestFailure, RequestList, RequestRecord, RequestState,
    RequestStatus, WorkflowDetail, WorkflowEdge, WorkflowList, WorkflowStep,
};
pub use what_if::{PlannedBar, WhatIf, WhatIfOutcome, WhatIfRequest};
