//! Compiles the shim against the libtorch that torch-sys found.

mod version;

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rustc-check-cfg=cfg(libtorch_has_cuda)");
    if std::env::var_os("CARGO_FEATURE_DOC_ONLY").is_some() {
        return;
    }
    // torch-sys reports where, and only to packages that depend on it directly. Without a libtorch it
    // has failed before with a message of its own.
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys reports where libtorch is");
    let include = include_folder(Path::new(&lib));
    if variable("LIBTORCH_BYPASS_VERSION_CHECK").is_none() {
        version::check(&include).unwrap_or_else(|refused| panic!("{refused}"));
    }
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=shim");
    let abi = variable("LIBTORCH_CXX11_ABI").unwrap_or_else(|| "1".to_owned());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("shim/shim.cpp")
        // Not ours to mend: warnings in libtorch's headers.
        .flag("-isystem")
        .flag(&include)
        // Names of CUDA that they use, where there is none.
        .include("shim/cuda")
        .flag("-Wno-unused-parameter")
        // As libtorch was compiled: without it some of its types have other members.
        .define("NDEBUG", None)
        // Where there is debug information, lines: that of libtorch's templates would take most of the time.
        .flags(std::env::var("DEBUG").is_ok_and(|level| level != "false").then_some("-g1"))
        .define("_GLIBCXX_USE_CXX11_ABI", &*abi)
        .compile("toma_torch_shim");
    // After our own library, because linkers resolve from left to right.
    println!("cargo:rustc-link-search=native={lib}");
    if Path::new(&lib).join("libtorch_cuda.so").exists() {
        println!("cargo:rustc-cfg=libtorch_has_cuda");
        println!("cargo:rustc-link-lib=dylib=torch_cuda");
    }
    println!("cargo:rustc-link-lib=dylib=torch_cpu");
    println!("cargo:rustc-link-lib=dylib=c10");
}

/// Folder in which torch-sys looks for headers, which it does not report: a Python's are beside its libraries, and
/// elsewhere a variable may give another folder.
fn include_folder(lib: &Path) -> PathBuf {
    let of_python = variable("LIBTORCH_USE_PYTORCH").is_some();
    let given = variable("LIBTORCH_INCLUDE").or_else(|| variable("LIBTORCH")).filter(|_| !of_python);
    let include = given.map_or_else(|| lib.join("../include"), |root| Path::new(&root).join("include"));
    let header = include.join("c10/core/CachingDeviceAllocator.h");
    assert!(
        header.exists(),
        "libtorch in {}: {} is missing; libtorch 2.11.0 is needed with its headers",
        lib.display(),
        header.display()
    );
    include
}

fn variable(name: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed={name}");
    std::env::var(name).ok()
}
