//! What of a file counts on another memory, with other memory free, and from a table.

use crate::kit::{Folder, Memory, batch, batch_on};

#[test]
fn on_another_memory_a_size_is_used_in_proportion() {
    let folder = Folder::new();
    let tried =
        |total, initial, limit| batch_on(&folder.cache(), &Memory::new(total, total), "a", (initial, limit));
    assert_eq!(tried(80, 1000, 600), [1000, 500]);
    assert_eq!(tried(40, 1000, 300), [218]);
    assert_eq!(tried(160, 1000, 1000), [875]);
    assert_eq!(tried(80, 1000, 600), [500]);
    // What is learned there counts there alone.
    assert_eq!(tried(40, 1000, 100), [218, 109, 54]);
    assert_eq!(tried(40, 1000, 100), [54]);
    assert_eq!(tried(80, 1000, 600), [500]);
}

#[test]
fn an_unknown_memory_is_a_memory_of_its_own() {
    let folder = Folder::new();
    let tried = |total| batch_on(&folder.cache(), &Memory::new(total, total), "a", (100, 30));
    assert_eq!(tried(80), [100, 50, 25]);
    assert_eq!(tried(0), [100, 50, 25]);
    assert_eq!(tried(0), [25]);
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
