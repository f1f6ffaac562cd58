//! Steps that couple the rows of a batch, and steps that do not.

use toma_plan::{Combined, Coupled, Coupling, Judged, Rows, Unlike};
use toma_trace::Trace;

use crate::tape::{Tape, Value};

type Step = fn(&mut Tape, u64);

fn run(b: u64, step: impl FnOnce(&mut Tape, u64)) -> Trace {
    let mut tape = Tape::default();
    step(&mut tape, b);
    tape.finish()
}

fn rows(step: Step) -> Result<Rows, Unlike> {
    let traces = [4, 8].map(|size| run(size, step));
    Rows::of([(4, &traces[0]), (8, &traces[1])])
}

/// The activations of a layer: `b` rows of 3.
fn layer(tape: &mut Tape, b: u64) -> Value {
    let (x, weight) = (tape.data(&[b, 5]), tape.weight(&[5, 3]));
    tape.call("aten::mm", &[&x, &weight], &[b, 3])
}

/// A number of rows, as a program computes with it.
fn count(rows: u64) -> f64 {
    f64::from(u32::try_from(rows).unwrap())
}

fn mean_of_squares(tape: &mut Tape, x: &Value) -> Value {
    let squares = tape.call("aten::pow", &[x], x.shape());
    tape.call("aten::mean", &[&squares], &[])
}

