//! A folder of its own for each test, and the command in it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

pub struct Done {
    /// Its exit code.
    pub code: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Done {
    /// Fails the test unless the exit code is this one.
    #[track_caller]
    pub fn code(self, expected: i32) -> Done {
        assert_eq!(self.code, expected, "\n--- out\n{}\n--- err\n{}", self.out, self.err);
        self
    }

    /// Its standard output, which is JSON; fails the test unless the exit code is this one.
    #[track_caller]
    pub fn json(self, code: i32) -> Value {
        json(&self.code(code).out)
    }

    /// Fails the test unless standard error says this.
    #[track_caller]
    pub fn says(self, part: &str) -> Done {
        assert!(self.err.contains(part), "`{part}` is not in\n{}", self.err);
        self
    }
}

/// A folder that goes away with the test.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    /// With `work/config.yaml` and `work/requests.yaml` of a preset in it.
    pub fn with_work(preset: &str, requests: u32) -> Place {
        let place = Place::new();
        place.run(&format!("generate --preset {preset} --requests {requests} --seed 3 --out work")).code(0);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn json(&self, name: &str) -> Value {
        json(&self.read(name))
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The names in the folder, hidden ones too, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command, ready to be started here. Arguments are parted at spaces; `@work` stands for the flags that name the
    /// configuration and the requests in the folder `work`.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gswarm"));
        let words = line.split_whitespace().flat_map(|word| match word.strip_prefix('@') {
            Some(folder) => inputs(folder).split(' ').map(str::to_owned).collect(),
            None => vec![word.to_owned()],
        });
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command.env_remove("RUST_BACKTRACE").env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command
    }

    pub fn run(&self, line: &str) -> Done {
        let output = self.command(line).output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What a text says in JSON.
#[track_caller]
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The two input flags for a folder that holds both files.
pub fn inputs(folder: &str) -> String {
    format!("--config {folder}/config.yaml --requests {folder}/requests.yaml")
}
