//! Atomic output files: complete or absent. Each is written under a temporary name in its folder, and all are renamed
//! once they are complete. Unfinished files are removed when the command is interrupted.

use crate::failure::Failure;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What has to go when the command is interrupted: folders, then the files in them.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what is unfinished: files first, then the folders that were made for them. For a process that ends now. Files that are
/// just taking their names all get them first.
pub fn remove_unfinished() {
    for path in unfinished().iter().rev() {
        // Only empty folders go.
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
    }
}

/// A file that lines are added to; made where there is none. A link in its place is not followed.
pub fn to_be_added_to(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new().create(true).append(true).custom_flags(flags).open(path)
}

/// Files to be written into one folder. If dropped before [`Batch::commit`], it leaves no trace.
pub struct Batch {
    folder: PathBuf,
    /// Folders that were made for the files, outermost first.
    made: Vec<PathBuf>,
    waiting: Vec<(PathBuf, PathBuf)>,
    superseded: Vec<PathBuf>,
    flag: &'static str,
    /// Whether files that are there when the new ones come are replaced.
    replaces: bool,
}

impl Batch {
    /// Files for `folder`, which is made where it is missing.
    pub fn new(folder: &Path) -> Result<Batch, Failure> {
        Batch::new_for(folder, "--out")
    }

    /// The same where another flag names the folder.
    pub fn new_for(folder: &Path, flag: &'static str) -> Result<Batch, Failure> {
        let made = missing(folder);
        let batch = Batch::of(folder, made, flag);
        if !batch.folder.as_os_str().is_empty() {
            fs::create_dir_all(folder)
                .map_err(|error| batch.unwritable("create the folder", folder, &error))?;
        }
        batch.remove_abandoned();
        Ok(batch)
    }

    /// Files for a folder of their own; `None` where it is there already, also if someone makes it at this moment.
    pub fn reserve(folder: &Path) -> Result<Option<Batch>, Failure> {
        Batch::reserve_for(folder, "--out")
    }

    /// The same where another flag names the folder.
    pub fn reserve_for(folder: &Path, flag: &'static str) -> Result<Option<Batch>, Failure> {
        let made = missing(folder);
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let result = parent.map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::create_dir(folder));
        match result {
            Ok(()) => Ok(Some(Batch::of(folder, made, flag))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.exists() => Ok(None),
            Err(error) => Err(Batch::of(folder, made, flag).unwritable("create the folder", folder, &error)),
        }
    }

