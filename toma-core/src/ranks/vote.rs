//! The vote of one rank.

use std::borrow::Cow;
use std::fmt;

use super::bytes::{Reader, Writer};
use crate::classify::Class;

/// The subject of a vote. All ranks vote about the same subject, or the call ends.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::Subject;
///
/// let mut subject = Subject::new("batch", "train".to_owned());
/// subject.attempt = 2;
/// assert_eq!(subject.to_string(), "batch `train` after 2 attempts");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The form of the call: `batch`, `pieces`, `agree`.
    pub form: Cow<'static, str>,
    /// The name of the call.
    pub call: String,
    /// Number of attempts of the call that have ended.
    pub attempt: u64,
}

impl Subject {
    /// The subject at the beginning of a call.
    pub fn new(form: &'static str, call: String) -> Self {
        Self { form: Cow::Borrowed(form), call, attempt: 0 }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { form, call, attempt } = self;
        f.write_str(form)?;
        if !call.is_empty() {
            write!(f, " `{call}`")?;
        }
        if *attempt > 0 { write!(f, " after {attempt} attempts") } else { Ok(()) }
    }
}

/// The outcome of the attempt on a rank.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::Class;
/// use toma::ranks::RankState;
///
/// fn state(outcome: Result<(), Class>) -> RankState {
///     outcome.map_or_else(RankState::Failed, |()| RankState::Ready)
/// }
/// assert_eq!(state(Err(Class::OutOfMemory)), RankState::Failed(Class::OutOfMemory));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankState {
    /// It succeeded, or the call begins.
    Ready,
    /// It succeeded, and the rank has nothing more to do.
    Done,
    /// It failed, and the rank would try again.
    Failed(Class),
    /// As [`Failed`](RankState::Failed), by a failure that was injected: it is no evidence about sizes.
    Injected(Class),
    /// The rank has left the call, for this reason.
    Ended(String),
}

/// The vote of one rank on an attempt.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::Class;
/// use toma::ranks::{self, Group as _, RankState, Subject, Vote};
///
/// let vote = |state| Vote { subject: Subject::new("batch", "train".to_owned()), state, next: 8, retry: 4 };
/// let votes = [vote(RankState::Ready), vote(RankState::Failed(Class::OutOfMemory))];
/// let ranks = ranks::threads(2);
/// let waiting: Vec<_> = ranks.iter().zip(votes).map(|(rank, vote)| rank.cast(vote)).collect::<Result<_, _>>()?;
/// for wait in waiting {
///     let agreed = wait()?;
///     assert_eq!((agreed.retry, agreed.failed.unwrap().rank), (4, 1));
/// }
/// # Ok::<(), ranks::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The subject of the vote.
    pub subject: Subject,
    /// The outcome on this rank.
    pub state: RankState,
    /// The size it proposes if all ranks succeeded; `usize::MAX` binds no other rank.
    pub next: usize,
    /// The size it proposes if any rank failed.
    pub retry: usize,
}

const CLASSES: [Class; 4] = [Class::OutOfMemory, Class::Transient, Class::Poisoned, Class::Other];

impl Vote {
    pub(super) fn write(&self, writer: &mut Writer) {
        let Self { subject: Subject { form, call, attempt }, state, next, retry } = self;
        writer.text(form);
        writer.text(call);
        writer.number(*attempt);
        let (state, text) = match state {
            RankState::Ready => (0, ""),
            RankState::Done => (1, ""),
            RankState::Ended(message) => (2, message.as_str()),
            RankState::Failed(class) => (3 + 2 * place(*class), ""),
            RankState::Injected(class) => (4 + 2 * place(*class), ""),
        };
        writer.number(state);
        writer.text(text);
        writer.size(*next);
        writer.size(*retry);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (form, call, attempt) = (reader.text()?, reader.text()?, reader.number()?);
        let (state, message) = (reader.number()?, reader.text()?);
        let state = match state {
            0 => RankState::Ready,
            1 => RankState::Done,
            2 => RankState::Ended(message),
            failed if failed % 2 == 1 => RankState::Failed(class_at((failed - 3) / 2)?),
            injected => RankState::Injected(class_at((injected - 4) / 2)?),
        };
        let subject = Subject { form: Cow::Owned(form), call, attempt };
        Some(Self { subject, state, next: reader.size()?, retry: reader.size()? })
    }
}

/// Returns the number that encodes a class.
pub(super) fn place(class: Class) -> u64 {
    CLASSES.iter().position(|known| *known == class).map_or(3, |at| at as u64)
}

/// Returns the class that a number encodes.
pub(super) fn class_at(place: u64) -> Option<Class> {
    CLASSES.get(usize::try_from(place).ok()?).copied()
}
