//! The whole tour: the table, notes on its rows, and the page.

use std::io::Write;
use std::path::PathBuf;

use bytesize::ByteSize;
use toma::torch::checkpoint;

use crate::data::Set;
use crate::learning::{REGION, learn};
use crate::page::Page;
use crate::peak::write_line;
use crate::table::{COLUMNS, Row, TOLERANCE, line};
use crate::way::{Room, STOPS, Way};
use crate::{Arguments, Result, place};

pub(crate) fn show(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    let path = arguments.html.clone().map_or_else(beside_the_program, Ok)?;
    place::check("--html", &path)?;
    let batches = Set::fixed_batches(arguments.batch.get(), arguments.steps.get())?;
    let Arguments { batch, steps, .. } = arguments;
    let title = format!("Digits are learned in {steps} steps of {batch} images, in each way");
    writeln!(to, "{title}. Bytes are those beside the data.\n\n{}", line(&COLUMNS))?;
    let mut rows: Vec<Row> = Vec::new();
    for stop in &STOPS {
        let first = rows.first().map(|row| &row.learned);
        let budget = first.and_then(|first| arguments.budget(stop.room, first.peak_bytes));
        let row = Row::new(stop, budget, learn(stop.way, budget, &batches)?, first);
        writeln!(to, "{}", line(&row.cells()))?;
        row.check()?;
        rows.push(row);
    }
    let losses = &rows[0].learned.losses;
    let [first, last] = [losses.first(), losses.last()].map(|loss| loss.copied().unwrap_or(f64::NAN));
    writeln!(
        to,
        "\nLosses fall from {first:.3} to {last:.3}: equal bit for bit, and in pieces within {TOLERANCE:e}."
    )?;
    let mut notes = Vec::new();
    rows.iter().try_for_each(|row| explain(row, &mut notes))?;
    to.write_all(&notes)?;
    let costs = checkpoint::with().name(REGION).known().ok_or("no region has run whole")?;
    let page = Page { title: &title, rows: &rows, notes: &String::from_utf8(notes)?, costs: &costs };
    page.write(&path)?;
    writeln!(to, "\nThe drawings are in {}", path.display())?;
    Ok(())
}

impl Arguments {
    /// A share of the peak of the first row.
    fn budget(&self, room: Room, whole: u64) -> Option<u64> {
        match room {
            Room::Unlimited => None,
            Room::Budget => Some(whole * self.budget / 100),
            Room::Tight => Some(whole * self.tight / 100),
        }
    }
}

fn beside_the_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("tour.html"))
}

/// Writes notes on a row in addition to its figures.
fn explain(row: &Row, to: &mut dyn Write) -> Result<()> {
    let learned = &row.learned;
    if let Some(ended) = &learned.ended {
        let budget = ByteSize(row.budget.unwrap_or_default());
        writeln!(to, "\n{} in {budget} ended with:\n  {ended}", row.stop.name)?;
    }
    if let Some(recording) = &learned.recording {
        writeln!(to, "\nThe line that holds the peak:")?;
        write_line(recording, to)?;
    }
    if let Some(region) = learned.region.as_ref().filter(|_| row.stop.way == Way::Checkpoint) {
        writeln!(to, "\nThe last step by checkpoints:\n{region}")?;
    }
    if let Some(moved) = &learned.moved {
        writeln!(to, "\nEvictions and fetches of the leanest plan:\n  {moved}")?;
    }
    Ok(())
}
