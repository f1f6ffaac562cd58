//! The host's memory according to the kernel's files.

use std::error::Error;
use std::fs;
use std::io;

use proptest::prelude::*;
use tempfile::TempDir;

use super::super::cgroup;
use super::super::{Host, MemorySource as _, Reading};

const MIB: u64 = 1 << 20;

/// A folder with files of the kernel, removed when dropped.
struct Root(TempDir);

impl Root {
    /// A machine of 8000 MiB with 6000 MiB available.
    fn new() -> Self {
        let kib = |mib: u64| mib * 1024;
        let meminfo = format!(
            "MemTotal:       {} kB\nMemFree:  1 kB\nMemAvailable:   {} kB\nMemAvailableNot: 7 kB\n",
            kib(8000),
            kib(6000)
        );
        Self(tempfile::tempdir().unwrap()).file("proc/meminfo", &meminfo)
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn without(self, path: &str) -> Self {
        fs::remove_file(self.0.path().join(path)).unwrap();
        self
    }

    /// A folder where a file should be: opening works and reading fails, for the superuser too.
    fn unreadable(self, path: &str) -> Self {
        let _ = fs::remove_file(self.0.path().join(path));
        fs::create_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    /// Puts the process into `path` of version 2, which is mounted with the group `root` on top.
    fn v2(self, path: &str, root: &str) -> Self {
        self.file("proc/self/cgroup", &format!("1:name=systemd:{path}\n0::{path}\n")).file(
            "proc/self/mountinfo",
            &format!(
                "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                 31 23 0:28 {root} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
            ),
        )
    }

    /// Puts the process into `path` of version 1, which is mounted with the group `root` on top.
    fn v1(self, path: &str, root: &str) -> Self {
        self.file("proc/self/cgroup", &format!("5:cpu,cpuacct:/elsewhere\n4:memory:{path}\n0::/\n")).file(
            "proc/self/mountinfo",
            &format!(
                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
            ),
        )
    }

    /// Adds a group of version 2 that may use `limit` and uses `used`, of which `inactive` is file pages.
    fn group2(self, folder: &str, limit: &str, used: u64, inactive: u64) -> Self {
        let folder = format!("sys/fs/cgroup{folder}");
        let stat = format!("anon 1\ninactive_file_not 9\ninactive_file {inactive}\nactive_file 5\n");
        self.file(&format!("{folder}/memory.max"), &format!("{limit}\n"))
            .file(&format!("{folder}/memory.current"), &format!("{used}\n"))
            .file(&format!("{folder}/memory.stat"), &stat)
    }

    fn group1(self, folder: &str, limit: u64, used: u64, inactive: u64) -> Self {
        let folder = format!("sys/fs/cgroup/memory{folder}");
        let stat = format!("cache 1\ninactive_file 3\ntotal_cache 1\ntotal_inactive_file {inactive}\n");
        self.file(&format!("{folder}/memory.limit_in_bytes"), &format!("{limit}\n"))
            .file(&format!("{folder}/memory.usage_in_bytes"), &format!("{used}\n"))
            .file(&format!("{folder}/memory.stat"), &stat)
    }

    fn host(&self) -> Host {
        Host::at(self.0.path(), None)
    }

    /// Reads MiB.
    #[track_caller]
    fn leaves(self, free: u64, total: u64) {
        assert_eq!(mib(self.host().read().unwrap()), (free, total), "in {}", self.0.path().display());
    }

    /// The error of a reading: its kind, its message without the root, and its cause's message.
    fn error(&self) -> (io::ErrorKind, String, Option<String>) {
        let error = self.host().read().unwrap_err();
        let text = error.to_string().replace(&format!("{}/", self.0.path().display()), "/");
        (error.kind(), text, error.source().map(ToString::to_string))
    }
}

fn mib(reading: Reading) -> (u64, u64) {
    (reading.free_bytes / MIB, reading.total_bytes / MIB)
}

#[test]
fn the_least_that_any_limit_leaves_is_free() {
    let limit = |mib: u64| (mib * MIB).to_string();
    let v2 = |path, root| Root::new().v2(path, root);
    let v1 = |path, root| Root::new().v1(path, root);
    let topmost = |root: Root| root.group2("", &limit(512), 12 * MIB, 0);
    Root::new().leaves(6000, 8000);
    v2("/a/b", "/").group2("/a/b", "max", 100, 0).group2("/a", "max", 100, 0).leaves(6000, 8000);
    // Inactive file pages are free.
    v2("/a/b", "/").group2("/a/b", "1048576000", 700 * MIB, 200 * MIB).leaves(500, 1000);
    // A limit on a parent, whose siblings use it: the lowest free bytes and the lowest limit are at two levels.
    let nested = v2("/a/b/c", "/").group2("/a/b/c", "max", 10, 0).group2("/a/b", &limit(2000), 100 * MIB, 0);
    nested.group2("/a", &limit(3000), 2900 * MIB, 0).leaves(100, 2000);
    // The topmost group of a container, also if the process sees its path on the host but only its own group.
    topmost(v2("/", "/")).leaves(500, 512);
    topmost(v2("/docker/1f/worker", "/docker/1f").group2("/worker", &limit(300), 0, 0)).leaves(300, 300);
    v1("/docker/1f", "/docker/1f").group1("", 512 * MIB, 12 * MIB, 0).leaves(500, 512);
    // A path that does not exist below the mount. No limit is taken from where `/../../x` would lead.
    for (path, root) in [("/docker/1f", "/"), ("/docker/1f", "/other"), ("/../../x", "/"), ("/", "/../..")] {
        let root = topmost(v2(path, root)).file("sys/x/memory.max", "1").file("x/memory.max", "1");
        root.leaves(500, 512);
    }
    // Version 1 at two levels, next to an empty version 2, which is mounted too.
    let nested = v1("/jobs/7", "/").group1("/jobs/7", 1000 * MIB, 1100 * MIB, 200 * MIB);
    let nested = nested.group1("/jobs", 900 * MIB, 300 * MIB, 0);
    nested.group1("", 9_223_372_036_854_771_712, 5000 * MIB, 0).leaves(100, 900);
    // Version 1 says "no limit" with a huge number of whole pages.
    for page in [4096_u64, 16384, 65536] {
        v1("/", "/").group1("", i64::MAX as u64 / page * page, 7000 * MIB, 0).leaves(6000, 8000);
    }
    // More is used than allowed.
    v2("/", "/").group2("", &limit(10), 12 * MIB, 0).leaves(0, 10);
}

#[test]
fn the_mount_that_shows_most_groups_is_used_even_at_a_place_with_blanks() {
    let mounts = "30 23 0:28 /a/b /own rw - cgroup2 cgroup2 rw\n\
                  31 23 0:28 / /c\\040d\\134040 rw shared:1 master:2 - cgroup2 cgroup2 rw\n\
                  32 23 0:28 /z /z rw - cgroup2 cgroup2 rw\n";
    let root = Root::new().v2("/a/b", "/").file("proc/self/mountinfo", mounts);
    let limit = (64 * MIB).to_string();
    let root = root.file("c d\\040/a/memory.max", &limit).file("c d\\040/a/memory.current", "0");
    let root = root.file("c d\\040/a/memory.stat", "inactive_file 0\n").file("own/memory.max", "max");
    root.leaves(64, 64);
}

#[test]
fn address_space_limit() {
    let root = Root::new().file("proc/self/status", "Name:\tx\nVmPeak:\t   900 kB\nVmSize:\t   400 kB\n");
    let at = |kib: u64| Host::at(root.0.path(), Some(kib << 10)).read().unwrap();
    assert_eq!(at(4000), Reading::new(3600 << 10, 4000 << 10));
    assert_eq!(at(399), Reading::new(0, 399 << 10));
    assert_eq!(mib(Host::at(root.0.path(), Some(u64::MAX)).read().unwrap()), (6000, 8000));
    let error = Host::at(Root::new().0.path(), Some(1000)).read().unwrap_err();
    assert!(error.to_string().contains("proc/self/status: expected a line `VmSize:`"), "{error}");
}

#[test]
fn process_moved_to_another_group_between_readings() {
    let root = Root::new().v2("/a", "/").group2("/a", &(64 * MIB).to_string(), 0, 0);
    let root = root.group2("/b", &(32 * MIB).to_string(), 0, 0);
    let host = root.host();
    assert_eq!(mib(host.read().unwrap()), (64, 64));
    let root = root.file("proc/self/cgroup", "0::/b\n");
    assert_eq!(mib(host.read().unwrap()), (32, 32));
    let root = root.without("proc/self/cgroup");
    assert_eq!(mib(host.read().unwrap()), (6000, 8000));
    // A search that fails is repeated.
    let root = root.file("proc/self/cgroup", "0::/b\n").unreadable("proc/self/mountinfo");
    assert!(host.read().is_err() && host.read().is_err());
    fs::remove_dir(root.0.path().join("proc/self/mountinfo")).unwrap();
    let _root = root.v2("/b", "/");
    assert_eq!(mib(host.read().unwrap()), (32, 32));
}

#[test]
fn names_of_other_mounts_may_be_no_text() {
    let root = Root::new().v2("/", "/").group2("", &(64 * MIB).to_string(), 0, 0);
    let path = root.0.path().join("proc/self/mountinfo");
    let mut mounts = b"30 1 0:1 / /mnt/\xff rw - ext4 /dev/x rw\n".to_vec();
    mounts.extend(fs::read(&path).unwrap());
    fs::write(&path, mounts).unwrap();
    root.leaves(64, 64);
}

/// A process in a group, under every limit there is.
fn limited() -> Root {
    Root::new().v2("/a", "/").group2("/a", "1000", 10, 5).file("proc/self/status", "VmSize: 4 kB\n")
}

#[test]
fn a_file_that_is_unreadable_or_garbled_is_named_with_the_cause() {
    let cases = [
        ("proc/meminfo", None),
        ("proc/self/cgroup", None),
        ("proc/self/mountinfo", None),
        ("proc/self/status", None),
        ("sys/fs/cgroup/a/memory.max", None),
        ("sys/fs/cgroup/a/memory.current", None),
        ("sys/fs/cgroup/a/memory.stat", None),
        ("proc/meminfo", Some("MemTotal: 5 kB\nMemAvailable: -3 kB")),
        ("proc/meminfo", Some("MemTotal: 5 kB\nMemAvailableNot: 3 kB")),
        ("proc/self/cgroup", Some("0::/a\nnonsense")),
        ("proc/self/mountinfo", Some("nonsense")),
        ("proc/self/mountinfo", Some("31 23 0:28 - cgroup2 cgroup2 rw")),
        ("proc/self/status", Some("VmSize: some kB")),
        ("sys/fs/cgroup/a/memory.max", Some("1e9")),
        ("sys/fs/cgroup/a/memory.max", Some("maximum")),
        ("sys/fs/cgroup/a/memory.current", Some("99999999999999999999999")),
        ("sys/fs/cgroup/a/memory.stat", Some("inactive_file")),
    ];
    for (file, text) in cases {
        let root = match text {
            Some(text) => limited().file(file, text),
            None => limited().unreadable(file),
        };
        let error = Host::at(root.0.path(), Some(1 << 40)).read().unwrap_err();
        assert!(error.to_string().contains(&format!("{file}: expected ")), "{file}: {error}");
        let cause = error.source().unwrap();
        let (kind, is_named) = match text {
            Some(_) => (io::ErrorKind::InvalidData, cause.to_string().starts_with("found \"")),
            None => (io::ErrorKind::IsADirectory, cause.is::<io::Error>()),
        };
        assert!(error.kind() == kind && is_named, "{file} {text:?}: {error:?}");
    }
}

#[test]
fn errors_read_well() {
    let root = Root::new().v2("/a", "/").group2("/a", "lots", 10, 5);
    let text = "cannot use /sys/fs/cgroup/a/memory.max: expected a number of bytes or `max`";
    assert_eq!(root.error(), (io::ErrorKind::InvalidData, text.into(), Some("found \"lots\"".into())));
    let root = root.group2("/a", "1000", 10, 5);
    let root = root.without("sys/fs/cgroup/a/memory.current");
    let text = "cannot use /sys/fs/cgroup/a/memory.current: expected a number of bytes";
    assert_eq!(root.error(), (io::ErrorKind::NotFound, text.into(), Some("entity not found".into())));
    let root = root.without("proc/meminfo");
    let text = "cannot read the memory of this host: /proc/meminfo does not exist";
    assert_eq!(root.error(), (io::ErrorKind::Unsupported, text.into(), None));
}

#[cfg(target_os = "linux")]
#[test]
fn the_real_host_agrees_with_its_own_files() {
    let reading = Host::shared().read().unwrap();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(0 < reading.free_bytes && reading.free_bytes <= reading.total_bytes, "{reading:?}");
    assert!(reading.total_bytes <= total * 1024, "{reading:?}");
}

/// Free and total bytes, in figures that cannot overflow.
fn twin(machine: (u64, u64), groups: &[(u64, u64, u64)], address_space: Option<(u64, u64)>) -> (i128, i128) {
    let mut free = vec![i128::from(machine.0)];
    let mut total = vec![i128::from(machine.1)];
    let address_space = address_space.map(|(limit, used)| (limit, used, 0));
    for &(limit, used, reclaimable) in groups.iter().chain(&address_space) {
        let used = (i128::from(used) - i128::from(reclaimable)).max(0);
        free.push((i128::from(limit) - used).max(0));
        total.push(i128::from(limit));
    }
    (free.into_iter().min().unwrap(), total.into_iter().min().unwrap())
}

fn figure() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..=u64::MAX, Just(u64::MAX), (1_u64 << 40)..(1 << 41)]
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_the_twin(
        machine in (figure(), figure()),
        groups in prop::collection::vec((figure(), figure(), figure()), 0..4),
        address_space in prop::option::of((figure(), figure())),
    ) {
        let limits = groups.iter().map(|&(limit, used, reclaimable)| cgroup::left(limit, used, reclaimable));
        let limits = limits.chain(address_space.map(|(limit, used)| cgroup::left(limit, used, 0)));
        let reading = limits.fold(Reading::new(machine.0, machine.1), Reading::tighter);
        let (free, total) = twin(machine, &groups, address_space);
        prop_assert_eq!((i128::from(reading.free_bytes), i128::from(reading.total_bytes)), (free, total));
    }
}