    /// One file in a folder that has to be there, as `flag` names it; and the file's name.
    pub fn beside(path: &Path, flag: &'static str) -> Result<(Batch, String), Failure> {
        let refuse = |reason: &str| {
            Err(Failure::input(format!("{flag} {}: {reason}", path.display()))
                .hint("name a file in an existing folder"))
        };
        let name = match path.file_name() {
            Some(name) if !path.is_dir() => name.to_string_lossy().into_owned(),
            _ => return refuse("this is a folder"),
        };
        if path.exists() && !path.is_file() {
            return refuse("this is not a regular file");
        }
        let folder = path.parent().unwrap_or("".as_ref());
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            return refuse(&format!("there is no folder {}", folder.display()));
        }
        let batch = Batch::of(folder, Vec::new(), flag);
        batch.remove_abandoned();
        Ok((batch, name))
    }

    fn of(folder: &Path, made: Vec<PathBuf>, flag: &'static str) -> Batch {
        // The folder that one is in goes without a name: `./a.log` would be `a.log` with two characters too many.
        let folder = if folder == Path::new(".") { Path::new("") } else { folder };
        unfinished().extend(made.iter().cloned());
        Batch {
            folder: folder.to_path_buf(),
            made,
            waiting: Vec::new(),
            superseded: Vec::new(),
            flag,
            replaces: true,
        }
    }

    /// The same with files that are there kept, unless `force`d: also those that somebody else makes meanwhile.
    #[must_use]
    pub fn replacing(self, force: bool) -> Batch {
        let mut batch = self;
        batch.replaces = force;
        batch
    }

    /// Writes one file under its temporary name.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.add_with(name, 0o666, write)
    }

    /// The same, for this user alone: what was asked of models, and what they wrote.
    pub fn add_private(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.add_with(name, 0o600, write)
    }

    fn add_with(
        &mut self,
        name: &str,
        mode: u32,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let target = self.folder.join(name);
        let partial = self.folder.join(format!(".{name}.{}.partial", std::process::id()));
        unfinished().push(partial.clone());
        self.waiting.push((partial.clone(), target.clone()));
        // A link in its place leads elsewhere, and what a process of the same number left is of no use.
        let _ = fs::remove_file(&partial);
        let mut anew = OpenOptions::new();
        anew.write(true).create_new(true).mode(mode);
        let written = anew.open(&partial).and_then(|file| {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            write(&mut out)?;
            out.flush()
        });
        written.map_err(|error| self.unwritable("write", &target, &error))
    }

    /// A file of this name, where there is one, speaks of an earlier run and goes when the new ones come.
    pub fn supersede(&mut self, name: &str) {
        self.superseded.push(self.folder.join(name));
    }

    /// Renames all files and returns their paths. If one rename is impossible, nothing is replaced.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, Failure> {
        for (_, target) in &self.waiting {
            if fs::metadata(target).is_ok_and(|found| !found.is_file()) {
                let taken = io::Error::other("something other than a regular file has this name");
                return Err(self.unwritable("write", target, &taken));
            }
        }
        // An interruption waits until all of them have their names.
        let mut registered = unfinished();
        let mut replaced: Vec<(&Path, Option<PathBuf>)> = Vec::new();
        for (partial, target) in &self.waiting {
            let before = target.exists().then(|| partial.with_extension("old.partial"));
            let kept = before.filter(|old| fs::hard_link(target, old).is_ok());
            let existed = target.exists();
            let named = if self.replaces { fs::rename(partial, target) } else { name_anew(partial, target) };
            match named {
                Ok(()) if existed && kept.is_none() => replaced.push((target, None)),
                Ok(()) => replaced.push((target, Some(kept.unwrap_or_default()))),
                Err(error) => {
                    kept.map(fs::remove_file);
                    drop(registered);
                    let failure = match error.kind() {
                        io::ErrorKind::AlreadyExists if !self.replaces => is_there(target),
                        _ => self.unwritable("write", target, &error),
                    };
                    return Err(taken_back(failure, &replaced));
                }
            }
        }
        for (_, old) in &replaced {
            old.as_ref().filter(|old| !old.as_os_str().is_empty()).map(fs::remove_file);
        }
        for outdated in &self.superseded {
            match fs::remove_file(outdated) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!("{} of an earlier run cannot be removed: {error}", outdated.display());
                }
                _ => {}
            }
        }
        self.made.clear();
        registered.clear();
        drop(registered);
        Ok(std::mem::take(&mut self.waiting).into_iter().map(|(_, target)| target).collect())
    }

    /// Removes what commands that are no more left in the folder unfinished.
    fn remove_abandoned(&self) {
        let folder = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if maker(&entry.file_name().to_string_lossy()).is_some_and(is_gone) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn unwritable(&self, what: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::file(what, path, error)
            .hint(format!("choose another place with {}; no files were left behind", self.flag))
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for (partial, _) in &self.waiting {
            let _ = fs::remove_file(partial);
        }
        // Only empty folders go: whatever someone else has put there meanwhile stays.
        for folder in self.made.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        unfinished().retain(|path| {
            !self.made.contains(path) && !self.waiting.iter().any(|(partial, _)| partial == path)
        });
    }
}

/// Puts back what was there, as far as that can be done, and says how far.
fn taken_back(failure: Failure, replaced: &[(&Path, Option<PathBuf>)]) -> Failure {
    let mut changed = Vec::new();
    for (path, old) in replaced.iter().rev() {
        let restored = match old {
            Some(old) if old.as_os_str().is_empty() => fs::remove_file(path).is_ok(),
            Some(old) => fs::rename(old, path).is_ok(),
            None => false,
        };
        if !restored {
            changed.push(path.display().to_string());
        }
    }
    if changed.is_empty() {
        failure
    } else {
        failure.hint(format!("already replaced: {}", changed.join(", ")))
    }
}

/// Gives a file a name that must be free, also if somebody else takes it at this moment.
fn name_anew(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => fs::remove_file(partial),
        Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
            Err(error)
        }
        // Not all file systems have links: there the name is taken first.
        Err(_) => {
            File::create_new(target)?;
            fs::rename(partial, target).inspect_err(|_| drop(fs::remove_file(target)))
        }
    }
}

