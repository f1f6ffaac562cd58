//! Tables of words and numbers, in columns.

use std::fmt::Write as _;

/// How the cells of a column stand: words to the left, numbers to the right.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// The rows in columns two spaces apart, one line each; the first row is the heading.
pub(crate) fn table<const N: usize>(align: [Align; N], rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    rows.iter().map(|row| line(align, widths, row)).collect()
}

fn line<const N: usize>(align: [Align; N], widths: [usize; N], row: &[String; N]) -> String {
    let mut line = String::new();
    for ((cell, width), align) in row.iter().zip(widths).zip(align) {
        // Writing to a string cannot fail.
        let _ = match align {
            Align::Left => write!(line, "{cell:<width$}  "),
            Align::Right => write!(line, "{cell:>width$}  "),
        };
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let rows = [["step", "seconds", "note"], ["fmt", "0.5", ""], ["doc-tests", "112.0", "ünï"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let text = table([Align::Left, Align::Right, Align::Left], &rows);
        assert_eq!(
            text,
            "step       seconds  note\n\
             fmt            0.5\n\
             doc-tests    112.0  ünï\n"
        );
    }

    #[test]
    fn no_rows_make_no_lines() {
        assert_eq!(table([Align::Left], &[]), "");
    }
}
