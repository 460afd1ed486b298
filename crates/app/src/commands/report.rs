//! `gswarm report`: runs as one page, with charts for papers.

mod browser;
pub mod inputs;

use crate::commands::compare::rows;
use crate::failure::Failure;
use crate::output;
use crate::output::files::Batch;
use crate::output::progress::Bar;
use clap::Args;
use gswarm_core::check::check;
use gswarm_show::gantt::{Gantt, MOST_BARS};
use gswarm_show::page::{Page, html, markdown};
use gswarm_show::report::{MOST_GANTTS, drawn, page};
use gswarm_show::run::ReportRun;
use gswarm_show::{chart, comparison};
use inputs::{Given, Known, Loaded, load, logs};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  gswarm report results --config work/config.yaml --requests work/requests.yaml
  gswarm report results/planned_execution_log.json results/baseline_execution_log.json --out compared.html
  gswarm report comparison --out comparison.html            of what `gswarm compare` wrote
  gswarm report results --pdf --png figures --svg figures --markdown summary.md

Without --config and --requests, the files config.* and requests.* nearest to each log are used: beside it, or in one of
its two parent folders. The page works offline and loads nothing from the network. docs/report.md describes it.";

/// Pixels of a PNG for each of the chart's own.
const PNG_SCALE: f32 = 3.0;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Execution logs, folders of them, or the folder of a `gswarm compare`
    #[arg(required = true, value_name = "DIR|LOG")]
    logs: Vec<PathBuf>,
    /// Page to write
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print the page to PDF too, beside it; needs chromium
    #[arg(long)]
    pdf: bool,
    /// Write every chart as PNG into this folder
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
    /// Write every chart as SVG into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write a summary in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    given: Given,
}

pub fn report(args: &ReportArgs) -> Result<(), Failure> {
    // What cannot be done is known before minutes are spent on reading.
    let (mut batch, name) = Batch::beside(&args.out, "--out")?;
    let summary = args.markdown.as_ref().map(|path| Batch::beside(path, "--markdown")).transpose()?;
    let browser = args.pdf.then(|| browser::browser().ok_or_else(browser::missing)).transpose()?;
    let page = match compared(args)? {
        Some(page) => page,
        None => assembled(args)?,
    };
    batch.add(&name, |out| out.write_all(html(&page).as_bytes()))?;
    let mut written = batch.commit()?;
    if let Some((mut batch, name)) = summary {
        // Pictures are where the Markdown can find them, if they were asked for.
        let charts = args.svg.as_deref().map(|folder| seen_from(args.markdown.as_deref(), folder));
        batch.add(&name, |out| out.write_all(markdown(&page, charts.as_deref()).as_bytes()))?;
        written.extend(batch.commit()?);
    }
    written.extend(charts(&page, args.svg.as_deref(), args.png.as_deref())?);
    if let Some(browser) = browser {
        let pdf = args.out.with_extension("pdf");
        browser::print(&browser, &args.out, &pdf)?;
        written.push(pdf);
    }
    if args.quiet {
        return Ok(());
    }
    written.iter().try_for_each(|path| output::line(&format!("Wrote {}", path.display())))
}

/// The page about a comparison, where that is what was named.
fn compared(args: &ReportArgs) -> Result<Option<Page>, Failure> {
    let [folder] = args.logs.as_slice() else { return Ok(None) };
    let rows = if folder.is_dir() { rows::read(folder)? } else { None };
    Ok(rows.map(|rows| comparison::page(&rows)))
}

/// A folder relative to the file that links to it.
fn seen_from(file: Option<&Path>, folder: &Path) -> String {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let (file, folder) = (file.map(whole).unwrap_or_default(), whole(folder));
    let from: Vec<_> = file.parent().into_iter().flat_map(Path::components).collect();
    let to: Vec<_> = folder.components().collect();
    let shared = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let mut path = PathBuf::new();
    from[shared..].iter().for_each(|_| path.push(".."));
    to[shared..].iter().for_each(|part| path.push(part));
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() }
}

/// Reads every log and makes the page. Only what charts need is kept of each, but bars of those that get a Gantt chart.
fn assembled(args: &ReportArgs) -> Result<Page, Failure> {
    let paths = logs(&args.logs)?;
    let mut known = Known::default();
    let mut bar = Bar::new("reading logs", !args.quiet);
    let (mut runs, mut gantts): (Vec<ReportRun>, Vec<Option<Gantt>>) = (Vec::new(), Vec::new());
    let most = MOST_BARS / paths.len().clamp(1, MOST_GANTTS);
    for (number, path) in paths.iter().enumerate() {
        let read = load(path, &args.given, &mut known)?;
        let Loaded { instance, log, file, configuration, .. } = &read;
        let (violations, (mut run, gantt)) = rayon::join(
            || check(instance, file),
            || {
                let run = ReportRun::of(&path.display().to_string(), configuration, instance, log, file);
                let title = format!("{}, {} ({})", run.label(), run.mode, run.log);
                let bound = run.bound;
                (run, Gantt::of(instance, log, title, bound, most))
            },
        );
        run.violations = violations.iter().map(ToString::to_string).collect();
        runs.push(run);
        gantts.push(Some(gantt));
        // Bars of runs that others outdo go again.
        let keep = drawn(&runs, MOST_GANTTS);
        gantts
            .iter_mut()
            .enumerate()
            .filter(|(at, _)| !keep.contains(at))
            .for_each(|(_, gantt)| *gantt = None);
        bar.update(number + 1, paths.len());
    }
    drop(bar);
    runs.iter_mut().zip(gantts).for_each(|(run, gantt)| run.gantt = gantt);
    Ok(page(&mut runs))
}

/// Writes the charts of a page into folders.
fn charts(page: &Page, svg: Option<&Path>, png: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    if let Some(folder) = svg {
        written.extend(svg_charts(page, folder, "--svg")?);
    }
    if let Some(folder) = png {
        let mut batch = Batch::new_for(folder, "--png")?;
        for one in page.charts().filter(|chart| !chart.is_empty()) {
            let bytes = chart::png(one, PNG_SCALE).map_err(Failure::internal)?;
            batch.add(&format!("{}.png", one.name), |out| out.write_all(&bytes))?;
        }
        written.extend(batch.commit()?);
    }
    Ok(written)
}

/// The charts of a page as SVG in a folder that `flag` names.
pub fn svg_charts(page: &Page, folder: &Path, flag: &'static str) -> Result<Vec<PathBuf>, Failure> {
    let mut batch = Batch::new_for(folder, flag)?;
    for one in page.charts().filter(|chart| !chart.is_empty()) {
        batch.add(&format!("{}.svg", one.name), |out| out.write_all(chart::svg(one).as_bytes()))?;
    }
    batch.commit()
}

#[cfg(test)]
mod tests {
    use super::seen_from;
    use std::path::Path;

    #[test]
    fn pictures_are_named_from_where_the_page_is() {
        let cases = [
            ("new/rep.md", "new/svg", "svg"),
            ("rep.md", "figures", "figures"),
            ("a/b/rep.md", "c", "../../c"),
            ("a/rep.md", "a", "."),
        ];
        for (file, folder, expected) in cases {
            assert_eq!(seen_from(Some(Path::new(file)), Path::new(folder)), expected);
        }
    }
}
