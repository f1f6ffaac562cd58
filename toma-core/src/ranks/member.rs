//! A rank over a store: one exchange of votes.
//!
//! ```text
//! set r<rank>/<round>   the vote             ┐
//! add c<round>          one more vote        ┘ each rank
//! set_first d<round>    what they come to    the last rank; after the timeout, any
//! wait d<round>                              all others
//! ```
//!
//! What was put there first holds for all: so either all ranks hear of all votes, or all hear that one was missing.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bytes::{Reader, Writer};
use super::{Agreed, Calls, Error, Group, Says, Store, Subject, Vote, Waiting, verdict};

/// How long ranks wait for each other unless told.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Added for a vote that is not the [expected](State::expected) one, besides 1.
const OTHER: i64 = 1 << 32;

/// One of several ranks that share a store.
pub struct Member<S: Store> {
    inner: Arc<Inner<S>>,
    calls: Calls,
}

struct Inner<S: Store> {
    store: S,
    /// In front of every key.
    prefix: String,
    rank: usize,
    size: usize,
    state: Mutex<State>,
    /// How often all have shared bytes.
    shared: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    timeout: Duration,
    /// The number of the next exchange.
    round: u64,
    /// All ranks have agreed on this size: where the next vote of each proposes it again, no vote needs to be read.
    expected: Option<usize>,
    /// The first exchange whose keys may be there.
    first: u64,
    /// The last one that was heard to have all votes: nothing needs those before it.
    last: u64,
    missing: usize,
    /// The last exchange that had all votes and that no rank had counted within the timeout.
    uncounted: Option<u64>,
    /// How often each name was given out.
    names: HashMap<String, u64>,
}

impl<S: Store> Member<S> {
    /// A rank of so many that use this store, and nothing but them uses it.
    ///
    /// # Errors
    /// [`Error::Invalid`] where `rank` is not below `size`.
    pub fn new(store: S, rank: usize, size: usize) -> Result<Self, Error> {
        if size == 0 {
            return Err(Error::Invalid("size 0: must be at least 1".to_owned()));
        }
        if rank >= size {
            return Err(Error::Invalid(format!("rank {rank}: must be below size {size}")));
        }
        Ok(Self::of(store, String::new(), (rank, size), DEFAULT_TIMEOUT))
    }

    fn of(store: S, prefix: String, (rank, size): (usize, usize), timeout: Duration) -> Self {
        let state = Mutex::new(State { timeout, ..State::default() });
        let inner = Inner { store, prefix, rank, size, state, shared: AtomicU64::new(0) };
        Self { inner: Arc::new(inner), calls: Calls::default() }
    }

    /// The same rank, which waits so long for votes. After an exchange that took all of it because a rank fell silent, the
    /// next one waits a quarter, so that a rank that was killed is named within 1.25 times the timeout.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.inner.state().timeout = timeout;
        self
    }

    /// The same rank for other work: what runs over it runs beside what runs over this one.
    ///
    /// All ranks use the same names, each as often: the second of a name on one rank meets the second on the others.
    /// A store whose waits hold up each other should be another connection.
    #[must_use]
    pub fn named(&self, name: &str, store: S) -> Self {
        let Inner { prefix, rank, size, .. } = &*self.inner;
        let mut state = self.inner.state();
        let number = state.names.entry(name.to_owned()).or_default();
        // What an earlier one has left in the store is none of its votes.
        *number += 1;
        Self::of(store, format!("{prefix}{name}/{number}/"), (*rank, *size), state.timeout)
    }

    /// The bytes of all ranks, in their order. For small things: each rank reads those of all others.
    ///
    /// # Errors
    /// As [`agree`](Group::agree).
    pub fn share(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        let number = self.inner.shared.load(Ordering::Relaxed);
        // A rank is at most one exchange ahead of the others, so two keys suffice.
        let key = |rank| format!("{}s{rank}/{}", self.inner.prefix, number % 2);
        self.inner.store.set(&key(self.rank()), bytes)?;
        self.barrier()?;
        // Only what all have come through counts, or ranks would look for each other's bytes in different places.
        self.inner.shared.store(number + 1, Ordering::Relaxed);
        let shared = (0..self.size()).map(|rank| self.inner.store.get(&key(rank)));
        let shared: Vec<_> = shared.collect::<Result<_, _>>()?;
        shared
            .into_iter()
            .map(|bytes| bytes.ok_or_else(|| Error::Store("bytes are gone".to_owned())))
            .collect()
    }

    /// How many ranks did not vote in time when votes were missing last.
    pub fn missing(&self) -> usize {
        self.inner.state().missing
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.inner.store
    }
}

