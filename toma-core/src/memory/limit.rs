//! A limit on the memory of this process, set and removed while it runs.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::kernel_file::address_space_bytes;

/// A limit on this process's address space that ends when this guard is dropped.
///
/// Guards may overlap and end in any order: the limit of the newest live guard is active, and after the last guard
/// the limit from before the first.
///
/// ```
/// # extern crate toma_core as toma;
/// # #[cfg(target_os = "linux")] {
/// use toma::memory::{set_cpu_memory_limit, used_bytes};
///
/// let is_refused = || Vec::<u8>::new().try_reserve_exact(512 << 20).is_err();
/// let limit = set_cpu_memory_limit(used_bytes()? + (256 << 20))?;
/// assert!(is_refused());
/// drop(limit);
/// assert!(!is_refused());
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the limit ends when this guard is dropped"]
#[derive(Debug)]
pub struct CpuMemoryLimit {
    bytes: Arc<u64>,
}

/// The limits of all live guards, oldest first, and the limit before them.
#[derive(Debug)]
struct Limits {
    before: Option<u64>,
    living: Vec<Arc<u64>>,
}

/// Limits the address space of this process to `bytes` in total until the returned guard is dropped.
///
/// Work on the host then runs out of memory as it would on a smaller machine, instead of driving the machine into
/// swap or being killed by the kernel. Allocations beyond the limit fail: those that report failure, such as
/// `Vec::try_reserve_exact`, can be retried with a smaller size, while an ordinary `Vec` that grows too large
/// aborts the program. Linux enforces the limit; other systems may ignore it.
///
/// The limit is the soft `RLIMIT_AS`, and replaces also a lower one. It counts *address space*, not resident
/// memory: every mapping counts in full from its reservation on, touched or not, and so do threads' stacks (2 MiB
/// for each thread by default) and the memory that the allocator holds back. So choose a limit relative to the
/// bytes [in use](used_bytes).
///
/// A GPU's driver may reserve address ranges of many GiB when it starts, and fail to start under a small limit:
/// initialize it first, then read the bytes in use, then set the limit.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::memory::{set_cpu_memory_limit, used_bytes};
///
/// # #[cfg(target_os = "linux")] {
/// let limit = set_cpu_memory_limit(used_bytes()? + (256 << 20))?;
/// let too_large = Vec::<u8>::new().try_reserve_exact(512 << 20);
/// limit.restore()?;
/// assert!(too_large.is_err());
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If `bytes` is above the hard limit or below the bytes [in use](used_bytes), or if the system has no such limit.
/// Nothing is changed then.
pub fn set_cpu_memory_limit(bytes: u64) -> io::Result<CpuMemoryLimit> {
    let mut limits = limits();
    // Below the used bytes every allocation would fail, and those that cannot report the failure would abort.
    let used = used_bytes().unwrap_or(0);
    if bytes < used {
        return Err(invalid(format!(
            "cannot limit memory to {bytes} bytes: {used} bytes are in use already"
        )));
    }
    let before = rlimit::set_soft(Some(bytes))?;
    if limits.living.is_empty() {
        limits.before = before;
    }
    let bytes = Arc::new(bytes);
    limits.living.push(Arc::clone(&bytes));
    Ok(CpuMemoryLimit { bytes })
}

/// Bytes of address space that this process uses now, as the limit counts them.
///
/// ```
/// # extern crate toma_core as toma;
/// # #[cfg(target_os = "linux")] {
/// use toma::memory::used_bytes;
///
/// let before = used_bytes()?;
/// let buffer = vec![0_u8; 64 << 20];
/// assert!(used_bytes()? >= before + (64 << 20));
/// # drop(buffer);
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If `/proc/self/status` cannot be read; only Linux has it.
pub fn used_bytes() -> io::Result<u64> {
    address_space_bytes(Path::new("/proc/self/status"), &mut Vec::new())
}

impl CpuMemoryLimit {
    /// Ends the limit now and returns failures, which dropping the guard cannot do.
    ///
    /// # Errors
    /// If the system refuses to restore the previous limit, because the hard limit was lowered below it meanwhile.
    pub fn restore(self) -> io::Result<()> {
        end(&self.bytes)
    }
}

impl Drop for CpuMemoryLimit {
    fn drop(&mut self) {
        // A destructor returns nothing; `restore` reports a failure.
        let _ = end(&self.bytes);
    }
}

/// Removes a limit. If it was the active one, the newest of the others becomes active. Does nothing the second
/// time.
fn end(limit: &Arc<u64>) -> io::Result<()> {
    let mut limits = limits();
    let is_newest = limits.living.last().is_some_and(|newest| Arc::ptr_eq(newest, limit));
    limits.living.retain(|other| !Arc::ptr_eq(other, limit));
    if is_newest {
        let bytes = limits.living.last().map_or(limits.before, |limit| Some(**limit));
        rlimit::set_soft(bytes)?;
    }
    Ok(())
}

/// Locked while the limit of the process is changed, so that the newest guard's limit is always the active one.
fn limits() -> MutexGuard<'static, Limits> {
    static LIMITS: Mutex<Limits> = Mutex::new(Limits { before: None, living: Vec::new() });
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(unix)]
pub(super) mod rlimit {
    use std::io;

    use rlimit::{INFINITY, Resource};

    /// Returns the current soft limit; `None` if there is none.
    pub(in super::super) fn soft() -> Option<u64> {
        Resource::AS.get_soft().ok().filter(|&bytes| bytes != INFINITY)
    }

    /// Sets the soft limit, `None` for none, and returns the previous one.
    pub(super) fn set_soft(bytes: Option<u64>) -> io::Result<Option<u64>> {
        let (before, hard) = (soft(), Resource::AS.get_hard()?);
        if bytes.unwrap_or(INFINITY) > hard {
            let wanted = bytes.map_or_else(|| "any number of".to_owned(), |bytes| bytes.to_string());
            let text = format!("cannot limit memory to {wanted} bytes: the hard limit is {hard} bytes");
            return Err(super::invalid(text));
        }
        Resource::AS.set(bytes.unwrap_or(INFINITY), hard)?;
        Ok(before)
    }
}

#[cfg(not(unix))]
pub(super) mod rlimit {
    use std::io;

    pub(in super::super) fn soft() -> Option<u64> {
        None
    }

    pub(super) fn set_soft(_: Option<u64>) -> io::Result<Option<u64>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot limit the memory of a process"))
    }
}
