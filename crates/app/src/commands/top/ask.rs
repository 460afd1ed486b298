//! Polls the state over HTTP, once or repeatedly.

use crate::commands::model_server::token;
use crate::failure::Failure;
use gswarm_exec::backend::{Http, HttpLimits};
use gswarm_exec::wire::{Happening, HistoryPage, Overview};
use gswarm_serve::dash::{DashboardSource, RunSource};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The state, and events since the last poll.
pub struct Told {
    /// How things stand.
    pub overview: Overview,
    /// New ones, oldest first.
    pub happenings: Vec<Happening>,
}

pub trait Asked: Send + 'static {
    /// The state, or why it is unknown.
    fn ask(&mut self) -> Result<Told, String>;
}

/// A service, or whatever `gswarm view` shows, at its address.
pub struct Server {
    http: Http,
    runtime: Runtime,
    /// What happened up to here is known.
    known: u64,
}

impl Server {
    /// The one at an address.
    pub fn at(address: &str, token_file: Option<&Path>) -> Result<Server, Failure> {
        let base = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let token = token_file.map(token).transpose()?;
        let second = Duration::from_secs(1);
        let limits =
            HttpLimits { connect: 3 * second, answer: 5 * second, load: 5 * second, unload: 5 * second };
        let base = base.trim_end_matches('/');
        let http = Http::new(base, token.as_deref().map(str::trim), limits).map_err(Failure::input)?;
        Ok(Server { http, runtime: runtime()?, known: 0 })
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let answer = self.runtime.block_on(self.http.get(path)).map_err(|error| error.to_string())?;
        serde_json::from_value(answer).map_err(|error| format!("the answer is not from gswarm: {error}"))
    }
}

impl Asked for Server {
    fn ask(&mut self) -> Result<Told, String> {
        let overview = self.get("/v1/overview")?;
        if self.known == 0 {
            // Of a long past, the end is of interest.
            let there: HistoryPage = self.get("/v1/history?limit=1")?;
            self.known = there.last.saturating_sub(MOST as u64);
        }
        let history: HistoryPage = self.get(&format!("/v1/history?after={}", self.known))?;
        // A service that was started again counts from the beginning.
        self.known = history.last;
        Ok(Told { overview, happenings: history.happenings })
    }
}

/// A run by its folder or log.
pub struct Folder {
    viewed: RunSource,
    runtime: Runtime,
    known: u64,
}

impl Folder {
    /// The one that is viewed.
    pub fn of(viewed: RunSource) -> Result<Folder, Failure> {
        Ok(Folder { viewed, runtime: runtime()?, known: 0 })
    }
}

impl Asked for Folder {
    fn ask(&mut self) -> Result<Told, String> {
        let history = |after, limit| {
            self.runtime.block_on(self.viewed.history(after, limit)).map_err(|fault| fault.message)
        };
        if self.known == 0 {
            self.known = history(0, 1)?.last.saturating_sub(MOST as u64);
        }
        let overview = self.runtime.block_on(self.viewed.overview()).map_err(|fault| fault.message)?;
        let HistoryPage { last, happenings, .. } = history(self.known, MOST)?;
        self.known = last;
        Ok(Told { overview, happenings })
    }
}

fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::input(format!("cannot start: {error}")))
}

/// Events per poll.
const MOST: usize = 5000;

/// Polls in its own thread until the receiver is gone.
pub fn ask_again_and_again(mut asked: impl Asked, every: Duration) -> Receiver<Result<Told, String>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(every);
            if sender.send(asked.ask()).is_err() {
                return;
            }
        }
    });
    receiver
}
