//! Tables in notebooks of evcxr.

use std::fmt::Display;
use std::io::{self, Write};

use crate::write::escaped;

/// Adds the method that notebooks call to show a value: its text, unchanged.
macro_rules! shown_in_notebooks {
    ($($table:ty),*) => {$(
        impl $table {
            /// Shows itself in a notebook of evcxr, which calls this for the last value of a cell.
            pub fn evcxr_display(&self) {
                // If the notebook no longer reads, there is nobody to show anything to.
                let _ = show(self, &mut std::io::stdout().lock());
            }
        }
    )*};
}

shown_in_notebooks!(
    crate::lines::Lines,
    crate::lines::Diff,
    crate::holdings::Holdings,
    crate::holdings::Inventory
);

/// Writes at once, because other threads may print meanwhile and the marks need lines of their own.
fn show(table: &impl Display, to: &mut impl Write) -> io::Result<()> {
    let text = escaped(table);
    write!(to, "\nEVCXR_BEGIN_CONTENT text/html\n<pre>{text}</pre>\nEVCXR_END_CONTENT\n")?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::show;

    #[test]
    fn marks_stand_on_lines_of_their_own() {
        let mut shown = Vec::new();
        show(&"peak\n<1K>", &mut shown).unwrap();
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "\nEVCXR_BEGIN_CONTENT text/html\n<pre>peak\n&#60;1K&#62;</pre>\nEVCXR_END_CONTENT\n"
        );
    }
}
