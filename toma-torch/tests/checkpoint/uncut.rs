//! Regions without a `cut()`: their stages take hardly more bytes than layers that the program marks.

use tch::nn::{self, Module as _, Path, VarStore};
use tch::{Kind, Tensor};
use toma_torch::checkpoint;

use crate::ground::{self, peak_of};
use crate::kit::{Net, alone};
use crate::nets::linear;

/// A part of a net that a program would mark as a layer.
type Block = Box<dyn Fn(&Tensor) -> Tensor + Send>;

/// Blocks with the input of the first.
type Blocks = (Tensor, Vec<Block>);

/// Blocks of GPT: norms stand before attention and the wide layers, or after them.
fn transformer(blocks: i64, is_before: bool, vs: &VarStore) -> Blocks {
    const SIZE: i64 = 32;
    let block = |at| -> Block {
        let p = &vs.root() / at;
        let [qkv, out, wide, narrow] = [("qkv", 1, 3), ("out", 1, 1), ("wide", 1, 4), ("narrow", 4, 1)]
            .map(|(name, from, to)| linear(&p / name, from * SIZE, to * SIZE));
        let norms = ["first", "second"]
            .map(|name| nn::layer_norm(&p / name, vec![SIZE], nn::LayerNormConfig::default()));
        let attend = move |x: &Tensor| attention(&x.apply(&qkv), SIZE).apply(&out);
        let widen = move |x: &Tensor| x.apply(&wide).gelu("none").apply(&narrow);
        if is_before {
            return Box::new(move |x| {
                let x = attend(&x.apply(&norms[0])) + x;
                widen(&x.apply(&norms[1])) + x
            });
        }
        Box::new(move |x| {
            let x = (attend(x) + x).apply(&norms[0]);
            (widen(&x) + x).apply(&norms[1])
        })
    };
    (Tensor::randn([4, 16, SIZE], ground::floats()), (0..blocks).map(block).collect())
}

fn attention(joined: &Tensor, size: i64) -> Tensor {
    let (rows, words) = (joined.size()[0], joined.size()[1]);
    let heads = joined.reshape([rows, words, 3, 4, size / 4]).permute([2, 0, 3, 1, 4]).unbind(0);
    let scores = heads[0].matmul(&heads[1].transpose(-2, -1)) * 0.18;
    let attended = scores.softmax(-1, Kind::Float).matmul(&heads[2]);
    attended.transpose(1, 2).reshape([rows, words, size])
}

fn closures(vs: &VarStore) -> Blocks {
    let block = |at| -> Block {
        let [a, b] = ["a", "b"].map(|name| (vs.root() / at).randn_standard(name, &[32, 32]));
        Box::new(move |x| x.matmul(&a).relu().matmul(&b))
    };
    (Tensor::randn([64, 32], ground::floats()), (0..6).map(block).collect())
}

/// Linear layers, each with its own activation.
fn perceptron(vs: &VarStore) -> Blocks {
    let block = |at| -> Block {
        let linear = linear(vs.root() / at, 32, 32);
        Box::new(move |x| x.apply(&linear).tanh())
    };
    (Tensor::randn([128, 32], ground::floats()), (0..12).map(block).collect())
}

fn conv(p: Path<'_>, [from, to]: [i64; 2], size: i64, stride: i64) -> nn::Conv2D {
    nn::conv2d(
        p,
        from,
        to,
        size,
        nn::ConvConfig { padding: size / 2, stride, bias: false, ..Default::default() },
    )
}

fn norm(p: Path<'_>, channels: i64) -> nn::BatchNorm {
    nn::batch_norm2d(p, channels, nn::BatchNormConfig::default())
}

/// ResNet-50 with a quarter of its channels.
fn resnet50(vs: &VarStore) -> Blocks {
    let mut blocks = Vec::new();
    let mut channels = 16;
    for (group, count) in (0..).zip([3, 4, 6, 3]) {
        for at in 0..count {
            let stride = if group > 0 && at == 0 { 2 } else { 1 };
            let (p, sizes) = (vs.root() / group / at, [channels, 16 << group, 64 << group]);
            blocks.push(bottleneck(&p, sizes, stride, at == 0));
            channels = 64 << group;
        }
    }
    (Tensor::randn([2, 16, 16, 16], ground::floats()), blocks)
}

