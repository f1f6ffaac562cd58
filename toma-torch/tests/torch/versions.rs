//! The version of libtorch that the build script accepts.

use std::fs;
use std::path::Path;

use crate::version::check;

fn header(folder: &Path, path: &str, major: u32, minor: u32) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(
        "#pragma once\n\n/// Major.\n#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n\
         #define TORCH_VERSION_PATCH 0\n#define TORCH_ABI_VERSION ( \\\n  ((0ULL + TORCH_VERSION_MAJOR) << 56))\n"
    );
    fs::write(path, text).unwrap();
}

#[test]
fn only_the_version_of_the_shim_is_built_with() {
    let folder = tempfile::tempdir().unwrap();
    let refused = check(folder.path()).unwrap_err();
    assert!(refused.contains("states no version in torch/headeronly/version.h"), "{refused}");
    header(folder.path(), "torch/csrc/api/include/torch/version.h", 2, 8);
    let refused = check(folder.path()).unwrap_err();
    assert!(refused.contains("is 2.8: toma needs 2.11; set LIBTORCH_BYPASS_VERSION_CHECK=1"), "{refused}");
    for (major, minor, is_taken) in [(2, 11, true), (2, 12, false), (3, 11, false), (2, 1, false)] {
        header(folder.path(), "torch/headeronly/version.h", major, minor);
        assert_eq!(check(folder.path()).is_ok(), is_taken, "{major}.{minor}");
    }
}
