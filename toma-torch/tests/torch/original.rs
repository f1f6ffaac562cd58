//! Operators that the Python original tests, dry and real, whole and in pieces.

use tch::{Kind, Tensor};
use toma_core::NoCache;
use toma_core::execute;
use toma_torch::{Backward as _, Forward as _, Loss, Prediction, dry_run, predict, record};

use crate::dry::assert_twins;
use crate::ground::doubles;
use crate::peaks::peak;
use crate::stage::{alone, device, difference, size};

mod table;
mod users;

use table::{BINARY, CASTS, COMPARISONS, LAYERS, RANGES, SHAPES, UNARY};

/// Rows that each operator gets; pieces of 3 leave ragged last ones.
const ROWS: usize = 10;

/// The way in which results of pieces make up the result of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// A row for each item, with gradients.
    Rows,
    /// A row for each item, without gradients.
    Flags,
    /// One number: a mean, or a sum, over the rows.
    Mean,
    Sum,
    /// Depends on which rows are in the same piece.
    Coupled,
    /// Depends on which rows are in the same piece, without gradients.
    CoupledFlags,
}

/// The original's name of an operator, the way its pieces are combined, and the operator.
type Row = (&'static str, Answer, fn(&Operands) -> Tensor);

/// Operands: rows between 0 and 1 that depend on weights.
struct Operands {
    x: Tensor,
    y: Tensor,
    /// Operands with the shapes of a linear layer's weights.
    matrix: Tensor,
    vector: Tensor,
}

impl Operands {
    /// A channel of 6 by 6 pixels for each row.
    fn images(&self) -> Tensor {
        (self.x.unsqueeze(2) * self.x.unsqueeze(1)).unsqueeze(1)
    }

    /// Six numbers below 6 for each row.
    fn words(&self) -> Tensor {
        (&self.x * 6.0).to_kind(Kind::Int64)
    }
}

/// Data, and two weights without gradients.
struct Task {
    data: [Tensor; 2],
    matrix: Tensor,
    vector: Tensor,
}

impl Task {
    fn new() -> Self {
        tch::manual_seed(5);
        let between = |sizes: &[i64]| Tensor::rand(sizes, doubles()) * 0.8 + 0.1;
        let weight = |sizes: &[i64]| between(sizes).set_requires_grad(true);
        let data = [(); 2].map(|()| between(&[size(ROWS), 6]));
        Self { data, matrix: weight(&[6, 6]), vector: weight(&[6]) }
    }

    fn operands(&self, x: &Tensor, y: &Tensor) -> Operands {
        let (matrix, vector) = (self.matrix.shallow_clone(), self.vector.shallow_clone());
        // Powers close to one keep rows between 0 and 1.
        Operands {
            x: x * &vector.pow_tensor_scalar(0.01),
            y: y * &matrix.get(0).pow_tensor_scalar(0.01),
            matrix,
            vector,
        }
    }

    fn of_first(&self, rows: usize) -> Operands {
        let [x, y] = self.data.each_ref().map(|data| data.narrow(0, 0, size(rows)));
        self.operands(&x, &y)
    }

    /// Turns an answer into a loss that pieces add up to.
    fn loss(answer: Answer, value: Tensor) -> Tensor {
        match answer {
            Answer::Mean | Answer::Sum => value,
            _ => value.to_kind(Kind::Double).sum(None),
        }
    }

    fn gradients(&self) -> Vec<Tensor> {
        let gradients = [&self.matrix, &self.vector].map(Tensor::grad);
        gradients.into_iter().filter(Tensor::defined).collect()
    }

    /// Runs the step of some rows, with backward if there is one.
    fn step(&self, &(_, answer, operator): &Row, rows: usize) -> Tensor {
        let value = operator(&self.of_first(rows));
        if matches!(answer, Answer::Flags | Answer::CoupledFlags) {
            return value;
        }
        let loss = Self::loss(answer, value);
        loss.backward();
        loss.detach()
    }

    fn prediction(&self, row: &Row) -> Prediction {
        predict(device(), |rows| self.step(row, rows)).unwrap()
    }

    /// Returns loss and gradients of the whole in pieces.
    fn in_pieces(&self, &(_, answer, operator): &Row) -> Vec<Tensor> {
        let [x, y] = &self.data;
        let kind = if answer == Answer::Mean { Loss::Mean } else { Loss::Sum };
        let weights = [&self.matrix, &self.vector];
        let loss = execute::with::<NoCache>()
            .max(3)
            .backward(kind, &weights, (x, y), |(x, y)| Self::loss(answer, operator(&self.operands(x, y))));
        [loss].into_iter().chain(self.gradients()).collect()
    }
}

fn assert_dry_as_real(row: &Row) {
    let task = Task::new();
    let dry = dry_run(|| task.step(row, ROWS)).unwrap();
    assert_twins(row.0, &dry, &record(|| task.step(row, ROWS)));
}

fn assert_pieces_as_whole(row: &Row) {
    let (name, answer, operator) = *row;
    let task = Task::new();
    if matches!(answer, Answer::Rows | Answer::Flags) {
        let [x, y] = &task.data;
        let whole = tch::no_grad(|| operator(&task.of_first(ROWS)));
        let pieces =
            execute::with::<NoCache>().max(3).forward((x, y), |(x, y)| operator(&task.operands(x, y)));
        assert_eq!((pieces.kind(), pieces.size()), (whole.kind(), whole.size()), "{name}");
        let [pieces, whole] = [pieces, whole].map(|tensor| tensor.to_kind(Kind::Double));
        let off = difference(&[pieces], &[whole]);
        assert!(off <= 1e-12, "{name}: {off}");
    }
    if matches!(answer, Answer::Rows | Answer::Mean | Answer::Sum) {
        let whole: Vec<_> = [task.step(row, ROWS)].into_iter().chain(task.gradients()).collect();
        assert!(whole.len() > 1, "{name}: no gradient");
        let off = difference(&Task::new().in_pieces(row), &whole);
        assert!(off <= 1e-12, "{name}: {off}");
    }
}

/// Checks that the operators of a dry run show whether pieces add up.
fn assert_coupling_of_rows_is_detected(row: &Row) {
    let rows = Task::new().prediction(row).rows().unwrap();
    match row.1 {
        Answer::Coupled => assert!(rows.combined.is_err(), "{}: not found", row.0),
        // A result without gradients is in no loss.
        Answer::CoupledFlags => {}
        _ => assert_eq!(rows.combined.err(), None, "{}", row.0),
    }
}

#[test]
fn each_operator_is_dry_what_it_is_for_real_and_in_pieces_what_it_is_as_a_whole() {
    let _alone = alone();
    let tables: [&[Row]; 7] = [&UNARY, &BINARY, &COMPARISONS, &RANGES, &CASTS, &SHAPES, &LAYERS];
    for row in tables.into_iter().flatten() {
        assert_dry_as_real(row);
        assert_pieces_as_whole(row);
        assert_coupling_of_rows_is_detected(row);
    }
}

#[test]
fn queries_of_shapes_have_the_same_answers_dry() {
    type Query = fn(&Tensor) -> Vec<i64>;
    let _alone = alone();
    let queries: [(&str, Query); 13] = [
        ("size", Tensor::size),
        ("len of a dim", |x| vec![x.size2().unwrap().1]),
        ("dim", |x| vec![size(x.dim())]),
        ("numel", |x| vec![size(x.numel())]),
        ("stride", Tensor::stride),
        ("is_contiguous", |x| vec![x.is_contiguous().into()]),
        ("is_contiguous of a view", |x| vec![x.tr().is_contiguous().into()]),
        ("size of a view", |x| x.tr().size()),
        ("element size", |x| vec![size(x.kind().elt_size_in_bytes())]),
        ("is_floating_point", |x| vec![x.is_floating_point().into()]),
        ("is_complex", |x| vec![x.is_complex().into()]),
        ("requires_grad", |x| vec![x.requires_grad().into()]),
        ("size of a broadcast sum", |x| (x + Tensor::ones([4, 1, 1], doubles())).size()),
    ];
    let task = Task::new();
    for (name, query) in queries {
        let real = query(&task.of_first(ROWS).x);
        let mut dry = Vec::new();
        dry_run(|| dry = query(&task.of_first(ROWS).x)).unwrap();
        assert_eq!(dry, real, "{name}");
    }
}

/// A tensor that several others are made of is in memory once.
#[test]
fn bytes_of_what_is_shared_count_once() {
    type Body = fn(&Tensor) -> Tensor;
    let _alone = alone();
    let input = Tensor::ones([size(ROWS), 100], doubles());
    let of_one = ROWS as u64 * 800;
    let bodies: [(u64, Body); 4] = [
        (1, |x| x + 1.0),
        // The shared tensor, and its sum with itself.
        (2, |x| {
            let shared = x + 1.0;
            &shared + &shared
        }),
        // A view of it takes no memory.
        (2, |x| {
            let shared = x + 1.0;
            shared.view([-1]) + shared.view([-1])
        }),
        (3, |x| {
            let shared = x + 1.0;
            let [left, right] = [&shared * 2.0, &shared * 3.0];
            drop(shared);
            left + right
        }),
    ];
    for (at, (times, body)) in bodies.into_iter().enumerate() {
        let (dry, real) = (peak(&dry_run(|| body(&input)).unwrap()), peak(&record(|| body(&input))));
        assert_eq!(dry, real, "{at}");
        assert_eq!(dry / of_one, times, "{at}: {dry} bytes");
    }
}