const COUPLED: &[(&str, Coupling, Step)] = &[
    ("aten::mm", Coupling::TwoBatchDims, |tape, b| {
        let x = layer(tape, b);
        let turned = tape.view("aten::t", &x, &[3, b]);
        tape.call("aten::mm", &[&x, &turned], &[b, b]);
    }),
    ("aten::sub", Coupling::RowsWithAggregate, |tape, b| {
        let x = layer(tape, b);
        let mean = tape.along("aten::mean", &[0], &[&x], &[3]);
        tape.call("aten::sub", &[&x, &mean], &[b, 3]);
    }),
    // Expanded over the batch, the mean is the same for all rows.
    ("aten::expand", Coupling::RowsWithAggregate, |tape, b| {
        let x = layer(tape, b);
        let mean = tape.along("aten::mean", &[0], &[&x], &[3]);
        let spread = tape.view("aten::expand", &mean, &[b, 3]);
        let copy = tape.call("aten::clone", &[&spread], &[b, 3]);
        tape.call("aten::sub", &[&x, &copy], &[b, 3]);
    }),
    ("aten::div_", Coupling::RowsWithAggregate, |tape, b| {
        let x = layer(tape, b);
        let sum = tape.call("aten::sum", &[&x], &[]);
        tape.write("aten::div_", &[&x, &sum]);
    }),
    // The aggregate requires no gradient; the operand that it is multiplied with does.
    ("aten::mul", Coupling::RowsWithAggregate, |tape, b| {
        let x = layer(tape, b);
        tape.no_gradients = true;
        let mean = tape.call("aten::mean", &[&x], &[]);
        tape.no_gradients = false;
        tape.call("aten::mul", &[&x, &mean], &[b, 3]);
    }),
    // Takes another column of each row.
    ("aten::diagonal", Coupling::AlongBatch, |tape, b| {
        let x = tape.data(&[b, 9]);
        let diagonal = tape.view("aten::diagonal", &x, &[b]);
        tape.call("aten::mean", &[&diagonal], &[]);
    }),
    // The next piece would read the state that this piece has left.
    ("aten::copy_", Coupling::ChangesConstant, |tape, b| {
        let (x, state) = (layer(tape, b), tape.data(&[3]));
        let sum = tape.call("aten::add.Tensor", &[&x, &state], &[b, 3]);
        let mean = tape.along("aten::mean", &[0], &[&sum], &[3]);
        tape.write("aten::copy_", &[&state, &mean]);
        tape.call("aten::mean", &[&sum], &[]);
    }),
    ("aten::_softmax", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        tape.along("aten::_softmax", &[0], &[&x], &[b, 3]);
    }),
    ("aten::_softmax", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        tape.along("aten::_softmax", &[-2], &[&x], &[b, 3]);
    }),
    // Weights without gradients couple rows once they meet values with gradients.
    ("aten::_softmax", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        tape.no_gradients = true;
        let weights = tape.along("aten::_softmax", &[0], &[&x], &[b, 3]);
        let weights = tape.call("aten::sqrt", &[&weights], &[b, 3]);
        tape.no_gradients = false;
        tape.call("aten::mul", &[&x, &weights], &[b, 3]);
    }),
    ("aten::roll", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        tape.call("aten::roll", &[&x], &[b, 3]);
    }),
    ("aten::sort.values", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        tape.along("aten::sort.values", &[1, 0], &[&x], &[b, 3]);
    }),
    ("aten::native_layer_norm", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        let turned = tape.view("aten::t", &x, &[3, b]);
        tape.layer_norm(&turned, &[3, 1]);
    }),
    ("aten::convolution", Coupling::AlongBatch, |tape, b| {
        let (x, kernel) = (layer(tape, b), tape.weight(&[2, 3, 3]));
        let turned = tape.view("aten::transpose", &x, &[1, 3, b]);
        tape.call("aten::convolution", &[&turned, &kernel], &[1, 2, b]);
    }),
    ("aten::avg_pool2d", Coupling::AlongBatch, |tape, b| {
        let x = layer(tape, b);
        let turned = tape.view("aten::transpose", &x, &[3, b]);
        let turned = tape.view("aten::view", &turned, &[3, b, 1]);
        tape.call("aten::avg_pool2d", &[&turned], &[3, b, 1]);
    }),
    ("aten::index_select", Coupling::PicksRows, |tape, b| {
        let (x, order) = (layer(tape, b), tape.data(&[b]));
        tape.along("aten::index_select", &[0], &[&x, &order], &[b, 3]);
    }),
    ("aten::gather", Coupling::PicksRows, |tape, b| {
        let (x, order) = (layer(tape, b), tape.data(&[b, 3]));
        tape.along("aten::gather", &[-2], &[&x, &order], &[b, 3]);
    }),
    ("aten::select", Coupling::PicksRows, |tape, b| {
        let x = layer(tape, b);
        tape.view("aten::select", &x, &[3]);
    }),
    ("aten::select", Coupling::PicksRows, |tape, b| {
        let x = layer(tape, b);
        tape.no_gradients = true;
        let row = tape.view("aten::select", &x, &[3]);
        tape.no_gradients = false;
        tape.call("aten::sub", &[&x, &row], &[b, 3]);
    }),
    ("aten::linalg_vector_norm", Coupling::OtherAggregate, |tape, b| {
        let x = layer(tape, b);
        tape.call("aten::linalg_vector_norm", &[&x], &[]);
    }),
    ("aten::logsumexp", Coupling::OtherAggregate, |tape, b| {
        let x = layer(tape, b);
        tape.along("aten::logsumexp", &[0], &[&x], &[3]);
    }),
    ("aten::topk", Coupling::OtherAggregate, |tape, b| {
        let x = layer(tape, b);
        tape.along("aten::topk", &[0], &[&x], &[2, 3]);
    }),
    ("aten::mm", Coupling::OtherAggregate, |tape, b| {
        let x = layer(tape, b);
        let turned = tape.view("aten::t", &x, &[3, b]);
        tape.call("aten::mm", &[&turned, &x], &[3, 3]);
    }),
    ("aten::sqrt", Coupling::ThroughAggregate, |tape, b| {
        let x = layer(tape, b);
        let loss = mean_of_squares(tape, &x);
        tape.call("aten::sqrt", &[&loss], &[]);
    }),
    ("aten::mul", Coupling::ThroughAggregate, |tape, b| {
        let x = layer(tape, b);
        let loss = mean_of_squares(tape, &x);
        tape.call("aten::mul", &[&loss, &loss], &[]);
    }),
    // One divided by a mean.
    ("aten::div", Coupling::ThroughAggregate, |tape, b| {
        let (x, one) = (layer(tape, b), tape.weight(&[]));
        let loss = mean_of_squares(tape, &x);
        tape.call("aten::div", &[&one, &loss], &[]);
    }),
    // A mean over counts that are learned.
    ("aten::div", Coupling::ThroughAggregate, |tape, b| {
        let x = layer(tape, b);
        let weights = tape.call("aten::sigmoid", &[&x], &[b, 3]);
        let [sum, count] = [&x, &weights].map(|all| tape.call("aten::sum", &[all], &[]));
        tape.call("aten::div", &[&sum, &count], &[]);
    }),
    ("aten::mean", Coupling::InnerBackward, |tape, b| {
        let x = layer(tape, b);
        tape.changes_gradients();
        mean_of_squares(tape, &x);
    }),
];

