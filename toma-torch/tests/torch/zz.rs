use crate::stage::{FLOATS, alone};
use tch::{Kind, Reduction, Tensor};
use toma_torch::{dry_run, record};
const NONE: Option<&Tensor> = None;

#[test]
fn zz_inner() {
    let _alone = alone();
    let place = toma_trace::Place::HOST;
    let tops = |t: &toma_trace::Trace| -> Vec<(String, u64)> {
        let live = t.live(&place);
        t.operators()
            .map(|(_, op)| {
                let (b, e) = (op.interval.begin, op.interval.end);
                let top = live
                    .steps()
                    .iter()
                    .filter(|(t, _)| *t >= b && *t <= e)
                    .map(|(_, x)| *x)
                    .max()
                    .unwrap_or(0)
                    .max(live.at(b));
                (op.name.clone(), top - live.at(b))
            })
            .collect()
    };
    let peak = |t: &toma_trace::Trace| t.live(&place).peak().bytes - t.live(&place).before();
    let x = (Tensor::rand([8, 64], FLOATS) * 0.8 + 0.1).set_requires_grad(true);
    let y = Tensor::rand([8, 64], FLOATS) * 0.8 + 0.1;
    let img = Tensor::rand([8, 4, 16, 16], FLOATS).set_requires_grad(true);
    let seq = Tensor::rand([8, 4, 64], FLOATS).set_requires_grad(true);
    let vol = Tensor::rand([8, 4, 8, 8, 8], FLOATS).set_requires_grad(true);
    let w2 = Tensor::rand([4, 4, 3, 3], FLOATS).set_requires_grad(true);
    let w1 = Tensor::rand([4, 4, 3], FLOATS).set_requires_grad(true);
    let w3 = Tensor::rand([4, 4, 3, 3, 3], FLOATS).set_requires_grad(true);
    let four = Tensor::rand([4], FLOATS).set_requires_grad(true);
    let labels = Tensor::zeros([8], (Kind::Int64, tch::Device::Cpu));
    let index = Tensor::zeros([8, 64], (Kind::Int64, tch::Device::Cpu));
    let rows: Vec<(&str, Box<dyn Fn() -> Tensor>)> = vec![
        ("mse_loss", Box::new(|| x.mse_loss(&y, Reduction::Mean))),
        ("l1_loss", Box::new(|| x.l1_loss(&y, Reduction::Mean))),
        ("smooth_l1", Box::new(|| x.smooth_l1_loss(&y, Reduction::Mean, 1.0))),
        ("huber", Box::new(|| x.huber_loss(&y, Reduction::Mean, 1.0))),
        ("bce", Box::new(|| x.binary_cross_entropy::<Tensor>(&y, None, Reduction::Mean))),
        (
            "bce_logits",
            Box::new(|| x.binary_cross_entropy_with_logits::<Tensor>(&y, None, None, Reduction::Mean)),
        ),
        ("kl_div", Box::new(|| x.kl_div(&y, Reduction::Mean, false))),
        ("ce", Box::new(|| x.cross_entropy_for_logits(&labels))),
        ("ce smooth", Box::new(|| x.cross_entropy_loss::<Tensor>(&labels, None, Reduction::Mean, -100, 0.1))),
        ("softmax", Box::new(|| x.softmax(-1, None).square())),
        ("softmax0", Box::new(|| x.softmax(0, None).square())),
        ("log_softmax1 of 4", Box::new(|| img.log_softmax(1, None).square())),
        ("elu", Box::new(|| x.elu().square())),
        ("softplus", Box::new(|| x.softplus().square())),
        ("glu", Box::new(|| x.glu(-1).square())),
        ("prelu", Box::new(|| x.prelu(&four.get(0).unsqueeze(0)).square())),
        ("silu", Box::new(|| x.silu().square())),
        ("mish", Box::new(|| x.mish().square())),
        ("hardswish", Box::new(|| x.hardswish().square())),
        ("gelu", Box::new(|| x.gelu("tanh").square())),
        ("cumsum", Box::new(|| x.cumsum(1, None).square())),
        ("sort", Box::new(|| x.sort(1, true).0.square())),
        ("topk", Box::new(|| x.topk(3, 1, true, true).0.square())),
        ("gather", Box::new(|| x.gather(1, &index, false).square())),
        ("scatter_add", Box::new(|| x.scatter_add(1, &index, &y).square())),
        ("index_select", Box::new(|| x.index_select(1, &labels).square())),
        ("norm", Box::new(|| x.norm())),
        ("norm dim", Box::new(|| x.norm_scalaropt_dim(2.0, 1_i64, true).square())),
        ("var", Box::new(|| x.var_dim(1_i64, true, true).square())),
        ("logsumexp", Box::new(|| x.logsumexp([1_i64].as_slice(), false).square())),
        ("prod", Box::new(|| x.prod_dim_int(1, false, None).square())),
        ("max dim", Box::new(|| x.max_dim(1, false).0.square())),
        ("mean", Box::new(|| x.mean(None))),
        ("sum dim", Box::new(|| x.sum_dim_intlist(1_i64, false, None).square())),
        ("group_norm", Box::new(|| img.group_norm(2, Some(&four), Some(&four), 1e-5, false).square())),
        (
            "instance_norm",
            Box::new(|| {
                img.instance_norm(Some(&four), Some(&four), NONE, NONE, true, 0.1, 1e-5, false).square()
            }),
        ),
        (
            "batch_norm",
            Box::new(|| {
                img.batch_norm(Some(&four), Some(&four), NONE, NONE, true, 0.1, 1e-5, false).square()
            }),
        ),
        ("conv1d", Box::new(|| seq.conv1d(&w1, NONE, 1, 1, 1, 1).square())),
        ("conv2d", Box::new(|| img.conv2d(&w2, NONE, 1, 1, 1, 1).square())),
        ("conv3d", Box::new(|| vol.conv3d(&w3, NONE, 1, 1, 1, 1).square())),
        ("conv_t", Box::new(|| img.conv_transpose2d(&w2, NONE, 2, 1, 1, 1, 1).square())),
        ("max_pool2d", Box::new(|| img.max_pool2d_default(2).square())),
        ("max_pool1d", Box::new(|| seq.max_pool1d(2, 2, 0, 1, false).square())),
        ("max_pool3d", Box::new(|| vol.max_pool3d(2, 2, 0, 1, false).square())),
        ("avg_pool2d", Box::new(|| img.avg_pool2d_default(2).square())),
        ("adaptive_max", Box::new(|| img.adaptive_max_pool2d([3, 3]).0.square())),
        ("adaptive_avg1", Box::new(|| img.adaptive_avg_pool2d([1, 1]).square())),
        ("adaptive_avg3", Box::new(|| img.adaptive_avg_pool2d([3, 3]).square())),
        ("upsample bilinear", Box::new(|| img.upsample_bilinear2d([32, 32], false, None, None).square())),
        ("upsample nearest", Box::new(|| img.upsample_nearest2d([32, 32], None, None).square())),
        ("pixel_shuffle", Box::new(|| img.pixel_shuffle(2).square())),
        ("pad reflect", Box::new(|| img.pad([1, 1, 1, 1], "reflect", None).square())),
        ("einsum", Box::new(|| Tensor::einsum("bcs,bds->bcd", &[&seq, &seq], None::<i64>).square())),
        ("cdist", Box::new(|| Tensor::cdist(&seq, &seq, 2.0, None).square())),
        ("bmm t", Box::new(|| seq.matmul(&seq.transpose(1, 2)).square())),
        ("layer_norm", Box::new(|| seq.layer_norm([64], NONE, NONE, 1e-5, false).square())),
        ("layer_norm t", Box::new(|| seq.transpose(1, 2).layer_norm([4], NONE, NONE, 1e-5, false).square())),
        ("dropout2d", Box::new(|| img.feature_dropout(0.5, true).square())),
        ("where", Box::new(|| x.where_self(&x.gt(0.5), &y).square())),
        ("cat", Box::new(|| Tensor::cat(&[&x, &y], 1).square())),
        ("channels_last conv", Box::new(|| img.contiguous().conv2d(&w2, NONE, 1, 1, 1, 1).square())),
        ("linear of 3d", Box::new(|| seq.linear(&Tensor::ones([32, 64], FLOATS), NONE).square())),
        (
            "linear of transposed",
            Box::new(|| seq.transpose(1, 2).linear(&Tensor::ones([32, 4], FLOATS), NONE).square()),
        ),
        ("fft", Box::new(|| x.fft_rfft(None, -1, "backward").abs().square())),
        (
            "nll 2d",
            Box::new(|| {
                img.log_softmax(1, None).nll_loss2d::<Tensor>(
                    &Tensor::zeros([8, 16, 16], (Kind::Int64, tch::Device::Cpu)),
                    None,
                    Reduction::Mean,
                    -100,
                )
            }),
        ),
    ];
    for (name, op) in &rows {
        let step = || {
            let v = op();
            if v.dim() == 0 { v } else { (&v * 1.0).exp().sum(None) }.backward()
        };
        let clear = || {
            for t in [&x, &img, &seq, &vol, &w1, &w2, &w3, &four] {
                let mut t = t.shallow_clone();
                if t.grad().defined() {
                    t.zero_grad();
                }
            }
        };
        clear();
        step();
        clear();
        let dry = match crate::stage::caught(|| dry_run(step)) {
            Ok(Ok(d)) => d,
            Ok(Err(e)) => {
                println!("{name}: DRY ERR {e}");
                continue;
            }
            Err(t) => {
                println!("{name}: PANIC {}", &t[..150.min(t.len())]);
                continue;
            }
        };
        let real = record(step);
        let (dp, rp) = (peak(&dry), peak(&real));
        if dp + rp / 200 < rp || dp > rp + rp / 100 {
            println!("{name}: PEAK dry {dp} real {rp}");
        }
        let (d, r) = (tops(&dry), tops(&real));
        if d.len() != r.len() {
            println!("{name}: {} and {} leaves", d.len(), r.len());
        }
        for (d, r) in d.iter().zip(&r) {
            if d.0 != r.0 {
                println!("{name}: LEAF {} {}", d.0, r.0);
                break;
            }
            if d.1.abs_diff(r.1) > 16 {
                println!("{name}: {} dry {} real {}", d.0, d.1, r.1);
            }
        }
    }
}
