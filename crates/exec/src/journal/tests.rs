//! Journals that are killed, copied and damaged.

use super::*;
use std::collections::BTreeMap;

/// What a run that was killed has done is in the file alone, up to the last second.
#[test]
fn the_file_alone_is_whole_and_says_where_its_log_is_missing() {
    let (own, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, copy) = (own.path().join("j"), copied.path().join("j"));
    let mut journal = Journal::create(&path, Durability::Process, &[("config", b"c")]).unwrap();
    std::fs::copy(&path, &copy).unwrap();
    assert!(reader::lacks_log(&copy).unwrap() && !reader::lacks_log(&path).unwrap());
    let reopened = Journal::open(&copy, Durability::Process).unwrap();
    assert_eq!(reopened.meta("config").unwrap().as_deref(), Some(&b"c"[..]));
    drop(reopened);
    assert!(!reader::lacks_log(&copy).unwrap(), "it was closed");
    let happened = JournalEntry::Event(Event::Arrived(RequestId(0)));
    journal.append(Time(5), happened, None).unwrap();
    journal.saved = Instant::now().checked_sub(SAVED_EVERY).unwrap();
    journal.commit().unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let entries = JournalReader::open(&copy).unwrap().after(0, 9).unwrap();
    assert_eq!(entries.iter().map(|one| one.entry).collect::<Vec<_>>(), [happened]);
    drop(journal);
    assert!(!reader::lacks_log(&path).unwrap() && !store::beside(&path, "-wal").exists());
}

/// The files of a folder, and what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

/// Copies what a process that is killed now would leave.
fn killed(from: &Path, to: &Path) {
    for (path, bytes) in files(from).iter().filter(|(path, _)| !path.ends_with("j-shm")) {
        std::fs::write(to.join(path.file_name().unwrap()), bytes).unwrap();
    }
}

#[test]
fn a_journal_without_a_run_is_left_as_it_is() {
    let new = || tempfile::tempdir().unwrap();
    let (empty, opened, begun, other) = (new(), new(), new(), new());
    std::fs::write(empty.path().join("j"), "").unwrap();
    // Killed once it was open, and in the middle of its first transaction.
    let own = new();
    let journal = connect(&own.path().join("j"), Durability::Process).unwrap();
    killed(own.path(), opened.path());
    journal.db.execute_batch("PRAGMA cache_size = 1; BEGIN EXCLUSIVE").unwrap();
    journal.db.execute_batch(SCHEMA).unwrap();
    journal.db.execute("INSERT INTO meta VALUES ('config', zeroblob(100000), 0)", []).unwrap();
    killed(own.path(), begun.path());
    assert!(files(begun.path())[&begun.path().join("j-wal")].len() > 50_000);
    drop(journal);
    let foreign = Connection::open(other.path().join("j")).unwrap();
    foreign.pragma_update(None, "user_version", 7).unwrap();
    drop(foreign);
    for (folder, version) in [(&empty, None), (&opened, None), (&begun, None), (&other, Some(7))] {
        let before = files(folder.path());
        let refused = Journal::open(&folder.path().join("j"), Durability::Process).err().unwrap();
        match version {
            None => assert!(matches!(refused, JournalError::Empty), "{refused}"),
            Some(version) => {
                assert!(refused.to_string().contains(&format!("has version {version}")), "{refused}")
            }
        }
        assert!(files(folder.path()) == before, "{before:?}");
    }
}

/// A run has its file a moment before it has anything in it.
#[test]
fn a_journal_that_is_being_begun_is_waited_for() {
    let own = tempfile::tempdir().unwrap();
    let path = own.path().join("j");
    let journal = connect(&path, Durability::Process).unwrap();
    let mut waited = 0;
    let read = JournalReader::open_begun(&path, || {
        waited += 1;
        if waited == 3 {
            journal.db.execute_batch(SCHEMA).unwrap();
            journal.db.pragma_update(None, "user_version", VERSION).unwrap();
        }
    });
    assert!(read.unwrap().is_followed());
    assert_eq!(waited, 3);
    // One that is locked and never begun is not waited for without end, and one that nobody writes not at all.
    let never = own.path().join("never");
    let locked = connect(&never, Durability::Process).unwrap();
    let mut waited = 0;
    let read = JournalReader::open_begun(&never, || waited += 1);
    assert!(matches!(read, Err(JournalError::Empty)) && waited > 3);
    drop(locked);
    let read = JournalReader::open_begun(&never, || panic!("nobody writes it"));
    assert!(matches!(read, Err(JournalError::Empty)));
}

