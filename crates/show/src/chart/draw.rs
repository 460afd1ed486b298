//! Charts drawn by kuva, as SVG and PNG.
//!
//! SVGs take their ink from the page that they are on (`currentColor`), so that one drawing serves light and dark.

use super::{Axis, Chart, Mark, QUIET, Series, Stroke, whole_step};
use crate::number::grouped;
use kuva::prelude::{
    BarPlot, Histogram, Layout, LegendPosition, LinePlot, LineStyle, Plot, PngBackend, ReferenceLine,
    ScatterPlot, ShadedRegion, SvgBackend, Theme, TickFormat, render_multiple,
};
use std::sync::Arc;

/// Why a chart could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("the chart `{chart}` cannot be drawn: {reason}")]
pub struct DrawError {
    /// Which.
    pub chart: String,
    /// Why.
    pub reason: String,
}

/// How much smaller charts on a page are than in files.
const PAGE_SCALE: f64 = 0.72;

/// Stands for the page's ink until the drawing is done; no series has this colour.
const INK: &str = "#010101";
/// The same for the grid.
const GRID: &str = "#020202";
/// What people read charts with, here and elsewhere.
const FONT: &str = "system-ui, 'DejaVu Sans', Arial, sans-serif";

/// For a page: ink as the text around it, with the width that there is.
#[must_use]
pub fn inline_svg(chart: &Chart) -> String {
    // Narrower than in files: letters stay readable where a telephone makes the whole chart fit.
    let narrow = Chart {
        width: chart.width * PAGE_SCALE,
        height: if chart.has_bars() { chart.height } else { chart.height * PAGE_SCALE },
        ..chart.clone()
    };
    let drawn = recoloured(&narrow);
    let (head, rest) = drawn.split_once('>').unwrap_or(("<svg", ""));
    // The drawing may be higher than asked for: its legend takes what it needs.
    let size = |name: &str, usual: f64| {
        let said = head.split_once(&format!(" {name}=\"")).and_then(|(_, after)| after.split_once('"'));
        said.map_or_else(|| usual.to_string(), |(value, _)| value.to_owned())
    };
    let (width, height) = (size("width", narrow.width), size("height", narrow.height));
    let others = head.replacen(&format!(" width=\"{width}\""), "", 1).replacen(
        &format!(" height=\"{height}\""),
        "",
        1,
    );
    let title = attribute(&chart.title);
    format!("{others} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{rest}")
}

/// For a file: black on nothing, and light on nothing where the reader prefers dark.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let drawn = recoloured(chart);
    let (head, rest) = drawn.split_once('>').unwrap_or(("<svg", ""));
    format!(
        "{head}><title>{}</title><style>:root{{color:#1a1a1a}}\
         @media (prefers-color-scheme: dark){{:root{{color:#e8e8e8}}}}</style>{rest}\n",
        attribute(&chart.title)
    )
}

/// For papers and slides: black on white.
///
/// # Errors
/// Where the library cannot draw it.
pub fn png(chart: &Chart, scale: f32) -> Result<Vec<u8>, DrawError> {
    let theme = Theme { background: "white".to_owned(), ..theme("black", "#cccccc", "white") };
    let scene = scene(chart, theme, "black");
    let drawn = PngBackend::new().with_scale(scale).render_scene(&scene);
    drawn.map_err(|reason| DrawError { chart: chart.name.clone(), reason })
}

fn recoloured(chart: &Chart) -> String {
    let scene = scene(chart, theme(INK, GRID, "none"), INK);
    let drawn = SvgBackend::new().render_scene(&scene);
    drawn
        .replace(&format!("stroke=\"{GRID}\""), "stroke=\"#888888\" stroke-opacity=\"0.3\"")
        .replace(INK, "currentColor")
}

/// What would end an attribute or a title, written so that it does not.
fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn theme(ink: &str, grid: &str, paper: &str) -> Theme {
    Theme {
        background: paper.to_owned(),
        axis_color: ink.to_owned(),
        grid_color: grid.to_owned(),
        tick_color: ink.to_owned(),
        text_color: ink.to_owned(),
        legend_bg: paper.to_owned(),
        legend_border: "none".to_owned(),
        font_family: Some(FONT.to_owned()),
        ..Theme::light()
    }
}

