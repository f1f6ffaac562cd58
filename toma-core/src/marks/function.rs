//! What a marked function knows of itself.

use std::num::NonZeroU32;

use super::column::Column;

/// A function under `#[toma::profile]`: where it stands, and the text of its lines.
///
/// The text is in the program, so that tables need no source files.
#[derive(Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name, or the one that the attribute gives it.
    pub name: &'static str,
    /// The path of its module.
    pub module: &'static str,
    /// Its file, as the compiler names it.
    pub file: &'static str,
    /// After how many calls each its table is printed.
    pub every: Option<NonZeroU32>,
    /// The columns of that table; the usual ones if there are none here.
    pub columns: &'static [Column],
    /// In the order of the file. The first is the signature; marks name the others by their place here.
    pub lines: &'static [Line],
}

/// A line of a function, as it stands in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: u32,
    /// Its text, without the indentation that all lines of the function share.
    pub text: &'static str,
}

impl Function {
    /// A function without options.
    #[must_use]
    pub const fn new(
        name: &'static str,
        module: &'static str,
        file: &'static str,
        lines: &'static [Line],
    ) -> Self {
        Self { name, module, file, every: None, columns: &[], lines }
    }

    /// Its name with its modules.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }

    /// Its file without detours: `examples/net.rs` for `core/../examples/net.rs`.
    #[must_use]
    pub fn shown_file(&self) -> String {
        let mut parts = Vec::<&str>::new();
        for part in self.file.split('/') {
            let goes_back =
                part == ".." && parts.last().is_some_and(|last| *last != ".." && !last.is_empty());
            if goes_back {
                parts.pop();
            } else {
                parts.push(part);
            }
        }
        parts.join("/")
    }

    /// The same, with a table after every so many calls; 0 is never.
    #[must_use]
    pub const fn every(self, calls: u32) -> Self {
        Self { every: NonZeroU32::new(calls), ..self }
    }

    /// The same, with these columns.
    #[must_use]
    pub const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }
}

impl Line {
    /// A line with its number, from 1.
    #[must_use]
    pub const fn new(number: u32, text: &'static str) -> Self {
        Self { number, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_without_detours() {
        for (file, shown) in [
            ("src/net.rs", "src/net.rs"),
            ("core/../examples/net.rs", "examples/net.rs"),
            ("a/b/../../c/net.rs", "c/net.rs"),
            ("../net.rs", "../net.rs"),
            ("/../net.rs", "/../net.rs"),
        ] {
            let shown_file = Function::new("f", "m", file, &[]).shown_file();
            assert_eq!(shown_file, shown);
        }
    }
}