fn bottleneck(p: &Path<'_>, [from, width, to]: [i64; 3], stride: i64, is_first: bool) -> Block {
    let first = (conv(p / "a", [from, width], 1, 1), norm(p / "na", width));
    let second = (conv(p / "b", [width, width], 3, stride), norm(p / "nb", width));
    let third = (conv(p / "c", [width, to], 1, 1), norm(p / "nc", to));
    let around = is_first.then(|| (conv(p / "d", [from, to], 1, stride), norm(p / "nd", to)));
    let apply = |x: &Tensor, (conv, norm): &(nn::Conv2D, nn::BatchNorm)| x.apply(conv).apply_t(norm, true);
    Box::new(move |x| {
        let y = apply(&apply(&apply(x, &first).relu(), &second).relu(), &third);
        let x = around.as_ref().map_or_else(|| x.shallow_clone(), |around| apply(x, around));
        (x + y).relu()
    })
}

/// DenseNet-121 with a quarter of its channels.
fn densenet121(vs: &VarStore) -> Blocks {
    const GROWTH: i64 = 8;
    let mut blocks: Vec<Block> = Vec::new();
    let mut channels = 16;
    for (group, count) in (0..).zip([6, 12, 24, 16]) {
        for at in 0..count {
            blocks.push(dense(&(vs.root() / group / at), channels, GROWTH));
            channels += GROWTH;
        }
        if group < 3 {
            let p = vs.root() / group / "narrow";
            let narrow = (norm(&p / "n", channels), conv(&p / "c", [channels, channels / 2], 1, 1));
            blocks.push(Box::new(move |x| {
                x.apply_t(&narrow.0, true).relu().apply(&narrow.1).avg_pool2d_default(2)
            }));
            channels /= 2;
        }
    }
    (Tensor::randn([2, 16, 16, 16], ground::floats()), blocks)
}

fn dense(p: &Path<'_>, channels: i64, growth: i64) -> Block {
    let norms = [norm(p / "na", channels), norm(p / "nb", 4 * growth)];
    let convs = [conv(p / "a", [channels, 4 * growth], 1, 1), conv(p / "b", [4 * growth, growth], 3, 1)];
    Box::new(move |x| {
        let y = x.apply_t(&norms[0], true).relu().apply(&convs[0]);
        let y = y.apply_t(&norms[1], true).relu().apply(&convs[1]);
        Tensor::cat(&[x, &y], 1)
    })
}

/// An LSTM over forty steps, which ends a stage after each step with `cuts`.
fn lstm(vs: &VarStore, cuts: bool) -> Forward {
    const SIZE: i64 = 32;
    let p = vs.root();
    let [input, hidden] = ["input", "hidden"].map(|name| linear(&p / name, SIZE, 4 * SIZE));
    let words = Tensor::randn([40, 16, SIZE], ground::floats());
    Box::new(move || {
        let [mut h, mut c] = [0, 1].map(|at| words.get(at).tanh());
        for at in 0..40 {
            let gates = (words.get(at).apply(&input) + h.apply(&hidden)).chunk(4, 1);
            c = gates[0].sigmoid() * c + gates[1].sigmoid() * gates[2].tanh();
            h = gates[3].sigmoid() * c.tanh();
            cut(cuts);
        }
        h
    })
}

fn cut(cuts: bool) {
    if cuts {
        checkpoint::cut();
    }
}

