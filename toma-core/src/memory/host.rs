//! The memory of the host, under every limit that applies to this process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::cgroup::{self, ControlGroup};
use super::kernel_file::{KernelFile, address_space_bytes};
use super::limit::rlimit;
use super::{MemorySource, Reading};

/// The memory of the host, as far as this process may use it.
///
/// Free bytes are the smallest of
/// - `MemAvailable` of `/proc/meminfo`,
/// - for each control group (version 1 and 2) from the process's own up to the topmost visible one: its limit less
///   its used bytes, not counting file pages that the kernel can reclaim,
/// - the soft address-space limit (`RLIMIT_AS`) less the address space in use.
///
/// Total bytes are the smallest of `MemTotal` and those limits. Swap counts as no memory.
///
/// An error of a reading names the file of the kernel that cannot be read or has unexpected content. It is of kind
/// [`Unsupported`](io::ErrorKind::Unsupported) if there is no `/proc/meminfo`.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::memory::{Host, MemorySource};
///
/// assert_eq!(Host::shared().name(), "host");
/// # #[cfg(target_os = "linux")]
/// println!("{} bytes free", Host::shared().read()?.free_bytes);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Host {
    root: PathBuf,
    meminfo: PathBuf,
    membership: PathBuf,
    status: PathBuf,
    address_space: AddressSpaceLimit,
    scratch: Mutex<Scratch>,
}

#[derive(Debug)]
enum AddressSpaceLimit {
    OfThisProcess,
    Fixed(Option<u64>),
}

/// State that one reading leaves for the next, so that it need not search or allocate again.
#[derive(Debug, Default)]
struct Scratch {
    buffer: Vec<u8>,
    /// The text of `/proc/self/cgroup` for which `groups` were found.
    membership: Option<String>,
    groups: Vec<ControlGroup>,
}

impl Host {
    /// Returns the instance that the whole program shares.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Host> =
            LazyLock::new(|| Host::below("/".into(), AddressSpaceLimit::OfThisProcess));
        &SHARED
    }

    /// A host whose files are below the folder `root` instead of `/`, for tests that need a certain memory or
    /// certain limits.
    ///
    /// `address_space_limit` in bytes replaces the soft `RLIMIT_AS`; `None` is no limit.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::memory::{Host, MemorySource};
    ///
    /// # let root = std::env::temp_dir().join(format!("toma-host-{}", std::process::id()));
    /// std::fs::create_dir_all(root.join("proc"))?;
    /// std::fs::write(root.join("proc/meminfo"), "MemTotal: 8 kB\nMemAvailable: 2 kB\n")?;
    /// assert_eq!(Host::at(&root, None).read()?.free_bytes, 2048);
    /// # std::fs::remove_dir_all(&root)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn at(root: impl Into<PathBuf>, address_space_limit: Option<u64>) -> Self {
        Self::below(root.into(), AddressSpaceLimit::Fixed(address_space_limit))
    }

    fn below(root: PathBuf, address_space: AddressSpaceLimit) -> Self {
        let [meminfo, membership, status] =
            ["proc/meminfo", "proc/self/cgroup", "proc/self/status"].map(|file| root.join(file));
        Self { root, meminfo, membership, status, address_space, scratch: Mutex::default() }
    }

    /// Reads the memory of the machine as a whole.
    fn machine(&self, buffer: &mut Vec<u8>) -> io::Result<Reading> {
        let expected = "lines `MemTotal:` and `MemAvailable:` with numbers of kB";
        let file =
            KernelFile::read(&self.meminfo, expected, buffer)?.ok_or_else(|| no_meminfo(&self.meminfo))?;
        let bytes = |key| Ok::<_, io::Error>(file.value_of(key)?.saturating_mul(1024));
        Ok(Reading::new(bytes("MemAvailable")?, bytes("MemTotal")?))
    }

    /// Reads the bytes that the address-space limit leaves; `None` without a limit.
    fn address_space(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Reading>> {
        let limit = match self.address_space {
            AddressSpaceLimit::OfThisProcess => rlimit::soft(),
            AddressSpaceLimit::Fixed(limit) => limit,
        };
        let Some(limit) = limit else { return Ok(None) };
        Ok(Some(cgroup::left(limit, address_space_bytes(&self.status, buffer)?, 0)))
    }

    /// Finds the control groups for the first time, or again after the process was moved to others.
    fn find_groups(&self, scratch: &mut Scratch) -> io::Result<()> {
        let expected = "lines `id:controllers:path`";
        let Some(file) = KernelFile::read(&self.membership, expected, &mut scratch.buffer)? else {
            (scratch.membership, scratch.groups) = (None, Vec::new());
            return Ok(());
        };
        if scratch.membership.as_deref() != Some(file.text()) {
            scratch.groups = cgroup::groups(&file, &self.root.join("proc/self/mountinfo"), &self.root)?;
            scratch.membership = Some(file.text().to_owned());
        }
        Ok(())
    }
}

impl MemorySource for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn read(&self) -> io::Result<Reading> {
        // A panic under the lock leaves valid state; at worst the groups are searched again.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        self.find_groups(&mut scratch)?;
        let Scratch { buffer, groups, .. } = &mut *scratch;
        let mut reading = self.machine(buffer)?;
        for group in groups {
            reading = group.read(buffer)?.map_or(reading, |left| reading.tighter(left));
        }
        Ok(self.address_space(buffer)?.map_or(reading, |left| reading.tighter(left)))
    }
}

fn no_meminfo(path: &Path) -> io::Error {
    let text = format!("cannot read the memory of this host: {} does not exist", path.display());
    io::Error::new(io::ErrorKind::Unsupported, text)
}
