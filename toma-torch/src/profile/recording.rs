use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use toma_plan::caching::{self, Settings};
use toma_trace::counting::{Counted, Living, Replayed};
use toma_trace::holdings::{Catalog, Holdings, Names};
use toma_trace::lines::{Diff, Lines, NoEvents};
use toma_trace::write;
use toma_trace::{Place, Size, Trace};

use super::named::Named;
use crate::error::{Error, ErrorKind};
use crate::ffi;
use crate::notes::{self, Noted};

/// What was recorded.
#[derive(Clone)]
pub struct Recording {
    lines: Lines,
    peak: Peak,
    events: Option<Arc<Events>>,
}

/// What lives as a recording ends, and what has a name.
pub(super) struct Found {
    living: Vec<(u32, Living)>,
    names: Vec<Noted>,
}

impl Found {
    /// On the devices of a recording.
    pub(super) fn now(named: &Named, counted: &Counted) -> Self {
        let mut living = Vec::new();
        for (device, _) in (0..).zip(counted.places()) {
            ffi::each_block(device, |block| living.push((device, block)));
        }
        let variables = named.now().into_iter().map(|(address, (category, name))| Noted {
            address,
            owner: ffi::owner_at(address),
            category,
            name,
        });
        Self { living, names: variables.chain(notes::all_noted()).collect() }
    }
}

/// All in order.
struct Events {
    trace: Arc<Trace>,
    lost: u64,
    names: Names,
    catalog: OnceLock<Catalog>,
}

impl Recording {
    pub(super) fn of(counted: &Counted, Found { living, names }: Found) -> Self {
        let events = counted.replay(living).map(|replayed| Arc::new(Events::of(replayed, names)));
        let lines = counted.lines();
        let lines = match &events {
            Some(events) => lines.traced(Arc::clone(&events.trace), as_cuda),
            None => lines,
        };
        Self { lines, peak: Peak::of(counted), events }
    }

    /// What each line did, in the order of the source.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// All that happened, in order; with [`Depth::Events`](super::Depth::Events).
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        Some(&self.events.as_ref()?.trace)
    }

    /// Events that were too many to be kept: the [trace](Self::trace) begins after them.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.lost)
    }

    /// The most bytes there were, where, and with [`Depth::Events`](super::Depth::Events) of what.
    #[must_use]
    pub fn peak(&self) -> Peak {
        let place = &self.peak.place;
        let at_peak = |events: &Arc<Events>| Holdings::at_peak(&events.trace, events.catalog(), place);
        // What was lost may have been the peak.
        let events = self.events.as_ref().filter(|events| events.lost == 0);
        Peak { holdings: events.map(at_peak), ..self.peak.clone() }
    }

    /// What lines keep more than in an earlier recording of the same work: those that do each time leak.
    #[must_use]
    pub fn diff(&self, earlier: &Self) -> Diff {
        self.lines.diff(&earlier.lines)
    }

    /// Writes the tables for people: the peak, the lines, and with [`Depth::Events`](super::Depth::Events) what is
    /// alive at the end.
    ///
    /// # Errors
    /// When the file cannot be written, which names it.
    pub fn write_text(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        to_file(path.as_ref(), |file| match self.events.as_deref() {
            Some(events) => write::text(&events.trace, events.catalog(), &self.lines, file),
            None => write!(file, "{self}\n{}", self.lines),
        })
    }

    /// Writes one page with the tables, the bytes over time and what the peak is made of. It needs no other file, no
    /// script and no network.
    ///
    /// # Errors
    /// This and the two below: when the file cannot be written, which names it, and without
    /// [`Depth::Events`](super::Depth::Events).
    pub fn write_html(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let events = self.events("write_html")?;
        let title = path.as_ref().file_stem().unwrap_or_default().display().to_string();
        to_file(path.as_ref(), |file| write::html(&events.trace, events.catalog(), &self.lines, &title, file))
    }

    /// Writes a snapshot for [pytorch.org/memory_viz](https://pytorch.org/memory_viz).
    ///
    /// # Errors
    /// As [`write_html`](Self::write_html).
    pub fn write_memory_viz(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let events = self.events("write_memory_viz")?;
        to_file(path.as_ref(), |file| write::memory_viz(&events.trace, events.catalog(), file))
    }

    /// Writes intervals and bytes for [ui.perfetto.dev](https://ui.perfetto.dev): an event is a microsecond.
    ///
    /// # Errors
    /// As [`write_html`](Self::write_html).
    pub fn write_perfetto(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let events = self.events("write_perfetto")?;
        to_file(path.as_ref(), |file| write::perfetto(&events.trace, file))
    }

    fn events(&self, asked: &'static str) -> Result<&Events, Error> {
        let missing = || Error::new(ErrorKind::Unsupported, NoEvents::of(asked).to_string());
        self.events.as_deref().ok_or_else(missing)
    }
}

fn as_cuda(trace: &Trace) -> Lines {
    caching::as_cuda(trace, Settings::new(u64::MAX))
}

pub(super) fn to_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Error> {
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()
    });
    written.map_err(|error| Error::new(ErrorKind::Other, format!("{}: {error}", path.display())))
}

impl Events {
    fn of(replayed: Replayed, found: Vec<Noted>) -> Self {
        let mut names = Names::new();
        for Noted { address, owner, category, name } in found {
            if let Some(storage) = replayed.storage(address, owner) {
                names.name(storage, category, &name);
            }
        }
        Self { trace: Arc::new(replayed.trace), lost: replayed.lost, names, catalog: OnceLock::new() }
    }

    fn catalog(&self) -> &Catalog {
        self.catalog.get_or_init(|| Catalog::of(&self.trace, &self.names))
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("lines", &self.lines)
            .field("lost", &self.lost_events())
            .finish_non_exhaustive()
    }
}

/// The headline, and what the peak is of.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.lost_events();
        if lost > 0 {
            writeln!(f, "the first {lost} events were too many to be kept")?;
        }
        self.peak().fmt(f)
    }
}

/// The most bytes that one device held while something was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// The device: that with the most bytes.
    pub place: Place,
    /// The bytes.
    pub bytes: u64,
    /// File and number of the line that reached it. In a backward it is the line of the operator whose gradient was
    /// computed, if that is recorded. In no line it is the attempt or phase, such as `size 8 of work`, if there was one.
    pub line: Option<String>,
    /// What it was of, if that is known.
    pub holdings: Option<Holdings>,
}

impl Peak {
    fn of(counted: &Counted) -> Self {
        let of_device = |(device, place): (u8, &Place)| {
            let (bytes, line) = counted.peak(device);
            Self { place: place.clone(), bytes, line, holdings: None }
        };
        let highest = (0..).zip(counted.places()).map(of_device).max_by_key(|peak| peak.bytes);
        highest.unwrap_or(Self { place: Place::HOST, bytes: 0, line: None, holdings: None })
    }
}

impl fmt::Display for Peak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line.as_ref().map_or_else(String::new, |line| format!(" at {line}"));
        writeln!(f, "peak of {} on {}{line}", Size::of(self.bytes), self.place)?;
        self.holdings.as_ref().map_or(Ok(()), |holdings| holdings.fmt(f))
    }
}
