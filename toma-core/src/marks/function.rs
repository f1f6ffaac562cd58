//! Static data of a marked function.

use std::num::NonZeroU32;

use super::column::Column;

/// A function under `#[toma::profile]`: its location, and the text of its lines.
///
/// The text is in the program, so that tables need no source files.
///
/// A listener names the function that it was called for:
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::marks::Function;
///
/// static STEP: Function = Function::new("step", "demo::train", "src/train.rs", &[]);
/// assert_eq!(STEP.path(), "demo::train::step");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Function {
    /// The function's name, or the one given in the attribute.
    pub name: &'static str,
    /// The path of its module.
    pub module: &'static str,
    /// The file, as the compiler names it.
    pub file: &'static str,
    /// Number of calls after each of which the function's table is printed; never if `None`.
    pub every: Option<NonZeroU32>,
    /// The columns of that table; the usual ones if empty.
    pub columns: &'static [Column],
    /// The lines in the order of the file. The first is the signature; marks refer to the others by their index here.
    pub lines: &'static [Line],
}

/// A line of a function, as it stands in the source.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::marks::{Function, Line};
///
/// /// Prints a function as a table prints it.
/// fn print(function: &Function) {
///     for Line { number, text, .. } in function.lines {
///         println!("{number:>5} {text}");
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The line's number in the file, from 1.
    pub number: u32,
    /// The line's text, without the indentation that all lines of the function share.
    pub text: &'static str,
}

impl Function {
    /// Returns a function without options.
    #[must_use]
    pub const fn new(
        name: &'static str,
        module: &'static str,
        file: &'static str,
        lines: &'static [Line],
    ) -> Self {
        Self { name, module, file, every: None, columns: &[], lines }
    }

    /// Returns the name with the modules.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }

    /// Returns the file without detours: `examples/net.rs` for `core/../examples/net.rs`.
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

    /// Sets the number of calls after which a table is printed; 0 is never.
    #[must_use]
    pub const fn every(self, calls: u32) -> Self {
        Self { every: NonZeroU32::new(calls), ..self }
    }

    /// Sets the columns of the table.
    #[must_use]
    pub const fn columns(self, columns: &'static [Column]) -> Self {
        Self { columns, ..self }
    }
}

impl Line {
    /// Returns a line with its number, from 1.
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
