//! Runs a piece of work under the profiler, and shows the recording.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytesize::ByteSize;
use toma::observe::{Event, EventKind, Observer};
use toma::report;
use toma::torch::cpu::Budget;
use toma::torch::profile::{Column, Depth, Peak, Profiler, Recording, Stocktaking};

use crate::Result;

/// Work that is profiled.
pub(crate) trait Work {
    /// Description of the work, a sentence without an end.
    fn about(&self) -> String;

    /// Name of its items.
    fn items(&self) -> &'static str;

    /// A profiler that knows the names of its tensors.
    fn profiler(&self) -> Profiler;

    /// Does the whole work, in pieces that fit.
    fn run(&mut self, observer: &dyn Observer) -> Result<()>;

    /// The live tensors, by name.
    fn inventory(&self) -> Stocktaking;
}

/// The first failure, with its size.
#[derive(Default)]
struct First(Mutex<Option<(usize, String)>>);

impl Observer for First {
    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Failed { size, filled: Some(filled), .. } = event.kind {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| (size, filled.to_owned()));
        }
    }
}

impl First {
    fn take(self) -> Option<(usize, String)> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the work twice: the first run finds the size that works, and the second one is shown.
pub(crate) fn show(
    work: &mut dyn Work,
    budget: ByteSize,
    output: Option<&Path>,
    to: &mut dyn Write,
) -> Result<()> {
    if let Some(folder) = output {
        fs::create_dir_all(folder).map_err(|error| format!("output {}: {error}", folder.display()))?;
    }
    writeln!(to, "{}; tensors may take {budget} more.\n", work.about())?;
    let _budget = Budget::beyond_allocated(budget.as_u64());
    let mut profiling = work.profiler().depth(Depth::Events).start()?;
    let first = First::default();
    let done = work.run(&first);
    // Shown even if not one item fits.
    show_first(first.take(), work.items(), to)?;
    done?;
    profiling.clear();
    work.run(&|_: &Event<'_>| {})?;
    let size = report::last().map_or(0, |report| report.start);
    let inventory = work.inventory().take()?;
    let recording = profiling.finish();
    writeln!(to, "Memory of each line, with {size} {} at once:\n\n{}", work.items(), headline(&recording))?;
    writeln!(to, "{}", recording.lines().columns([Column::Peak, Column::Rise, Column::Hits]))?;
    writeln!(to, "Alive afterwards:\n\n{inventory}")?;
    output.map_or(Ok(()), |folder| write_files(&recording, folder, to))
}

fn show_first(first: Option<(usize, String)>, items: &str, to: &mut dyn Write) -> Result<()> {
    match first {
        Some((size, filled)) => {
            let filled = filled.trim_end();
            writeln!(to, "Holders of the full memory, with {size} {items} at once:\n\n{filled}\n")?;
        }
        None => writeln!(to, "It never ran out of memory.\n")?,
    }
    Ok(())
}

/// The peak of the headline; the table lists its holders.
fn headline(recording: &Recording) -> Peak {
    let mut peak = recording.peak();
    peak.holdings = None;
    peak
}

fn write_files(recording: &Recording, folder: &Path, to: &mut dyn Write) -> Result<()> {
    let path = |name: &str| folder.join(name);
    recording.write_text(path("profile.txt"))?;
    recording.write_html(path("profile.html"))?;
    recording.write_memory_viz(path("memory_viz.pickle"))?;
    recording.write_perfetto(path("perfetto.json"))?;
    writeln!(to, "Files of this recording:")?;
    let files = [
        ("profile.txt", "these tables"),
        ("profile.html", "the same with the bytes over time, for a browser"),
        ("memory_viz.pickle", "for pytorch.org/memory_viz"),
        ("perfetto.json", "for ui.perfetto.dev"),
    ];
    for (name, purpose) in files {
        writeln!(to, "  {}  {purpose}", path(name).display())?;
    }
    Ok(())
}
