//! The trade-off of checkpoints: time for bytes.

use plotters::prelude::*;
use toma::torch::checkpoint::{Costs, Point};

use crate::Result;

/// Width and height in pixels.
const SIZE: (u32, u32) = (960, 420);
const PLANS: RGBColor = RGBColor(0, 114, 178);
const BOUND: RGBColor = RGBColor(150, 150, 150);

/// Draws the time of plans over their bytes, as the text of an SVG file, with the lower bound of all plans.
pub(crate) fn curve(costs: &Costs) -> Result<String> {
    let points = costs.curve();
    let plans = places(&points, costs, |point| point.seconds);
    let bounds = places(&points, costs, |point| point.bound_seconds);
    let (left, right) = (plans[0].0, plans[plans.len() - 1].0);
    let top = plans.iter().map(|&(_, more)| more).fold(1.0, f64::max);
    let mut picture = String::new();
    let root = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(0.95 * left..1.02 * right, -0.05 * top..1.1 * top)?;
    let mesh = &mut chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).label_style(("sans-serif", 15)).axis_desc_style(("sans-serif", 17));
    mesh.x_desc("MiB of the region").y_desc("% more time").draw()?;
    chart.draw_series(LineSeries::new(bounds, BOUND.stroke_width(2)))?;
    chart.draw_series(LineSeries::new(plans.iter().copied(), PLANS.stroke_width(2)))?;
    chart.draw_series(plans.iter().map(|&at| Circle::new(at, 4, PLANS.filled())))?;
    root.present()?;
    drop((chart, root));
    Ok(picture)
}

/// Points in MiB, and in percent beyond the time of keeping all activations.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn places(points: &[Point], costs: &Costs, seconds: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let more = |point| (seconds(point) / costs.keep_all_seconds() - 1.0) * 100.0;
    points.iter().map(|point| (point.bytes as f64 / f64::from(1 << 20), more(point))).collect()
}
