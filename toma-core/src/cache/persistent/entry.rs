//! An entry of a file, for people and programs that look into it.

use std::fmt;

use super::history::CallRecord;
use super::key::CallKey;
use crate::cache::Remembered;
use crate::text::bytes;

/// One entry of a [`PersistentCache`](crate::PersistentCache), for inspection.
///
/// It shows the evidence as it is; a call that starts from it keeps some head-room.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct PersistentEntry {
    /// The name of the call: its `name` option, the path of an annotated function, or `file:line`.
    pub name: String,
    /// File, line and column of the annotated function or the inline form.
    pub place: Option<String>,
    /// The version of the crate that an annotated function is in.
    pub crate_version: Option<String>,
    /// The program that an inline form is in.
    pub program: Option<String>,
    /// A number that stands for the `key` option; 0 without one.
    pub key: u64,
    /// The name of the memory source.
    pub device: String,
    /// Total bytes of the memory source, rounded down to six binary digits, if they could be read.
    pub total_bytes: Option<u64>,
    /// What all runs together have learned, at the lowest level of free memory.
    pub remembered: Remembered,
}

impl PersistentEntry {
    pub(super) fn new(key: &CallKey, history: &CallRecord) -> Option<Self> {
        let CallKey { name, place, crate_version, program, key, device, total_bytes } = key.clone();
        let (key, remembered) = (key.map_or(0, |key| key.0), history.evidence.says(None)?);
        Some(Self { name, place, crate_version, program, key, device, total_bytes, remembered })
    }
}

impl fmt::Display for PersistentEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: size {} on {}", self.name, self.remembered.settled, self.device)?;
        if let Some(total_bytes) = self.total_bytes {
            write!(f, " of {}", bytes(total_bytes))?;
        }
        let parts = [
            self.place.clone(),
            self.crate_version.as_ref().map(|version| format!("version {version}")),
            self.program.as_ref().map(|program| format!("in {program}")),
            (self.key != 0).then(|| format!("key {:#018x}", self.key)),
        ];
        parts.into_iter().flatten().try_for_each(|part| write!(f, ", {part}"))
    }
}
