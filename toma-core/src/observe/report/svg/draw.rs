//! Draws curves with plotters.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::curve::Curve;
use super::plane::{Plane, x_label};

/// Pixels. `PLOT` of them in the width are for the curves; a long legend makes the picture higher.
const WIDTH: u32 = 960;
const PLOT: u32 = 680;
const HEIGHT: u32 = 480;
/// Distance from one line of the legend to the next, and from the top to the first.
const LINE: i32 = 22;
const TOP: i32 = 28;

/// Distinguishable without red, without green and in gray: the colors of Okabe and Ito.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];
const GRID: RGBColor = RGBColor(225, 225, 225);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'b, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(super) fn draw(picture: &mut String, title: &str, plane: &Plane, curves: &[Curve]) -> Drawn {
    let lines: u32 = curves.iter().map(lines).sum();
    let height = HEIGHT.max((lines + 3) * LINE.unsigned_abs());
    let root = SVGBackend::with_string(picture, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let below = root.margin(8, 0, 0, 0).titled(title, ("sans-serif", 19))?;
    let (left, right) = below.split_horizontally(PLOT);
    plot(&left, plane, curves)?;
    legend(&right, curves)?;
    root.present()
}

fn plot(area: &Area<'_>, plane: &Plane, curves: &[Curve]) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(76)
        .build_cartesian_2d(plane.x_range(), plane.y_range())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .x_labels(plane.x_labels())
        .y_labels(plane.y_labels())
        .x_label_formatter(&|&x| x_label(x))
        .y_label_formatter(&|&y| plane.y_label(y))
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 17))
        .x_desc(plane.x_title())
        .y_desc(plane.y_title())
        .draw()?;
    // The first curves are the widest, so that a curve behind another one is seen.
    let widths = (0..curves.len()).rev().map(|behind| 2 + 2 * u32::try_from(behind).unwrap_or(0).min(4));
    let mut colored = curves.iter().zip(COLORS.iter().cycle()).zip(widths);
    colored.try_for_each(|((curve, color), width)| draw_curve(&mut chart, curve, color.stroke_width(width)))
}

fn draw_curve(chart: &mut Chart<'_, '_>, curve: &Curve, style: ShapeStyle) -> Drawn {
    let Curve { points, failures, settled, .. } = curve;
    chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
    chart.draw_series(failures.iter().map(|&at| failure(at)))?;
    let radius = 4 + style.stroke_width / 2;
    chart.draw_series(settled.iter().map(|&at| Circle::new(at, radius, style.filled())))?;
    Ok(())
}

/// A cross in black, which is visible on every color.
fn failure<C>(at: C) -> Cross<C, i32> {
    Cross::new(at, 5, BLACK.stroke_width(2))
}

/// Draws the legend of the curves and marks, one line below the other.
fn legend(area: &Area<'_>, curves: &[Curve]) -> Drawn {
    let mut y = TOP;
    for (curve, color) in curves.iter().zip(COLORS.iter().cycle()) {
        let line = PathElement::new(vec![(4, y), (28, y)], color.stroke_width(3));
        area.draw(&line)?;
        write_line(area, &mut y, curve.label.clone())?;
        if !curve.settled.is_empty() {
            area.draw(&Circle::new((16, y), 5, color.filled()))?;
            write_line(area, &mut y, curve.remembers.clone())?;
        }
        if curve.out_of_memory > 0 {
            area.draw(&failure((16, y)))?;
            write_line(area, &mut y, format!("out of memory: {}", curve.out_of_memory))?;
        }
        y += LINE / 3;
    }
    Ok(())
}

/// Writes a line of the legend next to its mark, and moves to the next line.
fn write_line(area: &Area<'_>, y: &mut i32, text: String) -> Drawn {
    area.draw(&Text::new(text, (36, *y - 6), ("sans-serif", 16)))?;
    *y += LINE;
    Ok(())
}

/// Returns the largest number of lines that a curve takes in the legend.
fn lines(curve: &Curve) -> u32 {
    2 + u32::from(!curve.settled.is_empty()) + u32::from(curve.out_of_memory > 0)
}
