//! A process that ends together with its parent and its own children.
//!
//! Without unsafe code this needs a small shell in between: it starts the program in a process group of its own and
//! reads from a pipe that this process holds. When the pipe closes, because the program is to stop or this process
//! died, the shell terminates the group, and kills it after a grace time. A process may leave its group (`setsid`): a
//! mark in its environment identifies it.

use super::http::brief;
use super::managed::locked;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// How much of what a program says last is searched for the reason of its end, in bytes.
const SEARCHED: u64 = 1 << 16;

/// How long processes that were ended by force may take to be gone.
const LAST: Duration = Duration::from_secs(2);

/// The variable by which the processes of a guard are found.
const MARK: &str = "GSWARM_STARTED";

/// Variables that programs inherit. Whatever else is in our environment may be a secret of ours.
const INHERITED: [&str; 30] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "ROCM_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "PYTHONHOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OMP_NUM_THREADS",
];

/// `$1` is the grace time in tenths of a second, `$2` the mark, the rest the program. The traps keep the shells alive through
/// the signal that they send to their own group; programs that they start do not inherit them.
const GUARD: &str = r#"
tenths=$1
mark=$2
shift 2
exec 3<&0 </dev/null
trap : TERM INT HUP
env "$mark" "$@" 3<&- &
child=$!
marked() {
    for file in $(grep -ls -e "$mark" /proc/[0-9]*/environ 2>/dev/null); do
        id=${file#/proc/}
        kill "$1" "${id%/environ}" 2>/dev/null && found=yes
    done
}
(
    trap : TERM INT HUP
    read -r _ <&3
    kill -TERM 0
    marked -TERM
    while [ "$tenths" -gt 0 ]; do
        found=
        kill -0 "$child" 2>/dev/null && found=yes
        [ -n "$found" ] || marked -0
        [ -n "$found" ] || break
        sleep 0.1
        tenths=$((tenths - 1))
    done
    marked -KILL
    marked -KILL
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
marked -TERM
rest=10
while [ "$rest" -gt 0 ]; do
    found=
    marked -0
    [ -n "$found" ] || break
    sleep 0.1
    rest=$((rest - 1))
done
marked -KILL
marked -KILL
exit "$code"
"#;

/// A program under guard.
pub struct Guarded {
    child: Child,
    /// Its process group has the number of its first process.
    group: Option<Pid>,
    /// What its processes have in their environment.
    mark: String,
    /// All that it says.
    output: PathBuf,
    grace: Duration,
}

/// How a program ended by itself.
pub struct ProcessEnd {
    /// Its exit code, where no signal ended it.
    pub code: Option<i32>,
    /// How it ended, what it said last, and where all of it is.
    pub why: String,
}

impl Guarded {
    /// Starts a program: its name and arguments, with these variables beside the [usual ones](INHERITED). All that it says goes
    /// to the file `output`. When it is to stop it has `grace` before it is made to.
    pub fn start(
        words: &[String],
        env: &BTreeMap<String, String>,
        output: &Path,
        grace: Duration,
    ) -> Result<Guarded, String> {
        let Some(program) = words.first() else { return Err("there is no program to start".to_owned()) };
        let file =
            crate::store::private_file(output).and_then(|file| Ok((file.try_clone()?, file))).map_err(
                |error| format!("cannot write the output of {program} to {}: {error}", output.display()),
            )?;
        let (tenths, mark) = ((grace.as_millis() / 100).to_string(), mark());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "gswarm-guard", &tenths, &mark]).args(words).env_clear();
        let inherited = INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(inherited).envs(env);
        command.stdin(Stdio::piped()).stdout(file.0).stderr(file.1).process_group(0);
        let child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        Ok(Guarded { child, group, mark, output: output.to_owned(), grace })
    }

    /// How it ended, if it has ended.
    pub fn ended(&mut self) -> Option<ProcessEnd> {
        let status = self.child.try_wait().ok()??;
        self.end_rest();
        let why = format!("the process ended with {status}: {}", self.last_words());
        Some(ProcessEnd { code: status.code(), why })
    }

    /// What it said last, and where the rest is.
    pub fn last_words(&self) -> String {
        format!("{} (all of its output is in {})", self.says(), self.output.display())
    }

    /// What it has said last so far.
    pub fn says(&self) -> String {
        reason_in(&tail(&self.output))
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

    /// Ends whatever is left: what it started and did not end, in its group or not.
    fn end_rest(&self) {
        if let Some(group) = self.group {
            // Nobody left to end is what is hoped for.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // One that starts others while it is ended is met at the second time.
        for _ in 0..2 {
            for process in marked(&self.mark) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
    }
}

/// A mark that no other process has.
fn mark() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{MARK}={}-{now:x}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// The processes that have a mark in their environment.
fn marked(mark: &str) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let has_mark = |id: &i32| {
        // Those of other users cannot be read, and are not ours.
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(has_mark).filter_map(Pid::from_raw).collect()
}

/// The end of what is in a file, as text.
fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (File::open(path)?, Vec::new());
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SEARCHED)))?;
        file.take(SEARCHED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The last line of a text, in short; and before it the reason, where another line gives it.
fn reason_in(text: &str) -> String {
    let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let Some(last) = lines.next() else { return "it said nothing".to_owned() };
    let names_error = |line: &&str| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "error:" || word.ends_with("Error:") || word.ends_with("Exception:"))
    };
    let of_memory = lines.clone().find(|line| super::speaks_of_memory(line));
    let reason = of_memory.filter(|_| !super::speaks_of_memory(last)).or_else(|| lines.find(names_error));
    match reason.filter(|reason| *reason != last) {
        Some(reason) => format!("{}; then: {}", brief(reason), brief(last)),
        None => brief(last),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_found_above_the_last_line() {
        for (text, reason) in [
            ("", "it said nothing"),
            ("loading\n\nready\n", "ready"),
            (
                "llama-server: error: unknown argument: --prot\nusage: ...\n",
                "llama-server: error: unknown argument: --prot; then: usage: ...",
            ),
            (
                "torch.OutOfMemoryError: CUDA out of memory. Tried\nTraceback\nRuntimeError: Engine failed\n",
                "torch.OutOfMemoryError: CUDA out of memory. Tried; then: RuntimeError: Engine failed",
            ),
            (
                "ValueError: no such model\nRuntimeError: Engine failed",
                "ValueError: no such model; then: RuntimeError: Engine failed",
            ),
        ] {
            assert_eq!(reason_in(text), reason);
        }
    }
}
