//! One entry of the history, as it is stored and as it is shown.

use crate::wire::{self, BarKind, HappeningKind};
use gswarm_core::{Gpus, Instance, ModelId, Time, WorkflowId};
use std::sync::Arc;

/// A node of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryNode {
    /// Of which workflow.
    pub workflow: WorkflowId,
    /// Its place in it.
    pub place: u32,
}

impl HistoryNode {
    fn name(self, instance: &Instance) -> &str {
        &instance.workflows[self.workflow].nodes[self.place as usize]
    }
}

/// A node of somebody's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestNode {
    /// What the request is called.
    pub request: Arc<str>,
    /// The node.
    pub node: HistoryNode,
}

/// A stretch of time on GPUs, which has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bar {
    /// Where.
    pub gpus: Gpus,
    /// The model that was loaded, or that executed.
    pub model: ModelId,
    /// What executed; `None` of a load.
    pub whose: Option<RequestNode>,
    /// From.
    pub start: Time,
    /// To.
    pub end: Time,
    /// Why it came to nothing, where it did.
    pub why: Option<Box<str>>,
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Happening {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
}

/// What may happen.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A model left GPUs so that another could come.
    Evicted(ModelId, Gpus, ModelId),
    /// A model left all its GPUs, for no other.
    Unloaded(ModelId),
    /// An attempt at a node failed.
    Failed(RequestNode, ModelId, Gpus, Box<str>),
    /// A load failed.
    NotLoaded(ModelId, Gpus, Box<str>),
    /// A node is to be tried again; which attempt failed.
    Retried(RequestNode, ModelId, u32),
    /// A GPU does not answer.
    Lost(Gpus),
    /// A GPU answers again.
    Back(Gpus),
    /// A request was accepted.
    Accepted(Arc<str>, WorkflowId),
    /// A request ended: all its nodes have finished.
    Completed(Arc<str>, f64),
    /// A request was taken back.
    Cancelled(Arc<str>),
    /// A request was given up: a node failed too often.
    GivenUp(Arc<str>, Option<Box<str>>),
}

impl Bar {
    /// For clients. `number` is its place among all that happened.
    pub fn wire(&self, instance: &Instance, number: u64) -> wire::Bar {
        let whose = self.whose.as_ref();
        wire::Bar {
            seq: number,
            kind: if whose.is_some() { BarKind::Run } else { BarKind::Load },
            gpus: numbers(self.gpus),
            model: instance.models[self.model].name.clone(),
            request: whose.map(|whose| whose.request.to_string()),
            node: whose.map(|whose| whose.node.name(instance).to_owned()),
            start: self.start.seconds(),
            end: self.end.seconds(),
            ok: self.why.is_none(),
            why: self.why.as_deref().map(str::to_owned),
        }
    }
}

impl Happening {
    /// For clients, with a sentence for people.
    pub fn wire(&self, instance: &Instance, number: u64) -> wire::Happening {
        use HappeningKind::{Accepted, Back, Cancelled, Completed, Evicted, Failed, GivenUp, Lost, Retried};
        let model = |model: ModelId| instance.models[model].name.as_str();
        let named = |whose: &RequestNode| format!("{} of {}", whose.node.name(instance), whose.request);
        let (kind, text, request, of, gpus) = match &self.what {
            What::Evicted(left, gpus, came) => {
                let text =
                    format!("{} was evicted for {} on {}", model(*left), model(*came), in_words(*gpus));
                (Evicted, text, None, Some(*left), Some(*gpus))
            }
            What::Unloaded(left) => {
                (Evicted, format!("{} was unloaded", model(*left)), None, Some(*left), None)
            }
            What::Failed(whose, of, gpus, why) => {
                let text = format!("{} failed on {}: {why}", named(whose), in_words(*gpus));
                (Failed, text, Some(&whose.request), Some(*of), Some(*gpus))
            }
            What::NotLoaded(of, gpus, why) => {
                let text = format!("{} could not be loaded on {}: {why}", model(*of), in_words(*gpus));
                (Failed, text, None, Some(*of), Some(*gpus))
            }
            What::Retried(whose, of, attempt) => {
                let text = format!("{} will be retried after attempt {attempt}", named(whose));
                (Retried, text, Some(&whose.request), Some(*of), None)
            }
            What::Lost(gpus) => {
                (Lost, format!("{} does not answer", in_words(*gpus)), None, None, Some(*gpus))
            }
            What::Back(gpus) => (Back, format!("{} answers again", in_words(*gpus)), None, None, Some(*gpus)),
            What::Accepted(request, workflow) => {
                let text = format!("{request} was accepted ({})", instance.workflows[*workflow].name);
                (Accepted, text, Some(request), None, None)
            }
            What::Completed(request, seconds) => (
                Completed,
                format!("{request} was completed after {seconds:.1} s"),
                Some(request),
                None,
                None,
            ),
            What::Cancelled(request) => {
                (Cancelled, format!("{request} was cancelled"), Some(request), None, None)
            }
            What::GivenUp(request, why) => {
                let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                (GivenUp, format!("{request} was given up{why}"), Some(request), None, None)
            }
        };
        wire::Happening {
            seq: number,
            t: self.at.seconds(),
            kind,
            text,
            request: request.map(ToString::to_string),
            model: of.map(|of| model(of).to_owned()),
            gpus: gpus.map_or(Vec::new(), numbers),
        }
    }
}

/// GPUs by number, for programs.
#[must_use]
pub fn numbers(gpus: Gpus) -> Vec<u32> {
    gpus.iter().map(|gpu| gpu.0).collect()
}

/// GPUs, for people.
#[must_use]
pub fn in_words(gpus: Gpus) -> String {
    let last = gpus.first.0 + gpus.count.saturating_sub(1);
    match gpus.count {
        1 => format!("GPU {last}"),
        _ => format!("GPUs {}-{last}", gpus.first.0),
    }
}
