//! A process that ends with whoever started it.
//!
//! There is no way to ask the system for that without unsafe code, so a small shell stands between: it starts the program
//! in a process group of its own and reads from a pipe that this process holds. When the pipe closes, because the
//! program is to be stopped or because this process has died in whatever way, the shell asks the group to end, and after a
//! while makes it.

use super::http::brief;
use super::managed::locked;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How much of what a program says last is kept for messages, in bytes.
const KEPT: usize = 240;

/// How long processes that were ended by force may take to be gone.
const LAST: Duration = Duration::from_secs(2);

/// `$1` is the grace time in tenths of a second, the rest the program. The traps keep the shells alive through the signal
/// that they send to their own group; programs that they start do not inherit them.
const GUARD: &str = r#"
tenths=$1
shift
exec 3<&0 </dev/null
trap : TERM INT HUP
"$@" 3<&- &
child=$!
(
    trap : TERM INT HUP
    read -r _ <&3
    kill -TERM 0
    while [ "$tenths" -gt 0 ] && kill -0 "$child" 2>/dev/null; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    kill -KILL 0
) >/dev/null 2>&1 &
watch=$!
exec 3<&-
while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
done
kill -KILL "$watch" 2>/dev/null
exit "$code"
"#;

/// A program under guard.
pub struct Guarded {
    child: Child,
    /// Its process group has the number of its first process.
    group: Option<Pid>,
    said: Arc<Mutex<Vec<u8>>>,
    grace: Duration,
}

impl Guarded {
    /// Starts a program.
    pub fn start(
        words: &[String],
        env: &BTreeMap<String, String>,
        grace: Duration,
    ) -> Result<Guarded, String> {
        let Some(program) = words.first() else { return Err("there is no program to start".to_owned()) };
        let tenths = (grace.as_millis() / 100).to_string();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "gswarm-guard", &tenths]).args(words).envs(env);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        let said = Arc::default();
        if let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) {
            tokio::spawn(listen(out, Arc::clone(&said), KEPT));
            tokio::spawn(listen(err, Arc::clone(&said), KEPT));
        }
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        Ok(Guarded { child, group, said, grace })
    }

    /// How it ended and what it said last, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        self.end_rest();
        Some(format!("the process ended with {status}: {}", self.last_words()))
    }

    /// What it said last.
    pub fn last_words(&self) -> String {
        brief(&String::from_utf8_lossy(&locked(&self.said)))
    }

    /// Asks it to end, and sees that it does.
    pub async fn stop(mut self) -> Result<(), String> {
        drop(self.child.stdin.take());
        let limit = self.grace + Duration::from_secs(5);
        let ended = tokio::time::timeout(limit, self.child.wait()).await;
        self.end_rest();
        // Its memory is free when all of the group are gone, which takes a moment.
        let since = Instant::now();
        while self.group.is_some_and(|group| test_kill_process_group(group).is_ok()) && since.elapsed() < LAST
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        match ended {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("cannot tell whether the process has exited: {error}")),
            Err(_) => Err(format!(
                "the process is still running {:.1} s after it was told to stop",
                limit.as_secs_f64()
            )),
        }
    }

    /// Ends whatever is left of its group: what it started and did not end.
    fn end_rest(&self) {
        if let Some(group) = self.group {
            // Nobody left to end is what is hoped for.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Keeps the end of what a program says, so many bytes of it.
pub(crate) async fn listen(mut stream: impl AsyncRead + Unpin, said: Arc<Mutex<Vec<u8>>>, kept: usize) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        let mut said = locked(&said);
        said.extend_from_slice(&chunk[..count]);
        let surplus = said.len().saturating_sub(kept);
        said.drain(..surplus);
    }
}
