use std::cell::Cell;
use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use proptest::prelude::*;

use super::recent::{MEMORIES, Memos};
use super::*;

const MIB: u64 = 1 << 20;

/// A folder with files of the kernel's, gone when dropped.
struct Root(PathBuf);

impl Root {
    /// A machine of 8000 MiB with 6000 MiB available.
    fn new() -> Self {
        static ROOTS: AtomicU32 = AtomicU32::new(0);
        let name = format!("toma-memory-{}-{}", std::process::id(), ROOTS.fetch_add(1, Ordering::Relaxed));
        let root = Self(std::env::temp_dir().join(name));
        let kib = |mib: u64| mib * 1024;
        let meminfo = format!(
            "MemTotal:       {} kB\nMemFree:  1 kB\nMemAvailable:   {} kB\nMemAvailableNot: 7 kB\n",
            kib(8000),
            kib(6000)
        );
        root.file("proc/meminfo", &meminfo)
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A folder where a file should be: opening works and reading fails, for the superuser too.
    fn unreadable(self, path: &str) -> Self {
        let _ = fs::remove_file(self.0.join(path));
        fs::create_dir_all(self.0.join(path)).unwrap();
        self
    }

    /// The process is in `path` of version 2, which is mounted with the group `root` on top.
    fn v2(self, path: &str, root: &str) -> Self {
        self.file("proc/self/cgroup", &format!("1:name=systemd:{path}\n0::{path}\n")).file(
            "proc/self/mountinfo",
            &format!(
                "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                 31 23 0:28 {root} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
            ),
        )
    }

    /// The process is in `path` of version 1, which is mounted with the group `root` on top.
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

    /// A group of version 2 that may use `limit`, uses `used`, of which `inactive` is file pages.
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
        Host::at(&self.0, None)
    }

    fn mib(&self) -> (u64, u64) {
        mib(self.host().read().unwrap())
    }

