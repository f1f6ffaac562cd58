//! What a simulation says.

use super::OutOfMemory;

/// What a step takes under an eviction or a plan.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Simulation {
    /// What moved, in order.
    pub log: Vec<Move>,
    /// Each repetition that came to its end. The first one starts with everything on the device.
    pub rounds: Vec<Round>,
    /// The most bytes that lay on the device.
    pub peak_bytes: u64,
    /// The operator that did not fit, with which all ends.
    pub out_of_memory: Option<OutOfMemory>,
}

/// What one repetition of a step took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// Bytes that were fetched.
    pub bytes_in: u64,
    /// Bytes that were copied out.
    pub bytes_out: u64,
    /// From the end of the round before to the end of its last operator.
    pub seconds: f64,
    /// The part of it in which no operator ran.
    pub stalled_seconds: f64,
}

impl Round {
    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

/// A storage that came or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Move {
    /// The number of the operator that began or, where `is_after`, had ended; counted over all rounds.
    pub operator: u64,
    /// Whether it moved after the operator.
    pub is_after: bool,
    /// Its place in the list of storages.
    pub storage: u64,
    /// What happened.
    pub kind: MoveKind,
}

/// How a storage moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MoveKind {
    /// It was fetched.
    Fetched,
    /// It left, and was copied out.
    CopiedOut,
    /// It left; a valid copy lay outside already.
    Left,
}

impl Simulation {
    /// The last round, which is that of a steady state after enough of them.
    ///
    /// # Errors
    ///
    /// Where no round came to its end.
    pub fn last(&self) -> Result<Round, OutOfMemory> {
        match (self.out_of_memory, self.rounds.last()) {
            (Some(error), _) => Err(error),
            (None, round) => Ok(round.copied().unwrap_or_default()),
        }
    }

    /// The time of all rounds.
    pub fn seconds(&self) -> f64 {
        self.rounds.iter().map(|round| round.seconds).sum()
    }

    /// The time of all rounds in which no operator ran.
    pub fn stalled_seconds(&self) -> f64 {
        self.rounds.iter().map(|round| round.stalled_seconds).sum()
    }
}
