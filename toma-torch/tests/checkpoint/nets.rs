//! Nets whose regions are hard to recompute.

use crate::ground;
use std::thread;

use tch::nn::{self, Module as _, Path, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::kit::Net;

fn randn(sizes: &[i64]) -> Tensor {
    Tensor::randn(sizes, ground::floats())
}

fn store() -> VarStore {
    tch::manual_seed(1);
    VarStore::new(ground::device())
}

fn conv(p: Path<'_>, from: i64, to: i64) -> nn::Conv2D {
    nn::conv2d(p, from, to, 3, nn::ConvConfig { padding: 1, ..Default::default() })
}

pub(crate) fn linear(p: Path<'_>, from: i64, to: i64) -> nn::Linear {
    nn::linear(p, from, to, nn::LinearConfig::default())
}

/// Residual blocks with batch norm, dropout and operators in place.
pub(crate) fn residual() -> Net {
    let vs = store();
    let p = vs.root();
    let stem = conv(&p / "stem", 3, 8);
    let blocks = (0..4).fold(checkpoint::seq_t(), |blocks, at| {
        let p = &p / at;
        let (first, second) = (conv(&p / "a", 8, 8), conv(&p / "b", 8, 8));
        let norm = |name| nn::batch_norm2d(&p / name, 8, nn::BatchNormConfig::default());
        let norms = [norm("x"), norm("y")];
        blocks.add_fn_t(move |x, train| {
            let y = x.apply(&first).apply_t(&norms[0], train).relu_().dropout(0.2, train);
            (y.apply(&second).apply_t(&norms[1], train) + x).relu_()
        })
    });
    let head = linear(&p / "head", 8, 5);
    let images = randn(&[4, 3, 12, 12]);
    Net::new("residual", vs, move || {
        images.apply(&stem).apply_t(&blocks, true).adaptive_avg_pool2d([1, 1]).flatten(1, -1).apply(&head)
    })
}

/// Six small stages with batch norm and dropout.
pub(crate) fn small() -> Net {
    let vs = store();
    let p = vs.root();
    let layers = (0..6).fold(checkpoint::seq_t(), |layers, at| {
        let (p, config) = (&p / at, nn::BatchNormConfig::default());
        let (linear, norm) = (linear(&p / "a", 4, 4), nn::batch_norm1d(&p / "n", 4, config));
        layers.add_fn_t(move |x, train| x.apply(&linear).apply_t(&norm, train).tanh().dropout(0.2, train) + x)
    });
    let input = randn(&[5, 4]);
    Net::new("small", vs, move || input.apply_t(&layers, true))
}

/// Residual blocks without marks: stages end where few bytes live.
pub(crate) fn unmarked() -> Net {
    let vs = store();
    let p = vs.root();
    let layers: Vec<_> = (0..6).map(|at| (conv(&p / at / "a", 4, 16), conv(&p / at / "b", 16, 4))).collect();
    let images = randn(&[4, 4, 10, 10]);
    Net::new("unmarked", vs, move || {
        let mut x = images.shallow_clone();
        for (wide, narrow) in &layers {
            let y = x.apply(wide).gelu("none");
            x = (y.apply(narrow) + x).tanh();
        }
        x
    })
}

pub(crate) fn recurrent() -> Net {
    let vs = store();
    let p = vs.root();
    let config = nn::RNNConfig { num_layers: 2, dropout: 0.3, train: true, ..Default::default() };
    let (lstm, gru) = (nn::lstm(&p / "lstm", 6, 8, config), nn::gru(&p / "gru", 8, 5, config));
    let words = randn(&[3, 7, 6]);
    Net::new("recurrent", vs, move || {
        use nn::RNN as _;
        let (hidden, _) = lstm.seq(&words);
        checkpoint::cut();
        let (hidden, state) = gru.seq(&hidden);
        checkpoint::cut();
        hidden.sum_dim_intlist([1].as_slice(), false, Kind::Float) + state.value().sum(Kind::Float)
    })
}

/// Attention with dropout and layer norm; a weight that is used twice, and a value used by a later stage.
pub(crate) fn transformer() -> Net {
    let vs = store();
    let root = vs.root();
    let table = nn::embedding(&root / "table", 20, 16, nn::EmbeddingConfig::default());
    let blocks: Vec<_> = (0..3)
        .map(|at| {
            let block = &root / at;
            let norm = nn::layer_norm(&block / "norm", vec![16], nn::LayerNormConfig::default());
            (norm, linear(&block / "qkv", 16, 48), linear(&block / "out", 16, 16))
        })
        .collect();
    let tokens = Tensor::randint(20, [2, 9], (Kind::Int64, ground::device()));
    Net::new("transformer", vs, move || {
        let embedded = table.forward(&tokens);
        let mut x = embedded.shallow_clone();
        for (norm, qkv, out) in &blocks {
            checkpoint::cut();
            let heads = x.apply(norm).apply(qkv).reshape([2, 9, 3, 2, 8]).permute([2, 0, 3, 1, 4]);
            let heads = heads.unbind(0);
            let [q, k, v] = [0, 1, 2].map(|at| &heads[at]);
            let attended =
                Tensor::scaled_dot_product_attention(q, k, v, None::<Tensor>, 0.1, false, None, false);
            x = attended.transpose(1, 2).reshape([2, 9, 16]).apply(out).dropout(0.1, true) + x;
        }
        checkpoint::cut();
        (x + embedded).matmul(&table.ws.transpose(0, 1))
    })
}

/// Lists of tensors, indices, and random numbers from every kind of operator.
pub(crate) fn pieces() -> Net {
    let vs = store();
    let p = vs.root();
    let (first, second) = (linear(&p / "a", 8, 8), linear(&p / "b", 8, 8));
    let input = randn(&[6, 8]);
    let index = Tensor::from_slice(&[0_i64, 2, 2, 5]).to_device(ground::device());
    Net::new("pieces", vs, move || {
        let halves = input.apply(&first).feature_dropout(0.3, true).split(4, 1);
        checkpoint::cut();
        let noise = Tensor::randn([6, 8], ground::floats()) + Tensor::rand([1], ground::floats());
        let joined = Tensor::cat(&[&halves[1], &halves[0]], 1) * noise;
        let _ = joined.numel();
        checkpoint::cut();
        let chosen = joined.index(&[Some(index.shallow_clone())]).apply(&second);
        let mask = chosen.zeros_like().bernoulli_float_(0.5);
        checkpoint::cut();
        let scale = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0]).to_device(ground::device()).reshape([4, 1]);
        (chosen * mask * scale).sigmoid()
    })
}

