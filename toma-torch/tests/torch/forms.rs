//! A step in pieces gives the results of the whole step.

use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Kind, Reduction, TchError, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::{Backward as _, Clipped, Forward as _, Loss, backward, backward_step, forward};

use crate::ground::{self, Budget, doubles};
use crate::stage::{alone, caught, panic_of, size};

/// A prime number, so that all pieces are equal only if they have one item.
const ITEMS: usize = 23;

/// A weight that is used twice and another one, both with gradients, and data to learn from.
struct Task {
    tied: Tensor,
    other: Tensor,
    input: Tensor,
    labels: Tensor,
}

impl Task {
    fn new() -> Self {
        tch::manual_seed(11);
        let weight = |sizes: &[i64]| Tensor::randn(sizes, doubles()).set_requires_grad(true);
        let (tied, other) = (weight(&[6, 6]), weight(&[6, 4]));
        for weight in [&tied, &other] {
            weight.sum(Kind::Double).backward();
        }
        let labels = Tensor::randint(4, [size(ITEMS)], (Kind::Int64, ground::device()));
        // Ignored labels: the first five, which are all that pieces of up to five see, and some others.
        let _ = labels.narrow(0, 0, 5).fill_(-100);
        let _ = labels.narrow(0, 13, 2).fill_(-100);
        Self { tied, other, input: Tensor::randn([size(ITEMS), 6], doubles()), labels }
    }

    fn weights(&self) -> [&Tensor; 2] {
        [&self.tied, &self.other]
    }

    fn logits(&self, input: &Tensor) -> Tensor {
        input.matmul(&self.tied).tanh().matmul(&self.tied.tr()).matmul(&self.other)
    }

    fn counts(&self) -> Tensor {
        self.labels.ne(-100)
    }

    fn loss(&self, kind: &Loss<'_>, (input, labels): (&Tensor, &Tensor)) -> Tensor {
        let logits = self.logits(input);
        match kind {
            Loss::Mean => logits.square().sum_dim_intlist(1, false, None).mean(None),
            Loss::Sum => logits.exp().sum(None),
            _ => logits.cross_entropy_loss::<Tensor>(labels, None, Reduction::Mean, -100, 0.0),
        }
    }

    /// The loss, and the gradients after it.
    fn after(&self, loss: Tensor) -> [Tensor; 3] {
        let [tied, other] = self.weights().map(|weight| weight.grad().copy());
        [loss, tied, other]
    }

    /// Returns the loss and the gradients in pieces of at most this many items.
    fn in_pieces(kind: impl Fn(&Tensor) -> Loss<'_>, items: usize) -> [Tensor; 3] {
        let task = Self::new();
        let counts = task.counts();
        let kind = kind(&counts);
        let data = (&task.input, &task.labels);
        let pieces = execute::with::<NoCache>().max(items);
        let loss = pieces.backward(kind, &task.weights(), data, |data| task.loss(&kind, data));
        assert!(!loss.requires_grad());
        task.after(loss)
    }
}

/// The largest difference, relative for large values.
fn differ(ours: &[Tensor], theirs: &[Tensor]) -> f64 {
    let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
    let both = ours.iter().zip(theirs);
    both.map(|(ours, theirs)| largest(&(ours - theirs)) / largest(theirs).max(1.0)).fold(0.0, f64::max)
}