#[test]
fn couplings_are_named() {
    for (at, (name, coupling, step)) in COUPLED.iter().enumerate() {
        let Coupled { name: found, coupling: how, .. } =
            coupled(*step).unwrap_or_else(|| panic!("{at} {name}"));
        assert_eq!((&*found, how), (*name, *coupling), "{at}");
    }
    let text = coupled(COUPLED[0].2).unwrap().to_string();
    assert_eq!(text, "`aten::mm` (operator 2) gives a result with the batch in two dimensions");
}

/// Returns the coupling of rows in a step whose last result is its result.
fn coupled(step: Step) -> Option<Coupled> {
    rows(step).unwrap().combined.err()
}

const APART: &[Step] = &[
    // Cross entropy over classes, of rows that are merged with time.
    |tape, b| {
        let (x, labels) = (layer(tape, b), tape.data(&[b, 3]));
        let labels = tape.view("aten::view", &labels, &[b * 3]);
        let wide = tape.view("aten::view", &x, &[b * 3, 1]);
        let scores = tape.along("aten::_log_softmax", &[1], &[&wide], &[b * 3, 1]);
        tape.call("aten::nll_loss_forward", &[&scores, &labels], &[]);
    },
    // An embedding, and attention over time.
    |tape, b| {
        let (table, words) = (tape.weight(&[100, 6]), tape.data(&[b, 7]));
        let x = tape.call("aten::embedding", &[&table, &words], &[b, 7, 6]);
        let all = tape.view("aten::view", &words, &[b * 7]);
        let picked = tape.along("aten::index_select", &[0], &[&table, &all], &[b * 7, 6]);
        let turned = tape.view("aten::transpose", &x, &[b, 6, 7]);
        let scores = tape.call("aten::bmm", &[&x, &turned], &[b, 7, 7]);
        let scores = tape.attend(&scores, &[b, 7, 7]);
        let weights = tape.along("aten::_softmax", &[-1], &[&scores], &[b, 7, 7]);
        let y = tape.call("aten::bmm", &[&weights, &x], &[b, 7, 6]);
        let (one, other) = (mean_of_squares(tape, &picked), mean_of_squares(tape, &y));
        tape.call("aten::add", &[&one, &other], &[]);
    },
    // A weight that is expanded over the batch, and used as it is.
    |tape, b| {
        let (x, weight) = (layer(tape, b), tape.weight(&[3, 3]));
        let spread = tape.view("aten::expand", &weight, &[b, 3, 3]);
        let spread = tape.view("aten::view", &spread, &[b, 3, 3]);
        let y = tape.call("aten::bmm", &[&x, &spread], &[b, 3]);
        let y = tape.call("aten::mm", &[&y, &weight], &[b, 3]);
        mean_of_squares(tape, &y);
    },
    // Normalized rows, dropout, a weighted sum of two losses.
    |tape, b| {
        let (x, mask, factor) = (layer(tape, b), tape.data(&[b, 3]), tape.data(&[]));
        let norm = tape.along("aten::linalg_vector_norm", &[1], &[&x], &[b, 1]);
        let y = tape.call("aten::div", &[&x, &norm], &[b, 3]);
        let y = tape.write("aten::mul_", &[&y, &mask]);
        let (one, other) = (mean_of_squares(tape, &y), mean_of_squares(tape, &x));
        let other = tape.call("aten::mul", &[&other, &factor], &[]);
        let other = tape.write("aten::mul_", &[&other, &factor]);
        let other = tape.write("aten::div_", &[&other, &factor]);
        let both = tape.along("aten::stack", &[0], &[&one, &other], &[2]);
        tape.call("aten::sum", &[&both], &[]);
    },
    // The number of correct answers in the batch, which no gradient depends on.
    |tape, b| {
        let (x, labels) = (layer(tape, b), tape.data(&[b]));
        mean_of_squares(tape, &x);
        tape.no_gradients = true;
        let best = tape.along("aten::argmax", &[1], &[&x], &[b]);
        let right = tape.call("aten::eq", &[&best, &labels], &[b]);
        let right = tape.call("aten::sum", &[&right], &[]);
        tape.call("aten::sqrt", &[&right], &[]);
        tape.along("aten::sort", &[0], &[&x], &[b, 3]);
        tape.view("aten::select", &x, &[3]);
        let y = tape.call("aten::relu", &[&x], &[b, 3]);
        mean_of_squares(tape, &y);
    },
    // Gradients and an optimizer's step, after the forward.
    |tape, b| {
        let (x, weight) = (layer(tape, b), tape.weight(&[5, 3]));
        mean_of_squares(tape, &x);
        tape.backward();
        let turned = tape.view("aten::t", &x, &[3, b]);
        let gradient = tape.call("aten::mm", &[&turned, &x], &[5, 3]);
        let root = tape.call("aten::sqrt", &[&gradient], &[5, 3]);
        tape.write("aten::addcdiv_", &[&weight, &gradient, &root]);
    },
    // A first gradient is kept, later ones are added.
    |tape, b| {
        let x = layer(tape, b);
        mean_of_squares(tape, &x);
        tape.backward();
        tape.call(if b == 4 { "aten::detach" } else { "aten::add_" }, &[&x], &[5, 3]);
    },
    // Normalized rows, and convolutions and pools along dims other than the batch.
    |tape, b| {
        let (images, wide) = (tape.data(&[b, 3, 9, 9]), tape.weight(&[2, 3, 3, 3]));
        let x = tape.call("aten::convolution", &[&images, &wide], &[b, 2, 7, 7]);
        let x = tape.call("aten::max_pool2d_with_indices", &[&x], &[b, 2, 1, 1]);
        let x = tape.view("aten::view", &x, &[b, 2]);
        let x = tape.layer_norm(&x, &[b, 1]);
        mean_of_squares(tape, &x);
    },
    // Batch norm with statistics of earlier rows.
    |tape, b| {
        let (x, running) = (layer(tape, b), tape.data(&[3]));
        tape.no_gradients = true;
        let mean = tape.along("aten::mean", &[0], &[&x], &[3]);
        tape.write("aten::add_", &[&running, &mean]);
        tape.no_gradients = false;
        tape.call("aten::native_batch_norm", &[&x, &running], &[b, 3]);
    },
];

