//! Results on standard output.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use crate::Result;

/// Prints a line.
///
/// That nobody reads it, as after `| head`, is no error and ends no work: there may be a file to
/// write and a check to fail.
pub(crate) fn say(line: fmt::Arguments<'_>) -> Result<()> {
    say_to(&mut io::stdout().lock(), line)
}

fn say_to(out: &mut impl Write, line: fmt::Arguments<'_>) -> Result<()> {
    match out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}").into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_reader_who_has_left_is_no_error() {
        let mut out = Vec::new();
        say_to(&mut out, format_args!("one {}", 1)).unwrap();
        assert_eq!(out, b"one 1\n");
        say_to(&mut Broken(ErrorKind::BrokenPipe), format_args!("two")).unwrap();
        let error = say_to(&mut Broken(ErrorKind::StorageFull), format_args!("three")).unwrap_err();
        assert_eq!(error.to_string(), "standard output: no storage space");
    }
}
