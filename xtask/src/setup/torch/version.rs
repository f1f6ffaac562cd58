//! Which libtorch it is that stands somewhere.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

/// The libtorch that tch 0.24 is made for.
pub(super) const VERSION: &str = "2.11.0";

/// The Python there are packages for.
pub(super) const PYTHON: &str = "Python 3.10 to 3.14";

/// How tch is told to take any version.
const BYPASS: &str = "LIBTORCH_BYPASS_VERSION_CHECK";

/// Fails when it is known to be another version, which tch refuses after minutes of compiling, or
/// does not compile with at all.
pub(super) fn check(variable: &str, found: Option<&str>) -> Result<()> {
    check_unless(std::env::var_os(BYPASS).is_some(), variable, found)
}

fn check_unless(bypassed: bool, variable: &str, found: Option<&str>) -> Result<()> {
    // What comes after a plus sign is the build, as in `2.11.0+cu130`.
    let other = found.filter(|version| version.split('+').next() != Some(VERSION));
    let Some(version) = other.filter(|_| !bypassed) else { return Ok(()) };
    bail!(
        "{variable}: libtorch {version}, {VERSION} is needed; unset the variable to have that installed, or \
         set {BYPASS}=1 to try yours"
    )
}

/// The version that a libtorch, or the folder of an installed PyTorch, states.
pub(super) fn stated(libtorch: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(libtorch.join(name)).ok();
    let build = read("build-version").map(|version| version.trim().to_owned());
    build.filter(|version| !version.is_empty()).or_else(|| in_python(&read("version.py")?).map(str::to_owned))
}

/// The version in PyTorch's `version.py`.
fn in_python(text: &str) -> Option<&str> {
    let value = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    let quoted = value.split(['\'', '"']).nth(1)?;
    (!quoted.is_empty()).then_some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn versions_are_read_and_compared_without_their_local_part() {
        let text = "from typing import Optional\n\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        assert_eq!(in_python(text), Some("2.11.0+cu130"));
        assert_eq!(in_python("__version__ = \"2.11.0\"\n"), Some("2.11.0"));
        for wrong in ["", "__version__", "__version__ = ''", "x = '2.11.0'"] {
            assert_eq!(in_python(wrong), None, "{wrong}");
        }
        let check = |version| check_unless(false, "LIBTORCH", Some(version));
        assert!(check("2.11.0+cu130").is_ok() && check("2.11.0").is_ok());
        for other in ["2.11.01", "2.1", "", "+2.11.0", "2.11.0a1"] {
            assert!(check(other).is_err(), "{other}");
        }
    }

    #[test]
    fn each_place_is_looked_at() {
        let scratch = Scratch::new("version");
        let stated = || stated(scratch.root());
        assert_eq!(stated(), None);
        scratch.file("version.py", "__version__ = '2.3.0+cpu'\n");
        assert_eq!(stated().as_deref(), Some("2.3.0+cpu"));
        scratch.file("build-version", "2.4.0+cpu\n");
        assert_eq!(stated().as_deref(), Some("2.4.0+cpu"));
    }

    #[test]
    fn another_version_is_refused_unless_that_is_lifted() {
        let error = check_unless(false, "LIBTORCH", Some("2.10.0+cu128")).unwrap_err().to_string();
        assert!(error.starts_with("LIBTORCH: libtorch 2.10.0+cu128, 2.11.0 is needed"), "{error}");
        for (bypassed, found) in [(true, Some("2.10.0")), (false, Some("2.11.0+cpu")), (false, None)] {
            assert!(check_unless(bypassed, "LIBTORCH", found).is_ok(), "{found:?}");
        }
    }
}
