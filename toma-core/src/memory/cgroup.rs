//! Memory limits of the control groups this process is in.
//!
//! `/proc/self/cgroup` names the group of the process in each hierarchy. `/proc/self/mountinfo` says where in the
//! file system a hierarchy is mounted, and which of its groups is at the mount point: in a container that is often
//! the container's own group, and its path in `/proc/self/cgroup` then does not exist below the mount. A limit on
//! any group from the process's own up to the topmost visible one applies to the process. Version 1 (its `memory`
//! hierarchy) and version 2 may both be mounted; only one of them has the memory files, and only looking for the
//! files shows which one.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::Reading;
use super::kernel_file::KernelFile;

/// One control group whose files may hold a memory limit.
#[derive(Debug)]
pub(super) struct ControlGroup {
    version: &'static Version,
    limit: PathBuf,
    usage: PathBuf,
    stat: PathBuf,
}

/// File names of one version of control groups.
#[derive(Debug)]
struct Version {
    file_system: &'static str,
    limit: &'static str,
    usage: &'static str,
    reclaimable: &'static str,
}

/// The group of a process in one hierarchy: a line `id:controllers:path`.
struct Membership<'a> {
    id: &'a str,
    controllers: &'a str,
    path: &'a str,
}

/// A mount of a hierarchy: the groups below its group `root` are visible at `point`.
struct Mount<'a> {
    root: &'a str,
    point: PathBuf,
    file_system: &'a str,
    options: &'a str,
}

const V1: Version = Version {
    file_system: "cgroup",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

const V2: Version = Version {
    file_system: "cgroup2",
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};

/// Version 1 writes "no limit" as the largest number of whole pages below 2^63 bytes, and page sizes differ.
const NO_LIMIT: u64 = 1 << 62;

/// Finds the groups that apply to a process with this content of `/proc/self/cgroup`.
///
/// The mounts come from the file `mountinfo`; their mount points are taken below `root`.
///
/// # Errors
/// If one of the two files is malformed or `mountinfo` cannot be read.
pub(super) fn groups(
    membership: &KernelFile<'_>,
    mountinfo: &Path,
    root: &Path,
) -> io::Result<Vec<ControlGroup>> {
    let mut members = membership.parse_lines(Membership::parse)?;
    members.retain(|member| member.version().is_some());
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let mut buffer = Vec::new();
    let expected = "lines of mounts, each with ` - ` and a file system";
    let file = KernelFile::must_read(mountinfo, expected, &mut buffer)?;
    let mounts = file.parse_lines(Mount::parse)?;
    Ok(members.iter().flat_map(|member| member.groups(&mounts, root)).collect())
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        Some(Self { id: parts.next()?, controllers: parts.next()?, path: parts.next()? })
    }

    /// Returns `None` if the hierarchy has nothing to do with memory.
    fn version(&self) -> Option<&'static Version> {
        match self.controllers {
            "" if self.id == "0" => Some(&V2),
            list => names_memory(list).then_some(&V1),
        }
    }

    /// Returns all visible groups of this hierarchy, from the process's own up.
    fn groups(&self, mounts: &[Mount<'_>], root: &Path) -> Vec<ControlGroup> {
        let Some(version) = self.version() else { return Vec::new() };
        let shown = mounts.iter().filter(|mount| mount.shows(version));
        // The mount that shows most groups. One that does not show the process's own group still shows its topmost
        // one.
        let best = shown.min_by_key(|mount| (mount.inside(self.path).is_none(), mount.root.len()));
        let folders = best.map(|mount| mount.levels(self.path)).unwrap_or_default();
        folders.iter().map(|folder| ControlGroup::new(version, &root.join(folder))).collect()
    }
}

impl<'a> Mount<'a> {
    /// Parses a line such as `31 23 0:28 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw`.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let (mut mount, mut kind) = (mount.split(' ').skip(3), kind.split(' '));
        let (root, point) = (mount.next()?, unescaped(mount.next()?));
        // Without its first slash the path can be joined to another root.
        let point = PathBuf::from(point.trim_start_matches('/'));
        Some(Self { root, point, file_system: kind.next()?, options: kind.nth(1).unwrap_or_default() })
    }

    fn shows(&self, version: &Version) -> bool {
        self.file_system == version.file_system
            && (version.file_system == V2.file_system || names_memory(self.options))
    }

    /// Returns `path` as seen from the mount point.
    fn inside<'p>(&self, path: &'p str) -> Option<&'p Path> {
        let inside = Path::new(path).strip_prefix(self.root).ok()?;
        // A path such as `/../other` leads out of the namespace: no part of it is visible here.
        inside.components().all(|part| matches!(part, Component::Normal(_))).then_some(inside)
    }

    /// Returns the folders of all visible groups from `path` up to the mount point.
    fn levels(&self, path: &str) -> Vec<PathBuf> {
        let own = self.inside(path).unwrap_or(Path::new(""));
        own.ancestors().map(|group| self.point.join(group)).collect()
    }
}

impl ControlGroup {
    fn new(version: &'static Version, folder: &Path) -> Self {
        let [limit, usage, stat] =
            [version.limit, version.usage, "memory.stat"].map(|file| folder.join(file));
        Self { version, limit, usage, stat }
    }

    /// Reads the free bytes and the limit of this group; `None` if it has no limit.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Reading>> {
        let Some(limit) = self.limit(buffer)? else { return Ok(None) };
        let bytes = "a number of bytes";
        let used = KernelFile::must_read(&self.usage, bytes, buffer)?.first_number()?;
        let statistics = "a line with the bytes of inactive file pages";
        let reclaimable =
            KernelFile::must_read(&self.stat, statistics, buffer)?.value_of(self.version.reclaimable)?;
        Ok(Some(left(limit, used, reclaimable)))
    }

    fn limit(&self, buffer: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let expected = "a number of bytes or `max`";
        match KernelFile::read(&self.limit, expected, buffer)? {
            None => Ok(None),
            Some(file) if file.text().trim() == "max" => Ok(None),
            Some(file) => Ok(Some(file.first_number()?).filter(|limit| *limit < NO_LIMIT)),
        }
    }
}

/// Returns the free bytes under a limit if the kernel can reclaim `reclaimable` of the `used` bytes at no loss.
///
/// More bytes may be reclaimable than used, because the counters are updated at different times.
pub(super) fn left(limit: u64, used: u64, reclaimable: u64) -> Reading {
    Reading::new(limit.saturating_sub(used.saturating_sub(reclaimable)), limit)
}

fn names_memory(list: &str) -> bool {
    list.split(',').any(|word| word == "memory")
}

/// Decodes a path, in which the kernel writes blanks and backslashes as a backslash and three octal digits.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    // The backslash comes last, so that a decoded backslash does not begin another escape.
    escapes.iter().fold(path.to_owned(), |path, (escape, character)| path.replace(escape, character))
}
