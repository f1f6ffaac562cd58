//! Stages of a region that has no plan: where they begin, and which of their inputs the first run holds.

use super::facts::{Recording, Value};
use super::storages::Storages;

/// Values unused for so many operators are taken for temporaries that only wait for the end of their statement.
const RECENT_OPS: u32 = 16;
/// Number of operators over which the fewest live bytes are sought.
const LATELY: usize = 12;
/// A stage that ends where few bytes are alive has at least so many operators.
const FEWEST_OPS: u32 = 3;
/// Such a stage drops at least this share of the bytes dropped before it, so there are never many more stages.
const MOST_STAGES: u64 = 64;
/// After so many candidates, a stage ends although backward does not need the live bytes.
const PATIENCE: u32 = 4;

/// Search for the operators that begin stages, while a region runs without a plan.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Live bytes before each of the last operators.
    lately_alive: [u64; LATELY],
    /// Bytes dropped by the stages that this draft has ended.
    dropped_before: u64,
    /// Boundaries that were candidates since the stage began: few bytes are alive there, and backward needs none of them.
    candidates: u32,
}

impl Default for Draft {
    fn default() -> Self {
        Self { lately_alive: [u64::MAX; LATELY], dropped_before: 0, candidates: 0 }
    }
}

impl Draft {
    /// Returns true if the next operator should begin a stage, because fewer bytes are alive than the stage has
    /// dropped, and no fewer were lately. Such a point is best if backward needs the live bytes. Stages grow with the
    /// region, so there are never many.
    pub fn begins_stage(&mut self, recording: &Recording<'_>) -> bool {
        let Some(current) = recording.stage_count().checked_sub(1) else { return true };
        let alive = alive_bytes(recording, Storages::default());
        let dropped = recording.dropped_bytes(current, current);
        let least = self.lately_alive.into_iter().min().unwrap_or(u64::MAX);
        self.lately_alive[recording.ops as usize % LATELY] = alive;
        let first_op = recording.stages[current as usize].first_op;
        let is_large = MOST_STAGES * dropped >= self.dropped_before && recording.ops >= first_op + FEWEST_OPS;
        if !is_large || dropped == 0 || alive > dropped || alive > least {
            return false;
        }
        let unsaved = || alive_bytes(recording, recording.saved_storages());
        let ends = 2 * unsaved() <= alive || (2 * alive <= dropped && self.is_patience_over());
        if ends {
            self.candidates = 0;
            self.dropped_before += dropped;
        }
        ends
    }

    fn is_patience_over(&mut self) -> bool {
        self.candidates += 1;
        self.candidates > PATIENCE
    }
}

/// Live bytes of recently used values, which are held if a stage begins now.
fn alive_bytes(recording: &Recording<'_>, except: Storages) -> u64 {
    let is_recent = |value: &Value| value.last_op + RECENT_OPS >= recording.ops;
    recording.bytes_where(except, |value| value.is_alive && is_recent(value))
}

impl Recording<'_> {
    /// Returns true if the first run should not hold the input of the last stage, which ends now. It holds the input
    /// if the stages since the last held boundary have dropped twice as many bytes, and as many as all held bytes. Of
    /// `n` equal stages some `sqrt(2 n)` inputs are then held, and as many stages are saved together.
    pub fn drops_input(&self) -> bool {
        let Some(boundary) = self.stage_count().checked_sub(2) else { return false };
        let held = self.stages[..boundary as usize].iter().rposition(|stage| stage.holds_output);
        let first = held.map_or(0, |held| u32::try_from(held + 1).unwrap_or(boundary));
        let dropped = self.dropped_bytes(first, boundary);
        2 * self.passing_bytes(boundary, Storages::default()) > dropped
            || self.held_bytes() > dropped
            || self.is_idle(boundary, &self.saved_storages())
    }
}
