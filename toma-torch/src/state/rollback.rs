use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use tch::nn::VarStore;
use tch::{TchError, Tensor};
use toma_core::predict::is_dry;

use crate::error::{Error, ErrorKind};
use crate::{RngState, ffi};

/// Copies of random state, gradients, buffers and tensors of your own, to be restored before a retry.
///
/// A training body changes data that it borrows: it adds to gradients, moves the running averages of a batch norm, and
/// consumes random numbers. Such changes by a failed attempt stay unless they are undone, and then the retry counts
/// twice. A rollback holds copies of the data that you name, and [`restore`](Self::restore) as `before_retry` writes
/// them back.
///
/// A body that runs piece by piece begins with [`refresh`](Self::refresh): then the state from before this piece is
/// restored, and earlier pieces keep their effect. It must come first, because an attempt that fails before it restores
/// an older state, and the effect of the previous piece is lost. So failures that `toma::testing` injects have to come
/// after the body, not in place of it.
///
/// ```
/// use tch::{Device, Kind, TchError, Tensor, nn, nn::ModuleT as _};
/// use toma_core::NoCache;
/// use toma_core::execute;
/// use toma_torch::Rollback;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let variables = nn::VarStore::new(Device::Cpu);
/// let net = nn::seq_t()
///     .add(nn::linear(variables.root(), 8, 4, nn::LinearConfig::default()))
///     .add(nn::batch_norm1d(variables.root() / "norm", 4, nn::BatchNormConfig::default()))
///     .add_fn_t(|input, train| input.dropout(0.5, train));
/// let data = Tensor::randn([64, 8], (Kind::Float, Device::Cpu));
///
/// let rollback = Rollback::new()
///     .rng(Device::Cpu)?
///     .gradients(&variables.trainable_variables())?
///     .buffers(&variables)?;
/// execute::with::<NoCache>().before_retry(|_failed| rollback.restore()).range(
///     0..64,
///     32,
///     |start, end| -> Result<(), TchError> {
///         rollback.refresh()?;
///         let piece = data.f_narrow(0, start as i64, (end - start) as i64)?;
///         let loss = net.forward_t(&piece, true).f_square()?.f_mean(Kind::Float)?;
///         // Each piece counts for its share of the whole.
///         (loss * ((end - start) as f64 / 64.0)).f_backward()
///     },
/// )?;
/// # Ok(())
/// # }
/// ```
///
/// As an attribute, with the rollback as an argument of the function:
///
/// ```
/// # use tch::{Device, Kind, TchError, Tensor};
/// # use toma_torch::Rollback;
/// #[toma::range(initial = 32, before_retry = rollback.restore())]
/// fn noise(start: i64, end: i64, out: &Tensor, rollback: &Rollback) -> Result<(), TchError> {
///     rollback.refresh()?;
///     let mut piece = out.f_narrow(0, start, end - start)?;
///     piece.f_copy_(&Tensor::f_randn([end - start], (Kind::Float, Device::Cpu))?)
/// }
///
/// let rollback = Rollback::new().rng(Device::Cpu)?;
/// noise(0, 100, &Tensor::zeros([100], (Kind::Float, Device::Cpu)), &rollback)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `before_retry` does not run after the last attempt: a call that gives up leaves the changes of that attempt. A
/// program that continues after such a failure calls [`restore`](Self::restore) first.
///
/// Copies take as much memory as their originals, from the first copy until the rollback is dropped; an undefined
/// gradient takes none. [`accumulate_gradients`] needs no copies of gradients: where it can be used, a rollback of the
/// other state is enough.
///
/// [`accumulate_gradients`]: crate::accumulate_gradients
#[must_use = "nothing is put back until `restore` is called"]
#[derive(Debug, Default)]
pub struct Rollback {
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    random: Vec<RngState>,
    gradients: Vec<Gradient>,
    buffers: Vec<Copied>,
    /// True if the last refresh failed half way, so that the copies are from different moments.
    torn: bool,
}

#[derive(Debug)]
struct Gradient {
    variable: Tensor,
    /// `None` if the gradient was undefined.
    kept: Option<Copied>,
}

/// A tensor and a copy of its values.
#[derive(Debug)]
struct Copied {
    tensor: Tensor,
    copy: Tensor,
}

thread_local! {
    /// Placeholders for the copies of gradients that a refresh would make, by the address of the `Gradient`.
    static DRY_COPIES: RefCell<HashMap<usize, Tensor>> = RefCell::default();
}

/// Drops the placeholders of a dry run when the run ends.
#[derive(Debug)]
pub(crate) struct DryCopies;

