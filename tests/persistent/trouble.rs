//! Places that cannot be written or read: the cache works in memory, and one line says so.

use std::fs;
use std::path::Path;

use toma::PersistentCache;
use toma::cache::SizeCache;

use crate::child;
use crate::kit::{Folder, batch};

/// What the cache does in a child, where its standard error can be heard.
fn works_in_memory(cache: &PersistentCache) {
    for name in ["a", "b"] {
        assert_eq!(batch(cache, name, 100, 30), [100, 50, 25]);
        assert_eq!(batch(cache, name, 100, 30), [25]);
        assert_eq!(batch(cache, name, 100, 10), [25, 12, 6]);
        assert_eq!(batch(cache, name, 100, 10), [6]);
    }
    assert_eq!(cache.entries().len(), 2);
    cache.seed("c", 7);
    assert_eq!(batch(cache, "c", 100, 30), [7]);
    cache.flush();
    cache.clear();
    assert_eq!(batch(cache, "a", 100, 30), [100, 50, 25]);
}

/// The one line about the cache at `path`.
fn said_about(path: &Path) -> String {
    let home = Folder::new();
    let order = path.display().to_string();
    let mut said = child::run("trouble::in_a_child", &order, home.path());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(&format!("toma: size cache {order}: ")), "{said:?}");
    assert!(said[0].ends_with("; sizes are remembered in memory only"), "{said:?}");
    said.remove(0)
}

#[test]
fn in_a_child() {
    if let Some(path) = child::order() {
        works_in_memory(&PersistentCache::at(path));
    }
}

#[test]
fn a_folder_that_cannot_be_made() {
    let folder = Folder::new();
    fs::write(folder.path().join("file"), "").unwrap();
    said_about(&folder.path().join("file/sizes.json"));
    said_about(&folder.path().join("file/deeper/sizes.json"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_cannot_be_written() {
    said_about(Path::new("/proc/sizes.json"));
    said_about(Path::new("/proc/toma/sizes.json"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_loses_nothing_that_was_there() {
    let folder = Folder::new();
    batch(&folder.cache(), "old", 100, 30);
    let before = folder.text();
    let next = folder.path().join("sizes.json.next");
    for _ in 0..2 {
        // Whatever is written to the file that is to replace the old one meets a full device.
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let cache = folder.cache();
        assert_eq!(batch(&cache, "new", 100, 30), [100, 50, 25]);
        assert_eq!(batch(&cache, "new", 100, 30), [25]);
        assert_eq!(folder.text(), before);
        assert!(fs::symlink_metadata(&next).is_err(), "what was half written is gone");
        std::mem::forget(cache);
    }
    // As soon as there is room, all that was learned is written.
    std::os::unix::fs::symlink("/dev/full", &next).unwrap();
    let cache = folder.cache();
    batch(&cache, "first", 100, 30);
    batch(&cache, "second", 100, 30);
    let names: Vec<_> = folder.cache().entries().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["first", "old", "second"]);
}

#[test]
fn a_folder_in_place_of_the_file_is_left_alone() {
    let folder = Folder::new();
    fs::create_dir(folder.file()).unwrap();
    fs::write(folder.file().join("precious"), "data").unwrap();
    let said = said_about(&folder.file());
    assert!(said.contains("it is no regular file"), "{said}");
    assert_eq!(fs::read_to_string(folder.file().join("precious")).unwrap(), "data");
}

#[test]
#[cfg(target_os = "linux")]
fn a_device_in_place_of_the_file_is_neither_read_nor_moved() {
    for device in ["/dev/zero", "/dev/full", "/dev/null"] {
        let folder = Folder::new();
        std::os::unix::fs::symlink(device, folder.file()).unwrap();
        said_about(&folder.file());
        assert!(Path::new(device).exists());
        assert_eq!(folder.names().iter().filter(|name| name.contains("aside")).count(), 0);
    }
    assert!(!Path::new("/dev/null.set-aside-1").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn a_link_to_itself_is_left_alone() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("sizes.json", folder.file()).unwrap();
    let said = said_about(&folder.file());
    assert!(said.contains("Too many levels of symbolic links"), "{said}");
    assert!(fs::symlink_metadata(folder.file()).unwrap().is_symlink());
}

/// A lock that is never given back: the cache waits for a moment, and then no more.
#[test]
fn a_lock_that_is_never_given_back_stops_no_call_for_long() {
    let folder = Folder::new();
    let lock = fs::File::create(folder.path().join("sizes.json.lock")).unwrap();
    fs4::FileExt::lock(&lock).unwrap();
    let said = said_about(&folder.file());
    assert!(said.contains("another process holds its lock"), "{said}");
    assert!(!folder.file().exists());
}

#[test]
fn no_home() {
    if child::order().is_some() {
        return works_in_memory(PersistentCache::shared());
    }
    let folder = Folder::new();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let said = child::run("trouble::no_home", "", &file);
    assert_eq!(said.len(), 1, "{said:?}");
}