/// Why a file is not written.
pub fn is_there(path: &Path) -> Failure {
    Failure::input(format!("{} already exists", path.display()))
        .hint("choose another name, or add --force to replace it")
}

/// The folders that have to be made for this one, outermost first.
fn missing(folder: &Path) -> Vec<PathBuf> {
    let absent = folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let mut absent: Vec<PathBuf> = absent.map(Path::to_path_buf).collect();
    absent.reverse();
    absent
}

/// The process that made a file under such a name: `.NAME.PROCESS.partial` or `.NAME.PROCESS.old.partial`.
fn maker(name: &str) -> Option<u32> {
    let stem = name.strip_prefix('.')?.strip_suffix(".partial")?;
    stem.strip_suffix(".old").unwrap_or(stem).rsplit_once('.')?.1.parse().ok()
}

/// Whether a process has ended. Where that cannot be told, it has not.
fn is_gone(process: u32) -> bool {
    let processes = Path::new("/proc");
    processes.join("self").exists() && !processes.join(process.to_string()).exists()
}

/// Most bytes of a log; inputs have a limit of their own, and so has what is no regular file.
const MAX_LOG_BYTES: u64 = 1 << 34;
const MAX_INPUT_BYTES: u64 = gswarm_core::input::MAX_BYTES as u64;
/// What to do about files that are never as big.
const OTHER_FILE: &str = "check that it is the right file";

/// The whole of a configuration or of requests.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let missing = "check the path; `gswarm init --out work` writes files to start from";
    read_up_to(path, MAX_INPUT_BYTES, missing, "split the requests over several runs")
}

/// The whole of another input file; `hint` says what to do where it is not there.
pub fn read_or(path: &Path, hint: &str) -> Result<Vec<u8>, Failure> {
    read_up_to(path, MAX_INPUT_BYTES, hint, OTHER_FILE)
}

/// The whole of a log.
pub fn read_log(path: &Path) -> Result<Vec<u8>, Failure> {
    let missing = "check the path; runs write their logs to the folder of --out";
    read_up_to(path, MAX_LOG_BYTES, missing, OTHER_FILE)
}

