//! Tests in processes of their own, where freed memory is overwritten.

use std::process::Command;

const IS_CHILD: &str = "TOMA_POISONED";

/// Runs the test of this name in another process, where the C library overwrites freed memory. A crash there is a
/// failure of this test alone.
pub(crate) fn poisoned(name: &str, test: impl FnOnce()) {
    if std::env::var_os(IS_CHILD).is_some() {
        return test();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .envs([(IS_CHILD, "1"), ("GLIBC_TUNABLES", "glibc.malloc.perturb=165")])
        .output()
        .unwrap();
    let [stdout, stderr] =
        [child.stdout, child.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(child.status.success(), "{}: {stdout}\n{stderr}", child.status);
    assert!(stdout.contains("1 passed"), "{stdout}");
    println!("{stdout}");
}