#[test]
fn rows_that_stay_apart_raise_no_alarm() {
    for (index, step) in APART.iter().enumerate() {
        let found = rows(*step).unwrap();
        assert_eq!(found.combined.err(), None, "step {index}");
        assert_eq!(found.batch_statistics.len(), usize::from(index == 8), "step {index}");
    }
}

/// Steps, and the way in which results of their pieces make up the result of the whole.
const COMBINED: &[(Combined, Step)] = &[
    (Combined::Rows, |tape, b| drop(layer(tape, b))),
    (Combined::Mean, |tape, b| {
        let x = layer(tape, b);
        mean_of_squares(tape, &x);
    }),
    (Combined::Sum, |tape, b| {
        let x = layer(tape, b);
        tape.call("aten::sum", &[&x], &[]);
    }),
    // tch's own loss of a variational autoencoder: a sum, and another that is scaled by a constant.
    (Combined::Sum, |tape, b| {
        let x = layer(tape, b);
        let (sum, other) = (tape.call("aten::sum", &[&x], &[]), tape.call("aten::sum", &[&x], &[]));
        let scaled = tape.scaled("aten::mul.Scalar", &other, -0.5);
        tape.call("aten::add.Tensor", &[&sum, &scaled], &[]);
    }),
    (Combined::Sum, |tape, b| {
        let x = layer(tape, b);
        let sum = tape.call("aten::sum", &[&x], &[]);
        tape.scaled("aten::div.Scalar", &sum, 512.0);
    }),
    (Combined::Mean, |tape, b| {
        let x = layer(tape, b);
        let sum = tape.call("aten::sum", &[&x], &[]);
        tape.scaled("aten::div.Scalar", &sum, count(b));
    }),
    (Combined::Sum, |tape, b| {
        let x = layer(tape, b);
        let mean = mean_of_squares(tape, &x);
        tape.scaled("aten::mul.Scalar", &mean, 3.0 * count(b));
    }),
    (Combined::Mean, |tape, b| {
        let x = layer(tape, b);
        let sums = tape.along("aten::sum", &[1], &[&x], &[b]);
        tape.call("aten::mean", &[&sums], &[]);
    }),
    // A penalty on weights in addition to a mean.
    (Combined::Mean, |tape, b| {
        let (x, weight) = (layer(tape, b), tape.weight(&[5, 3]));
        let (loss, penalty) = (mean_of_squares(tape, &x), mean_of_squares(tape, &weight));
        tape.call("aten::add.Tensor", &[&loss, &penalty], &[]);
    }),
    (Combined::Counted, |tape, b| {
        let (x, mask) = (layer(tape, b), tape.data(&[b, 3]));
        let masked = tape.call("aten::mul", &[&x, &mask], &[b, 3]);
        let sum = tape.call("aten::sum", &[&masked], &[]);
        let count = tape.call("aten::sum", &[&mask], &[]);
        tape.call("aten::div", &[&sum, &count], &[]);
    }),
    (Combined::Counted, |tape, b| {
        let (x, mask) = (layer(tape, b), tape.data(&[b, 3]));
        let selected = tape.call("aten::masked_select", &[&x, &mask], &[b * 3]);
        tape.call("aten::mean", &[&selected], &[]);
    }),
    (Combined::MeanOrCounted, |tape, b| {
        let (x, labels) = (layer(tape, b), tape.data(&[b]));
        tape.call("aten::nll_loss_forward", &[&x, &labels], &[]);
    }),
    (Combined::Counted, |tape, b| {
        let (x, labels, weights) = (layer(tape, b), tape.data(&[b]), tape.data(&[3]));
        tape.call("aten::nll_loss_forward", &[&x, &labels, &weights], &[]);
    }),
    // All rows but the masked ones, as with smoothed labels.
    (Combined::Counted, |tape, b| {
        let (x, mask) = (layer(tape, b), tape.data(&[b]));
        let (sum, masked) = (tape.call("aten::sum", &[&x], &[]), tape.call("aten::sum", &[&mask], &[]));
        let counted = tape.scaled("aten::rsub.Scalar", &masked, count(b));
        tape.call("aten::div.Tensor", &[&sum, &counted], &[]);
    }),
];

