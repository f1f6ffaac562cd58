//! Gradients that are added all at once, or not at all.
//!
//! # Why
//!
//! Gradients are computed first and then added in place. A variable without a gradient takes over the new tensor
//! only if nothing else refers to that tensor, because backward also hands out views and shared tensors.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::HashSet;

use tch::{Kind, TchError, Tensor};

use toma_core::ranks;

use crate::ffi;
use crate::tensor::packed_bytes;

/// Adds the gradients of a loss to the gradients of the variables: all of them, or none.
///
/// `loss.backward()` adds to one variable after the other while it runs. If memory runs out half way, some
/// variables have their share already, and a piece that is tried again counts twice for them. This function
/// computes all gradients first and adds them when nothing is left that could run out of memory.
///
/// The price is that all new gradients are in memory at once, whereas `backward` frees each one when it is added:
/// at most the size of the variables in addition. Variables that need no gradient, and those that the loss does
/// not depend on, are skipped. A variable that is listed twice, as tied weights are, gets its gradient once.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_core::NoCache;
/// use toma_core::execute;
/// use toma_torch::accumulate_gradients;
///
/// let data = Tensor::ones([100, 4], (Kind::Float, Device::Cpu));
/// let weight = Tensor::zeros([4], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// execute::with::<NoCache>().chunked(&data, 32, |chunk, _start, _end| {
///     let loss = (chunk.f_matmul(&weight)? - 1.0).f_square()?.f_sum(Kind::Float)?;
///     accumulate_gradients(&loss, &[&weight])
/// })?;
/// assert_eq!(weight.grad().double_value(&[0]), -200.0);
/// # Ok::<(), tch::TchError>(())
/// ```
///
/// # Errors
/// The errors of backward, most of all out of memory. Also for a loss of more than one element or of a complex
/// kind, for a variable that was computed from others, and for sparse gradients. No gradient has changed then,
/// unless the device itself fails while gradients are added.
///
/// # Panics
/// If the device fails while gradients are added in an attempt on which [ranks](crate::ranks) agree, because
/// there they are added only after the agreement.
pub fn accumulate_gradients<T: Borrow<Tensor>>(loss: &Tensor, variables: &[T]) -> Result<(), TchError> {
    let variables: Vec<&Tensor> = variables.iter().map(Borrow::borrow).collect();
    check(loss, &variables).map_err(TchError::Torch)?;
    let variables = trained(variables);
    if variables.is_empty() {
        // Given no variables, libtorch would add gradients to all leaves.
        return Ok(());
    }
    let gradients = Tensor::f_run_backward(&[loss], &variables, false, false)?;
    // Until then libtorch's thread may still refer to a gradient, and `is_sole` would be false.
    ffi::wait_for_backward(loss).map_err(|error| TchError::Torch(error.to_string()))?;
    let _off = tch::no_grad_guard();
    let shares = variables.into_iter().zip(gradients).filter(|(_, gradient)| gradient.defined());
    let shares = shares.map(|(variable, gradient)| Addend::new(variable, gradient));
    let shares = shares.collect::<Result<Vec<_>, _>>()?;
    // Sums come before first gradients: if the device fails at the very first sum, no gradient has changed.
    let (mut sums, firsts): (Vec<_>, Vec<_>) = shares.into_iter().partition(|share| !share.is_first);
    // An offload manager may have to fetch a sum. If the largest fits, so do the others.
    sums.sort_by_key(|share| Reverse(packed_bytes(&share.gradient)));
    let shares = sums.into_iter().chain(firsts);
    if !ranks::agrees_later() {
        return shares.into_iter().try_for_each(Addend::add);
    }
    ranks::when_agreed(move || {
        let _off = tch::no_grad_guard();
        shares.into_iter().try_for_each(Addend::add).unwrap_or_else(|error| panic!("{error}"));
    });
    Ok(())
}

/// Makes the checks that libtorch omits here: it would crash, or sum up a loss of many elements.
fn check(loss: &Tensor, variables: &[&Tensor]) -> Result<(), String> {
    let elements = loss.numel();
    if elements != 1 {
        return Err(format!("loss of {elements} elements: must have exactly one"));
    }
    if let Ok(kind @ (Kind::ComplexHalf | Kind::ComplexFloat | Kind::ComplexDouble)) = loss.f_kind() {
        return Err(format!("loss of kind {kind:?}: must be real"));
    }
    if !loss.requires_grad() {
        return Err(
            "loss: was computed from nothing that requires gradients, or with gradients off".to_owned()
        );
    }
    match variables.iter().position(|variable| !variable.is_leaf()) {
        Some(index) => Err(format!("variable {index}: was computed from others, so it keeps no gradient")),
        None => Ok(()),
    }
}

/// Variables that get a gradient, each once: handles to one tensor share its gradient.
fn trained(variables: Vec<&Tensor>) -> Vec<&Tensor> {
    let mut seen = HashSet::new();
    let mut is_new = |variable: &Tensor| seen.insert(ffi::identity(variable));
    variables.into_iter().filter(|variable| variable.requires_grad() && is_new(variable)).collect()
}

/// Gradient to be added to one variable.
struct Addend {
    variable: Tensor,
    gradient: Tensor,
    /// True if the variable has no gradient yet.
    is_first: bool,
}

impl Addend {
    /// Does everything that can run out of memory.
    fn new(variable: &Tensor, gradient: Tensor) -> Result<Self, TchError> {
        let sum = variable.grad();
        if gradient.is_sparse() || (sum.defined() && sum.is_sparse()) {
            return Err(TchError::Torch("sparse gradient: cannot be added without memory".to_owned()));
        }
        let is_first = !sum.defined();
        // A first gradient becomes the variable's own. Backward hands out views, and one tensor to several
        // variables: later additions in place would change them together.
        let becomes_its_own = is_first || ranks::agrees_later();
        let gradient =
            if !becomes_its_own || ffi::is_sole(&gradient)? { gradient } else { own_copy(&gradient)? };
        Ok(Self { variable: variable.shallow_clone(), gradient, is_first })
    }

    /// Adds in place, so it needs no memory, unless an offload manager has to fetch the sum.
    fn add(self) -> Result<(), TchError> {
        // An earlier addend of the same attempt may have set the first gradient.
        let mut sum = self.variable.grad();
        if sum.defined() {
            return sum.f_add_(&self.gradient).map(drop);
        }
        ffi::set_gradient(&self.variable, Some(&self.gradient))
    }
}

fn own_copy(gradient: &Tensor) -> Result<Tensor, TchError> {
    let mut copy = gradient.f_empty_like()?;
    copy.f_copy_(gradient)?;
    Ok(copy)
}
