//! The device that a suite runs on: the counted CPU, or a paper card where `TOMA_TEST_DEVICE` is `cuda`.
//!
//! The names are those of [`toma_torch::cpu`]. A card counts blocks of 512 bytes, which its allocator takes from the
//! driver in segments. Limits therefore hold for segments on a card, and it is the driver that fails.

#![allow(dead_code, reason = "each suite takes a part of it")]
#![allow(unsafe_code, reason = "the card has functions for tests, which are found by name")]

use std::sync::LazyLock;

use libloading::os::unix::Library;
use tch::Kind;
use toma::memory::MemorySource as _;
use toma_torch::profile::Recording;
use toma_torch::{Device, Stats, cpu};
use toma_trace::Place;
use toma_trace::lines::Figures;

static IS_CARD: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("TOMA_TEST_DEVICE").is_some_and(|device| device == "cuda"));

pub(crate) fn is_card() -> bool {
    *IS_CARD
}

pub(crate) fn device() -> tch::Device {
    if is_card() { tch::Device::Cuda(0) } else { tch::Device::Cpu }
}

pub(crate) fn name() -> String {
    Device::new(device()).name().to_string()
}

pub(crate) fn floats() -> (Kind, tch::Device) {
    (Kind::Float, device())
}

pub(crate) fn doubles() -> (Kind, tch::Device) {
    (Kind::Double, device())
}

pub(crate) fn place() -> Place {
    if is_card() { Place::device("cuda", 0) } else { Place::HOST }
}

pub(crate) fn count() {
    cpu::count();
}

pub(crate) fn stats() -> Stats {
    count();
    Device::new(device()).stats().unwrap()
}

pub(crate) fn allocated_bytes() -> u64 {
    stats().allocated_bytes
}

pub(crate) fn peak_allocated_bytes() -> u64 {
    stats().peak_allocated_bytes
}

pub(crate) fn reset_peak_allocated_bytes() {
    Device::new(device()).reset_peaks().unwrap();
}

/// Returns the figures of the line with this text.
pub(crate) fn figures(recording: &Recording, function: &str, text: &str) -> Figures {
    let lines = recording.lines();
    let number = lines.number(function, text).expect("a line with this text");
    lines.figures(function, number, &place()).expect("a line that ran")
}

/// Returns the peak bytes beyond those before, while `work` runs.
pub(crate) fn peak_of(work: impl FnOnce()) -> u64 {
    let before = allocated_bytes();
    reset_peak_allocated_bytes();
    work();
    peak_allocated_bytes() - before
}

/// Looks up a function of the card, see `card/runtime/settings.c`.
fn of_card<F: Copy>(name: &str) -> F {
    // SAFETY: callers name the type of the function that they look up.
    *unsafe { Library::this().get::<F>(name) }.expect("a program with a paper card")
}

/// Leaves this many bytes of the card free, rounded up to whole pieces of the driver.
fn leave(bytes: u64) {
    let total = Device::new(device()).read().unwrap().total_bytes;
    let left = bytes.next_multiple_of(2 << 20).min(total);
    of_card::<extern "C" fn(i32, usize)>("paper_set_taken")(0, usize::try_from(total - left).unwrap());
}

pub(crate) enum Budget {
    Counted(#[expect(dead_code, reason = "a guard")] cpu::Budget),
    OfCard,
}

impl Budget {
    pub(crate) fn new(bytes: u64) -> Self {
        if !is_card() {
            return Self::Counted(cpu::Budget::new(bytes));
        }
        Device::new(device()).release_cached_memory();
        leave(bytes);
        Self::OfCard
    }

    pub(crate) fn beyond_allocated(bytes: u64) -> Self {
        Self::new(allocated_bytes().saturating_add(bytes))
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if matches!(self, Self::OfCard) {
            leave(u64::MAX >> 1);
        }
    }
}

/// An injected failure. On a card the driver fails. `PYTORCH_NO_CUDA_MEMORY_CACHING=1` makes each allocation its own.
pub(crate) enum FailingAllocation {
    Counted(cpu::FailingAllocation),
    OfCard { fails_at: u64 },
}

impl FailingAllocation {
    pub(crate) fn after(skip: u32) -> Self {
        if !is_card() {
            return Self::Counted(cpu::FailingAllocation::after(skip));
        }
        Device::new(device()).release_cached_memory();
        fail(i64::from(skip) + 1);
        Self::OfCard { fails_at: mallocs() + u64::from(skip) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Counted(failing) => failing.has_failed(),
            Self::OfCard { fails_at } => mallocs() > *fails_at,
        }
    }
}

impl Drop for FailingAllocation {
    fn drop(&mut self) {
        if matches!(self, Self::OfCard { .. }) {
            fail(0);
        }
    }
}

fn mallocs() -> u64 {
    of_card::<extern "C" fn() -> u64>("paper_mallocs")()
}

fn fail(at: i64) {
    of_card::<extern "C" fn(i64, i64)>("paper_fail_malloc")(at, 1);
}
