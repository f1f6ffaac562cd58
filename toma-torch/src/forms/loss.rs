use std::ops::Range;

use tch::{Kind, Tensor};
use toma_plan::Combined;

use crate::predict::Purpose;

/// Rule by which the losses of pieces make up the loss of the whole.
///
/// A loss that skips padding counts the tokens of each text:
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_core::{GlobalCache, execute};
/// use toma_torch::{Backward as _, Loss};
///
/// let weight = Tensor::ones([], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
/// let texts = Tensor::from_slice(&[1_f32, 2.0, 0.0, 3.0, 0.0, 0.0]).view([2, 3]); // 0 is padding
/// let tokens = texts.ne(0.0).sum_dim_intlist(1, false, Kind::Int64); // 2 and 1
/// let form = execute::with::<GlobalCache>().max(1); // one text at a time
/// let loss = form.backward(Loss::Counted(&tokens), &weight, &texts, |texts| {
///     (texts * &weight).sum(Kind::Float) / texts.ne(0.0).sum(Kind::Float)
/// });
/// assert_eq!((loss.double_value(&[]), weight.grad().double_value(&[])), (2.0, 2.0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Loss<'a> {
    /// A mean or a sum over the items, which a dry run finds from the operators of the body.
    ///
    /// Only a loss that a dry run shows to be one of the two is split; any other runs whole, and a line on standard
    /// error gives the reason if memory runs out.
    #[default]
    Found,
    /// A mean over the items: a piece of n of N items counts n / N.
    ///
    /// A declared kind is trusted, unless a dry run contradicts it: then the call is not split.
    Mean,
    /// A sum over the items: each piece counts whole.
    Sum,
    /// A mean weighted by counts, c(i) of item i: a piece counts the sum of its c(i) over the sum of all.
    ///
    /// For losses that skip padding or an `ignore_index`, or that weigh classes: the tensor holds for each item its
    /// number of tokens, or its weight. Pieces with nothing counted add nothing.
    Counted(&'a Tensor),
}

impl Loss<'_> {
    pub(super) fn purpose(self) -> Purpose {
        match self {
            Self::Found => Purpose::Found,
            Self::Mean => Purpose::Mean,
            Self::Sum => Purpose::Sum,
            Self::Counted(_) => Purpose::Counted,
        }
    }
}

/// Shares of the pieces of a call in the whole.
pub(super) enum Shares {
    OfItems(usize),
    Whole,
    /// Sums of the counts up to each item, from 0 on.
    OfCounts(Vec<f64>),
}

/// Factor of a piece's loss. A factor of 1 is multiplied as well, so that all pieces run the same operators.
#[derive(Clone, Copy)]
pub(super) enum Share {
    Nothing,
    Whole,
    Part(f64),
}

impl Shares {
    /// # Panics
    /// When there is not one count for each item.
    pub(super) fn new(loss: Loss<'_>, items: usize) -> Self {
        match loss {
            Loss::Found | Loss::Mean => Self::OfItems(items),
            Loss::Sum => Self::Whole,
            Loss::Counted(counts) => Self::OfCounts(sums(counts, items)),
        }
    }

    /// The share of any piece, where it does not matter which.
    pub(super) fn some(&self) -> Share {
        match self {
            Self::Whole => Share::Whole,
            Self::OfItems(_) | Self::OfCounts(_) => Share::Part(1.0),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 items are exact")]
    pub(super) fn of(&self, piece: &Range<usize>, combined: Option<Combined>) -> Share {
        match self {
            Self::OfItems(_) if combined == Some(Combined::Sum) => Share::Part(1.0),
            Self::Whole => Share::Whole,
            Self::OfItems(items) => Share::of(piece.len() as f64, *items as f64),
            Self::OfCounts(sums) => Share::of(sums[piece.end] - sums[piece.start], sums[sums.len() - 1]),
        }
    }
}

impl Share {
    fn of(part: f64, whole: f64) -> Self {
        match part / whole {
            // Also 0 of 0.
            _ if part <= 0.0 => Self::Nothing,
            share => Self::Part(share),
        }
    }
}

fn sums(counts: &Tensor, items: usize) -> Vec<f64> {
    let sizes = counts.size();
    assert!(
        sizes.len() == 1 && usize::try_from(sizes[0]) == Ok(items),
        "counts of shape {sizes:?}: must be [{items}], one for each item"
    );
    let counts = Vec::<f64>::try_from(counts.to_device(tch::Device::Cpu).to_kind(Kind::Double));
    let counts = counts.expect("a tensor of one axis of doubles is a vector");
    let is_none = |count: &f64| !(0.0..f64::INFINITY).contains(count);
    if let Some((index, count)) = counts.iter().enumerate().find(|(_, count)| is_none(count)) {
        panic!("counts[{index}] {count}: must be finite and at least 0");
    }
    let sum = |sum: &mut f64, count| {
        *sum += count;
        Some(*sum)
    };
    std::iter::once(0.0).chain(counts.into_iter().scan(0.0, sum)).collect()
}
