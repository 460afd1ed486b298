//! What `learned` believes of run times: the predictions, corrected for each kind of task on each sort of device by what
//! parts really took, and what is left of those that run, given how long they have.

use super::Placement;
use super::frees::{Free, Frees, Standing};
use crate::scheduling::machine::{Machine, SHARE};
use crate::scheduling::view::{CPU, DeviceIndex, Doubt, View};
use crate::scheduling::workload::Workload;
use gswarm_core::belief::Uncertain;
use gswarm_core::{Span, Time};
use gswarm_learn::model::{GroupId, Prediction};

/// A correction that has moved by more than this since tasks were last looked at makes it worth looking again.
const NEWS: f64 = 0.05;

/// Beliefs, and what was placed by them.
pub struct Beliefs {
    /// The kind of each task, as a number.
    kinds: Vec<u32>,
    doubt: Option<Doubt>,
    /// Corrections by device and kind that those who wait were last looked at with.
    told: [Vec<f64>; 2],
    /// What was expected of the parts of each task when it was placed, in microseconds.
    parts: Vec<[u64; 2]>,
    shares: Vec<u32>,
    /// What was expected of all parts that are on each device.
    backlog: Vec<u64>,
    /// What was expected to be left of the part on each device, when that was last worked out.
    left: Vec<Left>,
    frees: Frees,
    /// Kept for its room.
    doubtful: Vec<(usize, u32)>,
    /// How many of the changes of devices were seen.
    seen: usize,
    /// When the CPU, the first of the GPUs and all of these together are expected to be free, at the moment that was last
    /// looked at.
    cpu_free_at: u64,
    first_gpu: Option<Free>,
    gpus_wait: u64,
}

/// What was left of a part at a moment.
#[derive(Clone, Copy)]
struct Left {
    task: u32,
    at: Time,
    left: Span,
}

/// The CPU's place in pairs, or the GPUs'.
fn sort(device: DeviceIndex) -> usize {
    usize::from(device != CPU)
}

impl Beliefs {
    /// Those that come with the estimates.
    pub fn new(workload: &Workload, doubt: Option<Doubt>) -> Beliefs {
        let tasks = workload.tasks.len();
        let kinds = crate::scheduling::workload::TaskKind::ALL.len();
        Beliefs {
            kinds: workload.tasks.iter().map(|task| task.kind as u32).collect(),
            doubt,
            told: [vec![1.0; kinds], vec![1.0; kinds]],
            parts: vec![[0; 2]; tasks],
            shares: vec![0; tasks],
            backlog: Vec::new(),
            left: Vec::new(),
            frees: Frees::default(),
            doubtful: Vec::new(),
            seen: 0,
            cpu_free_at: 0,
            first_gpu: None,
            gpus_wait: 0,
        }
    }

    /// What the whole task is expected to take on a device, in microseconds.
    pub fn expected(&self, task: u32, device: DeviceIndex, view: &View<'_>) -> u64 {
        let mean = view.estimates.means[task as usize];
        let mean = if device == CPU { mean.cpu } else { mean.gpu };
        let Some(doubt) = &self.doubt else { return mean.0.max(1) };
        let group = GroupId(self.kinds[task as usize]);
        mean.times(doubt.online[sort(device)].correction(group)).0.max(1)
    }

    /// The standard deviation of the logarithm of its time there.
    pub fn spread(&self, task: u32, device: DeviceIndex) -> f64 {
        self.doubt.as_ref().map_or(0.0, |doubt| doubt.spreads[task as usize][sort(device)])
    }

