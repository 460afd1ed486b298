//! Long work, on a thread of its own, while the caller's looks after Python: the lock is given up, signals are answered, and
//! progress is told.

use crate::fault::Fault;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often Python is looked after.
const BEAT: Duration = Duration::from_millis(50);
/// How long work that was told to stop is waited for; after that it ends by itself.
const GRACE: Duration = Duration::from_millis(250);
/// After so long progress is told again, though nothing has changed: whoever shows how long it takes goes on.
const SILENCE: Duration = Duration::from_millis(500);
/// As much as a main thread has.
const STACK: usize = 8 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// What is being done.
    pub doing: String,
    /// So many steps of it are.
    pub done: u64,
    /// Of so many; 0 where nobody knows.
    pub total: u64,
}

/// What work shares with whoever waits for it.
#[derive(Clone, Default)]
pub struct Shared {
    /// Whether it is to stop.
    pub stop: Arc<AtomicBool>,
    said: Arc<Mutex<Said>>,
}

impl Shared {
    /// Tells how far the work is.
    pub fn say(&self, doing: &str, done: usize, total: usize) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.doing != doing {
            doing.clone_into(&mut said.doing);
        }
        (said.done, said.total) = (done as u64, total as u64);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn heard(&self) -> Said {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Does `work` on another thread. `progress`, where there is one, is called as `progress(doing, done, total)` when something
/// has changed, and every half second. An exception of a signal handler or of `progress` stops the work and is raised; where `keep` is set, work that
/// was stopped so is waited for, and what it has so far is the answer.
pub fn apart<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    keep: bool,
    work: impl FnOnce(&Shared) -> Result<T, Fault> + Send + 'static,
) -> PyResult<T> {
    let shared = Shared::default();
    let (sender, mut receiver) = channel();
    let given = shared.clone();
    std::thread::Builder::new()
        .name("gswarm".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&given)));
            // Whoever asked may be gone.
            let _ = sender.send(done);
        })
        .map_err(|error| Fault::Internal(format!("no thread could be started: {error}")))?;
    let mut last = (Said::default(), Instant::now());
    let mut interruption: Option<(PyErr, Instant)> = None;
    loop {
        let (answer, back) = py.detach(move || (receiver.recv_timeout(BEAT), receiver));
        receiver = back;
        match (answer, &interruption) {
            (Ok(Ok(Ok(value))), None) => return Ok(value),
            (Ok(Ok(Ok(value))), Some((error, _))) if keep && is_interrupt(py, error) => return Ok(value),
            (Ok(Ok(Err(fault))), None) => return Err(fault.into()),
            (Ok(Err(_)) | Err(RecvTimeoutError::Disconnected), None) => {
                return Err(Fault::Internal("a bug in gswarm; details are above".to_owned()).into());
            }
            (Err(RecvTimeoutError::Timeout), None) => {
                if let Err(error) = py.check_signals().and_then(|()| tell(&shared, progress, &mut last)) {
                    shared.stop.store(true, Ordering::Relaxed);
                    interruption = Some((error, Instant::now()));
                }
            }
            (Err(RecvTimeoutError::Timeout), Some((error, _))) if keep && is_interrupt(py, error) => {
                // Whoever loses patience for good presses Ctrl-C again.
                py.check_signals()?;
            }
            (Err(RecvTimeoutError::Timeout), Some((_, since))) if since.elapsed() < GRACE => {}
            (_, Some(_)) => break,
        }
    }
    Err(interruption.map_or_else(|| Fault::Stopped.into(), |(error, _)| error))
}

fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py)
}

fn tell(shared: &Shared, progress: Option<&Bound<'_, PyAny>>, last: &mut (Said, Instant)) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let now = shared.heard();
    if now != last.0 || last.1.elapsed() >= SILENCE {
        progress.call1((&now.doing, now.done, now.total))?;
        *last = (now, Instant::now());
    }
    Ok(())
}