impl Drop for DryCopies {
    fn drop(&mut self) {
        drop(DRY_COPIES.take());
    }
}

impl Rollback {
    /// Makes a rollback of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the random state of `device`.
    ///
    /// # Errors
    /// If the device does not exist.
    pub fn rng(self, device: tch::Device) -> Result<Self, Error> {
        let state = RngState::of(device)?;
        self.change(|parts| parts.random.push(state));
        Ok(self)
    }

    /// Adds the gradients of `variables`: their values, or that they are undefined.
    ///
    /// # Errors
    /// If memory runs out, or a gradient is sparse, because it could not be restored without memory.
    pub fn gradients<T: Borrow<Tensor>>(self, variables: &[T]) -> Result<Self, Error> {
        let variables = variables.iter().map(|variable| Gradient::of(variable.borrow()));
        let gradients = variables.collect::<Result<Vec<_>, _>>()?;
        self.change(|parts| parts.gradients.extend(gradients));
        Ok(self)
    }

    /// Adds the tensors in `variables` that are not trained, such as the running averages of a batch norm. Frozen
    /// variables do not change, and are left out.
    ///
    /// # Errors
    /// If memory runs out, or a tensor belongs to a graph.
    pub fn buffers(self, variables: &VarStore) -> Result<Self, Error> {
        let trained: Vec<_> = variables.trainable_variables().iter().map(ffi::storage_identity).collect();
        let all = variables.variables().into_values();
        let buffers = all.filter(|tensor| !trained.contains(&ffi::storage_identity(tensor)));
        let buffers = buffers.map(Copied::of_leaf).collect::<Result<Vec<_>, _>>()?;
        self.change(|parts| parts.buffers.extend(buffers));
        Ok(self)
    }

    /// Adds the values of `tensors`: an average of weights, a hidden state, or any other tensor that a body changes in
    /// place. Tensors that share memory can be listed together.
    ///
    /// Values are restored in these very tensors, and graphs that they got in place are dropped. If a body binds a name
    /// to another tensor, as in `state = next`, the name still refers to the other tensor afterwards.
    ///
    /// ```
    /// use tch::{Device, Kind, Tensor};
    /// use toma_torch::Rollback;
    ///
    /// let mut average = Tensor::zeros([4], (Kind::Float, Device::Cpu));
    /// let rollback = Rollback::new().tensors(&[&average])?;
    /// let _ = average.lerp_(&average.ones_like(), 0.5);
    /// rollback.restore();
    /// assert_eq!(average, average.zeros_like());
    /// # Ok::<(), toma_torch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If memory runs out, or a tensor cannot be put back in place: an undefined tensor, one that belongs to a graph, one
    /// whose elements share memory with each other (as after `expand`), and sparse or other layouts without strides.
    pub fn tensors<T: Borrow<Tensor>>(self, tensors: &[T]) -> Result<Self, Error> {
        let copies = tensors.iter().map(|tensor| Copied::of_user(tensor.borrow()));
        let copies = copies.collect::<Result<Vec<_>, _>>()?;
        self.change(|parts| parts.buffers.extend(copies));
        Ok(self)
    }

    /// Replaces the saved state by the current one.
    ///
    /// Needs memory only for gradients that were undefined at the last refresh. In a [dry run](crate::dry_run), which
    /// undoes all changes itself, only that memory is counted, from the first piece on.
    ///
    /// # Errors
    /// If memory runs out, a gradient has become sparse, or another tensor belongs to a graph by now. Then nothing is
    /// restored until a refresh succeeds: a body that ends with this error has not changed anything yet.
    pub fn refresh(&self) -> Result<(), Error> {
        self.change(|parts| {
            if is_dry() {
                return parts.refresh_dry();
            }
            parts.torn = true;
            parts.refresh()?;
            parts.torn = false;
            Ok(())
        })
    }

    /// Restores the state of the last refresh. Needs no memory of any device.
    ///
    /// # Panics
    /// If a device is gone or refuses, or a view among the [tensors](Self::tensors) got a graph in place: the retry would
    /// compute something else.
    pub fn restore(&self) {
        self.change(|parts| {
            if parts.torn || is_dry() {
                return;
            }
            if let Err(error) = parts.restore() {
                panic!("rollback: cannot be put back: {error}");
            }
        });
    }

