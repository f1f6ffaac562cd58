//! The first programs of the project's README, compiled and run here. The README shows them and the output of the
//! second one.

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

    pub(super) fn whole() {
        main();
    }
}

#[test]
fn the_readme_shows_what_is_compiled() {
    for code in [include_str!("readme/before.rs"), include_str!("readme/after.rs")] {
        assert!(README.contains(&format!("```rust\n{code}```\n")), "not in README.md:\n{code}");
    }
}

#[test]
fn the_loop_by_hand_and_the_attribute_make_the_same() {
    let _alone = alone();
    let variables = VarStore::new(Device::Cpu);
    let model = nn::linear(variables.root(), 784, 10, nn::LinearConfig::default());
    let images = Tensor::rand([2000, 784], (Kind::Float, Device::Cpu));
    let whole = model.forward(&images);
    let _no_grad = tch::no_grad_guard();
    let out = Tensor::zeros([2000, 10], (Kind::Float, Device::Cpu));
    before::run(&images, &out, &model);
    assert!(out.allclose(&whole, 1e-4, 1e-6, false));
    let _ = out.shallow_clone().zero_();
    let budget = Budget::beyond_allocated(15 << 10);
    after::run(&images, &out, &model);
    drop(budget);
    assert!(out.allclose(&whole, 1e-4, 1e-6, false));
    assert_eq!(toma::report::last().unwrap().out_of_memory, 1);
}

#[test]
fn the_readme_shows_what_is_printed() {
    let _alone = alone();
    after::whole();
    let report = toma::report::last().unwrap().to_string();
    // Times and callers differ here.
    let same = |line: &&str| !["lost", "callers"].iter().any(|about| line.trim_start().starts_with(about));
    for line in report.lines().filter(same) {
        let line = line.replace("torch::readme::after::embed", "demo::embed");
        assert!(README.contains(&line), "not in README.md: {line}\n{report}");
    }
}
