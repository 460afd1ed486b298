//! Charts as data, and how they are drawn. Only `draw` knows the library that draws them, so that another can take its
//! place; everything else says what a chart shows.

mod draw;

pub use draw::{DrawError, inline_svg, png, svg};

/// The colours of Okabe and Ito, which people who cannot tell red from green can tell apart, those first that read well on
/// white and on black. Their yellow and black are left out: each vanishes on one of the two.
pub const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/// What is drawn for comparison, such as a bound: a grey that is seen on white and on black.
pub const QUIET: &str = "#7f7f7f";

/// The colour of the n-th series; after the last, the first again.
#[must_use]
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// How lines differ besides their colour, for print and for those who see none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stroke {
    /// Without a gap.
    #[default]
    Solid,
    /// Long pieces.
    Dashed,
    /// Points.
    Dotted,
    /// Both in turn.
    DashDot,
}

impl Stroke {
    /// The stroke of the n-th series of one chart: it changes with every series, and the colours with it.
    #[must_use]
    pub fn of(number: usize) -> Stroke {
        [Stroke::Solid, Stroke::Dashed, Stroke::DashDot, Stroke::Dotted][number % 4]
    }
}

/// One axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What it counts, with the unit.
    pub label: String,
    /// By powers of ten.
    pub log: bool,
    /// From zero on, whatever the data begin with.
    pub from_zero: bool,
    /// Shares, shown in percent.
    pub percent: bool,
    /// Whole numbers, such as GPUs: no tick stands between two of them.
    pub whole: bool,
    /// Where it starts, if not where the data do.
    pub least: Option<f64>,
    /// Where it ends, if not where the data do.
    pub most: Option<f64>,
}

impl Axis {
    /// A plain axis.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Axis {
        Axis { label: label.into(), ..Axis::default() }
    }

    /// By powers of ten.
    #[must_use]
    pub fn log(mut self) -> Axis {
        self.log = true;
        self
    }

    /// From zero on.
    #[must_use]
    pub fn from_zero(mut self) -> Axis {
        self.from_zero = true;
        self
    }

    /// Shares between 0 and 1, shown in percent.
    #[must_use]
    pub fn percent(mut self) -> Axis {
        self.percent = true;
        self
    }

    /// Whole numbers only.
    #[must_use]
    pub fn whole(mut self) -> Axis {
        self.whole = true;
        self
    }

    /// From here on.
    #[must_use]
    pub fn starting_at(mut self, least: f64) -> Axis {
        self.least = Some(least);
        self
    }

    /// Up to here.
    #[must_use]
    pub fn up_to(mut self, most: f64) -> Axis {
        self.most = Some(most);
        self
    }
}

/// A bar, its error and its colour.
#[derive(Clone, Debug)]
pub struct ChartBar {
    /// What it stands for.
    pub name: String,
    /// How long it is.
    pub value: f64,
    /// How far the value spreads to each side; zero for none.
    pub spread: f64,
    /// Its colour.
    pub colour: &'static str,
}

/// What a chart shows.
#[derive(Clone, Debug)]
pub enum Series {
    /// Points joined by a line.
    Line {
        /// In the legend; empty for none.
        name: String,
        /// By x.
        points: Vec<(f64, f64)>,
        /// Its colour.
        colour: &'static str,
        /// How it is drawn.
        stroke: Stroke,
        /// As stairs, for what jumps.
        stairs: bool,
        /// With a mark at each point, where there are few.
        dots: bool,
    },
    /// Points alone.
    Points {
        /// In the legend; empty for none.
        name: String,
        /// In any order.
        points: Vec<(f64, f64)>,
        /// Their colour.
        colour: &'static str,
    },
    /// Lying bars, the first at the top.
    Bars(Vec<ChartBar>),
    /// How often values fall between edges; one count less than edges.
    Histogram {
        /// Rising.
        edges: Vec<f64>,
        /// Between two edges each.
        counts: Vec<f64>,
        /// Its colour.
        colour: &'static str,
    },
}

/// Something to compare with.
#[derive(Clone, Debug)]
pub enum Mark {
    /// At one value of y.
    Across {
        /// The value.
        at: f64,
        /// What it is.
        label: String,
    },
    /// At one value of x.
    Upright {
        /// The value.
        at: f64,
        /// What it is.
        label: String,
    },
    /// Between two values of x.
    Range {
        /// The lower.
        from: f64,
        /// The higher.
        to: f64,
    },
}

/// A chart: a file's name, what is on it, and how large it is.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The stem of its files' names.
    pub name: String,
    /// Above it.
    pub title: String,
    /// What it shows, in a sentence or two, for the text below it and for those who cannot see it.
    pub about: String,
    /// To the right.
    pub x: Axis,
    /// Upward.
    pub y: Axis,
    /// What it shows.
    pub series: Vec<Series>,
    /// What to compare it with.
    pub marks: Vec<Mark>,
    /// Pixels at a scale of one.
    pub width: f64,
    /// Pixels at a scale of one.
    pub height: f64,
}

