//! The whole tour: the table, what its rows say besides, and the page.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use bytesize::ByteSize;
use tch::Kind;
use toma::torch::checkpoint;
use toma::torch::profile::{Column, Recording};

use crate::data::{Data, Set};
use crate::learning::{REGION, learn};
use crate::table::{COLUMNS, Row, TOLERANCE, line};
use crate::way::{Room, STOPS, Stop, Way};
use crate::{Arguments, Result, page};

pub(crate) fn show(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    let batches = batches(arguments)?;
    let Arguments { batch, steps, .. } = arguments;
    let title = format!("Digits are learned in {steps} steps of {batch} images, in each way");
    writeln!(to, "{title}. Bytes are those beside the data.\n\n{}", line(&COLUMNS))?;
    let mut rows: Vec<Row> = Vec::new();
    for stop in &STOPS {
        let budget = arguments.budget_of(stop, rows.first());
        let learned = learn(stop.way, budget, &batches)?;
        let first = rows.first().map_or_else(|| learned.losses.clone(), |row| row.learned.losses.clone());
        let row = Row::new(stop, budget, learned, &first);
        writeln!(to, "{}", line(&row.cells()))?;
        row.check()?;
        rows.push(row);
    }
    writeln!(to, "\nLosses are equal bit for bit, in pieces within {TOLERANCE:e}.")?;
    rows.iter().try_for_each(|row| explain(row, to))?;
    let costs = checkpoint::with().name(REGION).known().ok_or("no region has run whole")?;
    let path = arguments.html.clone().map_or_else(beside_the_program, Ok)?;
    page::write(&title, &rows, &costs, &path)?;
    writeln!(to, "\nThe drawings are in {}", path.display())?;
    Ok(())
}

impl Arguments {
    /// A share of what the first row took.
    fn budget_of(&self, stop: &Stop, first: Option<&Row>) -> Option<u64> {
        let percent = match stop.room {
            Room::Unlimited => return None,
            Room::Budget => self.budget,
            Room::Tight => self.tight,
        };
        Some(first?.learned.peak_bytes / 100 * percent)
    }
}

/// The same for all ways.
fn batches(arguments: &Arguments) -> Result<Vec<Set>> {
    let data = Data::load(Kind::Float)?;
    tch::manual_seed(7);
    let size = arguments.batch.get();
    if data.training.len() < size {
        return Err(format!("--batch {size}: there are {} images", data.training.len()).into());
    }
    let batches = std::iter::repeat_with(|| data.training.batches(size)).flatten();
    Ok(batches.filter(|batch| batch.len() == size).take(arguments.steps.get()).collect())
}

fn beside_the_program() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("tour.html"))
}

/// What a row has to say besides its figures.
fn explain(row: &Row, to: &mut dyn Write) -> Result<()> {
    let learned = &row.learned;
    if let Some(ended) = &learned.ended {
        let budget = ByteSize(row.budget.unwrap_or_default());
        writeln!(to, "\n{} in {budget} ended with:\n  {ended}", row.stop.name)?;
    }
    if let Some(recording) = &learned.recording {
        writeln!(to, "\nThe line that holds the peak:\n{}", peak_line(recording)?.trim_end())?;
    }
    if let Some(region) = learned.region.as_ref().filter(|_| row.stop.way == Way::Checkpoint) {
        writeln!(to, "\nThe last step by checkpoints:\n{region}")?;
    }
    if let Some(moved) = &learned.moved {
        writeln!(to, "\nWhat left by the leanest plan, and came back:\n  {moved}")?;
    }
    Ok(())
}

/// The line whose tensors are most of the peak, with its row of the table under the head.
fn peak_line(recording: &Recording) -> Result<String> {
    let peak = recording.peak();
    let holdings = peak.holdings.ok_or("events are missing")?;
    let mut lines = BTreeMap::<&str, u64>::new();
    for held in holdings.held() {
        if let Some((_, line)) = held.name.split_once(" @ ") {
            *lines.entry(line).or_default() += held.bytes;
        }
    }
    let (line, bytes) = lines.into_iter().max_by_key(|(_, bytes)| *bytes).ok_or("no line holds a byte")?;
    let rows = rows_of(recording, line);
    Ok(format!("  {line} holds {} of {}\n{rows}", ByteSize(bytes), ByteSize(peak.bytes)))
}

/// Head and row; all lines are of one file, so the number tells which.
fn rows_of(recording: &Recording, line: &str) -> String {
    let columns = [Column::Peak, Column::Rise, Column::Backward];
    let number = line.rsplit(':').next();
    let table = recording.lines().function("forward").columns(columns).to_string();
    let is_shown = |row: &&str| {
        let mut words = row.split_whitespace().skip(columns.len());
        words.next().is_some_and(|word| word == "line" || Some(word) == number)
    };
    table.lines().filter(is_shown).map(|row| format!("  {row}\n")).collect()
}
