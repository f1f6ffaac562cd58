//! The input: lines, as many at a time as are sorted together.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::Result;

/// Lines that are sorted by length together. More would make batches hardly more uniform.
const LINES: usize = 65_536;

/// A window of long lines ends here.
const BYTES: usize = 64 << 20;

/// Some lines of the input, in order.
pub(crate) struct Window {
    /// The number of lines before it.
    pub(crate) before: usize,
    /// Without their ends; empty ones too.
    pub(crate) lines: Vec<String>,
}

/// Reads an input window by window, so that it may be longer than memory.
pub(crate) struct Windows<R> {
    input: R,
    name: String,
    read: usize,
}

impl Windows<Box<dyn BufRead>> {
    /// A file, or standard input where the path is `-`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Ok(Self::new(Box::new(io::stdin().lock()), "standard input"));
        }
        let name = format!("input {}", path.display());
        let file = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self::new(Box::new(BufReader::new(file)), name))
    }
}

impl<R: BufRead> Windows<R> {
    pub(crate) fn new(input: R, name: impl Into<String>) -> Self {
        Self { input, name: name.into(), read: 0 }
    }

    fn window(&mut self) -> Result<Window> {
        let mut window = Window { before: self.read, lines: Vec::new() };
        let mut bytes = 0;
        while window.lines.len() < LINES && bytes < BYTES {
            let Some(line) = self.line()? else { break };
            bytes += line.len();
            window.lines.push(line);
        }
        Ok(window)
    }

    fn line(&mut self) -> Result<Option<String>> {
        let mut bytes = Vec::new();
        let number = self.read + 1;
        let length = self
            .input
            .read_until(b'\n', &mut bytes)
            .map_err(|error| format!("{}, line {number}: {error}", self.name))?;
        if length == 0 {
            return Ok(None);
        }
        self.read = number;
        let end = bytes
            .strip_suffix(b"\n")
            .map_or(bytes.len(), |line| line.strip_suffix(b"\r").unwrap_or(line).len());
        bytes.truncate(end);
        let line = String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to() + 1;
            format!("{}, line {number}: not UTF-8 from byte {place} of the line on", self.name)
        })?;
        Ok(Some(line))
    }
}

impl<R: BufRead> Iterator for Windows<R> {
    type Item = Result<Window>;

    fn next(&mut self) -> Option<Result<Window>> {
        self.window().map(|window| Some(window).filter(|window| !window.lines.is_empty())).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<String> {
        Windows::new(text, "text").flat_map(|window| window.unwrap().lines).collect()
    }

    #[test]
    fn every_line_counts_and_loses_only_its_end() {
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines(b"\n"), [""]);
        assert_eq!(lines(b"a\n\n b \r\nc"), ["a", "", " b ", "c"]);
        assert_eq!(lines(b"a\r\rb\r\n\r"), ["a\r\rb", "\r"]);
    }

    #[test]
    fn windows_follow_each_other_without_a_gap() {
        let text = "line\n".repeat(2 * LINES + 1);
        let windows: Vec<Window> = Windows::new(text.as_bytes(), "text").map(Result::unwrap).collect();
        let sizes: Vec<_> = windows.iter().map(|window| (window.before, window.lines.len())).collect();
        assert_eq!(sizes, [(0, LINES), (LINES, LINES), (2 * LINES, 1)]);
    }

    #[test]
    fn long_lines_end_a_window_early() {
        let text = format!("{}\nshort", "x".repeat(BYTES));
        let windows: Vec<Window> = Windows::new(text.as_bytes(), "text").map(Result::unwrap).collect();
        assert_eq!((windows.len(), windows[1].before, &*windows[1].lines[0]), (2, 1, "short"));
    }

    #[test]
    fn what_is_not_utf8_is_named_by_line_and_byte() {
        let error = Windows::new(&b"good\nba\xffd\n"[..], "text").next().unwrap().err().unwrap();
        assert_eq!(error.to_string(), "text, line 2: not UTF-8 from byte 3 of the line on");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Windows::open(Path::new("no/such/file")).err().unwrap().to_string();
        assert!(error.starts_with("input no/such/file: "), "{error}");
    }
}
