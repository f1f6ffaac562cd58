//! Five small nets, each written twice: with tch's layers and ordinary methods, which panic, and with `f_` methods,
//! which return errors.

use std::ops::Range;

use tch::nn::{self, Module as _, ModuleT as _, Path, RNN as _};
use tch::{Kind, Reduction, TchError, Tensor};
use toma_torch::{Rollback, accumulate_gradients};

use crate::ground;
use crate::stage::size;

/// Rows of training data for each net. Halves of 22 are odd, so last pieces are ragged.
pub(crate) const ROWS: usize = 22;

/// The form in which a net reports out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Road {
    Errors,
    Panics,
}

pub(crate) const ROADS: [Road; 2] = [Road::Errors, Road::Panics];

impl Road {
    /// Returns the result of an `f_` method, or panics as tch's ordinary methods do, which unwrap it.
    pub(crate) fn of<T>(self, result: Result<T, TchError>) -> Result<T, TchError> {
        match self {
            Self::Errors => result,
            Self::Panics => Ok(result.unwrap()),
        }
    }
}

/// One net for each kind of layers. The last one draws random numbers.
pub(crate) const NETS: [fn() -> Net; 5] =
    [perceptron, convolution, lstm, || transformer(0.0), || transformer(0.5)];

trait Layers: Send {
    fn forward(&self, input: &Tensor, train: bool) -> Tensor;
    fn f_forward(&self, input: &Tensor, train: bool) -> Result<Tensor, TchError>;
}

/// A net and its training data.
pub(crate) struct Net {
    pub(crate) name: &'static str,
    pub(crate) variables: nn::VarStore,
    pub(crate) input: Tensor,
    pub(crate) target: Tensor,
    layers: Box<dyn Layers>,
    is_random: bool,
}

impl Net {
    /// Makes the net, always with the same weights, inputs and targets.
    ///
    /// `input` and `target` are the shapes of one row of each.
    fn new<L: Layers + 'static>(
        name: &'static str,
        (input, target): (&[i64], &[i64]),
        layers: impl FnOnce(&Path<'_>) -> L,
    ) -> Self {
        tch::manual_seed(7);
        let variables = nn::VarStore::new(ground::device());
        let layers = Box::new(layers(&variables.root()));
        let random = |row: &[i64]| Tensor::randn([&[size(ROWS)], row].concat(), ground::floats());
        Self { name, variables, input: random(input), target: random(target), layers, is_random: false }
    }

    /// Returns the output for these rows.
    pub(crate) fn output(&self, road: Road, rows: &Range<usize>, train: bool) -> Result<Tensor, TchError> {
        let input = of_rows(&self.input, rows);
        match road {
            Road::Errors => self.layers.f_forward(&input, train),
            Road::Panics => Ok(self.layers.forward(&input, train)),
        }
    }

    /// Returns the output for this input in training.
    pub(crate) fn of(&self, input: &Tensor) -> Tensor {
        self.layers.forward(input, true)
    }

    /// The share of these rows in the mean over all, so that shares add up to it.
    pub(crate) fn loss(&self, road: Road, rows: &Range<usize>) -> Result<Tensor, TchError> {
        let output = self.output(road, rows, true)?;
        let target = of_rows(&self.target, rows);
        let all = f64::from(u32::try_from(self.target.numel()).unwrap());
        road.of(road.of(output.f_mse_loss(&target, Reduction::Sum))?.f_div_scalar(all))
    }

    /// Adds the gradients of `loss` to existing ones. With errors it adds all or none; tch's own method may have added
    /// some when it panics.
    pub(crate) fn backward(&self, road: Road, loss: &Tensor) -> Result<(), TchError> {
        match road {
            Road::Errors => accumulate_gradients(loss, &self.weights()),
            Road::Panics => road.of(loss.f_backward()),
        }
    }

    /// Returns a rollback of all state that a failed attempt may have changed.
    pub(crate) fn rollback(&self, road: Road) -> Rollback {
        let rollback = Rollback::new().rng(ground::device()).unwrap().buffers(&self.variables).unwrap();
        match road {
            Road::Errors => rollback,
            Road::Panics => rollback.gradients(&self.weights()).unwrap(),
        }
    }

    /// The trainable weights.
    pub(crate) fn weights(&self) -> Vec<Tensor> {
        self.variables.trainable_variables()
    }

    /// Sets the gradients to zero, and makes those that are not defined yet.
    pub(crate) fn zero_gradients(&self) {
        if self.weights().iter().any(|weight| !weight.grad().defined()) {
            self.loss(Road::Errors, &(0..ROWS)).unwrap().backward();
        }
        self.weights().iter_mut().for_each(Tensor::zero_grad);
    }

    pub(crate) fn gradients(&self) -> Vec<Tensor> {
        self.weights().iter().map(Tensor::grad).collect()
    }