    /// The error of a reading: its kind, its own words without the root, and its cause's words.
    fn error(&self) -> (io::ErrorKind, String, Option<String>) {
        let error = self.host().read().unwrap_err();
        let text = error.to_string().replace(&format!("{}/", self.0.display()), "/");
        (error.kind(), text, error.source().map(ToString::to_string))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn mib(reading: Reading) -> (u64, u64) {
    (reading.free_bytes / MIB, reading.total_bytes / MIB)
}

#[test]
fn no_limits() {
    assert_eq!(Root::new().mib(), (6000, 8000));
}

#[test]
fn v2_without_limits_at_any_level() {
    let root = Root::new().v2("/a/b", "/").group2("/a/b", "max", 100, 0).group2("/a", "max", 100, 0);
    assert_eq!(root.mib(), (6000, 8000));
}

#[test]
fn v2_own_limit_counts_inactive_file_pages_as_free() {
    let root = Root::new().v2("/a/b", "/").group2("/a/b", "1048576000", 700 * MIB, 200 * MIB);
    assert_eq!(root.mib(), (500, 1000));
}

#[test]
fn v2_limit_on_a_parent_counts_what_siblings_use() {
    let root = Root::new()
        .v2("/a/b/c", "/")
        .group2("/a/b/c", "max", 10, 0)
        .group2("/a/b", &(2000 * MIB).to_string(), 100 * MIB, 0)
        .group2("/a", &(3000 * MIB).to_string(), 2900 * MIB, 0);
    // The least free bytes and the lowest limit come from different levels.
    assert_eq!(root.mib(), (100, 2000));
}

#[test]
fn limit_of_the_topmost_group_of_a_container() {
    let root = Root::new().v2("/", "/").group2("", &(512 * MIB).to_string(), 12 * MIB, 0);
    assert_eq!(root.mib(), (500, 512));
}

#[test]
fn container_that_sees_its_path_on_the_host_but_only_its_own_group() {
    let root =
        Root::new().v2("/docker/1f/worker", "/docker/1f").group2("/worker", &(300 * MIB).to_string(), 0, 0);
    let root = root.group2("", &(512 * MIB).to_string(), 12 * MIB, 0);
    assert_eq!(root.mib(), (300, 300));
    let root = Root::new().v1("/docker/1f", "/docker/1f").group1("", 512 * MIB, 12 * MIB, 0);
    assert_eq!(root.mib(), (500, 512));
}

#[test]
fn path_that_does_not_exist_below_the_mount() {
    for (path, mounted) in [("/docker/1f", "/"), ("/docker/1f", "/other"), ("/../../x", "/"), ("/", "/../..")]
    {
        let root = Root::new().v2(path, mounted).group2("", &(512 * MIB).to_string(), 12 * MIB, 0);
        // Where `/../../x` would lead from the mount point.
        let root = root.file("sys/x/memory.max", "1").file("x/memory.max", "1");
        assert_eq!(root.mib(), (500, 512), "{path} in a mount of {mounted}");
    }
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
    assert_eq!(root.mib(), (64, 64));
}

#[test]
fn v1_limits_at_two_levels_beside_an_empty_version_2() {
    let root = Root::new()
        .v1("/jobs/7", "/")
        .group1("/jobs/7", 1000 * MIB, 1100 * MIB, 200 * MIB)
        .group1("/jobs", 900 * MIB, 300 * MIB, 0)
        .group1("", 9_223_372_036_854_771_712, 5000 * MIB, 0);
    assert_eq!(root.mib(), (100, 900));
}

#[test]
fn v1_says_no_limit_with_a_huge_number_of_any_page_size() {
    for page in [4096_u64, 16384, 65536] {
        let huge = i64::MAX as u64 / page * page;
        let root = Root::new().v1("/", "/").group1("", huge, 7000 * MIB, 0);
        assert_eq!(root.mib(), (6000, 8000), "{huge}");
    }
}

#[test]
fn more_used_than_allowed_leaves_nothing() {
    let root = Root::new().v2("/", "/").group2("", &(10 * MIB).to_string(), 12 * MIB, 0);
    assert_eq!(root.mib(), (0, 10));
}

#[test]
fn address_space_limit() {
    let page = rustix::param::page_size() as u64;
    let root = Root::new().file("proc/self/statm", "100 4 3 2 0 1 0\n");
    let reading = Host::at(&root.0, Some(1000 * page)).read().unwrap();
    assert_eq!(reading, Reading::new(900 * page, 1000 * page));
    assert_eq!(Host::at(&root.0, Some(99 * page)).read().unwrap(), Reading::new(0, 99 * page));
    assert_eq!(mib(Host::at(&root.0, Some(u64::MAX)).read().unwrap()), (6000, 8000));
    let error = Host::at(&Root::new().0, Some(1000)).read().unwrap_err();
    assert!(error.to_string().contains("proc/self/statm: expected the number of pages"), "{error}");
}

#[test]
fn process_moved_to_another_group_between_readings() {
    let root = Root::new().v2("/a", "/").group2("/a", &(64 * MIB).to_string(), 0, 0);
    let root = root.group2("/b", &(32 * MIB).to_string(), 0, 0);
    let host = root.host();
    assert_eq!(mib(host.read().unwrap()), (64, 64));
    let root = root.file("proc/self/cgroup", "0::/b\n");
    assert_eq!(mib(host.read().unwrap()), (32, 32));
    fs::remove_file(root.0.join("proc/self/cgroup")).unwrap();
    assert_eq!(mib(host.read().unwrap()), (6000, 8000));
    let root = root.file("proc/self/cgroup", "0::/b\n");
    assert_eq!(mib(host.read().unwrap()), (32, 32));
    drop(root);
}

#[test]
fn failed_search_for_groups_is_repeated() {
    let root = Root::new().v2("/a", "/").group2("/a", &(64 * MIB).to_string(), 0, 0);
    let root = root.unreadable("proc/self/mountinfo");
    let host = root.host();
    assert!(host.read().is_err());
    assert!(host.read().is_err());
    fs::remove_dir(root.0.join("proc/self/mountinfo")).unwrap();
    let root = root.v2("/a", "/");
    assert_eq!(mib(host.read().unwrap()), (64, 64));
    drop(root);
}

#[test]
fn names_of_other_mounts_may_be_no_text() {
    let root = Root::new().v2("/", "/").group2("", &(64 * MIB).to_string(), 0, 0);
    let path = root.0.join("proc/self/mountinfo");
    let mut mounts = b"30 1 0:1 / /mnt/\xff rw - ext4 /dev/x rw\n".to_vec();
    mounts.extend(fs::read(&path).unwrap());
    fs::write(&path, mounts).unwrap();
    assert_eq!(root.mib(), (64, 64));
}

#[test]
fn every_unreadable_file_is_named() {
    let whole = || Root::new().v2("/a", "/").group2("/a", "1000", 10, 5).file("proc/self/statm", "1 1\n");
    let files = [
        "proc/meminfo",
        "proc/self/cgroup",
        "proc/self/mountinfo",
        "proc/self/statm",
        "sys/fs/cgroup/a/memory.max",
        "sys/fs/cgroup/a/memory.current",
        "sys/fs/cgroup/a/memory.stat",
    ];
    for file in files {
        let root = whole().unreadable(file);
        let error = Host::at(&root.0, Some(1 << 40)).read().unwrap_err();
        assert!(error.to_string().contains(&format!("{file}: expected ")), "{file}: {error}");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.unwrap().kind(), io::ErrorKind::IsADirectory, "{file}");
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{file}");
    }
}

#[test]
fn every_garbled_file_is_named_with_what_it_holds() {
    let whole = || Root::new().v2("/a", "/").group2("/a", "1000", 10, 5).file("proc/self/statm", "1 1\n");
    let files = [
        ("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: -3 kB"),
        ("proc/meminfo", "MemTotal: 5 kB\nMemAvailableNot: 3 kB"),
        ("proc/self/cgroup", "0::/a\nnonsense"),
        ("proc/self/mountinfo", "nonsense"),
        ("proc/self/mountinfo", "31 23 0:28 - cgroup2 cgroup2 rw"),
        ("proc/self/statm", ""),
        ("sys/fs/cgroup/a/memory.max", "1e9"),
        ("sys/fs/cgroup/a/memory.max", "maximum"),
        ("sys/fs/cgroup/a/memory.current", "99999999999999999999999"),
        ("sys/fs/cgroup/a/memory.stat", "inactive_file"),
    ];
    for (file, text) in files {
        let root = whole().file(file, text);
        let error = Host::at(&root.0, Some(1 << 40)).read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{file}");
        assert!(error.to_string().contains(&format!("{file}: expected ")), "{file}: {error}");
        assert!(error.source().unwrap().to_string().starts_with("found \""), "{file}");
    }
}

#[test]
fn errors_read_well() {
    let root = Root::new().v2("/a", "/").group2("/a", "lots", 10, 5);
    let text = "cannot use /sys/fs/cgroup/a/memory.max: expected a number of bytes or `max`";
    assert_eq!(root.error(), (io::ErrorKind::InvalidData, text.into(), Some("found \"lots\"".into())));
    let root = root.group2("/a", "1000", 10, 5);
    fs::remove_file(root.0.join("sys/fs/cgroup/a/memory.current")).unwrap();
    let text = "cannot use /sys/fs/cgroup/a/memory.current: expected a number of bytes";
    assert_eq!(root.error(), (io::ErrorKind::NotFound, text.into(), Some("entity not found".into())));
}

#[test]
fn no_proc_is_unsupported() {
    let error = Host::at("/nowhere/at/all", None).read().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "cannot tell the memory of this host: /nowhere/at/all/proc/meminfo does not exist"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_real_host_agrees_with_its_own_files() {
    let reading = host().unwrap();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = meminfo.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(0 < reading.free_bytes && reading.free_bytes <= reading.total_bytes, "{reading:?}");
    assert!(reading.total_bytes <= total * 1024, "{reading:?}");
}

/// What is free and what there is, in figures that cannot overflow.
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
    #![proptest_config(ProptestConfig::with_cases(10_000))]

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

proptest! {
    // Each case writes a dozen files.
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nested_groups_are_those_of_the_twin(
        groups in prop::collection::vec((0..1_u64 << 62, figure(), figure()), 1..4),
        version_2: bool,
    ) {
        let folders = ["", "/a", "/a/b"];
        let path = ["/", "/a", "/a/b"][groups.len() - 1];
        let mut root = if version_2 { Root::new().v2(path, "/") } else { Root::new().v1(path, "/") };
        for (folder, &(limit, used, reclaimable)) in folders.iter().zip(&groups) {
            root = if version_2 {
                root.group2(folder, &limit.to_string(), used, reclaimable)
            } else {
                root.group1(folder, limit, used, reclaimable)
            };
        }
        let reading = root.host().read().unwrap();
        let (free, total) = twin((6000 * MIB, 8000 * MIB), &groups, None);
        prop_assert_eq!((i128::from(reading.free_bytes), i128::from(reading.total_bytes)), (free, total));
    }
}

/// A memory with as many free bytes as it was read times.
#[derive(Debug)]
struct Counting {
    name: &'static str,
    reads: AtomicU32,
    staleness: Duration,
    readable: bool,
}

impl Counting {
    fn new(name: &'static str) -> Self {
        Self { name, reads: AtomicU32::new(0), staleness: Duration::MAX, readable: true }
    }
}

impl MemorySource for Counting {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> io::Result<Reading> {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        if self.readable { Ok(Reading::new(reads.into(), 99)) } else { Err(io::ErrorKind::Other.into()) }
    }

    fn staleness(&self) -> Duration {
        self.staleness
    }
}

#[test]
fn recent_reads_once_per_thread_and_memory() {
    let source = Counting::new("once");
    let free = |source: &Counting| recent(source).unwrap().free_bytes;
    assert_eq!([free(&source), free(&source)], [1, 1]);
    assert_eq!(free(&Counting::new("another")), 1);
    assert_eq!(thread::scope(|scope| scope.spawn(|| [free(&source), free(&source)]).join().unwrap()), [2, 2]);
    assert_eq!(free(&source), 1);
}

#[test]
fn recent_forgets_after_the_staleness() {
    let source = Counting { staleness: Duration::from_millis(20), ..Counting::new("stale") };
    assert_eq!(recent(&source).unwrap().free_bytes, 1);
    thread::sleep(Duration::from_millis(60));
    assert_eq!(recent(&source).unwrap().free_bytes, 2);
}

#[test]
fn recent_reads_each_time_without_staleness() {
    let source = Counting { staleness: Duration::ZERO, ..Counting::new("never") };
    assert_eq!([recent(&source), recent(&source)].map(|r| r.unwrap().free_bytes), [1, 2]);
    assert_eq!(recent(&&source).unwrap().free_bytes, 3, "a reference is the same source");
}

#[test]
fn recent_remembers_failures_too() {
    let source = Counting { readable: false, ..Counting::new("unreadable") };
    assert_eq!([recent(&source), recent(&source)], [None, None]);
    assert_eq!(source.reads.into_inner(), 1);
}

#[test]
fn recent_at_the_end_of_a_thread() {
    struct AtExit(Cell<Option<std::sync::mpsc::Sender<Option<Reading>>>>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let source = Counting::new("exit");
            recent(&source);
            self.0.take().unwrap().send(recent(&source)).unwrap();
        }
    }
    thread_local!(static LATE: AtExit = const { AtExit(Cell::new(None)) });
    let (sender, receiver) = std::sync::mpsc::channel();
    // Both orders: the memos are destroyed after `LATE`, or before it.
    for memos_first in [true, false] {
        let sender = sender.clone();
        let work = move || {
            let first = Counting::new("first");
            if memos_first {
                recent(&first);
            }
            LATE.with(|late| late.0.set(Some(sender)));
            recent(&first);
        };
        thread::spawn(work).join().unwrap();
    }
    drop(sender);
    let readings: Vec<_> = receiver.iter().map(|reading| reading.unwrap().free_bytes).collect();
    // Destructors run last registered first, or first registered first: one thread has its memos,
    // and the other reads twice.
    assert!(readings == [1, 2] || readings == [2, 1], "{readings:?}");
}

#[test]
fn source_that_runs_loops_of_its_own_when_read() {
    #[derive(Debug)]
    struct Outer(Counting);
    impl MemorySource for Outer {
        fn name(&self) -> &'static str {
            "outer"
        }
        fn read(&self) -> io::Result<Reading> {
            recent(&self.0).ok_or_else(|| io::ErrorKind::Other.into())
        }
    }
    assert_eq!(recent(&Outer(Counting::new("inner"))), Some(Reading::new(1, 99)));
}

proptest! {
    /// Against a list of everything ever remembered.
    #[test]
    fn memos_are_never_too_old_nor_of_another_memory(
        steps in prop::collection::vec((0..12_usize, 1..50_u64), 1..100),
    ) {
        let (mut memos, mut now) = (Memos::new(), 0);
        let mut all: Vec<(usize, u64, u64)> = Vec::new();
        for (free, (source, pause)) in (0..).zip(steps) {
            now += pause;
            let (name, at) = (format!("memory {source}"), Duration::from_millis(now));
            let known = memos.fresh(&name, at, STALENESS).map(|memo| memo.reading.unwrap().free_bytes);
            let later: HashSet<_> = all.iter().rev().map(|entry| entry.0).take_while(|other| *other != source).collect();
            let last = all.iter().rev().find(|entry| entry.0 == source);
            let still = last.filter(|entry| now - entry.1 < 100 && later.len() < MEMORIES);
            prop_assert_eq!(known, still.map(|entry| entry.2));
            memos.keep(&name, at, Some(Reading::new(free, 0)));
            all.push((source, now, free));
        }
    }
}