fn scene(chart: &Chart, theme: Theme, ink: &str) -> kuva::render::render::Scene {
    let plots: Vec<Plot> = chart.series.iter().flat_map(|series| plots(series, ink)).collect();
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(chart.width)
        .with_height(chart.height)
        .with_title(&chart.title)
        .with_title_size(15)
        .with_label_size(13)
        .with_tick_size(12)
        .with_body_size(12)
        .with_x_label(&chart.x.label)
        .with_y_label(&chart.y.label)
        .with_legend_position(LegendPosition::OutsideBottomColumns)
        .with_legend_box(false)
        .with_theme(theme);
    layout = scaled(layout, chart);
    for mark in &chart.marks {
        layout = match mark {
            Mark::Across { at, label } => {
                layout.with_reference_line(line(ReferenceLine::horizontal(*at), label))
            }
            Mark::Upright { at, label } => {
                layout.with_reference_line(line(ReferenceLine::vertical(*at), label))
            }
            Mark::Range { from, to } => layout
                .with_shaded_region(ShadedRegion::vertical(*from, *to).with_color(QUIET).with_opacity(0.25)),
        };
    }
    render_multiple(plots, layout)
}

fn line(line: ReferenceLine, label: &str) -> ReferenceLine {
    let line = line.with_color(QUIET).with_stroke_width(1.5);
    if label.is_empty() { line } else { line.with_label(label) }
}

fn scaled(mut layout: Layout, chart: &Chart) -> Layout {
    let format = |axis: &Axis| {
        let percent = axis.percent;
        TickFormat::Custom(Arc::new(
            move |value| if percent { tick(value * 100.0) + "%" } else { tick(value) },
        ))
    };
    layout = layout.with_x_tick_format(format(&chart.x)).with_y_tick_format(format(&chart.y));
    if chart.x.log {
        layout = layout.with_log_x();
    } else if chart.x.from_zero {
        layout = layout.with_x_axis_min(0.0);
    }
    if chart.y.log {
        layout = layout.with_log_y();
    } else if chart.y.from_zero {
        layout = layout.with_y_axis_min(0.0);
    }
    let (x, y) = chart.ranges();
    if chart.x.whole {
        layout = layout.with_x_tick_step(whole_step(x));
    }
    if chart.y.whole {
        layout = layout.with_y_tick_step(whole_step(y));
    }
    if let Some(least) = chart.x.least {
        layout = layout.with_x_axis_min(least);
    }
    if let Some(most) = chart.x.most {
        layout = layout.with_x_axis_max(most);
    }
    if let Some(most) = chart.y.most {
        layout = layout.with_y_axis_max(most);
    }
    layout
}