#[test]
fn the_whole_is_a_mean_a_sum_or_counted() {
    for (index, (combined, step)) in COMBINED.iter().enumerate() {
        assert_eq!(rows(*step).unwrap().combined, Ok(*combined), "step {index}");
    }
    let loss: Step = |tape, b| {
        let (x, target) = (layer(tape, b), tape.data(&[b, 3]));
        tape.call("aten::mse_loss", &[&x, &target], &[]);
    };
    let reduced = [1, 2].map(|reduction| rows_with("reduction", reduction, loss).combined);
    assert_eq!(reduced, [Ok(Combined::Mean), Ok(Combined::Sum)]);
    let ignoring = rows_with("ignore_index", 0, COMBINED[11].1).combined;
    assert_eq!(ignoring, Ok(Combined::Counted), "a class that data have is ignored");
}

#[test]
fn a_sum_with_a_constant_or_a_mean_is_neither() {
    let penalty: Step = |tape, b| {
        let (x, weight) = (layer(tape, b), tape.weight(&[5, 3]));
        let (loss, penalty) = (tape.call("aten::sum", &[&x], &[]), mean_of_squares(tape, &weight));
        tape.call("aten::add.Tensor", &[&loss, &penalty], &[]);
    };
    let number: Step = |tape, b| {
        let x = layer(tape, b);
        let loss = tape.call("aten::sum", &[&x], &[]);
        tape.scaled("aten::add.Scalar", &loss, 1.0);
    };
    let in_place: Step = |tape, b| {
        let (x, constant) = (layer(tape, b), tape.data(&[]));
        let loss = tape.call("aten::sum", &[&x], &[]);
        tape.write("aten::add_.Tensor", &[&loss, &constant]);
    };
    let mean: Step = |tape, b| {
        let x = layer(tape, b);
        let (loss, mean) = (tape.call("aten::sum", &[&x], &[]), mean_of_squares(tape, &x));
        tape.call("aten::add.Tensor", &[&loss, &mean], &[]);
    };
    let like: Step = |tape, b| {
        let x = layer(tape, b);
        let loss = tape.call("aten::sum", &[&x], &[]);
        let ones = tape.call("aten::ones_like", &[&loss], &[]);
        tape.call("aten::add.Tensor", &[&loss, &ones], &[]);
    };
    let how = |step| coupled(step).unwrap().coupling;
    assert_eq!([penalty, number, in_place, like].map(how), [Coupling::ConstantInSum; 4]);
    assert_eq!(how(mean), Coupling::SumWithMean);
}