/// A U-Net, which ends a stage after each pair of convolutions with `cuts`.
fn unet(vs: &VarStore, cuts: bool) -> Forward {
    let p = vs.root();
    let pair = |name: &str, from, to| {
        [("a", from), ("b", to)].map(|(one, from)| conv(&p / name / one, [from, to], 3, 1))
    };
    let down = [pair("down0", 3, 8), pair("down1", 8, 16), pair("down2", 16, 32)];
    let bottom = pair("bottom", 32, 64);
    let up = [pair("up2", 96, 32), pair("up1", 48, 16), pair("up0", 24, 8)];
    let images = Tensor::randn([2, 3, 32, 32], ground::floats());
    Box::new(move || {
        let apply = |x: &Tensor, convs: &[nn::Conv2D; 2]| {
            let x = convs.iter().fold(x.shallow_clone(), |x, conv| x.apply(conv).relu());
            cut(cuts);
            x
        };
        let mut skips = Vec::new();
        let mut x = images.shallow_clone();
        for convs in &down {
            skips.push(apply(&x, convs));
            x = skips.last().unwrap().max_pool2d_default(2);
        }
        x = apply(&x, &bottom);
        for (convs, skip) in up.iter().zip(skips.into_iter().rev()) {
            let size = skip.size();
            let larger = x.upsample_nearest2d([size[2], size[3]], None, None);
            x = apply(&Tensor::cat(&[&larger, &skip], 1), convs);
        }
        x
    })
}

type Forward = Box<dyn Fn() -> Tensor>;

/// Runs the blocks one after the other, as layers or as a program would without checkpoints.
fn chain((input, blocks): Blocks, are_layers: bool) -> Forward {
    if !are_layers {
        return Box::new(move || blocks.iter().fold(input.shallow_clone(), |x, block| block(&x)));
    }
    let layers = blocks.into_iter().fold(checkpoint::seq(), |layers, block| layers.add_fn(move |x| block(x)));
    Box::new(move || layers.forward(&input))
}

/// Returns the least bytes of a plan, and the peaks of the first step and of one without a region.
fn bytes(name: &str, make: impl Fn(&VarStore, bool) -> Forward, is_marked: bool) -> [u64; 3] {
    tch::manual_seed(1);
    let vs = VarStore::new(ground::device());
    let forward = make(&vs, is_marked);
    let net = Net::new("uncut", vs, forward);
    let name = format!("{name}, marked: {is_marked}");
    let form = checkpoint::with().name(&name);
    // The kernels have cached by the second run.
    let plain = [0, 1].map(|_| peak_of(|| net.train(|forward| forward())))[1];
    let first = peak_of(|| net.train(|forward| form.region(forward)));
    let costs = form.known().expect("backward has run");
    println!("{name}: {} stages", costs.stages().len());
    [costs.least_bytes(), first, plain]
}

/// Compares with stages that the program marks, and the first step with one without a region.
fn takes_hardly_more(name: &str, make: impl Fn(&VarStore, bool) -> Forward) {
    let _alone = alone();
    let [[least, first, plain], [marked, ..]] = [false, true].map(|is_marked| bytes(name, &make, is_marked));
    println!("{name}: least {least} bytes, marked {marked}, first step {first}, plain {plain}");
    assert!(100 * least <= 115 * marked, "{least} of {marked} bytes");
    assert!(first <= plain, "{first} of {plain} bytes");
}

macro_rules! uncut {
    ($($name:ident: $make:expr;)*) => {
        $(#[test]
        fn $name() {
            takes_hardly_more(stringify!($name), $make);
        })*
    };
}

uncut! {
    plain_closures: |vs, marked| chain(closures(vs), marked);
    a_perceptron: |vs, marked| chain(perceptron(vs), marked);
    six_blocks: |vs, marked| chain(transformer(6, true, vs), marked);
    twelve_blocks: |vs, marked| chain(transformer(12, true, vs), marked);
    twenty_four_blocks: |vs, marked| chain(transformer(24, true, vs), marked);
    forty_eight_blocks: |vs, marked| chain(transformer(48, true, vs), marked);
    twelve_blocks_with_norms_after: |vs, marked| chain(transformer(12, false, vs), marked);
    a_residual_net: |vs, marked| chain(resnet50(vs), marked);
    a_dense_net: |vs, marked| chain(densenet121(vs), marked);
    a_recurrent_net: lstm;
    a_u_net: unet;
}
