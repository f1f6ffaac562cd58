use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{Piece, PredictedSize, Shown};
use crate::call_site::{Name, Origin, hash_of};
use crate::classify::Failure;
use crate::memory::MemorySource;
use crate::observe::Shortfall;

/// Predicts the size that fits before any attempt: the argument of the option
/// [`predict`](crate::execute::With::predict).
///
/// It chooses the first size of a call that has no entry in the size cache. Later sizes follow from the attempts.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::predict::{PredictedSize, Predict};
/// use toma::{NoCache, execute, memory::Host, report};
///
/// /// Items of a megabyte each.
/// #[derive(Debug)]
/// struct Megabytes;
///
/// impl Predict for Megabytes {
///     fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
///         let most = usize::try_from(free_bytes >> 20).ok()?;
///         let size = most.min(items.unwrap_or(most));
///         Some(PredictedSize { size, needs_bytes: (size as u64) << 20 })
///     }
/// }
///
/// execute::with::<NoCache>().device(Host::shared()).predict(&Megabytes).range(0..3, 3, |_, _| ());
/// assert_eq!(report::last().unwrap().predicted.unwrap().needs_bytes, 3 << 20);
/// ```
pub trait Predict: fmt::Debug + Sync {
    /// Predicts the largest size at which `items` items fit into `free_bytes`, piece by piece; without `items`, the
    /// size that fits at once. `None` if that is unknown.
    fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize>;

    /// True if the prediction needs a dry run of the body.
    #[doc(hidden)]
    fn runs_dry(&self) -> bool {
        false
    }

    /// Predicts the first size of a call that lends its body for dry runs.
    #[doc(hidden)]
    fn predict_dry(&self, dry_call: &mut DryCall<'_>) -> Option<PredictedSize> {
        self.predict(dry_call.items, dry_call.free_bytes)
    }

    /// Predicts the size for the rest of the work: bytes that earlier pieces still hold are not free any more.
    /// `is_packed` is [`DryCall::is_packed`].
    #[doc(hidden)]
    fn predict_rest(&self, left: usize, is_packed: bool, free_bytes: u64) -> Option<PredictedSize> {
        let _ = is_packed;
        self.predict(Some(left), free_bytes)
    }

    /// Predicts a smaller size after a predicted one has failed; `None` leaves the choice to the policy.
    #[doc(hidden)]
    fn predict_smaller(&self, left: usize, free_bytes: u64) -> Option<PredictedSize> {
        let _ = (left, free_bytes);
        None
    }

    /// Reason why nothing is predicted, for the report.
    #[doc(hidden)]
    fn why_not(&self) -> Option<String> {
        None
    }

    /// Predicts the memory of a first piece of this size.
    #[doc(hidden)]
    fn piece(&self, size: usize) -> Option<Piece> {
        let _ = size;
        None
    }

    /// True if attempts take bytes that the prediction cannot see, such as workspaces of a device, and it has not
    /// learned of any yet.
    #[doc(hidden)]
    fn is_unproven(&self) -> bool {
        false
    }

    /// Learns from the result of a predicted size.
    #[doc(hidden)]
    fn learn(&self, shown: Shown) {
        let _ = shown;
    }
}

/// The body of a form, in a dry run.
pub(crate) trait DryBody {
    /// Runs the body on these items, and holds its value as long as the form would. Returns its failure, if any.
    fn run(&mut self, piece: Range<usize>) -> Option<Failure>;

    /// Drops the held values.
    fn drop_held(&mut self);

    /// Undoes other effects of the body on these items.
    fn undo(&mut self, piece: Range<usize>);

    /// Hash of the data's shape.
    fn shape(&self) -> u64;
}

/// Cutting of a call's work into pieces.
pub(crate) trait Cuts {
    /// The step that the call would use in place of this one.
    fn fit(&self, step: usize) -> usize;

    /// The first piece at a step, and its size.
    fn first(&self, step: usize) -> (Range<usize>, usize);

    /// The size of the first `items` items.
    fn size_of(&self, items: usize) -> usize;
}

