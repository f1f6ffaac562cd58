//! Costs of predictions: a size from a cached one, a call that has one, and the dry runs that make one.
//!
//! Times are of the processor, one thread. A busy machine only adds to them, so the least of several counts. Ratios are
//! medians over runs in the order a, b, b, a. With `--test` every case runs once, on a small net.

use std::hint::black_box;
use std::time::Duration;
use std::{env, iter};

use cpu_time::ThreadTime;
use tch::nn::{self, Module as _, ModuleT, Path};
use tch::{Device, Kind, Tensor};
use toma_core::GlobalCache;
use toma_core::execute;
use toma_core::predict::Predict as _;
use toma_plan::Growth;
use toma_torch::{Backward as _, DryRun, Forward as _, Loss, Prediction, dry_run_by_shapes, predict};

const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

fn main() {
    let bench = Bench { is_test: env::args().any(|argument| argument == "--test") };
    tch::set_num_threads(1);
    let first = time(|| drop(dry_run_by_shapes(|| ())));
    println!("{:<46} {:>9.1} ms", "first dry run of a program", milliseconds(first));
    let nets: [Case; 3] = [(self::perceptron, "5 ms"), (resnet, "50 ms"), (gpt, "50 ms")];
    for (net, bar) in &nets[..if bench.is_test { 1 } else { nets.len() }] {
        let net = net();
        // First, because measurements of kernels are cached.
        scratch(&net);
        bench.shapes(&net, bar);
    }
    let perceptron = perceptron();
    bench.kept(&perceptron.prediction());
    bench.warm(&perceptron);
    bench.split(&perceptron);
}

