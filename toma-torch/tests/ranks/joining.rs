//! Tests of how ranks find each other, and of the errors when they cannot.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use toma_core::NoCache;
use toma_core::classify::OutOfMemory;
use toma_core::{execute, report};
use toma_torch::ranks::{Ranks, Rendezvous};

use crate::kit::{free_port, join, start, start_all};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn processes_agree_on_sizes_and_values() {
    let Some(ranks) = start_all("joining::processes_agree_on_sizes_and_values", 3) else {
        let ranks = join().unwrap();
        let rank = ranks.rank();
        let sizes =
            execute::with::<NoCache>().name("work").ranks(&ranks).map(0..8 + 4 * rank, 8, |start, end| {
                if rank == 2 && end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(end - start) }
            });
        assert_eq!(sizes.unwrap(), vec![2; 4 + 2 * rank]);
        let report = report::last().unwrap();
        assert_eq!((report.attempts + report.joined, ranks.smallest(9 - rank)), (10, Ok(7)));
        let evaluation = ranks.named("evaluation").unwrap();
        assert_eq!(evaluation.agree(rank != 1), Ok(false));
        let shared = evaluation.share(vec![7; rank]).unwrap();
        assert_eq!(shared, [vec![], vec![7], vec![7, 7]]);
        eprintln!("agreed");
        return;
    };
    for rank in ranks {
        assert!(rank.ends_within(LIMIT).ends_with("agreed\n"));
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let test = "joining::a_rank_that_never_comes_is_named";
    let port = free_port();
    let Some(one) = start(test, port, 0, 3, &[]) else {
        eprintln!("{}", join().unwrap_err());
        return;
    };
    let other = start(test, port, 2, 3, &[]).expect("this is the parent");
    for rank in [one, other] {
        let stderr = rank.ends_within(LIMIT);
        assert!(stderr.ends_with("barrier: no vote of rank 1 of 3 within 2s\n"), "{stderr}");
    }
}

#[test]
fn a_rank_is_taken_once_and_all_have_one_size() {
    let (test, port) = ("joining::a_rank_is_taken_once_and_all_have_one_size", free_port());
    let Some(mut first) = start(test, port, 0, 2, &[("TIMEOUT_MS", "5000")]) else {
        println!("begun");
        let joined = join();
        eprintln!("{}", joined.map_or_else(|error| error.to_string(), |_| "joined".to_owned()));
        return;
    };
    first.waits_for_line("begun");
    let start = |rank, size| start(test, port, rank, size, &[("TIMEOUT_MS", "5000")]).unwrap();
    let wrong = start(2, 3).ends_within(LIMIT);
    assert!(wrong.ends_with("size 3: other ranks have size 2\n"), "{wrong}");
    let second = start(1, 2).ends_within(LIMIT);
    let first = first.ends_within(LIMIT);
    assert!(second.ends_with("joined\n") && first.ends_with("joined\n"), "{first}{second}");
}

#[test]
fn two_processes_with_one_rank_are_refused() {
    let (test, port) = ("joining::two_processes_with_one_rank_are_refused", free_port());
    let Some(mut first) = start(test, port, 0, 3, &[("TIMEOUT_MS", "3000")]) else {
        println!("begun");
        eprintln!("{}", join().unwrap_err());
        return;
    };
    first.waits_for_line("begun");
    let twins = [0, 1].map(|_| start(test, port, 1, 3, &[("TIMEOUT_MS", "3000")]).unwrap());
    let stderr = twins.map(|twin| twin.ends_within(LIMIT));
    let is_taken = |stderr: &&String| stderr.ends_with("rank 1: another process has it\n");
    assert_eq!(stderr.iter().filter(is_taken).count(), 1, "{stderr:?}");
    assert!(first.ends_within(LIMIT).contains("no vote of rank 2 of 3"));
}

#[test]
fn a_wrong_address_is_reported_in_time() {
    let begun = Instant::now();
    let with = || Rendezvous::default().timeout(Duration::from_millis(500));
    let error = |address: &str, rank, size| with().connect(address, rank, size).unwrap_err().to_string();
    assert_eq!(error("host", 0, 2), "address \"host\": must be a host and a port, host:29500");
    assert_eq!(error("host:29500", 2, 2), "rank 2: must be below size 2");
    assert_eq!(error("host:29500", 0, 0), "size 0: must be at least 1");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let in_use = error(&address, 0, 2);
    assert!(in_use.starts_with("ranks cannot be reached: ") && in_use.contains("in use"), "{in_use}");
    let silent = error(&format!("127.0.0.1:{}", free_port()), 1, 2);
    assert!(silent.starts_with("ranks cannot be reached: 127.0.0.1:"), "{silent}");
    assert!(begun.elapsed() < LIMIT);
}

#[test]
fn a_rank_alone_needs_no_store() {
    let ranks = Ranks::connect("nowhere.invalid:1", 0, 1).unwrap();
    let size = execute::with::<NoCache>().ranks(&ranks).batch(4, Ok::<_, io::Error>);
    assert_eq!((size.unwrap(), ranks.smallest(3), ranks.share(vec![1])), (4, Ok(3), Ok(vec![vec![1]])));
}