    /// Variables that are neither trained nor constant: running means and variances.
    pub(crate) fn buffers(&self) -> Vec<Tensor> {
        let mut buffers: Vec<_> = self.variables.variables().into_iter().collect();
        buffers.retain(|(_, tensor)| !tensor.requires_grad());
        buffers.sort_by(|one, other| one.0.cmp(&other.0));
        buffers.into_iter().map(|(_, tensor)| tensor).collect()
    }

    /// The state that training changes in addition to the weights.
    pub(crate) fn state(&self) -> Vec<Tensor> {
        self.gradients().into_iter().chain(self.buffers()).collect()
    }

    /// Sets the buffers to their values in a new net.
    pub(crate) fn reset_buffers(&self) {
        for (name, buffer) in self.variables.variables() {
            if name.contains("running") {
                let _ = buffer.shallow_clone().fill_(if name.ends_with("var") { 1.0 } else { 0.0 });
            }
        }
    }

    /// Returns true if gradients depend on the other rows in a piece.
    pub(crate) fn mixes_rows(&self) -> bool {
        !self.buffers().is_empty() || self.is_random
    }
}

pub(crate) fn of_rows(tensor: &Tensor, rows: &Range<usize>) -> Tensor {
    tensor.narrow(0, size(rows.start), size(rows.len()))
}

fn f_linear(input: &Tensor, layer: &nn::Linear) -> Result<Tensor, TchError> {
    input.f_linear(&layer.ws, layer.bs.as_ref())
}

struct Perceptron([nn::Linear; 2]);

pub(crate) fn perceptron() -> Net {
    perceptron_of("perceptron", 32)
}

/// A perceptron so wide that libtorch splits its work between several threads.
pub(crate) fn wide_perceptron() -> Net {
    perceptron_of("wide perceptron", 4096)
}

fn perceptron_of(name: &'static str, width: i64) -> Net {
    Net::new(name, (&[16], &[4]), |path| {
        let linear = |name, from, to| nn::linear(path / name, from, to, nn::LinearConfig::default());
        Perceptron([linear("1", 16, width), linear("2", width, 4)])
    })
}

impl Layers for Perceptron {
    fn forward(&self, input: &Tensor, _: bool) -> Tensor {
        self.0[1].forward(&self.0[0].forward(input).relu())
    }

    fn f_forward(&self, input: &Tensor, _: bool) -> Result<Tensor, TchError> {
        f_linear(&f_linear(input, &self.0[0])?.f_relu()?, &self.0[1])
    }
}

struct Convolution {
    convolve: nn::Conv2D,
    norm: nn::BatchNorm,
    linear: nn::Linear,
}

pub(crate) fn convolution() -> Net {
    Net::new("convolution", (&[3, 8, 8], &[4]), |path| Convolution {
        convolve: nn::conv2d(path / "1", 3, 4, 3, nn::ConvConfig::default()),
        norm: nn::batch_norm2d(path / "2", 4, nn::BatchNormConfig::default()),
        linear: nn::linear(path / "3", 36, 4, nn::LinearConfig::default()),
    })
}

impl Layers for Convolution {
    fn forward(&self, input: &Tensor, train: bool) -> Tensor {
        let normal = self.norm.forward_t(&self.convolve.forward(input), train);
        self.linear.forward(&normal.relu().max_pool2d_default(2).flatten(1, -1))
    }

    fn f_forward(&self, input: &Tensor, train: bool) -> Result<Tensor, TchError> {
        let (layer, norm) = (&self.convolve, &self.norm);
        let convolved = input.f_conv2d(&layer.ws, layer.bs.as_ref(), 1, 0, 1, 1)?;
        let (mean, variance) = (Some(&norm.running_mean), Some(&norm.running_var));
        let (weight, bias) = (norm.ws.as_ref(), norm.bs.as_ref());
        let normal = convolved.f_batch_norm(weight, bias, mean, variance, train, 0.1, 1e-5, true)?;
        let pooled = normal.f_relu()?.f_max_pool2d(2, 2, 0, 1, false)?;
        f_linear(&pooled.f_flatten(1, -1)?, &self.linear)
    }
}

struct Lstm {
    lstm: nn::LSTM,
    weights: Vec<Tensor>,
}

/// A small net for training only: on a processor with AVX-512, plain `tch::nn::lstm` without gradients corrupts the
/// heap inside oneDNN from a batch of 16 with 16 hidden units on.
pub(crate) fn lstm() -> Net {
    Net::new("lstm", (&[5, 6], &[5, 8]), |path| {
        let lstm = nn::lstm(path, 6, 8, nn::RNNConfig::default());
        let weight = |name: &&str| path.get(name).unwrap();
        let weights =
            ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"].iter().map(weight).collect();
        Lstm { lstm, weights }
    })
}

impl Layers for Lstm {
    fn forward(&self, input: &Tensor, _: bool) -> Tensor {
        self.lstm.seq(input).0
    }

