//! Ranks that are killed, are slow, or call something else.

use std::env;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use toma_core::NoCache;
use toma_core::execute;

use crate::kit::{Process, join, start_all};

const LIMIT: Duration = Duration::from_secs(60);

/// Works until another rank is gone, and prints why it ended.
fn works_for_ever() {
    let ranks = join().unwrap();
    println!("begun");
    let error = loop {
        let done = execute::with::<NoCache>().name("work").ranks(&ranks).range(0..64, 4, |_, _| {
            thread::sleep(Duration::from_micros(200));
            Ok::<_, io::Error>(())
        });
        if let Err(error) = done {
            break error;
        }
    };
    eprintln!("{error}");
}

#[test]
fn the_others_end_in_time_when_a_rank_is_killed() {
    const TEST: &str = "killed::the_others_end_in_time_when_a_rank_is_killed";
    // `cargo xtask nightly ranks` asks for more.
    let kills = env::var("TOMA_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(1);
    for _ in 0..kills {
        let groups: Option<Vec<_>> = (0..3).map(|_| start_all(TEST, 3)).collect();
        let Some(groups) = groups else { return works_for_ever() };
        // At once, because a group mostly waits for the limit of a vote.
        thread::scope(|scope| {
            for (rank, group) in groups.into_iter().enumerate() {
                scope.spawn(move || kills_one(group, rank, Duration::from_micros(fastrand::u64(..50_000))));
            }
        });
    }
}

fn kills_one(mut group: Vec<Process>, rank: usize, moment: Duration) {
    for process in &mut group {
        process.waits_for_line("begun");
    }
    thread::sleep(moment);
    group[rank].kill();
    let begun = Instant::now();
    for (other, process) in group.into_iter().enumerate().filter(|(other, _)| *other != rank) {
        let stderr = process.ends_within(LIMIT);
        let named = format!("no vote of rank {rank} of 3 within 2s\n");
        // Rank 0 serves the store, so without it the others may only report that the ranks cannot be reached.
        let is_reported =
            stderr.ends_with(&named) || rank == 0 && stderr.contains("ranks cannot be reached: 127.0.0.1:");
        assert!(is_reported, "rank {other}, {rank} killed after {moment:?}: {stderr}");
    }
    assert!(begun.elapsed() < LIMIT);
}

#[test]
fn a_slow_rank_is_missed_and_notified() {
    let Some(ranks) = start_all("killed::a_slow_rank_is_missed_and_notified", 2) else {
        let ranks = join().unwrap();
        let done = execute::with::<NoCache>().name("work").ranks(&ranks).batch(4, |size| {
            if ranks.rank() == 1 {
                thread::sleep(Duration::from_secs(3));
            }
            Ok::<_, io::Error>(size)
        });
        eprintln!("{}", done.unwrap_err());
        return;
    };
    let stderr: Vec<_> = ranks.into_iter().map(|rank| rank.ends_within(LIMIT)).collect();
    let missed = "batch `work` after 1 attempts: no vote of rank 1 of 2 within 2s\n";
    assert!(stderr[0].ends_with(missed), "{stderr:?}");
    // Rank 0 serves the store, and may have ended.
    assert!(stderr[1].ends_with(missed) || stderr[1].contains("ranks cannot be reached: "), "{stderr:?}");
}

#[test]
fn a_rank_that_runs_something_else_is_named() {
    let Some(ranks) = start_all("killed::a_rank_that_runs_something_else_is_named", 2) else {
        let ranks = join().unwrap();
        let name = ["train", "evaluate"][ranks.rank()];
        let done = execute::with::<NoCache>().name(name).ranks(&ranks).batch(4, Ok::<_, io::Error>);
        eprintln!("{}", done.unwrap_err());
        return;
    };
    for rank in ranks {
        let stderr = rank.ends_within(LIMIT);
        let differ = "ranks differ: rank 0 is at batch `train`, rank 1 at batch `evaluate`\n";
        assert!(stderr.ends_with(differ), "{stderr}");
    }
}
