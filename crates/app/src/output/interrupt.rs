//! Ctrl-C and TERM: no unfinished files are left.

use gswarm_run::files::remove_unfinished;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// The message when the command is interrupted.
static LAST_WORDS: Mutex<Option<String>> = Mutex::new(None);

/// Sets the message of an interruption.
pub fn say_when_interrupted(words: Option<String>) {
    *LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner) = words;
}

/// Whether the first interruption is to end the work early, not at once.
static ENDS_EARLY: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, the first Ctrl-C only sets the flag; the second ends the command.
pub fn interrupted_once() -> impl Fn() -> bool + Sync {
    ENDS_EARLY.store(true, Ordering::SeqCst);
    is_interrupted
}

/// The same as a flag that the work looks at.
pub fn stop_flag() -> Arc<AtomicBool> {
    ENDS_EARLY.store(true, Ordering::SeqCst);
    Arc::clone(&INTERRUPTED)
}

/// Whether somebody pressed Ctrl-C once.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// From now on, Ctrl-C and a request to terminate leave no unfinished file.
pub fn clean_up_when_interrupted() {
    let installed = ctrlc::set_handler(|| {
        if ENDS_EARLY.load(Ordering::SeqCst) && !INTERRUPTED.swap(true, Ordering::SeqCst) {
            return;
        }
        remove_unfinished();
        let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        super::note(&format!("\n{}", words.as_deref().unwrap_or("interrupted; no unfinished file is left")));
        std::process::exit(130);
    });
    // Without a handler an interruption leaves hidden files, which the next run removes.
    drop(installed);
}
