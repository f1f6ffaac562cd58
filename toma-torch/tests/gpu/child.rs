//! Checks that leave a process unusable, or that have to be its first use of a library.

#![expect(unsafe_code, reason = "memory that is to be gone is taken from the driver directly")]

use std::cell::Cell;
use std::env;
use std::process::Command;

use cudarc::driver::result;
use cudarc::driver::sys::CUdeviceptr;
use tch::{Kind, TchError, Tensor};
use toma::NoCache;
use toma::classify::{Class, Classify as _};
use toma::cuda;
use toma::execute;
use toma::memory::MemorySource as _;
use toma_torch::Device;

use crate::table::{Check, Needs};
use crate::{card, profile, retry};

pub(crate) const CHECKS: &[Check] = &[
    Check { name: "libtorch: a poisoned context is not retried", needs: Needs::Libtorch, run: poisoned },
    Check { name: "libtorch: first use of cuBLAS with little memory", needs: Needs::Libtorch, run: cublas },
    Check { name: "libtorch: first use of cuDNN with little memory", needs: Needs::Cudnn, run: cudnn },
];

pub(crate) const TASK: &str = "TOMA_GPU_CHILD";
const GPU: tch::Device = tch::Device::Cuda(0);
const FLOATS: (Kind, tch::Device) = (Kind::Float, GPU);

/// MiB that are left to the libraries. Handles and kernels take tens of MiB.
const LITTLE: [usize; 4] = [4, 16, 64, 256];

/// The task that this process was started for.
pub(crate) fn task() -> Option<String> {
    env::var(TASK).ok()
}

pub(crate) fn work(task: &str) {
    match task.split_once(' ') {
        Some(("cublas", left)) => with_little(left, || square().f_matmul(&square())),
        Some(("cudnn", left)) => with_little(left, convolution),
        Some(("card", task)) => card::work(task),
        Some(("retry", task)) => retry::work(task),
        Some(("profile", "late")) => profile::free_late(),
        Some(("profile", "snapshot")) => profile::compare_snapshots(),
        Some(("profile", _)) => profile::replay(),
        _ => poison(),
    }
}

/// Runs a task in a child and returns its last word. The process may well crash after that, because nothing of CUDA can
/// be shut down in a context that is lost.
fn child(task: &str) -> String {
    answer(&mut card::this(task, &[]))
}

/// Returns the answer of a process that was started for a task.
pub(crate) fn answer(process: &mut Command) -> String {
    let output = process.output().expect("this program can be started again");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let answer = stdout.lines().find_map(|line| line.strip_prefix("answer: ")).map(str::to_owned);
    answer.unwrap_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let message = stderr.lines().filter(|line| !line.contains("Assertion")).collect::<Vec<_>>().join(" ");
        panic!("{process:?}: {}: {message}", output.status)
    })
}

fn poisoned() -> String {
    child("poisoned")
}

/// Uses an index out of range, which a kernel of libtorch asserts on the device.
fn poison() {
    let data = Tensor::zeros([4], FLOATS);
    let index = Tensor::from_slice(&[100_i64]).to_device(GPU);
    let (attempts, device) = (Cell::new(0), Device::new(GPU));
    let error = execute::with::<NoCache>()
        .device(&device)
        .batch(64, |_| {
            attempts.set(attempts.get() + 1);
            data.f_index_select(0, &index)?.f_to_kind(Kind::Double)?.f_to(tch::Device::Cpu)
        })
        .expect_err("an index is out of range");
    assert_eq!(error.classify().class, Class::Poisoned, "{error}");
    assert_eq!(attempts.get(), 1);
    // cudarc shares this context and reports the error code.
    let context = cuda::Device::new(0).map_err(|error| error.classify().class);
    let code = match context {
        Ok(device) => {
            let code = device.context().synchronize().expect_err("the context is lost");
            assert_eq!(code.classify().class, Class::Poisoned, "{code}");
            device.release_cached_memory();
            format!("{:?}", code.0)
        }
        Err(class) => {
            assert_eq!(class, Class::Poisoned);
            "no device of cudarc any more".to_owned()
        }
    };
    println!("answer: {}; cudarc: {code}", error.classify().message);
}

fn cublas() -> String {
    in_all_sizes("cublas")
}

fn cudnn() -> String {
    if !tch::Cuda::cudnn_is_available() {
        return "this libtorch has no cuDNN".to_owned();
    }
    in_all_sizes("cudnn")
}

fn in_all_sizes(library: &str) -> String {
    let answer = |left: &usize| format!("{left} MiB: {}", child(&format!("{library} {left}")));
    LITTLE.iter().map(answer).collect::<Vec<_>>().join("; ")
}

fn square() -> Tensor {
    Tensor::ones([256, 256], FLOATS)
}

fn convolution() -> Result<Tensor, TchError> {
    let (image, weight) = (Tensor::ones([4, 16, 64, 64], FLOATS), Tensor::ones([16, 16, 3, 3], FLOATS));
    image.f_conv2d(&weight, None::<&Tensor>, [1, 1], [1, 1], [1, 1], 1)
}

/// Runs `work` for the first time when the driver has `left` MiB, and again when it has all its memory.
fn with_little(left: &str, work: impl Fn() -> Result<Tensor, TchError>) {
    // The tensors are made before, because the library is to fail, not the tensors.
    let warm = (square(), Tensor::ones([4, 16, 64, 64], FLOATS), Tensor::ones([16, 16, 3, 3], FLOATS));
    tch::Cuda::synchronize(0);
    drop(warm);
    let left = left.parse::<usize>().expect("a number of MiB") << 20;
    let ballast = ballast(left);
    let first = settled(&work);
    drop(ballast);
    let class = match &first {
        Ok(()) => "works".to_owned(),
        Err(error) => {
            let failure = error.classify();
            let (class, message) = (failure.class, failure.message);
            assert!(matches!(class, Class::OutOfMemory | Class::Transient), "{class}: {error}");
            format!("{class} ({message})")
        }
    };
    settled(&work).unwrap_or_else(|error| panic!("{class}, and still with all memory: {error}"));
    println!("answer: {class}");
}

/// Waits for the kernels of `work`, because they fail only then.
fn settled(work: impl Fn() -> Result<Tensor, TchError>) -> Result<(), TchError> {
    work()?.f_to(tch::Device::Cpu).map(drop)
}

/// Memory that is held so that others cannot use it.
struct Ballast {
    device: cuda::Device,
    held: Vec<CUdeviceptr>,
}

/// Takes all memory but `left` bytes from the driver directly, because pools take it in larger pieces.
fn ballast(left: usize) -> Ballast {
    let mut ballast = Ballast { device: cuda::Device::new(0).unwrap(), held: Vec::new() };
    let mut size = usize::MAX;
    loop {
        size = size.min(ballast.device.context().mem_get_info().unwrap().0.saturating_sub(left));
        if size < 1 << 20 {
            return ballast;
        }
        // SAFETY: the returned memory is never read, and freed once.
        match unsafe { result::malloc_sync(size) } {
            Ok(address) => ballast.held.push(address),
            Err(_) => size /= 2,
        }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        self.device.context().bind_to_thread().unwrap();
        for address in self.held.drain(..) {
            // SAFETY: it was allocated above, and leaves the list here.
            unsafe { result::free_sync(address) }.unwrap();
        }
    }
}
