//! The plot: a line per way to run a loop, a panel per kind of figure, a mark per world.

use super::figures::{Row, World};
use super::session::Variant;

/// Pixels.
const TOP: f64 = 76.0;
const LINE: f64 = 22.0;
const NAMES: f64 = 360.0;
/// Of a panel, and from one to the next.
const PANEL: [f64; 2] = [150.0, 187.0];

/// A mark per world, light to dark.
const SHADES: [f64; 3] = [0.35, 0.65, 1.0];

const NOTES: [&str; 2] = [
    "* beyond a loop by hand, of that loop in all; accelerate: per call",
    "** over that of the best fixed size in the same language",
];

/// A kind of figure, and the labels of its axis from one end to the other; logarithmic where it begins above zero.
struct Panel {
    title: &'static str,
    figures: fn(&Row) -> Vec<f64>,
    labels: Vec<(f64, String)>,
}

pub(super) fn svg(rows: &[&Row], worlds: &[World]) -> String {
    let heading = "Loops that run out of memory, by what adapts their size";
    let mut drawn = vec![text(NAMES + 2.0 * PANEL[1], 24.0, "middle", heading)];
    for (at, row) in rows.iter().enumerate() {
        drawn.extend([mark(8.0, line(at), color(row), 1.0), text(18.0, line(at), "start", &name(row))]);
    }
    for (left, panel) in (0..).map(|at| NAMES + f64::from(at) * PANEL[1]).zip(panels(rows)) {
        drawn.extend(panel.draw(left, rows));
    }
    let legend = rows.len() + 2;
    drawn.extend(NOTES.iter().zip(legend..).map(|(note, at)| text(8.0, line(at), "start", note)));
    for ((world, shade), at) in worlds.iter().zip(SHADES).zip(legend..) {
        let told = text(NAMES + 152.0, line(at), "start", &world.told());
        drawn.extend([mark(NAMES + 140.0, line(at), "black", shade), told]);
    }
    let (width, height) = (NAMES + 4.0 * PANEL[1], line(legend + worlds.len().max(NOTES.len())));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}\n</svg>\n",
        drawn.join("\n")
    )
}

fn panels(rows: &[&Row]) -> [Panel; 4] {
    let most = |name: &str| rows.iter().flat_map(|row| row.each(name)).fold(2.0, f64::max);
    let (ooms, slowest) = (most("cold_ooms"), most("cold_ratio"));
    let numbers = |numbers: [f64; 3]| numbers.map(|number| (number, format!("{number}"))).to_vec();
    let times = (0..).map(|power| 2_f64.powi(power)).take_while(|ratio| *ratio < 2.0 * slowest);
    let powers = [(1e-3, "1 ns"), (1.0, "1 µs"), (1e3, "1 ms"), (1e6, "1 s")];
    let powers = powers.map(|(at, label)| (at, label.to_owned())).to_vec();
    let overhead = |row: &Row| row.chunk_us.or(row.call_us).into_iter().collect();
    let panel = |title, figures, labels| Panel { title, figures, labels };
    [
        panel("overhead per chunk *", overhead, powers),
        panel(
            "out of memory, cold run",
            |row| row.each("cold_ooms"),
            numbers([0.0, (ooms / 2.0).floor(), ooms]),
        ),
        panel("size kept, % of limit", |row| row.each("cold_kept_percent"), numbers([0.0, 50.0, 100.0])),
        panel(
            "time of the cold run **",
            |row| row.each("cold_ratio"),
            times.map(|ratio| (ratio, format!("{ratio}×"))).collect(),
        ),
    ]
}

impl Panel {
    /// Where a figure stands on the axis; what is beyond an end stands at it.
    fn place(&self, figure: f64) -> f64 {
        let [from, to] = [0, self.labels.len() - 1].map(|at| self.labels[at].0);
        let scale = |figure: f64| if from > 0.0 { figure.max(from).log10() } else { figure };
        PANEL[0] * ((scale(figure) - scale(from)) / (scale(to) - scale(from))).clamp(0.0, 1.0)
    }

    fn draw(&self, left: f64, rows: &[&Row]) -> Vec<String> {
        let (top, bottom) = (line(0) - LINE, line(rows.len()));
        let mut drawn = vec![text(left, top - 10.0, "start", self.title)];
        for (figure, label) in &self.labels {
            let x = left + self.place(*figure);
            drawn.push(format!("<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#dddddd\"/>"));
            drawn.push(text(x, bottom + 12.0, "middle", label));
        }
        for (at, row) in rows.iter().enumerate() {
            let figures = (self.figures)(row);
            let shades = &SHADES[SHADES.len().saturating_sub(figures.len())..];
            // A little apart, so that equal figures hide no mark.
            let apart = [-0.2, 0.0, 0.2].map(|part| line(at) + part * LINE);
            let marks = figures.iter().zip(shades).zip(&apart[usize::from(figures.len() == 1)..]);
            drawn.extend(marks.map(|((x, shade), y)| mark(left + self.place(*x), *y, color(row), *shade)));
        }
        drawn
    }
}

fn mark(x: f64, y: f64, color: &str, shade: f64) -> String {
    format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\" fill-opacity=\"{shade}\"/>")
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{words}</text>", y + 4.0)
}

/// The middle of a line.
fn line(at: usize) -> f64 {
    (0..at).fold(TOP, |y, _| y + LINE)
}

/// The peer, and what tells its rows apart.
fn name(row: &Row) -> String {
    let Variant { cache, policy, .. } = &row.variant;
    let variant = if row.is_ours() { format!("{cache}, {policy}") } else { cache.clone() };
    let words = [format!("{} ({})", row.peer, row.language), variant];
    words.iter().filter(|words| !words.is_empty()).map(String::as_str).collect::<Vec<_>>().join(": ")
}

/// A color for each peer.
fn color(row: &Row) -> &'static str {
    match &*row.peer {
        _ if row.is_loop() => "#666666",
        _ if row.is_ours() => "#1763b6",
        peer if peer.starts_with("toma") => "#8a2d6b",
        _ => "#b3541e",
    }
}
