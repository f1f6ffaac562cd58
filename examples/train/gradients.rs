//! Gradients that are added up piece by piece, each piece wholly or not at all.

use tch::{TchError, Tensor};

/// Gives each variable a gradient of zeros, which stays in place from then on.
pub(crate) fn create(variables: &[Tensor]) {
    let nothing = variables.iter().map(|variable| (variable * 0.0).sum(variable.kind()));
    nothing.for_each(|nothing| nothing.backward());
}

pub(crate) fn clear(variables: &[Tensor]) {
    for variable in variables {
        let _ = variable.grad().zero_();
    }
}

/// Adds the gradients of `loss` to those of the variables: to all of them, or to none when memory
/// runs out.
///
/// libtorch's ordinary `backward` adds to each as it goes, so a failure in the middle would leave
/// some of them added, and the retry would add them again. This one has all of them first. Adding
/// in place takes no memory, so it does not fail halfway.
pub(crate) fn backward(loss: &Tensor, variables: &[Tensor]) -> Result<(), TchError> {
    let gradients = Tensor::f_run_backward(&[loss], variables, false, false)?;
    for (variable, gradient) in variables.iter().zip(&gradients) {
        let _ = variable.grad().f_add_(gradient)?;
    }
    Ok(())
}