fn judged(step: Step) -> Judged {
    let traces = [4, 8].map(|size| run(size, step));
    Judged::of([(4, &traces[0]), (8, &traces[1])]).unwrap()
}

/// A real run of a step belongs to the program that was judged, at any size and with any weight of the loss.
#[test]
fn only_the_program_that_was_judged_is_recognized() {
    fn weighted(tape: &mut Tape, b: u64, weight: f64) {
        let x = layer(tape, b);
        let sum = tape.call("aten::sum", &[&x], &[]);
        tape.scaled("aten::mul.Scalar", &sum, weight);
    }
    let is_of = |judged: &Judged, b: u64, step: &dyn Fn(&mut Tape, u64)| {
        judged.is_of(u32::try_from(b).unwrap(), &run(b, step))
    };
    let annealed = judged(|tape, b| weighted(tape, b, 0.3));
    let shared = judged(|tape, b| weighted(tape, b, 1.0 / count(b)));
    for b in [1, 4, 7, 100] {
        assert!(is_of(&annealed, b, &|tape, b| weighted(tape, b, 0.29)), "{b}: a weight may have changed");
        assert!(is_of(&shared, b, &|tape, b| weighted(tape, b, 1.0 / count(b))), "{b}");
        assert!(
            !is_of(&annealed, b, &|tape, b| weighted(tape, b, 1.0 / count(b))),
            "{b}: it counts rows now"
        );
        assert!(!is_of(&shared, b, &|tape, b| weighted(tape, b, 1.0 / 512.0)), "{b}: it counts rows no more");
    }
    let other = run(7, |tape, b| weighted(tape, b, 0.29));
    let same = |weight| annealed.takes_same([&other, &run(9, |tape, b| weighted(tape, b, weight))], false);
    assert!(same(0.29) && !same(0.3), "within one call a weight stays");
    let counting = [7, 9].map(|b| run(b, |tape, b| weighted(tape, b, 1.0 / count(b))));
    assert!(shared.takes_same([&counting[0], &counting[1]], false));
    assert!(Judged::is_same([&other, &run(7, |tape, b| weighted(tape, b, 0.29))]));
    assert!(!Judged::is_same([&other, &run(7, |tape, b| weighted(tape, b, 0.3))]));
    let mean: Step = |tape, b| {
        let x = layer(tape, b);
        tape.call("aten::mean", &[&x], &[]);
    };
    assert!(annealed.is_of_few(1, &run(1, |tape, b| weighted(tape, b, 0.5))));
    assert!(!annealed.is_of_few(1, &run(1, mean)), "another reduction");
    assert!(shared.counts_rows() && !annealed.counts_rows());
    for (index, (_, step)) in COMBINED.iter().enumerate() {
        for (other, (_, run)) in COMBINED.iter().enumerate() {
            let same = is_of(&judged(*step), 7, &|tape, b| run(tape, b));
            assert_eq!(same, index == other, "step {index}, and {other} is run");
        }
    }
}

