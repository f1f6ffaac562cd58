//! Nets by name: all of `tch::vision`, and two transformers for texts.

use std::fmt;

use tch::nn::{ModuleT, Path};
use tch::vision::{
    alexnet, convmixer, densenet, dinov2, efficientnet, inception, mobilenet, resnet, squeezenet, vgg,
};
use tch::{Device, Kind, Tensor};

use crate::transformer::{GPT, MINILM, transformer};

/// Number of classes of a net for images.
const CLASSES: i64 = 1000;

/// A net with untrained weights, because bytes depend on shapes alone.
#[derive(Clone, Copy)]
pub(crate) struct Net {
    pub(crate) name: &'static str,
    input: Input,
    pub(crate) build: fn(&Path<'_>) -> Box<dyn ModuleT>,
}

/// Kind of an item.
#[derive(Clone, Copy)]
enum Input {
    /// An image, with its pixels on each side.
    Image(i64),
    /// A text, with its number of tokens.
    Text(i64),
}

use Input::{Image, Text};

const fn net(name: &'static str, input: Input, build: fn(&Path<'_>) -> Box<dyn ModuleT>) -> Net {
    Net { name, input, build }
}

/// All nets, each with the input that it was made for.
pub(crate) const NETS: [Net; 38] = [
    net("alexnet", Image(224), |root| Box::new(alexnet::alexnet(root, CLASSES))),
    net("convmixer-1024-20", Image(224), |root| Box::new(convmixer::c1024_20(root, CLASSES))),
    net("convmixer-1536-20", Image(224), |root| Box::new(convmixer::c1536_20(root, CLASSES))),
    net("densenet121", Image(224), |root| Box::new(densenet::densenet121(root, CLASSES))),
    net("densenet161", Image(224), |root| Box::new(densenet::densenet161(root, CLASSES))),
    net("densenet169", Image(224), |root| Box::new(densenet::densenet169(root, CLASSES))),
    net("densenet201", Image(224), |root| Box::new(densenet::densenet201(root, CLASSES))),
    net("dinov2-small", Image(518), |root| Box::new(dinov2::vit_small(root))),
    net("dinov2-base", Image(518), |root| Box::new(dinov2::vit_base(root))),
    net("dinov2-large", Image(518), |root| Box::new(dinov2::vit_large(root))),
    net("dinov2-giant", Image(518), |root| Box::new(dinov2::vit_giant(root))),
    net("efficientnet-b0", Image(224), |root| Box::new(efficientnet::b0(root, CLASSES))),
    net("efficientnet-b1", Image(240), |root| Box::new(efficientnet::b1(root, CLASSES))),
    net("efficientnet-b2", Image(260), |root| Box::new(efficientnet::b2(root, CLASSES))),
    net("efficientnet-b3", Image(300), |root| Box::new(efficientnet::b3(root, CLASSES))),
    net("efficientnet-b4", Image(380), |root| Box::new(efficientnet::b4(root, CLASSES))),
    net("efficientnet-b5", Image(456), |root| Box::new(efficientnet::b5(root, CLASSES))),
    net("efficientnet-b6", Image(528), |root| Box::new(efficientnet::b6(root, CLASSES))),
    net("efficientnet-b7", Image(600), |root| Box::new(efficientnet::b7(root, CLASSES))),
    net("inception-v3", Image(299), |root| Box::new(inception::v3(root, CLASSES))),
    net("mobilenet-v2", Image(224), |root| Box::new(mobilenet::v2(root, CLASSES))),
    net("resnet18", Image(224), |root| Box::new(resnet::resnet18(root, CLASSES))),
    net("resnet34", Image(224), |root| Box::new(resnet::resnet34(root, CLASSES))),
    net("resnet50", Image(224), |root| Box::new(resnet::resnet50(root, CLASSES))),
    net("resnet101", Image(224), |root| Box::new(resnet::resnet101(root, CLASSES))),
    net("resnet152", Image(224), |root| Box::new(resnet::resnet152(root, CLASSES))),
    net("squeezenet-v1-0", Image(224), |root| Box::new(squeezenet::v1_0(root, CLASSES))),
    net("squeezenet-v1-1", Image(224), |root| Box::new(squeezenet::v1_1(root, CLASSES))),
    net("vgg11", Image(224), |root| Box::new(vgg::vgg11(root, CLASSES))),
    net("vgg11-bn", Image(224), |root| Box::new(vgg::vgg11_bn(root, CLASSES))),
    net("vgg13", Image(224), |root| Box::new(vgg::vgg13(root, CLASSES))),
    net("vgg13-bn", Image(224), |root| Box::new(vgg::vgg13_bn(root, CLASSES))),
    net("vgg16", Image(224), |root| Box::new(vgg::vgg16(root, CLASSES))),
    net("vgg16-bn", Image(224), |root| Box::new(vgg::vgg16_bn(root, CLASSES))),
    net("vgg19", Image(224), |root| Box::new(vgg::vgg19(root, CLASSES))),
    net("vgg19-bn", Image(224), |root| Box::new(vgg::vgg19_bn(root, CLASSES))),
    net("minilm", Text(128), |root| Box::new(transformer(root, MINILM))),
    net("gpt", Text(128), |root| Box::new(transformer(root, GPT))),
];

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Net {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let names = || NETS.map(|net| net.name).join(", ");
        let found = NETS.into_iter().find(|net| net.name == name);
        found.ok_or_else(|| format!("there is no such net; there are {}", names()))
    }

    /// The name of its items.
    pub(crate) const fn items(self) -> &'static str {
        match self.input {
            Image(_) => "images",
            Text(_) => "texts",
        }
    }

    /// This number of empty items, images with numbers of this type.
    pub(crate) fn input(self, items: i64, kind: Kind) -> Tensor {
        match self.input {
            Image(side) => Tensor::zeros([items, 3, side, side], (kind, Device::Cpu)),
            Text(tokens) => Tensor::zeros([items, tokens], (Kind::Int64, Device::Cpu)),
        }
    }
}

/// Runs a step of training or of inference on these items, whose memory counts, too.
///
/// Returns the output of inference, which a program would keep.
pub(crate) fn step(module: &dyn ModuleT, input: &Tensor, train: bool) -> Option<Tensor> {
    if !train {
        return Some(tch::no_grad(|| module.forward_t(input, false)));
    }
    loss(&module.forward_t(input, true)).backward();
    None
}

/// Compares these outputs with labels of zero.
pub(crate) fn loss(logits: &Tensor) -> Tensor {
    let logits = if logits.dim() > 2 { logits.flatten(0, 1) } else { logits.shallow_clone() };
    let labels = Tensor::zeros(logits.size()[0], (Kind::Int64, logits.device()));
    logits.cross_entropy_for_logits(&labels)
}
