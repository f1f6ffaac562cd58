//! The version that libtorch's headers state. The shim uses internals of libtorch, which change between versions without
//! a compile error, so a folder without other marks of its version is checked by its headers.

use std::path::Path;

/// Major and minor version of the libtorch that the shim is written for.
pub(crate) const EXPECTED: [u32; 2] = [2, 11];

/// Files of the include folder that define the version: of libtorch 2.11, and of older ones.
const HEADERS: [&str; 2] = ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"];

/// # Errors
/// For headers of another version, and for those that state none.
pub(crate) fn check(include: &Path) -> Result<(), String> {
    let found =
        HEADERS.iter().find_map(|header| stated(&std::fs::read_to_string(include.join(header)).ok()?));
    let [major, minor] = EXPECTED;
    let found = match found {
        Some(EXPECTED) => return Ok(()),
        Some([major, minor]) => format!("is {major}.{minor}"),
        None => format!("states no version in {}", HEADERS[0]),
    };
    Err(format!(
        "libtorch with headers in {} {found}: toma needs {major}.{minor}; \
         set LIBTORCH_BYPASS_VERSION_CHECK=1 to try yours",
        include.display()
    ))
}

/// Major and minor version that a `version.h` defines.
fn stated(header: &str) -> Option<[u32; 2]> {
    let defined = |name: &str| {
        let mut lines = header.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.find_map(|words| match words[..] {
            ["#define", word, value] if word == name => value.parse().ok(),
            _ => None,
        })
    };
    Some([defined("TORCH_VERSION_MAJOR")?, defined("TORCH_VERSION_MINOR")?])
}
