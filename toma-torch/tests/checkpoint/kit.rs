//! The state after a step, compared bit for bit.

use crate::ground;
use tch::nn::VarStore;
use tch::{Kind, Tensor};
use toma_torch::checkpoint::{self, Costs, Plan, Solver, With};

pub(crate) use crate::alone::alone;

/// A net with its training data. Its stages end at `checkpoint::cut()` and at the layers of a `seq_t`.
pub(crate) struct Net {
    pub(crate) name: &'static str,
    pub(crate) variables: VarStore,
    /// The part of the computation that a region contains.
    pub(crate) forward: Box<dyn Fn() -> Tensor>,
    before: Vec<Tensor>,
}

impl Net {
    pub(crate) fn new(
        name: &'static str,
        variables: VarStore,
        forward: impl Fn() -> Tensor + 'static,
    ) -> Self {
        give_gradients(&variables);
        let mut net = Self { name, variables, forward: Box::new(forward), before: Vec::new() };
        net.before = tch::no_grad(|| net.buffers().iter().map(Tensor::copy).collect());
        net
    }

    fn buffers(&self) -> Vec<Tensor> {
        let mut buffers: Vec<_> = self.variables.variables().into_iter().collect();
        buffers.sort_by(|(a, _), (b, _)| a.cmp(b));
        buffers.into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// Returns the state after a step that begins from the same state each time.
    pub(crate) fn step(&self, region: impl FnOnce(&dyn Fn() -> Tensor) -> Tensor) -> Left {
        tch::manual_seed(7);
        let output = region(&*self.forward);
        output.square().mean(Kind::Float).backward();
        let left = Left::of(&output, &self.buffers());
        self.put_back();
        left
    }

    /// Runs a step and leaves its gradients and statistics.
    pub(crate) fn train(&self, region: impl FnOnce(&dyn Fn() -> Tensor) -> Tensor) {
        tch::manual_seed(7);
        region(&*self.forward).square().mean(Kind::Float).backward();
    }

    /// Undoes the changes of earlier steps.
    pub(crate) fn put_back(&self) {
        tch::no_grad(|| {
            for (mut tensor, before) in self.buffers().into_iter().zip(&self.before) {
                if tensor.grad().defined() {
                    let _ = tensor.grad().zero_();
                }
                if tensor != *before {
                    tensor.copy_(before);
                }
            }
        });
    }

    pub(crate) fn plain(&self) -> Left {
        self.step(|forward| forward())
    }
}

/// Gives each variable a gradient of zeros, because a step that makes gradients takes memory that stays.
pub(crate) fn give_gradients(variables: &VarStore) {
    variables.trainable_variables().iter().for_each(|variable| drop(with_gradient(variable)));
}

/// A variable with a gradient of zeros.
pub(crate) fn with_gradient(tensor: &Tensor) -> Tensor {
    let variable = tensor.set_requires_grad(true);
    (&variable * 0.0).sum(Kind::Float).backward();
    variable
}

/// Applies a layer this many times, as a stage each.
pub(crate) fn stages(count: usize, x: &Tensor, layer: impl Fn(&Tensor) -> Tensor) -> Tensor {
    (0..count).fold(x.shallow_clone(), |x, _| {
        checkpoint::cut();
        layer(&x)
    })
}

/// Plans of every solver, in budgets from the least bytes to those of keeping all, in this many equal parts.
pub(crate) fn plans(costs: &Costs, parts: u64) -> Vec<Plan> {
    let (least, most) = (costs.least_bytes(), costs.keep_all_bytes());
    let budgets = (0..=parts).map(|part| least + (most - least) * part / parts);
    let by_solver = |solver| budgets.clone().filter_map(move |budget| costs.plan(budget, solver).ok());
    Solver::ALL.into_iter().flat_map(by_solver).collect()
}

/// The output, gradients, buffers and random state after a step, as bytes.
#[derive(PartialEq)]
pub(crate) struct Left(Vec<Vec<u8>>);

impl Left {
    fn of(output: &Tensor, buffers: &[Tensor]) -> Self {
        let random = Tensor::rand([4], ground::floats());
        let gradients = buffers.iter().map(Tensor::grad).filter(Tensor::defined);
        let all =
            [output.shallow_clone(), random].into_iter().chain(buffers.iter().map(Tensor::shallow_clone));
        Self(all.chain(gradients).map(|tensor| bytes(&tensor)).collect())
    }
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tensors", self.0.len())
    }
}

pub(crate) fn bytes(tensor: &Tensor) -> Vec<u8> {
    let flat = tensor.detach().contiguous().reshape([-1]).to_kind(Kind::Double);
    Vec::<f64>::try_from(flat).unwrap().into_iter().flat_map(f64::to_ne_bytes).collect()
}

/// Frees the gradients that a failed backward has left in the queue of this thread.
pub(crate) fn drop_stranded() {
    let one = Tensor::ones([1], ground::floats()).set_requires_grad(true);
    (&one * 1.0).sum(Kind::Float).backward();
}

/// Random numbers that are the same in each run.
pub(crate) fn numbers(seed: i64, size: &[i64]) -> Tensor {
    tch::manual_seed(seed);
    Tensor::randn(size, ground::floats())
}

/// A step that trains a matrix, with a region in place of a plain call; returns tensors to compare.
pub(crate) type Step<'a> = &'a dyn Fn(&Tensor, &dyn Fn(&dyn Fn() -> Tensor) -> Tensor) -> Vec<Tensor>;

/// Checks that the first run and the leanest plan have the bits of the plain run, with the gradient of the matrix.
pub(crate) fn same<'a>(name: &'a str, form: With<'a>, step: Step<'_>) {
    let run = |region: &dyn Fn(&dyn Fn() -> Tensor) -> Tensor| {
        let w = numbers(1, &[4, 4]).set_requires_grad(true);
        let left = step(&w, region);
        left.iter().chain([&w.grad()]).map(bytes).collect::<Vec<_>>()
    };
    let (plain, form) = (run(&|body| body()), form.name(name));
    assert!(run(&|body| form.region(body)) == plain, "{name}: first run");
    let least = form.known().expect("backward has run").least_bytes();
    for _ in 0..2 {
        assert!(run(&|body| form.budget(least).region(body)) == plain, "{name}: planned");
    }
}
