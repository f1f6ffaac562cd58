//! Files that are none of ours are set aside, said once, and never a failure.

use std::fs;

use toma::PersistentCache;

use crate::child;
use crate::kit::{Folder, batch};

/// What may be found in place of a file, and what is said about it.
const UNFIT: [(&str, &[u8], &str); 6] = [
    ("corrupt", b"not { json", "is corrupt: expected ident at line 1 column 2"),
    ("truncated", br#"{"format": "toma size cache", "version": 1, "ent"#, "is corrupt: EOF while parsing"),
    ("foreign", br#"{"name": "demo", "version": "0.1.0"}"#, "is no size cache"),
    ("newer", br#"{"format": "toma size cache", "version": 9}"#, "has format version 9"),
    ("zeros", &[0; 512], "is corrupt: expected value at line 1 column 1"),
    ("binary", b"\x7fELF\xff\xfe", "is corrupt: expected value at line 1 column 1"),
];

#[test]
fn they_are_set_aside_whole_and_a_new_file_takes_their_place() {
    for (name, bytes, _) in UNFIT {
        let folder = Folder::new();
        fs::write(folder.file(), bytes).unwrap();
        assert_eq!(batch(&folder.cache(), "a", 100, 30), [100, 50, 25], "{name}");
        assert_eq!(batch(&folder.cache(), "a", 100, 30), [25], "{name}");
        assert_eq!(fs::read(folder.path().join("sizes.json.set-aside-1")).unwrap(), bytes, "{name}");
        assert_eq!(folder.aside(), 1, "{name}");
    }
}

#[test]
fn one_line_says_so_once() {
    if let Some(path) = child::order() {
        let cache = PersistentCache::at(&path);
        for name in ["a", "b", "c"] {
            batch(&cache, name, 100, 30);
        }
        fs::write(&path, "again").unwrap();
        batch(&cache, "d", 100, 30);
        return;
    }
    for (name, bytes, why) in UNFIT {
        let folder = Folder::new();
        fs::write(folder.file(), bytes).unwrap();
        let path = folder.file().display().to_string();
        let said = child::run("unfit::one_line_says_so_once", &path, folder.path());
        assert_eq!(said.len(), 1, "{name}: {said:?}");
        assert!(said[0].starts_with(&format!("toma: size cache {path} {why}")), "{name}: {said:?}");
        assert!(said[0].ends_with(&format!("; it is set aside as {path}.set-aside-1")), "{name}: {said:?}");
        assert_eq!(folder.aside(), 2, "{name}");
    }
}

#[test]
fn an_empty_file_is_a_cache_that_knows_nothing() {
    let folder = Folder::new();
    fs::write(folder.file(), "").unwrap();
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [100, 50, 25]);
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [25]);
    assert_eq!(folder.aside(), 0);
}

#[test]
fn a_huge_file_is_set_aside_unread() {
    let folder = Folder::new();
    let file = fs::File::create(folder.file()).unwrap();
    // A hole: reading it would fill 64 GiB of memory.
    file.set_len(64 << 30).unwrap();
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [100, 50, 25]);
    assert_eq!(batch(&folder.cache(), "a", 100, 30), [25]);
    assert_eq!(folder.aside(), 1);
}

#[test]
fn a_file_that_becomes_unfit_while_it_is_used_takes_nothing_with_it() {
    let folder = Folder::new();
    let cache = folder.cache();
    batch(&cache, "a", 100, 30);
    fs::write(folder.file(), "{").unwrap();
    assert_eq!(batch(&cache, "b", 100, 30), [100, 50, 25]);
    assert_eq!(batch(&cache, "a", 100, 30), [25], "this process has learned it itself");
    assert_eq!(folder.aside(), 1);
    assert_eq!(batch(&folder.cache(), "b", 100, 30), [25]);
}

#[test]
fn nothing_piles_up() {
    let folder = Folder::new();
    for i in 0..15 {
        fs::write(folder.file(), format!("nonsense {i}")).unwrap();
        batch(&folder.cache(), "a", 100, 30);
    }
    assert_eq!(folder.aside(), 9);
    let last = fs::read_to_string(folder.path().join("sizes.json.set-aside-9")).unwrap();
    assert_eq!(last, "nonsense 14");
}
