//! What is merged, what evidence says, and how a file reads.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use expect_test::expect;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::PersistentCache;
use super::disk::Disk;
use super::evidence::{Observation, Observations};
use super::history::{Book, CallRecord, MAX_ENTRIES};
use super::key::CallKey;
use super::knowledge::Knowledge;
use super::marks::{Hex, Moment};
use super::text::{self, Unfit};
use crate::cache::Remembered;
use crate::policy::{Bounds, Measurements, Sample, Samples};

const GIB: u64 = 1 << 30;

fn at(seconds: u64) -> Moment {
    Moment::at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn remembered(settled: usize, bounds: (Option<usize>, Option<usize>), free: Option<u64>) -> Remembered {
    let bounds = Bounds { largest_success: bounds.0, smallest_failure: bounds.1 };
    Remembered { bounds, free_bytes: free, ..Remembered::new(settled) }
}

/// An observation as another run has written it.
fn observation(run: u64, learned: u64, remembered: &Remembered) -> Observation {
    Observation { run: Hex(run), ..Observation::new(remembered, at(learned)) }
}

fn evidence(observations: impl IntoIterator<Item = Observation>) -> Observations {
    let mut evidence = Observations::default();
    observations.into_iter().for_each(|one| evidence.learn(one));
    evidence
}

fn call(name: &str, total_bytes: Option<u64>) -> CallKey {
    let place = Some("src/main.rs:7:1".into());
    let crate_version = Some("0.1.0".into());
    CallKey {
        name: name.into(),
        place,
        crate_version,
        program: None,
        key: None,
        device: "gpu:0".into(),
        total_bytes,
    }
}

fn book(histories: impl IntoIterator<Item = (CallKey, CallRecord)>) -> Book {
    histories.into_iter().collect()
}

fn history(observations: impl IntoIterator<Item = Observation>) -> CallRecord {
    CallRecord { used: None, evidence: evidence(observations) }
}

/// From few values, so that runs, times and contents meet; each from one number, which is quick to draw.
fn any_observation() -> impl Strategy<Value = Observation> {
    any::<u64>().prop_map(|mut number| {
        let mut below = |end: u64| {
            let digit = number % end;
            number /= end;
            digit
        };
        let (run, learned) = (below(6), below(12));
        let [settled, success, failure, level] =
            [below(5), below(6), below(6), below(4)].map(|digit| usize::try_from(digit).unwrap());
        let free = [None, Some(GIB), Some(3 * GIB), Some(40 * GIB)][level];
        let samples = (0..below(4)).map(|_| Sample {
            time: below(4).checked_sub(1).map(Duration::from_millis),
            bytes: below(4).checked_sub(1).map(|bytes| bytes * GIB),
            ..Sample::new(1 + usize::try_from(below(99)).unwrap())
        });
        let samples = samples.collect::<Samples>();
        let measured =
            Measurements { time: Duration::from_secs(below(3)), samples, ..Measurements::default() };
        let measurements = (below(2) > 0).then(|| Arc::new(measured));
        let bounds = (success.checked_sub(1), failure.checked_sub(1));
        observation(run, learned, &Remembered { measurements, ..remembered(settled, bounds, free) })
    })
}

fn any_evidence() -> impl Strategy<Value = Observations> {
    vec(any_observation(), 0..14).prop_map(evidence)
}

fn any_book() -> impl Strategy<Value = Book> {
    let used = option::of(0_u64..12).prop_map(|used| used.map(at));
    let history = (used, any_evidence()).prop_map(|(used, evidence)| CallRecord { used, evidence });
    let key = (select(vec!["a", "b"]), select(vec![None, Some(8 * GIB), Some(80 * GIB)]));
    vec((key.prop_map(|(name, total)| call(name, total)), history), 0..4).prop_map(book)
}

fn merged(mut a: Book, b: &Book) -> Book {
    a.merge(b);
    a
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_commutative_associative_and_idempotent(a in any_book(), b in any_book(), c in any_book()) {
        prop_assert_eq!(merged(a.clone(), &b), merged(b.clone(), &a));
        prop_assert_eq!(merged(merged(a.clone(), &b), &c), merged(a.clone(), &merged(b.clone(), &c)));
        prop_assert_eq!(merged(a.clone(), &a), a.clone());
        let both = merged(a.clone(), &b);
        prop_assert_eq!(merged(both.clone(), &a), both.clone());
        prop_assert_eq!(merged(both.clone(), &b), both);
    }

    /// Of the merged evidence stays, for each run and level, what is newest, and nothing older than what went.
    #[test]
    fn merging_keeps_the_newest_of_every_run(a in any_evidence(), b in any_evidence()) {
        let mut both = a.clone();
        both.merge(&b);
        let learned = |evidence: &Observations| evidence.newest();
        prop_assert_eq!(learned(&both), learned(&a).max(learned(&b)));
        let kept = both.0.clone();
        let all = a.0.into_iter().chain(b.0);
        let lost: Vec<_> = all.filter(|one| !kept.contains(one)).collect();
        for one in lost {
            let superseded = kept.iter().any(|other| other.run_and_level() == one.run_and_level() && *other > one);
            prop_assert!(superseded || (kept.len() == 8 && kept.iter().all(|other| *other > one)), "{one:?}");
        }
    }

    #[test]
    fn a_file_says_what_the_book_said(mut book in any_book()) {
        let text = text::write(&mut book).unwrap();
        prop_assert_eq!(&text::read(text.as_bytes()).unwrap(), &book);
        prop_assert_eq!(text::write(&mut book).unwrap(), text);
    }

    /// Whatever is in a file, what it says can be started from.
    #[test]
    fn hints_are_sound(book in any_book(), total in select(vec![None, Some(8 * GIB), Some(20 * GIB)])) {
        let key = call("a", total);
        for free in [None, Some(0), Some(3 * GIB), Some(100 * GIB)] {
            if let Some(hint) = book.hint_by_name(&key, free) {
                let Bounds { largest_success, smallest_failure } = hint.bounds;
                prop_assert!(hint.settled > 0);
                prop_assert!(smallest_failure.is_none_or(|failed| hint.settled < failed.max(2)), "{hint:?}");
                prop_assert!(largest_success.is_none_or(|size| size <= hint.settled.max(1)), "{hint:?}");
            }
        }
    }

    #[test]
    fn no_text_is_read_with_a_panic(text in "[\\PC\n]{0,200}") {
        let _ = text::read(text.as_bytes());
    }

    /// A file cut off anywhere, or with a byte changed, is refused or read, and never misread in
    /// silence as an empty one.
    #[test]
    fn a_damaged_file_is_no_empty_one(cut in 1_usize..400, at in 0_usize..400, byte in any::<u8>()) {
        let mut full = book([(call("a", Some(GIB)), history([observation(1, 5, &Remembered::new(64))]))]);
        let text = text::write(&mut full).unwrap().into_bytes();
        let cut_off = &text[..cut.min(text.len() - 2)];
        prop_assert!(matches!(text::read(cut_off), Err(Unfit::Corrupt(_))));
        let mut changed = text.clone();
        changed[at % text.len()] = byte;
        prop_assert!(text::read(&changed).map_or(true, |book| book.histories.len() == 1));
    }
}

#[test]
fn the_text_of_a_file_is_readable_and_stable() {
    let first = observation(0xA, 1_700_000_000, &remembered(64, (Some(64), Some(128)), Some(70 * GIB)));
    let second = observation(0xB, 1_700_000_100, &remembered(32, (Some(32), None), None));
    let keyed =
        CallKey { key: Some(Hex(7)), program: Some("demo".into()), crate_version: None, ..call("b", None) };
    let used = CallRecord { used: Some(at(1_700_000_200)), ..history([first, second]) };
    let last = observation(0xC, 0, &Remembered::new(8));
    let mut book = book([(keyed, history([last])), (call("demo::nearest", Some(80 * GIB)), used)]);
    expect![[r#"
        {
          "format": "toma size cache",
          "version": 1,
          "entries": [
            {
              "name": "b",
              "place": "src/main.rs:7:1",
              "program": "demo",
              "key": "0x0000000000000007",
              "device": "gpu:0",
              "evidence": [
                {
                  "learned": "1970-01-01T00:00:00.000Z",
                  "run": "0x000000000000000c",
                  "settled": 8
                }
              ]
            },
            {
              "name": "demo::nearest",
              "place": "src/main.rs:7:1",
              "crate_version": "0.1.0",
              "device": "gpu:0",
              "total_bytes": 85899345920,
              "used": "2023-11-14T22:16:40.000Z",
              "evidence": [
                {
                  "learned": "2023-11-14T22:15:00.000Z",
                  "run": "0x000000000000000b",
                  "settled": 32,
                  "largest_success": 32
                },
                {
                  "learned": "2023-11-14T22:13:20.000Z",
                  "run": "0x000000000000000a",
                  "settled": 64,
                  "largest_success": 64,
                  "smallest_failure": 128,
                  "free_bytes": 75161927680
                }
              ]
            }
          ]
        }
    "#]]
    .assert_eq(&text::write(&mut book).unwrap());
}

#[test]
fn unknown_fields_are_read_over() {
    let text = r#"{ "format": "toma size cache", "version": 1, "comment": "unknown", "entries": [
        { "name": "a", "device": "host", "color": "red", "evidence": [
            { "learned": "2026-01-01T00:00:00Z", "run": "0x1", "settled": 4, "bytes_per_item": 0.1,
              "measured": { "by": [1, {}] } }
        ] } ] }"#;
    let mut book = text::read(text.as_bytes()).unwrap();
    let again = text::write(&mut book).unwrap();
    assert!(again.contains("\"settled\": 4") && !again.contains("bytes_per_item"), "{again}");
    assert_eq!(text::read(again.as_bytes()).unwrap(), book);
}

#[test]
fn what_is_none_of_ours_is_told_apart() {
    let texts = [
        "{",
        "a poem",
        "[]",
        "17",
        r#"{"format": "toma profile", "version": 1}"#,
        r#"{"format": ["toma size cache"], "version": 1, "entries": []}"#,
        r#"{"format": "toma size cache", "version": 0, "entries": []}"#,
        r#"{"format": "toma size cache", "version": 2, "entries": 7}"#,
        r#"{"format": "toma size cache", "version": 1}"#,
        &"[".repeat(100_000),
    ];
    let whys = texts.map(|text| text::read(text.as_bytes()).unwrap_err().to_string() + "\n");
    expect![[r"
        is corrupt: EOF while parsing an object at line 1 column 1
        is corrupt: expected value at line 1 column 1
        is no size cache
        is no size cache
        is no size cache
        is no size cache
        is no size cache
        has format version 2, and this program reads 1
        is corrupt: missing field `entries` at line 1 column 43
        is corrupt: recursion limit exceeded at line 1 column 128
    "]]
    .assert_eq(&whys.concat());
    assert_eq!(text::read(b"").unwrap(), Book::default());
    assert!(matches!(text::read(&vec![b' '; (16 << 20) + 1]), Err(Unfit::TooLarge)));
    assert!(matches!(text::read(&[0; 4096]), Err(Unfit::Corrupt(_))));
    assert!(matches!(text::read(b"\xff\xfe"), Err(Unfit::Corrupt(_))));
}

#[test]
fn one_entry_of_nonsense_makes_a_file_corrupt() {
    let entry = |evidence: &str| {
        format!(
            r#"{{"format": "toma size cache", "version": 1, "entries": [{{"name": "a", "device": "d", "evidence": [{evidence}]}}]}}"#
        )
    };
    let read = |evidence: &str| text::read(entry(evidence).as_bytes());
    assert!(read(r#"{"learned": "2026-01-01T00:00:00Z", "run": "0x1", "settled": 4}"#).is_ok());
    for nonsense in [
        r#"{"learned": "2026-01-01T00:00:00Z", "run": "0x1", "settled": -4}"#,
        r#"{"learned": "2026-01-01T00:00:00Z", "run": "0x1", "settled": 1.5}"#,
        r#"{"learned": "2026-01-01T00:00:00Z", "run": "0x1"}"#,
        r#"{"learned": "9999-01-01T00:00:00Z", "run": "0x1", "settled": 4}"#,
        r#"{"learned": 0, "run": "0x1", "settled": 4}"#,
        r#"{"learned": "2026-01-01T00:00:00Z", "run": 1, "settled": 4}"#,
    ] {
        assert!(matches!(read(nonsense), Err(Unfit::Corrupt(_))), "{nonsense}");
    }
}

#[test]
fn the_newest_run_at_the_level_of_free_memory_decides_and_others_tighten_its_bounds() {
    let run = |run, settled, bounds, free: Option<u64>| {
        observation(run, 10 * run, &remembered(settled, bounds, free.map(|gib| gib * GIB)))
    };
    let says = |observations: &[Observation], free: Option<u64>| {
        let says = evidence(observations.to_vec()).says(free.map(|gib| gib * GIB)).unwrap();
        (says.settled, says.bounds.largest_success, says.bounds.smallest_failure)
    };
    let older = run(1, 96, (Some(96), Some(160)), None);
    let tighter = [older.clone(), run(2, 64, (Some(64), Some(128)), None)];
    assert_eq!(says(&tighter, None), (64, Some(96), Some(128)));
    assert_eq!(evidence(tighter).says(None).unwrap().learned, at(20).time());
    // 96 goes with the newer failure at 64, so of the successes only 32 is left.
    let overridden = [run(2, 32, (Some(32), Some(64)), None), older];
    assert_eq!(says(&overridden, None), (32, Some(32), Some(64)));
    let levels = [run(1, 512, (Some(512), Some(600)), Some(80)), run(2, 64, (Some(64), Some(128)), Some(10))];
    assert_eq!(says(&levels, Some(79)), (512, Some(512), Some(600)));
    assert_eq!([Some(20), None].map(|free| says(&levels, free)), [(64, Some(64), Some(128)); 2]);
    // What failed with more memory limits what is known of less.
    let failed_with_more = [run(1, 64, (Some(64), None), Some(10)), run(2, 24, (None, Some(48)), Some(80))];
    assert_eq!(says(&failed_with_more, Some(10)), (24, None, Some(48)));
}

#[test]
fn the_least_recently_learned_or_used_entry_goes() {
    let named =
        |i: u64| (call(&format!("call {i}"), None), history([observation(1, i, &Remembered::new(8))]));
    let mut book = book((0..10).map(named));
    book.touch(&call("call 2", None), at(100));
    book.touch(&call("never learned", None), at(200));
    book.keep_newest(3);
    let left: Vec<_> = book.histories.keys().map(|key| key.name.as_str()).collect();
    assert_eq!(left, ["call 2", "call 8", "call 9"]);
}

#[test]
fn a_file_stays_below_its_limit() {
    let long =
        |i: u64| (call(&format!("{i:0>60000}"), None), history([observation(1, i, &Remembered::new(8))]));
    let mut book = book((0..300).map(long));
    let text = text::write(&mut book).unwrap();
    assert!(text.len() <= 16 << 20);
    assert!(text::read(text.as_bytes()).is_ok_and(|book| (100..300).contains(&book.histories.len())));
    assert!(book.histories.contains_key(&long(299).0) && !book.histories.contains_key(&long(0).0));
}

#[test]
fn a_table_is_found_by_name_where_lines_moved() {
    let here = call("a", Some(80 * GIB));
    let moved = CallKey { place: Some("src/other.rs:1:1".into()), crate_version: None, ..here.clone() };
    let table = book([(moved, history([observation(1, 5, &Remembered::new(40))]))]);
    let settled = |key: &CallKey| table.hint_by_name(key, None).map(|hint| hint.settled);
    assert_eq!(table.histories.get(&here), None);
    assert_eq!(settled(&here), Some(40));
    let others = [
        CallKey { total_bytes: Some(40 * GIB), ..here.clone() },
        CallKey { total_bytes: None, ..here.clone() },
        CallKey { device: "gpu:1".into(), ..here.clone() },
        CallKey { key: Some(Hex(1)), ..here },
        call("b", Some(80 * GIB)),
    ];
    assert_eq!(others.map(|other| settled(&other)), [None; 5]);
}

#[test]
fn without_a_folder_for_caches_sizes_are_remembered_in_memory() {
    let cache = PersistentCache::on(None);
    let tried = || {
        let mut tried = Vec::new();
        let with = crate::execute::with::<crate::NoCache>().cache(&cache).name("a");
        let fits = |size| if size > 30 { Err(crate::classify::OutOfMemory::new(None)) } else { Ok(()) };
        let done = with.batch(100, |size| {
            tried.push(size);
            fits(size)
        });
        done.map(|()| tried).unwrap()
    };
    assert_eq!([tried(), tried()], [vec![100, 50, 25], vec![25]]);
    assert_eq!((cache.entries().len(), cache.path()), (1, None));
    cache.flush();
    cache.clear();
    assert!(cache.entries().is_empty());
}

/// Entries that are used and never learned anew would look unused, and go before others.
#[test]
fn a_use_is_written_down_when_much_is_known_and_not_twice_a_day() {
    for (entries, written) in [(MAX_ENTRIES / 2, false), (MAX_ENTRIES / 2 + 1, true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sizes.json");
        let named =
            |i| (call(&format!("call {i}"), None), history([observation(1, 1000, &Remembered::new(8))]));
        std::fs::write(&path, text::write(&mut book((0..entries).map(named))).unwrap()).unwrap();
        let used = || {
            let book = text::read(&std::fs::read(&path).unwrap()).unwrap();
            [7, 8].map(|i| book.histories.get(&call(&format!("call {i}"), None)).unwrap().used)
        };
        let hint = |i: u64| {
            let knowledge = Knowledge::new(Some(Disk::at(path.clone())));
            assert_eq!(knowledge.hint(&call(&format!("call {i}"), None), None, None).unwrap().settled, 8);
        };
        hint(7);
        let first = used();
        assert_eq!((first[0].is_some(), first[1]), (written, None), "{entries} entries");
        hint(7);
        assert_eq!(used(), first);
    }
}

#[test]
fn what_was_measured_is_the_same_in_another_run() {
    let sample = |size: usize, millis, bytes| Sample {
        time: Some(Duration::from_millis(millis)),
        bytes: Some(bytes),
        ..Sample::new(size)
    };
    let measured = Measurements {
        time: Duration::from_secs(60),
        wasted: Duration::from_millis(250),
        failure_age: Duration::from_secs(30),
        failure_cost: Duration::from_millis(125),
        failure_available_bytes: Some(3 * GIB),
        clean_runs: 40,
        confirmed: 2,
        samples: [sample(8, 500, GIB), sample(64, 2000, 2 * GIB)].into_iter().collect(),
        ..Measurements::default()
    };
    let of_the_moment = Measurements { failures: 3, retried: 1, ..measured };
    let known = Remembered { measurements: Some(Arc::new(of_the_moment)), ..Remembered::new(64) };
    let mut book = book([(call("a", Some(GIB)), history([observation(1, 5, &known)]))]);
    let text = text::write(&mut book).unwrap();
    let read = text::read(text.as_bytes()).unwrap();
    let hint = read.histories.get(&call("a", Some(GIB))).unwrap().hint(None).unwrap();
    assert_eq!(hint.measurements.as_deref(), Some(&measured), "{text}");
}

/// The numbers of a file may be of any origin.
#[test]
fn measurements_that_cannot_be_are_survived() {
    let read = |measured: &str| {
        let text = format!(
            r#"{{"format": "toma size cache", "version": 1, "entries": [{{"name": "a", "device": "d", "evidence": [
                {{"learned": "2026-01-01T00:00:00Z", "run": "0x1", "settled": 4, "measured": {measured}}}]}}]}}"#
        );
        let mut book = text::read(text.as_bytes())?;
        let hint = book.histories.values().find_map(|history| history.hint(None)).unwrap();
        assert!(hint.measurements.is_some());
        Ok(text::write(&mut book).unwrap())
    };
    let most = u64::MAX;
    let huge = format!(
        r#"{{"time_us": {most}, "samples": [{{"size": {most}, "bytes": {most}, "time_us": {most}}}, {{"size": 0}}]}}"#
    );
    assert!(read(&huge).unwrap().contains(&format!("\"time_us\": {most}")));
    assert!(read("{}").is_ok());
    for nonsense in [r#"{"time_us": -1}"#, r#"{"samples": [{}]}"#, "7"] {
        assert!(matches!(read(nonsense), Err(Unfit::Corrupt(_))), "{nonsense}");
    }
}
