//! Errors in the messages to other ranks.

use std::time::Duration;

use super::Error;
use super::bytes::{Reader, Writer};

/// Writes an error for other ranks. Errors that concern one rank alone are sent as text.
pub(super) fn write(error: &Error, writer: &mut Writer) {
    match error {
        Error::Ended { rank, of, call, message } => {
            writer.number(0);
            writer.size(*rank);
            writer.size(*of);
            writer.text(call);
            writer.text(message);
        }
        Error::Missing { ranks, of, call, timeout } => {
            writer.number(1);
            writer.size(ranks.len());
            for rank in ranks {
                writer.size(*rank);
            }
            writer.size(*of);
            writer.text(call);
            writer.number(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        }
        Error::Differ { one, other } => {
            writer.number(2);
            for (rank, call) in [one, other] {
                writer.size(*rank);
                writer.text(call);
            }
        }
        Error::Busy { .. } | Error::Store(_) | Error::Invalid(_) => {
            writer.number(3);
            writer.text(&error.to_string());
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Option<Error> {
    Some(match reader.number()? {
        0 => Error::Ended {
            rank: reader.size()?,
            of: reader.size()?,
            call: reader.text()?,
            message: reader.text()?,
        },
        1 => Error::Missing {
            ranks: reader.list(Reader::size)?,
            of: reader.size()?,
            call: reader.text()?,
            timeout: Duration::from_millis(reader.number()?),
        },
        2 => Error::Differ { one: (reader.size()?, reader.text()?), other: (reader.size()?, reader.text()?) },
        3 => Error::Store(reader.text()?),
        _ => return None,
    })
}