/// Writes in place: through views, into a buffer made in the region, and into the output of the stage before.
pub(crate) fn in_place() -> Net {
    let vs = store();
    let p = vs.root();
    let (first, second) = (linear(&p / "a", 8, 8), linear(&p / "b", 8, 8));
    let input = randn(&[6, 8]);
    Net::new("in place", vs, move || {
        let buffer = Tensor::zeros([6, 8], ground::floats());
        buffer.narrow(0, 0, 3).copy_(&input.narrow(0, 0, 3).apply(&first).tanh());
        checkpoint::cut();
        buffer.narrow(0, 3, 3).copy_(&input.narrow(0, 3, 3).apply(&second).tanh());
        checkpoint::cut();
        let mut value = buffer.apply(&first) + 1.0;
        checkpoint::cut();
        let raised = value.exp();
        let _ = value.narrow(1, 2, 3).fill_(0.25);
        checkpoint::cut();
        let _ = value.transpose_(0, 1);
        let halved = raised.apply(&second).sigmoid_() * value.tr();
        checkpoint::cut();
        halved.exp()
    })
}

/// Writes to memory from before the region.
pub(crate) fn outside() -> Net {
    let vs = store();
    let p = vs.root();
    let (first, second) = (linear(&p / "a", 8, 8), linear(&p / "b", 8, 8));
    let average = p.zeros_no_train("average", &[8]);
    let count = p.zeros_no_train("count", &[1]);
    let input = randn(&[6, 8]);
    Net::new("outside", vs, move || {
        let (mut average, mut count) = (average.shallow_clone(), count.shallow_clone());
        let hidden = input.apply(&first).tanh() * (&average + 1.0);
        checkpoint::cut();
        let hidden = hidden.apply(&second).sigmoid();
        tch::no_grad(|| {
            let _ = average.lerp_(&hidden.mean_dim([0].as_slice(), false, Kind::Float), 0.5);
            let _ = count.g_add_scalar_(1.0);
        });
        checkpoint::cut();
        let hidden = (&hidden * &average).tanh().apply(&first);
        checkpoint::cut();
        hidden.exp() * &count
    })
}

/// Parts without gradients, a backward inside the region, a leaf made inside, and a tensor of another thread.
pub(crate) fn graphs() -> Net {
    let vs = store();
    let p = vs.root();
    let (first, second) = (linear(&p / "a", 8, 8), linear(&p / "b", 8, 8));
    let input = randn(&[6, 8]);
    Net::new("graphs", vs, move || {
        let hidden = input.apply(&first).tanh();
        let frozen = tch::no_grad(|| hidden.apply(&second).softmax(-1, Kind::Float));
        checkpoint::cut();
        let leaf = (&frozen * 2.0).detach().set_requires_grad(true);
        let slope = Tensor::run_backward(&[leaf.tanh().square().sum(Kind::Float)], &[&leaf], false, false);
        checkpoint::cut();
        let other = thread::spawn(|| Tensor::ones([6, 8], ground::floats()) * 3.0).join().unwrap();
        let hidden = (hidden * &slope[0] + other).sigmoid();
        checkpoint::cut();
        let energy = hidden.apply(&second).exp().sum(Kind::Float);
        let force = Tensor::run_backward(&[&energy], &[&hidden], true, true);
        (&force[0] * &hidden).tanh()
    })
}

/// A region inside a region, a module used twice, an input used twice, several outputs.
pub(crate) fn nested() -> Net {
    let vs = store();
    let p = vs.root();
    let shared = linear(&p / "a", 8, 8);
    let inner =
        checkpoint::seq().add(linear(&p / "b", 8, 8)).add_fn(Tensor::tanh).add(linear(&p / "c", 8, 8));
    let empty = checkpoint::seq_t();
    let input = randn(&[6, 8]);
    Net::new("nested", vs, move || {
        let (left, right) = checkpoint::region(|| {
            let hidden = input.apply(&shared).sigmoid();
            (hidden.apply(&inner), hidden.apply_t(&empty, true).exp())
        });
        let again = left.apply(&shared).apply(&inner);
        checkpoint::cut();
        (again * right + &input).tanh()
    })
}

pub(crate) fn all() -> Vec<Net> {
    vec![
        residual(),
        small(),
        unmarked(),
        recurrent(),
        transformer(),
        pieces(),
        in_place(),
        outside(),
        graphs(),
        nested(),
    ]
}
