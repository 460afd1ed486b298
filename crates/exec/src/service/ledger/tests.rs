//! The ledger on a disk that cannot be trusted.

use super::*;
use crate::wire::RequestRecord;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, symlink};

fn open(folder: &Path) -> (Ledger, Vec<Left>) {
    Ledger::open(folder, Durability::Process).unwrap()
}

/// Writes a request down, and says what came of it.
fn accept(ledger: &mut Ledger, id: &str) -> Result<bool, StorageTrouble> {
    let (sender, receiver) = mpsc::channel();
    let body = json!({"request_id": id, "input_data": {"wish": "x".repeat(200)}}).to_string();
    let (workflow, reply) = ("w".to_owned(), Box::new(move |written| sender.send(written).unwrap()));
    ledger.accept(Acceptance { id: id.into(), workflow, body, caller: "c".into(), at: 7, reply });
    ledger.commit();
    receiver.recv().unwrap()
}

fn finish(ledger: &mut Ledger, id: &str) {
    let id: Arc<str> = id.into();
    ledger.failure(&id, "n", 8, "it stumbled");
    let Value::Object(output) = json!({"text": format!("the answer to {id}"), "more": "y".repeat(300)})
    else {
        unreachable!()
    };
    ledger.output(&id, "n", &output).unwrap();
    ledger.end(&id, End::Completed, 9, None);
    settle(ledger);
}

/// Returns when all is written.
fn settle(ledger: &mut Ledger) {
    let (sender, receiver) = mpsc::channel();
    ledger.then(move || sender.send(()).unwrap());
    ledger.commit();
    receiver.recv().unwrap();
}

/// A folder as a process that is killed now would leave it.
fn killed(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.path().join(path.file_name().unwrap())).unwrap();
    }
    to
}

struct Kept {
    left: Vec<Left>,
    records: Vec<RequestRecord>,
}

/// Everything that a ledger serves.
fn all(ledger: &Ledger, left: Vec<Left>, names: &[String]) -> Result<Kept, JournalError> {
    let records = names.iter().map(|name| ledger.records().request(name));
    let records: Vec<Option<RequestRecord>> = records.collect::<Result<_, _>>()?;
    Ok(Kept { left, records: records.into_iter().flatten().collect() })
}

