use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::Location;

use tch::{Kind, Tensor};
use toma_core::chunk::{Chunk, Chunked};
use toma_core::execute::{Undo, With};
use toma_core::policy::Policy;
use toma_core::predict::is_dry;
use toma_core::ranks::agrees_later;
use toma_core::{Judge, Outcome};

use super::first_steps::FirstSteps;
use super::gradients::Gradients;
use super::loss::{Loss, Share, Shares};
use super::optimizer::Steps;
use super::pieces::{Pieces, after_failure, attempt, decide, run_piece, tensor_of, then};
use super::variables::Variables;
use crate::accumulate_gradients;
use crate::ffi::Recording;
use crate::predict::{Program, StepPrediction, Work};
use crate::tensor::TensorData;

/// [`backward`](super::backward) and [`backward_step`](super::backward_step) with options of your choice.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_core::{GlobalCache, execute};
/// use toma_torch::{Backward as _, Device, Loss};
///
/// let device = Device::new(tch::Device::Cpu);
/// let data = Tensor::arange(5, (Kind::Float, tch::Device::Cpu));
/// let weight = Tensor::ones([], (Kind::Float, tch::Device::Cpu)).set_requires_grad(true);
/// let form = execute::with::<GlobalCache>().name("fit").device(&device);
/// form.backward(Loss::Found, &weight, &data, |data| (data * &weight).mean(Kind::Float));
/// assert_eq!(weight.grad().double_value(&[]), 2.0);
/// ```
pub trait Backward<K> {
    /// Adds the gradients of `body`'s loss to those of `variables`, in pieces cut along dim 0.
    ///
    /// Returns the loss of the whole, without a graph; 0 if nothing counts.
    ///
    /// ```
    /// use tch::{Device, Kind, Tensor};
    /// use toma_core::{GlobalCache, execute};
    /// use toma_torch::{Backward as _, Loss};
    ///
    /// let data = Tensor::arange(5, (Kind::Float, Device::Cpu));
    /// let weight = Tensor::ones([], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    /// let sum = execute::with::<GlobalCache>().max(2).backward(Loss::Sum, &weight, &data, |data| {
    ///     (data * &weight).sum(Kind::Float)
    /// });
    /// assert_eq!(sum.double_value(&[]), 10.0);
    /// assert_eq!(weight.grad().double_value(&[]), 10.0);
    /// ```
    ///
    /// Each piece adds all its gradients or none, as [`accumulate_gradients`] does. Gradients have the kind of their
    /// variables. In half precision a sum of hundreds of pieces loses the later ones: keep variables in `Float` then.
    ///
    /// # Errors
    /// Errors of `body`. Gradients of earlier pieces have been added then.
    ///
    /// # Panics
    /// When a loss has more than one element or depends on nothing that requires gradients, when
    /// [counts](Loss::Counted) do not fit the items, where backward fails, with libtorch's words, when a later piece
    /// has other operators than the first, in a body that reads numbers or at another size, and when the body of a later
    /// piece changes gradients itself, as by `zero_grad`.
    #[track_caller]
    fn backward<D, C, R, S, M>(
        self,
        loss: Loss<'_>,
        variables: &(impl Variables + ?Sized),
        data: D,
        body: impl FnMut(Chunk<'_, D, C>) -> R,
    ) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>;

    /// Sets gradients to zero, adds those of `body`'s loss, and takes a step.
    ///
    /// An optimizer allocates its state at its first step. Until a step of its variables has been observed, two numbers
    /// for each weight are left free, as many as Adam keeps, whichever optimizer it is. So sizes that were found in a
    /// first step hold for the next.
    ///
    /// `optimizer` is a `&mut Optimizer` of tch, or [`Clipped`](super::Clipped).
    ///
    /// # Errors
    /// Errors of `body`. No step is taken then.
    ///
    /// # Panics
    /// As [`backward`](Self::backward), and in an attempt on which [ranks](crate::ranks) agree, because the gradients
    /// are added only once they have agreed, which is after the step.
    ///
    /// With the option `ranks` each rank takes the step with its own gradients. To sum them before it, call
    /// [`backward`](Self::backward).
    #[track_caller]
    fn backward_step<D, C, R, S, M>(
        self,
        loss: Loss<'_>,
        optimizer: impl Steps,
        data: D,
        body: impl FnMut(Chunk<'_, D, C>) -> R,
    ) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>;
}

impl<P: Policy, K, B: Undo> Backward<K> for With<'_, P, K, B> {
    #[track_caller]
    #[inline(always)]
    fn backward<D, C, R, S, M>(
        self,
        loss: Loss<'_>,
        variables: &(impl Variables + ?Sized),
        mut data: D,
        mut body: impl FnMut(Chunk<'_, D, C>) -> R,
    ) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>,
    {
        let (items, device) = (data.extent(0), data.device());
        let pieces = Pieces::of(&self, Location::caller(), (&data, items), loss.purpose(), &body);
        let (shares, trained) = (Shares::new(loss, items), variables.trainable_variables());
        let gradients = Gradients::new(&trained, pieces.is_judged());
        let key = pieces.key(&data).map(|key| key.with_variables(&trained));
        let room_bytes = key.as_ref().map_or(0, |_| variables.room_bytes(&trained));
        let (form, undo) = self.lend_undo();
        let undo = RefCell::new(undo);
        let take_back = |piece: Range<usize>| undo.borrow_mut().undo(piece);
        let run = RefCell::new(|recording: Option<&Recording>, piece: Range<usize>| {
            let start = piece.start;
            let mut watched = |chunk: Chunk<'_, D, C>| gradients.watch(recording, start, || body(chunk));
            run_piece(&mut data, &mut watched, recording, piece)
        });
        let step = |recording: &Recording, items| {
            let loss = tensor_of(run.borrow_mut()(Some(recording), 0..items))?;
            Ok(added(&Tensor::new(), loss, shares.some(), &trained))
        };
        let work = Work { items, room_bytes };
        let prediction = key.map(|key| StepPrediction::of(key, work, step, |items| take_back(0..items)));
        let alone = Program::default();
        let splitting = pieces.splitting(prediction.as_ref(), &alone);
        decide(&splitting, prediction.as_ref(), &mut *run.borrow_mut(), &take_back);
        let clean_up = |piece| after_failure(prediction.as_ref(), step, &take_back, piece);
        let form = StepPrediction::lead(prediction.as_ref(), splitting.lead(form)).before_retry(clean_up);
        let (initial, kind) = (form.initial_for_all(items), Cell::new(Kind::Float));
        let losses = form.evenly().fold(0..items, initial, Tensor::new(), |sum, start, end| {
            let add = |loss: Tensor, piece: &Range<usize>| {
                gradients.check();
                kind.set(loss.kind());
                added(sum, loss, shares.of(piece, splitting.combined()), &trained)
            };
            attempt(&splitting, (sum, start..end), &mut *run.borrow_mut(), &take_back, add)
        });
        then(losses, |sum| loss_of_whole(&sum, kind.get(), device))
    }

    #[track_caller]
    #[inline(always)]
    fn backward_step<D, C, R, S, M>(
        self,
        loss: Loss<'_>,
        mut optimizer: impl Steps,
        data: D,
        body: impl FnMut(Chunk<'_, D, C>) -> R,
    ) -> R
    where
        D: Chunked<C> + TensorData,
        R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
        K: Judge<R, M>,
    {
        // In an outer dry run, gradients that an optimizer drops and state that it makes could not be taken back.
        let is_real = !is_dry();
        assert!(
            !agrees_later(),
            "backward_step in an attempt on which ranks agree: must be backward, and a step later"
        );
        if is_real {
            optimizer.zero_grad();
        }
        let first_steps = FirstSteps::of(optimizer.trained());
        let losses = self.backward(loss, &first_steps, data, body);
        let stepped = first_steps.end();
        then(losses, |loss| {
            if is_real {
                optimizer.step();
                stepped.remember();
            }
            loss
        })
    }
}

/// Returns the sum of the losses in the kind of the body's; 0 if nothing counts.
fn loss_of_whole(sum: &Tensor, kind: Kind, device: tch::Device) -> Tensor {
    if sum.defined() { sum.to_kind(kind) } else { Tensor::zeros([], (Kind::Float, device)) }
}

/// Returns the sum of the losses with that of a piece, whose gradients it adds.
fn added(sum: &Tensor, loss: Tensor, share: Share, variables: &[Tensor]) -> Tensor {
    let part = match share {
        Share::Nothing => return sum.shallow_clone(),
        Share::Whole => loss,
        Share::Part(weight) => loss * weight,
    };
    // In half precision a sum of many pieces would lose the later ones.
    let is_half = matches!(part.kind(), Kind::Half | Kind::BFloat16);
    let value = if is_half { part.detach().to_kind(Kind::Float) } else { part.detach() };
    let sum = if sum.defined() { sum + value } else { value };
    // Last, and all or nothing: if a piece fails, no gradient has been changed.
    match accumulate_gradients(&part, variables) {
        Ok(()) => sum,
        Err(error) => panic!("backward: {error}"),
    }
}
