//! Tests that the ranks agree in every form.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use toma::GlobalCache;
use toma::classify::OutOfMemory;
use toma::ranks::{Group, Member, when_agreed};
use toma::{NoCache, execute, report};

use crate::executor::{Unpark, block_on_wakes as block_on};
use crate::kit::{form, on_each};

/// Makes an attempt. Rank 1 has room for `room` items only.
fn attempt(rank: &Member, items: usize, room: usize) -> Result<usize, OutOfMemory> {
    if rank.rank() == 1 && items > room { Err(OutOfMemory::new(None)) } else { Ok(items) }
}

#[test]
fn an_iterator_goes_on_voting_until_all_are_done() {
    let pieces = on_each(2, |rank| {
        let items = if rank.rank() == 0 { 2 } else { 6 };
        let pieces = form("rows", &rank).iter(0..items, 4, |start, end| attempt(&rank, end - start, 2));
        pieces.map(Result::unwrap).collect::<Vec<_>>()
    });
    assert_eq!(pieces, [vec![2], vec![2, 2, 2]]);
}

#[test]
fn a_settled_size_is_learned_by_every_rank() {
    let caches = [GlobalCache::new(), GlobalCache::new()];
    for expected in [(64, 3), (16, 1)] {
        let seen = on_each(2, |rank| {
            let cache = &caches[rank.rank()];
            let with = execute::with::<NoCache>().cache(cache).name("step").ranks(&rank);
            with.batch(64, |size| attempt(&rank, size, 20)).unwrap();
            let report = report::last().unwrap();
            (report.start, report.attempts)
        });
        assert_eq!(seen, [expected, expected]);
    }
}

#[test]
fn the_first_size_is_the_smallest_that_any_rank_knows() {
    let caches = [GlobalCache::new(), GlobalCache::new()];
    let call = |rank: &Member, cache, room| {
        let with = execute::with::<NoCache>().cache(cache).name("step").ranks(rank);
        let size = with.batch(64, |size| if size > room { Err(OutOfMemory::new(None)) } else { Ok(size) });
        (size.unwrap(), report::last().unwrap().start)
    };
    let alone = toma::ranks::threads(1).pop().unwrap();
    assert_eq!(call(&alone, &caches[0], 8), (8, 64));
    assert_eq!(on_each(2, |rank| call(&rank, &caches[rank.rank()], 64)), [(8, 8), (8, 8)]);
    // Rank 1 has learned the size.
    assert_eq!(call(&alone, &caches[1], 64), (8, 8));
}

#[test]
fn reports_name_the_rank_that_failed() {
    let shown = on_each(3, |rank| {
        form("step", &rank).batch(64, |size| attempt(&rank, size, 32)).unwrap();
        report::last().unwrap().to_string()
    });
    assert!(shown[0].contains("64 -> 32 (out of memory on rank 1 of 3), worked once"), "{}", shown[0]);
    assert!(shown[0].contains("2 attempts, never out of memory"), "{}", shown[0]);
    assert!(shown[1].contains("64 -> 32 worked once"), "{}", shown[1]);
}

#[test]
fn actions_run_once_for_the_attempt_that_counts() {
    let counts = on_each(2, |rank| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let leave = |start, end| {
            let sender = sender.clone();
            when_agreed(move || sender.send((start, end)).unwrap());
        };
        execute::with::<NoCache>()
            .ranks(&rank)
            .range(0..4, 4, |start, end| {
                leave(start, end);
                // An action that is registered in an inner loop waits for the enclosing attempt, too.
                execute::with::<NoCache>().range(0..2, 2, |_, _| leave(start, end));
                assert!(!receiver.try_iter().any(|action| action == (start, end)));
                attempt(&rank, end - start, 2).map(drop)
            })
            .unwrap();
        receiver.try_iter().collect::<Vec<_>>()
    });
    // The check in the second piece has already received the actions of the first piece.
    assert_eq!(counts, [[(2, 4); 2], [(2, 4); 2]]);
}

#[toma::range(initial = 8, cache = NoCache, ranks = ranks)]
fn annotated(start: usize, end: usize, ranks: &Member, seen: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    attempt(ranks, end - start, 2)?;
    seen.push(end - start);
    Ok(())
}

#[toma::batch(initial = 8, cache = NoCache, ranks = ranks)]
async fn annotated_task(batch_size: usize, ranks: &Member) -> Result<usize, OutOfMemory> {
    std::future::ready(()).await;
    attempt(ranks, batch_size, 2)
}

