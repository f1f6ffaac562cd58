//! The call and the memory that an entry is about, and an entry for inspection.

use std::env;
use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::cache::{Place, Remembered};
use crate::call_site::Site;
use crate::memory;
use crate::text::bytes;

/// A call and its memory, in values that mean the same in every process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CallKey {
    name: String,
    place: Option<String>,
    crate_version: Option<String>,
    program: Option<String>,
    key: u64,
    device: String,
    total_bytes: Option<u64>,
}

impl CallKey {
    pub(super) fn at(place: &Place<'_>) -> Self {
        let memory = place.device.unwrap_or(memory::Host::shared());
        let site = place.origin.site;
        let line = place.origin.caller.map(ToString::to_string);
        Self {
            name: place.name.to_string(),
            place: site.map_or(line, |site| Some(site.position())),
            crate_version: site.and_then(Site::version).map(Into::into),
            // The path of a function names its crate; `src/main.rs:7:5` may be a line of any program.
            program: if site.is_some() { None } else { PROGRAM.clone() },
            key: place.user,
            device: memory.name().into(),
            total_bytes: memory::recent(memory).map(|now| about(now.total_bytes)),
        }
    }

    /// True if both have the same name, key and memory, even if the lines of the program have moved.
    pub(super) fn is_namesake(&self, other: &Self) -> bool {
        (&self.name, self.key, &self.device, self.total_bytes)
            == (&other.name, other.key, &other.device, other.total_bytes)
    }
}

/// Rounds `bytes` down to six binary digits, in steps of at most about 3 %, so that a total that differs a little
/// from run to run, as limits of processes and containers do, usually stays one total.
fn about(bytes: u64) -> u64 {
    let rest = (u64::BITS - bytes.leading_zeros()).saturating_sub(6);
    bytes >> rest << rest
}

/// The file name of this program, without its extension; read once, because a rebuild may move the file away.
static PROGRAM: LazyLock<Option<String>> =
    LazyLock::new(|| Some(env::current_exe().ok()?.file_stem()?.to_string_lossy().into_owned()));

/// One entry of a [`PersistentCache`](crate::PersistentCache), for inspection.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{PersistentCache, classify::OutOfMemory, execute};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sizes.json");
/// let sizes = PersistentCache::at(&path);
/// execute::with::<PersistentCache>().cache(&sizes).name("resize").batch(256, |size| {
///     if size > 100 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// for entry in sizes.entries() {
///     println!("{entry}"); // resize: size 64 on host of 24.0 GiB, src/main.rs:5:61, in demo
/// }
/// # assert_eq!(sizes.entries()[0].remembered.settled, 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The evidence that was learned last.
    pub remembered: Remembered,
}

impl PersistentEntry {
    pub(super) fn new(call: &CallKey, remembered: Remembered) -> Self {
        let CallKey { name, place, crate_version, program, key, device, total_bytes } = call.clone();
        Self { name, place, crate_version, program, key, device, total_bytes, remembered }
    }
}

impl fmt::Display for PersistentEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: size {} on {}", self.name, self.remembered.settled, self.device)?;
        let parts = [
            self.total_bytes.map(|total_bytes| format!(" of {}", bytes(total_bytes))),
            self.place.as_ref().map(|place| format!(", {place}")),
            self.crate_version.as_ref().map(|version| format!(", version {version}")),
            self.program.as_ref().map(|program| format!(", in {program}")),
            (self.key != 0).then(|| format!(", key {:#018x}", self.key)),
        ];
        parts.iter().flatten().try_for_each(|part| f.write_str(part))
    }
}
