//! A failure at every allocation of a step, made by operators and by fetches.

use crate::ground::{self, FailingAllocation};
use tch::{Kind, TchError, Tensor};
use toma_torch::offload::{Eviction, Genoa, Lru, Manager};

use crate::kit::{alone, bits, entered};
use crate::rounds::rounds;

type Loss = fn(&[Tensor]) -> Result<Tensor, TchError>;

/// The six kinds of nets, with few rows and narrow layers: their first tensor is the input.
const SMALL: [(&str, &[&[i64]], Loss); 6] = [
    ("perceptron", &[&[4, 8], &[8, 8], &[8], &[5, 8], &[5]], |of| {
        let hidden = of[0].f_linear(&of[1], Some(&of[2]))?.f_relu()?;
        hidden.f_linear(&of[3], Some(&of[4]))?.f_log_softmax(-1, Kind::Float)?.f_square()?.f_mean(Kind::Float)
    }),
    ("transformer", &[&[2, 4, 8], &[24, 8], &[24], &[8, 8], &[8], &[16, 8], &[16], &[8, 16], &[8]], |of| {
        let x = of[0].f_layer_norm([8], Some(&of[4]), Some(&of[8]), 1e-5, true)?;
        let heads =
            x.f_linear(&of[1], Some(&of[2]))?.f_reshape([2, 4, 3, 2, 4])?.f_permute([2, 0, 3, 1, 4])?;
        let [query, key, value] = [0, 1, 2].map(|at| heads.f_select(0, at));
        let scores = query?.f_matmul(&key?.f_transpose(-2, -1)?)?.f_softmax(-1, Kind::Float)?;
        let attended =
            scores.f_dropout(0.1, true)?.f_matmul(&value?)?.f_transpose(1, 2)?.f_reshape([2, 4, 8])?;
        let x = attended.f_linear(&of[3], Some(&of[4]))?.f_add(&of[0])?;
        let wide = x.f_linear(&of[5], Some(&of[6]))?.f_gelu("none")?;
        wide.f_linear(&of[7], Some(&of[8]))?.f_dropout(0.1, true)?.f_add(&x)?.f_square()?.f_mean(Kind::Float)
    }),
    ("residual", &[&[2, 2, 6, 6], &[2, 2, 3, 3], &[2], &[2], &[2, 2, 1, 1]], |of| {
        let y = normed(&convolved(&of[0], &of[1])?, of)?.f_relu()?;
        let y = normed(&convolved(&y, &of[1])?, of)?;
        let around = of[0].f_conv2d(&of[4], None::<Tensor>, 1, 0, 1, 1)?;
        y.f_add(&around)?.f_relu()?.f_adaptive_avg_pool2d([1, 1])?.f_square()?.f_sum(Kind::Float)
    }),
    ("convolutions", &[&[2, 2, 8, 8], &[2, 2, 3, 3], &[2], &[2], &[3, 32]], |of| {
        let x = normed(&convolved(&of[0], &of[1])?, of)?.f_relu()?;
        let x = x.f_max_pool2d(2, 2, 0, 1, false)?.f_flatten(1, -1)?;
        x.f_linear(&of[4], None::<Tensor>)?.f_square()?.f_mean(Kind::Float)
    }),
    ("u-net", &[&[1, 2, 8, 8], &[2, 2, 3, 3], &[4, 2, 3, 3], &[1, 6, 3, 3]], |of| {
        let wide = convolved(&of[0], &of[1])?.f_relu()?;
        let narrow = convolved(&wide.f_max_pool2d(2, 2, 0, 1, false)?, &of[2])?.f_relu()?;
        let larger = narrow.f_upsample_nearest2d([8, 8], None, None)?;
        convolved(&Tensor::f_cat(&[larger, wide], 1)?, &of[3])?.f_square()?.f_mean(Kind::Float)
    }),
    ("recurrent", &[&[2, 5, 4], &[12, 4], &[12, 3], &[12], &[12]], |of| {
        let start = [0, 1].map(|_| Tensor::f_zeros([1, 2, 3], ground::floats()));
        let [hidden, cell] = start;
        let (output, ..) = of[0].f_lstm(&[hidden?, cell?], &of[1..], true, 1, 0.0, true, false, true)?;
        output.f_square()?.f_mean(Kind::Float)
    }),
];

fn convolved(x: &Tensor, weight: &Tensor) -> Result<Tensor, TchError> {
    x.f_conv2d(weight, None::<Tensor>, 1, 1, 1, 1)
}