    fn change<R>(&self, change: impl FnOnce(&mut Parts) -> R) -> R {
        // A panic under the lock leaves each single copy intact.
        change(&mut self.parts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Parts {
    fn refresh(&mut self) -> Result<(), Error> {
        for state in &mut self.random {
            state.refresh()?;
        }
        self.gradients.iter_mut().try_for_each(Gradient::refresh)?;
        self.buffers.iter_mut().try_for_each(Copied::refresh_leaf)
    }

    /// Holds placeholders for the copies of gradients until the dry run ends, so that their memory is counted. Real
    /// copies are impossible, because tensors of a dry run have no memory.
    fn refresh_dry(&self) -> Result<(), Error> {
        self.gradients.iter().try_for_each(Gradient::refresh_dry)
    }

    fn restore(&mut self) -> Result<(), Error> {
        self.gradients.iter_mut().try_for_each(Gradient::restore)?;
        self.buffers.iter_mut().try_for_each(Copied::restore_leaf)?;
        self.random.iter().try_for_each(RngState::restore)
    }
}

impl Gradient {
    fn of(variable: &Tensor) -> Result<Self, Error> {
        let mut gradient = Self { variable: variable.shallow_clone(), kept: None };
        gradient.refresh()?;
        Ok(gradient)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        let now = self.variable.f_grad()?;
        if !now.defined() {
            self.kept = None;
            return Ok(());
        }
        refuse_sparse(&now)?;
        match &mut self.kept {
            // The same tensor, or one that has replaced it.
            Some(kept) if kept.copy.size() == now.size() && kept.copy.kind() == now.kind() => {
                kept.tensor = now;
                kept.refresh()?;
            }
            kept => *kept = Some(Copied::new(now)?),
        }
        Ok(())
    }

    fn refresh_dry(&self) -> Result<(), Error> {
        refuse_sparse(&self.variable.f_grad()?)?;
        let key = ptr::from_ref(self).addr();
        if self.kept.is_none() && !DRY_COPIES.with_borrow(|copies| copies.contains_key(&key)) {
            let copy = self.variable.f_empty_like()?;
            DRY_COPIES.with_borrow_mut(|copies| copies.insert(key, copy));
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), TchError> {
        if let Some(kept) = &mut self.kept {
            kept.restore()?;
        }
        // Replaces any gradient that has been set since.
        ffi::set_gradient(&self.variable, self.kept.as_ref().map(|kept| &kept.tensor))
    }
}

fn refuse_sparse(gradient: &Tensor) -> Result<(), Error> {
    if !gradient.defined() || !gradient.is_sparse() {
        return Ok(());
    }
    let text = "sparse gradient: cannot be put back without memory".to_owned();
    Err(Error::new(ErrorKind::Unsupported, text))
}

/// Refuses a tensor that was computed with a gradient: after another write its graph could not be restored.
fn refuse_graph(tensor: &Tensor) -> Result<(), Error> {
    if tensor.f_is_leaf()? { Ok(()) } else { Err(not_in_place("tensor that belongs to a graph")) }
}

fn not_in_place(reason: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{reason}: cannot be put back in place"))
}

impl Copied {
    fn new(tensor: Tensor) -> Result<Self, TchError> {
        let mut copied = Self { copy: tensor.f_empty_like()?, tensor };
        copied.refresh()?;
        Ok(copied)
    }

    /// Refuses tensors that could not be restored in place.
    fn of_user(tensor: &Tensor) -> Result<Self, Error> {
        let reason = match tensor {
            _ if !tensor.defined() => "undefined tensor",
            _ if tensor.is_sparse() => "sparse tensor",
            // `f_internal_debug_has_internal_overlap` fails for other layouts without strides; 1 means certain overlap.
            _ if tensor.f_internal_debug_has_internal_overlap()? == 1 => "tensor whose elements share memory",
            _ => return Self::of_leaf(tensor.shallow_clone()),
        };
        Err(not_in_place(reason))
    }

    fn of_leaf(tensor: Tensor) -> Result<Self, Error> {
        refuse_graph(&tensor)?;
        Ok(Self::new(tensor)?)
    }

    fn refresh_leaf(&mut self) -> Result<(), Error> {
        refuse_graph(&self.tensor)?;
        Ok(self.refresh()?)
    }

    /// Also drops the graph of operators that have written the tensor since: the retry would add their gradients.
    fn restore_leaf(&mut self) -> Result<(), TchError> {
        if !self.tensor.f_is_leaf()? {
            drop(self.tensor.f_detach_()?);
        }
        self.restore()
    }

    fn refresh(&mut self) -> Result<(), TchError> {
        let _off = tch::no_grad_guard();
        self.copy.f_copy_(&self.tensor)
    }

    fn restore(&mut self) -> Result<(), TchError> {
        let _off = tch::no_grad_guard();
        self.tensor.f_copy_(&self.copy)
    }
}
