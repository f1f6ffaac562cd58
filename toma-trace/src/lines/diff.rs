//! Lines that keep more bytes than before.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::table::Lines;
use crate::place::Place;
use crate::sizes::Size;

/// The lines whose kept bytes have changed between two recordings, those that keep more first.
///
/// A line that keeps more in each recording of the same work leaks.
///
/// ```
/// use toma_trace::lines::Lines;
/// use toma_trace::{Label, Place, Recorder, ScopeKind, ThreadId, Trace};
///
/// let recorded = |blocks| {
///     let mut recorder = Recorder::new();
///     recorder.begin_scope(ThreadId(0), Label::new(ScopeKind::Function, "f").at("src/net.rs", 9));
///     recorder.begin_scope(ThreadId(0), Label::new(ScopeKind::Line, "log.push(loss);").at("src/net.rs", 10));
///     for _ in 0..blocks {
///         recorder.birth(ThreadId(0), &Place::HOST, 512).expect("few bytes");
///     }
///     Lines::of(&recorder.finish())
/// };
/// let diff = recorded(3).diff(&recorded(1));
/// assert_eq!(diff.rows()[0].bytes, 1024);
/// assert_eq!(diff.to_string(), "1.00K more on host at src/net.rs:10: log.push(loss);\n");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff(Vec<Change>);

/// A line that keeps more or less than before.
///
/// ```
/// use toma_trace::lines::Lines;
///
/// /// The line that keeps more after each epoch, if any.
/// fn leak(epoch: &Lines, earlier: &Lines) -> Option<String> {
///     let diff = epoch.diff(earlier);
///     let more = diff.rows().iter().find(|change| change.bytes > 0)?;
///     Some(format!("{}: {} keeps {} bytes more", more.line, more.text, more.bytes))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The device whose bytes are kept.
    pub place: Place,
    /// File and number of the line, or `no line`.
    pub line: String,
    /// The text of the line.
    pub text: String,
    /// Number of additional bytes that it keeps; negative if it keeps less.
    pub bytes: i128,
}

impl Lines {
    /// Returns the change of each line's kept bytes since an earlier recording. Lines are identified by file
    /// and number.
    #[must_use]
    pub fn diff(&self, earlier: &Self) -> Diff {
        let mut more = BTreeMap::new();
        for (sign, lines) in [(1, self), (-1, earlier)] {
            for (line, text, row) in lines.positions() {
                for (place, device) in lines.places() {
                    let kept = row.devices.get(&device).map_or(0, |figures| figures.kept);
                    *more.entry((place, line.clone(), text)).or_insert(0) += sign * i128::from(kept);
                }
            }
        }
        more.retain(|_, bytes| *bytes != 0);
        let changes = more.into_iter();
        let mut changes: Vec<_> = changes
            .map(|((place, line, text), bytes)| Change {
                place: place.clone(),
                line,
                text: text.to_owned(),
                bytes,
            })
            .collect();
        changes.sort_by_key(|change| Reverse(change.bytes));
        Diff(changes)
    }
}

impl Diff {
    /// Returns the lines, those that keep more first.
    #[must_use]
    pub fn rows(&self) -> &[Change] {
        &self.0
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("every line keeps what it kept\n");
        }
        for Change { place, line, text, bytes } in &self.0 {
            let (size, than) = (Size(bytes.abs()), if *bytes > 0 { "more" } else { "less" });
            let colon = if text.is_empty() { "" } else { ": " };
            writeln!(f, "{size} {than} on {place} at {line}{colon}{}", text.trim())?;
        }
        Ok(())
    }
}
