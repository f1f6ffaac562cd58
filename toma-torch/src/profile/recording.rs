use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use toma_plan::caching;
use toma_trace::counting::{Counted, Living, Replayed};
use toma_trace::holdings::{Catalog, Holdings, Names};
use toma_trace::lines::{Diff, Lines, NoEvents};
use toma_trace::write;
use toma_trace::{Place, Size, Trace};

use super::named::Named;
use crate::error::{Error, ErrorKind};
use crate::ffi;
use crate::notes::{self, Noted};

/// A finished recording.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::profile::{Profiler, Recording};
///
/// let profiling = Profiler::new().start()?;
/// let tensor = Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu));
/// let recording: Recording = profiling.finish();
/// assert!(recording.peak().bytes >= 1 << 20);
/// # drop(tensor);
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone)]
pub struct Recording {
    lines: Lines,
    peak: Peak,
    events: Option<Arc<Events>>,
}

/// Live blocks at the end of a recording, and the names of storages.
pub(super) struct EndState {
    living: Vec<(u32, Living)>,
    names: Vec<Noted>,
}

impl EndState {
    /// Reads them for the devices of a recording.
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

/// Recorded events in order.
struct Events {
    trace: Arc<Trace>,
    lost: u64,
    names: Names,
    catalog: OnceLock<Catalog>,
}

impl Recording {
    pub(super) fn of(counted: &Counted, EndState { living, names }: EndState) -> Self {
        let events = counted.replay(living).map(|replayed| Arc::new(Events::of(replayed, names)));
        let lines = counted.lines();
        let lines = match &events {
            Some(events) => lines.traced(Arc::clone(&events.trace), as_cuda),
            None => lines,
        };
        Self { lines, peak: Peak::of(counted), events }
    }

    /// Returns the figures of each line, in the order of the source.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Returns all events in order, with [`Depth::Events`](super::Depth::Events).
    #[must_use]
    pub fn trace(&self) -> Option<&Trace> {
        Some(&self.events.as_ref()?.trace)
    }

    /// Number of events that did not fit: the [trace](Self::trace) begins after them.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.lost)
    }

    /// Returns the peak: its bytes, device and line, and with [`Depth::Events`](super::Depth::Events) its holders.
    #[must_use]
    pub fn peak(&self) -> Peak {
        let place = &self.peak.place;
        let at_peak = |events: &Arc<Events>| Holdings::at_peak(&events.trace, events.catalog(), place);
        // The peak may lie in the lost events.
        let events = self.events.as_ref().filter(|events| events.lost == 0);
        Peak { holdings: events.map(at_peak), ..self.peak.clone() }
    }

    /// Returns the lines that keep more than in an earlier recording of the same work. A line that does so each time
    /// leaks.
    #[must_use]
    pub fn diff(&self, earlier: &Self) -> Diff {
        self.lines.diff(&earlier.lines)
    }

    /// Writes the tables as text: the peak, the lines, and with [`Depth::Events`](super::Depth::Events) the tensors
    /// that are live at the end.
    ///
    /// # Errors
    /// When the file cannot be written; the error names it.
    pub fn write_text(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        to_file(path.as_ref(), |file| match self.events.as_deref() {
            Some(events) => write::text(&events.trace, events.catalog(), &self.lines, file),
            None => write!(file, "{self}\n{}", self.lines),
        })
    }

    /// Writes one page with the tables, the bytes over time and the holders of the peak. It needs no other file, no
    /// script and no network.
    ///
    /// # Errors
    /// When the file cannot be written (the error names it), and without [`Depth::Events`](super::Depth::Events).
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

    /// Writes intervals and bytes for [ui.perfetto.dev](https://ui.perfetto.dev), where each event takes a microsecond.
    ///
    /// # Errors
    /// As [`write_html`](Self::write_html).
    pub fn write_perfetto(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let events = self.events("write_perfetto")?;
        to_file(path.as_ref(), |file| write::perfetto(&events.trace, file))
    }

    fn events(&self, requested: &'static str) -> Result<&Events, Error> {
        let missing = || Error::new(ErrorKind::Unsupported, NoEvents::of(requested).to_string());
        self.events.as_deref().ok_or_else(missing)
    }
}

fn as_cuda(trace: &Trace) -> Lines {
    caching::as_cuda(trace, u64::MAX)
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

/// Writes the number of lost events, if there are any, and the peak.
impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.lost_events();
        if lost > 0 {
            writeln!(f, "the first {lost} events were too many to be kept")?;
        }
        self.peak().fmt(f)
    }
}

/// The most bytes that one device held during a recording.
///
/// ```
/// use toma_torch::profile::Profiler;
///
/// let profiling = Profiler::new().start()?;
/// // ... steps ...
/// let peak = profiling.finish().peak();
/// println!("{} bytes on {}, at {}", peak.bytes, peak.place, peak.line.as_deref().unwrap_or("no line"));
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peak {
    /// The device with the most bytes.
    pub place: Place,
    /// The bytes.
    pub bytes: u64,
    /// File and number of the line that reached it. In a backward this is the line of the operator whose gradient was
    /// computed, if it is recorded. Outside of all lines it is the attempt or phase, such as `size 8 of work`, if any.
    pub line: Option<String>,
    /// Tensors that held these bytes, if they are known.
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
