//! Terminal output during a run: stages, progress, notes, and the GPUs of a live run.

use super::progress::{Bar, Phase};
use super::story::Story;
use super::watch::Screen;
use super::{interrupt, note};
use gswarm_core::engine::View;
use gswarm_core::plan::Planned;
use gswarm_run::{Observer, Stage};

/// A terminal, or the log that its output goes to.
pub struct Terminal {
    label: String,
    quiet: bool,
    shown: bool,
    live: bool,
    /// Every event is printed as it happens.
    story: Option<Story>,
    doing: Option<Doing>,
}

enum Doing {
    Waiting { _phase: Phase },
    Counting(Bar),
    Live(Box<Screen>),
}

impl Terminal {
    /// For a command with `--quiet`, which tells nothing, and `--json`, which shows no progress; `label` names the run in its progress bar.
    pub fn new(label: &str, quiet: bool, json: bool) -> Terminal {
        Terminal {
            label: label.to_owned(),
            quiet,
            shown: !quiet && !json,
            live: false,
            story: None,
            doing: None,
        }
    }

    /// The same for a live run: once it runs, the first Ctrl-C ends it calmly.
    pub fn live(label: &str, quiet: bool, json: bool) -> Terminal {
        Terminal { live: true, ..Terminal::new(label, quiet, json) }
    }

    /// The same, which prints every event where `verbose`.
    #[must_use]
    pub fn verbose(self, verbose: bool) -> Terminal {
        Terminal { story: verbose.then(Story::default), ..self }
    }

    fn phase(&mut self, label: String) {
        // The last one goes before the next is drawn.
        self.doing = None;
        self.doing = Some(Doing::Waiting { _phase: Phase::new(label, self.shown) });
    }
}

impl Observer for Terminal {
    fn stage(&mut self, stage: Stage) {
        match stage {
            Stage::Running => {
                if self.live {
                    let _ = interrupt::interrupted_once();
                }
                self.doing = None;
                self.doing = Some(Doing::Counting(Bar::new(&self.label, self.shown)));
            }
            other => self.phase(other.label().to_owned()),
        }
    }

    fn waiting(&mut self, what: &str) {
        self.phase(what.to_owned());
    }

    fn better_plan(&mut self, found: &Planned) {
        let (makespan, gap) = (found.makespan.seconds(), found.gap() * 100.0);
        self.phase(format!("planning: {makespan:.1} s, at most {gap:.2}% above the optimum"));
    }

    fn progress(&mut self, done: usize, total: usize) {
        if let Some(Doing::Counting(bar)) = &mut self.doing {
            bar.update(done, total);
        }
    }

    fn note(&mut self, text: &str) {
        if !self.quiet {
            self.doing = None;
            note(text);
        }
    }

    fn remark(&mut self, text: &str) {
        if self.shown {
            self.note(text);
        }
    }

    fn goes_on(&mut self) -> bool {
        !interrupt::is_interrupted()
    }

    fn watch(&mut self, view: &View<'_>) -> bool {
        if let Some(story) = &mut self.story {
            self.doing = None;
            // Who reads it may have gone: the run goes on.
            let _ = super::print(&story.goes_on(view));
            return !interrupt::is_interrupted();
        }
        if !matches!(self.doing, Some(Doing::Live(_))) {
            self.doing = None;
            self.doing = Some(Doing::Live(Box::new(Screen::new(&self.label, self.shown))));
        }
        if let Some(Doing::Live(screen)) = &mut self.doing {
            screen.show(view);
        }
        !interrupt::is_interrupted()
    }
}
