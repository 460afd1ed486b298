//! Progress of a run on a terminal. Short runs, and runs whose standard error is a file, show nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::{IsTerminal, stderr};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Before this, nothing is shown.
const PATIENCE: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

/// How far a run is.
pub struct Bar {
    label: String,
    what: &'static str,
    shown: bool,
    since: Instant,
    last: Instant,
    /// What is shown until there is something to count: the first of few steps may take long.
    before: Option<Phase>,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// A bar of nodes that is `wanted`, where there is a terminal to show it on.
    pub fn new(label: &str, wanted: bool) -> Bar {
        Bar::of(label, "nodes", wanted)
    }

    /// The same of something else.
    pub fn of(label: &str, what: &'static str, wanted: bool) -> Bar {
        let (shown, now) = (wanted && stderr().is_terminal(), Instant::now());
        let before = Some(Phase::new(label.to_string(), wanted));
        Bar { label: label.to_string(), what, shown, since: now, last: now, before, bar: None }
    }

    /// `done` of `total`.
    pub fn update(&mut self, done: usize, total: usize) {
        let due =
            if self.bar.is_some() { self.last.elapsed() >= TICK } else { self.since.elapsed() >= PATIENCE };
        if !self.shown || !due {
            return;
        }
        self.last = Instant::now();
        self.before.take();
        let label = &self.label;
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            let template =
                format!("{{prefix}} [{{bar:24}}] {{human_pos}}/{{human_len}} {}, {{msg}}", self.what);
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.with_prefix(label.clone())
        });
        bar.set_message(left(self.since.elapsed(), done, total));
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

/// The remaining time at the present rate.
pub fn left(elapsed: Duration, done: usize, total: usize) -> String {
    if done == 0 {
        return "starting".to_string();
    }
    let seconds = elapsed.as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s left"),
        60..3600 => format!("{} min {} s left", seconds / 60, seconds % 60),
        _ => format!("{} h {} min left", seconds / 3600, seconds / 60 % 60),
    }
}

/// Shows the present phase while it lives.
pub struct Phase(Option<(Sender<()>, JoinHandle<()>)>);

impl Phase {
    /// A phase that is to be shown if it is `wanted`, lasts, and there is a terminal.
    pub fn new(label: impl Into<Cow<'static, str>>, wanted: bool) -> Phase {
        if !wanted || !stderr().is_terminal() {
            return Phase(None);
        }
        let (label, (stop, stopped)) = (label.into(), mpsc::channel());
        let shown = thread::spawn(move || {
            if stopped.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let spinner = spinner(label);
                let _ = stopped.recv();
                spinner.finish_and_clear();
            }
        });
        Phase(Some((stop, shown)))
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        if let Some((stop, shown)) = self.0.take() {
            drop(stop);
            let _ = shown.join();
        }
    }
}

/// One line that changes on a terminal; elsewhere, a line each time.
pub struct Line(Option<ProgressBar>);

impl Line {
    pub fn new() -> Line {
        Line(stderr().is_terminal().then(|| spinner("")))
    }

    /// What it says from now on.
    pub fn say(&self, text: &str) {
        match &self.0 {
            Some(spinner) => spinner.set_message(text.to_string()),
            None => super::note(text),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}

fn spinner(label: impl Into<Cow<'static, str>>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(label);
    spinner.enable_steady_tick(TICK);
    spinner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_on_as_what_is_done() {
        assert_eq!(left(Duration::from_secs(10), 50, 100), "10 s left");
        assert_eq!(left(Duration::from_secs(10), 1, 13), "2 min 0 s left");
        assert_eq!(left(Duration::from_secs(60), 1, 71), "1 h 10 min left");
        assert_eq!(left(Duration::from_secs(60), 0, 71), "starting");
    }
}
