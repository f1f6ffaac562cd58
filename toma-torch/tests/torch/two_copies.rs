//! Two copies of the shim in one process, as in a program that loads two libraries which each contain this package. The
//! second one to register with libtorch gets an error, and the first one keeps working.

#![expect(unsafe_code, reason = "loads the second copy, and calls it")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::{env, mem};

use tch::{Kind, Tensor};
use toma_torch::offload::Manager;
use toma_torch::{Device, Error, ErrorKind, checkpoint, predict};

use crate::stage::in_child;

const UNSUPPORTED: i32 = 3;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Fallible = extern "C" fn(&mut [u8; 512]) -> i32;
type Begin = extern "C" fn(bool, &mut *mut c_void, &mut [u8; 512]) -> i32;

/// Another copy of the shim, from the same object files.
struct Copy(*mut c_void);

impl Copy {
    fn load() -> Self {
        let built = PathBuf::from(env!("OUT_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libcopy.so");
        let mut linker = Command::new(env::var_os("CXX").unwrap_or_else(|| "c++".into()));
        linker.args(["-shared", "-Wl,-Bsymbolic", "-o"]).arg(&library);
        linker.arg("-Wl,--whole-archive").arg(built.join("libtoma_torch_shim.a"));
        assert!(linker.arg("-Wl,--no-whole-archive").status().unwrap().success());
        let path = CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero. 2 is RTLD_NOW, and names stay local without RTLD_GLOBAL.
        let library = unsafe { dlopen(path.as_ptr(), 2) };
        assert!(!library.is_null());
        Self(library)
    }

    fn symbol(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded, and the name ends with a zero.
        let symbol = unsafe { dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null());
        symbol
    }

    fn install_regions(&self) {
        // SAFETY: it has this signature in `shim.h`.
        let install: extern "C" fn() = unsafe { mem::transmute(self.symbol("toma_region_install")) };
        install();
    }

    /// Returns the code and the message of entering a manager.
    fn register(&self) -> (i32, String) {
        // SAFETY: it has this signature in `shim.h`.
        let register: Fallible = unsafe { mem::transmute(self.symbol("toma_offload_register")) };
        let mut error = [0; 512];
        (register(&mut error), text(&error))
    }

    /// Returns the code and the message of a dry run, which is left open on a thread that ends.
    fn dry_run(&self) -> (i32, String) {
        // SAFETY: it has this signature in `shim.h`.
        let begin: Begin = unsafe { mem::transmute(self.symbol("toma_dry_begin")) };
        let run = move || {
            let (mut recorder, mut error) = (std::ptr::null_mut(), [0; 512]);
            (begin(false, &mut recorder, &mut error), text(&error))
        };
        std::thread::spawn(run).join().unwrap()
    }
}

fn text(error: &[u8; 512]) -> String {
    String::from_utf8_lossy(error).trim_end_matches('\0').to_owned()
}

fn manager() -> Manager {
    Manager::new(&Device::new(tch::Device::Cpu)).min_bytes(1)
}

/// Makes a prediction by a dry run.
fn predicted() -> Result<(), Error> {
    let zeros = |size: usize| {
        drop(Tensor::zeros([i64::try_from(size).unwrap(), 1000], (Kind::Float, tch::Device::Cpu)));
    };
    predict(&Device::new(tch::Device::Cpu), zeros).map(drop)
}

fn gradient_in_a_region() -> f64 {
    let x = Tensor::ones([4], (Kind::Double, tch::Device::Cpu)).set_requires_grad(true);
    checkpoint::region(|| x.square().square()).sum(Kind::Double).backward();
    assert!(checkpoint::last().is_some());
    x.grad().double_value(&[0])
}

#[test]
fn a_second_copy_gets_an_error_and_the_first_works_on() {
    if !in_child("two_copies::a_second_copy_gets_an_error_and_the_first_works_on") {
        return;
    }
    let manager = manager();
    let entered = manager.enter().unwrap();
    predicted().unwrap();
    let copy = Copy::load();
    copy.install_regions();
    for (code, words) in [copy.register(), copy.dry_run()] {
        assert_eq!(code, UNSUPPORTED);
        assert!(words.contains("another copy of toma"), "{words}");
    }
    assert_eq!(gradient_in_a_region(), 4.0);
    drop(entered);
    assert_eq!(gradient_in_a_region(), 4.0);
}

#[test]
fn calls_after_another_copy_are_refused_by_name() {
    if !in_child("two_copies::calls_after_another_copy_are_refused_by_name") {
        return;
    }
    let copy = Copy::load();
    for (code, words) in [copy.register(), copy.dry_run()] {
        assert_eq!((code, &*words), (0, ""));
    }
    for error in [manager().enter().unwrap_err(), predicted().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("another copy of toma"), "{error}");
    }
    let x = Tensor::ones([4], (Kind::Double, tch::Device::Cpu)).set_requires_grad(true);
    x.square().sum(Kind::Double).backward();
    assert_eq!(x.grad().double_value(&[0]), 2.0);
}
