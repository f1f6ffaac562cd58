//! Votes of the ranks in one call, and their results.

use std::thread;

use super::doubts::Doubts;
use super::machine::Machine;
use super::meter::Measured;
use crate::call_site::Name;
use crate::classify::{Class, Failure};
use crate::observe::Answer;
use crate::ranks::{Agreed, Error, Group, RankState, Running, Subject, Vote, Waiting};

/// Votes of a call that runs over several ranks.
pub(super) struct Ballot<'a> {
    ranks: &'a dyn Group,
    running: Running<'a>,
    subject: Subject,
    /// Vote that is due before the next attempt.
    pub(super) owes: Option<Owes>,
    /// Answer of this rank to its own failure, unreported until all have voted.
    pub(super) pending: Option<Answer>,
    /// State to continue with if all ranks have succeeded.
    pub(super) ahead: Option<Box<Ahead>>,
    /// True while the last vote has no result.
    waits: bool,
    /// True if nothing is left to vote on.
    is_over: bool,
    /// Reason why the call ended, if another rank has ended it.
    pub(super) ended: Option<Error>,
}

/// Vote that a rank owes the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owes {
    /// The call begins.
    Begin,
    /// An attempt has failed.
    Failure { class: Class, injected: bool },
    /// An item was left out.
    LeftOut,
}

/// State after an attempt that has succeeded on this rank, until all have voted.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) machine: Machine,
    pub(super) doubts: Doubts,
    pub(super) measured: Option<Measured>,
    pub(super) elapsed: Option<std::time::Duration>,
}

impl<'a> Ballot<'a> {
    /// Joins a call of this name. Panics if another call runs over these ranks.
    pub(super) fn new(ranks: &'a dyn Group, name: &Name, is_batch: bool) -> Self {
        let form = if is_batch { "batch" } else { "pieces" };
        let subject = Subject::new(form, name.to_string());
        let running = ranks.calls().begin(&subject).unwrap_or_else(|error| name.refuse(error));
        Self {
            ranks,
            running,
            subject,
            owes: Some(Owes::Begin),
            pending: None,
            ahead: None,
            waits: false,
            is_over: false,
            ended: None,
        }
    }

    /// True if nothing is left to vote on.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Number of this rank.
    pub(super) fn rank(&self) -> usize {
        self.ranks.rank()
    }

    /// Notes a failed attempt that will be retried, or an item that was left out, for the next vote. A failure that
    /// is passed on ends the call on all ranks.
    pub(super) fn after_failure(&mut self, failure: &Failure, injected: bool, answer: Answer) {
        self.owes = match answer {
            Answer::GiveUp(_) => return self.leave(&failure.message),
            Answer::LeaveOut { .. } => Some(Owes::LeftOut),
            _ => Some(Owes::Failure { class: failure.class, injected }),
        };
    }

    /// True if ranks have to vote on how to continue after a failure.
    pub(super) fn owes_failure(&self) -> bool {
        matches!(self.owes, Some(Owes::Failure { .. }))
    }

    pub(super) fn cast(&mut self, state: RankState, next: usize, retry: usize) -> Result<Waiting, Error> {
        self.waits = true;
        self.ranks.cast(Vote { subject: self.subject.clone(), state, next, retry })
    }

    /// Receives the result of a vote; `None` if it has ended the call.
    pub(super) fn receive(&mut self, verdict: Result<Agreed, Error>) -> Option<Agreed> {
        self.waits = false;
        self.subject.attempt += 1;
        match verdict {
            Ok(agreed) => {
                self.is_over = agreed.done;
                Some(agreed)
            }
            Err(error) => {
                (self.is_over, self.ended) = (true, Some(error));
                None
            }
        }
    }

    /// Ends the call for all ranks.
    pub(super) fn leave(&mut self, message: &str) {
        if !self.is_over {
            self.is_over = true;
            // If the message cannot be sent, the others find that this rank is missing.
            drop(self.ranks.cast(Vote {
                subject: self.subject.clone(),
                state: RankState::Ended(message.to_owned()),
                next: usize::MAX,
                retry: usize::MAX,
            }));
        }
    }
}

impl Drop for Ballot<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.running.is_lost();
        }
        let how = if thread::panicking() { "panicked" } else { "was dropped before its end" };
        self.leave(how);
    }
}
