//! Steps worked out by hand.

use std::time::Duration;

use toma_plan::residency::{
    Absence, Back, Candidate, Eviction, Flow, Genoa, Lru, Move, MoveKind, Next, NextEvent, Operator, Plan,
    Situation, Step, Storage, Terms, Use, simulate, simulate_plan,
};

/// Weights of 10 bytes, used in this order; each operator takes a second.
fn weights(count: usize, order: &[usize]) -> Step {
    let weight = Storage { bytes: 10, birth: None, death: None, stays: false };
    let operator = |&storage: &usize| Operator {
        uses: vec![Use { storage, writes: false }],
        inside_bytes: 0,
        duration: Duration::from_secs(1),
    };
    Step { storages: vec![weight; count], operators: order.iter().map(operator).collect() }
}

fn moves(log: &[Move]) -> Vec<(u64, u64, MoveKind)> {
    log.iter().map(|moved| (moved.operator, moved.storage, moved.kind)).collect()
}

#[test]
fn three_weights_in_the_room_of_two() {
    use MoveKind::{CopiedOut, Fetched, Left};
    let step = weights(3, &[0, 1, 2]);
    let terms = Terms { budget_bytes: 20, in_bytes_per_second: 10.0, out_bytes_per_second: 5.0 };
    let lru = simulate(&step, &terms, &mut Lru, 3);
    // Storages that exist at first count as used at operator 0, as do those that operator 0 uses.
    let first = [
        (0, 1, CopiedOut),
        (1, 0, CopiedOut),
        (1, 1, Fetched),
        (3, 1, Left),
        (3, 0, Fetched),
        (4, 2, CopiedOut),
        (4, 1, Fetched),
    ];
    assert_eq!(moves(&lru.log)[..7], first);
    assert_eq!((lru.peak_bytes, lru.rounds[2].bytes_in, lru.rounds[2].bytes_out), (20, 30, 0));
    // Each operator waits a second for its weight.
    assert_eq!((lru.rounds[2].seconds, lru.rounds[2].stalled_seconds), (6.0, 3.0));
    let next = simulate(&step, &terms, &mut NextEvent, 4);
    assert_eq!(next.rounds[3].bytes_in + next.rounds[2].bytes_in, 30);
}

#[test]
fn an_evicted_storage_frees_its_memory_when_it_is_out() {
    let mut step = weights(2, &[0, 1]);
    step.operators[0].uses[0].writes = true;
    let terms = Terms { budget_bytes: 10, in_bytes_per_second: 10.0, out_bytes_per_second: 5.0 };
    let outcome = simulate(&step, &terms, &mut Lru, 2);
    // Weight 1 is out after 2 s. Operator 1 waits 2 s for weight 0 to be out and 1 s for weight 1 to be fetched.
    assert_eq!((outcome.rounds[0].seconds, outcome.rounds[0].stalled_seconds), (7.0, 5.0));
    // Weight 1 was not written, so it is evicted without a copy.
    assert_eq!((outcome.rounds[1].seconds, outcome.rounds[1].bytes_out), (6.0, 10));
    assert_eq!((outcome.seconds(), outcome.stalled_seconds()), (13.0, 9.0));
}

#[test]
fn a_plan_fetches_ahead() {
    let step = weights(4, &[0, 1, 2, 3]);
    let terms = Terms { budget_bytes: 20, in_bytes_per_second: 10.0, out_bytes_per_second: f64::INFINITY };
    let absence = |storage| Absence {
        storage,
        leaves_after: storage,
        back: Some(Back { fetched_at: (storage + 3) % 4, used_by: storage }),
    };
    let plan = Plan::new(&step, &terms, "own", (0..4).map(absence).collect());
    assert_eq!((plan.bytes_in(), plan.bytes_out(), plan.peak_bytes()), (40, 0, 20));
    assert_eq!((plan.seconds(), plan.operator_seconds()), (4.0, 4.0));
    assert_eq!(plan.explain(2), "leaves after operator 2, is fetched at 1 for 2");
    assert_eq!(plan.explain(7), "stays on the device");
    assert_eq!(
        plan.to_string(),
        "own: 4 absences in 20.00B, 40.00B in, 0.00B out, 4.000 s of operators and 0.000 s of stalls"
    );
    // With less room, fetches wait for their operators.
    let less = simulate_plan(&step, &Terms { budget_bytes: 10, ..terms }, &plan, 3);
    assert_eq!((less.rounds[2].seconds, less.peak_bytes, less.out_of_memory), (8.0, 10, None));
    assert_eq!(simulate(&step, &terms, &mut Genoa, 3).rounds[2].seconds, 8.0);
}