impl<S: Store> Group for Member<S> {
    fn rank(&self) -> usize {
        self.inner.rank
    }

    fn size(&self) -> usize {
        self.inner.size
    }

    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn cast(&self, vote: Vote) -> Result<Waiting, Error> {
        let ballot = self.inner.ballot(vote);
        let decided = self.inner.count(&ballot)?;
        let inner = Arc::clone(&self.inner);
        Ok(Box::new(move || {
            let verdict = match decided {
                Some(verdict) => verdict,
                None => inner.hear(&ballot)?,
            };
            inner.has_heard(ballot.round, &verdict);
            verdict
        }))
    }
}

/// One vote on its way.
struct Ballot {
    round: u64,
    subject: Subject,
    bytes: Vec<u8>,
    /// The size on which all agree if all votes are as expected.
    expected: Option<usize>,
    is_expected: bool,
    /// Exchanges whose keys nothing needs any more.
    past: Range<u64>,
}

impl<S: Store> Inner<S> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vote with its number.
    fn ballot(&self, vote: Vote) -> Ballot {
        let mut state = self.state();
        let round = state.round;
        state.round += 1;
        let expected = state.expected.take();
        let stays = vote.says == Says::Ready && vote.subject.attempt > 0 && vote.next == vote.again;
        let past = state.first..state.last;
        state.first = state.last;
        let mut writer = Writer::default();
        writer.number(round);
        vote.write(&mut writer);
        let is_expected = stays && expected == Some(vote.next);
        Ballot { round, subject: vote.subject, bytes: writer.0, expected, is_expected, past }
    }

    /// Adds the vote to the others; what they come to where it is the last.
    fn count(&self, ballot: &Ballot) -> Result<Option<Result<Agreed, Error>>, Error> {
        self.store.set(&self.key_of_vote(self.rank, ballot.round), ballot.bytes.clone())?;
        let amount = if ballot.is_expected { 1 } else { 1 + OTHER };
        let sum = self.store.add(&self.key('c', ballot.round), amount)?;
        let votes = usize::try_from(sum % OTHER).unwrap_or(usize::MAX);
        if votes == 1 {
            // This rank waits anyway.
            self.delete(ballot.past.clone())?;
        }
        if votes < self.size {
            return Ok(None);
        }
        let verdict = match ballot.expected {
            Some(size) if sum < OTHER => Ok(Agreed::ordinary(size)),
            _ => self.tally(ballot)?,
        };
        self.decide(ballot.round, &verdict).map(Some)
    }

    /// What is decided, once it is.
    fn hear(&self, ballot: &Ballot) -> Result<Result<Agreed, Error>, Error> {
        let patience = self.patience(ballot.round);
        if let Some(verdict) = self.store.wait(&self.key('d', ballot.round), patience)? {
            return decoded(&verdict);
        }
        // The last rank may have ended before it could decide.
        let verdict = self.tally(ballot)?;
        if verdict.is_ok() {
            self.state().uncounted = Some(ballot.round);
        }
        self.decide(ballot.round, &verdict)
    }

    /// A rank that is killed between its vote and counting is missed only in the next exchange. It has been silent for a
    /// whole timeout by then, so a second one would double the time until it is named.
    fn patience(&self, round: u64) -> Duration {
        let state = self.state();
        let was_silent = state.uncounted.is_some_and(|uncounted| uncounted + 1 == round);
        if was_silent { state.timeout / 4 } else { state.timeout }
    }

    /// What the votes that are there come to.
    fn tally(&self, ballot: &Ballot) -> Result<Result<Agreed, Error>, Error> {
        Ok(match self.votes(ballot)? {
            Ok(votes) => Agreed::of(&votes),
            Err(ranks) => {
                let (of, call, timeout) = (self.size, ballot.subject.to_string(), self.state().timeout);
                Err(Error::Missing { ranks, of, call, timeout })
            }
        })
    }

    /// What was decided first holds.
    fn decide(&self, round: u64, verdict: &Result<Agreed, Error>) -> Result<Result<Agreed, Error>, Error> {
        decoded(&self.store.set_first(&self.key('d', round), verdict::write(verdict))?)
    }

    /// All votes, or the ranks whose votes are missing.
    fn votes(&self, ballot: &Ballot) -> Result<Result<Vec<Vote>, Vec<usize>>, Error> {
        let (mut votes, mut missing) = (Vec::new(), Vec::new());
        for rank in 0..self.size {
            let bytes = self.store.get(&self.key_of_vote(rank, ballot.round))?;
            match bytes.and_then(|bytes| vote_in(&bytes, ballot)) {
                Some(vote) => votes.push(vote),
                None => missing.push(rank),
            }
        }
        Ok(if missing.is_empty() { Ok(votes) } else { Err(missing) })
    }

    fn has_heard(&self, round: u64, verdict: &Result<Agreed, Error>) {
        let mut state = self.state();
        match verdict {
            Ok(agreed) => {
                state.last = state.last.max(round);
                if state.round == round + 1 {
                    state.expected = Some(agreed.next).filter(|_| agreed.failed.is_none());
                }
            }
            Err(Error::Missing { ranks, .. }) => state.missing = ranks.len(),
            Err(_) => {}
        }
    }

    fn delete(&self, rounds: Range<u64>) -> Result<(), Error> {
        for round in rounds {
            self.store.delete(&self.key('c', round))?;
            self.store.delete(&self.key('d', round))?;
        }
        Ok(())
    }

    fn key(&self, kind: char, round: u64) -> String {
        format!("{}{kind}{round}", self.prefix)
    }

    /// A rank that waits for each answer is at most one vote ahead of the others, so two keys suffice.
    fn key_of_vote(&self, rank: usize, round: u64) -> String {
        format!("{}r{rank}/{}", self.prefix, round % 2)
    }
}

