//! Tests the exchange of votes in every order of three ranks, with timeouts and a death at any operation.
//!
//! Each rank is replayed with the answers that the store has given it so far, up to its next operation. So all orders
//! of operations are tried, once from every state.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use toma::classify::Class;
use toma::ranks::{Agreed, Error, Group, Member, RankState, Store, StoreError, Subject, Vote};

use crate::rounds::rounds;

#[derive(Clone, Debug)]
enum Operation {
    Set(String, Vec<u8>),
    Add(String, i64),
    Get(String),
    Wait(String),
    SetFirst(String, Vec<u8>),
    Delete(String),
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
enum Answer {
    Nothing,
    Sum(i64),
    Bytes(Option<Vec<u8>>),
}

/// A store that replays the known answers, and keeps the first operation that has no answer yet.
#[derive(Debug)]
struct Replay {
    answers: Mutex<VecDeque<Answer>>,
    next: Mutex<Option<Operation>>,
}

impl Replay {
    fn ask(&self, operation: Operation) -> Result<Answer, StoreError> {
        let answer = self.answers.lock().unwrap().pop_front();
        answer.ok_or_else(|| {
            self.next.lock().unwrap().get_or_insert(operation);
            StoreError("no answer yet".to_owned())
        })
    }

    fn bytes(&self, operation: Operation) -> Result<Option<Vec<u8>>, StoreError> {
        match self.ask(operation)? {
            Answer::Bytes(bytes) => Ok(bytes),
            other => panic!("{other:?} for bytes"),
        }
    }
}

/// A handle to the replay, because a member owns its store.
#[derive(Clone, Debug)]
struct Handle(Arc<Replay>);

impl Store for Handle {
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.0.ask(Operation::Set(key.to_owned(), bytes)).map(drop)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
        match self.0.ask(Operation::Add(key.to_owned(), amount))? {
            Answer::Sum(sum) => Ok(sum),
            other => panic!("{other:?} for a sum"),
        }
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.bytes(Operation::Get(key.to_owned()))
    }

    fn wait(&self, key: &str, _: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.bytes(Operation::Wait(key.to_owned()))
    }

    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let first = self.0.bytes(Operation::SetFirst(key.to_owned(), bytes))?;
        Ok(first.expect("something is there"))
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.0.ask(Operation::Delete(key.to_owned())).map(drop)
    }
}

/// Verdicts that a rank has received so far, one for each vote.
type Received = Vec<Option<Result<Agreed, Error>>>;

/// Verdicts that a rank has received, and its next operation.
type Progress = (Received, Option<Operation>);

/// Cache of the progress of a rank after these answers, which are the same in many orders.
type Known = HashMap<Rc<Vec<Answer>>, Rc<Progress>>;

/// State of the store and of all ranks at one moment.
#[derive(Clone, Hash)]
struct World {
    store: Rc<BTreeMap<String, Vec<u8>>>,
    answers: Vec<Rc<Vec<Answer>>>,
    dead: Option<usize>,
    timed_out: bool,
}

impl World {
    fn new(ranks: usize) -> Self {
        Self { store: Rc::default(), answers: vec![Rc::default(); ranks], dead: None, timed_out: false }
    }

    fn progress(&self, rank: usize, votes: &[Vote]) -> Progress {
        let answers = Mutex::new(self.answers[rank].iter().cloned().collect());
        let replay = Arc::new(Replay { answers, next: Mutex::default() });
        let member = Member::new(Handle(replay.clone()), rank, self.answers.len()).unwrap();
        let mut received = Received::new();
        for vote in votes {
            let cast = member.cast(vote.clone());
            // A rank that leaves a call waits for no answer.
            let leaves = matches!(vote.state, RankState::Ended(_));
            let verdict = if leaves { None } else { Some(cast.and_then(|waiting| waiting())) };
            if let Some(next) = replay.next.lock().unwrap().take() {
                return (received, Some(next));
            }
            received.push(verdict);
        }
        (received, None)
    }

    fn known_progress(&self, rank: usize, votes: &[Vote], known: &mut Known) -> Rc<Progress> {
        let answers = &self.answers[rank];
        if !known.contains_key(answers) {
            known.insert(Rc::clone(answers), Rc::new(self.progress(rank, votes)));
        }
        Rc::clone(&known[answers])
    }

    /// Applies the operation and records its answer. A wait for a missing key ends by its timeout.
    fn carry_out(&mut self, rank: usize, operation: Operation) {
        let store = Rc::make_mut(&mut self.store);
        let answer = match operation {
            Operation::Set(key, bytes) => {
                store.insert(key, bytes);
                Answer::Nothing
            }
            Operation::Add(key, amount) => {
                let before = store.get(&key).map_or([0; 8], |bytes| bytes[..].try_into().unwrap());
                let sum = i64::from_le_bytes(before) + amount;
                store.insert(key, sum.to_le_bytes().to_vec());
                Answer::Sum(sum)
            }
            Operation::Get(key) => Answer::Bytes(store.get(&key).cloned()),
            Operation::Wait(key) => {
                self.timed_out |= !store.contains_key(&key);
                Answer::Bytes(store.get(&key).cloned())
            }
            Operation::SetFirst(key, bytes) => Answer::Bytes(Some(store.entry(key).or_insert(bytes).clone())),
            Operation::Delete(key) => {
                store.remove(&key);
                Answer::Nothing
            }
        };
        Rc::make_mut(&mut self.answers[rank]).push(answer);
    }

