//! The first example of the project's README: the code is compiled and run here, and the README shows it word
//! for word. There it cannot be a doc test, because those run without libtorch, too.

use tch::nn::{self, Module as _, VarStore};
use tch::{Device, Kind, Tensor};
use toma::torch::cpu::Budget;

use crate::stage::alone;

const README: &str = include_str!("../../../README.md");

mod before {
    include!("readme/before.rs");

    pub(super) fn run(images: &Tensor, out: &Tensor, model: &impl ModuleT) {
        embed(images, out, model);
    }
}

mod after {
    include!("readme/after.rs");

    pub(super) fn run(images: &Tensor, out: &Tensor, model: &impl ModuleT) {
        embed((images, out), model);
    }
}

#[test]
fn the_readme_shows_what_is_compiled() {
    for code in [include_str!("readme/before.rs"), include_str!("readme/after.rs")] {
        let (_imports, function) = code.split_once("\n\n").unwrap();
        assert!(README.contains(&format!("{}\n", function.trim_end())), "not in README.md:\n{function}");
    }
}

#[test]
fn the_readme_shows_what_is_printed() {
    let _alone = alone();
    let vs = VarStore::new(Device::Cpu);
    let layer = |from, to| nn::linear(vs.root(), from, to, nn::LinearConfig::default());
    let model = nn::seq().add(layer(784, 256)).add_fn(Tensor::relu).add(layer(256, 10));
    let images = Tensor::rand([2000, 784], (Kind::Float, Device::Cpu));
    let (whole, out) = (model.forward(&images), Tensor::zeros([2000, 10], (Kind::Float, Device::Cpu)));
    let _no_grad = tch::no_grad_guard();
    before::run(&images, &out, &model);
    assert!(out.allclose(&whole, 1e-4, 1e-6, false));
    let _ = out.shallow_clone().zero_();
    let budget = Budget::beyond_allocated(300 << 10);
    after::run(&images, &out, &model);
    drop(budget);
    assert!(out.allclose(&whole, 1e-4, 1e-6, false));
    let report = toma::report::last().unwrap().to_string();
    // How long it took, and what called it, is another matter here.
    let same = |line: &&str| !["lost", "callers"].iter().any(|about| line.trim_start().starts_with(about));
    for line in report.lines().filter(same) {
        let line = line.replace("torch::readme::after::embed", "demo::embed");
        assert!(README.contains(&line), "not in README.md: {line}\n{report}");
    }
}
