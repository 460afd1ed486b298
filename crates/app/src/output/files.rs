//! Files that are either whole or not there. Each is written beside its place under another name; only when all of them
//! are complete do they take their names.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files on their way into one folder. Dropped before [`Batch::commit`], it leaves no trace.
pub struct Batch {
    folder: PathBuf,
    made_folder: Option<PathBuf>,
    waiting: Vec<(PathBuf, PathBuf)>,
}

impl Batch {
    /// Files for `folder`, which is made where it is missing.
    pub fn new(folder: &Path) -> Result<Batch, Failure> {
        // The outermost folder that is missing: what has to go again if nothing comes of the files.
        let made_folder =
            folder.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).last();
        // The folder that one is in goes without a name: `./a.log` would be `a.log` with two characters too many.
        let folder = if folder == Path::new(".") { Path::new("") } else { folder };
        let batch = Batch {
            folder: folder.to_path_buf(),
            made_folder: made_folder.map(Path::to_path_buf),
            waiting: Vec::new(),
        };
        if !folder.as_os_str().is_empty() {
            fs::create_dir_all(folder).map_err(|error| unwritable("create the folder", folder, &error))?;
        }
        Ok(batch)
    }

    /// Writes one file, still under another name.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let target = self.folder.join(name);
        let partial = self.folder.join(format!(".{name}.{}.partial", std::process::id()));
        self.waiting.push((partial.clone(), target.clone()));
        let written = File::create(&partial).and_then(|file| {
            let mut out = BufWriter::with_capacity(1 << 18, file);
            write(&mut out)?;
            out.flush()
        });
        written.map_err(|error| unwritable("write", &target, &error))
    }

    /// Gives every file its name, and says which they are.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, Failure> {
        for (partial, target) in &self.waiting {
            fs::rename(partial, target).map_err(|error| unwritable("write", target, &error))?;
        }
        self.made_folder = None;
        Ok(std::mem::take(&mut self.waiting).into_iter().map(|(_, target)| target).collect())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for (partial, _) in &self.waiting {
            let _ = fs::remove_file(partial);
        }
        if let Some(outermost) = &self.made_folder {
            // Only empty folders go: whatever someone else has put there meanwhile stays.
            for folder in self.folder.ancestors().take_while(|path| path.starts_with(outermost)) {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

fn unwritable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::file(what, path, error).hint("choose another place with --out; nothing was left behind")
}

/// The whole of an input file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("{} is a folder", path.display())).hint("name the file in it"));
    }
    fs::read(path).map_err(|error| {
        let failure = Failure::file("read", path, &error);
        match error.kind() {
            io::ErrorKind::NotFound => failure.hint(
                "check the path; `gswarm generate --preset simple --out work` makes files to start from",
            ),
            _ => failure,
        }
    })
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
}
