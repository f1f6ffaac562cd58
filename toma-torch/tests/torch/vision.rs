//! Nets of `tch::vision` on 24 images of which 3 fit.

use tch::nn::{ModuleT, OptimizerConfig as _, Path, Sgd, VarStore};
use tch::vision::{efficientnet, mobilenet, resnet};
use tch::{Kind, Tensor};
use toma_core::Bisect;
use toma_core::report::Report;
use toma_torch::{Backward as _, Loss};

use crate::ground::{self, Budget};
use crate::rounds::rounds;
use crate::stage::{alone, predicted, report};

const IMAGES: i64 = 24;

/// Number of images that fit.
const FIT: usize = 3;

/// A net in training, and images small enough for a test.
struct Classes {
    name: &'static str,
    variables: VarStore,
    module: Box<dyn ModuleT>,
    images: Tensor,
    labels: Tensor,
}

impl Classes {
    fn new(name: &'static str, build: fn(&Path<'_>) -> Box<dyn ModuleT>) -> Self {
        tch::manual_seed(1);
        let variables = VarStore::new(ground::device());
        let module = build(&variables.root());
        let images = Tensor::rand([IMAGES, 3, 64, 64], ground::floats());
        let labels = Tensor::randint(10, [IMAGES], (Kind::Int64, ground::device()));
        Self { name, variables, module, images, labels }
    }

    /// Adds gradients of pieces of at most `most` images.
    fn train(&self, most: usize) -> Report {
        let form = predicted().policy(Bisect::default()).max(most).key(self.name);
        let data = (&self.images, &self.labels);
        drop(form.backward(Loss::Mean, &self.variables, data, |(images, labels)| {
            self.module.forward_t(images, true).cross_entropy_for_logits(labels)
        }));
        report()
    }

    /// Returns the peak bytes of such pieces beyond those before.
    fn peak(&self, most: usize, prepare: &mut impl FnMut()) -> u64 {
        prepare();
        ground::peak_of(|| drop(self.train(most)))
    }

    fn never_runs_out(&self, prepare: &mut impl FnMut()) {
        let name = self.name;
        let [fits, too_many] = [FIT, FIT + 1].map(|most| self.peak(most, prepare));
        assert!(fits < too_many, "{name}: {fits} and {too_many} bytes");
        let bytes = (fits + fits / 98).min(too_many - 1);
        prepare();
        let _budget = Budget::beyond_allocated(bytes);
        let report = self.train(24);
        let size = report.predicted.map_or(0, |predicted| predicted.size);
        assert!(report.out_of_memory == 0 && size + 1 >= FIT, "{name}: {report}");
    }
}

#[test]
fn never_out_of_memory_where_3_of_24_images_fit() {
    type Build = fn(&Path<'_>) -> Box<dyn ModuleT>;
    let nets: [(&str, Build); 4] = [
        ("ResNet-18", |root| Box::new(resnet::resnet18(root, 10))),
        ("MobileNet", |root| Box::new(mobilenet::v2(root, 10))),
        ("ResNet-34", |root| Box::new(resnet::resnet34(root, 10))),
        ("EfficientNet", |root| Box::new(efficientnet::b0(root, 10))),
    ];
    let _alone = alone();
    for (name, build) in nets.into_iter().take(rounds(1, 4)) {
        let net = Classes::new(name, build);
        let optimizer = || Sgd::default().build(&net.variables, 0.0).unwrap();
        let mut forget = || optimizer().zero_grad();
        let mut never = || ();
        // Steps that make gradients, and steps that add to them.
        net.never_runs_out(&mut forget);
        net.train(FIT);
        net.never_runs_out(&mut never);
    }
}
