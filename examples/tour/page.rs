//! One page with the table and the drawings, which needs no other file.

use std::fs;
use std::path::Path;

use toma::report;
use toma::torch::checkpoint::Costs;
use toma::torch::profile::Recording;

use crate::Result;
use crate::curve::curve;
use crate::table::{COLUMNS, Row};
use crate::way::Way;

/// Contents of the page.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) rows: &'a [Row],
    /// Notes on the rows, in addition to their figures.
    pub(crate) notes: &'a str,
    pub(crate) costs: &'a Costs,
}

impl Page<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// When the file cannot be written, with its name, and when there is nothing to draw.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let recording = self.rows.iter().find_map(|row| row.learned.recording.as_ref());
        let (profile, curve) = (profile(recording.ok_or("no step was profiled")?)?, curve(self.costs)?);
        fs::write(path, self.html(&profile, &curve))
            .map_err(|error| format!("--html {}: {error}", path.display()).into())
    }

    fn html(&self, profile: &str, curve: &str) -> String {
        let [title, notes, profile] = [self.title, self.notes.trim(), profile].map(escaped);
        let (columns, rows) = (line("th", COLUMNS), self.rows.iter().map(|row| line("td", row.cells())));
        let (rows, sizes) = (rows.collect::<String>(), sizes(self.rows));
        format!(
            r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 2em; max-width: 80em }}
th, td {{ padding: 0.2em 1em; text-align: right }}
th:first-child, td:first-child {{ text-align: left }}
iframe {{ width: 100%; height: 60em; border: 1px solid #ccc }}
</style>
</head>
<body>
<h1>{title}</h1>
<table>
{columns}{rows}</table>
<pre>{notes}</pre>
<h2>Images in a piece, over attempts</h2>
{sizes}
<h2>The last step, line by line</h2>
<iframe title="profile" srcdoc="{profile}"></iframe>
<h2>Checkpoints: bytes for time</h2>
<p>Each point is a plan; no plan is below the gray line.</p>
{curve}
</body>
</html>
"#
        )
    }
}

/// One line of the table, of cells of this kind.
fn line(kind: &str, cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let cells = cells.into_iter().map(|cell| format!("<{kind}>{}</{kind}>", escaped(cell.as_ref())));
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

/// Escapes text for HTML, also within quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;").replace('"', "&#34;")
}

/// Sizes of the ways that completed. The profiled one is like the predicted one.
fn sizes(rows: &[Row]) -> String {
    let drawn = rows.iter().filter(|row| row.learned.ended.is_none() && row.stop.way != Way::Profile);
    report::svg(drawn.flat_map(|row| &row.learned.reports))
}

/// The profiler's own page, which is embedded in this one.
fn profile(recording: &Recording) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("profile.html");
    recording.write_html(&path)?;
    Ok(fs::read_to_string(path)?)
}
