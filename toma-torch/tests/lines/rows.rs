//! Rows of a table.

use std::thread;

use crate::ground;
use tch::nn::{self, OptimizerConfig as _};
use tch::{Kind, Tensor};
use toma::NoCache;
use toma_torch::profile::{Column, Depth};

use crate::events::{batch, net, step};
use crate::{alone, figures, record, record_at};

fn linear() -> (Tensor, Tensor) {
    (Tensor::zeros([100, 100], ground::floats()), Tensor::zeros([100], ground::floats()))
}

#[toma::profile]
fn inner() {
    let _third = linear();
}

#[toma::profile]
fn outer() {
    let _first = linear();
    let _second = linear();
    inner();
}

#[test]
fn a_table_has_the_peak_of_each_line() {
    let _alone = alone();
    let before = ground::allocated_bytes();
    assert_eq!(before, 0, "no other test has tensors");
    let recording = record(outer);
    let table = recording.lines().function("outer").columns([Column::Peak]).to_string();
    for (peak, text) in
        [("0.00B", "fn outer"), ("39.45K", "let _first"), ("78.91K", "let _second"), ("118.36K", "inner();")]
    {
        let line = table.lines().find(|line| line.contains(text)).unwrap();
        assert!(line.trim_start().starts_with(peak), "{text}: {table}");
    }
    let of_inner = figures(&recording, "inner", "let _third = linear();");
    assert_eq!((of_inner.peak, of_inner.rise, of_inner.kept), (121_200, 40_400, 0));
}

#[test]
fn every_byte_of_a_step_has_a_line_and_the_living_ones_are_the_allocators() {
    let _alone = alone();
    let variables = nn::VarStore::new(ground::device());
    let (net, (images, labels)) = (net(&variables), batch());
    let mut optimizer = nn::Adam::default().build(&variables, 1e-3).unwrap();
    for _ in 0..2 {
        let before = ground::allocated_bytes();
        ground::reset_peak_allocated_bytes();
        let mut loss = None;
        let recording = record(|| loss = Some(step(&net, &images, &labels)));
        let of = |text| figures(&recording, "step", text);
        let forward = of("let loss = net.forward(images).cross_entropy_for_logits(labels);");
        let backward = of("loss.backward();");
        let allocated = forward.allocated + backward.allocated;
        let freed = forward.freed + backward.freed;
        assert_eq!(ground::allocated_bytes(), before + allocated - freed);
        assert_eq!(forward.peak.max(backward.peak), ground::peak_allocated_bytes());
        assert_eq!(forward.kept + backward.kept, ground::allocated_bytes() - before);
        optimizer.step();
        optimizer.zero_grad();
    }
}

#[toma::profile]
fn waves(weight: &Tensor) -> Tensor {
    let sines = weight.sin();
    sines.exp().sum(Kind::Float)
}

fn unmarked(weight: &Tensor) -> Tensor {
    weight.sin().exp().sum(Kind::Float)
}

/// The gradient of the sine needs more bytes than its forward, which has ended by then.
#[test]
fn a_peak_in_backward_is_of_the_line_whose_gradient_is_computed() {
    let _alone = alone();
    for depth in [Depth::Lines, Depth::Events] {
        let peak = |forward: fn(&Tensor) -> Tensor| {
            let weight = Tensor::ones([1 << 14], ground::floats()).set_requires_grad(true);
            let run =
                || toma::execute::with::<NoCache>().name("waves").batch(4, |_| forward(&weight).backward());
            record_at(depth, run).peak().line
        };
        let number =
            1 + include_str!("rows.rs").lines().position(|line| line.contains("weight.sin();")).unwrap();
        assert_eq!(peak(waves), Some(format!("toma-torch/tests/lines/rows.rs:{number}")));
        assert_eq!(peak(unmarked).as_deref(), Some("size 4 of waves"));
    }
}

#[toma::profile]
fn hands_over() {
    let ones = Tensor::ones([1 << 10], ground::floats());
    thread::spawn(move || drop(ones)).join().unwrap();
}

#[test]
fn blocks_freed_by_another_thread_are_freed() {
    let _alone = alone();
    let recording = record(hands_over);
    let text = "let ones = Tensor::ones([1 << 10], ground::floats());";
    assert_eq!(figures(&recording, "hands_over", text).kept, 0);
}
