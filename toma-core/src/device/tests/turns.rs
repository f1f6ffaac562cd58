//! Devices and turns: their identity, the contention that attempts see, and when bounds pass.

use super::queue::{QueueState, Standing};
use super::sleepers::SleeperId;
use super::*;

#[test]
fn devices_are_distinguished_by_the_name_that_is_read_once() {
    let source = Pool { names: ["this name", "that name"], ..Pool::new("") };
    let [this, that] = [(); 2].map(|()| Device::of(&source));
    assert_eq!([this.name(), that.name()], ["this name", "that name"]);
    let again = Device::of(&source);
    assert!(again.id() == this.id() && that.id() != this.id());
    let turns = [&this, &again, &that].map(|device| device.try_shared().unwrap());
    assert_eq!(turns.each_ref().map(Turn::others), [1, 1, 0]);
    let elsewhere = thread::spawn(|| Device::named("this name").try_shared().unwrap().others());
    assert_eq!(elsewhere.join().unwrap(), 2, "in every thread");
    let reserved = reserve(&source, 10, AGES).unwrap();
    assert_eq!(reserved.device(), "that name");
}

#[test]
fn names_that_are_gone_are_forgotten() {
    let kept: Vec<_> = (0..100).map(|number| Device::named(&format!("kept {number}"))).collect();
    let before = registry::known();
    for number in 0..1000 {
        drop(Device::named(&format!("passing {number}")).try_shared());
    }
    assert!(registry::known() < before + 50, "{}", registry::known());
    assert!(kept.iter().all(|device| Device::named(device.name()).id() == device.id()));
}

#[test]
fn a_turn_sees_others_and_marks_from_its_beginning_or_renewal_on() {
    let device = device();
    let before = device.try_shared().unwrap();
    let mut own = device.try_shared().unwrap();
    let inner = device.seen();
    assert!(before.has_contention() && own.has_contention() && own.may_be_contended());
    drop(before);
    assert!(own.has_contention() && device.has_contention(inner), "it ran as this one began");
    let promised = enclosed(Enclosing::default(), &own, true).promised_on(device.id()).unwrap();
    device.mark(promised);
    assert!(own.is_marked());
    own.renew();
    assert!(!own.is_marked());
    let inner = device.seen();
    assert!(!own.has_contention() && !device.has_contention(inner) && own.others() == 0);
    drop(device.begin_beside());
    assert!(own.has_contention() && device.has_contention(inner), "it has begun since, and ended");
    assert!(!device.has_contention(device.seen()), "it was over as this one began");
    device.mark(promised);
    drop(own);
    assert!(is_empty(&device));
}

#[test]
fn one_attempt_of_a_device_is_measured_at_a_time_and_a_panic_ends_all() {
    let device = device();
    let first = device.measure();
    assert!(first.is_some() && device.measure().is_none());
    drop(first);
    let panics = thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let (_turn, _second) = (exclusive(&device).wait(), device.measure().unwrap());
            assert!(device.measure().is_none());
            std::panic::resume_unwind(Box::new("in the middle"))
        });
        panics.join().is_err()
    });
    assert!(panics && is_empty(&device));
}

#[test]
fn the_outermost_attempt_alone_promises_and_on_its_device_alone() {
    let devices: [_; 6] = std::array::from_fn(|_| device());
    let turns = devices.each_ref().map(|device| device.try_shared().unwrap());
    let nested = |promises: &dyn Fn(usize) -> bool| {
        let enter = |outer, (at, turn)| enclosed(outer, turn, promises(at));
        turns.iter().enumerate().fold(Enclosing::default(), enter)
    };
    let held = devices.each_ref().map(|device| nested(&|_| true).holds(device.id()));
    assert_eq!(held, [true, true, true, true, false, false], "deeper ones count as another device");
    let promised = |of: Enclosing| devices.each_ref().map(|device| of.promised_on(device.id()).is_some());
    assert_eq!(promised(nested(&|_| true)), [true, false, false, false, false, false]);
    assert_eq!(promised(nested(&|at| at > 0)), [false; 6]);
    assert!(nested(&|_| true).holds_any() && !Enclosing::default().holds_any());
}

#[test]
fn bounds_pass_in_the_queue_and_before_a_turn_is_claimed() {
    let begin = Instant::now();
    let at = |tick| begin + Duration::from_secs(tick);
    let [first, second, third] = [1, 2, 3].map(SleeperId);
    let mut state = QueueState::new(1);
    let runs = state.try_shared().unwrap();
    state.queue(first, TurnKind::Exclusive, Some(at(5)));
    state.queue(second, TurnKind::Exclusive, Some(at(7)));
    state.queue(third, TurnKind::Shared, Some(at(9)));
    assert_eq!(state.look(at(4)), []);
    assert_eq!(state.claim(third), Standing::Waits { look_at: Some(at(5)) }, "the head is in its way");
    assert_eq!(state.look(at(5)), [first]);
    assert_eq!(state.claim(first), Standing::Gone);
    state.end(runs.id);
    assert_eq!(state.look(at(6)), [second]);
    assert_eq!(state.claim(third), Standing::Waits { look_at: Some(at(7)) }, "the grant is in its way");
    assert_eq!(state.look(at(7)), [third]);
    assert_eq!(state.claim(second), Standing::Gone);
    assert!(matches!(state.claim(third), Standing::Granted(_)));

    state.waited_in_vain(at(20));
    state.waited_in_vain(at(10));
    assert!(!state.has_patience(at(19)) && state.has_patience(at(20)));
}

#[test]
fn a_wait_in_vain_is_forgotten_when_the_newest_turn_of_then_ends() {
    let (begin, mut state) = (Instant::now(), QueueState::new(1));
    let [old, newest] = [(); 2].map(|()| state.try_shared().unwrap());
    state.waited_in_vain(begin + Duration::from_secs(1));
    let later = state.begin(TurnKind::Shared);
    for ended in [later, old] {
        state.end(ended.id);
        assert!(!state.has_patience(begin));
    }
    state.end(newest.id);
    assert!(state.has_patience(begin));
}
