//! What a net takes before it has run once: `cargo xtask run predict -- resnet50 --train --budget 8GiB`.

use std::error::Error;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use tch::nn::{self, ModuleT, Path};
use tch::vision::{alexnet, densenet, efficientnet, inception, mobilenet, resnet, squeezenet, vgg};
use tch::{Device, Kind, Tensor};
use toma::torch::{Prediction, predict};

const CLASSES: i64 = 1000;

/// Says what a net of `tch::vision` takes on any number of images, without running it.
#[derive(Debug, Parser)]
#[command(name = "predict", max_term_width = 100)]
struct Arguments {
    /// The net, with weights that nothing has trained
    net: Net,
    /// A step of training instead of inference
    #[arg(long)]
    train: bool,
    /// What there is, such as 24GiB, to say how many images fit
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteSize>,
    /// Confirms by a dry run with so many images
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Net {
    Alexnet,
    Densenet121,
    EfficientnetB0,
    EfficientnetB4,
    InceptionV3,
    MobilenetV2,
    Resnet18,
    Resnet34,
    Resnet50,
    Resnet101,
    Resnet152,
    SqueezenetV1,
    Vgg16,
}

impl Net {
    fn build(self, root: &Path<'_>) -> Box<dyn ModuleT> {
        match self {
            Self::Alexnet => Box::new(alexnet::alexnet(root, CLASSES)),
            Self::Densenet121 => Box::new(densenet::densenet121(root, CLASSES)),
            Self::EfficientnetB0 => Box::new(efficientnet::b0(root, CLASSES)),
            Self::EfficientnetB4 => Box::new(efficientnet::b4(root, CLASSES)),
            Self::InceptionV3 => Box::new(inception::v3(root, CLASSES)),
            Self::MobilenetV2 => Box::new(mobilenet::v2(root, CLASSES)),
            Self::Resnet18 => Box::new(resnet::resnet18(root, CLASSES)),
            Self::Resnet34 => Box::new(resnet::resnet34(root, CLASSES)),
            Self::Resnet50 => Box::new(resnet::resnet50(root, CLASSES)),
            Self::Resnet101 => Box::new(resnet::resnet101(root, CLASSES)),
            Self::Resnet152 => Box::new(resnet::resnet152(root, CLASSES)),
            Self::SqueezenetV1 => Box::new(squeezenet::v1_1(root, CLASSES)),
            Self::Vgg16 => Box::new(vgg::vgg16(root, CLASSES)),
        }
    }

    /// Pixels on a side of the images that it was made for.
    const fn side(self) -> i64 {
        match self {
            Self::InceptionV3 => 299,
            Self::EfficientnetB4 => 380,
            _ => 224,
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let &Arguments { net, train, budget, batch } = arguments;
    let variables = nn::VarStore::new(Device::Cpu);
    let module = net.build(&variables.root());
    let step = |images: usize| step(&*module, net.side(), train, images);
    let device = toma::torch::Device::new(Device::Cpu);
    let mut prediction = predict(&device, step)?;
    if let Some(images) = batch {
        prediction = prediction.confirm(images, step)?;
    }
    println!("{net:?}, {}", if train { "a step of training" } else { "inference" });
    println!("{}", prediction.explain());
    if let Some(images) = batch {
        println!("{images} images take {}", ByteSize(prediction.needs_bytes(images)));
    }
    if let Some(budget) = budget {
        println!("{}", fits(&prediction, budget)?);
    }
    Ok(())
}

/// What a program would do with so many images; the images count, too.
fn step(module: &dyn ModuleT, side: i64, train: bool, images: usize) -> Option<Tensor> {
    let images = i64::try_from(images).ok()?;
    let input = Tensor::zeros([images, 3, side, side], (Kind::Float, Device::Cpu));
    if !train {
        return Some(tch::no_grad(|| module.forward_t(&input, false)));
    }
    let labels = Tensor::zeros([images], (Kind::Int64, Device::Cpu));
    module.forward_t(&input, true).cross_entropy_for_logits(&labels).backward();
    None
}

fn fits(prediction: &Prediction, budget: ByteSize) -> Result<String, String> {
    match prediction.fits(budget.as_u64()) {
        Some(images) => {
            let needs = ByteSize(prediction.needs_bytes(images));
            Ok(format!("{budget} hold {images} images, which take {needs}"))
        }
        None => Err(format!("budget {budget}: one image takes {}", ByteSize(prediction.needs_bytes(1)))),
    }
}
