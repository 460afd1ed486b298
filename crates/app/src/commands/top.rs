//! `gswarm top`: GPUs, queue and rates of a service or run, in a terminal.

mod ask;
mod screen;
mod words;

use crate::commands::report::inputs::Given;
use crate::commands::view;
use crate::failure::{Failure, FailureKind};
use crate::output;
use ask::{Asked, Folder, Server, ask_again_and_again};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use screen::{Panel, Screen};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  gswarm top                                   the service on this machine, at port 8080
  gswarm top http://10.0.0.7:8080 --token-file token
  gswarm top results                           a live run in progress, by its folder; or a finished one
  gswarm top --once                            one snapshot, as text; a pipe gets the same

Keys: q or Ctrl-C quits, Tab selects the next panel, arrows, Page Up and Page Down scroll, p pauses, ? shows help.
`gswarm serve` shows the same, and more, in a browser.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// Address of a `gswarm serve`, or the folder or log of a run
    #[arg(value_name = "ADDRESS|DIR|LOG", default_value = "http://127.0.0.1:8080")]
    what: String,
    /// File with the token of the service
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between updates
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    every: f64,
    /// Print one snapshot as text and exit
    #[arg(long)]
    once: bool,
    #[command(flatten, next_help_heading = "Of a log")]
    given: Given,
}

/// Polling interval for keys.
const KEYS: Duration = Duration::from_millis(50);

/// Shows the state until the user quits.
pub fn top(args: &TopArgs) -> Result<(), Failure> {
    // An address is never the name of a file that is there, but for whoever makes it so.
    let path = Path::new(&args.what);
    if path.exists() {
        watch(args, Folder::of(view::viewed(path, &args.given)?)?)
    } else if args.what.contains(':') {
        watch(args, Server::at(&args.what, args.token_file.as_deref())?)
    } else {
        Err(Failure::input(format!("there is no {} (V001)", args.what))
            .hint("give the folder of a run, or an address such as http://HOST:PORT"))
    }
}

fn watch(args: &TopArgs, mut asked: impl Asked) -> Result<(), Failure> {
    if args.once || !std::io::stdout().is_terminal() {
        let told = asked.ask().map_err(|why| unreachable(&why))?;
        return output::line(&words::text(&told.overview, &told.happenings));
    }
    // Whoever cannot be reached at all is said so at once; later, the screen says it and goes on asking.
    let first = asked.ask().map_err(|why| unreachable(&why))?;
    let news = ask_again_and_again(asked, Duration::from_secs_f64(args.every));
    let mut screen = Screen::new(first);
    let mut terminal = ratatui::try_init().map_err(|error| no_terminal(&error))?;
    let ended = loop {
        if let Err(error) = terminal.draw(|frame| screen.draw(frame)) {
            break Err(no_terminal(&error));
        }
        match wait(&mut screen) {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(error) => break Err(no_terminal(&error)),
        }
        while let Ok(told) = news.try_recv() {
            screen.take(told);
        }
    };
    ratatui::restore();
    ended
}

/// Waits briefly for a key; whether it quits.
fn wait(screen: &mut Screen) -> std::io::Result<bool> {
    if !event::poll(KEYS)? {
        return Ok(false);
    }
    let Event::Key(key) = event::read()? else { return Ok(false) };
    if key.kind == KeyEventKind::Release {
        return Ok(false);
    }
    let page = screen.page();
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(true),
        KeyCode::Char('q') => return Ok(true),
        KeyCode::Esc if !screen.help => return Ok(true),
        KeyCode::Char('?' | 'h') | KeyCode::Esc => screen.help = !screen.help,
        KeyCode::Char('p' | ' ') => screen.paused = !screen.paused,
        KeyCode::Tab | KeyCode::Right => screen.panel = screen.panel.next(),
        KeyCode::BackTab | KeyCode::Left => screen.panel = screen.panel.before(),
        KeyCode::Char('1') => screen.panel = Panel::Gpus,
        KeyCode::Char('2') => screen.panel = Panel::Queue,
        KeyCode::Char('3') => screen.panel = Panel::Happenings,
        KeyCode::Char('4') => screen.panel = Panel::Slowest,
        KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
        KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
        KeyCode::PageDown => screen.scroll(page),
        KeyCode::PageUp => screen.scroll(-page),
        KeyCode::Home | KeyCode::Char('g') => screen.scroll(isize::MIN / 2),
        KeyCode::End | KeyCode::Char('G') => screen.scroll(isize::MAX / 2),
        _ => {}
    }
    Ok(false)
}

fn unreachable(why: &str) -> Failure {
    Failure::input(why.to_owned())
        .hint("give the address that `gswarm serve` prints, and --token-file if it needs a token")
}

fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::Input, format!("the terminal cannot be used: {error}"))
        .hint("`gswarm top --once` prints the same as text")
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, from 0.1 to 3600".to_owned()),
    }
}
