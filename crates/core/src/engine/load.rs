//! Loading and evicting models.

use super::Engine;
use super::state::{Effect, LoadState, News, Rejected, Resident};
use crate::cost::{self, Leaving};
use crate::id::{GpuId, Gpus, ModelId, TaskId};
use crate::instance::Residency;
use crate::log::{Load, Status};
use crate::time::{Span, Time};

/// What a load would take.
pub(super) struct LoadPlan {
    pub span: Span,
    /// Models that leave every GPU of the window that holds them.
    pub evicted: Vec<ModelId>,
}

impl Engine<'_> {
    /// Works out a load onto a window: what has to leave, and what it costs. Changes nothing.
    pub(super) fn plan_load(&self, model: ModelId, gpus: Gpus) -> Result<LoadPlan, Rejected> {
        match self.instance.cluster.residency {
            Residency::Single => Ok(self.plan_single(model, gpus)),
            Residency::Memory => self.plan_by_memory(model, gpus),
        }
    }

    /// One model a GPU: whatever else is there leaves. The log need not list it.
    fn plan_single(&self, model: ModelId, gpus: Gpus) -> LoadPlan {
        let spans = gpus.iter().map(|gpu| match self.gpus[gpu].residents.first() {
            Some(resident) if resident.model == model => Span::ZERO,
            Some(resident) => self.gpu_cost(Some(self.leaving(resident)), model),
            None => self.gpu_cost(None, model),
        });
        LoadPlan { span: spans.max().unwrap_or(Span::ZERO), evicted: Vec::new() }
    }

    /// As many models as fit: the least recently used leave first, never one that executes on a GPU of the window.
    fn plan_by_memory(&self, model: ModelId, gpus: Gpus) -> Result<LoadPlan, Rejected> {
        let room = cost::megabytes(self.instance.cluster.gpu_memory_gb);
        let in_use = |candidate: ModelId| {
            gpus.iter().any(|gpu| self.gpus[gpu].run.is_some_and(|lead| self.runs[lead].model == candidate))
        };
        // The load would hold GPUs on which the model executes in another window.
        let executes = |gpu: &GpuId| self.gpus[*gpu].run.is_some_and(|lead| self.runs[lead].model == model);
        if let Some(gpu) = gpus.iter().find(executes).filter(|_| !self.holding[model].contains_all(gpus)) {
            return Err(Rejected::Busy { gpu });
        }
        let mut evicted: Vec<ModelId> = Vec::new();
        for gpu in gpus.iter().filter(|&gpu| !self.holding[model].contains(gpu)) {
            loop {
                let kept =
                    self.gpus[gpu].residents.iter().filter(|resident| !evicted.contains(&resident.model));
                let models = kept.clone().map(|resident| resident.model).chain([model]);
                if self.memory_of(gpu, models) <= room {
                    break;
                }
                let removable = kept.filter(|resident| !in_use(resident.model));
                let oldest = removable.min_by_key(|resident| (resident.last_used, resident.model));
                evicted.push(oldest.ok_or(Rejected::NoRoom { model, gpu })?.model);
            }
        }
        let spans = gpus.iter().map(|gpu| {
            if self.holding[model].contains(gpu) {
                return Span::ZERO;
            }
            let leaving =
                self.gpus[gpu].residents.iter().filter(|resident| evicted.contains(&resident.model));
            let leaving = leaving.map(|resident| self.leaving(resident));
            self.gpu_cost(leaving.reduce(|sum, one| sum + one), model)
        });
        let span = spans.max().unwrap_or(Span::ZERO);
        evicted.sort_unstable();
        Ok(LoadPlan { span, evicted })
    }

    fn leaving(&self, resident: &Resident) -> Leaving {
        Leaving { unused: !resident.has_executed, ..self.instance.models[resident.model].leaving() }
    }

    fn gpu_cost(&self, leaving: Option<Leaving>, model: ModelId) -> Span {
        let spec = &self.instance.models[model];
        self.instance.cluster.switch.of(leaving, spec.memory_gb, spec.load_seconds)
    }

    /// A GPU of the window on which a load goes on that `model`, which is there, may not execute beside: its own onto other GPUs
    /// as well, or any where a GPU holds one model.
    pub(super) fn clashing_load(&self, model: ModelId, gpus: Gpus) -> Option<GpuId> {
        let single = self.instance.cluster.residency == Residency::Single;
        let loaded = |gpu: GpuId| self.gpus[gpu].load.and_then(|lead| self.loads[lead].as_ref());
        gpus.iter().find(|&gpu| loaded(gpu).is_some_and(|load| single || load.model == model))
    }

    /// Starts a load; returns what it takes and what it takes off.
    pub(super) fn begin_load(
        &mut self,
        model: ModelId,
        gpus: Gpus,
        for_run: bool,
        ahead_of: Option<TaskId>,
    ) -> Result<(Span, Box<[ModelId]>), Rejected> {
        if let Some(gpu) = gpus.iter().find(|&gpu| self.gpus[gpu].load.is_some()) {
            return Err(Rejected::Loading { gpu });
        }
        let plan = self.plan_load(model, gpus)?;
        for gpu in gpus.iter() {
            match self.instance.cluster.residency {
                Residency::Single => self.evict_where(gpu, |resident| resident != model),
                Residency::Memory => self.evict_where(gpu, |resident| plan.evicted.contains(&resident)),
            }
            self.gpus[gpu].load = Some(gpus.first);
            self.idle.remove(gpu);
            self.empty.remove(gpu);
        }
        let evicted: Box<[ModelId]> = plan.evicted.into();
        let load = LoadState { model, gpus, start: self.now, for_run, ahead_of, evicted: evicted.clone() };
        self.loads[gpus.first] = Some(load);
        self.memory_changed(gpus);
        self.runs[gpus.first].expected_load_end = self.now + plan.span;
        self.effects.push(Effect::Load { model, gpus, span: plan.span });
        Ok((plan.span, evicted))
    }

    pub(super) fn load_ahead(
        &mut self,
        model: ModelId,
        gpus: Gpus,
        ahead_of: Option<TaskId>,
    ) -> Result<(), Rejected> {
        self.check_window(model, gpus)?;
        if self.holding[model].contains_all(gpus) {
            return Err(Rejected::AlreadyThere { model, gpus });
        }
        let running = gpus.iter().find(|&gpu| self.gpus[gpu].run.is_some());
        match (running, self.instance.cluster.residency) {
            (Some(gpu), Residency::Single) => Err(Rejected::Busy { gpu }),
            _ => self.begin_load(model, gpus, false, ahead_of).map(|_| ()),
        }
    }

    /// A load has ended: the model is there, and what waited for it executes.
    pub(super) fn loaded(&mut self, lead: GpuId) {
        let load = self.loads[lead].take().expect("a load that ended was going on");
        for gpu in load.gpus.iter() {
            self.gpus[gpu].load = None;
            if !self.holding[load.model].contains(gpu) {
                self.holding[load.model].insert(gpu);
                self.gpus[gpu].residents.push(Resident {
                    model: load.model,
                    last_used: self.now,
                    has_executed: load.for_run,
                });
            }
            if self.gpus[gpu].run.is_none() && self.alive.contains(gpu) {
                self.idle.insert(gpu);
                self.gpus[gpu].idle_since = self.now;
            }
        }
        if !load.for_run {
            self.record_load(load, Status::Completed);
            return;
        }
        let run = &mut self.runs[lead];
        run.loading = false;
        (run.progress, run.since) = (0.0, self.now);
        let took = self.now - load.start;
        for member in &mut run.members {
            (member.start, member.begun) = (self.now, 0.0);
            // What the load really took, which under the real clock is not what was expected. One that took nothing, because
            // the server still had the model, is written down by itself: nothing else tells that there was one.
            if member.switch > Span::ZERO {
                member.switch = took;
                if took == Span::ZERO {
                    let (model, gpus, now, status) = (load.model, load.gpus, self.now, Status::Completed);
                    let evicted = std::mem::take(&mut member.evicted);
                    self.log.loads.push(Load { model, gpus, start: now, end: now, status, evicted });
                }
            }
            self.effects.push(Effect::Execute { task: member.task, gpus: load.gpus });
        }
        run.count_batch(self.now);
        self.note_expected(lead);
    }

    /// Writes down a load that no execution bears, unless one may still come to bear it.
    pub(super) fn record_load(&mut self, load: LoadState, status: Status) {
        self.news.push(News::Freed(load.gpus));
        let LoadState { model, gpus, start, evicted, .. } = load;
        let record = Load { model, gpus, start, end: self.now, status, evicted };
        match load.ahead_of {
            Some(task) if status == Status::Completed => {
                self.log.loads.extend(self.prepared.insert(task, record))
            }
            _ => self.log.loads.push(record),
        }
    }

    /// The load that was made ahead of `task`, if it ends just now on these GPUs: then it is the task's own switch.
    pub(super) fn take_prepared(&mut self, task: TaskId, gpus: Gpus) -> (Span, Box<[ModelId]>) {
        if self.prepared.is_empty() {
            return (Span::ZERO, Box::default());
        }
        match self.prepared.remove(&task) {
            Some(load) if load.end == self.now && load.start < load.end && load.gpus == gpus => {
                (load.end - load.start, load.evicted)
            }
            other => {
                self.log.loads.extend(other);
                (Span::ZERO, Box::default())
            }
        }
    }

    pub(super) fn evict_where(&mut self, gpu: GpuId, leaves: impl Fn(ModelId) -> bool) {
        let (residents, holding) = (&mut self.gpus[gpu].residents, &mut self.holding);
        residents.retain(|resident| {
            let goes = leaves(resident.model);
            if goes {
                holding[resident.model].remove(gpu);
            }
            !goes
        });
    }

    /// When the replica or load on a GPU is expected to end; now, where there is none.
    pub(super) fn expected_free(&self, gpu: GpuId) -> Time {
        let state = &self.gpus[gpu];
        let run_end = state.run.map_or(self.now, |lead| self.expected_end(lead));
        let load_end = state.load.map_or(self.now, |lead| self.runs[lead].expected_load_end);
        run_end.max(load_end).max(self.now)
    }
}