    /// Returns true if the operation would wait.
    fn waits(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Wait(key) if !self.store.contains_key(key))
    }

    fn print(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

fn vote(attempt: u64, state: RankState, size: usize) -> Vote {
    let subject = Subject { attempt, ..Subject::new("pieces", "work".to_owned()) };
    Vote { subject, state, next: size, retry: size }
}

fn left() -> RankState {
    RankState::Ended("no".to_owned())
}

/// Returns the possible votes of a rank on an attempt, all after the same first vote.
fn choices(rank: usize) -> Vec<Vec<Vote>> {
    let state = [
        (RankState::Ready, 8),
        (RankState::Done, usize::MAX),
        (RankState::Failed(Class::OutOfMemory), 4 - rank),
        (left(), usize::MAX),
    ];
    state.map(|(state, size)| vec![vote(0, RankState::Ready, 8), vote(1, state, size)]).to_vec()
}

/// Computes the expected verdict on the votes in a slower way.
fn expected(votes: &[&Vote]) -> Result<(usize, Option<usize>, bool), usize> {
    if let Some(rank) = votes.iter().position(|vote| matches!(vote.state, RankState::Ended(_))) {
        return Err(rank);
    }
    let failed = (0..votes.len()).filter(|rank| matches!(votes[*rank].state, RankState::Failed(_)));
    let failed = failed.min_by_key(|rank| votes[*rank].retry);
    let size = votes.iter().map(|vote| vote.next).min().unwrap();
    Ok((size, failed, votes.iter().all(|vote| vote.state == RankState::Done)))
}

/// Events that may happen in addition to operations.
#[derive(Clone, Copy)]
enum Mishaps {
    /// A rank dies, and waits end by their timeouts.
    Any,
    None,
}

/// Tries every order of events after the first vote of all ranks, and returns the number of states.
fn explore(votes: &[&Vec<Vote>], mishaps: Mishaps) -> usize {
    let mut world = World::new(votes.len());
    // The first vote is the same in each world, so one order of it is enough.
    for _ in 0..2 {
        for (rank, votes) in votes.iter().enumerate() {
            while let (_, Some(operation)) = world.progress(rank, &votes[..1])
                && !world.waits(&operation)
            {
                world.carry_out(rank, operation);
            }
        }
    }
    let mut known = vec![Known::new(); votes.len()];
    let (mut seen, mut open) = (HashSet::new(), vec![world]);
    while let Some(world) = open.pop() {
        if !seen.insert(world.print()) {
            continue;
        }
        let (mut ranks, mut waiting, mut moves) = (Vec::new(), 0, 0);
        for rank in (0..votes.len()).filter(|rank| world.dead != Some(*rank)) {
            ranks.push(world.known_progress(rank, votes[rank], &mut known[rank]));
            let (_, Some(operation)) = &**ranks.last().unwrap() else { continue };
            if matches!(mishaps, Mishaps::None) && world.waits(operation) {
                waiting += 1;
                continue;
            }
            moves += 1;
            let mut next = world.clone();
            next.carry_out(rank, operation.clone());
            open.push(next);
            if matches!(mishaps, Mishaps::Any) && world.dead.is_none() {
                open.push(World { dead: Some(rank), ..world.clone() });
            }
        }
        let received: Vec<_> = ranks.iter().map(|progress| &progress.0).collect();
        assert!(waiting == 0 || moves > 0, "{waiting} wait for ever: {received:?}");
        check(&world, &received, votes);
    }
    seen.len()
}

/// Asserts that all ranks with a verdict on a vote have the same verdict, and the expected one.
fn check(world: &World, received: &[&Received], votes: &[&Vec<Vote>]) {
    for round in 0..votes[0].len() {
        let mut verdicts = received.iter().filter_map(|received| received.get(round)?.as_ref());
        let Some(first) = verdicts.next() else { continue };
        assert!(verdicts.all(|verdict| verdict == first), "{round}: {received:?}");
        let cast: Vec<_> = votes.iter().map(|votes| &votes[round]).collect();
        match (first, expected(&cast)) {
            (Ok(agreed), Ok((next, failed, done))) => {
                assert_eq!(agreed.failed.map(|elsewhere| elsewhere.rank), failed);
                assert_eq!((agreed.next, agreed.done), (next, done));
            }
            (Err(Error::Ended { rank, .. }), Err(ended)) => assert_eq!(*rank, ended),
            (Err(Error::Missing { ranks, .. }), _) => {
                assert!(world.timed_out && !ranks.is_empty() && ranks.len() < votes.len());
            }
            (received, expected) => panic!("{round}: {received:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn all_ranks_receive_the_same_in_every_order() {
    let all = [0, 1, 2].map(choices);
    let choices = |number: usize| [&all[0][number / 16], &all[1][number / 4 % 4], &all[2][number % 4]];
    // A quarter of all choices includes each choice of any two ranks.
    let part = rounds(4, 1);
    let is_tried = |number: &usize| (number / 16 + number / 4 + number).is_multiple_of(part);
    let states = (0..64).filter(is_tried).map(|number| explore(&choices(number), Mishaps::Any));
    let states = states.sum::<usize>();
    assert!(states > 10_000 / part, "{states} states");
    println!("{states} states");
}

/// A rank that leaves a call and its group of ranks removes nothing that slower ranks still need.
#[test]
fn ranks_that_leave_at_once_hold_nothing_up() {
    let begin = || vote(0, RankState::Ready, 8);
    let leaves = vec![begin(), begin(), vote(1, left(), 8), begin(), vote(1, left(), 8), vote(0, left(), 8)];
    let fails = vec![
        begin(),
        begin(),
        vote(1, RankState::Ready, 8),
        begin(),
        vote(1, RankState::Failed(Class::OutOfMemory), 4),
        vote(0, left(), 8),
    ];
    for votes in [[&leaves, &leaves], [&leaves, &fails], [&fails, &leaves], [&fails, &fails]] {
        explore(&votes, Mishaps::None);
    }
}
