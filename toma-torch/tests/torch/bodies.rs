//! Random bodies, called one after the other at one call site: their pieces give the result of the whole, or they are
//! not split.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use tch::{Kind, Reduction, TchError, Tensor};
use toma_core::predict::is_dry;
use toma_core::{NoCache, execute};
use toma_torch::{Backward as _, Forward as _, Loss, accumulate_gradients};

use crate::ground::{self, doubles};
use crate::stage::{alone, device, failing_at, panic_of, predicted};

const NONE: Option<&Tensor> = None;

/// Arguments of a body: for each item a row of six numbers, four targets, a label, and its weight in the loss.
struct Rows<'a> {
    x: &'a Tensor,
    targets: &'a Tensor,
    labels: &'a Tensor,
    counts: &'a Tensor,
    world: &'a World,
    number: f64,
}

/// Tensors that bodies capture.
struct World {
    weight: Tensor,
    table: Tensor,
    /// State that bodies may write to; zeros before each call.
    state: Tensor,
    bank: Tensor,
    /// Tensors of one shape, in one storage.
    experts: Vec<Tensor>,
    /// The first rows of the table, for each number of rows.
    tables: Vec<Tensor>,
    is_late: Cell<bool>,
    kept: RefCell<Vec<Tensor>>,
}

impl World {
    /// A table of rows that bodies may write to, as many as of any data; as the table before each call.
    fn bank(&self) -> Tensor {
        self.bank.shallow_clone()
    }
}

impl Rows<'_> {
    fn hidden(&self) -> Tensor {
        self.x.matmul(&self.world.weight).tanh()
    }

    fn errors(&self) -> Tensor {
        (self.hidden() - self.targets).square()
    }

    fn error_of_each(&self) -> Tensor {
        self.errors().mean_dim(1, false, None)
    }

    fn count(&self) -> i64 {
        self.x.size()[0]
    }

    fn number_of_rows(&self) -> f64 {
        f64::from(i32::try_from(self.count()).unwrap())
    }

    /// True if the mean of all rows, which the program reads, is positive.
    fn is_positive(&self) -> bool {
        self.hidden().mean(None).double_value(&[]) > 0.0
    }

    fn number(&self, number: f64) -> Tensor {
        Tensor::from(number).to_device(self.x.device())
    }

    /// The largest element of all rows, which the program reads.
    fn largest(&self) -> f64 {
        self.x.abs().max().double_value(&[])
    }

    /// A number below `most` that the program reads.
    fn place(&self, most: i64) -> usize {
        usize::try_from(self.labels.sum(Kind::Int64).int64_value(&[]) % most).unwrap()
    }

    /// Rows times a quarter of the table.
    fn by_quarter(&self, at: usize) -> Tensor {
        self.hidden().matmul(&self.world.table.chunk(4, 0)[at].view([4, 4]))
    }

    fn class_loss(&self, weight: Option<&Tensor>, ignored: i64, smoothing: f64) -> Tensor {
        self.hidden().cross_entropy_loss(self.labels, weight, Reduction::Mean, ignored, smoothing)
    }
}

/// The relation of the pieces to the whole, which decides whether the call may split.
#[derive(Clone, Copy, PartialEq)]
enum Split {
    /// Pieces make up the whole, and a refusal would be a bug.
    Always,
    /// Pieces make up the whole, and few may be refused.
    Exact,
    /// Pieces do not make up the whole.
    Never,
}
use Split::{Always, Exact, Never};

