//! The program of a judged step, for comparison with the operators that a call runs.

use toma_trace::Trace;
use toma_trace::operators::{RowRule, row_rule};

use super::Rows;
use super::calls::{ComparedCall, calls, identities, written};
use super::forward::{adds_gradients, forwards};
use crate::alike::{SizedTrace, Unlike};

/// A verdict with the operators that it is about.
///
/// A verdict holds for one program. So it is compared with the operators of a real run before it is used: their names,
/// tensors, shapes and arguments. Numbers that were the same at both sizes may have changed since, as a weight that is
/// annealed.
#[derive(Clone, Debug)]
pub struct Judged {
    rows: Rows,
    sizes: [u32; 2],
    calls: Vec<[ComparedCall; 2]>,
    /// True if a backward within the forward adds to gradients.
    adds_gradients: bool,
}

impl Judged {
    /// Computes the verdict of two traces, as [`Rows::of`].
    ///
    /// # Errors
    ///
    /// Errors of [`Rows::of`].
    pub fn of(traces: [(u32, &Trace); 2]) -> Result<Self, Unlike> {
        let rows = Rows::of(traces)?;
        let [first, second] = forwards(traces).map(calls);
        let calls = first.into_iter().zip(second).map(|(one, other)| [one, other]).collect();
        let (sizes, adds_gradients) = (traces.map(|(size, _)| size), adds_gradients(traces[1].1));
        Ok(Self { rows, sizes, calls, adds_gradients })
    }

    /// Returns the verdict.
    #[must_use]
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// True if a trace of the forward of `size` items is of the judged program.
    #[must_use]
    pub fn is_of(&self, size: u32, trace: &Trace) -> bool {
        let whole = SizedTrace { size, trace, until: trace.end() };
        let calls = calls(whole);
        calls.len() == self.calls.len()
            && self.adds_gradients == adds_gradients(trace)
            && calls.iter().zip(&self.calls).all(|(call, judged)| call.is_at(size, judged, self.sizes))
    }

    /// True if two traces of the judged program take the same tensors from before the forward, and the same numbers,
    /// except for numbers that change with the rows. If one of them is of fewer items than were judged (`is_few`), products,
    /// their biases, reshapes and copies are not compared, because libraries choose others.
    #[must_use]
    pub fn takes_same(&self, traces: [&Trace; 2], is_few: bool) -> bool {
        let [one, other] = traces.map(|trace| calls(SizedTrace { size: 1, trace, until: trace.end() }));
        let [mut taken, mut others] = [&one, &other].map(|calls| identities(calls));
        if is_few {
            // A bias may come before its product or after it.
            taken.sort_unstable();
            others.sort_unstable();
        }
        if taken != others {
            return false;
        }
        let is_compared = |call: &&ComparedCall| !is_few || call.is_own();
        let [one, other] = [&one, &other].map(|calls| calls.iter().filter(is_compared).collect::<Vec<_>>());
        let judged: Vec<_> = self.calls.iter().filter(|[call, _]| is_compared(&call)).collect();
        if one.len() != other.len() || one.len() != judged.len() {
            return false;
        }
        let numbers = |[one, other]: [&ComparedCall; 2]| {
            let pairs = one.numbers.iter().zip(&other.numbers);
            pairs.map(|(one, other)| one.to_bits() == other.to_bits()).collect::<Vec<_>>()
        };
        one.into_iter().zip(other).zip(judged).all(|((one, other), [small, large])| {
            let (here, judged) = (numbers([one, other]), numbers([small, large]));
            one.captured().eq(other.captured())
                && here.iter().zip(judged).all(|(is_same, was_same)| *is_same || !was_same)
        })
    }

    /// True if two traces of the forward of equally many items are of one program.
    #[must_use]
    pub fn is_same(traces: [&Trace; 2]) -> bool {
        let [one, other] = traces.map(|trace| calls(SizedTrace { size: 1, trace, until: trace.end() }));
        one == other
    }

    /// Returns hashes of the numbers that the program wrote to tensors itself, as far as a dry run shows them.
    #[must_use]
    pub fn written(trace: &Trace) -> Vec<u64> {
        written(SizedTrace { size: 1, trace, until: trace.end() })
    }

    /// True if a trace of the forward of fewer items than were judged may be of the judged program. For so few, libraries
    /// choose other products, biases, reshapes and copies, and may take more parts of tensors; all other calls must be the
    /// judged ones.
    #[must_use]
    pub fn is_of_few(&self, size: u32, trace: &Trace) -> bool {
        let calls = calls(SizedTrace { size, trace, until: trace.end() });
        let mut parts = calls.iter().filter(|call| call.takes_part());
        let calls: Vec<_> = calls.iter().filter(|call| call.is_own()).collect();
        let judged: Vec<_> = self.calls.iter().filter(|[call, _]| call.is_own()).collect();
        let is_at = |(own, [one, other]): (&&ComparedCall, &&[ComparedCall; 2])| {
            own.anywhere().is_at(size, &[one.anywhere(), other.anywhere()], self.sizes)
        };
        let mut judged_parts = self.calls.iter().filter(|[call, _]| call.takes_part());
        calls.len() == judged.len()
            && self.adds_gradients == adds_gradients(trace)
            && calls.iter().zip(&judged).all(is_at)
            && judged_parts.all(|judged| parts.any(|call| is_at((&call, &judged))))
    }

    /// True if the program has a mean of losses over classes, which may leave labels out.
    #[must_use]
    pub fn averages_classes(&self) -> bool {
        // The reduction is the first of their integers.
        let averages = |call: &ComparedCall| call.integers.first().is_none_or(|reduction| *reduction == [1]);
        let is_of_classes = |call: &ComparedCall| row_rule(&call.name) == Some(RowRule::ClassLoss);
        self.calls.iter().any(|[call, _]| is_of_classes(call) && averages(call))
    }

    /// True if a number of the program changes with the rows. At a single size such a number may match by chance, so a
    /// run is not recognized by it.
    #[must_use]
    pub fn counts_rows(&self) -> bool {
        self.calls.iter().any(|[one, other]| one.numbers != other.numbers)
    }
}