/// A number beside an axis: no more digits than it needs, thousands parted by commas.
fn tick(value: f64) -> String {
    let decimals = match value.abs() {
        // Enough to tell ticks apart that lie close to one another; zeros behind the last digit go.
        small if small >= 1e6 => 0,
        small if small >= 100.0 => 3,
        small if small >= 0.1 || small == 0.0 => 6,
        small => (3.0 - small.log10().floor()).clamp(6.0, 12.0) as usize,
    };
    let text = grouped(value, decimals);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn plots(series: &Series, ink: &str) -> Vec<Plot> {
    match series {
        Series::Line { name, points, colour, stroke, stairs, dots } => {
            let mut line = LinePlot::new()
                .with_data(points.iter().copied())
                .with_color(*colour)
                .with_stroke_width(2.0)
                .with_line_style(match stroke {
                    Stroke::Solid => LineStyle::Solid,
                    Stroke::Dashed => LineStyle::Dashed,
                    Stroke::Dotted => LineStyle::Dotted,
                    Stroke::DashDot => LineStyle::DashDot,
                });
            if *stairs {
                line = line.with_step();
            }
            if !name.is_empty() {
                line = line.with_legend(name.as_str());
            }
            let mut all: Vec<Plot> = vec![line.into()];
            if *dots {
                let marks =
                    ScatterPlot::new().with_data(points.iter().copied()).with_color(*colour).with_size(3.5);
                all.push(marks.into());
            }
            all
        }
        Series::Points { name, points, colour } => {
            let mut plot = ScatterPlot::new()
                .with_data(points.iter().copied())
                .with_color(*colour)
                .with_size(2.0)
                .with_marker_opacity(0.6);
            if !name.is_empty() {
                plot = plot.with_legend(name.as_str());
            }
            vec![plot.into()]
        }
        Series::Bars(bars) => {
            // The library puts the first bar at the bottom.
            let last_first = || bars.iter().rev();
            let mut plot = BarPlot::new().with_horizontal(true).with_width(0.7);
            plot = plot.with_colored_bars(last_first().map(|bar| (bar.name.clone(), bar.value, bar.colour)));
            if bars.iter().any(|bar| bar.spread > 0.0) {
                plot = plot.with_error(last_first().map(|bar| bar.spread)).with_error_color(ink);
            }
            vec![plot.into()]
        }
        Series::Histogram { edges, counts, colour } => {
            vec![Histogram::from_bins(edges.clone(), counts.clone()).with_color(*colour).into()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::ChartBar;

    fn chart() -> Chart {
        let mut chart = Chart::new("c", "A <title>", Axis::new("x"), Axis::new("y").from_zero());
        chart.line("one & two", vec![(1.0, 2.0), (2.0, 4.0)]);
        chart.marks.push(Mark::Across { at: 3.0, label: "bound".to_owned() });
        chart
    }

    #[test]
    fn ink_follows_the_page_and_nothing_of_the_text_becomes_markup() {
        for drawn in [inline_svg(&chart()), svg(&chart())] {
            assert!(drawn.starts_with("<svg") && drawn.contains("currentColor"), "{drawn}");
            assert!(
                !drawn.contains(INK) && !drawn.contains(GRID) && !drawn.contains("<title>A <"),
                "{drawn}"
            );
            assert!(drawn.contains("one &amp; two") && drawn.contains("bound"), "{drawn}");
            assert!(
                !drawn.contains("http") || drawn.matches("http").count() == 1,
                "only the namespace is an address"
            );
        }
        let inline = inline_svg(&chart());
        let head = inline.split('>').next().unwrap();
        assert!(head.contains("viewBox=\"0 0 460.8 ") && !head.contains(" width="), "{head}");
    }

    #[test]
    fn an_axis_that_starts_between_whole_numbers_has_ticks_of_the_data_only() {
        let x = Axis::new("GPU").whole().starting_at(-0.6).up_to(1.6);
        let mut chart = Chart::new("c", "GPUs", x, Axis::new("y").from_zero().up_to(1.0));
        let (edges, counts) = (vec![-0.4, 0.4, 0.6, 1.4], vec![0.5, 0.0, 0.7]);
        chart.series.push(Series::Histogram { edges, counts, colour: "#0072B2" });
        let drawn = inline_svg(&chart);
        assert!(drawn.contains(">1<") && !drawn.contains(">-1<") && !drawn.contains(">2<"), "{drawn}");
    }

    #[test]
    fn ticks_have_no_more_digits_than_they_need() {
        let shown = [0.0, 0.1, 0.25, 5.0, 1500.0, 0.002, 100_000.0].map(tick);
        assert_eq!(shown, ["0", "0.1", "0.25", "5", "1,500", "0.002", "100,000"]);
        // Those of a narrow axis differ.
        let narrow = [0.985, 0.9875, 0.99, 0.1 + 0.2, 250.5, 251.0].map(tick);
        assert_eq!(narrow, ["0.985", "0.9875", "0.99", "0.3", "250.5", "251"]);
    }

    #[test]
    fn a_png_is_a_png() {
        let mut bars = chart();
        let bar = |name: &str| ChartBar { name: name.to_owned(), value: 2.0, spread: 0.5, colour: "#0072B2" };
        bars.series = vec![Series::Bars(vec![bar("a"), bar("b")])];
        assert!(png(&bars, 1.0).unwrap().starts_with(b"\x89PNG"));
    }
}
