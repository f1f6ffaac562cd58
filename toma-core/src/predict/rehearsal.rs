use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::{Foreseen, Piece, Shown};
use crate::call_site::{Name, Origin, hash_of};
use crate::classify::Failure;
use crate::memory::MemorySource;
use crate::observe::Shortfall;

/// Says what fits before anything was tried: what the option [`predict`](crate::execute::With::predict) takes.
///
/// It chooses the first size of a call about which the size cache knows nothing. Everything after that goes by
/// what was tried.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::predict::{Foreseen, Predict};
/// use toma::{NoCache, execute, memory::Host, report};
///
/// /// Items of a megabyte each.
/// #[derive(Debug)]
/// struct Megabytes;
///
/// impl Predict for Megabytes {
///     fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
///         let most = usize::try_from(free_bytes >> 20).ok()?;
///         let size = most.min(items.unwrap_or(most));
///         Some(Foreseen { size, needs_bytes: (size as u64) << 20 })
///     }
/// }
///
/// execute::with::<NoCache>().device(Host::shared()).predict(&Megabytes).range(0..3, 3, |_, _| ());
/// assert_eq!(report::last().unwrap().foreseen.unwrap().needs_bytes, 3 << 20);
/// ```
pub trait Predict: fmt::Debug + Sync {
    /// The largest size in which so many items fit into so many free bytes, piece by piece; without
    /// items, what fits at once. `None` where that is not known.
    fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen>;

    /// Whether it says nothing by itself, and the body has to be run dry.
    #[doc(hidden)]
    fn runs_dry(&self) -> bool {
        false
    }

    /// The same for a call that lends its body for dry runs.
    #[doc(hidden)]
    fn foresee_dry(&self, rehearsal: &mut Rehearsal<'_>) -> Option<Foreseen> {
        self.foresee(rehearsal.items(), rehearsal.free_bytes())
    }

    /// What fits once pieces have run: what they leave behind is not free any more. `is_packed` is
    /// [`Rehearsal::is_packed`].
    #[doc(hidden)]
    fn foresee_rest(&self, left: usize, is_packed: bool, free_bytes: u64) -> Option<Foreseen> {
        let _ = is_packed;
        self.foresee(Some(left), free_bytes)
    }

    /// What fits instead, after a size that was said to fit has failed; `None` leaves the choice to the policy.
    #[doc(hidden)]
    fn foresee_smaller(&self, left: usize, free_bytes: u64) -> Option<Foreseen> {
        let _ = (left, free_bytes);
        None
    }

    /// Why nothing is said, for the report.
    #[doc(hidden)]
    fn why_not(&self) -> Option<String> {
        None
    }

    /// What a first piece of this size needs.
    #[doc(hidden)]
    fn piece(&self, size: usize) -> Option<Piece> {
        let _ = size;
        None
    }

    /// Whether attempts take bytes that it cannot see, such as workspaces of a device, and it has not learned of any
    /// yet.
    #[doc(hidden)]
    fn is_unproven(&self) -> bool {
        false
    }

    /// Learns from an attempt at a size that was said to fit.
    #[doc(hidden)]
    fn learn(&self, shown: Shown) {
        let _ = shown;
    }
}

/// The body of a form, in a dry run.
pub(crate) trait DryBody {
    /// Runs the body on these items, and holds what it returns as long as the form would.
    fn run(&mut self, piece: Range<usize>) -> Option<Failure>;

    /// Drops what is held.
    fn let_go(&mut self);

    /// Takes back what the body did besides.
    fn undo(&mut self, piece: Range<usize>);

    /// Tells the data from data of other shapes.
    fn shape(&self) -> u64;
}

/// How a call cuts its work.
pub(crate) trait Cuts {
    /// The step that the call would use for this one.
    fn fit(&self, step: usize) -> usize;

    /// The first piece at a step, and its size.
    fn first(&self, step: usize) -> (Range<usize>, usize);

    /// The size of the first so many items.
    fn size_of(&self, items: usize) -> usize;
}

/// What is to be asked for a first size, and the body that may be run for the answer.
pub(crate) struct Asks<'a, 'b> {
    pub(crate) predict: &'a dyn Predict,
    /// `None` where the body is asynchronous.
    pub(crate) body: Option<&'b mut dyn DryBody>,
    /// What the smallest size lacks, by the answer.
    pub(crate) lacks: Option<Shortfall>,
}

/// What has answered, and learns from the call.
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
/// For libraries that make dry runs. All pieces are the first of the call, as large as the step says: where
/// pieces differ, the largest is best the first. What a library begins it takes back within the dry run.
#[doc(hidden)]
pub struct Rehearsal<'a> {
    pub(crate) name: &'a Name,
    pub(crate) origin: &'a Origin,
    pub(crate) user: u64,
    pub(crate) items: Option<usize>,
    pub(crate) is_packed: bool,
    pub(crate) free_bytes: u64,
    pub(crate) device: &'a dyn MemorySource,
    pub(crate) cuts: &'a dyn Cuts,
    pub(crate) body: Option<&'a mut dyn DryBody>,
    pub(crate) begun: Vec<Range<usize>>,
    pub(crate) kept: Option<Arc<dyn Predict + Send>>,
}

impl<'a> Rehearsal<'a> {
    /// The call, for people.
    pub fn name(&self) -> &'a Name {
        self.name
    }

    /// Tells the call from those of other lines, memories, keys and shapes of data; not by the last two where
    /// the body cannot be run.
    pub fn key(&self) -> u64 {
        let of_data = self.body.as_ref().map(|body| (self.user, body.shape()));
        hash_of((self.origin.site, self.origin.caller, of_data, self.device.name()))
    }

    /// The same for data of every shape.
    pub fn site(&self) -> u64 {
        hash_of((self.origin.site, self.origin.caller, self.user, self.device.name()))
    }

    /// What is shown by the call is told to this, which is kept for calls like it.
    pub fn follow(&mut self, kept: Arc<dyn Predict + Send>) {
        self.kept = Some(kept);
    }

    /// How much work there is, in what sizes count; `None` in a batch.
    pub fn items(&self) -> Option<usize> {
        self.items
    }

    /// Whether sizes count costs: then any piece may be smaller than the step, and not only the last.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// What is free of the memory.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// The memory that the size is to fit.
    pub fn device(&self) -> &'a dyn MemorySource {
        self.device
    }

    /// Whether the body can be run here and now: one that is asynchronous cannot.
    pub fn can_run(&self) -> bool {
        self.body.is_some()
    }

    /// Two sizes that the call could use: about that of so many items, or of as many as there are, and half of
    /// it, or else twice as much. `None` where there is nothing to choose.
    pub fn sizes(&self, items: usize) -> Option<[usize; 2]> {
        let large = self.size_at(self.cuts.size_of(items));
        let [half, twice] = [large / 2, large.saturating_mul(2)].map(|step| self.size_at(step));
        let sizes = if half < large { [half, large] } else { [large, twice] };
        (sizes[0] < sizes[1]).then_some(sizes)
    }

    /// The size of a piece at a step.
    pub fn size_at(&self, step: usize) -> usize {
        self.cuts.first(self.cuts.fit(step)).1
    }

    /// Runs the body on a piece, and holds what it returns.
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

    /// Drops what is held, and takes back what the pieces did besides, the last first.
    pub fn take_back(&mut self) {
        let Some(body) = &mut self.body else { return };
        body.let_go();
        while let Some(piece) = self.begun.pop() {
            body.undo(piece);
        }
    }
}

impl fmt::Debug for Rehearsal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rehearsal")
            .field("name", &self.name)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
