//! Whether a program can be started.

use std::path::{Path, PathBuf};

/// Why a program cannot be started on this machine, where that can be told without starting it. A name without a slash is looked
/// for in the folders of `PATH`, as the shell does.
#[must_use]
pub fn cannot_start(program: &str) -> Option<String> {
    if program.contains('/') {
        return why_not(Path::new(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found: Vec<PathBuf> = std::env::split_paths(&folders).map(|folder| folder.join(program)).collect();
    if found.iter().any(|path| why_not(path).is_none()) {
        return None;
    }
    match found.iter().find(|path| path.is_file()) {
        Some(path) => why_not(path),
        None => Some("no such program on PATH".to_owned()),
    }
}

fn why_not(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(format!("{} is a folder", path.display()));
    }
    match rustix::fs::access(path, rustix::fs::Access::EXEC_OK) {
        Ok(()) => None,
        Err(rustix::io::Errno::ACCESS) => Some(format!("{} may not be executed", path.display())),
        Err(rustix::io::Errno::NOENT) => Some(format!("there is no file {}", path.display())),
        Err(error) => Some(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_executed_can_be_started() {
        assert_eq!(cannot_start("sh"), None);
        assert_eq!(cannot_start("/bin/sh"), None);
        let why = |program: &str| cannot_start(program).unwrap_or_default();
        assert!(why("gswarm-has-no-such-program").contains("PATH"));
        assert!(why("/bin").contains("folder"));
        assert!(why("/no/such/program").contains("no file"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "no program").unwrap();
        assert!(why(file.to_str().unwrap()).contains("may not be executed"));
    }
}
