//! The agreement of all ranks.

use std::fmt;

use super::bytes::{Reader, Writer};
use super::vote::{class_at, place};
use super::{Error, RankState, Vote, error};
use crate::classify::Class;

/// The agreement of all ranks, computed from their votes.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::Agreed;
///
/// /// The size at which all ranks continue.
/// fn size(agreed: &Agreed) -> usize {
///     if agreed.failed.is_some() { agreed.retry } else { agreed.next }
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The smallest size proposed in case all ranks succeeded; `usize::MAX` if no rank binds the others.
    pub next: usize,
    /// The smallest size proposed in case any rank failed.
    pub retry: usize,
    /// The failure of the rank with the smallest proposal, among the ranks on which the attempt failed.
    pub failed: Option<Elsewhere>,
    /// True if a failure was injected. Its consequences are remembered on no rank.
    pub injected: bool,
    /// True if no rank has anything more to do.
    pub done: bool,
}

/// A failure on another rank.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::Class;
/// use toma::ranks::Elsewhere;
///
/// let failure = Elsewhere { rank: 3, of: 8, class: Class::OutOfMemory };
/// assert_eq!(failure.to_string(), "out of memory on rank 3 of 8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The rank.
    pub rank: usize,
    /// Number of ranks.
    pub of: usize,
    /// The class of the failure.
    pub class: Class,
}

/// `out of memory on rank 3 of 8`.
impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, of, class } = self;
        write!(f, "{class} on rank {rank} of {of}")
    }
}

impl Agreed {
    /// Every rank continues with the size that all of them had.
    pub(super) fn ordinary(size: usize) -> Self {
        Self { next: size, retry: size, failed: None, injected: false, done: false }
    }

    /// Computes the agreement from the votes of all ranks, in their order.
    pub(super) fn of(votes: &[Vote]) -> Result<Self, Error> {
        if let Some(error) = ended(votes).or_else(|| differ(votes)) {
            return Err(error);
        }
        let smallest = |size: fn(&Vote) -> usize| votes.iter().map(size).min().unwrap_or(usize::MAX);
        let failed = votes.iter().enumerate().filter_map(|(rank, vote)| match vote.state {
            RankState::Failed(class) | RankState::Injected(class) => {
                Some((vote.retry, Elsewhere { rank, of: votes.len(), class }))
            }
            _ => None,
        });
        Ok(Self {
            next: smallest(|vote| vote.next),
            retry: smallest(|vote| vote.retry),
            failed: failed.min_by_key(|(retry, _)| *retry).map(|(_, elsewhere)| elsewhere),
            injected: votes.iter().any(|vote| matches!(vote.state, RankState::Injected(_))),
            done: votes.iter().all(|vote| vote.state == RankState::Done),
        })
    }
}

/// Returns the error of the first rank that has left the call.
fn ended(votes: &[Vote]) -> Option<Error> {
    votes.iter().enumerate().find_map(|(rank, vote)| match &vote.state {
        RankState::Ended(message) => {
            let (call, message) = (vote.subject.to_string(), message.clone());
            Some(Error::Ended { rank, of: votes.len(), call, message })
        }
        _ => None,
    })
}

/// Returns the error of the first rank whose subject differs from that of rank 0.
fn differ(votes: &[Vote]) -> Option<Error> {
    let (first, rest) = votes.split_first()?;
    let other = rest.iter().position(|vote| vote.subject != first.subject)?;
    Some(Error::Differ {
        one: (0, first.subject.to_string()),
        other: (other + 1, rest[other].subject.to_string()),
    })
}

pub(super) fn write(verdict: &Result<Agreed, Error>) -> Vec<u8> {
    let mut writer = Writer::default();
    match verdict {
        Err(error) => {
            writer.number(1);
            error::write(error, &mut writer);
        }
        Ok(Agreed { next, retry, failed, injected, done }) => {
            writer.number(0);
            writer.size(*next);
            writer.size(*retry);
            writer.number(u64::from(*done));
            writer.number(u64::from(*injected));
            writer.number(u64::from(failed.is_some()));
            if let Some(Elsewhere { rank, of, class }) = failed {
                writer.size(*rank);
                writer.size(*of);
                writer.number(place(*class));
            }
        }
    }
    writer.0
}

pub(super) fn read(bytes: &[u8]) -> Option<Result<Agreed, Error>> {
    let mut reader = Reader(bytes);
    if reader.number()? == 1 {
        return error::read(&mut reader).map(Err);
    }
    let (next, retry, done) = (reader.size()?, reader.size()?, reader.number()? == 1);
    let (injected, has_failed) = (reader.number()? == 1, reader.number()? == 1);
    let failed = if has_failed { Some(failed(&mut reader)?) } else { None };
    Some(Ok(Agreed { next, retry, failed, injected, done }))
}

fn failed(reader: &mut Reader<'_>) -> Option<Elsewhere> {
    Some(Elsewhere { rank: reader.size()?, of: reader.size()?, class: class_at(reader.number()?)? })
}
