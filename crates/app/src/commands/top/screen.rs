//! The screen: its panels, and their scroll positions.

use super::ask::Told;
use super::words;
use gswarm_exec::wire::{GpuState, Happening, HappeningKind, Overview};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, Wrap};
use std::collections::VecDeque;

/// Events kept for scrolling back.
const KEPT: usize = 1000;

/// The parts that can be moved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    Gpus,
    Queue,
    Happenings,
    Slowest,
}

impl Panel {
    const ALL: [Panel; 4] = [Panel::Gpus, Panel::Queue, Panel::Happenings, Panel::Slowest];

    pub fn next(self) -> Panel {
        Panel::ALL[(self as usize + 1) % Panel::ALL.len()]
    }

    pub fn before(self) -> Panel {
        Panel::ALL[(self as usize + Panel::ALL.len() - 1) % Panel::ALL.len()]
    }
}

pub struct Screen {
    overview: Overview,
    happenings: VecDeque<Happening>,
    /// Why the last look brought nothing.
    trouble: Option<String>,
    /// Nothing changes until somebody goes on.
    pub paused: bool,
    /// Whether the keys are explained.
    pub help: bool,
    /// The part that the keys move in.
    pub panel: Panel,
    /// Lines that are passed over at the top of each part; of what happened, at its end.
    scrolled: [usize; 4],
    /// Lines that each part has, and can show.
    rows: [(usize, usize); 4],
    /// The part beside the GPUs on a small screen, which has no room for all of them.
    beside: Panel,
}

impl Screen {
    pub fn new(told: Told) -> Screen {
        Screen {
            overview: told.overview,
            happenings: told.happenings.into(),
            trouble: None,
            paused: false,
            help: false,
            panel: Panel::Gpus,
            scrolled: [0; 4],
            rows: [(0, 0); 4],
            beside: Panel::Queue,
        }
    }

