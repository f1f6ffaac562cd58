//! The C++ compiler, for the bindings of tch and for our own shim.

use std::env;
use std::ffi::OsString;

use anyhow::{Result, ensure};

use crate::project::Project;

/// Fails with the cure where there is none; a build script would say so only after minutes.
pub(super) fn check(project: &Project) -> Result<()> {
    let name = name();
    // Visual Studio's is found by build scripts in ways of their own.
    ensure!(
        cfg!(windows) || project.has(&name),
        "{}: no C++ compiler, which the bindings to libtorch are built with; install one (g++ or clang++) with \
         your system's package manager, or set CXX to yours",
        name.display()
    );
    Ok(())
}

/// The compiler that build scripts take.
pub(crate) fn name() -> OsString {
    env::var_os("CXX").filter(|name| !name.is_empty()).unwrap_or_else(|| "c++".into())
}