#[test]
fn a_step_that_fits_moves_nothing() {
    let step = weights(3, &[0, 1, 2, 0]);
    let terms = Terms { budget_bytes: 30, in_bytes_per_second: 1.0, out_bytes_per_second: 1.0 };
    for outcome in [simulate(&step, &terms, &mut Lru, 2), simulate(&step, &terms, &mut NextEvent, 2)] {
        assert_eq!((outcome.log.len(), outcome.peak_bytes, outcome.rounds[1].seconds), (0, 30, 4.0));
    }
    for budget_bytes in [30, 31, u64::MAX] {
        let plan = Flow::default().plan(&step, &Terms { budget_bytes, ..terms }).unwrap();
        assert_eq!((plan.absences(), plan.seconds()), (&[][..], 4.0));
    }
}

fn candidate(storage: u64, bytes: u64, last_use: u64, next: Next) -> Candidate {
    Candidate { storage, bytes, last_use, next, has_copy: false }
}

fn evicted(eviction: &mut dyn Eviction, lacking_bytes: u64, candidates: &[Candidate]) -> Vec<u64> {
    eviction.evict(&Situation { now: 10, lacking_bytes, candidates })
}

#[test]
fn the_cheapest_for_its_time_on_the_host_is_evicted_first() {
    let copied = |candidate: Candidate| Candidate { has_copy: true, ..candidate };
    // Moved per byte over distance: 2/4, 1/3, 1/2, 0/2 and 0.
    let candidates = [
        candidate(1, 10, 9, Next::Use(14)),
        copied(candidate(2, 10, 9, Next::Use(13))),
        candidate(3, 10, 9, Next::Death(12)),
        copied(candidate(4, 10, 9, Next::Death(12))),
        candidate(5, 10, 9, Next::Never),
    ];
    for eviction in [&mut NextEvent as &mut dyn Eviction, &mut Flow::default()] {
        assert_eq!(evicted(eviction, 50, &candidates), [4, 5, 2, 1, 3]);
        assert_eq!(evicted(eviction, 15, &candidates), [4, 5]);
    }
}

#[test]
fn an_unneeded_eviction_is_taken_back() {
    let candidates = [
        candidate(1, 5, 1, Next::Unknown),
        candidate(2, 3, 2, Next::Unknown),
        candidate(3, 10, 3, Next::Unknown),
    ];
    // All three are candidates, but the third and the first suffice.
    assert_eq!(evicted(&mut Lru, 12, &candidates), [1, 3]);
    assert_eq!(evicted(&mut Lru, 16, &candidates), [1, 2, 3]);
    // More than all candidates have: all are evicted.
    assert_eq!(evicted(&mut Lru, 100, &candidates), [1, 2, 3]);
}

#[test]
fn without_a_known_step_the_least_recently_used_leaves_first() {
    let unknown = [candidate(1, 10, 7, Next::Unknown), candidate(2, 10, 3, Next::Unknown)];
    for eviction in [&mut Lru as &mut dyn Eviction, &mut NextEvent, &mut Flow::default(), &mut Genoa] {
        assert_eq!(evicted(eviction, 10, &unknown), [2], "{}", eviction.name());
    }
    // Among others, a storage of unknown use counts as used as far ahead as it has been idle.
    let mixed = [
        candidate(1, 10, 7, Next::Unknown),
        candidate(2, 10, 3, Next::Use(14)),
        candidate(3, 10, 8, Next::Use(12)),
    ];
    assert_eq!(evicted(&mut NextEvent, 30, &mixed), [2, 1, 3]);
}
