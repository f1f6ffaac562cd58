//! The text of a file: from entries, and back.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::history::{Book, CallRecord, MAX_ENTRIES};
use super::key::CallKey;
use crate::text::bytes;

/// What tells our files from others.
const FORMAT: &str = "toma size cache";

/// The version of the format. It moves when a reader of the old one would misunderstand the new one.
const VERSION: u64 = 1;

/// Bytes a file may have; none of ours is larger.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Why a text is none of ours.
#[derive(Debug)]
pub(super) enum Unfit {
    Corrupt(serde_json::Error),
    Foreign,
    Newer(u64),
    TooLarge,
}

/// Read before all else, so that the rest is read only of what is ours.
#[derive(Deserialize)]
struct Head {
    format: Option<serde_json::Value>,
    version: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Whole {
    format: String,
    version: u64,
    entries: Vec<EntryText>,
}

#[derive(Serialize, Deserialize)]
struct EntryText {
    #[serde(flatten)]
    key: CallKey,
    #[serde(flatten)]
    history: CallRecord,
}

/// The text of a file with as many of the newest entries as a file may hold.
pub(super) fn write(book: &mut Book) -> serde_json::Result<String> {
    let mut count = MAX_ENTRIES;
    loop {
        book.keep_newest(count);
        let text = write_all(book)?;
        if text.len() as u64 <= MAX_BYTES || count == 0 {
            return Ok(text);
        }
        count = book.histories.len() / 2;
    }
}

fn write_all(book: &Book) -> serde_json::Result<String> {
    let entry =
        |(key, history): (&CallKey, &CallRecord)| EntryText { key: key.clone(), history: history.clone() };
    let entries = book.histories.iter().map(entry).collect();
    let mut text = serde_json::to_string_pretty(&Whole { format: FORMAT.into(), version: VERSION, entries })?;
    text.push('\n');
    Ok(text)
}

/// The entries of a text; an empty one has none.
pub(super) fn read(text: &[u8]) -> Result<Book, Unfit> {
    if text.len() as u64 > MAX_BYTES {
        return Err(Unfit::TooLarge);
    }
    if text.is_empty() {
        return Ok(Book::default());
    }
    match version(text)? {
        VERSION => {}
        version if version > VERSION => return Err(Unfit::Newer(version)),
        _ => return Err(Unfit::Foreign),
    }
    let whole: Whole = serde_json::from_slice(text).map_err(Unfit::Corrupt)?;
    Ok(whole.entries.into_iter().map(|entry| (entry.key, entry.history)).collect())
}

/// The version of a text of ours.
fn version(text: &[u8]) -> Result<u64, Unfit> {
    let head: Head = serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Unfit::Foreign,
        _ => Unfit::Corrupt(error),
    })?;
    let is_ours = head.format.is_some_and(|format| format == FORMAT);
    head.version.filter(|_| is_ours).ok_or(Unfit::Foreign)
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(error) => write!(f, "is corrupt: {error}"),
            Self::Foreign => f.write_str("is no size cache"),
            Self::Newer(version) => {
                write!(f, "has format version {version}, and this program reads {VERSION}")
            }
            Self::TooLarge => write!(f, "is larger than {}", bytes(MAX_BYTES)),
        }
    }
}
