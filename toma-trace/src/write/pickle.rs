//! Python's pickle format, protocol 2, of plain values.
//!
//! Readers outside of Python support only a part of it. So integers have at most eight bytes, lists grow by at most
//! 1,000 items at once, and a text is written once and then referenced.

use std::collections::HashMap;
use std::io::{self, Write};

/// Limit on the items that are added to a list or a dictionary at once.
const BATCH: usize = 1000;

const PROTOCOL_2: &[u8] = b"\x80\x02";
const STOP: &[u8] = b".";
const MARK: &[u8] = b"(";
const TRUE: &[u8] = b"\x88";
const FALSE: &[u8] = b"\x89";
const EMPTY_LIST: &[u8] = b"]";
const APPENDS: &[u8] = b"e";
const EMPTY_DICT: &[u8] = b"}";
const SETITEMS: &[u8] = b"u";
const TUPLE: &[u8] = b"t";
const BININT: &[u8] = b"J";
const LONG1: &[u8] = b"\x8a";
const BINUNICODE: &[u8] = b"X";
const LONG_BINPUT: &[u8] = b"r";
const LONG_BINGET: &[u8] = b"j";

/// Writes one pickle, value by value.
pub(super) struct Pickler<W> {
    to: W,
    /// Numbers of the texts that were written.
    texts: HashMap<String, u32>,
}

impl<W: Write> Pickler<W> {
    /// Writes the value that `value` emits, as the only one of a pickle.
    pub(super) fn write(to: W, value: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let mut pickler = Self { to, texts: HashMap::new() };
        pickler.to.write_all(PROTOCOL_2)?;
        value(&mut pickler)?;
        pickler.to.write_all(STOP)
    }

    pub(super) fn bool(&mut self, value: bool) -> io::Result<()> {
        self.to.write_all(if value { TRUE } else { FALSE })
    }

    /// Writes an integer. Values beyond a signed integer of eight bytes become the largest one.
    pub(super) fn int(&mut self, value: u64) -> io::Result<()> {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        if let Ok(small) = i32::try_from(value) {
            self.to.write_all(BININT)?;
            return self.to.write_all(&small.to_le_bytes());
        }
        self.to.write_all(LONG1)?;
        self.to.write_all(&[8])?;
        self.to.write_all(&value.to_le_bytes())
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(number) = self.texts.get(text) {
            self.to.write_all(LONG_BINGET)?;
            return self.to.write_all(&number.to_le_bytes());
        }
        let too_many =
            |_| io::Error::new(io::ErrorKind::FileTooLarge, "a pickle holds 4 GiB of a text at most");
        let (length, number) =
            (u32::try_from(text.len()).map_err(too_many)?, u32::try_from(self.texts.len()));
        let number = number.map_err(too_many)?;
        self.to.write_all(BINUNICODE)?;
        self.to.write_all(&length.to_le_bytes())?;
        self.to.write_all(text.as_bytes())?;
        self.to.write_all(LONG_BINPUT)?;
        self.to.write_all(&number.to_le_bytes())?;
        self.texts.insert(text.to_owned(), number);
        Ok(())
    }

    /// Writes two integers that belong together.
    pub(super) fn pair(&mut self, first: u64, second: u64) -> io::Result<()> {
        self.to.write_all(MARK)?;
        self.int(first)?;
        self.int(second)?;
        self.to.write_all(TUPLE)
    }

    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T) -> io::Result<()>,
    ) -> io::Result<()> {
        self.to.write_all(EMPTY_LIST)?;
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            self.to.write_all(MARK)?;
            items.by_ref().take(BATCH).try_for_each(|it| item(self, it))?;
            self.to.write_all(APPENDS)?;
        }
        Ok(())
    }

    /// Writes a dictionary of fewer entries than a batch, each a text and then a value.
    pub(super) fn dict(&mut self, entries: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        self.to.write_all(EMPTY_DICT)?;
        self.to.write_all(MARK)?;
        entries(self)?;
        self.to.write_all(SETITEMS)
    }

    pub(super) fn entry_int(&mut self, key: &str, value: u64) -> io::Result<()> {
        self.text(key)?;
        self.int(value)
    }

    pub(super) fn entry_text(&mut self, key: &str, value: &str) -> io::Result<()> {
        self.text(key)?;
        self.text(value)
    }
}