type Body = fn(&Rows<'_>) -> Tensor;

/// A loss of rows and their labels.
type OfLabels<'a> = &'a dyn Fn(&Tensor, &Tensor) -> Tensor;

/// Losses of the default kind.
const LOSSES: [(&str, Split, Body); 99] = [
    ("mean", Always, |r| r.errors().mean(None)),
    ("sum", Always, |r| r.errors().sum(None)),
    ("dropout", Always, |r| r.hidden().dropout(0.0, true).square().mean(None)),
    ("cross entropy", Always, |r| r.class_loss(None, -100, 0.0)),
    ("scaled sum", Exact, |r| r.errors().sum(None) * r.number),
    ("sum by a constant", Exact, |r| r.errors().sum(None) / 512.0),
    ("half of a sum", Exact, |r| 0.5 * r.errors().sum(None)),
    ("sum by its rows", Exact, |r| r.errors().sum(None) / r.number_of_rows()),
    ("sum times a share", Exact, |r| r.errors().sum(None) * (1.0 / r.number_of_rows())),
    ("autoencoder", Exact, |r| r.errors().sum(None) + (-0.5 * r.hidden().exp().sum(None))),
    ("two weighted sums", Exact, |r| r.errors().sum(None) + r.number * r.hidden().exp().sum(None)),
    ("annealed mean", Exact, |r| r.errors().mean(None) * r.number),
    ("two means", Exact, |r| r.errors().mean(None) + r.number * r.hidden().square().mean(None)),
    ("weighted rows", Exact, |r| (r.error_of_each() * r.counts).mean(None)),
    ("mean with a penalty", Exact, |r| r.errors().mean(None) + r.world.weight.square().sum(None)),
    ("columns", Exact, |r| r.hidden().narrow(1, 1, 2).square().mean(None)),
    ("layer norm", Exact, |r| r.hidden().layer_norm([4], NONE, NONE, 1e-5, false).square().mean(None)),
    ("softmax of rows", Exact, |r| r.hidden().softmax(-1, None).square().mean(None)),
    ("largest of rows", Exact, |r| r.hidden().amax(-1, false).mean(None)),
    ("side by side", Exact, |r| Tensor::cat(&[&r.hidden(), r.targets], 1).square().mean(None)),
    ("embedding", Exact, |r| {
        let rows = Tensor::embedding(&r.world.weight, r.labels, -1, false, false);
        (rows * r.hidden()).mean(None)
    }),
    ("recurrent", Exact, |r| {
        let steps = r.x.view([-1, 3, 2]).matmul(&r.world.weight.narrow(0, 0, 2)).unbind(1);
        steps.iter().fold(r.targets.zeros_like(), |state, step| (state + step).tanh()).mean(None)
    }),
    ("sum and mean", Never, |r| r.errors().sum(None) + r.errors().mean(None)),
    ("sum with a penalty", Never, |r| r.errors().sum(None) + r.world.weight.square().sum(None)),
    ("masked", Never, |r| (r.error_of_each() * r.counts).sum(None) / r.counts.sum(None)),
    ("class weights", Never, |r| r.class_loss(Some(&r.world.table.narrow(0, 0, 4)), -100, 0.0)),
    ("ignored class", Never, |r| r.class_loss(None, 0, 0.0)),
    ("label smoothing", Exact, |r| r.class_loss(None, -100, 0.1)),
    ("contrastive", Never, |r| {
        let (rows, number) = (r.hidden(), r.count());
        let scores = rows.matmul(&rows.tr());
        scores.cross_entropy_for_logits(&Tensor::arange(number, (Kind::Int64, ground::device())))
    }),
    ("half of the rows", Never, |r| r.errors().narrow(0, 0, (r.count() + 1) / 2).mean(None)),
    ("first row", Never, |r| (r.errors() - r.errors().get(0)).square().mean(None)),
    ("batch statistics", Never, |r| (r.hidden() - r.hidden().mean_dim(0, true, None)).square().mean(None)),
    ("batch norm", Never, |r| {
        let normal = r.hidden().batch_norm(NONE, NONE, NONE, NONE, true, 0.1, 1e-5, false);
        (normal * r.targets).square().mean(None)
    }),
    ("time along the batch", Never, |r| {
        let steps = r.hidden().unbind(0);
        steps.iter().fold(steps[0].zeros_like(), |state, step| (state + step).tanh()).mean(None)
    }),
    ("softmax over rows", Never, |r| r.hidden().softmax(0, None).square().mean(None)),
    ("root of a mean", Never, |r| r.errors().mean(None).sqrt()),
    ("frequencies", Never, |r| {
        let rows = Tensor::embedding(&r.world.weight, r.labels, -1, true, false);
        (rows * r.targets).mean(None)
    }),
    ("gradient penalty", Exact, |r| {
        let x = r.x.detach().set_requires_grad(true);
        let sum = x.matmul(&r.world.weight).tanh().sum(None);
        let slopes = Tensor::run_backward(&[&sum], &[&x], true, true);
        slopes[0].square().mean(None)
    }),
    ("by a number of the rows", Never, |r| {
        let errors = r.errors();
        errors.sum(None) / errors.detach().sum(None).double_value(&[])
    }),
    ("by a place in the batch", Never, |r| {
        let places = Tensor::arange(r.count(), doubles());
        (r.error_of_each() * places).mean(None)
    }),
    ("by the first of a table", Never, |r| {
        (r.error_of_each() * r.world.table.narrow(0, 0, r.count())).mean(None)
    }),
    ("hits on the way", Always, |r| {
        let scores = r.hidden();
        let hits = scores.argmax(-1, false).eq_tensor(r.labels).sum(Kind::Int64).int64_value(&[]);
        assert!(hits <= 1000, "{hits} hits");
        scores.cross_entropy_loss(r.labels, NONE, Reduction::Mean, -100, 0.0)
    }),
    ("finite", Always, |r| {
        let loss = r.errors().mean(None);
        assert!(loss.double_value(&[]).is_finite(), "no number");
        loss
    }),
    ("outputs kept", Always, |r| {
        let scores = r.hidden();
        if !is_dry() {
            r.world.kept.borrow_mut().push(scores.detach());
        }
        scores.square().mean(None)
    }),
    ("squeezed", Never, |r| {
        let of_columns = r.hidden().squeeze().mean_dim(0, false, None);
        (of_columns * r.world.table.narrow(0, 0, 4)).sum(None)
    }),
    ("by the number selected", Never, |r| {
        let selected = r.error_of_each().masked_select(&r.counts.gt(0.0));
        selected.sum(None) / f64::from(i32::try_from(selected.size()[0]).unwrap())
    }),
    ("means of smaller batches", Never, |r| {
        let parts = r.errors().split(9, 0);
        parts.iter().fold(Tensor::zeros([], doubles()), |sum, part| sum + part.mean(None))
    }),
    (
        "other loss of many",
        Never,
        |r| {
            if r.count() > 8 { r.errors().sum(None) } else { r.errors().mean(None) }
        },
    ),
    ("branch on what is read", Never, |r| {
        let errors = r.errors();
        if errors.sum(None).double_value(&[]) > 9.0 { errors.mean(None) } else { errors.sqrt().mean(None) }
    }),
    ("larger of two that are read", Never, |r| {
        let (one, other) = (r.errors().mean(None), r.hidden().abs().mean(None));
        if one.double_value(&[]) > other.double_value(&[]) { one } else { other }
    }),
    ("branch on a sign that is read", Never, |r| {
        let errors = r.hidden() - r.targets;
        if errors.sum(None).double_value(&[]) < 0.0 { errors.sum(None) } else { errors.square().sum(None) }
    }),
    ("branch on a sum that is read", Never, |r| {
        let errors = r.errors();
        let sum = errors.sum(None);
        if sum.double_value(&[]) > 1234.5 { errors.mean(None) } else { sum }
    }),
    ("by one condition and not another", Never, |r| {
        let is_any = |tensor: Tensor| tensor.any().int64_value(&[]) != 0;
        let errors = r.errors();
        let is_so = is_any(errors.gt(1.0)) && !is_any(errors.lt(0.001));
        if is_so { errors.mean(None) } else { errors.sum(None) }
    }),
    ("saturated number", Never, |r| {
        let sum = (r.hidden() - r.targets).sum(None).double_value(&[]);
        (r.errors() + sum.min(0.0)).mean(None)
    }),
    ("weights of rows by the host", Never, |r| {
        let weights = vec![1.0 / r.number_of_rows(); usize::try_from(r.count()).unwrap()];
        (r.error_of_each() * Tensor::from_slice(&weights).to_device(ground::device())).sum(None)
    }),
    ("classes of selected rows", Never, |r| {
        let is_counted = r.counts.gt(0.0);
        let picked = r.hidden().masked_select(&is_counted.unsqueeze(1)).view([-1, 4]);
        picked.cross_entropy_for_logits(&r.labels.masked_select(&is_counted))
    }),
    ("signs by place", Never, |r| {
        let signs =
            r.world.table.narrow(0, 0, 2) * Tensor::from_slice(&[1.0, -1.0]).to_device(ground::device());
        let signs = (Tensor::ones([r.count(), 2], doubles()) * signs).view([2, -1]).select(0, 0);
        (r.error_of_each() * signs).sum(None)
    }),
    ("bank of rows", Never, |r| {
        let (rows, bank) = (r.hidden(), r.world.bank());
        let scores = rows.matmul(&bank.copy().tr());
        bank.narrow(0, 0, r.count()).copy_(&rows.detach());
        scores.square().mean(None)
    }),
    ("cross entropy times the rows", Exact, |r| r.class_loss(None, -100, 0.0) * r.number_of_rows()),
    ("even number of rows", Never, |r| r.errors().narrow(0, 0, r.count() / 2 * 2).mean(None)),
    ("clamped at what is read", Never, |r| r.hidden().clamp_max(r.largest() * 0.3).square().mean(None)),
    ("tensor of what is read", Never, |r| (r.hidden() * Tensor::from(r.largest())).square().mean(None)),
    ("moving average", Never, |r| {
        let rows = r.hidden();
        let loss = (&rows - &r.world.state).square().mean(None);
        let _ = r.world.state.shallow_clone().lerp_(&rows.detach().mean_dim(0, false, None), 0.1);
        loss
    }),
    ("moving average, but for dry runs", Never, |r| {
        let rows = r.hidden();
        let loss = (&rows - &r.world.state).square().mean(None);
        if !is_dry() {
            let _ = r.world.state.shallow_clone().lerp_(&rows.detach().mean_dim(0, false, None), 0.1);
        }
        loss
    }),
    ("expert by a number that is read", Never, |r| {
        r.x.matmul(&r.world.experts[usize::from(r.is_positive())]).matmul(&r.world.weight.tr()).mean(None)
    }),
    ("detached by a number that is read", Never, |r| {
        let rows = r.hidden();
        let rows = if r.is_positive() { rows.detach() } else { rows };
        (rows * r.hidden()).mean(None)
    }),
    ("gradients added on the way", Never, |r| {
        let loss = r.errors().mean(None);
        r.hidden().mean(None).backward();
        loss
    }),
    ("gradients added after the loss", Never, |r| {
        let loss = r.errors().mean(None);
        accumulate_gradients(&r.hidden().mean(None), &[&r.world.weight]).unwrap();
        loss
    }),
    ("divided by a tensor of the host", Never, |r| r.errors().sum(None) * r.number(1.0 / r.number_of_rows())),
    ("written into a number of the host", Never, |r| {
        let mut mean = r.number(1.0 / r.number_of_rows());
        mean *= r.errors().sum(None);
        mean
    }),
    ("divided by at least four", Never, |r| r.errors().sum(None) / r.number_of_rows().max(4.0)),
    ("divided by at least sixteen, by the host", Never, |r| {
        (r.error_of_each() * r.number(1.0 / r.number_of_rows().max(16.0))).sum(None)
    }),
    ("other labels by a number that is read", Never, |r| {
        let of = |labels: &Tensor| r.hidden().cross_entropy_loss(labels, NONE, Reduction::Mean, -100, 0.0);
        let is_positive = r.targets.mean(None).double_value(&[]) > 0.0;
        of(&if is_positive { r.labels.shallow_clone() } else { r.counts.to_kind(Kind::Int64) })
    }),
    ("one of two data by a number that is read", Never, |r| {
        let one = r.targets.narrow(1, 0, 1) * r.x.sum_dim_intlist(1, true, None);
        let [a, b] = if r.is_positive() { [&one, r.targets] } else { [r.targets, &one] };
        (a.narrow(1, 0, 1) * r.hidden()).mean(None) + b.mean(None) * 0.0
    }),
    ("within a band of a number that is read", Never, |r| {
        let share = r.counts.mean(None).double_value(&[]);
        if share > 0.25 && share < 0.75 { r.errors().mean(None) } else { r.errors().sum(None) }
    }),
    ("signs filled in by place", Never, |r| {
        let signs = Tensor::ones([r.count(), 2], doubles());
        let _ = signs.select(1, 1).fill_(-1.0);
        (r.error_of_each() * signs.view([2, -1]).select(0, 0)).sum(None)
    }),
    ("other function of few", Never, |r| {
        let rows = r.errors();
        if r.count() < 4 { rows.sqrt().mean(None) } else { rows.mean(None) }
    }),
    ("by an odd number", Never, |r| r.errors().mean(None) * if r.count() % 2 == 0 { 0.1 } else { 0.3 }),
    ("labels left out by the body", Never, |r| {
        let labels = r.labels.masked_fill(&r.counts.eq(0.0), -100);
        r.hidden().cross_entropy_loss(&labels, NONE, Reduction::Mean, -100, 0.0)
    }),
    ("moved labels", Exact, |r| {
        let labels = r.labels.unsqueeze(1).to_kind(Kind::Int).to_kind(Kind::Int64).view([-1]);
        r.hidden().cross_entropy_loss(&labels, NONE, Reduction::Mean, -100, 0.0)
    }),
    ("by the first rows that were cut before", Never, |r| {
        (r.error_of_each() * &r.world.tables[usize::try_from(r.count()).unwrap()]).mean(None)
    }),
    ("counter of calls", Never, |r| {
        let mut calls = r.world.state.get(0);
        let loss = r.errors().mean(None) * (&calls + 1.0);
        let _ = calls.g_add_scalar_(1.0);
        loss
    }),
    ("ones like a sum", Never, |r| {
        let sum = r.errors().sum(None);
        &sum + sum.ones_like()
    }),
    ("time first", Always, |r| {
        let steps = r.x.view([-1, 3, 2]).permute([1, 0, 2]).matmul(&r.world.weight.view([2, -1]));
        let [q, k] = [0, 2].map(|at| steps.narrow(2, at, 2).reshape([3, r.count(), 2, 1]));
        let scores = q.permute([1, 2, 0, 3]).matmul(&k.permute([1, 2, 3, 0])).softmax(-1, None);
        scores.square().mean(None)
    }),
    ("sums filled in", Exact, |r| filled_in(&[r.errors().sum(None), r.hidden().exp().sum(None)])),
    ("means filled in", Exact, |r| filled_in(&[r.errors().mean(None), r.hidden().exp().mean(None)])),
    ("sum and penalty filled in", Never, |r| {
        filled_in(&[r.errors().sum(None), r.world.weight.square().sum(None)])
    }),
    ("sum and mean filled in", Never, |r| filled_in(&[r.errors().sum(None), r.errors().mean(None)])),
    ("overwritten by a constant", Never, |r| {
        let sum = r.errors().sum(None);
        let parts = Tensor::stack(&[&sum, &sum], 0);
        parts.get(1).copy_(&r.world.weight.square().sum(None));
        parts.sum(None)
    }),
    ("by another of a table", Never, |r| r.errors().mean(None) * r.world.table.get(r.count() - 1)),
    ("by another column", Never, |r| {
        let column = r.x.repeat([1, 8]).select(1, r.count() - 1);
        (r.error_of_each() * column).mean(None)
    }),
    ("by a table of the batch", Never, |r| {
        let table = r.world.table.view([-1, 1]) * r.world.table.narrow(0, 0, 4);
        (r.errors() * table.gather(1, &r.labels.unsqueeze(1), false)).mean(None)
    }),
    ("part of a table by a number that is read", Never, |r| r.by_quarter(r.place(4)).mean(None)),
    ("parts of a table in an order that is read", Never, |r| {
        let [one, other] = if r.place(2) == 0 { [1, 2] } else { [2, 1] };
        (r.by_quarter(one).square() + r.by_quarter(other)).mean(None)
    }),
    ("part of rows by a number that is read", Never, |r| {
        r.hidden().unbind(1)[r.place(4)].square().mean(None)
    }),
    ("part of data by a number that is read", Never, |r| {
        (&r.x.unbind(1)[r.place(6)] * r.error_of_each()).mean(None)
    }),
    ("part of a table by few", Never, |r| r.by_quarter(usize::from(r.count() < 4)).mean(None)),
    ("column by few", Never, |r| r.hidden().select(1, i64::from(r.count() < 4)).square().mean(None)),
    ("parts whose places grow with the rows", Always, |r| {
        let steps = r.x.view([-1, 3, 2]).transpose(0, 1).contiguous().unbind(0);
        let gates = steps[2].matmul(&r.world.weight.narrow(0, 0, 2)).chunk(2, 1);
        (gates[0].sigmoid() * gates[1].tanh() * &steps[1]).mean(None)
    }),
];

/// The sum of losses that are written into one tensor.
fn filled_in(losses: &[Tensor]) -> Tensor {
    let parts = Tensor::zeros([losses.len().try_into().unwrap()], doubles());
    for (at, loss) in (0..).zip(losses) {
        parts.get(at).copy_(loss);
    }
    parts.sum(None)
}

/// Losses whose kind is given: a mean over counts.
const COUNTED: [(&str, Split, Body); 5] = [
    ("masked, counted", Always, |r| (r.error_of_each() * r.counts).sum(None) / r.counts.sum(None)),
    ("selected, counted", Exact, |r| {
        let counted = r.counts.gt(0.0);
        r.error_of_each().masked_select(&counted).mean(None)
    }),
    ("mean, counted", Never, |r| r.errors().mean(None)),
    ("gates that are learned, counted", Never, |r| {
        let gates = r.hidden().sigmoid().mean_dim(1, false, None) * r.counts;
        (r.error_of_each() * &gates).sum(None) / gates.sum(None)
    }),
    ("softmax over rows, counted", Never, |r| r.hidden().softmax(0, None).square().mean(None)),
];

const OUTPUTS: [(&str, Split, Body); 32] = [
    ("rows", Always, |r| r.hidden()),
    ("dropped", Always, |r| r.hidden().dropout(0.0, true)),
    ("softmax", Always, |r| r.hidden().softmax(-1, None)),
    ("sum of each", Always, |r| r.hidden().sum_dim_intlist(1, false, None)),
    ("normal by constants", Exact, |r| {
        let mean = r.world.table.narrow(0, 0, 4);
        r.hidden().batch_norm(NONE, NONE, Some(&mean), Some(&mean.exp()), false, 0.1, 1e-5, false)
    }),
    ("seeded noise", Never, |r| {
        tch::manual_seed(42);
        r.hidden() + r.targets.randn_like()
    }),
    ("table that was cut before", Never, |r| {
        r.error_of_each() + &r.world.tables[usize::try_from(r.count()).unwrap()]
    }),
    ("best class", Exact, |r| r.hidden().argmax(-1, false)),
    ("turned twice", Exact, |r| r.hidden().tr().exp().tr() * r.number),
    ("in a wider shape", Exact, |r| r.hidden().view([-1, 2, 2]).permute([0, 2, 1]).reshape([-1, 4])),
    ("softmax over rows", Never, |r| r.hidden().softmax(0, None)),
    ("batch norm", Never, |r| r.hidden().batch_norm(NONE, NONE, NONE, NONE, true, 0.1, 1e-5, false)),
    ("less their mean", Never, |r| r.hidden() - r.hidden().mean_dim(0, true, None)),
    ("running sum", Never, |r| r.hidden().cumsum(0, None)),
    ("backwards", Never, |r| r.hidden().flip([0])),
    ("mixed by a view", Never, |r| {
        let turned = r.hidden().reshape([4, -1]);
        (&turned + turned.exp()).tr().contiguous()
    }),
    ("by place", Never, |r| r.error_of_each() + Tensor::arange(r.count(), doubles())),
    ("by the rows of a table", Exact, |r| {
        let table = r.world.table.view([-1, 1]) * r.world.table.narrow(0, 0, 4);
        table.gather(0, &r.labels.unsqueeze(1), false) + r.hidden()
    }),
    ("with a column more", Exact, |r| r.hidden().constant_pad_nd([1, 0])),
    ("places by the host", Never, |r| {
        let places: Vec<_> = (0..r.count()).map(|at| f64::from(i32::try_from(at).unwrap())).collect();
        r.error_of_each() + Tensor::from_slice(&places).to_device(ground::device())
    }),
    ("scattered from a table", Never, |r| {
        let values = r.world.table.view([-1, 1]) * r.world.table.narrow(0, 0, 4);
        r.hidden().zeros_like().scatter(1, &r.labels.unsqueeze(1), &values)
    }),
    ("one of two data by their number", Never, |r| {
        let (one, other) = (r.targets, r.counts.unsqueeze(1).repeat([1, 4]));
        if r.count() > 8 { one * 2.0 } else { other * 2.0 }
    }),
    ("first row masked", Never, |r| {
        let at = Tensor::zeros([1, 1], (Kind::Int64, ground::device()));
        r.hidden().scatter_value(1, &at, -9.0)
    }),
    ("statistics that change after use", Never, |r| {
        let (mean, variance) = (&r.world.state, r.world.state.ones_like());
        let out = r.hidden().batch_norm(NONE, NONE, Some(mean), Some(&variance), false, 0.1, 1e-5, false);
        let _ = mean.shallow_clone().lerp_(&r.hidden().detach().mean_dim(0, false, None), 0.1);
        out
    }),
    ("instance norm by the batch", Never, |r| {
        let images = r.hidden().unsqueeze(2).repeat([1, 1, 3]);
        let images = images * Tensor::arange_start(1, 4, doubles());
        let gamma = images.mean_dim([0, 2].as_slice(), false, None);
        images.instance_norm(Some(&gamma), NONE, NONE, NONE, true, 0.1, 1e-5, false)
    }),
    ("later rows", Never, |r| r.hidden().constant_pad_nd([0, 0, 1, -1])),
    ("columns of a norm", Never, |r| r.hidden().renorm(2.0, 1, 1.0)),
    ("largest first", Never, |r| r.hidden().sort(0, true).0),
    ("median of each", Exact, |r| r.hidden().median_dim(-1, false).0),
    ("less their median", Never, |r| r.hidden() - r.hidden().median_dim(0, true).0),
    ("softmax over many", Never, |r| if r.count() > 8 { r.hidden().softmax(0, None) } else { r.hidden() }),
    ("as left by the last", Never, |r| {
        let rows = r.hidden() + &r.world.state;
        r.world.state.shallow_clone().copy_(&rows.detach().mean_dim(0, false, None));
        rows
    }),
];

/// A body in the world with random data.
struct Case {
    world: World,
    data: [Tensor; 4],
    number: f64,
    /// Attempts with more items than this run out of memory.
    limit: i64,
}

fn between(sizes: &[i64]) -> Tensor {
    Tensor::rand(sizes, doubles()) * 1.6 - 0.8
}

impl Case {
    fn new(random: &mut Rng) -> Self {
        let items = random.i64(8..40);
        let counts = Tensor::randint(2, [items], doubles());
        // At least one item counts.
        let _ = counts.get(0).fill_(1.0);
        let labels = Tensor::randint(4, [items], (Kind::Int64, ground::device()));
        let table = between(&[64]).exp();
        Self {
            world: World {
                weight: between(&[6, 4]).set_requires_grad(true),
                experts: between(&[2, 6, 4]).unbind(0),
                tables: (0..=64).map(|count| table.narrow(0, 0, count)).collect(),
                table,
                is_late: Cell::new(false),
                state: Tensor::zeros([4], doubles()),
                bank: Tensor::zeros([64, 4], doubles()),
                kept: RefCell::default(),
            },
            data: [between(&[items, 6]), between(&[items, 4]), labels, counts],
            number: random.f64() + 0.1,
            limit: random.i64(1..items),
        }
    }

    fn run(&self, body: Body, (x, targets, labels, counts): (&Tensor, &Tensor, &Tensor, &Tensor)) -> Tensor {
        body(&Rows { x, targets, labels, counts, world: &self.world, number: self.number })
    }

    /// Runs the body, unless there are too many items for the memory.
    fn attempt(&self, body: Body, rows: (&Tensor, &Tensor, &Tensor, &Tensor)) -> Result<Tensor, TchError> {
        if !is_dry() && rows.0.size()[0] > self.limit {
            return Err(TchError::Torch("CUDA out of memory. of the case".to_owned()));
        }
        Ok(self.run(body, rows))
    }

    /// All data, after the state has been set to zeros.
    fn all(&self) -> (&Tensor, &Tensor, &Tensor, &Tensor) {
        let [x, targets, labels, counts] = &self.data;
        let _ = self.world.state.shallow_clone().zero_();
        let _ = self.world.bank().fill_(0.5);
        (x, targets, labels, counts)
    }

    /// Returns the loss and its gradient.
    fn whole(&self, body: Body) -> [Tensor; 2] {
        let loss = self.run(body, self.all());
        loss.backward();
        let gradient = self.world.weight.grad().copy();
        let _ = self.world.weight.grad().zero_();
        [loss.detach(), gradient]
    }

    /// Returns loss and gradient in pieces, `None` if the call is refused.
    fn pieces(&self, body: Body, is_counted: bool) -> Option<[Tensor; 2]> {
        let weight = &self.world.weight;
        let kind = if is_counted { Loss::Counted(&self.data[3]) } else { Loss::default() };
        let loss = predicted().backward(kind, weight, self.all(), |rows| self.attempt(body, rows));
        let gradient = weight.grad().copy();
        let _ = weight.grad().zero_();
        Some([loss.ok()?, gradient])
    }

    /// Returns name and kind of a body, and whether it was split and gave another result.
    fn tried(&self, body: usize) -> (&'static str, Split, bool, bool) {
        let of_losses = LOSSES.len() + COUNTED.len();
        if let Some(output) = body.checked_sub(of_losses) {
            let (name, split, body) = OUTPUTS[output];
            let whole = [self.run(body, self.all()).detach()];
            let pieces = self.output(body);
            return (name, split, pieces.is_some(), pieces.is_some_and(|pieces| differs(&pieces, &whole)));
        }
        let is_counted = body >= LOSSES.len();
        let (name, split, body) = if is_counted { COUNTED[body - LOSSES.len()] } else { LOSSES[body] };
        let whole = self.whole(body);
        let pieces = self.pieces(body, is_counted);
        (name, split, pieces.is_some(), pieces.is_some_and(|pieces| differs(&pieces, &whole)))
    }

    fn output(&self, body: Body) -> Option<[Tensor; 1]> {
        predicted().forward(self.all(), |rows| self.attempt(body, rows)).ok().map(|rows| [rows])
    }
}

fn differs<const N: usize>(one: &[Tensor; N], other: &[Tensor; N]) -> bool {
    let off = |(one, other): (&Tensor, &Tensor)| {
        let (one, other) = (one.to_kind(Kind::Double), other.to_kind(Kind::Double));
        one.size() != other.size() || !one.allclose(&other, 1e-6, 1e-9, false)
    };
    one.iter().zip(other).any(off)
}

#[test]
fn bodies_on_one_line_are_split_exactly_or_not_at_all() {
    let _alone = alone();
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    tch::manual_seed(random.i64(..));
    let (mut exact, mut refused) = (0, Vec::new());
    let mut bodies: Vec<_> = (0..LOSSES.len() + COUNTED.len() + OUTPUTS.len()).cycle().take(264).collect();
    random.shuffle(&mut bodies);
    for body in bodies {
        let case = Case::new(&mut random);
        let (name, split, is_split, is_wrong) = case.tried(body);
        assert!(!is_wrong, "seed {seed}: {name}: pieces are not the whole");
        assert!(is_split || split != Always, "seed {seed}: {name}: refused");
        exact += usize::from(split != Never);
        refused.extend((split == Exact && !is_split).then_some(name));
    }
    assert!(refused.len() * 100 <= exact * 15, "seed {seed}: of {exact} are refused: {refused:?}");
}

/// A write that a later call makes after its last use, at the line of a body that was judged without it.
#[test]
fn a_state_that_is_written_later_on_is_found() {
    let _alone = alone();
    let case = Case { limit: 5, ..Case::new(&mut Rng::with_seed(7)) };
    let body: Body = |r| {
        let rows = r.hidden();
        let loss = (&rows - &r.world.state).square().mean(None);
        if r.world.is_late.get() {
            let _ = r.world.state.shallow_clone().lerp_(&rows.detach().mean_dim(0, false, None), 0.5);
        }
        loss
    };
    for is_late in [false, false, true, false] {
        case.world.is_late.set(is_late);
        assert_eq!(case.pieces(body, false).is_some(), !is_late);
    }
}

/// Rows of two data tensors that share memory, one of which the body writes.
#[test]
fn data_that_overlap_are_not_split_if_they_are_written() {
    let _alone = alone();
    let all = Tensor::arange(9, doubles());
    let (x, y) = (all.narrow(0, 0, 8), all.narrow(0, 1, 8));
    for writes in [false, true] {
        let doubled = panic_or(|| {
            predicted().max(4).forward((&x, &y), |(x, y)| {
                let doubled = x * 2.0;
                if writes {
                    y.shallow_clone().copy_(&doubled);
                }
                doubled
            })
        });
        assert_eq!(doubled.is_none(), writes);
    }
}

/// Batch norm may take the statistics of each piece, but a teacher must not see those of the pieces before.
#[test]
fn running_statistics_that_the_body_also_reads_are_not_split() {
    let _alone = alone();
    let weight = between(&[6, 4]).set_requires_grad(true);
    let [mean, variance] = [Tensor::zeros([4], doubles()), Tensor::ones([4], doubles())];
    let data = between(&[8, 6]);
    let text = panic_of(|| {
        drop(predicted().max(4).backward(Loss::Mean, &weight, &data, |x| {
            let rows = x.matmul(&weight);
            let norm =
                |trains| rows.batch_norm(NONE, NONE, Some(&mean), Some(&variance), trains, 0.1, 1e-5, false);
            (norm(true) - norm(false).detach()).square().mean(None)
        }));
    });
    assert!(text.contains("changes"), "{text}");
}

/// The loss of a padded batch, whose first piece counts nothing.
#[test]
fn a_piece_in_which_nothing_counts_adds_nothing() {
    let _alone = alone();
    let counts = Tensor::from_slice(&[0.0, 0.0, 0.0, 2.0, 1.0, 3.0]).to_device(ground::device());
    let x = Tensor::arange(6, doubles()) + 1.0;
    let weight = Tensor::ones([1], doubles()).set_requires_grad(true);
    let loss = predicted().max(3).backward(Loss::Counted(&counts), &weight, (&x, &counts), |(x, counts)| {
        ((x * &weight).square() * counts).sum(None) / counts.sum(None)
    });
    assert_eq!((loss.double_value(&[]), weight.grad().double_value(&[0])), (27.5, 55.0));
}

/// Cross-entropy ignores labels of -100, so pieces of equal size may have different weights.
#[test]
fn labels_that_are_left_out_split_only_where_they_are_counted() {
    let _alone = alone();
    let labels = Tensor::from_slice(&[-100_i64, 1, 0, 1, 1, 0, 1, 0]).to_device(ground::device());
    let counts = labels.ne(-100).to_kind(Kind::Double);
    let x = between(&[8, 3]);
    let weight = between(&[3, 2]).set_requires_grad(true);
    let body = |x: &Tensor, labels: &Tensor| x.matmul(&weight).cross_entropy_for_logits(labels);
    let whole = body(&x, &labels);
    for loss in [Loss::Found, Loss::Mean] {
        let form = predicted().max(4);
        let text =
            panic_of(|| drop(form.backward(loss, &weight, (&x, &labels), |(x, labels)| body(x, labels))));
        assert!(text.contains("the mean leaves labels of -100 out: `Loss::Counted` weighs"), "{text}");
    }
    // Also in a sum of means, and next to batch norm.
    let penalized = |x: &Tensor, labels: &Tensor| body(x, labels) + x.matmul(&weight).square().mean(None);
    let normal = |x: &Tensor, labels: &Tensor| {
        let x = x.batch_norm(NONE, NONE, NONE, NONE, true, 0.1, 1e-5, false);
        body(&x, labels)
    };
    let grown =
        |x: &Tensor, labels: &Tensor| penalized(x, labels) * f64::from(i32::try_from(x.size()[0]).unwrap());
    let means: [OfLabels<'_>; 2] = [&penalized, &normal];
    let grown: OfLabels<'_> = &grown;
    for (loss, body) in means.map(|body| (Loss::Mean, body)).into_iter().chain([(Loss::Found, grown)]) {
        let form = predicted().max(4);
        let text =
            panic_of(|| drop(form.backward(loss, &weight, (&x, &labels), |(x, labels)| body(x, labels))));
        assert!(text.contains("the mean leaves labels of -100 out"), "{text}");
    }
    let form = predicted().max(4);
    let loss = form.backward(Loss::Counted(&counts), &weight, (&x, &labels), |(x, labels)| body(x, labels));
    let [loss, whole] = [loss, whole].map(|loss| loss.double_value(&[]));
    assert!((loss - whole).abs() < 1e-6, "{loss} {whole}, in f32");
}

/// A body that branches on the number of items below the size that was checked, which its backward does not fit.
#[test]
fn a_size_that_follows_a_failure_is_checked_too() {
    let _alone = alone();
    assert!(failures_of_pieces(4, 2) > 4);
    assert!(failures_of_pieces(2, 1) > 4);
}

/// Returns the number of allocations that failed, one in each call, in pieces of `most` rows and less.
fn failures_of_pieces(most: usize, few: i64) -> u32 {
    let data = Tensor::arange(16, doubles());
    for skip in 0.. {
        let weight = Tensor::ones([], doubles()).set_requires_grad(true);
        let train = || {
            let form = execute::with::<NoCache>().device(device()).max(most);
            form.backward(Loss::Found, &weight, &data, |rows| {
                let errors = (rows * &weight).square();
                if rows.size()[0] > few { errors.mean(None) } else { errors.sum(None) }
            })
        };
        let (loss, has_failed) = failing_at(skip, || panic_or(train));
        if let Some(loss) = loss {
            assert_eq!(loss.double_value(&[]), 77.5, "after {skip} allocations");
        }
        if !has_failed {
            return skip;
        }
    }
    unreachable!("some call allocates no more")
}

/// A guard that refuses a number is no branch: every number that it lets through has the same program.
#[test]
fn a_body_that_fails_at_a_number_is_split() {
    let _alone = alone();
    let weight = Tensor::ones([], doubles()).set_requires_grad(true);
    let data = Tensor::arange(8, doubles());
    let loss = predicted().max(4).backward(Loss::Found, &weight, &data, |rows| {
        let loss = (rows * &weight).sum(None);
        let is_finite = loss.double_value(&[]).is_finite();
        if is_finite { Ok(loss) } else { Err(TchError::Torch("not finite".to_owned())) }
    });
    let gradient = weight.grad().double_value(&[]);
    assert_eq!((loss.unwrap().double_value(&[]), gradient), (28.0, 28.0));
}

/// `None` for a panic, which is a refusal.
fn panic_or(call: impl FnOnce() -> Tensor) -> Option<Tensor> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
