//! Unusable files and folders: one line reports it, the cache works in memory, and nothing is modified.

use std::fs;
use std::path::{Path, PathBuf};

use toma::PersistentCache;

use crate::kit::{Folder, batch, order};

/// Contents that may be found in place of a file of sizes, and the message about each.
const UNFIT: [(&[u8], &str); 6] = [
    (b"not { json", "expected ident at line 1 column 2"),
    (br#"{"format": "toma size cache 1", "ent"#, "EOF while parsing a string at line 1 column 36"),
    (br#"{"name": "demo", "version": "0.1.0"}"#, "missing field `format` at line 1 column 36"),
    (br#"{"format": "toma size cache 2", "entries": 7}"#, "unknown variant `toma size cache 2`, expected"),
    (br#"{"format": "toma size cache 1", "entries": [{"settled": -4}]}"#, "invalid value: integer `-4`"),
    (&[0; 512], "expected value at line 1 column 1"),
];

type Place = fn(&Folder) -> PathBuf;

const PLACES: [(Place, &str); 6] = [
    (|folder| made(folder.file(), |file| fs::create_dir(file)), "it is no regular file"),
    // A sparse file: reading it would fill 64 GiB of memory.
    (|folder| made(folder.file(), |file| fs::File::create(file)?.set_len(64 << 30)), "of at most 16 MiB"),
    (|_| "/dev/zero".into(), "it is no regular file"),
    (|_| "/proc/sizes.json".into(), "(os error"),
    (|folder| made(folder.file(), |file| fs::write(file, "")).join("sizes.json"), "Not a directory"),
    (locked, "another process holds its lock"),
];

fn made(path: PathBuf, make: fn(&Path) -> std::io::Result<()>) -> PathBuf {
    make(&path).unwrap();
    path
}

fn locked(folder: &Folder) -> PathBuf {
    let lock = fs::File::create(folder.join("sizes.json.lock")).unwrap();
    fs4::FileExt::lock(&lock).unwrap();
    std::mem::forget(lock);
    folder.file()
}

#[test]
fn an_unusable_file_is_one_line_and_no_failure() {
    if let Some(path) = order() {
        let cache = PersistentCache::at(path);
        assert_eq!(batch(&cache, "a", 100, 30), [100, 50, 25]);
        assert_eq!(batch(&cache, "a", 100, 30), [25]);
        assert_eq!(cache.entries()[0].remembered.settled, 25);
        cache.clear();
        return assert_eq!(batch(&cache, "a", 100, 100), [100]);
    }
    for (text, why) in UNFIT {
        let folder = Folder::new();
        fs::write(folder.file(), text).unwrap();
        let why = format!("it is no size cache that this version reads ({why}");
        complains(&folder, &folder.file(), &why);
        assert_eq!(fs::read(folder.file()).unwrap(), text, "{why}");
    }
    for (place, why) in PLACES {
        let folder = Folder::new();
        complains(&folder, &place(&folder), why);
    }
}

fn complains(folder: &Folder, path: &Path, why: &str) {
    let test = "trouble::an_unusable_file_is_one_line_and_no_failure";
    let lines = folder.child(test, path.to_str().unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(&format!("toma: size cache {}: ", path.display())), "{lines:?}");
    assert!(lines[0].contains(why), "{lines:?}");
    assert!(lines[0].ends_with("; sizes are remembered in memory only until that is repaired"), "{lines:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_loses_nothing_that_was_there() {
    let (folder, next) = (Folder::new(), "sizes.json.next");
    batch(&folder.cache(), "old", 100, 30);
    // A write to the file that is to replace the old one meets a full device.
    std::os::unix::fs::symlink("/dev/full", folder.join(next)).unwrap();
    let cache = folder.cache();
    assert_eq!(batch(&cache, "lost", 100, 30), [100, 50, 25]);
    assert_eq!(folder.settled(), [("old".into(), 25)]);
    fs::remove_file(folder.join(next)).unwrap();
    batch(&cache, "new", 100, 30);
    assert_eq!(folder.settled(), [("new".into(), 25), ("old".into(), 25)]);
}