/// No tensor of a whole step holds NaN, so a piece that divides by zero would be noticed.
#[test]
fn pieces_add_up_to_the_whole_for_each_kind_of_loss() {
    let _alone = alone();
    let kinds: [fn(&Tensor) -> Loss<'_>; 3] = [|_| Loss::Mean, |_| Loss::Sum, |counts| Loss::Counted(counts)];
    for kind in kinds {
        let task = Task::new();
        let counts = task.counts();
        let loss = task.loss(&kind(&counts), (&task.input, &task.labels));
        loss.backward();
        let whole = task.after(loss.detach());
        assert_eq!(differ(&Task::in_pieces(kind, ITEMS), &whole), 0.0, "the whole is not touched");
        for items in 1..ITEMS {
            let pieces = Task::in_pieces(kind, items);
            assert!(pieces.iter().all(|tensor| tensor.isnan().any().int64_value(&[]) == 0), "{items}");
            assert!(differ(&pieces, &whole) <= 1e-12, "{items}: {}", differ(&pieces, &whole));
        }
    }
}

/// The dry run makes a gradient of the view, and takes it back.
#[test]
fn a_variable_may_be_a_view() {
    let _alone = alone();
    let weight = Tensor::ones([6], ground::floats()).view([2, 3]).set_requires_grad(true);
    let data = Tensor::ones([8, 2], ground::floats());
    let loss = backward(&weight, &data, |rows| rows.matmul(&weight).sum(None));
    assert_eq!(loss.double_value(&[]), 48.0);
    assert_eq!(weight.grad(), Tensor::full([2, 3], 8.0, ground::floats()));
}

/// Half of 512 equal pieces would be lost in a sum of this kind.
#[test]
fn a_loss_in_half_precision_is_the_sum_of_all_pieces() {
    let _alone = alone();
    let halves = (Kind::BFloat16, ground::device());
    let weight = Tensor::ones([], halves).set_requires_grad(true);
    let (data, form) = (Tensor::ones([512], halves), execute::with::<NoCache>().max(1));
    let loss = form.backward(Loss::Mean, &weight, &data, |data| (data * &weight).mean(Kind::BFloat16));
    assert_eq!((loss.kind(), loss.double_value(&[])), (Kind::BFloat16, 1.0));
}

#[test]
fn an_output_is_filled_once_and_never_held_twice() {
    let _alone = alone();
    let input = Tensor::randn([size(ITEMS), 1024], ground::floats()).set_requires_grad(true);
    let right = input.detach().square();
    let of_an_item = 4096;
    for fit in [1, 2, 5, 11, 22] {
        // Room for the output and, in addition, the rows of a piece.
        let budget = Budget::beyond_allocated(of_an_item * (ITEMS as u64 + fit));
        let output = forward(&input, Tensor::square);
        drop(budget);
        assert_eq!(output, right, "{fit} rows beside the output");
        assert!(!output.requires_grad());
    }
    let mut made = std::ptr::null_mut();
    let whole = forward(&input, |rows| {
        let squares = rows.f_square()?;
        made = squares.data_ptr();
        Ok::<_, TchError>(squares)
    });
    assert_eq!(whole.unwrap().data_ptr(), made, "one piece is the whole, without a copy");
    assert!(input.exp().requires_grad(), "grad mode is as it was");
}

#[test]
fn an_output_shares_no_memory_with_its_data() {
    let _alone = alone();
    let input = Tensor::arange(4, ground::floats());
    for body in [Tensor::shallow_clone, |rows: &Tensor| rows.view([-1])] {
        let _changed = forward(&input, body).fill_(7.0);
        assert_eq!(input, Tensor::arange(4, ground::floats()));
    }
}

type Ours = fn(&mut nn::Optimizer, (&Tensor, &Tensor), &nn::Linear) -> Tensor;
type Theirs = fn(&mut nn::Optimizer, &Tensor);

#[test]
fn steps_are_those_of_the_optimizer() {
    let _alone = alone();
    let build = || {
        tch::manual_seed(5);
        let variables = nn::VarStore::new(ground::device());
        let net = nn::linear(variables.root(), 6, 4, nn::LinearConfig::default());
        let optimizer = nn::Adam::default().build(&variables, 1e-2).unwrap();
        (variables, net, optimizer)
    };
    let input = Tensor::randn([size(ITEMS), 6], ground::floats());
    let labels = Tensor::randint(4, [size(ITEMS)], (Kind::Int64, ground::device()));
    let steps: [(Ours, Theirs); 3] = [
        (
            |optimizer, data, net| backward_step(optimizer, data, |data| loss(net, data)),
            |optimizer, loss| {
                optimizer.backward_step(loss);
            },
        ),
        (
            |optimizer, data, net| {
                backward_step(Clipped::by_value(optimizer, 1e-3), data, |data| loss(net, data))
            },
            |optimizer, loss| optimizer.backward_step_clip(loss, 1e-3),
        ),
        (
            |optimizer, data, net| {
                backward_step(Clipped::by_norm(optimizer, 1e-3), data, |data| loss(net, data))
            },
            |optimizer, loss| optimizer.backward_step_clip_norm(loss, 1e-3),
        ),
    ];
    for (ours, theirs) in steps {
        let (plain, net, mut optimizer) = build();
        let plain_losses: Vec<f64> = (0..3)
            .map(|_| {
                let loss = loss(&net, (&input, &labels));
                theirs(&mut optimizer, &loss);
                loss.double_value(&[])
            })
            .collect();
        let (pieces, net, mut optimizer) = build();
        let losses: Vec<f64> =
            (0..3).map(|_| ours(&mut optimizer, (&input, &labels), &net).double_value(&[])).collect();
        assert_eq!(losses, plain_losses);
        assert_eq!(values(&pieces), values(&plain));
    }
}

fn loss(net: &nn::Linear, (input, labels): (&Tensor, &Tensor)) -> Tensor {
    net.forward(input).cross_entropy_for_logits(labels)
}

fn values(variables: &nn::VarStore) -> Vec<Tensor> {
    variables.trainable_variables().iter().map(Tensor::detach).collect()
}

#[test]
fn no_items_have_an_empty_output_and_no_loss() {
    let _alone = alone();
    let (empty, weight) = (
        Tensor::zeros([0, 3], ground::floats()),
        Tensor::ones([3], ground::floats()).set_requires_grad(true),
    );
    assert_eq!(forward(&empty, |rows| rows.narrow(1, 0, 2)).size(), [0, 2]);
    let loss = backward(&weight, &empty, |rows| (rows * &weight).mean(None));
    assert_eq!(loss.double_value(&[]), 0.0);
    assert!(!weight.grad().defined());
}

/// A linear layer of 6 by 4, and its optimizer.
fn layer() -> (nn::VarStore, nn::Linear, nn::Optimizer) {
    let variables = nn::VarStore::new(ground::device());
    let net = nn::linear(variables.root(), 6, 4, nn::LinearConfig::default());
    let optimizer = nn::Sgd::default().build(&variables, 1.0).unwrap();
    (variables, net, optimizer)
}

#[test]
fn a_clipped_step_on_nothing_changes_no_variable() {
    let _alone = alone();
    let (variables, net, mut optimizer) = layer();
    let before: Vec<_> = values(&variables).iter().map(Tensor::copy).collect();
    for (items, kind) in [(0, None), (8, Some(Tensor::zeros([8], ground::floats())))] {
        let input = Tensor::ones([items, 6], ground::floats());
        let kind = kind.as_ref().map_or(Loss::Mean, Loss::Counted);
        let clipped = Clipped::by_norm(&mut optimizer, 1.0);
        let form = execute::with::<NoCache>();
        let loss = form.backward_step(kind, clipped, &input, |rows| net.forward(rows).mean(None));
        assert_eq!(loss.double_value(&[]), 0.0);
        assert_eq!(values(&variables), before);
    }
}

#[test]
fn a_failed_step_changes_no_variable() {
    let _alone = alone();
    let (variables, net, mut optimizer) = layer();
    let before: Vec<_> = values(&variables).iter().map(Tensor::copy).collect();
    let input = Tensor::randn([8, 6], ground::floats());
    let result =
        execute::with::<NoCache>().max(4).backward_step(Loss::Mean, &mut optimizer, &input, |rows| {
            let is_last = rows.data_ptr() != input.data_ptr();
            if is_last { Err(TchError::Torch("broken".to_owned())) } else { Ok(net.forward(rows).mean(None)) }
        });
    assert_eq!(result.unwrap_err().to_string(), "Internal torch error: broken");
    assert_eq!(values(&variables), before);
}

#[test]
fn mistakes_are_named_with_their_values() {
    let _alone = alone();
    let input = Tensor::ones([9, 3], ground::floats());
    let weight = Tensor::ones([3], ground::floats()).set_requires_grad(true);
    let with = || execute::with::<NoCache>().max(5);
    let square = |rows: &Tensor| (rows * &weight).square();
    let mean = |rows: &Tensor| square(rows).mean(None);
    let counted =
        |counts: Tensor| panic_of(|| drop(with().backward(Loss::Counted(&counts), &weight, &input, mean)));
    let texts = [
        panic_of(|| drop(with().forward(&input, |_| Tensor::ones([5, 2], ground::floats())))),
        panic_of(|| drop(with().forward(&input, |rows| rows.sum(None)))),
        panic_of(|| {
            drop(
                with()
                    .forward(&input, |rows| Tensor::ones([rows.size()[0], rows.size()[0]], ground::floats())),
            );
        }),
        panic_of(|| {
            let kind = |rows: &Tensor| if rows.size()[0] == 5 { Kind::Float } else { Kind::Double };
            drop(with().forward(&input, |rows| rows.to_kind(kind(rows))));
        }),
        panic_of(|| drop(with().backward(Loss::Mean, &weight, &input, square))),
        panic_of(|| drop(with().backward(Loss::Mean, &weight, &input, |rows| rows.sum(None)))),
        counted(Tensor::ones([7], ground::floats())),
        counted((Tensor::arange(9, ground::floats()) - 1.0).square() * 3.0 - 2.0),
        counted(Tensor::full([9], f64::INFINITY, ground::floats())),
        panic_of(|| {
            drop(
                with().backward(Loss::Mean, &weight, (&input, &input.narrow(0, 0, 7)), |_| weight.sum(None)),
            );
        }),
        caught(|| drop(forward(Tensor::scalar_tensor(1.0, ground::floats()), Tensor::shallow_clone)))
            .unwrap_err(),
    ];
    let expected = [
        "forward: the body returned shape [5, 2] for 4 items: must be one row for each",
        "forward: the body returned shape [] for 5 items: must be one row for each",
        "forward: the body returned rows of shape [5] and of [4]: must be equal",
        "forward: the body returned rows of kind Float and of Double: must be equal",
        "backward: Internal torch error: loss of 15 elements: must have exactly one",
        "backward: Internal torch error: loss: was computed from nothing that requires gradients, or with gradients off",
        "counts of shape [7]: must be [9], one for each item",
        "counts[1] -2: must be finite and at least 0",
        "counts[0] inf: must be finite and at least 0",
        "chunked tuple: the extents [9, 7] must be equal",
        "dim 0: a value without axes has no items",
    ];
    assert_eq!(texts, expected);
}
