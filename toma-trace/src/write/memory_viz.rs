//! A snapshot in the format of `torch.cuda.memory._dump_snapshot`.
//!
//! # Why
//!
//! Every block has a segment of its own, because a trace knows no addresses, and the page replays segments backwards.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::pickle::Pickler;
use super::stacks::{SourceFrame, stacks};
use crate::happenings::{Happening, happenings};
use crate::holdings::{Catalog, Category};
use crate::place::Place;
use crate::tables::{Block, Moment, Trace};
use crate::tick::Tick;

/// Minimum distance between addresses of blocks.
const GRAIN: u64 = 512;

/// Writes every birth and death of blocks with its lines, and the blocks that are alive at the end.
///
/// Each block has a segment and an address of its own. They are not the real ones, which belong to the allocator of a
/// device. CUDA devices keep their numbers, others get the numbers after them; the host is the last.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::holdings::{Catalog, Names};
/// use toma_trace::write;
///
/// let mut pickle = Vec::new(); // or a file
/// write::memory_viz(&trace, &Catalog::of(&trace, &Names::new()), &mut pickle)?;
/// assert!(!pickle.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of the writer.
pub fn memory_viz(trace: &Trace, catalog: &Catalog, to: impl Write) -> io::Result<()> {
    let snapshot = Snapshot::of(trace, catalog);
    Pickler::write(to, |pickler| {
        pickler.dict(|pickler| {
            pickler.text("segments")?;
            let alive = snapshot.rows.iter().filter(|row| row.block.death.is_none());
            pickler.list(alive, |pickler, row| row.segment(pickler))?;
            pickler.text("device_traces")?;
            pickler.list(0..snapshot.devices, |pickler, device| {
                let events = snapshot.events.iter().filter(|event| snapshot.rows[event.row].device == device);
                pickler.list(events, |pickler, event| snapshot.event(pickler, event))
            })?;
            pickler.text("allocator_settings")?;
            pickler.dict(|_| Ok(()))
        })
    })
}

struct Snapshot<'a> {
    rows: Vec<BlockRow<'a>>,
    events: Vec<BlockEvent>,
    devices: u64,
}

/// A block.
struct BlockRow<'a> {
    block: &'a Block,
    category: Category,
    device: u64,
    address: u64,
    /// Frames of the birth, innermost first. Empty for a block from before the trace.
    frames: Vec<SourceFrame<'a>>,
}

struct BlockEvent {
    action: &'static str,
    row: usize,
    tick: Tick,
}

impl<'a> Snapshot<'a> {
    fn of(trace: &'a Trace, catalog: &'a Catalog) -> Self {
        let numbers = device_numbers(trace);
        let mut rows = Vec::new();
        let mut address = GRAIN;
        for ((storage, block), stack) in trace.blocks().zip(stacks(trace)) {
            let category = catalog.category(storage);
            let mut frames =
                vec![SourceFrame { file: category.name(), line: 0, name: catalog.name(storage) }];
            frames.extend(stack);
            rows.push(BlockRow { block, category, device: numbers[&block.place], address, frames });
            address = address.saturating_add(rounded(block.bytes));
        }
        let devices = numbers.values().max().map_or(0, |last| last + 1);
        Self { rows, events: events(trace), devices }
    }

    fn event<W: Write>(&self, pickler: &mut Pickler<W>, event: &BlockEvent) -> io::Result<()> {
        let row = &self.rows[event.row];
        let is_segment = event.action.starts_with("segment");
        // The page shows the frames of the birth, or of the death if the birth was before the trace.
        let is_shown = event.action == "alloc" || (row.block.birth.is_none() && !is_segment);
        let frames = if is_shown { &row.frames[..] } else { &[] };
        pickler.dict(|pickler| {
            pickler.entry_text("action", event.action)?;
            pickler.entry_int("addr", row.address)?;
            pickler.entry_int("size", if is_segment { row.segment_bytes() } else { row.block.bytes })?;
            pickler.entry_int("stream", 0)?;
            pickler.entry_int("time_us", event.tick.count())?;
            // If there are categories, the page needs one of this name.
            pickler.entry_text("category", if is_segment { "unknown" } else { row.category.name() })?;
            pickler.text("frames")?;
            pickler.list(frames, write_frame)
        })
    }
}

