//! Retries when the driver fails at any moment, under each setting of libtorch's allocator, and next to a full card.

use std::cell::RefCell;

use tch::nn::{self, Module as _, VarStore};
use tch::{Kind, TchError, Tensor};
use toma::memory::MemorySource as _;
use toma::{NoCache, execute, report};
use toma_torch::{Backward as _, Device, Loss};

use crate::LIMIT;
use crate::card::{fail_from, on_card, this};
use crate::child::answer;
use crate::table::Check;

pub(crate) const CHECKS: &[Check] = &[
    on_card("retry: a failure at any allocation from the driver", || answer(&mut this("retry failing", &[]))),
    on_card("retry: under settings of the allocator", settings),
    on_card("retry: beside a card that is full", beside),
];

/// Initial number of items, each a tensor of 1 MiB.
const ITEMS: usize = 192;

pub(crate) fn work(task: &str) {
    match task {
        "failing" => failing(),
        "beside" => beside_cache(),
        _ => println!("answer: {}", sizes(0)),
    }
}

/// Each tensor has a segment of its own, and none is cached.
fn failing() {
    let (mut variables, device) = (VarStore::new(tch::Device::Cuda(0)), Device::new(tch::Device::Cuda(0)));
    let linear = |name, width| nn::linear(variables.root() / name, 1024, width, nn::LinearConfig::default());
    let net = nn::seq().add(linear("wide", 1024)).add_fn(Tensor::relu).add(linear("narrow", 512));
    variables.double();
    let rows = Tensor::randn([2048, 1024], (Kind::Double, tch::Device::Cuda(0)));
    let learn = || {
        variables.trainable_variables().iter_mut().for_each(Tensor::zero_grad);
        let form = execute::with::<NoCache>().device(&device);
        let loss = form
            .backward(Loss::Mean, &variables, &rows, |rows| net.forward(rows).square().mean(Kind::Double));
        let gradients =
            variables.trainable_variables().iter().map(|weight| weight.grad().copy()).collect::<Vec<_>>();
        (loss.double_value(&[]), gradients, report::last().unwrap().out_of_memory)
    };
    let (loss, gradients, _) = learn();
    let mut count = 0;
    loop {
        device.release_cached_memory();
        fail_from(count + 1, 2);
        let again = learn();
        fail_from(0, 0);
        if again.2 == 0 {
            break;
        }
        let is_near = |(one, other): (&Tensor, &Tensor)| one.allclose(other, 1e-9, 1e-12, false);
        assert!(
            (again.0 - loss).abs() < 1e-12 && gradients.iter().zip(&again.1).all(is_near),
            "failure {count}"
        );
        count += 1;
    }
    assert!(count > 3);
    println!("answer: {count} failures, each made good");
}

/// Returns the sizes of a loop, after checking its sum.
fn sizes(card: usize) -> String {
    let device = tch::Device::Cuda(card);
    let (sizes, sum) = (RefCell::new(Vec::new()), RefCell::new(0));
    let done = execute::with::<NoCache>().device(&Device::new(device)).range(
        0..ITEMS,
        ITEMS,
        |start, end| -> Result<(), TchError> {
            sizes.borrow_mut().push(end - start);
            let count = i64::try_from(end - start).unwrap();
            let items = Tensor::f_ones([count, 1 << 18], (Kind::Float, device))?;
            *sum.borrow_mut() += items.f_sum(Kind::Float)?.int64_value(&[]);
            Ok(())
        },
    );
    done.unwrap();
    assert_eq!(usize::try_from(sum.take()), Ok(ITEMS << 18));
    format!("{:?}", sizes.take())
}

fn settings() -> String {
    let under = |conf: &str| {
        let sizes = answer(&mut this("retry sizes", &[("PAPER_CARD_BYTES", "128M"), (LIMIT.0, conf)]));
        let expected = if conf.contains("fraction") { "[192, 96, 48, 48, 48, 48]" } else { "[192, 96, 96]" };
        assert!(sizes.starts_with(expected), "{conf}: {sizes}");
        format!("{conf} {sizes}")
    };
    let all = [
        "expandable_segments:True",
        "max_split_size_mb:32",
        "roundup_power2_divisions:4",
        "per_process_memory_fraction:0.5",
    ];
    all.map(under).join("; ")
}

/// The card that is full caches nothing when it fails, so the other one keeps its cache, which a release would take.
fn beside_cache() {
    let cached_bytes = || Device::new(tch::Device::Cuda(1)).stats().unwrap().reserved_bytes;
    let (of_other, before) = (sizes(1), cached_bytes());
    println!("answer: {} and {of_other}", sizes(0));
    assert!(before > 0 && cached_bytes() == before, "{before} bytes cached, then {}", cached_bytes());
}

fn beside() -> String {
    let settings =
        [("PAPER_CARD_BYTES", "256M"), ("PAPER_CARDS", "2"), ("PAPER_CARD_TAKEN", "128M,0"), (LIMIT.0, "")];
    let sizes = answer(&mut this("retry beside", &settings));
    assert_eq!(sizes, "[192, 96, 96] and [192]");
    sizes
}
