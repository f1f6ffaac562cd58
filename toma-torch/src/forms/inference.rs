use std::cell::RefCell;
use std::ops::{ControlFlow, Range};
use std::panic::Location;

use tch::Tensor;
use toma_core::chunk::{Chunk, Chunked};
use toma_core::execute::{Undo, With};
use toma_core::policy::Policy;
use toma_core::{Judge, Outcome};

use super::pieces::{Pieces, after_failure, attempt, decide, run_piece, tensor_of};
use crate::ffi::{self, Recording};
use crate::predict::{Program, Purpose, StepPrediction, Work};
use crate::tensor::TensorData;

/// [`forward`](super::forward) with options of your choice.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_core::{GlobalCache, execute};
/// use toma_torch::{Device, Forward as _};
///
/// let device = Device::new(tch::Device::Cpu);
/// let data = Tensor::arange(10, (Kind::Float, tch::Device::Cpu));
/// let form = execute::with::<GlobalCache>().name("embed").device(&device).max(4);
/// assert_eq!(form.forward(&data, Tensor::relu), data);
/// ```
pub trait Forward<K> {
    /// Runs `body` without gradients on pieces of `data`, cut along dim 0, and fills one tensor with its rows.
    ///
    /// Without the option [`predict(&DryRun)`](crate::DryRun) nothing shows if rows depend on each other, and pieces are
    /// assumed to be independent.
    ///
    /// ```
    /// use tch::{Device, Kind, Tensor};
    /// use toma_core::{GlobalCache, execute};
    /// use toma_torch::Forward as _;
    ///
    /// let data = Tensor::arange(10, (Kind::Float, Device::Cpu));
    /// let squares = execute::with::<GlobalCache>().max(4).forward(&data, Tensor::square);
    /// assert_eq!(squares, data.square());
    /// ```
    ///
    /// # Errors
    /// Errors of `body`.
    ///
    /// # Panics
    /// As [`forward`](super::forward), and as all forms if options contradict each other.
    #[track_caller]
    fn forward<D, C, R, S, M>(self, data: D, body: impl FnMut(Chunk<'_, D, C>) -> R) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>;
}

impl<P: Policy, K, B: Undo> Forward<K> for With<'_, P, K, B> {
    #[track_caller]
    #[inline(always)]
    fn forward<D, C, R, S, M>(self, mut data: D, mut body: impl FnMut(Chunk<'_, D, C>) -> R) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>,
    {
        let items = data.extent(0);
        let pieces = Pieces::of(&self, Location::caller(), (&data, items), Purpose::Output, &body);
        let key = pieces.key(&data);
        let (form, undo) = self.lend_undo();
        let undo = RefCell::new(undo);
        let take_back = |piece: Range<usize>| undo.borrow_mut().undo(piece);
        let run = RefCell::new(|recording: Option<&Recording>, piece: Range<usize>| {
            let _off = tch::no_grad_guard();
            run_piece(&mut data, &mut body, recording, piece)
        });
        if items == 0 {
            // Ranks vote although nothing can be cut here: the others may have rows.
            let initial = form.initial_for_all(items);
            let voted: R = form.fold(0..0, initial, Tensor::new(), |rows, _, _| R::of(rows.shallow_clone()));
            return match voted.branch::<Tensor>() {
                ControlFlow::Continue(_) => run.into_inner()(None, 0..0),
                ControlFlow::Break(error) => error,
            };
        }
        let step = |recording: &Recording, items| tensor_of(run.borrow_mut()(Some(recording), 0..items));
        let work = Work { items, room_bytes: 0 };
        let prediction = key.map(|key| StepPrediction::of(key, work, step, |items| take_back(0..items)));
        let alone = Program::default();
        let splitting = pieces.splitting(prediction.as_ref(), &alone);
        decide(&splitting, prediction.as_ref(), &mut *run.borrow_mut(), &take_back);
        let clean_up = |piece| after_failure(prediction.as_ref(), step, &take_back, piece);
        let form = StepPrediction::lead(prediction.as_ref(), splitting.lead(form)).before_retry(clean_up);
        let initial = form.initial_for_all(items);
        form.evenly().fold(0..items, initial, Tensor::new(), |output, start, end| {
            let fill = |rows: Tensor, piece: &Range<usize>| filled(output, &rows, piece.clone(), items);
            attempt(&splitting, (output, start..end), &mut *run.borrow_mut(), &take_back, fill)
        })
    }
}

/// Copies the rows of a piece to their place in the output, which the first piece allocates.
fn filled(output: &Tensor, rows: &Tensor, piece: Range<usize>, items: usize) -> Tensor {
    let shape = rows.size();
    let count = |items: usize| i64::try_from(items).expect("extents of tensors fit in i64");
    let _off = tch::no_grad_guard();
    assert!(
        shape.first() == Some(&count(piece.len())),
        "forward: the body returned shape {shape:?} for {} items: must be one row for each",
        piece.len()
    );
    if piece.len() == items {
        // A view of the data would change with it, which the rows of several pieces do not.
        let is_own = ffi::is_sole(rows).unwrap_or(true);
        return if is_own { rows.shallow_clone() } else { rows.copy() };
    }
    let mut whole = shape;
    whole[0] = count(items);
    let output = if output.defined() {
        output.shallow_clone()
    } else {
        Tensor::empty(&whole, (rows.kind(), rows.device()))
    };
    assert!(
        output.size() == whole,
        "forward: the body returned rows of shape {:?} and of {:?}: must be equal",
        &output.size()[1..],
        &whole[1..]
    );
    let kinds = [output.kind(), rows.kind()];
    assert!(
        kinds[0] == kinds[1],
        "forward: the body returned rows of kind {:?} and of {:?}: must be equal",
        kinds[0],
        kinds[1]
    );
    output.narrow(0, count(piece.start), count(piece.len())).copy_(rows);
    output
}
