//! The verdict on a step, operator by operator.

use toma_trace::Trace;

use super::forward::{forwards, scopes};
use super::path;
use super::rules::Walk;
use super::tensors::twins;
use super::{DATA, RESULT, Rows};
use crate::alike::{Unlike, same_operators};

impl Rows {
    /// Computes the verdict of two traces of a step, each with its size.
    ///
    /// # Errors
    ///
    /// If a size is 0 or both are the same, or the forwards called different operators or used different
    /// tensors.
    pub fn of(traces: [(u32, &Trace); 2]) -> Result<Self, Unlike> {
        let [(size, first), (other, second)] = traces;
        if size == other || size == 0 || other == 0 {
            return Err(Unlike::Size { size: size.min(other) });
        }
        let recorded = forwards(traces);
        same_operators(recorded[0], recorded[1])?;
        let is_cut = scopes(first, DATA).next().is_some();
        let mut walk = Walk::new(is_cut, second);
        let mut calls = twins(recorded)?;
        let result = scopes(second, RESULT).next().and_then(|_| calls.pop());
        for call in &calls {
            walk.step(call, second, [size, other]);
        }
        let mut rows = walk.finish(result.as_ref().or(calls.last()), result.is_some());
        if let Some(coupled) = path::changed(&calls, recorded[1]).filter(|_| rows.combined.is_ok()) {
            rows.combined = Err(coupled);
        }
        Ok(rows)
    }
}
