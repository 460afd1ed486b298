//! The rules for a run without an end, applied as records arrive. It keeps only what later records are compared with:
//! the last user of each GPU, and the attempts at each open node.
//!
//! It sees the records of a service one after the other, by their ends. Rules that need all of a run, such as nodes that are
//! missing, are left to [`check`](super::check).

use super::context::{TOLERANCE, s};
use crate::id::{GpuId, Gpus, IdVec, ModelId, TaskId};
use crate::instance::{Instance, Residency};
use crate::log::{Execution, ExecutionLog, Load, Status, Unload};
use crate::time::Time;
use crate::violation::{Place, Violation, ViolationCode as Code};
use rustc_hash::FxHashMap;

/// What has been seen of a run without an end.
#[derive(Debug, Default)]
pub struct StreamCheck {
    /// Per GPU the end of the last thing that each replica did there.
    used: IdVec<GpuId, Vec<(ModelId, Gpus, Time)>>,
    tasks: FxHashMap<TaskId, Tried>,
    /// When each model left each GPU by itself, for the last time.
    unloaded: FxHashMap<(GpuId, ModelId), Time>,
}

/// What has been seen of a node that is open.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    attempts: u32,
    completed: Option<Time>,
}

impl StreamCheck {
    /// The violations in these records, which continue those of the last call.
    pub fn check(&mut self, instance: &Instance, log: &ExecutionLog) -> Vec<Violation> {
        let mut found = Vec::new();
        self.used.resize(instance.cluster.gpus as usize, Vec::new());
        // By their ends, as they happened.
        let mut loads: Vec<&Load> = log.loads.iter().collect();
        let mut executions: Vec<&Execution> = log.executions.iter().collect();
        loads.sort_by_key(|load| load.end);
        executions.sort_by_key(|one| one.end);
        let mut loads = loads.into_iter().peekable();
        for one in executions {
            while let Some(load) = loads.next_if(|load| load.end <= one.end) {
                self.load(instance, load, &mut found);
            }
            self.execution(instance, one, &mut found);
        }
        loads.for_each(|load| self.load(instance, load, &mut found));
        log.unloads.iter().for_each(|unload| self.unload(instance, *unload, &mut found));
        found
    }

    /// A model left by itself: nothing of it may have been at work. What ends later is held against it when it comes.
    fn unload(&mut self, instance: &Instance, Unload { model, gpu, at }: Unload, found: &mut Vec<Violation>) {
        let name = &instance.models[model].name;
        let Some(used) = self.used.get(gpu) else {
            let message = format!("`{name}` is unloaded from a GPU that the run does not have");
            found.push(Violation::new(Code::GpuUnknown, Place::default().on(gpu.0), message));
            return;
        };
        let after = |&&(other, _, end): &&(ModelId, Gpus, Time)| {
            other == model && at.0.saturating_add(TOLERANCE) < end.0
        };
        if let Some((.., end)) = used.iter().find(after) {
            let message = format!("`{name}` is unloaded at {}, but is in use until {}", s(at), s(*end));
            found.push(Violation::new(Code::Unload, Place::default().on(gpu.0), message));
        }
        self.unloaded.insert((gpu, model), at);
    }

    /// No more records of these tasks will follow; their numbers may be reused.
    pub fn forget(&mut self, tasks: impl Iterator<Item = TaskId>) {
        for task in tasks {
            self.tasks.remove(&task);
        }
    }

    fn load(&mut self, instance: &Instance, load: &Load, found: &mut Vec<Violation>) {
        let Some(gpus) = placed(instance, load.model, load.gpus, &Place::default(), found) else { return };
        // Where models share a GPU, one may be loaded while another executes.
        if instance.cluster.residency == Residency::Single {
            self.uses(
                load.model,
                gpus,
                (load.start, load.end),
                &Place::default(),
                Code::SwitchOverlap,
                found,
            );
        }
    }

