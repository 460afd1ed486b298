//! `cargo xtask drill`: the tests that kill processes and take their disk away, many more times than in a test run.

use crate::tools::{cargo, succeed};

/// Kills, where nobody says how many.
const KILLS: u32 = 500;

/// Runs them with so many kills.
pub fn drill(args: &[String]) -> Result<(), String> {
    let kills = match args {
        [] => KILLS,
        [kills] => kills.parse().map_err(|_| format!("`{kills}` is no number of kills"))?,
        _ => return Err("give the number of kills, and nothing else".to_string()),
    };
    // The whole workspace, as in a test run: else libraries are built again with other features.
    let mut tests = cargo(&["test", "--locked", "--workspace", "--test", "cli", "--"]);
    tests.args(["--nocapture", "kills::", "storage::nothing_is_lost"]);
    tests.env("GSWARM_KILLS", kills.to_string()).env("GSWARM_SOAK", (kills / 10).max(3).to_string());
    succeed(&mut tests)
}
