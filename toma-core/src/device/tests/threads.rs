//! Eight threads at once, with real locks and wakers.

use std::sync::Barrier;

use super::*;

fn on_threads(device: &Device, work: impl Fn(usize) + Sync) {
    let begin = Barrier::new(8);
    thread::scope(|scope| {
        for seed in 0..8 {
            let (begin, work) = (&begin, &work);
            scope.spawn(move || {
                begin.wait();
                (0..300).for_each(|number| work(number * (seed + 1) + seed));
            });
        }
    });
    assert!(is_empty(device), "something is left");
}

#[test]
fn an_exclusive_turn_is_exclusive_and_no_wake_up_is_lost() {
    let device = device();
    let [shared, alone] = [(); 2].map(|()| AtomicUsize::new(0));
    let attempt = |turn: &Turn| {
        let (own, other) = if turn.is_exclusive() { (&alone, &shared) } else { (&shared, &alone) };
        let before = own.fetch_add(1, Relaxed);
        for _ in 0..2 {
            assert!(other.load(Relaxed) == 0 && (before == 0 || !turn.is_exclusive()));
            thread::yield_now();
        }
        own.fetch_sub(1, Relaxed);
    };
    on_threads(&device, |number| match number % 5 {
        0 | 1 => attempt(&in_turn(Some(exclusive(&device).wait()))),
        2 => drop(Task::new(exclusive(&device)).poll()),
        _ => {
            let wait = || device.wait_for(TurnKind::Shared, at_most(AGES)).wait();
            let turn = device.try_shared().unwrap_or_else(|| in_turn(Some(wait())));
            attempt(&turn);
            attempt(&in_turn(Some(turn.exclusive_again(at_most(AGES)).wait())));
        }
    });
}

#[test]
fn waits_that_end_early_leave_nothing_behind() {
    let device = device();
    on_threads(&device, |number| {
        let (cancel, kind) = (Cancel::new(), [TurnKind::Shared, TurnKind::Exclusive][number % 2]);
        let short = at_most(Duration::from_micros(number as u64 % 200));
        match number % 5 {
            0 => drop(Task::new(device.wait_for(kind, at_most(AGES))).poll()),
            1 | 2 => drop(device.wait_for(kind, short).wait()),
            3 => thread::scope(|scope| {
                scope.spawn(|| cancel.cancel());
                let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
                drop(device.wait_for(kind, bounds).wait());
            }),
            _ => drop(device.begin_beside()),
        }
    });
}
