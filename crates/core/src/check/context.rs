//! The context of all rules: what they read, and where they report violations.

use crate::id::TaskId;
use crate::instance::Instance;
use crate::log::{Execution, ExecutionLog};
use crate::time::Time;
use crate::truth::Truth;
use crate::violation::{Place, Violation, ViolationCode};

/// Two microseconds: what rounding a sum once here and once there can amount to.
pub(super) const TOLERANCE: u64 = 2;

/// Where the executions and loads of a log stood in their file.
#[derive(Default)]
pub(super) struct Sources {
    /// (index, line) of each execution.
    pub executions: Vec<(u32, u32)>,
    /// (index, line) of each load.
    pub loads: Vec<(u32, u32)>,
}

/// Which executions and loads have usable times and GPUs: the others were reported, and are left out of the rules on
/// them.
#[derive(Default)]
pub(super) struct Sound {
    pub times: Vec<bool>,
    pub gpus: Vec<bool>,
    pub loads: Vec<bool>,
}

impl Sound {
    pub fn all(log: &ExecutionLog) -> Sound {
        let executions = log.executions.len();
        Sound {
            times: vec![true; executions],
            gpus: vec![true; executions],
            loads: vec![true; log.loads.len()],
        }
    }
}

pub(super) struct Context<'a> {
    pub instance: &'a Instance,
    pub log: &'a ExecutionLog,
    /// How long executions really take.
    pub truth: Truth,
    /// Durations come from a clock and are not compared with the inputs.
    pub measured: bool,
    /// The log has gswarm's own format, not that of the published programs.
    pub schema: bool,
    pub sources: Option<&'a Sources>,
    /// When each GPU was lost, and until when; `Time::NEVER` where it did not return.
    pub lost: Vec<Vec<(Time, Time)>>,
    pub sound: Sound,
    pub out: Vec<Violation>,
}

impl<'a> Context<'a> {
    pub fn new(instance: &'a Instance, log: &'a ExecutionLog, measured: bool) -> Context<'a> {
        let mut lost = vec![Vec::new(); instance.cluster.gpus as usize];
        for loss in &log.losses {
            let span = (loss.at, loss.until.unwrap_or(Time::NEVER));
            lost.get_mut(loss.gpu.index()).into_iter().for_each(|spans| spans.push(span));
        }
        let (sound, out) = (Sound::all(log), Vec::new());
        Context {
            instance,
            log,
            truth: Truth::default(),
            measured,
            schema: true,
            sources: None,
            lost,
            sound,
            out,
        }
    }

    /// Whether an execution can be laid on its GPUs' time lines.
    pub fn sound(&self, index: usize) -> bool {
        self.sound.times[index] && self.sound.gpus[index]
    }

    /// The executions that can be laid on time lines.
    pub fn placed(&self) -> impl Iterator<Item = (usize, &'a Execution)> + '_ {
        self.log.executions.iter().enumerate().filter(|&(index, _)| self.sound(index))
    }

    /// An execution's place in the log.
    pub fn place(&self, index: usize) -> Place {
        let source = self.sources.map(|sources| sources.executions[index]);
        Place {
            record: Some(source.map_or(index, |(record, _)| record as usize)),
            line: source.map(|(_, line)| line),
            ..self.task_place(self.log.executions[index].task)
        }
    }

    /// A load's place in the log.
    pub fn load_place(&self, index: usize) -> Place {
        let source = self.sources.map(|sources| sources.loads[index]);
        Place {
            load: Some(source.map_or(index, |(record, _)| record as usize)),
            line: source.map(|(_, line)| line),
            ..Place::default()
        }
    }

    /// A node, where no record is to blame.
    pub fn task_place(&self, task: TaskId) -> Place {
        let node = self.instance.node_of(task) as usize;
        Place {
            request: Some(self.instance.requests[self.instance.request_of(task)].name.clone()),
            node: Some(self.instance.workflow_of(task).nodes[node].clone()),
            ..Place::default()
        }
    }

    pub fn report(&mut self, code: ViolationCode, place: Place, message: impl Into<String>) {
        self.out.push(Violation::new(code, place, message));
    }

    pub fn at(&mut self, code: ViolationCode, index: usize, message: impl Into<String>) {
        let place = self.place(index);
        self.report(code, place, message);
    }

    /// The model of an execution, by name.
    pub fn model_name(&self, index: usize) -> &'a str {
        &self.instance.models[self.instance.model_of(self.log.executions[index].task)].name
    }
}

/// A moment in seconds, in full.
pub(super) fn s(time: Time) -> String {
    seconds(time.0)
}

/// Microseconds as seconds, in full.
pub(super) fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_string()
        + " s"
}