    /// Looks at the devices: what runs there is expected to take what such parts take that have run for as long.
    pub fn look(&mut self, view: &View<'_>) {
        let (devices, now) = (view.devices(), view.now.0);
        self.backlog.resize(devices, 0);
        self.left.resize(devices, Left { task: u32::MAX, at: Time::ZERO, left: Span::ZERO });
        self.frees.fit(devices - 1);
        for &device in view.changes.get(self.seen..).unwrap_or_default() {
            if device != CPU {
                self.frees.set(device - 1, self.standing(device, view), view.placed[device]);
            }
        }
        self.seen = view.changes.len();
        self.frees.advance(now);
        self.cpu_free_at = self.free_at(CPU, view);
        (self.first_gpu, self.gpus_wait) = (self.frees.first(), self.frees.wait());
        let mut doubtful = std::mem::take(&mut self.doubtful);
        doubtful.extend(self.frees.doubtful());
        for (gpu, placed) in doubtful.drain(..) {
            let free_at = self.free_at(gpu + 1, view);
            self.gpus_wait += free_at.saturating_sub(now);
            let this = (free_at, placed, gpu);
            self.first_gpu = Some(self.first_gpu.map_or(this, |first| first.min(this)));
        }
        self.doubtful = doubtful;
    }

    /// What a GPU has to do.
    fn standing(&self, device: DeviceIndex, view: &View<'_>) -> Standing {
        let behind = self.backlog[device];
        match view.running[device] {
            None if view.placed[device] == 0 => Standing::Empty,
            None => Standing::Until { at: view.running_until[device].0, behind },
            Some((task, _)) if self.spread(task, device) > 0.0 => Standing::Doubtful,
            Some((task, since)) => {
                let whole = self.parts[task as usize][sort(device)];
                Standing::Until { at: since.0 + whole, behind: behind.saturating_sub(whole) }
            }
        }
    }

    /// When a device is expected to be free.
    pub(super) fn free_at(&mut self, device: DeviceIndex, view: &View<'_>) -> u64 {
        let behind = self.backlog[device];
        match view.running[device] {
            None => view.running_until[device].max(view.now).0 + behind,
            Some((task, since)) => {
                let whole = self.parts[task as usize][sort(device)];
                let left = self.left_of(task, device, since, view.now);
                view.now.0 + left.0 + behind.saturating_sub(whole)
            }
        }
    }

    /// What is left of the part that runs on a device. Decisions of one moment share the answer.
    fn left_of(&mut self, task: u32, device: DeviceIndex, since: Time, now: Time) -> Span {
        let known = self.left[device];
        if known.task == task && known.at == now {
            return known.left;
        }
        let whole = Span(self.parts[task as usize][sort(device)]);
        let time = Uncertain { mean: whole, spread: self.spread(task, device) };
        let left = time.left_after(now.since(since));
        self.left[device] = Left { task, at: now, left };
        left
    }

    /// When the CPU was expected to be free, when it was last looked at.
    pub fn cpu_free_at(&self) -> u64 {
        self.cpu_free_at
    }

    /// The GPU that was expected to be free first then, and when.
    pub fn first_gpu(&self) -> Option<(DeviceIndex, u64)> {
        self.first_gpu.map(|(at, _, gpu)| (gpu + 1, at))
    }

    /// The time until each GPU is free, all of them together.
    pub fn gpus_wait(&self) -> u64 {
        self.gpus_wait
    }

    /// Parts go where they were placed.
    pub fn place(&mut self, placement: &Placement, view: &View<'_>) {
        let Placement { task, gpu, share } = *placement;
        self.shares[task as usize] = share;
        let part = |device, share| Machine::part(Span(self.expected(task, device, view)), share).0;
        let both = [part(CPU, SHARE - share), gpu.map_or(0, |gpu| part(gpu as usize + 1, share))];
        self.parts[task as usize] = both;
        self.backlog[CPU] += both[0];
        if let Some(gpu) = gpu {
            self.backlog[gpu as usize + 1] += both[1];
        }
    }