impl Chart {
    /// An empty one of the usual size.
    #[must_use]
    pub fn new(name: impl Into<String>, title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart {
            name: name.into(),
            title: title.into(),
            about: String::new(),
            x,
            y,
            series: Vec::new(),
            marks: Vec::new(),
            width: 640.0,
            height: 400.0,
        }
    }

    /// Says what it shows.
    #[must_use]
    pub fn about(mut self, text: impl Into<String>) -> Chart {
        self.about = text.into();
        self
    }

    /// Adds a line; colour and stroke follow from how many there are.
    pub fn line(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        let (number, dots, name) = (self.series.len(), points.len() <= 20, name.into());
        let (colour, stroke) = (colour(number), Stroke::of(number));
        self.series.push(Series::Line { name, points, colour, stroke, stairs: false, dots });
    }

    /// Adds a line of stairs.
    pub fn stairs(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        let (number, name) = (self.series.len(), name.into());
        let (colour, stroke) = (colour(number), Stroke::of(number));
        self.series.push(Series::Line { name, points, colour, stroke, stairs: true, dots: false });
    }

    /// Adds a line to compare the others with: dashed, and without a colour of its own.
    pub fn reference(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        let (name, colour, stroke) = (name.into(), QUIET, Stroke::Dashed);
        self.series.push(Series::Line { name, points, colour, stroke, stairs: false, dots: false });
    }

    /// Whether it shows lying bars, each of which needs its own line.
    #[must_use]
    pub fn has_bars(&self) -> bool {
        self.series.iter().any(|one| matches!(one, Series::Bars(_)))
    }

    /// What its data span to the right and upward, from zero where the axis begins there.
    fn ranges(&self) -> (f64, f64) {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for one in &self.series {
            match one {
                Series::Line { points: all, .. } | Series::Points { points: all, .. } => points.extend(all),
                Series::Bars(bars) => points.extend(bars.iter().map(|bar| (bar.value, 0.0))),
                Series::Histogram { edges, counts, .. } => {
                    points.extend(edges.iter().zip(counts).map(|(&edge, &count)| (edge, count)));
                }
            }
        }
        let range = |axis: &Axis, of: fn(&(f64, f64)) -> f64| {
            let least = if axis.from_zero { 0.0 } else { f64::INFINITY };
            let (low, high) = points
                .iter()
                .map(of)
                .fold((least, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
            if high > low { high - low } else { 0.0 }
        };
        (range(&self.x, |point| point.0), range(&self.y, |point| point.1))
    }

    /// Whether there is anything to see.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|one| match one {
            Series::Line { points, .. } | Series::Points { points, .. } => points.is_empty(),
            Series::Bars(bars) => bars.is_empty(),
            Series::Histogram { counts, .. } => counts.is_empty(),
        })
    }
}

/// Equal bins over what the values span, about so many, with round edges; `None` where there are no values.
#[must_use]
pub fn histogram(values: impl Iterator<Item = f64> + Clone, bins: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    let finite = || values.clone().filter(|value| value.is_finite());
    let (low, high) =
        finite().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return None;
    }
    let width = round_up(if high > low { (high - low) / bins as f64 } else { 1.0 });
    let first = (low / width).floor();
    // A value on the last edge would have a bin of its own; it goes into the one before.
    let count = ((high / width - first).ceil() as usize).max(1);
    let mut counts = vec![0.0; count];
    finite().for_each(|value| counts[((value / width - first) as usize).min(count - 1)] += 1.0);
    Some(((0..=count).map(|edge| (first + edge as f64) * width).collect(), counts))
}

/// The distance of ticks over so many whole numbers: one at least, and few ticks.
fn whole_step(range: f64) -> f64 {
    const TICKS: f64 = 6.0;
    match round_up((range / TICKS).max(1.0)) {
        // 2.5 and its like are no whole numbers of GPUs.
        step if step.fract() == 0.0 => step,
        step => 2.0 * step,
    }
}

/// The next of 1, 2, 2.5 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_whole_numbers_are_whole() {
        let steps = [0.0, 1.0, 7.0, 15.0, 63.0, 255.0, 1023.0].map(whole_step);
        assert_eq!(steps, [1.0, 1.0, 2.0, 5.0, 20.0, 50.0, 200.0]);
    }

    #[test]
    fn every_value_falls_into_one_bin() {
        let (edges, counts) = histogram([1.0, 1.0, 2.0, 5.0, f64::NAN].into_iter(), 4).unwrap();
        assert_eq!((edges, counts), (vec![1.0, 2.0, 3.0, 4.0, 5.0], vec![2.0, 1.0, 0.0, 1.0]));
        assert!(histogram([f64::NAN].into_iter(), 4).is_none());
        assert_eq!(histogram([3.0].into_iter(), 2).unwrap(), (vec![3.0, 4.0], vec![1.0]));
        let (edges, counts) = histogram((100..=5000).map(f64::from), 40).unwrap();
        assert_eq!((edges[0], edges[1], *edges.last().unwrap()), (0.0, 200.0, 5000.0));
        assert_eq!(counts.iter().sum::<f64>(), 4901.0);
    }
}