    fn f_forward(&self, input: &Tensor, train: bool) -> Result<Tensor, TchError> {
        let zeros = Tensor::f_zeros([1, input.size()[0], 8], ground::floats())?;
        let state = [zeros.f_view_as(&zeros)?, zeros];
        let weights: Vec<_> = self.weights.iter().map(Tensor::shallow_clone).collect();
        Ok(input.f_lstm(&state, &weights, true, 1, 0.0, train, false, true)?.0)
    }
}

/// Two-head attention over five tokens and a layer of four times the width. Both are normalized before, and added to
/// their input.
struct Transformer {
    norms: [nn::LayerNorm; 2],
    attend: nn::Linear,
    project: nn::Linear,
    widen: nn::Linear,
    narrow: nn::Linear,
    dropout: f64,
}

pub(crate) fn transformer(dropout: f64) -> Net {
    let net = Net::new("transformer", (&[5, 8], &[5, 8]), |path| {
        let linear = |name, from, to| nn::linear(path / name, from, to, nn::LinearConfig::default());
        let norm = |name| nn::layer_norm(path / name, vec![8], nn::LayerNormConfig::default());
        Transformer {
            norms: [norm("norm1"), norm("norm2")],
            attend: linear("attend", 8, 24),
            project: linear("project", 8, 8),
            widen: linear("widen", 8, 32),
            narrow: linear("narrow", 32, 8),
            dropout,
        }
    });
    Net { is_random: dropout > 0.0, ..net }
}

impl Layers for Transformer {
    fn forward(&self, input: &Tensor, train: bool) -> Tensor {
        let [queries, keys, values] = heads(&self.attend.forward(&self.norms[0].forward(input))).unwrap();
        let scores = (queries.matmul(&keys.transpose(-2, -1)) / 2.0).softmax(-1, Kind::Float);
        let attended = scores.matmul(&values).transpose(1, 2).flatten(2, -1);
        let middle = input + self.project.forward(&attended).dropout(self.dropout, train);
        let wide = self.widen.forward(&self.norms[1].forward(&middle)).gelu("none");
        &middle + self.narrow.forward(&wide).dropout(self.dropout, train)
    }

    fn f_forward(&self, input: &Tensor, train: bool) -> Result<Tensor, TchError> {
        let [queries, keys, values] = heads(&f_linear(&f_normal(input, &self.norms[0])?, &self.attend)?)?;
        let scores = queries.f_matmul(&keys.f_transpose(-2, -1)?)?.f_div_scalar(2.0)?;
        let attended = scores.f_softmax(-1, Kind::Float)?.f_matmul(&values)?;
        let attended = attended.f_transpose(1, 2)?.f_flatten(2, -1)?;
        let attended = f_linear(&attended, &self.project)?.f_dropout(self.dropout, train)?;
        let middle = input.f_add(&attended)?;
        let wide = f_linear(&f_normal(&middle, &self.norms[1])?, &self.widen)?.f_gelu("none")?;
        middle.f_add(&f_linear(&wide, &self.narrow)?.f_dropout(self.dropout, train)?)
    }
}

/// A layer in parallel to each block, so that two branches of a backward are ready at once.
struct Residual(Vec<[nn::Linear; 3]>);

pub(crate) fn residual() -> Net {
    Net::new("residual", (&[6], &[6]), |path| {
        let layers = |block: i64| {
            ["in", "out", "around"]
                .map(|name| nn::linear(path / block / name, 6, 6, nn::LinearConfig::default()))
        };
        Residual((0..5).map(layers).collect())
    })
}

impl Layers for Residual {
    fn forward(&self, input: &Tensor, _: bool) -> Tensor {
        let block = |input: Tensor, [one, two, around]: &[nn::Linear; 3]| {
            two.forward(&one.forward(&input).relu()) + around.forward(&input)
        };
        self.0.iter().fold(input.shallow_clone(), block)
    }

    fn f_forward(&self, input: &Tensor, _: bool) -> Result<Tensor, TchError> {
        let block = |input: Tensor, [one, two, around]: &[nn::Linear; 3]| {
            f_linear(&f_linear(&input, one)?.f_relu()?, two)?.f_add(&f_linear(&input, around)?)
        };
        self.0.iter().try_fold(input.shallow_clone(), block)
    }
}

fn f_normal(input: &Tensor, norm: &nn::LayerNorm) -> Result<Tensor, TchError> {
    input.f_layer_norm(8, norm.ws.as_ref(), norm.bs.as_ref(), 1e-5, false)
}

/// Queries, keys and values of each head: views.
fn heads(attended: &Tensor) -> Result<[Tensor; 3], TchError> {
    let rows = attended.size()[0];
    let split = attended.f_view([rows, 5, 3, 2, 4])?.f_permute([2, 0, 3, 1, 4])?;
    Ok([split.f_get(0)?, split.f_get(1)?, split.f_get(2)?])
}

/// Copies in place, because memory is short.
pub(crate) fn copy(from: &[Tensor], to: &[Tensor]) {
    let _off = tch::no_grad_guard();
    from.iter().zip(to).for_each(|(from, to)| to.shallow_clone().copy_(from));
}