    /// A part is done: whether that changes what is to be expected of those that wait.
    pub fn part_done(&mut self, task: u32, device: DeviceIndex, took: Span, view: &View<'_>) -> bool {
        let at = task as usize;
        let part = self.parts[at][sort(device)];
        self.backlog[device] = self.backlog[device].saturating_sub(part);
        let share = if device == CPU { SHARE - self.shares[at] } else { self.shares[at] };
        let (Some(doubt), true) = (&mut self.doubt, share > 0) else { return false };
        let mean = view.estimates.means[at];
        let mean = if device == CPU { mean.cpu } else { mean.gpu };
        let scale = doubt.scales[at][sort(device)];
        let prediction = Prediction { mean: mean.seconds(), scale, correction: 1.0 };
        let (online, group) = (&mut doubt.online[sort(device)], GroupId(self.kinds[at]));
        let whole = took.seconds() * f64::from(SHARE) / f64::from(share);
        online.observe(group, &prediction, whole);
        let (now, told) = (online.correction(group), &mut self.told[sort(device)][group.0 as usize]);
        let news = (now / *told).ln().abs() > NEWS;
        if news {
            *told = now;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::test_support::{machine, task, workload};
    use crate::scheduling::view::Estimates;
    use gswarm_learn::model::Online;

    /// A CPU and one GPU, which has changed `changes` times.
    fn with_view(
        (now, changes): (u64, usize),
        running: Option<(u32, Time)>,
        estimates: &Estimates,
        see: impl FnOnce(&View<'_>),
    ) {
        let machine = machine(1);
        see(&View {
            now: Time(now),
            machine: &machine,
            estimates,
            memory: &[10; 40],
            placed: &[0, 1],
            running: &[None, running],
            running_until: &[Time::ZERO; 2],
            queued: &[Span::ZERO; 2],
            changes: &vec![1; changes],
            link_free_at: Time::ZERO,
        });
    }

    fn believed() -> (Beliefs, Estimates) {
        let tasks = workload((0..40).map(|_| task(0, 9_000_000, 1_000_000, &[])).collect());
        let means = tasks.tasks.iter().filter_map(|task| task.truth).collect();
        let online = [Online::standard(), Online::standard()];
        let doubt = Doubt { spreads: vec![[0.3; 2]; 40], scales: vec![[2.7, 0.3]; 40], online };
        let estimates = Estimates { means, doubt: Some(doubt.clone()) };
        (Beliefs::new(&tasks, Some(doubt)), estimates)
    }

    #[test]
    fn what_parts_take_corrects_what_is_expected_of_the_rest() {
        let (mut beliefs, estimates) = believed();
        with_view((0, 0), None, &estimates, |view| {
            beliefs.look(view);
            let mut news = 0;
            for number in 0..30 {
                // Half of each, so that what a part takes stands for twice as much.
                beliefs.place(&Placement { task: number, gpu: Some(0), share: SHARE / 2 }, view);
                news += u32::from(beliefs.part_done(number, 1, Span(750_000), view));
                beliefs.part_done(number, CPU, Span(4_500_000), view);
            }
            let expected = beliefs.expected(35, 1, view);
            assert!((1_400_000..=1_550_000).contains(&expected), "{expected}");
            assert_eq!(beliefs.expected(35, CPU, view), 9_000_000);
            assert!((1..15).contains(&news), "told {news} times");
        });
        with_view((0, 1), None, &estimates, |view| {
            beliefs.look(view);
            assert_eq!(
                (beliefs.cpu_free_at(), beliefs.first_gpu()),
                (0, Some((1, 0))),
                "nothing is left there"
            );
        });
    }

    #[test]
    fn a_part_that_is_overdue_is_expected_to_take_longer_still() {
        let (mut beliefs, estimates) = believed();
        with_view((0, 0), None, &estimates, |view| {
            beliefs.look(view);
            beliefs.place(&Placement::whole(0, 1), view);
            beliefs.place(&Placement::whole(1, 1), view);
        });
        for (now, least) in [(100_000, 1_990_000), (900_000, 2_050_000), (1_500_000, 2_650_000)] {
            with_view((now, 1), Some((0, Time::ZERO)), &estimates, |view| beliefs.look(view));
            let (_, free_at) = beliefs.first_gpu().unwrap();
            assert!((least..now + 2_100_000).contains(&free_at), "at {now}: {free_at}");
        }
    }
}
