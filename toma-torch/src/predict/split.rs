//! Whether pieces of a step add up to the whole.

use toma_plan::Coupling;

use super::key::Purpose;
use super::prediction::Prediction;

/// What becomes of a step in pieces.
#[derive(Debug)]
pub(super) enum Split {
    /// Pieces add up to the whole.
    Exact,
    /// Batch norm takes the statistics of each piece.
    Statistics,
    /// They do not add up, and why.
    Never(String),
}

/// A form scales a mean by the share of its piece.
const OWN_SCALINGS: usize = 1;

impl Split {
    /// As far as the dry runs show it: where they do not compare, pieces are taken to add up.
    pub(super) fn of(prediction: &Prediction, purpose: Purpose) -> Self {
        if purpose == Purpose::Output {
            return Self::Exact;
        }
        let Ok(rows) = prediction.rows() else { return Self::Exact };
        let (is_sum, is_counted) = (purpose == Purpose::Sum, purpose == Purpose::Counted);
        let coupled =
            rows.coupled.filter(|coupled| !(is_counted && coupled.coupling == Coupling::MaskedMean));
        let sums = rows.summed.is_some_and(|summed| summed.scalings <= OWN_SCALINGS);
        match coupled {
            Some(coupled) => Self::Never(coupled.to_string()),
            None if is_sum && rows.adds_constant.is_some() => {
                Self::Never("a constant is added to the sum over the rows".to_owned())
            }
            None if !is_sum && sums => {
                Self::Never("the loss is a sum over the rows: `Loss::Sum` adds those of pieces".to_owned())
            }
            None if !rows.batch_statistics.is_empty() => Self::Statistics,
            None => Self::Exact,
        }
    }
}
