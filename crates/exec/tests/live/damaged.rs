//! A journal that SQLite reads and that says what never happened: it is said to be damaged, and nothing panics.

use crate::support::*;
use gswarm_core::instance::Instance;
use gswarm_exec::journal::{JournalError, JournalReader, reseal};
use gswarm_exec::watched::Watched;
use rusqlite::Connection;
use std::path::PathBuf;

const KIND: PolicyKind = PolicyKind::Adaptive;

struct Runs {
    folder: tempfile::TempDir,
    scenario: Scenario,
    instance: Instance,
}

impl Runs {
    fn new() -> Runs {
        let scenario = scenario(12, true);
        let instance = instance(&scenario, 4, Mode::Offline, KIND);
        Runs { folder: tempfile::tempdir().unwrap(), scenario, instance }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs until it is done, or for so many steps.
    async fn run(&self, journal: Journal, resumes: bool, steps: usize) -> Result<FinishedRun, LiveError> {
        let problem = LiveProblem { scenario: &self.scenario, instance: &self.instance };
        let clock = Clock::virtual_clock();
        let fleet = emulated(&self.instance, &clock);
        let mut live = Live::new(problem, fleet, clock, journal, Patience::default());
        let mut policy = KIND.build(&self.instance, &BuildContext::default());
        if resumes {
            live.restore(policy.as_mut())?;
        }
        let mut left = steps;
        let mut watch = |_: &gswarm_core::engine::View<'_>| {
            left -= 1;
            left > 0
        };
        live.run(policy.as_mut(), &mut watch).await
    }