/// Whatever bits flip in whichever file: the ledger is refused, or it serves what was written, and all of it.
#[test]
fn flipped_bits_are_found_or_change_nothing() {
    let own = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..60).map(|number| format!("request {number}")).collect();
    let (mut ledger, _) = open(own.path());
    for (at, name) in names.iter().enumerate() {
        assert_eq!(accept(&mut ledger, name), Ok(true));
        if at % 3 != 0 {
            finish(&mut ledger, name);
        }
    }
    // Some of it is in the log alone, and all of it where the process ends as it should.
    let logged = killed(own.path());
    drop(ledger);
    let closed = killed(own.path());
    let (whole, left) = open(closed.path());
    let intended = all(&whole, left, &names).unwrap();
    drop(whole);
    assert_eq!((intended.left.len(), intended.records.len()), (20, 60));
    let mut state = 20_261_118_u64;
    let mut roll = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut refused, rounds) = (0, 160);
    for round in 0..rounds {
        let (from, file) = [(&closed, FILE), (&logged, "requests.db-wal")][round % 2];
        let damaged = killed(from.path());
        let path = damaged.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        for _ in 0..[1, 1, 3, 50][round / 2 % 4] {
            let place = roll(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << roll(8);
        }
        std::fs::write(&path, bytes).unwrap();
        let served = Ledger::open(damaged.path(), Durability::Process)
            .and_then(|(ledger, left)| all(&ledger, left, &names));
        match served {
            Ok(kept) => {
                assert_eq!(kept.left, intended.left, "round {round}");
                assert_eq!(kept.records, intended.records, "round {round}");
            }
            Err(JournalError::Damaged(_) | JournalError::Version(_)) => refused += 1,
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(refused > rounds / 4, "{refused} of {rounds} were refused");
}

#[test]
fn a_ledger_that_is_deleted_or_moved_is_noticed_before_anything_is_promised() {
    for what in ["file", "log", "folder", "lock"] {
        let own = tempfile::tempdir().unwrap();
        let folder = own.path().join("state");
        let (mut ledger, _) = open(&folder);
        assert_eq!(accept(&mut ledger, "first"), Ok(true));
        match what {
            "file" => std::fs::remove_file(folder.join(FILE)).unwrap(),
            "log" => std::fs::remove_file(folder.join("requests.db-wal")).unwrap(),
            "lock" => std::fs::remove_file(folder.join(LOCK)).unwrap(),
            _ => std::fs::rename(&folder, own.path().join("elsewhere")).unwrap(),
        }
        // All of it is written anew: what is promised from here on is where it will be looked for.
        assert_eq!(accept(&mut ledger, "second"), Ok(true), "{what}");
        finish(&mut ledger, "first");
        assert!(matches!(Ledger::open(&folder, Durability::Process), Err(JournalError::InUse)), "{what}");
        let left = killed(&folder);
        let (kept, open) = open_at(left.path());
        assert_eq!(open.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["second"], "{what}");
        assert_eq!(kept.records().request("first").unwrap().unwrap().ended_at, Some(9e-6), "{what}");
    }
}

fn open_at(folder: &Path) -> (Ledger, Vec<Left>) {
    open(folder)
}

/// A file that somebody else put there is not replaced, and nothing is promised until it has gone.
#[test]
fn another_file_in_its_place_is_left_alone() {
    let own = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(own.path());
    assert_eq!(accept(&mut ledger, "first"), Ok(true));
    std::fs::rename(own.path().join(FILE), own.path().join("aside")).unwrap();
    std::fs::write(own.path().join(FILE), "something else").unwrap();
    let refused = accept(&mut ledger, "second").unwrap_err();
    assert_eq!(refused.fault, StorageFault::Gone);
    assert!(ledger.trouble().is_some());
    assert!(matches!(ledger.records().request("first"), Err(JournalError::Gone(_))));
    assert_eq!(std::fs::read(own.path().join(FILE)).unwrap(), b"something else");
    std::fs::rename(own.path().join("aside"), own.path().join(FILE)).unwrap();
    gswarm_testing::until("the ledger is back", || ledger.trouble().is_none());
    assert_eq!(accept(&mut ledger, "second"), Ok(true));
    drop(ledger);
    assert_eq!(open(own.path()).1.len(), 2);
}

#[test]
fn files_are_for_this_user_alone_and_links_are_not_followed() {
    let own = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(own.path());
    assert_eq!(accept(&mut ledger, "first"), Ok(true));
    for entry in std::fs::read_dir(own.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600, "{}", path.display());
    }
    drop(ledger);
    for name in [FILE, LOCK] {
        let other = tempfile::tempdir().unwrap();
        let target = other.path().join("somebody's");
        std::fs::write(&target, "kept").unwrap();
        symlink(&target, other.path().join(name)).unwrap();
        assert!(Ledger::open(other.path(), Durability::Process).is_err(), "{name}");
        assert_eq!(std::fs::read(&target).unwrap(), b"kept", "{name}");
    }
}

/// The wall's clock says that a result is a month old: it may have jumped, and the result is kept.
#[test]
fn what_is_kept_does_not_go_by_the_walls_clock() {
    let own = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(own.path());
    let now = super::super::open_requests::unix_micros();
    assert_eq!(accept(&mut ledger, "old"), Ok(true));
    ledger.end(&"old".into(), End::Completed, now - 30 * 86_400_000_000, None);
    ledger.prune(Some(Duration::from_secs(86_400)));
    settle(&mut ledger);
    assert!(ledger.records().request("old").unwrap().is_some());
    // After a day of service it goes.
    ledger.lived += 86_400_000_000;
    ledger.prune(Some(Duration::from_secs(86_400)));
    settle(&mut ledger);
    assert!(ledger.records().request("old").unwrap().is_none());
    drop(ledger);
    assert!(open(own.path()).0.lived >= 86_400_000_000, "its age is kept");
}

#[test]
fn a_ledger_without_checksums_is_taken_over() {
    let own = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(own.path().join(FILE)).unwrap();
    db.execute_batch(
        "CREATE TABLE requests (id TEXT PRIMARY KEY, workflow TEXT NOT NULL, body TEXT NOT NULL, accepted INTEGER NOT NULL,
             ended INTEGER, status TEXT NOT NULL, why TEXT) WITHOUT ROWID;
         CREATE INDEX open_requests ON requests (accepted) WHERE ended IS NULL;
         CREATE INDEX ended_requests ON requests (ended) WHERE ended IS NOT NULL;
         CREATE TABLE outputs (request TEXT NOT NULL, node TEXT NOT NULL, value TEXT NOT NULL,
             PRIMARY KEY (request, node)) WITHOUT ROWID;
         CREATE TABLE failures (request TEXT NOT NULL, node TEXT NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL);
         CREATE INDEX failures_of ON failures (request);
         INSERT INTO requests VALUES ('a', 'w', '{}', 1, NULL, 'open', NULL), ('b', 'w', '{}', 2, 5, 'completed', NULL);
         INSERT INTO outputs VALUES ('a', 'n', '{\"text\":1}');
         INSERT INTO failures VALUES ('b', 'n', 3, 'first'), ('b', 'n', 4, 'second');
         PRAGMA user_version = 1",
    )
    .unwrap();
    drop(db);
    let (ledger, left) = open(own.path());
    assert_eq!((left.len(), left[0].id.as_str(), left[0].outputs.len()), (1, "a", 1));
    let ended = ledger.records().request("b").unwrap().unwrap();
    let why: Vec<String> = ended.failures.unwrap().into_iter().map(|one| one.why).collect();
    assert_eq!(why, ["first", "second"]);
}
