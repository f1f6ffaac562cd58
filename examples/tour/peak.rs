//! The line of the program that holds most of the peak.

use std::collections::BTreeMap;
use std::io::Write;

use bytesize::ByteSize;
use toma::torch::profile::{Column, Holdings, Recording};

use crate::Result;

/// Writes the bytes that the line holds, and its row of the table under the head.
pub(crate) fn write_line(recording: &Recording, to: &mut dyn Write) -> Result<()> {
    let peak = recording.peak();
    let lines = by_line(peak.holdings.as_ref().ok_or("events are missing")?);
    let (line, bytes) = lines.into_iter().max_by_key(|(_, bytes)| *bytes).ok_or("no line holds a byte")?;
    writeln!(to, "  {line} holds {} of {}, data included", ByteSize(bytes), ByteSize(peak.bytes))?;
    let [head, row] = row(recording, line).ok_or_else(|| format!("{line} has no row"))?;
    writeln!(to, "  {head}\n  {row}")?;
    Ok(())
}

/// Bytes that the operators of each line have made.
fn by_line(holdings: &Holdings) -> BTreeMap<&str, u64> {
    let mut lines = BTreeMap::new();
    for held in holdings.held() {
        if let Some((_, line)) = held.name.split_once(" @ ") {
            *lines.entry(line).or_default() += held.bytes;
        }
    }
    lines
}

/// The last head before the row. Marked functions are all in one file, so the line number identifies the row.
fn row(recording: &Recording, line: &str) -> Option<[String; 2]> {
    let columns = [Column::Peak, Column::Rise, Column::Backward];
    let table = recording.lines().columns(columns).to_string();
    let number = line.rsplit(':').next();
    let word = |row: &str| row.split_whitespace().nth(columns.len()).map(str::to_owned);
    let at = table.lines().position(|row| word(row).as_deref() == number)?;
    let head = table.lines().take(at).filter(|row| word(row).as_deref() == Some("line")).last()?;
    Some([head.to_owned(), table.lines().nth(at)?.to_owned()])
}