    /// Takes in what was seen next.
    pub fn take(&mut self, told: Result<Told, String>) {
        match told {
            Ok(told) => {
                self.trouble = None;
                self.happenings.extend(told.happenings);
                let old = self.happenings.len().saturating_sub(KEPT);
                self.happenings.drain(..old);
                if !self.paused {
                    self.overview = told.overview;
                }
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// How far a page goes in the present part.
    pub fn page(&self) -> isize {
        self.rows[self.panel as usize].1.max(1) as isize
    }

    /// Moves in the present part.
    pub fn scroll(&mut self, by: isize) {
        let (all, shown) = self.rows[self.panel as usize];
        let most = all.saturating_sub(shown);
        let place = &mut self.scrolled[self.panel as usize];
        *place = place.saturating_add_signed(by).min(most);
    }

    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        if self.panel != Panel::Gpus {
            self.beside = self.panel;
        }
        let area = frame.area();
        if area.height < ROOMY || area.width < WIDE {
            self.draw_few(frame, area);
        } else {
            self.draw_all(frame, area);
        }
        if self.help {
            help(frame, area);
        }
    }

    /// On a terminal of 80 columns and 24 lines: three lines of numbers, the GPUs, and one other part at a time.
    fn draw_few(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let head = 3 + u16::from(words::servers(&self.overview).is_some());
        let rest = area.height.saturating_sub(head + 1);
        let gpus = self.overview.gpus.len() as u16 + 3;
        // The part that the keys move in has the more room, and neither more than it needs.
        let share = if self.panel == Panel::Gpus { rest.saturating_sub(rest / 3) } else { rest / 2 };
        let [head, gpus, beside, foot] = Layout::vertical([
            Constraint::Length(head),
            Constraint::Length(gpus.min(share)),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(area);
        let of = &self.overview;
        let mut lines = vec![
            Line::from(format!("{}: {}", of.title, words::state(of))).bold(),
            Line::from(words::few_counts(of)),
            Line::from(words::few_rates(of)),
        ];
        lines.extend(servers(of));
        frame.render_widget(Paragraph::new(lines), head);
        self.gpus(frame, gpus);
        match self.beside {
            Panel::Gpus | Panel::Queue => self.queue(frame, beside),
            Panel::Happenings => self.happened(frame, beside),
            Panel::Slowest => self.slowest(frame, beside),
        }
        frame.render_widget(
            self.foot("1 GPUs 2 queue 3 events 4 slowest  arrows scroll  p pause  ? help  q quit"),
            foot,
        );
    }

    fn draw_all(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let (gpus, models) = (self.overview.gpus.len() as u16, self.overview.models.len() as u16);
        // What is left is shared by the parts, none of which takes more than it needs.
        let rest = area.height.saturating_sub(HEAD + RATES + 1);
        let for_gpus = (gpus + 3).min((rest / 3).max(4));
        let for_queue = (models + 3).min((rest.saturating_sub(for_gpus) / 3).max(4));
        let for_slowest = (self.overview.slowest.len() as u16 + 3).min((rest / 5).max(4));
        let [head, rates, gpus, queue, happenings, slowest, foot] = Layout::vertical([
            Constraint::Length(HEAD),
            Constraint::Length(RATES),
            Constraint::Length(for_gpus),
            Constraint::Length(for_queue),
            Constraint::Min(3),
            Constraint::Length(for_slowest),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(self.head(), head);
        self.rates(frame, rates);
        self.gpus(frame, gpus);
        self.queue(frame, queue);
        self.happened(frame, happenings);
        self.slowest(frame, slowest);
        frame.render_widget(self.foot("q quit  Tab next panel  arrows scroll  p pause  ? help"), foot);
    }

    fn head(&self) -> Paragraph<'_> {
        let of = &self.overview;
        let mut lines = vec![
            Line::from(format!("{}: {}", of.title, words::state(of))).bold(),
            Line::from(words::counts(of)),
        ];
        lines.extend(servers(of));
        Paragraph::new(Text::from(lines)).wrap(Wrap { trim: true })
    }

    fn rates(&self, frame: &mut Frame<'_>, area: Rect) {
        let minutes = &self.overview.minutes;
        let [words, lines] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        frame.render_widget(Paragraph::new(words::rates(&self.overview)), words);
        let [executed, waiting] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(lines);
        for (title, counts, area) in
            [("nodes executed", &minutes.executions, executed), ("waiting nodes", &minutes.waiting, waiting)]
        {
            let wide = usize::from(area.width.saturating_sub(2));
            let latest = &counts[counts.len().saturating_sub(wide)..];
            let most = latest.iter().max().copied().unwrap_or(0);
            let title = format!("{title} ({:.0} s each, most {most})", minutes.bucket_seconds);
            let chart = Sparkline::default().data(latest).style(Style::default().fg(Color::Cyan));
            frame.render_widget(chart.block(Block::bordered().title(title)), area);
        }
    }

    fn gpus(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.overview.gpus.iter().map(|one| {
            let colour = match one.state {
                GpuState::Running => Color::Green,
                GpuState::Loading => Color::Yellow,
                GpuState::Lost => Color::Red,
                GpuState::Idle => Color::Reset,
            };
            (words::gpu(one), Style::default().fg(colour))
        });
        let mut rows: Vec<_> = rows.collect();
        let (mut heads, mut widths) = (words::GPU_HEADS.to_vec(), vec![4, 6, 8, 0, 14, 5, 14]);
        if area.width < WIDE {
            // Which server a GPU belongs to is what one can do without.
            heads.remove(1);
            widths.remove(1);
            rows.iter_mut().for_each(|(cells, _)| drop(cells.remove(1)));
        }
        self.table(frame, area, Panel::Gpus, "1 GPUs", &heads, &widths, rows);
    }

    fn queue(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let mut models: Vec<_> = self.overview.models.iter().collect();
        models.sort_by_key(|model| std::cmp::Reverse(model.waiting));
        let mut rows: Vec<_> = models.into_iter().map(|one| (words::model(one), Style::default())).collect();
        let (mut heads, mut widths) = (words::QUEUE_HEADS.to_vec(), vec![20, 8, 12, 10, 0]);
        if area.width < WIDE {
            // The panel above says which model is on which GPU.
            heads.remove(3);
            widths = vec![12, 7, 9, 0];
            rows.iter_mut().for_each(|(cells, _)| drop(cells.remove(3)));
        }
        self.table(frame, area, Panel::Queue, "2 Queue", &heads, &widths, rows);
    }

    fn slowest(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.overview.slowest.iter().map(|one| (words::slow(one), Style::default())).collect();
        let widths = if area.width < WIDE { [11, 12, 9, 0] } else { [24, 20, 12, 0] };
        self.table(frame, area, Panel::Slowest, "4 Slowest requests", &words::SLOW_HEADS, &widths, rows);
    }

    /// A table, in which a column of no width takes what is left.
    #[allow(clippy::too_many_arguments)]
    fn table(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        panel: Panel,
        title: &str,
        heads: &[&'static str],
        widths: &[u16],
        rows: Vec<(Vec<String>, Style)>,
    ) {
        let shown = usize::from(area.height.saturating_sub(3));
        self.rows[panel as usize] = (rows.len(), shown);
        self.scroll_within(panel);
        let from = self.scrolled[panel as usize];
        let title = self.titled(panel, title);
        let widths = widths.iter().map(|&width| match width {
            0 => Constraint::Min(10),
            width => Constraint::Length(width),
        });
        let rows = rows.into_iter().skip(from).take(shown).map(|(cells, style)| Row::new(cells).style(style));
        let heads = Row::new(heads.to_vec()).style(Style::default().add_modifier(Modifier::BOLD));
        frame.render_widget(Table::new(rows, widths).header(heads).block(self.framed(panel, title)), area);
    }

    fn happened(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let shown = usize::from(area.height.saturating_sub(2));
        self.rows[Panel::Happenings as usize] = (self.happenings.len(), shown);
        self.scroll_within(Panel::Happenings);
        let latest = self.happenings.iter().rev().skip(self.scrolled[Panel::Happenings as usize]).take(shown);
        let lines: Vec<Line<'_>> = latest
            .map(|one| {
                let line = Line::from(words::happening(one));
                if matches!(one.kind, HappeningKind::Failed | HappeningKind::Lost | HappeningKind::GivenUp) {
                    line.fg(Color::Red)
                } else {
                    line
                }
            })
            .collect();
        let title = self.titled(Panel::Happenings, "3 Events, latest first");
        frame.render_widget(Paragraph::new(lines).block(self.framed(Panel::Happenings, title)), area);
    }

    fn scroll_within(&mut self, panel: Panel) {
        let (all, shown) = self.rows[panel as usize];
        let place = &mut self.scrolled[panel as usize];
        *place = (*place).min(all.saturating_sub(shown));
    }

    /// A title with how much of a part is seen, where that is not all.
    fn titled(&self, panel: Panel, title: &str) -> String {
        let (all, shown) = self.rows[panel as usize];
        if all <= shown {
            return title.to_owned();
        }
        let from = self.scrolled[panel as usize];
        format!("{title} ({}-{} of {all})", from + 1, (from + shown).min(all))
    }

    fn framed(&self, panel: Panel, title: String) -> Block<'static> {
        let style = if panel == self.panel { Style::default().fg(Color::Cyan) } else { Style::default() };
        Block::bordered().title(title).border_style(style)
    }

    fn foot(&self, keys: &'static str) -> Paragraph<'_> {
        match (&self.trouble, self.paused) {
            (Some(why), _) => Paragraph::new(format!("not reachable, retrying: {why}")).fg(Color::Red),
            (None, true) => Paragraph::new(format!("paused, p resumes  {keys}")).fg(Color::Yellow),
            (None, false) => Paragraph::new(keys).dim(),
        }
    }
}

/// Below this many lines the screen shows two panels at a time; below this many columns it omits some.
const ROOMY: u16 = 36;
const WIDE: u16 = 100;

/// Lines of the head and of the rates.
const HEAD: u16 = 4;
const RATES: u16 = 6;

/// The servers in a line, which stands out where one is out of rotation.
fn servers(of: &Overview) -> Option<Line<'static>> {
    let line = Line::from(words::servers(of)?);
    Some(if of.backends.iter().all(|one| one.up) { line } else { line.fg(Color::Yellow) })
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = [
        "q, Esc, Ctrl-C   quit",
        "Tab, left, right next or previous panel",
        "1 2 3 4          GPUs, queue, events, slowest requests",
        "up, down, j, k   scroll by a line",
        "Page Up, Down    scroll by a page",
        "g, G             first or last line",
        "p, space         pause or resume",
        "? h Esc          close this help",
    ];
    let (width, height) = (area.width.min(66), area.height.min(lines.len() as u16 + 2));
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(
        Paragraph::new(lines.map(Line::from).to_vec()).block(Block::bordered().title("Keys")),
        place,
    );
}
