//! `seq` and `seq_t` in place of tch's, and memonger's cases.

use crate::ground;
use tch::nn::{self, Module as _, ModuleT as _, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::kit::alone;

fn input() -> Tensor {
    Tensor::arange(12, ground::floats()).reshape([3, 4]) / 12.0
}

#[test]
fn sequences_give_what_those_of_tch_give() {
    let _alone = alone();
    let add = |by: f64| move |x: &Tensor| (x + by).tanh();
    let ours = (0..3).fold(checkpoint::seq(), |net, at| net.add_fn(add(f64::from(at))));
    let theirs = (0..3).fold(nn::seq(), |net, at| net.add_fn(add(f64::from(at))));
    let x = input().set_requires_grad(true);
    assert_eq!(ours.forward(&x), theirs.forward(&x));
    assert_eq!((ours.len(), ours.is_empty()), (3, false));
    for n in [None, Some(0), Some(1), Some(2), Some(9)] {
        assert_eq!(ours.forward_all(&x, n), theirs.forward_all(&x, n), "{n:?}");
    }
    assert_eq!(checkpoint::seq().forward_all(&x, None), nn::seq().forward_all(&x, None));
    assert_eq!(checkpoint::seq().forward(&x), x);
    let ours = checkpoint::seq_t().add_fn_t(|x, train| if train { x * 2 } else { x * 3 }).add_fn(Tensor::sin);
    let theirs = nn::seq_t().add_fn_t(|x, train| if train { x * 2 } else { x * 3 }).add_fn(Tensor::sin);
    for train in [false, true] {
        assert_eq!(ours.forward_t(&x, train), theirs.forward_t(&x, train));
        assert_eq!(ours.forward_all_t(&x, train, None), theirs.forward_all_t(&x, train, None));
    }
}

#[test]
fn a_sequence_is_a_region_of_its_own_and_its_layers_are_stages() {
    let _alone = alone();
    let vs = VarStore::new(ground::device());
    let layer = |at: i64| nn::linear(vs.root() / at, 4, 4, nn::LinearConfig::default());
    let net = (0..11).fold(checkpoint::seq_t(), |net, at| net.add(layer(at)));
    net.forward_t(&input(), true).sum(Kind::Float).backward();
    assert_eq!(checkpoint::last().unwrap().stages(), 11);
    let off = checkpoint::seq_t().add(layer(11)).enabled(false);
    off.forward_t(&input(), true).sum(Kind::Float).backward();
    assert_eq!(checkpoint::last().unwrap().stages(), 11, "nothing recorded since");
}

#[test]
fn memongers_cases() {
    let _alone = alone();
    // An input without gradients, nested and empty containers, and `grad()`: these fail in memonger.
    let vs = VarStore::new(ground::device());
    let layer = |at: i64| nn::linear(vs.root() / at, 4, 4, nn::LinearConfig::default());
    let inner = checkpoint::seq_t().add(layer(0)).add(checkpoint::seq_t()).add(layer(1));
    let net = checkpoint::module(checkpoint::seq_t().add(inner).add(layer(2)));
    let output = net.forward_t(&input(), true);
    let variables = vs.trainable_variables();
    let gradients = Tensor::run_backward(&[output.sum(Kind::Float)], &variables, false, false);
    assert_eq!(gradients.len(), 6);
    assert!(gradients.iter().all(Tensor::defined));
    assert_eq!(checkpoint::last().unwrap().stages(), 3);
}
