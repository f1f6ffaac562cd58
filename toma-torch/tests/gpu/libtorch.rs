//! Out-of-memory errors of libtorch's CUDA allocator in all their forms, and the state after them.

use std::cell::{Cell, RefCell};
use std::fs;

use tch::{Cuda, Kind, TchError, Tensor};
use toma::NoCache;
use toma::classify::{Class, Classify as _};
use toma::cuda;
use toma::execute;
use toma::memory::MemorySource as _;
use toma_torch::{Device, QuietBacktraces, RngState};

use crate::PARTS;
use crate::measure::{median, median_of_short, mib};
use crate::table::{Check, Needs, on_gpu, printed_by};

pub(crate) const CHECKS: &[Check] = &[
    Check { name: "libtorch: sees the devices that the driver sees", needs: Needs::Gpu, run: is_visible },
    on_gpu("libtorch: the allocator is limited for these checks", is_limited),
    on_gpu("libtorch: out of memory as an error", as_an_error),
    on_gpu("libtorch: out of memory as a panic, not printed when retried", as_a_panic),
    on_gpu("libtorch: amounts in the text of an out of memory are the counters'", amounts),
    on_gpu("libtorch: out of memory in backward, as an error", || in_backward(false)),
    on_gpu("libtorch: out of memory in backward, as a panic", || in_backward(true)),
    on_gpu("libtorch: the halved sizes, each from the same allocated bytes", halving),
    on_gpu("libtorch: a release lowers reserved, and the driver has more", release),
    on_gpu("libtorch: free counts what the allocator holds back", free_counts_cached),
    on_gpu("libtorch: its device and cudarc's are one memory", one_memory),
    on_gpu("libtorch: a retry draws the same random numbers", random_numbers),
    on_gpu("libtorch: cost of a read and of the counters", reading),
    on_gpu("libtorch: cost of a retry beyond its attempts", retries),
];

const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

fn device() -> Device {
    Device::existing(GPU).unwrap()
}

fn allocated_bytes() -> u64 {
    device().stats().unwrap().allocated_bytes
}

/// The amounts in the error's text: requested bytes, total and free bytes of the driver, the allocator's limit, allocated
/// bytes, and the reserved bytes that are not allocated.
fn amounts() -> String {
    let _held = items(7).unwrap();
    let text = items(400).unwrap_err().to_string();
    let (stats, driver) = (device().stats().unwrap(), cuda::Device::new(0).unwrap().read().unwrap());
    let cached_bytes = stats.reserved_bytes - stats.allocated_bytes;
    let counted = [
        ("Tried to allocate ", 400 * item_bytes()),
        (" has a total capacity of ", driver.total_bytes),
        (" of which ", driver_free()),
        ("Of the allocated memory ", stats.allocated_bytes),
        (" is allocated by PyTorch, and ", cached_bytes),
    ];
    let printed = counted.map(|(words, bytes)| {
        assert!(text.contains(&format!("{words}{}", shown(bytes))), "{words}{}: {text}", shown(bytes));
        shown(bytes)
    });
    assert!(text.contains(&format!("{} allowed; ", shown(limit()))), "{text}");
    format!("{printed:?}")
}

/// Formats bytes as libtorch does.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn shown(bytes: u64) -> String {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let Some((unit, shift)) = units.into_iter().rev().find(|(_, shift)| bytes > 1 << shift) else {
        return format!("{bytes} bytes");
    };
    format!("{:.2} {unit}", bytes as f64 / f64::from(1 << shift))
}

/// The allocator's limit in bytes.
fn limit() -> u64 {
    device().read().unwrap().total_bytes
}

/// A fortieth of the limit, in whole MiB, as the allocator rounds.
fn item_bytes() -> u64 {
    (limit() / 40) & !((2 << 20) - 1)
}

/// Allocates `count` fortieths of the limit.
fn items(count: usize) -> Result<Tensor, TchError> {
    Tensor::f_empty(shape(count), (Kind::Uint8, GPU))
}

fn shape(count: usize) -> [i64; 2] {
    [size(count), i64::try_from(item_bytes()).unwrap()]
}