/// The vote in these bytes. A rank that is farther ahead has waited for no answer, because it has left.
fn vote_in(bytes: &[u8], ballot: &Ballot) -> Option<Vote> {
    let mut reader = Reader(bytes);
    let round = reader.number()?;
    let vote = Vote::read(&mut reader).filter(|_| round >= ballot.round)?;
    if round == ballot.round {
        return Some(vote);
    }
    let says = Says::Ended(format!("it is at {} by now", vote.subject));
    Some(Vote { subject: ballot.subject.clone(), says, ..vote })
}

fn decoded(bytes: &[u8]) -> Result<Result<Agreed, Error>, Error> {
    verdict::read(bytes)
        .ok_or_else(|| Error::Store(format!("what the ranks agreed on has {} strange bytes", bytes.len())))
}

/// A rank that ends by itself keeps the others from waiting for it.
impl<S: Store> Drop for Inner<S> {
    fn drop(&mut self) {
        if self.size > 1 {
            let (says, none) = (Says::Ended("its ranks were dropped".to_owned()), usize::MAX);
            let subject = Subject::new("its work", String::new());
            // Where the others cannot be told, they find that this rank is missing.
            drop(self.count(&self.ballot(Vote { subject, says, next: none, again: none })));
        }
    }
}

impl<S: Store> fmt::Debug for Member<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { store, prefix, rank, size, .. } = &*self.inner;
        f.debug_struct("Member")
            .field("rank", rank)
            .field("size", size)
            .field("prefix", prefix)
            .field("timeout", &self.inner.state().timeout)
            .field("store", store)
            .finish_non_exhaustive()
    }
}
