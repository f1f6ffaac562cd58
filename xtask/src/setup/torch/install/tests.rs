use super::*;
use crate::tests::Scratch;

const PACKAGES: &str = "venv/lib/python3.12/site-packages";

/// What pip leaves behind.
fn unpacked(name: &str) -> (Scratch, Installation, PathBuf) {
    let scratch = Scratch::new(name);
    for library in ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_cuda.so", "libgomp.so.1"] {
        scratch.file(&format!("{PACKAGES}/torch/lib/{library}"), library);
    }
    scratch.file(&format!("{PACKAGES}/torch/include/c10/x.h"), "");
    for library in ["libcudart.so.13", "libcupti.so.13"] {
        scratch.file(&format!("{PACKAGES}/nvidia/cu13/lib/{library}"), library);
    }
    let cpu = Installation { root: scratch.root().to_owned(), build: Build::Cpu };
    let packages = scratch.path(PACKAGES);
    (scratch, cpu, packages)
}

#[test]
fn the_folder_of_links_shows_the_cpu_part_alone() {
    let (scratch, cpu, packages) = unpacked("links");
    // Twice: a run that was interrupted after it must not stumble over its own links.
    for _ in 0..2 {
        cpu.link(&packages).unwrap();
    }
    let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
    assert_eq!(read("libtorch/lib/libtorch.so"), "libtorch_cpu.so");
    assert_eq!(read("libtorch/build-version"), VERSION);
    assert_eq!(read("runtime/libcudart.so.13"), "libcudart.so.13");
    assert!(scratch.path("libtorch/include/c10/x.h").exists());
    assert!(!scratch.path("libtorch/lib/libtorch_cuda.so").exists());
}

#[test]
fn an_installation_is_complete_with_its_stamp_and_its_libraries_alone() {
    let (scratch, cpu, packages) = unpacked("stamp");
    cpu.link(&packages).unwrap();
    assert!(!cpu.packages().is_complete(), "no stamp yet");
    scratch.file("stamp", "torch==2.11.0\n");
    assert!(!cpu.packages().is_complete(), "another build's stamp");
    scratch.file("stamp", &Build::Cpu.requirements());
    assert!(cpu.packages().is_complete());
    fs::remove_dir_all(scratch.path("venv")).unwrap();
    assert!(!cpu.packages().is_complete(), "the links lead nowhere");
}
