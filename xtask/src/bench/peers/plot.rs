//! The plot: a line per way to run a loop, a panel per kind of figure, a mark per world.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::figures::{Row, World};
use super::session::Variant;

/// Pixels.
const WIDTH: u32 = 1100;
const NAMES: i32 = 350;
const TOP: u32 = 32;
const LINE: u32 = 22;
/// For the labels of the axes.
const AXIS: u32 = 26;

const FONT: (&str, u32) = ("sans-serif", 16);

/// A mark per world, light to dark.
const SHADES: [f64; 3] = [0.35, 0.65, 1.0];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A kind of figure, and its axis.
struct Panel {
    title: &'static str,
    /// Its name in runs; overheads where it has none.
    figure: Option<&'static str>,
    /// From where to where; decimal logarithms where it is logarithmic.
    range: (f64, f64),
    /// How many labels the axis has, about.
    labels: usize,
    label: fn(f64) -> String,
}

pub(super) fn svg(rows: &[&Row], worlds: &[World]) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let mut picture = String::new();
    let height = TOP + AXIS + LINE * size(rows.len() + worlds.len().max(2) + 2);
    draw(&SVGBackend::with_string(&mut picture, (WIDTH, height)).into_drawing_area(), rows, worlds)?;
    Ok(picture)
}

fn draw(root: &Area<'_>, rows: &[&Row], worlds: &[World]) -> Drawn {
    root.fill(&WHITE)?;
    let below = root.titled("Loops that run out of memory, by what adapts their size", ("sans-serif", 20))?;
    let (plot, legend) = below.split_vertically(TOP + LINE * size(rows.len()) + AXIS);
    let (names, panels) = plot.split_horizontally(NAMES);
    for (at, row) in rows.iter().enumerate() {
        let y = middle(at);
        names.draw(&Circle::new((8, y), 4, color(row).filled()))?;
        names.draw(&Text::new(name(row), (18, y - 6), FONT))?;
    }
    let kinds = kinds(rows);
    for (area, panel) in panels.split_evenly((1, kinds.len())).iter().zip(&kinds) {
        panel.draw(area, rows)?;
    }
    explain(&legend, worlds)?;
    root.present()
}

fn kinds(rows: &[&Row]) -> [Panel; 4] {
    let most = |name: &str| rows.iter().flat_map(|row| &row.runs).map(|run| run[name]).fold(2.0, f64::max);
    let slowest = (most("cold_ratio") * 1.1).log10();
    let panel = |title, figure, range, label| Panel { title, figure, range, labels: 4, label };
    [
        Panel {
            labels: 10,
            ..panel("overhead per chunk *", None, (-3.0, 6.0), |log| microseconds(10_f64.powf(log)))
        },
        panel("out of memory, cold run", Some("cold_ooms"), (0.0, most("cold_ooms")), |ooms| {
            format!("{ooms}")
        }),
        panel("size kept, % of limit", Some("cold_kept_percent"), (0.0, 100.0), |percent| {
            format!("{percent}")
        }),
        panel("time of the cold run **", Some("cold_ratio"), (-0.05, slowest), |log| {
            format!("{:.1}×", 10_f64.powf(log))
        }),
    ]
}

/// Every third power of ten: all of them would stand too close.
fn microseconds(figure: f64) -> String {
    let is_close = |at: f64| (figure / at - 1.0).abs() < 0.1;
    let named = [(1e-3, "1 ns"), (1.0, "1 µs"), (1e3, "1 ms"), (1e6, "1 s")];
    named.into_iter().find(|(at, _)| is_close(*at)).map(|(_, name)| name.to_owned()).unwrap_or_default()
}

impl Panel {
    /// Where they stand on the axis.
    fn figures(&self, row: &Row) -> Vec<f64> {
        let log = |figure: f64| figure.max(f64::MIN_POSITIVE).log10();
        match self.figure {
            None => row.chunk_us.or(row.call_us).into_iter().map(log).collect(),
            Some("cold_ratio") => row.runs.iter().map(|run| log(run["cold_ratio"])).collect(),
            Some(name) => row.runs.iter().map(|run| run[name]).collect(),
        }
    }

    fn draw(&self, area: &Area<'_>, rows: &[&Row]) -> Drawn {
        let (from, to) = self.range;
        area.draw(&Text::new(self.title, (0, 10), FONT))?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(24)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(from..to, f64::from(size(rows.len()))..0.0)?;
        let label = |x: &f64| (self.label)(*x);
        let mut mesh = chart.configure_mesh();
        let mesh = mesh.disable_y_mesh().light_line_style(TRANSPARENT).label_style(FONT).y_labels(0);
        mesh.x_labels(self.labels).x_label_formatter(&label).draw()?;
        for (at, row) in rows.iter().enumerate() {
            let figures = self.figures(row);
            let shades = SHADES.iter().skip(SHADES.len().saturating_sub(figures.len()));
            let marks = figures.iter().zip(shades).enumerate().map(|(mark, (x, shade))| {
                // A little apart, so that equal figures hide no mark.
                let apart = (f64::from(size(mark)) + 0.5) / f64::from(size(figures.len()));
                let y = f64::from(size(at)) + 0.25 + 0.5 * apart;
                Circle::new((x.clamp(from, to), y), 4, color(row).mix(*shade).filled())
            });
            chart.draw_series(marks)?;
        }
        Ok(())
    }
}

/// What the marks mean, and what the figures are of.
fn explain(area: &Area<'_>, worlds: &[World]) -> Drawn {
    let notes = [
        "* beyond a loop by hand, of that loop in all; accelerate: per call",
        "** over that of the best fixed size in the same language",
    ];
    for (at, note) in notes.into_iter().enumerate() {
        area.draw(&Text::new(note, (8, middle(at) - 6), FONT))?;
    }
    for (at, (world, shade)) in worlds.iter().zip(SHADES).enumerate() {
        area.draw(&Circle::new((NAMES + 30, middle(at)), 4, BLACK.mix(shade).filled()))?;
        area.draw(&Text::new(world.told(), (NAMES + 42, middle(at) - 6), FONT))?;
    }
    Ok(())
}

/// The peer, and what tells its rows apart.
fn name(row: &Row) -> String {
    let Variant { cache, policy, .. } = &row.variant;
    let variant = if row.is_ours() { format!("{cache}, {policy}") } else { cache.clone() };
    let words = [format!("{} ({})", row.peer, row.language), variant];
    words.iter().filter(|words| !words.is_empty()).map(String::as_str).collect::<Vec<_>>().join(": ")
}

/// A color for each peer.
fn color(row: &Row) -> RGBColor {
    match &*row.peer {
        _ if row.is_loop() => RGBColor(102, 102, 102),
        _ if row.is_ours() => RGBColor(23, 99, 182),
        peer if peer.starts_with("toma") => RGBColor(138, 45, 107),
        _ => RGBColor(179, 84, 30),
    }
}

/// The middle of a line.
fn middle(at: usize) -> i32 {
    (TOP + LINE * size(at) + LINE / 2).cast_signed()
}

fn size(things: usize) -> u32 {
    u32::try_from(things).unwrap_or(u32::MAX)
}
