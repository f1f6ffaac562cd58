//! What of a file counts on another memory, with other memory free, and from a table.

use crate::kit::{Folder, Memory, batch, batch_on};

/// Also one whose total cannot be read.
#[test]
fn each_total_of_a_memory_is_a_memory_of_its_own() {
    let folder = Folder::new();
    let tried = |total| batch_on(&folder.cache(), &Memory::new(total, total), "a", (100, 30));
    for known in [&[100, 50, 25][..], &[25]] {
        for total in [80, 40, 160, 0] {
            assert_eq!(tried(total), known, "{total} GiB");
        }
    }
}

#[test]
fn with_more_memory_free_a_run_does_not_start_at_what_was_learned_with_little() {
    let folder = Folder::new();
    let tried =
        |free, initial, limit| batch_on(&folder.cache(), &Memory::new(free, 80), "a", (initial, limit));
    assert_eq!(tried(70, 1000, 600), [1000, 500]);
    assert_eq!(tried(10, 1000, 100), [500, 250, 125, 62]);
    assert_eq!(tried(70, 1000, 600), [500]);
    assert_eq!(tried(10, 1000, 100), [62]);
    assert_eq!(tried(20, 1000, 100), [62]);
}

#[test]
fn a_table_counts_where_nothing_else_is_known() {
    let learned = Folder::new();
    batch(&learned.cache(), "a", 100, 30);
    let table = learned.text();

    let folder = Folder::new();
    let cache = folder.cache().with_table(&table);
    assert_eq!(batch(&cache, "a", 100, 30), [25]);
    assert!(cache.entries().is_empty(), "it is no evidence of this machine");
    assert!(folder.names().is_empty(), "and is not written");

    cache.seed("a", 12);
    assert_eq!(batch(&cache, "a", 100, 30), [12], "a seed comes first");
    assert_eq!(batch(&cache, "a", 100, 10), [12, 6]);
    let cache = folder.cache().with_table(&table);
    assert_eq!(batch(&cache, "a", 100, 10), [6], "and so does the file");
    cache.clear();
    assert_eq!(batch(&cache, "a", 100, 100), [100]);
}

#[test]
fn a_table_can_be_added_to_a_cache_in_use() {
    let learned = Folder::new();
    batch(&learned.cache(), "a", 100, 30);
    let (folder, other) = (Folder::new(), Folder::new());
    let cache = folder.cache();
    assert_eq!(batch(&cache, "a", 100, 100), [100]);
    cache.add_table(&learned.text());
    assert_eq!(batch(&cache, "a", 100, 100), [25]);
    batch(&other.cache(), "b", 100, 60);
    cache.add_table(&other.text());
    assert_eq!(batch(&cache, "b", 100, 100), [50]);
    assert_eq!(batch(&cache, "a", 100, 100), [25]);
}

#[test]
fn a_table_of_nonsense_changes_nothing() {
    let folder = Folder::new();
    for table in ["", "{", "{}", "[1]", "a poem"] {
        let cache = folder.cache().with_table(table);
        assert_eq!(batch(&cache, "a", 100, 100), [100], "{table}");
    }
}
