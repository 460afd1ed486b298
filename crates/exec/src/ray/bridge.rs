//! The process between gswarm and a Ray cluster: a Python process, because Ray's API is in Python. Requests and answers
//! are lines of JSON; answers come in any order.
//!
//! It ends when its input does, so it never outlives gswarm. If it dies, its pending requests fail as if the whole
//! cluster had stopped answering, and the next [reset](super::RayServer) of a server starts another one.

use crate::backend::BackendError;
use crate::backend::http::brief;
use crate::backend::managed::locked;
use crate::backend::process::listen;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// How long the process may take until it has joined the cluster and looked for its servers.
const STARTS: Duration = Duration::from_secs(180);
/// How long it may take to end by itself once it was told to.
const ENDS: Duration = Duration::from_secs(10);
/// How much of what it says last is kept for messages, in bytes.
const KEPT: usize = 1000;

/// The bridge, whether or not there is a process at the moment.
pub struct Bridge {
    /// The Python that has Ray and gswarm.
    python: String,
    /// What every process is told first: where the cluster is, and, once it is known, all about the run.
    introductions: Mutex<Vec<Value>>,
    line: AsyncMutex<Option<Line>>,
    next: AtomicU64,
}

/// Who waits for which answer; `None` once the process has ended.
type Waiting = Arc<Mutex<Option<FxHashMap<u64, oneshot::Sender<Value>>>>>;

/// A process, and the two ways to it.
struct Line {
    child: Child,
    way: Way,
}

/// What it takes to ask a process.
#[derive(Clone)]
struct Way {
    orders: mpsc::UnboundedSender<String>,
    waiting: Waiting,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Bridge {
    /// No process yet.
    #[must_use]
    pub fn new(python: &str) -> Bridge {
        let (introductions, line) = (Mutex::default(), AsyncMutex::default());
        Bridge { python: python.to_owned(), introductions, line, next: AtomicU64::new(1) }
    }

    /// Tells the process, and every one that has to be started later, what it has to know; what it says to that.
    pub async fn introduce(&self, with: Value) -> Result<Value, BackendError> {
        self.start().await?;
        let said = self.in_time(self.ask(with.clone())).await?;
        locked(&self.introductions).push(with);
        Ok(said)
    }

    /// Starts the process unless it is there, and tells it what others were told before it.
    pub async fn start(&self) -> Result<(), BackendError> {
        let mut line = self.line.lock().await;
        if line.as_ref().is_some_and(|line| locked(&line.way.waiting).is_some()) {
            return Ok(());
        }
        let started = Line::start(&self.python).map_err(BackendError::Gone)?;
        let introductions = locked(&self.introductions).clone();
        for mut with in introductions {
            // Whoever starts a process anew waits less for servers: it may be asked again.
            with["again"] = json!(true);
            self.in_time(self.ask_over(&started.way, with)).await?;
        }
        *line = Some(started);
        Ok(())
    }

    async fn in_time(
        &self,
        asked: impl Future<Output = Result<Value, BackendError>>,
    ) -> Result<Value, BackendError> {
        let late = |_| BackendError::Gone("the bridge to Ray did not finish starting".to_owned());
        tokio::time::timeout(STARTS, asked).await.map_err(late)?
    }

    /// Asks for something and waits for the answer. Whoever stops waiting cancels it.
    pub async fn ask(&self, order: Value) -> Result<Value, BackendError> {
        let way = self.line.lock().await.as_ref().map(|line| line.way.clone());
        let way = way.ok_or_else(|| BackendError::Gone("the bridge to Ray is not running".to_owned()))?;
        self.ask_over(&way, order).await
    }

    /// Lets the process end by itself, and sees that it does.
    pub async fn end(&self) {
        let Some(Line { mut child, way }) = self.line.lock().await.take() else { return };
        // Its input ends with the last of the ways to it.
        drop(way);
        if tokio::time::timeout(ENDS, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }

    async fn ask_over(&self, way: &Way, mut order: Value) -> Result<Value, BackendError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        order["id"] = json!(id);
        let (sender, receiver) = oneshot::channel();
        match locked(&way.waiting).as_mut() {
            Some(waiting) => drop(waiting.insert(id, sender)),
            None => return Err(BackendError::Gone(way.last_words("has ended"))),
        }
        // One that has just ended is found out by the reader, who answers everybody.
        let _ = way.orders.send(order.to_string());
        let mut asking = Asking { id, way, is_over: false };
        let answer = receiver.await;
        asking.is_over = true;
        match answer {
            Ok(answer) => understood(answer),
            Err(_) => Err(BackendError::Gone(way.last_words("has ended"))),
        }
    }
}

/// A question under way. One that nobody waits for any more is taken back.
struct Asking<'w> {
    id: u64,
    way: &'w Way,
    is_over: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            locked(&self.way.waiting).as_mut().map(|waiting| waiting.remove(&self.id));
            let _ = self.way.orders.send(json!({"op": "cancel", "of": self.id}).to_string());
        }
    }
}

