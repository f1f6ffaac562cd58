//! Numbers and texts as bytes, for the messages between ranks.

/// Writes the format that [`Reader`] reads.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn size(&mut self, size: usize) {
        self.number(size as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.size(text.len());
        self.0.extend(text.as_bytes());
    }
}

/// The bytes still to read. Reading returns `None` when they end too early.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let length = self.size()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Reads a list that is preceded by its length.
    pub(super) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        (0..self.number()?).map(|_| one(self)).collect()
    }
}
