//! The scratch of operators is predicted: dry and real peaks of each operator with its backward.

use tch::{Kind, Reduction, Tensor};
use toma_torch::{dry_run, record};
use toma_trace::{Place, Trace};

use crate::ground;
use crate::stage::alone;

const NONE: Option<&Tensor> = None;

/// Arguments of operators, each with gradients except for the targets.
struct Inputs {
    rows: Tensor,
    targets: Tensor,
    labels: Tensor,
    texts: Tensor,
    images: Tensor,
    volumes: Tensor,
    four: Tensor,
    /// Kernels of one, two and three dims.
    kernels: [Tensor; 3],
}

impl Inputs {
    fn new() -> Self {
        tch::manual_seed(9);
        let between = |sizes: &[i64]| Tensor::rand(sizes, ground::floats()) * 0.8 + 0.1;
        let weight = |sizes: &[i64]| between(sizes).set_requires_grad(true);
        Self {
            rows: weight(&[8, 64]),
            targets: between(&[8, 64]),
            labels: Tensor::zeros([8], (Kind::Int64, ground::device())),
            texts: weight(&[8, 4, 64]),
            images: weight(&[8, 4, 16, 16]),
            volumes: weight(&[8, 4, 8, 8, 8]),
            four: weight(&[4]),
            kernels: [weight(&[4, 4, 3]), weight(&[4, 4, 3, 3]), weight(&[4, 4, 3, 3, 3])],
        }
    }
}