/// What an answer says: a value, or what went wrong and what can be done about it.
fn understood(mut answer: Value) -> Result<Value, BackendError> {
    let Some(error) = answer.get("err") else { return Ok(answer["ok"].take()) };
    let why = error["why"].as_str().unwrap_or("it gives no reason").to_owned();
    Err(match error["kind"].as_str() {
        Some("gone") => BackendError::Gone(why),
        Some("refused") => BackendError::Refused(why),
        Some("unfit") => BackendError::DoesNotFit(why),
        Some("unusable") => BackendError::Unusable(why),
        _ => BackendError::Failed(why),
    })
}

impl Way {
    fn last_words(&self, what: &str) -> String {
        let said = String::from_utf8_lossy(&locked(&self.said)).into_owned();
        format!("the bridge to Ray {what}: {}", brief(&said))
    }
}

impl Line {
    fn start(python: &str) -> Result<Line, String> {
        let mut command = Command::new(python);
        command.args(["-m", "gswarm.ray.bridge"]).kill_on_drop(true);
        // A group of its own: an interruption from the terminal is for gswarm alone, which then closes the line.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start {python}: {error}"))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = (input, output, errors) else {
            return Err(format!("cannot communicate with {python}"));
        };
        let (orders, to_write) = mpsc::unbounded_channel();
        let waiting: Waiting = Arc::new(Mutex::new(Some(FxHashMap::default())));
        let said = Arc::default();
        let overheard = tokio::spawn(listen(errors, Arc::clone(&said), KEPT));
        tokio::spawn(write(input, to_write));
        let waiting_there = Arc::clone(&waiting);
        tokio::spawn(async move {
            read(output, &waiting_there).await;
            // What it said before it ended is part of why.
            let _ = tokio::time::timeout(Duration::from_secs(1), overheard).await;
            locked(&waiting_there).take();
        });
        Ok(Line { child, way: Way { orders, waiting, said } })
    }
}

async fn write(mut input: ChildStdin, mut orders: mpsc::UnboundedReceiver<String>) {
    while let Some(mut text) = orders.recv().await {
        text.push('\n');
        // Whatever else waits goes with it.
        while let Ok(more) = orders.try_recv() {
            text.push_str(&more);
            text.push('\n');
        }
        if input.write_all(text.as_bytes()).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

async fn read(output: impl AsyncRead + Unpin, waiting: &Waiting) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(answer) = serde_json::from_str::<Value>(&line) else {
            tracing::warn!("the bridge to Ray sent an invalid message: {}", brief(&line));
            continue;
        };
        if let Some(told) = answer.get("warn").and_then(Value::as_str) {
            tracing::warn!("{told}");
        }
        let asked = answer["id"].as_u64().and_then(|id| locked(waiting).as_mut()?.remove(&id));
        // Nobody may wait for it any more.
        asked.map(|asked| asked.send(answer));
    }
}
