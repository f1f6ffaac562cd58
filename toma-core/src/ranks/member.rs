//! One rank and its exchange of votes through a store.
//!
//! ```text
//! set r<rank>/<round>   the vote             ┐
//! add c<round>          one more vote        ┘ each rank
//! set_first d<round>    the result           the last rank; after the timeout, any
//! wait d<round>                              all others
//! ```
//!
//! The first result that is stored holds for all ranks: either all receive all votes, or all learn that one was
//! missing.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::bytes::{Reader, Writer};
use super::{
    Agreed, Calls, Error, Group, MemoryStore, RankState, Store, Subject, Vote, Waiting, ask, verdict,
};

/// Default time for which ranks wait for each other.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Added to the counter, in addition to 1, for a vote that is not the [expected](State::expected) one.
const OTHER: i64 = 1 << 32;

/// One of several ranks that share a store, by default one in this process for [threads](super::threads()).
///
/// ```
/// # extern crate toma_core as toma;
/// use std::thread;
/// use std::time::Duration;
/// use toma::ranks::{Group as _, Member, MemoryStore};
///
/// let store = MemoryStore::default();
/// thread::scope(|scope| {
///     for rank in 0..2 {
///         let member = Member::new(store.clone(), rank, 2).unwrap().timeout(Duration::from_secs(60));
///         scope.spawn(move || member.barrier().unwrap());
///     }
/// });
/// ```
pub struct Member<S: Store = MemoryStore> {
    inner: Arc<Inner<S>>,
    calls: Calls,
}

struct Inner<S: Store> {
    store: S,
    /// Prefix of every key.
    prefix: String,
    rank: usize,
    size: usize,
    state: Mutex<State>,
    /// Number of exchanges of bytes by [`share`](Member::share).
    shared: Mutex<u64>,
}

#[derive(Debug, Default)]
struct State {
    timeout: Duration,
    /// The number of the next exchange.
    round: u64,
    /// The size on which all ranks have agreed. If the next vote of each rank proposes it again, no vote needs to be
    /// read.
    expected: Option<usize>,
    /// The first exchange whose keys may still be in the store.
    first: u64,
    /// The last exchange whose votes were all received: the keys of those before it are no longer needed.
    last: u64,
    missing: usize,
    /// The last exchange that had all votes although no rank had counted them within the timeout.
    uncounted: Option<u64>,
    /// Number of times that each name was used.
    names: HashMap<String, u64>,
}

impl<S: Store> Member<S> {
    /// Creates rank `rank` of `size` ranks, which share this store and are its only users.
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
        let inner = Inner { store, prefix, rank, size, state, shared: Mutex::new(0) };
        Self { inner: Arc::new(inner), calls: Calls::default() }
    }

    /// Sets how long this rank waits for votes. The default is 5 minutes.
    ///
    /// After an exchange that took the whole timeout because a rank was silent, the next one waits a quarter of it, so
    /// that a rank that was killed is named within 1.25 times the timeout.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.inner.state().timeout = timeout;
        self
    }

    /// Returns the same rank for independent work, which may run concurrently with the work of `self`.
    ///
    /// All ranks use the same names, each the same number of times: the second use of a name on one rank meets the
    /// second use on the others. A store whose waits block each other needs another connection here.
    #[must_use]
    pub fn named(&self, name: &str, store: S) -> Self {
        let Inner { prefix, rank, size, .. } = &*self.inner;
        let mut state = self.inner.state();
        let number = state.names.entry(name.to_owned()).or_default();
        // The number keeps keys that an earlier use has left in the store from being read as votes.
        *number += 1;
        Self::of(store, format!("{prefix}{name}/{number}/"), (*rank, *size), state.timeout)
    }

    /// Returns the bytes of all ranks, in the order of the ranks. For small data: each rank reads the bytes of all
    /// others.
    ///
    /// # Errors
    /// As [`agree`](Group::agree). [`Error::Differ`] from then on, if the store has failed on some ranks alone.
    pub fn share(&self, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>, Error> {
        // Held before the bytes are stored, so that another thread's do not take the place of those that are read now.
        let mut times = match self.inner.shared.try_lock() {
            Ok(times) => times,
            Err(TryLockError::Poisoned(times)) => times.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let [running, call] = [(); 2].map(|()| "share".to_owned());
                return Err(Error::Busy { running, call });
            }
        };
        let number = *times;
        // A rank is at most one exchange ahead of the others, so two keys suffice.
        let key = |rank| format!("{}s{rank}/{}", self.inner.prefix, number % 2);
        self.inner.store.set(&key(self.rank()), bytes)?;
        // Ranks at different numbers would find bytes of an earlier time under their keys.
        let subject = Subject::new("share", number.to_string());
        ask(self, subject, RankState::Ready, usize::MAX)?;
        // Counted only after the vote, because otherwise ranks could look for each other's bytes under different
        // keys.
        *times = number + 1;
        let shared = (0..self.size()).map(|rank| self.inner.store.get(&key(rank)));
        let shared: Vec<_> = shared.collect::<Result<_, _>>()?;
        shared
            .into_iter()
            .map(|bytes| bytes.ok_or_else(|| Error::Store("bytes are gone".to_owned())))
            .collect()
    }

    /// Number of ranks that did not vote in time when votes were last missing.
    pub fn missing(&self) -> usize {
        self.inner.state().missing
    }

    /// Returns the store.
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
                None => inner.receive(&ballot)?,
            };
            inner.note(ballot.round, &verdict);
            verdict
        }))
    }
}