/// Parts of a tensor share its storage, and begin at different places in it.
#[test]
fn another_part_of_a_tensor_is_another_program() {
    fn of_parts(tape: &mut Tape, b: u64, [of_bank, of_rows]: [usize; 2]) {
        let (x, bank) = (layer(tape, b), tape.weight(&[3, 6]));
        let weight = tape.parts("aten::split.Tensor", &bank, &[3, 3], 2).swap_remove(of_bank);
        let x = tape.call("aten::mm", &[&x, &weight], &[b, 3]);
        let rows = tape.parts("aten::unbind.int", &x, &[b], 3).swap_remove(of_rows);
        mean_of_squares(tape, &rows);
    }
    let program = judged(|tape, b| of_parts(tape, b, [1, 1]));
    let of = |b, parts| run(b, |tape, b| of_parts(tape, b, parts));
    for parts in [[1, 1], [0, 1], [1, 0], [1, 2]] {
        let is_judged = parts == [1, 1];
        assert_eq!(program.is_of(7, &of(7, parts)), is_judged, "{parts:?}");
        assert_eq!(Judged::is_same([&of(7, [1, 1]), &of(7, parts)]), is_judged, "{parts:?}");
        let is_same_for_few = program.takes_same([&of(1, parts), &of(9, [1, 1])], true);
        assert_eq!(is_same_for_few, parts[0] == 1, "{parts:?}: parts of rows are not compared");
    }
}

/// For few rows, libraries may take more parts of tensors, but not others.
#[test]
fn few_rows_take_the_parts_that_many_take() {
    fn of_columns(tape: &mut Tape, b: u64, columns: &[i64]) {
        let x = layer(tape, b);
        let select = |x: Value, column: &i64| tape.along("aten::select.int", &[*column], &[&x], &[b, 3]);
        let x = columns.iter().fold(x, select);
        mean_of_squares(tape, &x);
    }
    let program = judged(|tape, b| of_columns(tape, b, &[1, 2]));
    let is_of_few = |columns| program.is_of_few(1, &run(1, |tape, b| of_columns(tape, b, columns)));
    let known: [&[i64]; 3] = [&[1, 2], &[1, 0, 2], &[0, 1, 2, 2]];
    let others: [&[i64]; 4] = [&[1], &[1, 0], &[2, 1], &[]];
    assert_eq!((known.map(is_of_few), others.map(is_of_few)), ([true; 3], [false; 4]));
}

/// Returns the judgement of a step whose last operator has this attribute.
fn rows_with(name: &str, value: i64, step: Step) -> Rows {
    let traces = [4, 8].map(|size| {
        let mut tape = Tape::default();
        step(&mut tape, size);
        tape.finish_with(name, &[value])
    });
    Rows::of([(4, &traces[0]), (8, &traces[1])]).unwrap()
}

#[test]
fn attributes_decide_how_a_call_is_read() {
    let normalize: Step = |tape, b| {
        let x = layer(tape, b);
        tape.call("aten::native_batch_norm", &[&x], &[b, 3]);
    };
    assert_eq!(rows_with("training", 1, normalize).batch_statistics.len(), 1);
    let evaluated = rows_with("training", 0, normalize);
    assert_eq!((evaluated.combined, evaluated.batch_statistics.len()), (Ok(Combined::Rows), 0));
    let counts: Step = |tape, b| {
        let (table, words) = (tape.weight(&[100, 6]), tape.data(&[b, 7]));
        tape.call("aten::embedding", &[&table, &words], &[b, 7, 6]);
    };
    assert_eq!(rows_with("scale_grad_by_freq", 0, counts).combined, Ok(Combined::Rows));
    let counted = rows_with("scale_grad_by_freq", 1, counts).combined.unwrap_err();
    assert_eq!(counted.coupling, Coupling::RowsWithAggregate);
}

#[test]
fn steps_that_touch_other_tensors_are_refused() {
    let other: Step = |tape, b| {
        let x = layer(tape, b);
        let shape: &[u64] = if b == 4 { &[4, 3] } else { &[24] };
        tape.call("aten::reshape", &[&x], shape);
    };
    let error = rows(other).unwrap_err().to_string();
    assert_eq!(error, "operator 1 `aten::reshape` touches other tensors at size 4 than at size 8");
    let more: Step = |tape, b| {
        let x = layer(tape, b);
        let inputs = vec![&x; usize::try_from(b).unwrap()];
        tape.call("aten::cat", &inputs, &[b, 3]);
    };
    let error = rows(more).unwrap_err().to_string();
    assert_eq!(error, "operator 1 `aten::cat` touches other tensors at size 4 than at size 8");
    let trace = Tape::default().finish();
    for sizes in [[4, 4], [0, 4], [4, 0]] {
        assert!(matches!(Rows::of(sizes.map(|size| (size, &trace))), Err(Unlike::Size { .. })));
    }
}