fn events(trace: &Trace) -> Vec<BlockEvent> {
    let mut events = Vec::new();
    for (Moment { tick, .. }, happening) in happenings(trace) {
        let (row, actions): (_, &[_]) = match happening {
            Happening::Born(row) => (row, &["segment_alloc", "alloc"]),
            Happening::Dies(row) => (row, &["free_requested", "free_completed", "segment_free"]),
            _ => continue,
        };
        events.extend(actions.iter().map(|action| BlockEvent { action, row, tick }));
    }
    events
}

impl BlockRow<'_> {
    fn segment_bytes(&self) -> u64 {
        rounded(self.block.bytes)
    }

    /// Writes the segment of a live block, which it fills.
    fn segment<W: Write>(&self, pickler: &mut Pickler<W>) -> io::Result<()> {
        pickler.dict(|pickler| {
            pickler.entry_int("device", self.device)?;
            pickler.entry_int("address", self.address)?;
            for size in ["total_size", "allocated_size", "active_size"] {
                pickler.entry_int(size, self.segment_bytes())?;
            }
            pickler.entry_int("requested_size", self.block.bytes)?;
            pickler.entry_int("stream", 0)?;
            pickler.entry_text("segment_type", "large")?;
            pickler.text("segment_pool_id")?;
            pickler.pair(0, 0)?;
            pickler.text("is_expandable")?;
            pickler.bool(false)?;
            pickler.text("frames")?;
            pickler.list(&self.frames, write_frame)?;
            pickler.text("blocks")?;
            pickler.list([self], |pickler, row| row.living_block(pickler))
        })
    }

    fn living_block<W: Write>(&self, pickler: &mut Pickler<W>) -> io::Result<()> {
        pickler.dict(|pickler| {
            pickler.entry_int("address", self.address)?;
            pickler.entry_int("size", self.segment_bytes())?;
            pickler.entry_int("requested_size", self.block.bytes)?;
            pickler.entry_text("state", "active_allocated")?;
            pickler.text("frames")?;
            pickler.list(&self.frames, write_frame)
        })
    }
}

/// Parts of function names for which the page hides a frame: those of the C runtime and of its own unwinder.
const HIDDEN: [&str; 2] = ["_start", "unwind::unwind"];

/// Inserts a zero-width space into a name that the page would hide, such as `warm_start`.
fn never_hidden(name: &str) -> Cow<'_, str> {
    HIDDEN.iter().fold(Cow::Borrowed(name), |name, part| {
        let (first, rest) = part.split_at(1);
        if name.contains(part) { name.replace(part, &format!("{first}\u{200b}{rest}")).into() } else { name }
    })
}

fn write_frame<W: Write>(pickler: &mut Pickler<W>, frame: &SourceFrame<'_>) -> io::Result<()> {
    pickler.dict(|pickler| {
        pickler.entry_text("filename", frame.file)?;
        pickler.entry_int("line", frame.line.into())?;
        pickler.entry_text("name", &never_hidden(frame.name))
    })
}

/// Bytes of the segment around a block.
fn rounded(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
}

/// Indices from here on are replaced, because the page has a list for each number up to the highest one.
const MOST_DEVICES: u32 = 1024;

/// Returns the number of each place: CUDA devices below [`MOST_DEVICES`] keep their own, others get those after
/// them, and the host is the last.
fn device_numbers(trace: &Trace) -> BTreeMap<&Place, u64> {
    let mut numbers = BTreeMap::new();
    let mut next = 0;
    let (cuda, others): (Vec<_>, Vec<_>) = trace
        .places()
        .into_iter()
        .partition(|place| matches!(place.as_device(), Some(("cuda", index)) if index < MOST_DEVICES));
    for (place, (_, index)) in cuda.into_iter().filter_map(|place| Some((place, place.as_device()?))) {
        numbers.insert(place, index.into());
        next = u64::from(index) + 1;
    }
    // The host sorts first among all places, so it is last in reverse.
    for place in others.into_iter().rev() {
        numbers.insert(place, next);
        next += 1;
    }
    numbers
}
