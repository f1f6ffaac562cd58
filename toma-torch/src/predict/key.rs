//! Keys of predictions.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::panic::Location;

use tch::Tensor;
use toma_plan::Combined;

use super::making::SIZES;
use crate::tensor::TensorData;

/// Use that a form makes of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Fills one output, which is held from the first piece on.
    Output,
    /// Adds gradients of a loss that is a mean or a sum, as the dry run finds.
    Found,
    /// Adds gradients of a mean, of a sum, or of a mean weighted by counts, as the caller declares.
    Mean,
    Sum,
    Counted,
}

impl Purpose {
    /// Returns the kind of loss if the caller declares it.
    pub(super) fn is_given(self) -> Option<Combined> {
        match self {
            Self::Output | Self::Found => None,
            Self::Mean => Some(Combined::Mean),
            Self::Sum => Some(Combined::Sum),
            Self::Counted => Some(Combined::Counted),
        }
    }

    /// Advice to the caller of a body that cannot be judged.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Found => "; if pieces add up, say how: `Loss::Mean`, `Loss::Sum` or `Loss::Counted`",
            Self::Output => "; if rows are independent, `execute::with` without `predict` splits them",
            Self::Mean | Self::Sum | Self::Counted => "",
        }
    }
}

/// Call site of a form, with its purpose, device, body and the user's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(super) caller: &'static Location<'static>,
    pub(super) device: tch::Device,
    pub(super) purpose: Purpose,
    user: u64,
    /// Type of the body, because a helper may be called with several.
    body: &'static str,
}

/// Key of a prediction: its site, and the data without the batch's extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(super) site: Site,
    shapes: Vec<(tch::Kind, Vec<i64>)>,
    /// Sizes of the dry runs. A prediction from the sizes of a short call is not good enough for a long one.
    pub(super) sizes: [u32; 2],
    /// True if there are gradients before the step.
    has_gradients: bool,
    /// Distinguishes nets of other shapes.
    net: u64,
}

impl Site {
    pub(crate) fn new(
        caller: &'static Location<'static>,
        device: tch::Device,
        purpose: Purpose,
        user: u64,
        body: &'static str,
    ) -> Self {
        Self { caller, device, purpose, user, body }
    }
}

impl Key {
    pub(crate) fn new(site: Site, data: &impl TensorData) -> Self {
        let mut shapes = Vec::new();
        data.describe(&mut |kind, sizes| shapes.push((kind, sizes.iter().skip(1).copied().collect())));
        Self { site, shapes, sizes: SIZES, has_gradients: false, net: 0 }
    }

    /// Adds the variables. Steps that allocate gradients take more than those that add to them, and one line may train
    /// several nets. A few shapes distinguish nets in less than a microsecond.
    pub(crate) fn with_variables(self, variables: &[Tensor]) -> Self {
        let has_gradients = variables.first().is_some_and(|first| first.grad().defined());
        let ends = variables.iter().take(2).chain(variables.iter().rev().take(2));
        let mut hasher = DefaultHasher::new();
        (variables.len(), ends.map(Tensor::size).collect::<Vec<_>>()).hash(&mut hasher);
        Self { has_gradients, net: hasher.finish(), ..self }
    }

    /// Key of a call whose first dry runs have these sizes.
    pub(super) fn of_sizes(self, sizes: [u32; 2]) -> Self {
        Self { sizes, ..self }
    }

    /// Returns true if a prediction for `other` is a bound for this key: data of the same kinds, and no dim larger.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let ranks =
            |key: &Self| key.shapes.iter().map(|(kind, sizes)| (*kind, sizes.len())).collect::<Vec<_>>();
        let sizes = |key: &Self| key.shapes.iter().flat_map(|(_, sizes)| sizes.clone()).collect::<Vec<_>>();
        let no_larger = || sizes(self).into_iter().zip(sizes(other)).all(|(one, other)| one <= other);
        self.site == other.site && self.net == other.net && ranks(self) == ranks(other) && no_larger()
    }

    /// Sum of the sizes, which is smaller for a nearer bound.
    pub(super) fn extent(&self) -> i64 {
        let sizes = self.shapes.iter().flat_map(|(_, sizes)| sizes);
        sizes.fold(0, |sum: i64, &size| sum.saturating_add(size))
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Location, Purpose, Site};
    use tch::{Device, Kind, Tensor};

    #[test]
    fn a_larger_shape_of_the_same_kinds_and_ranks_is_a_bound() {
        let caller = Location::caller();
        let key = |sizes: &[i64], kind, user| {
            let site = Site::new(caller, Device::Cpu, Purpose::Output, user, "");
            Key::new(site, &&Tensor::empty(sizes, (kind, Device::Cpu)))
        };
        let known = key(&[9, 8, 5], Kind::Float, 0);
        for (sizes, kind, user, is_within) in [
            (&[1, 8, 5][..], Kind::Float, 0, true),
            (&[99, 7, 5], Kind::Float, 0, true),
            (&[1, 9, 5], Kind::Float, 0, false),
            (&[1, 7], Kind::Float, 0, false),
            (&[1, 7, 5], Kind::Double, 0, false),
            (&[1, 7, 5], Kind::Float, 1, false),
        ] {
            assert_eq!(key(sizes, kind, user).is_within(&known), is_within, "{sizes:?} {kind:?} {user}");
        }
        assert_eq!(known.extent(), 13);
    }
}
