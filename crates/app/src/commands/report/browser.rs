//! Prints a page to PDF with an installed browser.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that can print pages, the usual ones first.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The first browser that there is: `GSWARM_BROWSER`, or one of the usual names on the path.
pub fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("GSWARM_BROWSER") {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    let all = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    all.into_iter().find(|path| path.is_file())
}

pub fn missing() -> Failure {
    Failure::input("--pdf needs chromium or another browser of its family, and none was found (R003)")
        .hint("install chromium, or name the program with GSWARM_BROWSER; the HTML page prints as well from any browser")
}

pub fn print(browser: &Path, page: &Path, pdf: &Path) -> Result<(), Failure> {
    let failed = |reason: String| {
        Failure::input(format!("{} could not print the page: {reason} (R004)", browser.display()))
    };
    let absolute = |path: &Path| std::path::absolute(path).map_err(|error| failed(error.to_string()));
    let (page, pdf) = (absolute(page)?, absolute(pdf)?);
    // A profile of its own, so that neither a browser that is open nor what is kept in it is touched.
    let profile = pdf.with_extension("browser");
    let done = Command::new(browser)
        .args([
            "--headless=new",
            "--disable-gpu",
            "--no-sandbox",
            "--no-pdf-header-footer",
            "--virtual-time-budget=10000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output();
    let _ = std::fs::remove_dir_all(&profile);
    let done = done.map_err(|error| failed(error.to_string()))?;
    let starts_as_pdf = std::fs::read(&pdf).is_ok_and(|bytes| bytes.starts_with(b"%PDF"));
    if done.status.success() && starts_as_pdf {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(failed(said.lines().last().unwrap_or("it said nothing").to_owned()))
}
