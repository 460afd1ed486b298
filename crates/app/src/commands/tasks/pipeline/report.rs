//! What a pipeline found, as a page, as text and as charts: from the files that the phases left, and from nothing else.

use crate::commands::report::svg_charts;
use crate::failure::Failure;
use crate::output::files::Batch;
use gswarm_show::page::{html, markdown};
use gswarm_show::pipeline;
use std::io::Write;
use std::path::Path;

/// Its files besides the charts.
pub const FILES: [&str; 2] = ["report.html", "results.md"];
/// Where the charts are, beside the text.
const CHARTS: &str = "charts";
/// What names a place for the text outside the folder.
const FLAG: &str = "--results-to";

/// Writes `report.html`, `results.md` and the charts into the folder; says which files these are.
pub fn write(folder: &Path) -> Result<Vec<String>, Failure> {
    let page = page(folder)?;
    let drawn = svg_charts(&page, &folder.join(CHARTS), "--out")?;
    let mut batch = Batch::new(folder)?;
    batch.add(FILES[0], |out| out.write_all(html(&page).as_bytes()))?;
    batch.add(FILES[1], |out| out.write_all(markdown(&page, Some(CHARTS)).as_bytes()))?;
    batch.commit()?;
    let named = drawn.iter().filter_map(|path| path.file_name()).map(|name| name.to_string_lossy());
    Ok(FILES.map(str::to_owned).into_iter().chain(named.map(|name| format!("{CHARTS}/{name}"))).collect())
}

/// A place for the text outside the folder. A file that no pipeline has written is not replaced, unless that is asked for.
pub fn place(text: &Path, force: bool) -> Result<(Batch, String), Failure> {
    let place = Batch::beside(text, FLAG)?;
    if !text.exists() || force {
        return Ok(place);
    }
    let found = std::fs::read(text).map_err(|error| Failure::file("read", text, &error))?;
    if found.is_empty() || pipeline::is_markdown(&found) {
        return Ok(place);
    }
    Err(Failure::input(format!("{FLAG} {} exists, but was not written by a pipeline", text.display()))
        .hint("choose another file, or pass --force to replace it and repeat every phase"))
}

/// Writes the text there, with the charts in a folder of its name beside it.
pub fn write_to(folder: &Path, text: &Path, (mut batch, name): (Batch, String)) -> Result<(), Failure> {
    let page = page(folder)?;
    let stem = text.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    svg_charts(&page, &text.with_file_name(&stem), FLAG)?;
    batch.add(&name, |out| out.write_all(markdown(&page, Some(&stem)).as_bytes()))?;
    batch.commit().map(drop)
}

fn page(folder: &Path) -> Result<gswarm_show::page::Page, Failure> {
    let files = pipeline::read(folder).map_err(|reason| {
        Failure::input(format!("{}: {reason}", folder.display()))
            .hint("`gswarm tasks pipeline --out` makes what is missing; --force repeats every phase")
    })?;
    Ok(pipeline::page(&files))
}
