use super::*;

/// A folder of this test's own, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("xtask-libtorch-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cpu(&self) -> Installation {
        Installation { root: self.0.clone(), build: Build::Cpu }
    }

    /// What pip leaves behind.
    fn unpacked(name: &str) -> Self {
        let scratch = Self::new(name);
        let packages = "venv/lib/python3.12/site-packages";
        for library in ["libc10.so", "libtorch_cpu.so", "libtorch.so", "libtorch_cuda.so", "libgomp.so.1"] {
            scratch.file(&format!("{packages}/torch/lib/{library}"), library);
        }
        scratch.file(&format!("{packages}/torch/include/c10/x.h"), "");
        scratch.file(&format!("{packages}/torch/version.py"), "__version__ = '2.11.0+cu130'\n");
        for library in ["libcudart.so.13", "libcupti.so.13"] {
            scratch.file(&format!("{packages}/nvidia/cu13/lib/{library}"), library);
        }
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_folder_of_links_shows_the_cpu_part_alone() {
    let scratch = Scratch::unpacked("links");
    let cpu = scratch.cpu();
    cpu.check_version().unwrap();
    // Twice: a run that was interrupted after it must not stumble over its own links.
    for _ in 0..2 {
        cpu.link().unwrap();
    }
    let read = |name: &str| fs::read_to_string(scratch.0.join(name)).unwrap();
    assert_eq!(read("libtorch/lib/libtorch.so"), "libtorch_cpu.so");
    assert_eq!(read("libtorch/build-version"), VERSION);
    assert_eq!(read("runtime/libcudart.so.13"), "libcudart.so.13");
    assert!(scratch.0.join("libtorch/include/c10/x.h").exists());
    assert!(!scratch.0.join("libtorch/lib/libtorch_cuda.so").exists());
}

#[test]
fn an_installation_is_complete_with_its_stamp_and_its_libraries_alone() {
    let scratch = Scratch::unpacked("stamp");
    let cpu = scratch.cpu();
    cpu.link().unwrap();
    assert!(!cpu.is_complete(), "no stamp yet");
    scratch.file("stamp", &Build::Cuda.stamp());
    assert!(!cpu.is_complete(), "another build's stamp");
    scratch.file("stamp", &Build::Cpu.stamp());
    assert!(cpu.is_complete());
    fs::remove_dir_all(scratch.0.join("venv")).unwrap();
    assert!(!cpu.is_complete(), "the links lead nowhere");
}

#[test]
fn another_version_and_missing_libraries_are_named() {
    let scratch = Scratch::unpacked("wrong");
    let packages = scratch.0.join("venv/lib/python3.12/site-packages");
    fs::write(packages.join("torch/version.py"), "__version__ = '2.10.0'\n").unwrap();
    let error = scratch.cpu().check_version().unwrap_err().to_string();
    assert!(error.contains("2.10.0") && error.contains(VERSION), "{error}");
    fs::remove_file(packages.join("nvidia/cu13/lib/libcupti.so.13")).unwrap();
    let error = scratch.cpu().link().unwrap_err().to_string();
    assert!(error.contains("libcupti.so.13"), "{error}");
    fs::remove_dir_all(packages.join("torch")).unwrap();
    assert_eq!(scratch.cpu().link().unwrap_err().to_string(), "pip installed no torch");
}