type Row = (&'static str, fn(&Inputs) -> Tensor);

const OPERATORS: [Row; 53] = [
    ("mse_loss", |i| i.rows.mse_loss(&i.targets, Reduction::Mean)),
    ("l1_loss", |i| i.rows.l1_loss(&i.targets, Reduction::Mean)),
    ("smooth_l1_loss", |i| i.rows.smooth_l1_loss(&i.targets, Reduction::Mean, 1.0)),
    ("huber_loss", |i| i.rows.huber_loss(&i.targets, Reduction::Sum, 1.0)),
    ("kl_div", |i| i.rows.kl_div(&i.targets, Reduction::Mean, false)),
    ("binary_cross_entropy", |i| i.rows.binary_cross_entropy(&i.targets, NONE, Reduction::Mean)),
    ("binary_cross_entropy_with_logits", |i| {
        i.rows.binary_cross_entropy_with_logits(&i.targets, NONE, NONE, Reduction::Mean)
    }),
    ("cross_entropy", |i| i.rows.cross_entropy_for_logits(&i.labels)),
    ("softmax", |i| i.rows.softmax(-1, None).square()),
    ("softmax along the batch", |i| i.rows.softmax(0, None).square()),
    ("log_softmax of channels", |i| i.images.log_softmax(1, None).square()),
    ("elu", |i| i.rows.elu().square()),
    ("glu", |i| i.rows.glu(-1).square()),
    ("softplus", |i| i.rows.softplus().square()),
    ("silu", |i| i.rows.silu().square()),
    ("gelu", |i| i.rows.gelu("tanh").square()),
    ("hardswish", |i| i.rows.hardswish().square()),
    ("cumsum", |i| i.rows.cumsum(1, None).square()),
    ("topk", |i| i.rows.topk(3, 1, true, true).0.square()),
    ("index_select", |i| i.rows.index_select(1, &i.labels).square()),
    ("gather", |i| i.rows.gather(1, &i.labels.unsqueeze(1), false).square()),
    ("where", |i| i.rows.where_self(&i.rows.gt(0.5), &i.targets).square()),
    ("cat", |i| Tensor::cat(&[&i.rows, &i.targets], 1).square()),
    ("norm", |i| i.rows.norm()),
    ("norm of each row", |i| i.rows.norm_scalaropt_dim(2.0, 1_i64, true).square()),
    ("var of each row", |i| i.rows.var_dim(1_i64, true, true).square()),
    ("logsumexp", |i| i.rows.logsumexp([1_i64].as_slice(), false).square()),
    ("max of each row", |i| i.rows.max_dim(1, false).0.square()),
    ("layer_norm", |i| i.texts.layer_norm([64], NONE, NONE, 1e-5, false).square()),
    ("layer_norm of a view", |i| i.texts.transpose(1, 2).layer_norm([4], NONE, NONE, 1e-5, false).square()),
    ("group_norm", |i| i.images.group_norm(2, Some(&i.four), NONE, 1e-5, false).square()),
    ("batch_norm", |i| i.images.batch_norm(Some(&i.four), NONE, NONE, NONE, true, 0.1, 1e-5, false).square()),
    ("instance_norm", |i| {
        i.images.instance_norm(Some(&i.four), Some(&i.four), NONE, NONE, true, 0.1, 1e-5, false).square()
    }),
    ("conv1d", |i| i.texts.conv1d(&i.kernels[0], NONE, 1, 1, 1, 1).square()),
    ("conv2d", |i| i.images.conv2d(&i.kernels[1], NONE, 1, 1, 1, 1).square()),
    ("conv2d of one channel each", |i| {
        i.images.conv2d(&i.kernels[1].narrow(1, 0, 1), NONE, 1, 1, 1, 4).square()
    }),
    ("conv3d", |i| i.volumes.conv3d(&i.kernels[2], NONE, 1, 1, 1, 1).square()),
    ("conv_transpose2d", |i| i.images.conv_transpose2d(&i.kernels[1], NONE, 2, 1, 1, 1, 1).square()),
    ("max_pool1d", |i| i.texts.max_pool1d(2, 2, 0, 1, false).square()),
    ("max_pool2d", |i| i.images.max_pool2d_default(2).square()),
    ("max_pool3d", |i| i.volumes.max_pool3d(2, 2, 0, 1, false).square()),
    ("avg_pool2d", |i| i.images.avg_pool2d_default(2).square()),
    ("adaptive_max_pool2d", |i| i.images.adaptive_max_pool2d([3, 3]).0.square()),
    ("adaptive_avg_pool2d", |i| i.images.adaptive_avg_pool2d([3, 3]).square()),
    ("upsample_bilinear2d", |i| i.images.upsample_bilinear2d([32, 32], false, None, None).square()),
    ("upsample_nearest2d", |i| i.images.upsample_nearest2d([32, 32], None, None).square()),
    ("pixel_shuffle", |i| i.images.pixel_shuffle(2).square()),
    ("pad by reflection", |i| i.images.pad([1, 1, 1, 1], "reflect", None).square()),
    ("feature_dropout", |i| i.images.feature_dropout(0.5, true).square()),
    ("repeat", |i| i.rows.repeat([4, 2]).square()),
    ("einsum", |i| Tensor::einsum("bcs,bds->bcd", &[&i.texts, &i.texts], None::<i64>).square()),
    ("cdist", |i| Tensor::cdist(&i.texts, &i.texts, 2.0, None).square()),
    ("linear of a view", |i| i.texts.transpose(1, 2).linear(&i.kernels[0].select(2, 0), NONE).square()),
];

/// The peak bytes beyond those before.
pub(crate) fn peak(trace: &Trace) -> u64 {
    let live = trace.live(&Place::HOST);
    live.peak().bytes - live.before()
}

#[test]
fn dry_and_real_peaks_of_operators_are_the_same() {
    let _alone = alone();
    for (name, operator) in OPERATORS {
        let inputs = Inputs::new();
        let step = || {
            let output = operator(&inputs);
            let loss = if output.dim() == 0 { output } else { output.exp().sum(None) };
            loss.backward();
        };
        let dry = peak(&dry_run(step).unwrap());
        let real = peak(&record(step));
        assert!(dry.abs_diff(real) * 200 <= real, "{name}: {dry} bytes dry, {real} real");
    }
}
