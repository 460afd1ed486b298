//! What a live run is doing, on a terminal: a line for the whole, and one for each GPU.

use super::progress::left;
use gswarm_core::engine::View;
use gswarm_core::{GpuId, Time};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
/// More GPUs than this are not shown one by one.
const MOST_GPUS: u32 = 16;

pub struct Screen {
    label: String,
    shown: bool,
    last: Option<Instant>,
    begun: Option<(Instant, usize)>,
    lines: Option<(ProgressBar, Vec<ProgressBar>)>,
}

impl Screen {
    /// Lines that are `wanted`, where there is a terminal to show them on.
    pub fn new(label: &str, wanted: bool) -> Screen {
        let shown = wanted && stderr().is_terminal();
        Screen { label: label.to_owned(), shown, last: None, begun: None, lines: None }
    }

    /// Shows how things stand, if it is time to.
    pub fn show(&mut self, view: &View<'_>) {
        let total = view.instance().tasks();
        let done = total - view.open_tasks();
        let (since, before) = *self.begun.get_or_insert((Instant::now(), done));
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < TICK) {
            return;
        }
        self.last = Some(Instant::now());
        let gpus = view.instance().cluster.gpus;
        let label = &self.label;
        let (whole, each) = self.lines.get_or_insert_with(|| lines(label, total, gpus));
        whole.set_position(done as u64);
        // What an earlier process had done says nothing of how fast this one is.
        let left = left(since.elapsed(), done.saturating_sub(before), total.saturating_sub(before));
        whole.set_message(format!("{left}, {:.0} s of the run", view.now().seconds()));
        for (gpu, line) in each.iter().enumerate() {
            line.set_message(state(view, GpuId(gpu as u32)));
        }
    }
}

fn lines(label: &str, total: usize, gpus: u32) -> (ProgressBar, Vec<ProgressBar>) {
    let all = MultiProgress::new();
    let whole = all.add(ProgressBar::new(total as u64));
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} [{bar:24}] {human_pos}/{human_len} nodes, {msg}")
    {
        whole.set_style(style.progress_chars("=> "));
    }
    whole.set_prefix(label.to_owned());
    let each = (0..if gpus <= MOST_GPUS { gpus } else { 0 }).map(|gpu| {
        let line = all.add(ProgressBar::new(1));
        if let Ok(style) = ProgressStyle::with_template("  GPU {prefix} {msg}") {
            line.set_style(style);
        }
        line.with_prefix(format!("{gpu:>2}"))
    });
    (whole, each.collect())
}

/// What a GPU is doing.
fn state(view: &View<'_>, gpu: GpuId) -> String {
    if !view.alive().contains(gpu) {
        return "gone".to_owned();
    }
    let model = view.resident(gpu).map_or("nothing", |model| &view.instance().models[model].name);
    let until = |at: Time| at.since(view.now()).seconds();
    if view.is_loading(gpu) {
        format!("loading, {:.0} s to go", until(view.free_at(gpu)))
    } else if view.is_running(gpu) {
        format!("running {model}, {:.0} s to go", until(view.free_at(gpu)))
    } else {
        format!("idle with {model}")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some((whole, each)) = &self.lines {
            each.iter().for_each(ProgressBar::finish_and_clear);
            whole.finish_and_clear();
        }
    }
}
