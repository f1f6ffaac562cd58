//! How long a plan of residency takes to be found: training of 334 layers, 10,020 operators, in parts of its peak.
//!
//! ```text
//! residency           medians of 5 runs
//! residency --test    each case once
//! ```

#[path = "../tests/residency/draw.rs"]
mod draw;
#[path = "../tests/residency/layers.rs"]
mod layers;
#[path = "common/median.rs"]
mod median;

use std::hint::black_box;

use toma_plan::residency::{Eviction as _, Flow, NextEvent, Terms, simulate};

use median::median;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (layers, rounds) = if is_test { (10, 1) } else { (334, 5) };
    let step = layers::layers(layers);
    for percent in [80, 60, 40, 20] {
        let budget_bytes = step.peak_bytes() / 100 * percent;
        let free = Terms::bytes_alone(budget_bytes);
        #[expect(clippy::cast_precision_loss, reason = "bytes of memory are below 2^52")]
        let speed = step.peak_bytes() as f64 / step.seconds();
        let links = Terms { in_bytes_per_second: speed, out_bytes_per_second: speed, ..free };
        for (name, terms) in [("bytes alone", free), ("with links", links)] {
            let taken = median(rounds, || drop(black_box(Flow::default().plan(&step, &terms))));
            println!("{:>6} operators in {percent} %, {name}: {taken:.1?}", step.operators.len());
        }
        let taken = median(rounds, || drop(black_box(simulate(&step, &free, &mut NextEvent, 1))));
        println!("{:>6} operators in {percent} %, a round on demand: {taken:.1?}", step.operators.len());
    }
}