/// Killed while it was begun, when all of it is in the log beside the file.
#[test]
fn a_journal_that_was_just_begun_is_opened() {
    let (own, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = own.path().join("j");
    let journal = Journal::begin(&path, Durability::Process, &[("config", b"models")]).unwrap();
    assert!(matches!(Journal::open(&path, Durability::Process), Err(JournalError::InUse)));
    killed(own.path(), left.path());
    drop(journal);
    let path = left.path().join("j");
    assert!(!reader::says_its_version(&path).unwrap());
    let journal = Journal::open(&path, Durability::Process).unwrap();
    assert_eq!(journal.meta("config").unwrap().unwrap(), b"models");
    drop(journal);
    assert!(reader::says_its_version(&path).unwrap());
}

/// A process that was killed may hold its lock for a moment longer.
#[test]
fn who_is_about_to_let_go_of_a_journal_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("j");
    let journal = Journal::begin(&path, Durability::Process, &[("config", b"models")]).unwrap();
    assert!(!reader::says_its_version(&path).unwrap(), "all of it is beside the file");
    let lock = store::private_file(&lock_of(&path)).unwrap();
    let (journal, asked) = (std::cell::Cell::new(Some(journal)), std::cell::Cell::new(0));
    let free = || {
        asked.set(asked.get() + 1);
        if asked.get() == 4 {
            journal.take();
        }
        lock.try_lock().is_ok()
    };
    assert!(until(free).is_ok() && asked.get() == 4, "asked {} times", asked.get());
    lock.unlock().unwrap();
    assert!(matches!(until(|| false), Err(JournalError::InUse)), "not for ever");
    assert!(Journal::open(&path, Durability::Process).is_ok());
}

#[test]
fn everything_that_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(&folder.path().join("j"), Durability::Process, &[]).unwrap();
    let (task, gpu, gpus) = (TaskId(7), GpuId(3), Gpus::new(4, 2));
    let mut entries: Vec<JournalEntry> = [
        Event::Finished(task),
        Event::Failed(task),
        Event::Refused(task),
        Event::LoadFailed(gpu),
        Event::Deferred(task),
        Event::LoadDeferred(gpu),
        Event::Abandoned(task),
        Event::Held(task),
        Event::Lost(gpu),
        Event::Loaded(gpu),
        Event::Returned(gpu),
        Event::Released(task),
        Event::Dismissed(ModelId(5)),
        Event::Arrived(RequestId(2)),
        Event::Withdrawn(RequestId(2)),
        Event::Reopened(RequestId(2)),
    ]
    .map(JournalEntry::Event)
    .into();
    let ahead = |ahead_of| Decision::Load { model: ModelId(1), gpus, ahead_of };
    let decisions = [Decision::Start { task, gpus }, ahead(Some(task)), ahead(None)];
    entries.extend(decisions.map(JournalEntry::Decision));
    let noted = |at: usize| (at % 2 == 1).then(|| format!("reason {at}"));
    for (at, &entry) in entries.iter().enumerate() {
        journal.append(Time(at as u64), entry, noted(at).as_deref()).unwrap();
    }
    journal.output(task, &Map::new()).unwrap();
    journal.commit().unwrap();
    let expected = entries.iter().enumerate();
    let expected = expected.map(|(at, &entry)| Written {
        id: at as i64 + 1,
        at: Time(at as u64),
        entry,
        note: noted(at),
    });
    assert_eq!(journal.entries().unwrap(), expected.collect::<Vec<_>>());
}
