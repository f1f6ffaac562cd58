//! Results of a simulation.

use super::OutOfMemory;

/// Result of a step under an eviction or a plan.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Simulation {
    /// Moves, in order.
    pub log: Vec<Move>,
    /// Each round that was completed. The first one starts with everything on the device.
    pub rounds: Vec<Round>,
    /// The most bytes on the device.
    pub peak_bytes: u64,
    /// The operator that did not fit, which ends the simulation.
    pub out_of_memory: Option<OutOfMemory>,
}

/// Figures of one repetition of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Round {
    /// Bytes that were fetched.
    pub bytes_in: u64,
    /// Bytes that were copied out.
    pub bytes_out: u64,
    /// Time from the end of the round before to the end of the last operator.
    pub seconds: f64,
    /// Part of that time in which no operator ran.
    pub stalled_seconds: f64,
}

impl Round {
    /// Returns the bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

/// A storage that was fetched or evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Move {
    /// Number of the operator that began or, if `is_after`, had ended; counted over all rounds.
    pub operator: u64,
    /// True if the storage moved after the operator.
    pub is_after: bool,
    /// Index of the storage in the list of storages.
    pub storage: u64,
    /// Kind of the move.
    pub kind: MoveKind,
}

/// Kinds of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MoveKind {
    /// The storage was fetched.
    Fetched,
    /// The storage was evicted and copied out.
    CopiedOut,
    /// The storage was evicted without a copy, because the host had a valid one.
    Left,
}

impl Simulation {
    /// Returns the last round, which is that of a steady state after enough rounds.
    ///
    /// # Errors
    ///
    /// If an operator did not fit.
    pub fn last(&self) -> Result<Round, OutOfMemory> {
        match (self.out_of_memory, self.rounds.last()) {
            (Some(error), _) => Err(error),
            (None, round) => Ok(round.copied().unwrap_or_default()),
        }
    }

    /// Returns the time of all rounds in seconds.
    pub fn seconds(&self) -> f64 {
        self.rounds.iter().map(|round| round.seconds).sum()
    }

    /// Returns the time of all rounds in which no operator ran, in seconds.
    pub fn stalled_seconds(&self) -> f64 {
        self.rounds.iter().map(|round| round.stalled_seconds).sum()
    }
}
