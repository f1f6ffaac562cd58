//! A process killed at any point leaves a file that can be read and that holds all that was there.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout};
use std::thread;
use std::time::{Duration, SystemTime};

use toma::PersistentCache;

use crate::child;
use crate::kit::{Folder, batch, settled};

const TEST: &str = "kills::a_process_killed_anywhere_loses_nothing";

/// Files, and pairs of children that are killed over each.
const FILES: usize = 10;
const PAIRS: usize = 25;

/// The largest size a child begins with; it settles at half of the last size again and again.
const LARGEST: usize = 1 << 40;

/// 500 children, two at a time on one file.
#[test]
fn a_process_killed_anywhere_loses_nothing() {
    if let Some(order) = child::order() {
        return learn_until_killed(&order);
    }
    let seed = env::var("TOMA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(now);
    println!("TOMA_TEST_SEED={seed}");
    let written: usize = thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                (half..FILES).step_by(2).map(|file| kill_over_one_file(seed, file)).sum::<usize>()
            })
        });
        halves.into_iter().map(|half| half.join().unwrap()).sum()
    });
    println!("{} children wrote {written} times", FILES * PAIRS * 2);
    assert!(written > FILES * PAIRS, "most children are killed before they write anything: {written}");
}

/// What one child has acknowledged, and how many writes these were.
fn kill_over_one_file(seed: u64, file: usize) -> usize {
    let folder = Folder::in_memory();
    let mut random = Random(seed ^ (file as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    batch(&folder.cache(), "older", 100, 30);
    let mut known = BTreeMap::from([("older".to_owned(), 25)]);
    let mut written = 0;
    for pair in 0..PAIRS {
        let names = [0, 1].map(|i| format!("child {pair} {i}"));
        let children = names.each_ref().map(|name| Victim::start(&folder, name));
        for (name, child) in names.into_iter().zip(children) {
            thread::sleep(Duration::from_micros(random.below(4000)));
            if let Some(settled) = child.kill() {
                written += (LARGEST / settled).ilog2() as usize;
                known.insert(name, settled);
            }
        }
        check(&folder, &known, seed);
    }
    written
}

/// Everything acknowledged is in the file; a child may have been killed between writing and saying so.
fn check(folder: &Folder, known: &BTreeMap<String, usize>, seed: u64) {
    let found: BTreeMap<_, _> = settled(&folder.cache()).into_iter().collect();
    for (name, &settled) in known {
        let found = found.get(name).copied();
        assert!(
            found == Some(settled) || found == Some(settled / 2),
            "{name}: {found:?} of {settled}, seed {seed}"
        );
    }
    assert_eq!(folder.aside(), 0, "seed {seed}");
}

struct Victim {
    process: Child,
    stdout: BufReader<ChildStdout>,
}

impl Victim {
    /// A child that is at its work.
    fn start(folder: &Folder, name: &str) -> Self {
        let order = format!("{name}\n{}", folder.file().display());
        let mut process = child::command(TEST, &order, folder.path()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("begins") {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the child ended");
        }
        Self { process, stdout }
    }

    /// The last size it has acknowledged before it was killed.
    fn kill(mut self) -> Option<usize> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let lines = self.stdout.lines().map(Result::unwrap);
        lines.filter_map(|line| line.strip_prefix("settled ")?.strip_suffix(" so it is")?.parse().ok()).last()
    }
}

fn learn_until_killed(order: &str) {
    let (name, path) = order.split_once('\n').unwrap();
    let cache = PersistentCache::at(path);
    let mut stdout = std::io::stdout();
    stdout.write_all(b"\nbegins\n").unwrap();
    let mut size = LARGEST;
    while size > 2 {
        let tried = batch(&cache, name, LARGEST, size / 2);
        size = *tried.last().unwrap();
        stdout.write_all(format!("settled {size} so it is\n").as_bytes()).unwrap();
        stdout.flush().unwrap();
    }
    thread::sleep(Duration::from_secs(60));
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos().into()
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
