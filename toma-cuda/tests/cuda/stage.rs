//! Helpers that the tests share: the double, the process it is loaded in, and requests to it.

#![expect(
    unsafe_code,
    reason = "functions of a library that is loaded at run time can be had in no other way"
)]

use std::any::type_name;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaSlice, CudaStream, DriverError};
use libloading::Library;
use tempfile::TempDir;
use toma_cuda::Device;

use crate::function::{Function, Request};

/// The variable that names a folder with a precompiled library, for machines without a compiler.
const COMPILED: &str = "CUDA_DOUBLE";

const CHILD: &str = "CUDA_DOUBLE_CHILD";

/// The double in this process.
#[derive(Debug)]
pub(crate) struct Double(Library);

/// Runs `test` in a process that has the double as its driver.
///
/// The test's name is that of the function in which `test` is written.
#[track_caller]
pub(crate) fn with_double<F: FnOnce(&Double)>(test: F) {
    run::<F, _>(folder, || test(&Double::loaded()));
}

/// Runs `test` with the double, device 0, and the stream that everything runs on.
#[track_caller]
pub(crate) fn with_device<F: FnOnce(&Double, &Device, &Arc<CudaStream>)>(test: F) {
    run::<F, _>(folder, || {
        let (double, device) = (Double::loaded(), Device::new(0).unwrap());
        test(&double, &device, &device.context().default_stream());
    });
}

/// Runs `test` in a process in which no driver can be loaded.
#[track_caller]
pub(crate) fn without_driver<F: FnOnce()>(test: F) {
    run::<F, _>(broken_folder, test);
}

/// Runs `test`, which is written where `F` is, in a process of its own with this loader path.
#[track_caller]
fn run<F, P: AsRef<Path>>(loader_path: impl FnOnce() -> P, test: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        return test();
    }
    let output = child(test_name::<F>(), loader_path().as_ref());
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// The path of the function in which `F` is written, without this program's name.
fn test_name<F>() -> &'static str {
    let path = type_name::<F>().trim_end_matches("::{{closure}}");
    path.split_once("::").expect("the path of a function in this program").1
}

#[track_caller]
fn child(test: &str, loader_path: &Path) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD, "1").env("LD_LIBRARY_PATH", loader_path);
    for unset in ["LD_PRELOAD", "TOMA_LOG", "TOMA_DISABLE", "TOMA_INJECT", "RUST_TEST_THREADS"] {
        command.env_remove(unset);
    }
    let output = command.env("RUST_BACKTRACE", "0").output().expect("this program can be started again");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(stdout.contains("running 1 test"), "{test}: no such test\n{stdout}");
    assert!(output.status.success(), "{test}: {}\n{stdout}{stderr}", output.status);
    output
}

/// The folder that holds only the double.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| env::var_os(COMPILED).map_or_else(compiled, PathBuf::from))
}

/// Compiles the double and moves it into place in one step, because another run of these tests may be loading it.
fn compiled() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cuda-double");
    fs::create_dir_all(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda/double.rs");
    let library = folder.join(format!("new-{}", std::process::id()));
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(&rustc);
    command.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda", source, "-o"]).arg(&library);
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", rustc.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(library, folder.join("libcuda.so")).unwrap();
    folder
}

/// A folder with files of every name that cudarc looks for, none of them a library. The first match on the loader path
/// is loaded, so a driver of this machine is not found either.
fn broken_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cuda", "nvcuda"].iter().flat_map(|name| cudarc::get_lib_name_candidates(name)) {
        fs::write(folder.path().join(name), "no library").unwrap();
    }
    folder
}

impl Double {
    /// The driver of this process, which is the double or nothing.
    fn loaded() -> Self {
        // SAFETY: the library runs nothing when it is loaded.
        let library = unsafe { Library::new("libcuda.so") }.expect("the double is on the loader path");
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let loaded = maps.lines().find(|line| line.contains("libcuda.so")).expect("it is loaded");
        println!("driver: a test double, {}", loaded.split_whitespace().last().unwrap_or(loaded));
        let double = Self(library);
        double.ask(Request::UsedBytes);
        double
    }

    /// Sets the total memory.
    pub(crate) fn set_total(&self, bytes: u64) {
        self.ask(Request::SetTotal(bytes));
    }

    /// Lets the call of this function after `skip` more fail once.
    pub(crate) fn fail(&self, function: Function, skip: u32, code: CUresult) {
        self.ask(Request::Fail(function, skip, code as u32));
    }

    /// Lets every call fail from now on.
    pub(crate) fn poison(&self, code: CUresult) {
        self.ask(Request::Poison(code as u32));
    }

    pub(crate) fn calls(&self, function: Function) -> u64 {
        self.ask(Request::Calls(function))
    }

    pub(crate) fn ask(&self, request: Request) -> u64 {
        // SAFETY: the signature is that of `double.rs`, beside this file.
        let answer = unsafe { self.0.get::<extern "C" fn(Request) -> u64>(b"double_answer") };
        // A real driver has no such function.
        answer.expect("a function of the double")(request)
    }
}

/// Allocates zeros on the device. Elements are bytes, so that a length is a size.
pub(crate) fn zeros(stream: &Arc<CudaStream>, len: usize) -> Result<CudaSlice<u8>, DriverError> {
    stream.alloc_zeros(len)
}