fn read_up_to(path: &Path, limit: u64, missing: &str, smaller: &str) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: io::Error| {
        let failure = Failure::file("read", path, &error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.hint(missing),
            _ => failure,
        }
    };
    if path.is_dir() {
        return Err(Failure::input(format!("{} is a folder", path.display())).hint("name the file in it"));
    }
    let file = File::open(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    // A device or a pipe may have no end.
    let limit = if found.is_file() { limit } else { limit.min(MAX_INPUT_BYTES) };
    let too_big = || {
        let gigabytes = limit >> 30;
        Err(Failure::input(format!("{} exceeds the limit of {gigabytes} GiB (E007)", path.display()))
            .hint(if found.is_file() { smaller } else { OTHER_FILE }))
    };
    if found.is_file() && found.len() > limit {
        return too_big();
    }
    let mut bytes = Vec::with_capacity(if found.is_file() { found.len() as usize + 1 } else { 0 });
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit { too_big() } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_there_before_the_commit_and_everything_after() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let mut batch = Batch::new(&folder).unwrap();
        batch.add("one.txt", |out| out.write_all(b"1")).unwrap();
        batch.add("two.txt", |out| out.write_all(b"2")).unwrap();
        assert!(!folder.join("one.txt").exists());
        assert_eq!(batch.commit().unwrap(), [folder.join("one.txt"), folder.join("two.txt")]);
        assert_eq!(fs::read(folder.join("two.txt")).unwrap(), b"2");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    }

    #[test]
    fn a_failure_leaves_no_trace_and_no_file_is_lost() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let mut batch = Batch::new(&folder).unwrap();
        batch.add("one.txt", |out| out.write_all(b"1")).unwrap();
        let failed = batch.add("two.txt", |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert!(failed.to_string().contains("two.txt"), "{failed}");
        drop(batch);
        assert!(!root.path().join("a").exists());

        fs::write(root.path().join("kept.txt"), "old").unwrap();
        let mut batch = Batch::new(root.path()).unwrap();
        batch.add("kept.txt", |out| out.write_all(b"new")).unwrap();
        drop(batch);
        assert_eq!(fs::read(root.path().join("kept.txt")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn where_one_file_cannot_have_its_name_none_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("one.txt"), "old").unwrap();
        fs::create_dir_all(root.path().join("two.txt/x")).unwrap();
        let mut batch = Batch::new(root.path()).unwrap();
        batch.add("one.txt", |out| out.write_all(b"new")).unwrap();
        batch.add("two.txt", |out| out.write_all(b"new")).unwrap();
        let failed = batch.commit().unwrap_err().to_string();
        assert!(failed.contains("two.txt") && failed.contains("no files were left"), "{failed}");
        assert_eq!(fs::read(root.path().join("one.txt")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_was_replaced_comes_back() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("one.txt"), "old").unwrap();
        let mut batch = Batch::new(root.path()).unwrap();
        for name in ["one.txt", "two.txt", "three.txt"] {
            batch.add(name, |out| out.write_all(b"new")).unwrap();
        }
        fs::remove_file(&batch.waiting[2].0).unwrap();
        let failed = batch.commit().unwrap_err().to_string();
        assert!(failed.contains("three.txt") && failed.contains("no files were left"), "{failed}");
        assert_eq!(fs::read(root.path().join("one.txt")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_another_has_written_meanwhile_is_kept_unless_forced() {
        let root = tempfile::tempdir().unwrap();
        let late = |force| {
            let mut batch = Batch::new(root.path()).unwrap().replacing(force);
            batch.add("one.txt", |out| out.write_all(b"late")).unwrap();
            batch.add("two.txt", |out| out.write_all(b"late")).unwrap();
            fs::write(root.path().join("two.txt"), "other").unwrap();
            batch.commit()
        };
        let failed = late(false).unwrap_err().to_string();
        assert!(failed.contains("two.txt already exists") && failed.contains("--force"), "{failed}");
        assert_eq!(fs::read(root.path().join("two.txt")).unwrap(), b"other");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "the first file is taken back");
        late(true).unwrap();
        assert_eq!(fs::read(root.path().join("two.txt")).unwrap(), b"late");
        fs::remove_file(root.path().join("one.txt")).unwrap();
        let mut batch = Batch::new(root.path()).unwrap().replacing(false);
        batch.add("one.txt", |out| out.write_all(b"new")).unwrap();
        batch.commit().unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn outdated_files_go_with_the_commit() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.jsonl"), "old").unwrap();
        let mut batch = Batch::new(root.path()).unwrap();
        batch.add("a.json", |out| out.write_all(b"new")).unwrap();
        batch.supersede("a.jsonl");
        assert!(root.path().join("a.jsonl").exists());
        batch.commit().unwrap();
        assert!(!root.path().join("a.jsonl").exists());
    }

    #[test]
    fn the_maker_of_an_unfinished_file_is_in_its_name() {
        assert_eq!(maker(".a_log.json.4711.partial"), Some(4711));
        assert_eq!(maker(".a.4711.old.partial"), Some(4711));
        assert_eq!(maker("a.4711.partial"), None);
        assert_eq!(maker(".a.partial"), None);
        assert!(!is_gone(std::process::id()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_dead_process_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(".a.json.4194999.partial"), "x").unwrap();
        fs::write(root.path().join(format!(".b.json.{}.partial", std::process::id())), "x").unwrap();
        drop(Batch::new(root.path()).unwrap());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_reserved_once() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let first = Batch::reserve(&folder).unwrap();
        assert!(first.is_some() && Batch::reserve(&folder).unwrap().is_none());
        drop(first);
        assert!(!root.path().join("a").exists());
    }

    #[test]
    fn links_are_not_followed_and_results_are_private() {
        use std::os::unix::fs::{MetadataExt, symlink};
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("other"), "old").unwrap();
        symlink(path("other"), path("lines")).unwrap();
        symlink(path("other"), path(&format!(".result.{}.partial", std::process::id()))).unwrap();
        assert!(to_be_added_to(&path("lines")).is_err());
        let mut batch = Batch::new(root.path()).unwrap();
        batch.add_private("result", |out| out.write_all(b"new")).unwrap();
        batch.commit().unwrap();
        assert_eq!(fs::read(path("other")).unwrap(), b"old");
        assert_eq!(fs::read(path("result")).unwrap(), b"new");
        assert_eq!(path("result").metadata().unwrap().mode() & 0o777, 0o600);
    }
}