    fn execution(&mut self, instance: &Instance, one: &Execution, found: &mut Vec<Violation>) {
        let place = place(instance, one.task);
        let model = instance.model_of(one.task);
        let mut report = |code, message: String| found.push(Violation::new(code, place.clone(), message));
        if one.end < one.start || one.start.0.saturating_add(TOLERANCE) < one.ready.0 {
            let times =
                format!("ready at {}, start at {}, end at {}", s(one.ready), s(one.start), s(one.end));
            report(Code::TimeSum, times);
        }
        if one.status == Status::Completed && one.start == one.end {
            report(Code::WorkLittle, "it takes no time, but has a result".to_owned());
        }
        let most = instance.models[model].max_batch();
        if one.batch > most {
            report(Code::BatchLimit, format!("{} executions at once; the limit is {most}", one.batch));
        }
        let tried = self.tasks.get(&one.task).copied().unwrap_or_default();
        if let Some(before) = tried.completed {
            report(Code::NodeTwice, format!("it had already completed at {}", s(before)));
        }
        if one.attempt != tried.attempts + 1 {
            report(Code::Attempt, format!("attempt {} follows attempt {}", one.attempt, tried.attempts));
        }
        let (first, workflow) =
            (instance.requests[instance.request_of(one.task)].first_task, instance.workflow_of(one.task));
        for &input in workflow.predecessors(instance.node_of(one.task)) {
            let ended = self.tasks.get(&TaskId(first.0 + input)).and_then(|tried| tried.completed);
            if let Some(ended) = ended.filter(|ended| one.start.0.saturating_add(TOLERANCE) < ended.0) {
                report(
                    Code::BeforeInput,
                    format!("it starts at {}, but its input is available only at {}", s(one.start), s(ended)),
                );
            }
        }
        let completed = (one.status == Status::Completed).then_some(one.end);
        self.tasks.insert(one.task, Tried { attempts: one.attempt, completed });
        if let Some(gpus) = placed(instance, model, one.gpus, &place, found) {
            let from = Time(one.start.0.saturating_sub(one.switch.0));
            self.uses(model, gpus, (from, one.end), &place, Code::Overlap, found);
        }
    }

    /// A replica has had GPUs to itself for a time.
    fn uses(
        &mut self,
        model: ModelId,
        gpus: Gpus,
        (from, until): (Time, Time),
        place: &Place,
        code: Code,
        found: &mut Vec<Violation>,
    ) {
        if from == until {
            return;
        }
        for gpu in gpus.iter() {
            let left = self.unloaded.get(&(gpu, model)).copied();
            let under = |left: &Time| {
                from.0.saturating_add(TOLERANCE) < left.0 && left.0.saturating_add(TOLERANCE) < until.0
            };
            if let Some(left) = left.filter(under) {
                let message = format!(
                    "it is in use from {} to {}, but its model is unloaded at {}",
                    s(from),
                    s(until),
                    s(left)
                );
                found.push(Violation::new(Code::Unload, place.clone().on(gpu.0), message));
            }
            let used = &mut self.used[gpu];
            let beside = |&&(other, window, end): &&(ModelId, Gpus, Time)| {
                (other, window) != (model, gpus) && from.0.saturating_add(TOLERANCE) < end.0
            };
            if let Some(&(_, window, end)) = used.iter().find(beside) {
                let message = format!(
                    "from {} it uses a GPU that was part of the window {window} until {}",
                    s(from),
                    s(end)
                );
                found.push(Violation::new(code, place.clone().on(gpu.0), message));
            }
            match used.iter_mut().find(|(other, window, _)| (*other, *window) == (model, gpus)) {
                Some((_, _, end)) => *end = until.max(*end),
                None => used.push((model, gpus, until)),
            }
        }
    }
}

/// The GPUs, where they are a window of the model.
fn placed(
    instance: &Instance,
    model: ModelId,
    gpus: Gpus,
    place: &Place,
    found: &mut Vec<Violation>,
) -> Option<Gpus> {
    let spec = &instance.models[model];
    let code = if gpus.first.0.saturating_add(gpus.count) > instance.cluster.gpus {
        Code::GpuUnknown
    } else if gpus.count != spec.gpus {
        Code::GpuCount
    } else if !spec.windows().any(|window| window == gpus) {
        Code::GpuWindow
    } else {
        return Some(gpus);
    };
    found.push(Violation::new(code, place.clone(), format!("`{}` on GPUs {gpus}", spec.name)));
    None
}

fn place(instance: &Instance, task: TaskId) -> Place {
    let request = instance.requests[instance.request_of(task)].name.clone();
    let node = instance.workflow_of(task).nodes[instance.node_of(task) as usize].clone();
    Place { request: Some(request), node: Some(node), ..Place::default() }
}
