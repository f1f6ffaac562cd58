//! Gradients are added all or not at all.

use tch::{Kind, TchError, Tensor};
use toma_torch::accumulate_gradients;

use crate::ground;
use crate::stage::{alone, failing_at, size};

/// Returns the gradients of the variables, `None` where one is undefined.
fn gradients(variables: &[Tensor]) -> Vec<Option<Tensor>> {
    let grads = variables.iter().map(Tensor::grad);
    grads.map(|grad| grad.defined().then(|| grad.copy())).collect()
}

/// Copies the variables without their gradients.
fn fresh(variables: &[Tensor]) -> Vec<Tensor> {
    let clone = |variable: &Tensor| variable.detach().copy().set_requires_grad(variable.requires_grad());
    variables.iter().map(clone).collect()
}

fn variable(sizes: &[i64]) -> Tensor {
    Tensor::randn(sizes, ground::floats()).set_requires_grad(true)
}

/// Losses whose gradients come in every form: as one tensor for two variables, as a view of one element, not at all,
/// for a variable used twice, and through layers.
fn losses(of: &[Tensor]) -> Result<Tensor, TchError> {
    let [a, b, c, _unused, frozen] = of else { panic!("five variables") };
    let shared = a.f_add(b)?.f_sum(Kind::Float)?;
    let expanded = c.f_sum(Kind::Float)?;
    let twice = a.f_mul(a)?.f_mul(frozen)?.f_tanh()?.f_sum(Kind::Float)?;
    shared.f_add(&expanded)?.f_add(&twice)
}

fn variables() -> Vec<Tensor> {
    tch::manual_seed(3);
    let frozen = Tensor::randn([4], ground::floats());
    vec![variable(&[4]), variable(&[4]), variable(&[3, 5]), variable(&[2]), frozen]
}

#[test]
fn they_are_those_of_backward_first_and_later() {
    let _alone = alone();
    let (ours, theirs) = (variables(), fresh(&variables()));
    for _ in 0..3 {
        accumulate_gradients(&losses(&ours).unwrap(), &ours).unwrap();
        losses(&theirs).unwrap().backward();
        assert_eq!(gradients(&ours), gradients(&theirs));
    }
    assert!(gradients(&ours)[3..].iter().all(Option::is_none), "unused and frozen");
}

#[test]
fn two_variables_never_share_a_gradient() {
    let _alone = alone();
    let of = variables();
    accumulate_gradients(&losses(&of).unwrap(), &of).unwrap();
    let before = of[1].grad().copy();
    let _ = of[0].grad().fill_(7.0);
    let _ = of[2].grad().get(0).get(0).fill_(7.0);
    assert_eq!(of[1].grad(), before);
    assert_eq!(of[2].grad().double_value(&[0, 1]), 1.0, "each element has a place of its own");
}

#[test]
fn a_variable_that_is_listed_twice_gets_its_gradient_once() {
    let _alone = alone();
    let weight = variable(&[4]);
    let (tied, other) = (weight.shallow_clone(), variable(&[4]));
    let of = [&weight, &other, &weight, &tied];
    let expected = weight.detach() * 2.0;
    for times in 1..=3 {
        accumulate_gradients(&(&weight * &tied + &other).sum(Kind::Float), &of).unwrap();
        assert_eq!(weight.grad(), &expected * f64::from(times), "time {times}");
        assert_eq!(other.grad().double_value(&[0]), f64::from(times));
    }
}

#[test]
fn a_failure_at_any_allocation_changes_none_of_them() {
    let _alone = alone();
    let of = variables();
    // First the gradients are made, then further ones are added.
    for _ in 0..2 {
        let before = gradients(&of);
        let (mut allocation, mut failed) = (0, true);
        while failed {
            let loss = losses(&of).unwrap();
            let (result, has_failed) = failing_at(allocation, || accumulate_gradients(&loss, &of));
            failed = has_failed;
            assert_eq!(result.is_err(), failed, "allocation {allocation}: {result:?}");
            assert_eq!(gradients(&of) == before, failed, "allocation {allocation}");
            allocation += 1;
        }
        assert!(allocation > 3, "{allocation} allocations: too few for a backward");
    }
}

#[test]
fn a_gradient_that_cannot_be_added_is_named_and_changes_nothing() {
    let _alone = alone();
    let weight = variable(&[4, size(2)]);
    let text = |result: Result<(), TchError>| result.unwrap_err().to_string();
    let loss = || weight.square().sum(Kind::Float);
    let many = text(accumulate_gradients(&weight.square(), &[&weight]));
    assert!(many.contains("loss of 8 elements: must have exactly one"), "{many}");
    let constant = Tensor::ones([1], ground::floats());
    let computed = text(accumulate_gradients(&loss(), &[&constant, &weight, &(&weight * 2.0)]));
    assert!(computed.contains("variable 2: was computed from others"), "{computed}");
    let complex = loss().to_kind(Kind::ComplexFloat);
    assert!(complex.f_backward().is_err());
    let complex = text(accumulate_gradients(&complex, &[&weight]));
    assert!(complex.contains("loss of kind ComplexFloat: must be real"), "{complex}");
    let constant = Tensor::from(1.0_f32);
    let constant = text(accumulate_gradients(&constant, &[&weight]));
    assert!(constant.contains("loss: was computed from nothing"), "{constant}");
    let rows = Tensor::from_slice(&[0_i64, 2]).to_device(ground::device());
    let sparse = Tensor::embedding(&weight, &rows, -1, false, true).sum(Kind::Float);
    let sparse = text(accumulate_gradients(&sparse, &[&weight]));
    assert!(sparse.contains("sparse gradient"), "{sparse}");
    assert!(!weight.grad().defined());
    accumulate_gradients::<&Tensor>(&loss(), &[]).unwrap();
    assert!(!weight.grad().defined(), "asked for none, nothing is added");
}
