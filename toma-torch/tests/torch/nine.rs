//! Nine nets of the kinds that people train, each with a loss, small enough to run by the hundred.

use tch::nn::{self, Module as _, ModuleT as _, Path, RNN as _};
use tch::{Kind, Reduction, Tensor};

use crate::ground;

type Forward = Box<dyn Fn(&Tensor) -> Tensor>;

/// A name, the shape of a row, and the function that makes the layers.
type Recipe = (&'static str, &'static [i64], fn(&Path<'_>) -> Forward);

/// A net, its weights, and rows to learn from.
pub(crate) struct Learner {
    pub(crate) name: &'static str,
    pub(crate) variables: nn::VarStore,
    input: Tensor,
    forward: Forward,
}

impl Learner {
    /// Forward, a mean, and backward, on the first rows.
    pub(crate) fn step(&self, rows: usize) -> Tensor {
        let output = self.answer(rows);
        let loss = output.mse_loss(&output.zeros_like(), Reduction::Mean);
        loss.backward();
        loss
    }

    /// Returns the output for the first rows.
    pub(crate) fn answer(&self, rows: usize) -> Tensor {
        self.of(&self.first(rows))
    }

    /// Returns the output for these rows.
    pub(crate) fn of(&self, rows: &Tensor) -> Tensor {
        (self.forward)(rows)
    }

    pub(crate) fn first(&self, rows: usize) -> Tensor {
        self.input.narrow(0, 0, i64::try_from(rows).unwrap())
    }

    pub(crate) fn forget_gradients(&self) {
        let mut optimizer = nn::OptimizerConfig::build(nn::Sgd::default(), &self.variables, 0.1).unwrap();
        optimizer.zero_grad();
    }
}

pub(crate) const MOST_ROWS: i64 = 64;

/// Calls `use_net` with all nine nets, one at a time.
pub(crate) fn each(mut use_net: impl FnMut(&Learner)) {
    let nets: [Recipe; 9] = [
        ("perceptron", &[32], perceptron),
        ("residual convolutions", &[3, 12, 12], residual),
        ("convolutions", &[3, 12, 12], |path| convolutions(path, false)),
        ("convolutions with batch norm", &[3, 12, 12], |path| convolutions(path, true)),
        ("transformer", &[6, 16], |path| transformer(path, 0.0, false)),
        ("transformer with dropout", &[6, 16], |path| transformer(path, 0.1, false)),
        ("transformer with fused attention", &[6, 16], |path| transformer(path, 0.0, true)),
        ("lstm", &[24, 64], lstm),
        ("gru", &[24, 64], gru),
    ];
    for (name, row, forward) in nets {
        tch::manual_seed(3);
        let variables = nn::VarStore::new(ground::device());
        let forward = forward(&variables.root());
        let input = Tensor::randn([&[MOST_ROWS], row].concat(), ground::floats());
        use_net(&Learner { name, variables, input, forward });
    }
}

fn linear(path: &Path<'_>, name: &str, from: i64, to: i64) -> nn::Linear {
    nn::linear(path / name, from, to, nn::LinearConfig::default())
}

fn perceptron(path: &Path<'_>) -> Forward {
    let layers = [linear(path, "1", 32, 64), linear(path, "2", 64, 64), linear(path, "3", 64, 10)];
    Box::new(move |input| {
        layers[2]
            .forward(&layers[1].forward(&layers[0].forward(input).relu()).relu())
            .log_softmax(-1, Kind::Float)
    })
}

fn convolution(path: &Path<'_>, name: &str, from: i64, to: i64) -> nn::Conv2D {
    nn::conv2d(path / name, from, to, 3, nn::ConvConfig { padding: 1, ..Default::default() })
}

fn residual(path: &Path<'_>) -> Forward {
    let first = convolution(path, "in", 3, 8);
    let blocks: Vec<_> = (0..3)
        .map(|block| {
            [convolution(path, &format!("{block}a"), 8, 8), convolution(path, &format!("{block}b"), 8, 8)]
        })
        .collect();
    let last = linear(path, "out", 8, 4);
    Box::new(move |input| {
        let block =
            |x: Tensor, [one, two]: &[nn::Conv2D; 2]| (&x + two.forward(&one.forward(&x).relu())).relu();
        let features = blocks.iter().fold(first.forward(input), block);
        last.forward(&features.adaptive_avg_pool2d([1, 1]).flatten(1, -1))
    })
}

fn convolutions(path: &Path<'_>, with_norm: bool) -> Forward {
    let layers = [convolution(path, "1", 3, 8), convolution(path, "2", 8, 16)];
    let norms = [8, 16]
        .map(|width| nn::batch_norm2d(path / format!("norm{width}"), width, nn::BatchNormConfig::default()));
    let last = linear(path, "out", 16 * 9, 4);
    Box::new(move |input| {
        let mut x = input.shallow_clone();
        for (layer, norm) in layers.iter().zip(&norms) {
            x = layer.forward(&x);
            if with_norm {
                x = norm.forward_t(&x, true);
            }
            x = x.relu().max_pool2d_default(2);
        }
        last.forward(&x.flatten(1, -1))
    })
}

fn transformer(path: &Path<'_>, dropout: f64, fused: bool) -> Forward {
    let norm = |name| nn::layer_norm(path / name, vec![16], nn::LayerNormConfig::default());
    let norms = [norm("norm1"), norm("norm2")];
    let [attend, project] = [linear(path, "attend", 16, 48), linear(path, "project", 16, 16)];
    let [widen, narrow] = [linear(path, "widen", 16, 64), linear(path, "narrow", 64, 16)];
    Box::new(move |input| {
        let heads = attend.forward(&norms[0].forward(input)).view([-1, 6, 3, 2, 8]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|at| heads.get(at));
        let attended = if fused {
            Tensor::scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, false, None, false)
        } else {
            let scores = (q.matmul(&k.transpose(-2, -1)) / 8.0_f64.sqrt()).softmax(-1, Kind::Float);
            scores.dropout(dropout, true).matmul(&v)
        };
        let middle = input + project.forward(&attended.transpose(1, 2).flatten(2, -1)).dropout(dropout, true);
        let wide = widen.forward(&norms[1].forward(&middle)).gelu("none");
        &middle + narrow.forward(&wide).dropout(dropout, true)
    })
}

fn lstm(path: &Path<'_>) -> Forward {
    let lstm = nn::lstm(path, 64, 128, nn::RNNConfig::default());
    Box::new(move |input| lstm.seq(input).0)
}

fn gru(path: &Path<'_>) -> Forward {
    let gru = nn::gru(path, 64, 128, nn::RNNConfig::default());
    Box::new(move |input| gru.seq(input).0)
}
