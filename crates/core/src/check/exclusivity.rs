//! One thing at a time on a GPU: executions of one replica, or a load.

use super::batching::Session;
use super::context::{Context, TOLERANCE, s};
use crate::id::{Gpus, ModelId};
use crate::instance::Residency;
use crate::time::Time;
use crate::violation::{Place, ViolationCode as Code};
use rustc_hash::FxHashSet;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum What {
    /// Executions, by one of them.
    Session(u32),
    /// The load that an execution waited for.
    Switch(u32),
    /// A load made ahead.
    Load(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    start: Time,
    end: Time,
    what: What,
    model: ModelId,
}

pub(super) fn check(context: &mut Context<'_>, sessions: &[Session]) {
    let lines = time_lines(context, sessions);
    let shared = context.instance.cluster.residency == Residency::Memory;
    let mut reported = FxHashSet::default();
    for (gpu, mut line) in lines.into_iter().enumerate() {
        line.sort_unstable();
        let gpu = gpu as u32;
        if shared {
            // A load made ahead may go on beside an execution of another model, but not beside another load.
            let ahead = |item: &&Item| matches!(item.what, What::Load(_));
            let executions = |item: &&Item| matches!(item.what, What::Session(_));
            sweep(context, gpu, line.iter().filter(|item| !ahead(item)), &mut reported);
            sweep(context, gpu, line.iter().filter(|item| !executions(item)), &mut reported);
            let running: Vec<Item> = line.iter().filter(executions).copied().collect();
            beside(context, gpu, line.iter().filter(ahead), &running, &mut reported);
        } else {
            sweep(context, gpu, line.iter(), &mut reported);
        }
    }
}

/// Everything that holds each GPU.
fn time_lines(context: &Context<'_>, sessions: &[Session]) -> Vec<Vec<Item>> {
    let (instance, log) = (context.instance, context.log);
    let executing = sessions.iter().map(|one| {
        let what = What::Session(one.execution);
        (one.gpus, Item { start: one.start, end: one.end, what, model: one.model })
    });
    let switches = context.placed().filter(|(_, one)| one.switch.0 > 0).map(|(index, one)| {
        let start = Time(one.start.0 - one.switch.0.min(one.start.0));
        let what = What::Switch(index as u32);
        (one.gpus, Item { start, end: one.start, what, model: instance.model_of(one.task) })
    });
    let loads =
        log.loads.iter().enumerate().filter(|&(index, _)| context.sound.loads[index]).map(|(index, one)| {
            let what = What::Load(index as u32);
            (one.gpus, Item { start: one.start, end: one.end, what, model: one.model })
        });
    let mut lines = vec![Vec::new(); instance.cluster.gpus as usize];
    let all: Vec<(Gpus, Item)> = executing.chain(switches).chain(loads).collect();
    for (gpus, item) in all.into_iter().filter(|(_, item)| item.end > item.start) {
        lines[gpus.range()].iter_mut().for_each(|line| line.push(item));
    }
    lines
}

type Reported = FxHashSet<(What, What)>;

/// Reports each item that starts before what lasts longest of those before it has ended.
fn sweep<'i>(
    context: &mut Context<'_>,
    gpu: u32,
    items: impl Iterator<Item = &'i Item>,
    reported: &mut Reported,
) {
    let mut longest: Option<&Item> = None;
    for item in items {
        if let Some(open) = longest
            && item.start.0.saturating_add(TOLERANCE) < open.end.0
        {
            clash(context, gpu, item, open, reported);
        }
        if longest.is_none_or(|open| open.end < item.end) {
            longest = Some(item);
        }
    }
}

/// Loads made ahead beside executions: never of the same model, nor of a model that they take off.
fn beside<'i>(
    context: &mut Context<'_>,
    gpu: u32,
    loads: impl Iterator<Item = &'i Item>,
    running: &[Item],
    reported: &mut Reported,
) {
    let mut free = Time::ZERO;
    for load in loads {
        let What::Load(index) = load.what else { continue };
        // Where loads overlap one another that was reported, and looking again for each could take for ever.
        let overlaps = load.start < free;
        free = free.max(load.end);
        if overlaps {
            continue;
        }
        let evicted = &context.log.loads[index as usize].evicted;
        let before = running.partition_point(|item| item.start.0.saturating_add(TOLERANCE) < load.end.0);
        let meanwhile = running[..before]
            .iter()
            .rev()
            .take_while(|item| item.end.0 > load.start.0.saturating_add(TOLERANCE));
        let hit =
            meanwhile.into_iter().find(|item| item.model == load.model || evicted.contains(&item.model));
        if let Some(item) = hit {
            clash(context, gpu, item, load, reported);
        }
    }
}

fn clash(context: &mut Context<'_>, gpu: u32, item: &Item, open: &Item, reported: &mut Reported) {
    // A pair that meets on several GPUs is one fault.
    if !reported.insert((item.what, open.what)) {
        return;
    }
    let executions = matches!((item.what, open.what), (What::Session(_), What::Session(_)));
    let code = if executions { Code::Overlap } else { Code::SwitchOverlap };
    let message = format!(
        "{} holds the GPU from {}, while {} holds it from {} until {}",
        name(context, item),
        s(item.start),
        name(context, open),
        s(open.start),
        s(open.end)
    );
    let place = place(context, item).on(gpu);
    context.report(code, place, message);
}

fn place(context: &Context<'_>, item: &Item) -> Place {
    match item.what {
        What::Session(index) | What::Switch(index) => context.place(index as usize),
        What::Load(index) => context.load_place(index as usize),
    }
}

fn name(context: &Context<'_>, item: &Item) -> String {
    let task = |index: u32| context.instance.task_name(context.log.executions[index as usize].task);
    let model = &context.instance.models[item.model].name;
    match item.what {
        What::Session(index) => format!("the execution of {} (`{model}`)", task(index)),
        What::Switch(index) => format!("the load of `{model}` for {}", task(index)),
        What::Load(_) => format!("the load of `{model}`"),
    }
}