fn size(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

/// libtorch's CUDA part is linked with this program, or loaded before it by the environment.
fn is_visible() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    assert!(maps.contains("libtorch_cuda.so"), "libtorch's CUDA part is not loaded");
    let count = Cuda::device_count();
    assert!(count > 0, "the driver sees a device, and libtorch none");
    let how = if std::env::var_os("LD_PRELOAD").is_some() { "loaded by LD_PRELOAD" } else { "linked" };
    format!("{count} devices, {how}")
}

fn is_limited() -> String {
    drop(items(30).unwrap());
    assert!(items(50).is_err(), "{} were to be had", mib(50 * item_bytes()));
    device().release_cached_memory();
    format!("{} of {}", mib(limit()), mib(cuda::Device::new(0).unwrap().read().unwrap().total_bytes))
}

fn as_an_error() -> String {
    let (before, ooms) = (allocated_bytes(), device().stats().unwrap().ooms);
    let error = items(100).unwrap_err();
    let failure = error.classify();
    assert_eq!(failure.class, Class::OutOfMemory, "{error}");
    let requested = failure.requested_bytes.expect("the text has the requested bytes");
    let expected = 100 * item_bytes();
    assert!(requested.abs_diff(expected) < expected / 100, "{requested} of {expected}: {error}");
    assert_eq!(device().stats().unwrap().ooms, ooms + 1, "libtorch itself counts it");
    assert_eq!(allocated_bytes(), before);
    failure.message.into_owned()
}

fn as_a_panic() -> String {
    let (before, sizes) = (allocated_bytes(), RefCell::new(Vec::new()));
    let printed = printed_by(|| {
        execute::with::<NoCache>().device(&device()).batch(100, |count| {
            sizes.borrow_mut().push(count);
            drop(Tensor::empty(shape(count), (Kind::Uint8, GPU)));
        });
    });
    assert_eq!((printed, sizes.take()), (0, vec![100, 50, 25]));
    assert_eq!(allocated_bytes(), before);
    "sizes [100, 50, 25]".to_owned()
}

/// Forward takes one part, backward up to three.
fn in_backward(panics: bool) -> String {
    let (before, sizes, forward) = (allocated_bytes(), RefCell::new(Vec::new()), Cell::new(0));
    let weight = Tensor::ones([1024], FLOATS).set_requires_grad(true);
    let rows = usize::try_from(limit() * 6 / 10 / 4096).unwrap();
    let outcome = execute::with::<NoCache>().device(&device()).batch(rows, |rows| -> Result<(), TchError> {
        sizes.borrow_mut().push(rows);
        let wide = weight.unsqueeze(0).expand([size(rows), 1024], false);
        let loss = wide.f_square()?.f_sum(Kind::Float)?;
        forward.set(forward.get() + 1);
        if panics {
            loss.backward();
            return Ok(());
        }
        loss.f_backward()
    });
    outcome.unwrap();
    let sizes = sizes.take();
    assert!(sizes.len() > 1, "backward fitted at once: {sizes:?}");
    assert_eq!(forward.get(), sizes.len(), "forward fits each time: backward is what fails");
    let gradient = weight.grad().double_value(&[7]);
    let expected = 2.0 * f64::from(u32::try_from(sizes[sizes.len() - 1]).unwrap());
    assert!((gradient - expected).abs() < expected * 1e-5, "{gradient} is not of the last attempt alone");
    drop(weight);
    assert_eq!(allocated_bytes(), before, "the weight and its gradient were all there was");
    format!("sizes {sizes:?}")
}

fn halving() -> String {
    let (sizes, levels) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let done = execute::with::<NoCache>().device(&device()).range(0..100, 128, |start, end| {
        levels.borrow_mut().push(allocated_bytes());
        sizes.borrow_mut().push(end - start);
        // The second allocation fails at sizes at which the first one fits.
        let _held = items((end - start) / 2)?;
        items((end - start) / 2).map(drop)
    });
    done.unwrap();
    let (sizes, levels) = (sizes.take(), levels.take());
    assert_eq!(sizes, [100, 50, 25, 25, 25, 25]);
    assert!(levels.iter().all(|level| *level == levels[0]), "{levels:?}");
    format!("sizes {sizes:?}, {} allocated before each", levels[0])
}

