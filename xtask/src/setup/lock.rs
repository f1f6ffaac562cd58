//! One run at a time of what shares a folder.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use fs4::FileExt;

/// While it lives, no other process has it.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "held for its lock, which ends with it")] File);

impl Lock {
    /// Waits for the process that has it.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let context = || format!("cannot lock {}", path.display());
        let file = File::create(path).with_context(context)?;
        // By their full names: files have methods of these names from Rust 1.89 on.
        if FileExt::try_lock(&file).is_err() {
            eprintln!("waiting for another run, which holds {}", path.display());
            FileExt::lock(&file).with_context(context)?;
        }
        // Children hold the lock too: pip and cargo go on when only their parent is killed, and the next run must
        // wait until they have ended.
        #[cfg(unix)]
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).with_context(context)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use fs4::TryLockError;

    use super::*;
    use crate::tests::Scratch;

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let scratch = Scratch::new("lock");
        let path = scratch.path("lock");
        let held = Lock::take(&path).unwrap();
        let other = File::open(&path).unwrap();
        assert!(matches!(FileExt::try_lock(&other), Err(TryLockError::WouldBlock)));
        drop(held);
        FileExt::try_lock(&other).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn children_hold_the_lock_on() {
        let scratch = Scratch::new("lock-children");
        let path = scratch.path("lock");
        let held = Lock::take(&path).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(held);
        let other = File::open(&path).unwrap();
        assert!(matches!(FileExt::try_lock(&other), Err(TryLockError::WouldBlock)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A child that another test starts may have it for a moment, too.
        FileExt::lock(&other).unwrap();
    }

    #[test]
    fn a_lock_that_cannot_be_made_is_named() {
        let error = Lock::take(Path::new("/nowhere/lock")).unwrap_err().to_string();
        assert_eq!(error, "cannot lock /nowhere/lock");
    }
}