#[toma::range(initial = 8, cache = NoCache, ranks = ranks)]
async fn annotated_pieces(start: usize, end: usize, ranks: &Member) -> Result<(), OutOfMemory> {
    attempt(ranks, end - start, 2).map(drop)
}

#[test]
fn annotated_functions_agree() {
    let all = on_each(2, |rank| {
        let mut seen = Vec::new();
        annotated(0, 8 + 8 * rank.rank(), &rank, &mut seen).unwrap();
        block_on(annotated_pieces(0, 8 + 8 * rank.rank(), &rank)).unwrap();
        (seen, report::last().unwrap().joined, block_on(annotated_task(&rank)).unwrap())
    });
    // Pieces of 8 and of 4 ran on rank 0, and failed on rank 1.
    assert_eq!((&all[0].0[..], all[0].1), (&[8, 4, 2, 2, 2, 2][..], 4));
    assert_eq!((&all[1].0[..], all[1].1), (&[2; 8][..], 0));
    assert_eq!((all[0].2, all[1].2), (2, 2));
}

#[test]
fn tasks_of_one_thread_agree() {
    let ranks = toma::ranks::threads(2);
    let [one, other] = [&ranks[0], &ranks[1]].map(annotated_task);
    let (mut one, mut other) = (pin!(one), pin!(other));
    let waker = Waker::from(Unpark::this_thread());
    let (mut context, mut sizes) = (Context::from_waker(&waker), [None, None]);
    while sizes.contains(&None) {
        for (size, task) in
            sizes.iter_mut().zip([one.as_mut() as std::pin::Pin<&mut dyn Future<Output = _>>, other.as_mut()])
        {
            if size.is_none()
                && let Poll::Ready(ended) = task.poll(&mut context)
            {
                *size = Some(ended.unwrap());
            }
        }
        thread::park_timeout(std::time::Duration::from_millis(1));
    }
    assert_eq!(sizes, [Some(2), Some(2)]);
}

#[test]
fn streams_agree() {
    let all = on_each(2, |rank| {
        block_on(async {
            let items = 4 + 2 * rank.rank();
            let body = async |start: usize, end: usize| attempt(&rank, end - start, 2);
            let mut rows = form("rows", &rank).stream(0..items, 4, body);
            let mut seen = Vec::new();
            while let Some(row) = rows.next().await {
                seen.push(row.unwrap());
            }
            seen
        })
    });
    assert_eq!(all, [vec![2, 2], vec![2, 2, 2]]);
}

#[test]
fn costs_agree() {
    let left_out = on_each(2, |rank| {
        let (left_out, costs) = (RefCell::new(Vec::new()), [1, 1, 9, 1, 1]);
        execute::with::<NoCache>()
            .ranks(&rank)
            .by_cost(|item| costs[item])
            .left_out(|left: toma::execute::LeftOut| left_out.borrow_mut().push(left.index))
            .range(0..5, 12, |start, end| {
                let cost: u64 = costs[start..end].iter().sum();
                attempt(&rank, usize::try_from(cost).unwrap(), 4).map(drop)
            })
            .unwrap();
        left_out.into_inner()
    });
    assert_eq!(left_out, [vec![], vec![2]]);
}

#[test]
fn one_rank_exchanges_nothing() {
    let rank = toma::ranks::threads(1).pop().unwrap();
    let sum = execute::with::<NoCache>().ranks(&rank).fold(0..10, 4, 0, |sum, start, end| sum + end - start);
    assert_eq!((sum, rank.agree(false), rank.smallest(7), rank.barrier()), (10, Ok(false), Ok(7), Ok(())));
    assert_eq!(rank.store().keys(), 0);
}

#[test]
fn a_loop_of_ones_own_agrees() {
    let all = on_each(3, |rank| {
        rank.barrier().unwrap();
        let smallest = rank.smallest(10 - rank.rank()).unwrap();
        (rank.agree(true).unwrap(), rank.agree(rank.rank() != 2).unwrap(), smallest)
    });
    assert_eq!(all, [(true, false, 8); 3]);
}

#[test]
fn keys_do_not_pile_up() {
    on_each(2, |rank| {
        let mut most = 0;
        for _ in 0..200 {
            form("step", &rank).range(0..8, 2, |_, _| ());
            most = most.max(rank.store().keys());
        }
        assert!(most <= 16, "{most}");
    });
}