fn normed(x: &Tensor, of: &[Tensor]) -> Result<Tensor, TchError> {
    let [mean, variance] = [Tensor::f_zeros([2], ground::floats())?, Tensor::f_ones([2], ground::floats())?];
    x.f_batch_norm(Some(&of[2]), Some(&of[3]), Some(&mean), Some(&variance), true, 0.1, 1e-5, false)
}

/// Runs a step that begins with gradients of 0.
fn step(tensors: &mut [Tensor], loss: Loss, fails_after: Option<u32>) -> (Result<Tensor, TchError>, bool) {
    tch::manual_seed(5);
    tensors.iter_mut().for_each(Tensor::zero_grad);
    let failing = fails_after.map(FailingAllocation::after);
    let outcome = loss(tensors).and_then(|loss| loss.f_backward().map(|()| loss));
    (outcome, failing.is_some_and(|failing| failing.has_failed()))
}

/// Returns the loss and the gradients.
fn learned(tensors: &mut [Tensor], loss: Loss) -> Vec<Vec<u32>> {
    let loss = step(tensors, loss, None).0.unwrap();
    [loss].iter().map(bits).chain(tensors.iter().map(|tensor| bits(&tensor.grad()))).collect()
}

/// Bytes of all tensors, on the device and evicted.
fn logical(manager: &Manager) -> u64 {
    ground::allocated_bytes() + manager.status().evicted_bytes
}

/// Lets each allocation of a step fail, and returns how many steps have failed.
fn fails_everywhere(
    manager: &Manager,
    tensors: &mut [Tensor],
    loss: Loss,
    (name, stride): (&str, u32),
) -> u32 {
    // State that is kept between steps exists from the first one on.
    let expected = learned(tensors, loss);
    let held = logical(manager);
    let mut failures = 0;
    for skip in (0..).step_by(stride as usize) {
        let (outcome, has_failed) = step(tensors, loss, Some(skip));
        match outcome {
            // A failed fetch makes room and is retried.
            Ok(loss) => assert_eq!(bits(&loss), expected[0], "{name} after {skip}"),
            Err(failed) => {
                let failed = failed.to_string();
                assert!(has_failed && failed.contains("out of memory"), "{name} after {skip}: {failed}");
                failures += 1;
            }
        }
        assert_eq!(learned(tensors, loss), expected, "{name} after {skip}");
        // The last result stays in use until another operator runs.
        drop(tensors[0].square());
        assert_eq!((logical(manager), manager.status().pinned), (held, 0), "{name} after {skip}");
        if !has_failed {
            return failures;
        }
    }
    unreachable!("a step has an end");
}

/// Returns the least budget of two steps, with tensors that `made` makes.
fn least(made: impl Fn() -> Vec<Tensor>, loss: Loss) -> u64 {
    let before = ground::allocated_bytes();
    let (_manager, _entered) = entered(u64::MAX / 2, Genoa);
    ground::reset_peak_allocated_bytes();
    let mut tensors = made();
    let _learned = [0, 1].map(|_| learned(&mut tensors, loss));
    ground::peak_allocated_bytes() - before
}

/// Distance, in allocations, between two injected failures.
fn stride() -> u32 {
    3 / rounds(1, 3)
}

/// Runs all nets. `bytes` maps the least budget of a step to the budget used.
fn in_all_nets(eviction: fn() -> Box<dyn Eviction>, bytes: fn(u64) -> u64) {
    let _alone = alone();
    let (mut fetches, stride) = (0, stride());
    for (name, shapes, loss) in SMALL {
        let made = || {
            tch::manual_seed(3);
            let random = |shape: &&[i64]| Tensor::randn(*shape, ground::floats()).set_requires_grad(true);
            shapes.iter().map(random).collect::<Vec<_>>()
        };
        let expected = learned(&mut made(), loss);
        let before = ground::allocated_bytes();
        let needs = least(made, loss);
        let (manager, _entered) = entered(before + bytes(needs), eviction());
        let mut tensors = made();
        let failures = fails_everywhere(&manager, &mut tensors, loss, (name, stride));
        assert_eq!(learned(&mut tensors, loss), expected, "{name}");
        println!("{name}: {needs} bytes, {failures} failures, {}", manager.report());
        assert!(failures * stride > 20, "{name}: {failures}");
        fetches += manager.report().fetches;
    }
    // Small convolutions need more scratch than could be evicted.
    assert!(fetches * u64::from(stride) > 10_000, "{fetches}");
}

#[test]
fn of_a_step_after_each_operator_of_which_everything_leaves() {
    in_all_nets(|| Box::new(Genoa), |_| u64::MAX / 4);
}

#[test]
fn of_a_step_with_the_least_budget() {
    in_all_nets(|| Box::new(Lru), |needs| needs);
}
