//! A bar for runs that take a while. Short ones, and those whose errors go to a file, show none.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// Before this, nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a run is.
pub struct Bar {
    label: String,
    shown: bool,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// A bar that is `wanted`, where there is a terminal to show it on.
    pub fn new(label: &str, wanted: bool) -> Bar {
        let shown = wanted && stderr().is_terminal();
        Bar { label: label.to_string(), shown, since: Instant::now(), bar: None }
    }

    /// `done` of `total`.
    pub fn update(&mut self, done: usize, total: usize) {
        if !self.shown || self.since.elapsed() < PATIENCE {
            return;
        }
        let label = &self.label;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{msg} [{bar:32}] {human_pos}/{human_len} nodes, {eta} left")
            {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.with_message(label.clone())
        });
        bar.set_position(done as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
