//! What ranks have to agree on in one call: votes on their way, and what they came to.

use std::thread;

use super::doubts::Doubts;
use super::machine::Machine;
use super::meter::Measured;
use crate::call_site::Name;
use crate::classify::{Class, Failure};
use crate::observe::Answer;
use crate::ranks::{Agreed, Error, Group, Running, Says, Subject, Vote, Waiting};

/// A call that runs over several ranks.
pub(super) struct Ballot<'a> {
    ranks: &'a dyn Group,
    running: Running<'a>,
    subject: Subject,
    /// What is to be voted on before the next attempt.
    pub(super) owes: Option<Owes>,
    /// How this rank would go on after its failure, until all have voted.
    pub(super) untold: Option<Answer>,
    /// The machine as it would go on where all ranks have succeeded.
    pub(super) ahead: Option<Box<Ahead>>,
    /// The last vote has no answer yet.
    waits: bool,
    /// Nothing is left to be voted on.
    is_over: bool,
    /// Why the call ended, where another rank has ended it.
    pub(super) ended: Option<Error>,
}

/// What a rank has to tell the others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owes {
    /// The call begins.
    Begin,
    /// An attempt has failed.
    Failure { class: Class, injected: bool },
    /// An item was left out.
    LeftOut,
}

/// An attempt that has succeeded here.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) machine: Machine,
    pub(super) doubts: Doubts,
    pub(super) measured: Option<Measured>,
    pub(super) elapsed: Option<std::time::Duration>,
}

impl<'a> Ballot<'a> {
    /// A call of this name; panics where another runs over these ranks.
    pub(super) fn new(ranks: &'a dyn Group, name: &Name, is_batch: bool) -> Self {
        let form = if is_batch { "batch" } else { "pieces" };
        let subject = Subject::new(form, name.to_string());
        let running = ranks.calls().begin(&subject).unwrap_or_else(|error| name.refuse(error));
        Self {
            ranks,
            running,
            subject,
            owes: Some(Owes::Begin),
            untold: None,
            ahead: None,
            waits: false,
            is_over: false,
            ended: None,
        }
    }

    /// Whether all is agreed on.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many ranks there are besides the number of this one.
    pub(super) fn rank(&self) -> usize {
        self.ranks.rank()
    }

    /// An attempt has failed that will be made again, or an item was left out; a failure that goes through ends the call
    /// on all ranks.
    pub(super) fn after_failure(&mut self, failure: &Failure, injected: bool, answer: Answer) {
        self.owes = match answer {
            Answer::GiveUp(_) => return self.leave(&failure.message),
            Answer::LeaveOut { .. } => Some(Owes::LeftOut),
            _ => Some(Owes::Failure { class: failure.class, injected }),
        };
    }

    /// Whether ranks have to vote on how to go on after a failure.
    pub(super) fn owes_failure(&self) -> bool {
        matches!(self.owes, Some(Owes::Failure { .. }))
    }

    pub(super) fn cast(&mut self, says: Says, next: usize, again: usize) -> Result<Waiting, Error> {
        self.waits = true;
        self.ranks.cast(Vote { subject: self.subject.clone(), says, next, again })
    }

    /// What all have said; none where the call has ended with that.
    pub(super) fn hear(&mut self, heard: Result<Agreed, Error>) -> Option<Agreed> {
        self.waits = false;
        self.subject.attempt += 1;
        match heard {
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

    /// This rank ends the call for all.
    pub(super) fn leave(&mut self, message: &str) {
        if !self.is_over {
            self.is_over = true;
            // Where the others cannot be told, they find that this rank is missing.
            drop(self.ranks.cast(Vote {
                subject: self.subject.clone(),
                says: Says::Ended(message.to_owned()),
                next: usize::MAX,
                again: usize::MAX,
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