/// A net, and the bar of its plan by shapes.
type Case = (fn() -> Net, &'static str);

struct Bench {
    is_test: bool,
}

impl Bench {
    fn kept(&self, prediction: &Prediction) {
        let mut free = 1_u64 << 30;
        let took = self.least(|| {
            for _ in 0..1000 {
                free += 1;
                black_box(prediction.predict(Some(1 << 16), free));
            }
        });
        println!("{:<46} {:>9.0} ns  (bar: 1 us)", "size from a kept prediction", took.as_secs_f64() * 1e6);
    }

    /// A call that has its prediction, against one that asks for none.
    fn warm(&self, net: &Net) {
        let device = toma_torch::Device::new(Device::Cpu);
        for rows in [1, 64, 256] {
            let images = Tensor::zeros([rows, 784], FLOATS);
            let body = |images: &Tensor| net.layers.forward_t(images, false);
            let form = || execute::with::<GlobalCache>().device(&device);
            let with = || drop(form().predict(&DryRun).forward(&images, body));
            let without = || drop(form().forward(&images, body));
            let name = format!("forward of {rows} rows with a prediction");
            println!("{name:<46} {:>9.3}x  (bar: 1.05x)", self.ratio(with, without));
            let bare = || drop(tch::no_grad(|| body(&images)));
            println!("{:<46} {:>9.3}x", "  against the body alone", self.ratio(with, bare));
        }
    }

    /// A step in four pieces whose first one is compared with the program that was judged, against a step that compares
    /// nothing. With `Loss::Found` all items run dry in addition.
    fn split(&self, net: &Net) {
        let device = toma_torch::Device::new(Device::Cpu);
        for (rows, loss) in [64, 256].into_iter().flat_map(|rows| [(rows, Loss::Mean), (rows, Loss::Found)]) {
            let images = Tensor::zeros([rows, 784], FLOATS);
            let body = |images: &Tensor| net.layers.forward_t(images, true).square().mean(None);
            let most = usize::try_from(rows / 4).expect("small");
            let form = || execute::with::<GlobalCache>().device(&device).max(most);
            let with = || drop(form().predict(&DryRun).backward(loss, &net.variables, &images, body));
            let without = || drop(form().backward(Loss::Mean, &net.variables, &images, body));
            let name = format!("four pieces of {rows} rows, {loss:?}");
            println!("{name:<46} {:>9.3}x  (bar: 1.02x)", self.ratio(with, without));
        }
    }

    /// A prediction by shapes alone, without kernels: two pieces of each of two sizes, and lines through them.
    fn shapes(&self, net: &Net, bar: &str) {
        let took = self.least(|| {
            let traces = [4, 8].map(|size| {
                let pieces = || iter::repeat_with(|| net.step(size)).take(2).collect::<Vec<_>>();
                (u32::try_from(size).expect("small"), dry_run_by_shapes(pieces).expect("it runs dry"))
            });
            let traces = [(traces[0].0, &traces[0].1), (traces[1].0, &traces[1].1)];
            drop(black_box(Growth::fit(&traces).expect("one step")));
        });
        println!(
            "{:<46} {:>9.1} ms  (bar: {bar})",
            format!("plan of {}, by shapes", net.name),
            milliseconds(took)
        );
    }

    fn least(&self, mut work: impl FnMut()) -> Duration {
        (0..if self.is_test { 1 } else { 21 }).map(|_| time(&mut work)).min().expect("one at least")
    }

    fn ratio(&self, ours: impl Fn(), bare: impl Fn()) -> f64 {
        let quadruple = |_| {
            let first = time(&ours);
            let bare = time(&bare) + time(&bare);
            ratio(first + time(&ours), bare)
        };
        let mut ratios: Vec<_> = (0..if self.is_test { 2 } else { 1001 }).map(quadruple).collect();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

/// A whole prediction, with the scratch of the CPU's kernels, against a step of the size that it serves.
fn scratch(net: &Net) {
    let plan = time(|| drop(net.prediction()));
    let step = (0..2).map(|_| time(|| drop(net.step(net.batch)))).min().expect("two");
    println!("{:<46} {:>9.1} ms", format!("plan of {}, with scratch", net.name), milliseconds(plan));
    println!("{:<46} {:>9.3}x  (bar: 1.0x)", format!("  against a step of {}", net.batch), ratio(plan, step));
}

struct Net {
    name: &'static str,
    layers: Box<dyn ModuleT>,
    variables: Vec<Tensor>,
    input: fn(i64) -> Tensor,
    /// Rows of the batch that it is trained with.
    batch: i64,
}

impl Net {
    fn new(
        name: &'static str,
        batch: i64,
        input: fn(i64) -> Tensor,
        layers: impl Fn(&Path<'_>) -> Box<dyn ModuleT>,
    ) -> Self {
        let variables = nn::VarStore::new(Device::Cpu);
        let layers = layers(&variables.root());
        Self { name, layers, variables: variables.trainable_variables(), input, batch }
    }

    /// Forward, loss and backward, which adds to existing gradients.
    fn step(&self, size: i64) -> Tensor {
        let logits = self.layers.forward_t(&(self.input)(size), true);
        let labels = Tensor::zeros(&logits.size()[..1], (Kind::Int64, Device::Cpu));
        let loss = logits.cross_entropy_for_logits(&labels);
        loss.backward();
        loss
    }

    fn prediction(&self) -> Prediction {
        let device = toma_torch::Device::new(Device::Cpu);
        predict(&device, |size| self.step(i64::try_from(size).expect("small"))).expect("it runs dry")
    }
}

fn linear(path: Path<'_>, from: i64, to: i64) -> nn::Linear {
    nn::linear(path, from, to, nn::LinearConfig::default())
}

fn perceptron() -> Net {
    Net::new(
        "an MLP",
        64,
        |size| Tensor::zeros([size, 784], FLOATS),
        |root| {
            let layers = nn::seq_t().add(linear(root / "1", 784, 512)).add_fn(Tensor::relu);
            let layers = layers.add(linear(root / "2", 512, 512)).add_fn(Tensor::relu);
            Box::new(layers.add(linear(root / "3", 512, 10)))
        },
    )
}

fn resnet() -> Net {
    let images = |size| Tensor::zeros([size, 3, 224, 224], FLOATS);
    Net::new("ResNet-50", 32, images, |root| Box::new(tch::vision::resnet::resnet50(root, 1000)))
}

const TOKENS: i64 = 128;
const WIDTH: i64 = 768;
const WORDS: i64 = 50257;

/// A GPT-2 small of 124 million weights. The input and the output share the weights of the words.
fn gpt() -> Net {
    let tokens = |size| Tensor::zeros([size, TOKENS], (Kind::Int64, Device::Cpu));
    Net::new("a GPT of 124 M", 16, tokens, |root| {
        let words = nn::embedding(root / "words", WORDS, WIDTH, nn::EmbeddingConfig::default());
        let places = (root / "places").var("weight", &[TOKENS, WIDTH], nn::Init::Const(0.0));
        let blocks: Vec<_> = (0..12).map(|block| self::block(&(root / block))).collect();
        let norm = norm(root / "norm");
        Box::new(nn::func_t(move |tokens, _| {
            let begin = words.forward(tokens) + &places;
            let end = blocks.iter().fold(begin, |features, block| block.forward(&features));
            norm.forward(&end).matmul(&words.ws.tr()).flatten(0, 1)
        }))
    })
}

fn norm(path: Path<'_>) -> nn::LayerNorm {
    nn::layer_norm(path, vec![WIDTH], nn::LayerNormConfig::default())
}

fn block(path: &Path<'_>) -> impl nn::Module + use<> {
    let norms = [norm(path / "before"), norm(path / "between")];
    let [attend, project] =
        [linear(path / "attend", WIDTH, 3 * WIDTH), linear(path / "project", WIDTH, WIDTH)];
    let [widen, narrow] =
        [linear(path / "widen", WIDTH, 4 * WIDTH), linear(path / "narrow", 4 * WIDTH, WIDTH)];
    nn::func(move |input| {
        let heads =
            attend.forward(&norms[0].forward(input)).view([-1, TOKENS, 3, 12, 64]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|at| heads.get(at));
        let attended =
            Tensor::scaled_dot_product_attention(&q, &k, &v, None::<&Tensor>, 0.0, true, None, false);
        let middle = input + project.forward(&attended.transpose(1, 2).flatten(2, -1));
        &middle + narrow.forward(&widen.forward(&norms[1].forward(&middle)).gelu("tanh"))
    })
}

fn time(work: impl FnOnce()) -> Duration {
    let begun = ThreadTime::now();
    work();
    begun.elapsed()
}

fn ratio(ours: Duration, bare: Duration) -> f64 {
    ours.as_secs_f64() / bare.as_secs_f64()
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