/// A vote that is being cast.
struct Ballot {
    round: u64,
    subject: Subject,
    bytes: Vec<u8>,
    /// The size on which all ranks agree if all votes are as expected.
    expected: Option<usize>,
    is_expected: bool,
    /// Exchanges whose keys are no longer needed.
    past: Range<u64>,
}

impl<S: Store> Inner<S> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers the vote.
    fn ballot(&self, vote: Vote) -> Ballot {
        let mut state = self.state();
        let round = state.round;
        state.round += 1;
        let expected = state.expected.take();
        let stays = vote.state == RankState::Ready && vote.subject.attempt > 0 && vote.next == vote.retry;
        let past = state.first..state.last;
        state.first = state.last;
        let mut writer = Writer::default();
        writer.number(round);
        vote.write(&mut writer);
        let is_expected = stays && expected == Some(vote.next);
        Ballot { round, subject: vote.subject, bytes: writer.0, expected, is_expected, past }
    }

    /// Adds the vote to those of the others. If it is the last one, decides the exchange and returns the result.
    fn count(&self, ballot: &Ballot) -> Result<Option<Result<Agreed, Error>>, Error> {
        self.store.set(&self.key_of_vote(self.rank, ballot.round), ballot.bytes.clone())?;
        let amount = if ballot.is_expected { 1 } else { 1 + OTHER };
        let sum = self.store.add(&self.key('c', ballot.round), amount)?;
        let votes = usize::try_from(sum % OTHER).unwrap_or(usize::MAX);
        if votes == 1 {
            // This rank has to wait anyway, so it deletes the old keys.
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

    /// Waits for the result of the exchange, and returns it.
    fn receive(&self, ballot: &Ballot) -> Result<Result<Agreed, Error>, Error> {
        let patience = self.patience(ballot.round);
        if let Some(verdict) = self.store.wait(&self.key('d', ballot.round), patience)? {
            return decoded(&verdict);
        }
        // The last rank may have ended before it could store a result.
        let verdict = self.tally(ballot)?;
        if verdict.is_ok() {
            self.state().uncounted = Some(ballot.round);
        }
        self.decide(ballot.round, &verdict)
    }

    /// Returns the time to wait. If a rank is killed between voting and counting, only the next exchange finds its vote
    /// missing. The others have waited a whole timeout for it by then, and a second one would double the time until it
    /// is named.
    fn patience(&self, round: u64) -> Duration {
        let state = self.state();
        let was_silent = state.uncounted.is_some_and(|uncounted| uncounted + 1 == round);
        if was_silent { state.timeout / 4 } else { state.timeout }
    }

    /// Computes the result from the votes that are in the store.
    fn tally(&self, ballot: &Ballot) -> Result<Result<Agreed, Error>, Error> {
        Ok(match self.votes(ballot)? {
            Ok(votes) => Agreed::of(&votes),
            Err(ranks) => {
                let (of, call, timeout) = (self.size, ballot.subject.to_string(), self.state().timeout);
                Err(Error::Missing { ranks, of, call, timeout })
            }
        })
    }

    /// Stores the result unless there is one, and returns the one that holds.
    fn decide(&self, round: u64, verdict: &Result<Agreed, Error>) -> Result<Result<Agreed, Error>, Error> {
        decoded(&self.store.set_first(&self.key('d', round), verdict::write(verdict))?)
    }

    /// Returns all votes, or the ranks whose votes are missing.
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

    fn note(&self, round: u64, verdict: &Result<Agreed, Error>) {
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

/// Decodes a vote. A rank at a later exchange did not wait for the answer to this one, so it has left the call.
fn vote_in(bytes: &[u8], ballot: &Ballot) -> Option<Vote> {
    let mut reader = Reader(bytes);
    let round = reader.number()?;
    let vote = Vote::read(&mut reader).filter(|_| round >= ballot.round)?;
    if round == ballot.round {
        return Some(vote);
    }
    let state = RankState::Ended(format!("it is at {} by now", vote.subject));
    Some(Vote { subject: ballot.subject.clone(), state, ..vote })
}

fn decoded(bytes: &[u8]) -> Result<Result<Agreed, Error>, Error> {
    verdict::read(bytes)
        .ok_or_else(|| Error::Store(format!("the verdict of the ranks has {} invalid bytes", bytes.len())))
}

/// A rank that is dropped votes that it has ended, so that the others do not wait for it.
impl<S: Store> Drop for Inner<S> {
    fn drop(&mut self) {
        if self.size > 1 {
            let (state, none) = (RankState::Ended("its ranks were dropped".to_owned()), usize::MAX);
            let subject = Subject::new("its work", String::new());
            // If this vote cannot be stored, the others wait for the timeout and find this rank missing.
            drop(self.count(&self.ballot(Vote { subject, state, next: none, retry: none })));
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