    /// The journal of a run, with what `sql` changes, read by both who read it: whether it is said to be damaged.
    async fn is_damaged(&self, whole: &str, sql: &str) -> bool {
        let path = self.path("changed");
        std::fs::copy(self.path(whole), &path).unwrap();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        // With checksums that fit: what is looked at here is whether it could have happened.
        reseal(&path).unwrap();
        if let Err(error) = self.watch(&path) {
            assert!(matches!(error, JournalError::Damaged(_)), "{sql}: {error}");
        }
        let journal = Journal::open(&path, Durability::Process).unwrap();
        match self.run(journal, true, usize::MAX).await {
            Ok(finished) => {
                assert_eq!(check::check_log(&self.instance, &finished.log, None), [], "{sql}");
                false
            }
            Err(LiveError::Journal(JournalError::Damaged(_))) => true,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    fn watch(&self, path: &Path) -> Result<(), JournalError> {
        let mut watched = Watched::new(self.instance.clone(), Patience::default().max_attempts);
        for one in JournalReader::open(path)?.after(0, u32::MAX)? {
            watched.take(one.at, one.entry, one.note.as_deref())?;
        }
        Ok(())
    }

    /// A journal of a run that came to its end, and one of a run that was cut short and taken up and cut short again.
    async fn make(&self) {
        let create = |name| Journal::create(&self.path(name), Durability::Process, &[]).unwrap();
        self.run(create("finished"), false, usize::MAX).await.unwrap();
        for resumes in [false, true] {
            let open = || Journal::open(&self.path("cut"), Durability::Process).unwrap();
            let journal = if resumes { open() } else { create("cut") };
            let ended = self.run(journal, resumes, 9).await;
            assert!(matches!(ended, Err(LiveError::Interrupted { .. })), "{ended:?}");
        }
        for name in ["finished", "cut"] {
            let db = Connection::open(self.path(name)).unwrap();
            db.pragma_update(None, "journal_mode", "DELETE").unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_happened_is_damage() {
    let runs = Runs::new();
    runs.make().await;
    for whole in ["finished", "cut"] {
        assert!(!runs.is_damaged(whole, "").await, "{whole}: as it was written");
        runs.watch(&runs.path(whole)).unwrap();
        for sql in [
            "UPDATE entries SET a = 9999 WHERE id = 20",
            "UPDATE entries SET a = -1 WHERE id = 20",
            "UPDATE entries SET a = a + 4294967296 WHERE id = 20",
            "UPDATE entries SET a = 'x' WHERE id = 20",
            "DELETE FROM entries WHERE id < 15",
            "DELETE FROM entries WHERE id = 15",
            "UPDATE entries SET kind = 99 WHERE id = 20",
            "UPDATE entries SET b = 77 WHERE kind = 8",
            "UPDATE entries SET c = 4294967295 WHERE kind = 8",
            "UPDATE entries SET at = at - 1000000000 WHERE id > 15",
            "UPDATE entries SET at = 9223372036854775807 WHERE id = (SELECT max(id) FROM entries)",
            "INSERT INTO entries (at, kind, a, b, c, d, sum) SELECT at, kind, a, b, c, d, 0 FROM entries WHERE kind = 0",
            "INSERT INTO entries VALUES (-5, 0, 3, 0, 0, 0, 0, NULL, 0)",
            "INSERT INTO entries (at, kind, a, b, c, d, sum) SELECT max(at), 6, 0, 0, 0, 0, 0 FROM entries",
            "DELETE FROM outputs WHERE task = (SELECT min(task) FROM outputs)",
            "UPDATE outputs SET value = '[' WHERE task = (SELECT min(task) FROM outputs)",
            "INSERT INTO outputs VALUES (9999, '{}', 0)",
        ] {
            assert!(runs.is_damaged(whole, sql).await, "{whole}: {sql}");
        }
    }
}

/// Whatever a row says, it is damage or could have been so: then the run goes on to a log that passes the check.
#[tokio::test(start_paused = true)]
async fn any_row_may_say_anything() {
    let runs = Runs::new();
    runs.make().await;
    let mut state = 20_261_116_u64;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut damaged = 0;
    for round in 0..300 {
        let whole = if round % 2 == 0 { "finished" } else { "cut" };
        let column = ["at", "kind", "a", "b", "c", "d"][roll(6) as usize];
        let value = match roll(4) {
            0 => format!("{column} + 1"),
            1 => format!("{column} - 1"),
            2 => roll(13).to_string(),
            _ => (roll(1 << 31) << 33).cast_signed().to_string(),
        };
        let is = if roll(3) == 0 { ">=" } else { "=" };
        let place = format!("1 + {} % (SELECT max(id) FROM entries)", roll(1000));
        let sql = format!("UPDATE entries SET {column} = {value} WHERE id {is} {place}");
        damaged += usize::from(runs.is_damaged(whole, &sql).await);
    }
    assert!(damaged > 150, "{damaged} of 300 were found");
}

/// Whatever bits flip in a journal: it is refused with a code, or all of it is as it was written.
#[tokio::test(start_paused = true)]
async fn flipped_bits_are_found_or_change_nothing() {
    let runs = Runs::new();
    runs.make().await;
    let all = |path: &Path| {
        let journal = Journal::open(path, Durability::Process)?;
        let read = JournalReader::open(path).err();
        assert!(matches!(read, Some(JournalError::InUse) | None), "{read:?}");
        Ok::<_, JournalError>((journal.entries()?, journal.outputs()?))
    };
    let mut state = 20_261_118_u64;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut refused, rounds) = (0, 200);
    for round in 0..rounds {
        let whole = ["finished", "cut"][round % 2];
        let path = runs.path(&format!("flipped{round}"));
        let mut bytes = std::fs::read(runs.path(whole)).unwrap();
        for _ in 0..[1, 1, 3, 50][round / 2 % 4] {
            let place = roll(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << roll(8);
        }
        std::fs::write(&path, bytes).unwrap();
        match all(&path) {
            Ok(read) => assert!(read == all(&runs.path(whole)).unwrap(), "round {round}"),
            Err(JournalError::Damaged(_) | JournalError::Version(_) | JournalError::Empty) => refused += 1,
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(refused > rounds / 4, "{refused} of {rounds} were refused");
}