/// Free bytes as the driver reports them, without libtorch.
fn driver_free() -> u64 {
    let device = cuda::Device::new(0).unwrap();
    u64::try_from(device.context().mem_get_info().unwrap().0).unwrap()
}

fn release() -> String {
    device().release_cached_memory();
    drop(items(20).unwrap());
    let (reserved, free) = (device().stats().unwrap().reserved_bytes, driver_free());
    device().release_cached_memory();
    let released = reserved - device().stats().unwrap().reserved_bytes;
    let gained = driver_free().saturating_sub(free);
    assert!(released >= 20 * item_bytes(), "{released} of {} released", 20 * item_bytes());
    assert!(gained >= released / 2, "{released} released, {gained} more free");
    format!("{} released, {} more free", mib(released), mib(gained))
}

fn free_counts_cached() -> String {
    device().release_cached_memory();
    let empty = device().read().unwrap().free_bytes;
    let held = items(20).unwrap();
    let full = device().read().unwrap().free_bytes;
    drop(held);
    let cached = device().read().unwrap().free_bytes;
    device().release_cached_memory();
    let taken = 20 * item_bytes();
    assert!(full + taken / 2 < empty, "{full} free of {empty} with {taken} taken");
    assert!(cached.abs_diff(empty) < taken / 2, "{cached} free with {taken} cached, {empty} without");
    format!("{} empty, {} full, {} cached", mib(empty), mib(full), mib(cached))
}

fn one_memory() -> String {
    let (ours, theirs) = (device(), cuda::Device::new(0).unwrap());
    assert_eq!(ours.name(), theirs.name());
    ours.release_cached_memory();
    theirs.release_cached_memory();
    let (ours, theirs) = (ours.read().unwrap(), theirs.read().unwrap());
    // The total is the allocator's share of the device, and the free bytes are at most those of the driver.
    assert!(ours.total_bytes.abs_diff(theirs.total_bytes / PARTS) <= 1, "{ours:?} {theirs:?}");
    assert!(ours.free_bytes <= theirs.free_bytes.min(ours.total_bytes), "{ours:?} {theirs:?}");
    format!("{} free of {}, {} for all", mib(ours.free_bytes), mib(ours.total_bytes), mib(theirs.free_bytes))
}

fn random_numbers() -> String {
    let state = RngState::of(GPU).unwrap();
    let drawn = RefCell::new(Vec::new());
    let done = execute::with::<NoCache>().before_retry(|_| state.restore().unwrap()).batch(50, |count| {
        drawn.borrow_mut().push(Tensor::randn([16], FLOATS));
        items(count).map(drop)
    });
    done.unwrap();
    let drawn = drawn.take();
    assert_eq!(drawn.len(), 2);
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(Tensor::randn([16], FLOATS), drawn[0]);
    format!("{state:?}").chars().take(80).collect()
}

fn reading() -> String {
    let device = device();
    let read = median_of_short(|| _ = device.read().unwrap());
    let stats = median_of_short(|| _ = device.stats().unwrap());
    format!("read {read:.1?}, counters {stats:.1?}")
}

fn retries() -> String {
    let traced = retry();
    let quiet = QuietBacktraces::new();
    let untraced = retry();
    drop(quiet);
    format!("with backtraces {traced}; without {untraced}")
}

/// Two attempts by hand, with toma, and with toma and a release between them.
fn retry() -> String {
    let attempt = |count| items(count).map(drop);
    let hand = median(|| _ = attempt(50).or_else(|_| attempt(25)));
    let ours = median(|| execute::with::<NoCache>().batch(50, attempt).unwrap());
    let device = device();
    let released = median(|| execute::with::<NoCache>().device(&device).batch(50, attempt).unwrap());
    format!("by hand {hand:.1?}, ours {ours:.1?}, with a release {released:.1?}")
}
