//! Stages of a region that has no plan: where they begin, and which of their inputs the first run holds.

use std::ops::Range;

use super::facts::{Recording, Value};
use super::storages::Storages;

/// Values unused for so many operators are taken for temporaries that only wait for the end of their statement.
const RECENT_OPS: u32 = 16;
/// A stage that ends where few bytes are alive has at least so many operators.
const FEWEST_OPS: u32 = 3;
/// Such a stage drops at least this share of the bytes dropped before it, so there are never many more stages.
const MOST_STAGES: u64 = 64;

/// A boundary between stages, before the next operator of a region without a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The stage goes on.
    None,
    /// A stage begins.
    New,
    /// A stage begins, and takes the place of the last one, which began too early: that one joins the stage before it.
    Moved,
}

/// Search for the operators that begin stages, while a region runs without a plan.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Live bytes before the last operator.
    last_alive: u64,
    /// The current stage.
    begun: Option<BegunStage>,
    /// Bytes dropped by the stages that this draft has ended.
    dropped_before: u64,
}

/// Begin of a stage.
#[derive(Clone, Copy, Debug)]
struct BegunStage {
    op: u32,
    /// Live bytes before or after that operator.
    alive: u64,
    /// True if the search has found it, and not the program marked it.
    is_found: bool,
}

impl Draft {
    /// Finds points where few bytes are alive: fewer than the stage has dropped, and fewer than before and after. Stages
    /// grow with the region, so there are never many.
    ///
    /// That live bytes go on to fall, or that backward needs none of those at the boundary, shows only after the stage
    /// has begun. Its begin then moves on.
    pub fn boundary(&mut self, recording: &Recording<'_>) -> Boundary {
        let Some(current) = recording.stage_count().checked_sub(1) else { return Boundary::New };
        let alive = alive_bytes(recording, 0..current + 1);
        let last_alive = std::mem::replace(&mut self.last_alive, alive);
        let first_op = recording.stages[current as usize].first_op;
        let marked = BegunStage { op: first_op, alive, is_found: false };
        let begun = self.begun.filter(|begun| begun.op == first_op).unwrap_or(marked);
        let dropped = recording.dropped_bytes(current, current);
        let is_large = MOST_STAGES * dropped >= self.dropped_before && recording.ops >= first_op + FEWEST_OPS;
        let is_low = dropped >= alive.max(1) && (alive < last_alive || alive <= begun.alive);
        let is_idle = || recording.is_idle(current - 1, &recording.saved_storages());
        let is_better = || alive < begun.alive || (alive == begun.alive && is_idle());
        let boundary = if is_large && is_low && 2 * alive_bytes(recording, 0..current) <= alive {
            Boundary::New
        } else if begun.is_found && may_join(recording, current) && is_better() {
            Boundary::Moved
        } else {
            self.begun = Some(begun);
            return Boundary::None;
        };
        self.dropped_before += dropped;
        self.begun = Some(BegunStage { op: recording.ops, alive, is_found: true });
        boundary
    }
}

/// True if neither the stage nor the one before it is kept, so that they can be recomputed as one.
fn may_join(recording: &Recording<'_>, stage: u32) -> bool {
    let is_kept = |stage: u32| recording.stages[stage as usize].is_kept;
    stage > 0 && !is_kept(stage) && !is_kept(stage - 1)
}

/// Live bytes of recently used values of some stages, which are held if a stage begins now.
fn alive_bytes(recording: &Recording<'_>, stages: Range<u32>) -> u64 {
    let is_recent = |value: &Value| value.last_op + RECENT_OPS >= recording.ops;
    recording.bytes_where(Storages::default(), |value| {
        stages.contains(&value.stage) && value.is_alive && is_recent(value)
    })
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