/// The prediction that chooses a first size, and the body that may be run for it.
pub(crate) struct Asks<'a, 'b> {
    pub(crate) predict: &'a dyn Predict,
    /// `None` where the body is asynchronous.
    pub(crate) body: Option<&'b mut dyn DryBody>,
    /// Shortfall of the smallest size, by the prediction.
    pub(crate) lacks: Option<Shortfall>,
}

/// The prediction that a call follows, and that learns from the call.
#[derive(Debug)]
pub(crate) enum Followed<'a> {
    Given(&'a dyn Predict),
    Kept(Arc<dyn Predict + Send>),
}

impl<'a> Deref for Followed<'a> {
    type Target = dyn Predict + 'a;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Given(predict) => *predict,
            Self::Kept(predict) => &**predict,
        }
    }
}

/// A call that asks for its first size, and lends its body for dry runs.
///
/// For libraries that make dry runs. Each piece is the first of the call at its step: where pieces differ, it is best
/// if the largest comes first. A library undoes within the dry run all that it begins there.
#[doc(hidden)]
pub struct DryCall<'a> {
    /// Name of the call, for messages.
    pub name: &'a Name,
    pub(crate) origin: &'a Origin,
    pub(crate) user: u64,
    /// Amount of work, in the unit of sizes; `None` in a batch.
    pub items: Option<usize>,
    /// True if sizes count costs. Then any piece may be smaller than the step, not only the last.
    pub is_packed: bool,
    /// Free bytes of the memory.
    pub free_bytes: u64,
    /// The memory that the size is to fit.
    pub device: &'a dyn MemorySource,
    pub(crate) cuts: &'a dyn Cuts,
    pub(crate) body: Option<&'a mut dyn DryBody>,
    pub(crate) begun: Vec<Range<usize>>,
    /// Learns from the call, and is kept for similar calls.
    pub kept: Option<Arc<dyn Predict + Send>>,
}

impl DryCall<'_> {
    /// Hash of the call's line, memory, key and data shape; without the last two if the body cannot be run.
    pub fn key(&self) -> u64 {
        let of_data = self.body.as_ref().map(|body| (self.user, body.shape()));
        hash_of((self.origin.site, self.origin.caller, of_data, self.device.name()))
    }

    /// Hash of the call's line, memory and key, for data of every shape.
    pub fn site(&self) -> u64 {
        hash_of((self.origin.site, self.origin.caller, self.user, self.device.name()))
    }

    /// True if the body can be run here and now; an asynchronous one cannot.
    pub fn can_run(&self) -> bool {
        self.body.is_some()
    }

    /// Two sizes that the call could use, the smaller first: about that of `items` items, or of all if there are
    /// fewer, and half of it, or else twice as much. `None` if there is only one.
    pub fn sizes(&self, items: usize) -> Option<[usize; 2]> {
        let large = self.size_at(self.cuts.size_of(items));
        let [half, twice] = [large / 2, large.saturating_mul(2)].map(|step| self.size_at(step));
        let sizes = if half < large { [half, large] } else { [large, twice] };
        (sizes[0] < sizes[1]).then_some(sizes)
    }

    /// The size of the first piece at a step.
    pub fn size_at(&self, step: usize) -> usize {
        self.cuts.first(self.cuts.fit(step)).1
    }

    /// Runs the body on the first piece at a step, and holds its value.
    ///
    /// # Errors
    /// When the body fails.
    ///
    /// # Panics
    /// When the body does, and when there is none that can be run.
    pub fn run(&mut self, step: usize) -> Result<(), Failure> {
        let (piece, _) = self.cuts.first(self.cuts.fit(step));
        let body = self.body.as_mut().expect("a body that can be run");
        self.begun.push(piece.clone());
        body.run(piece).map_or(Ok(()), Err)
    }

    /// Drops the held values, and undoes the other effects of the pieces, the last first.
    pub fn take_back(&mut self) {
        let Some(body) = &mut self.body else { return };
        body.drop_held();
        while let Some(piece) = self.begun.pop() {
            body.undo(piece);
        }
    }
}

impl fmt::Debug for DryCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryCall")
            .field("name", &self.name)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
