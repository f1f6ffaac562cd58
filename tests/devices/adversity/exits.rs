//! Calls while a thread ends: they come from destructors of thread-local values, when the library's own thread-local
//! values may already be destroyed.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::adversity::kit::{Fails, every_form};
use crate::child;

/// Runs all forms when it is dropped, and reports which values were still there.
struct OnDrop(Sender<&'static str>, Fails);

impl Drop for OnDrop {
    fn drop(&mut self) {
        every_form(self.1);
        let message =
            if toma::report::last().is_some() { "the library's values live" } else { "they are gone" };
        self.0.send(message).unwrap();
    }
}

thread_local! {
    static KEPT: RefCell<Vec<OnDrop>> = const { RefCell::new(Vec::new()) };
}

fn keep(sender: &Sender<&'static str>, fails: Fails) {
    KEPT.with(|kept| kept.borrow_mut().push(OnDrop(sender.clone(), fails)));
}

/// Returns the reports of the destructors of a thread that ran `work`.
fn at_exit_of(work: impl FnOnce(&Sender<&'static str>) + Send + 'static) -> Vec<&'static str> {
    let (sender, receiver) = channel();
    thread::spawn(move || work(&sender)).join().unwrap();
    receiver.iter().collect()
}

/// Tests both orders, because destructors run in the reverse order of first use.
#[test]
fn a_call_works_before_and_after_the_librarys_values_are_destroyed() {
    for fails in Fails::ALL {
        let before = at_exit_of(move |sender| {
            every_form(fails);
            keep(sender, fails);
        });
        let after = at_exit_of(move |sender| {
            keep(sender, fails);
            every_form(fails);
        });
        assert_eq!([before, after], [["the library's values live"], ["they are gone"]], "{fails:?}");
        let first = at_exit_of(move |sender| keep(sender, fails));
        assert_eq!(first.len(), 1, "{fails:?}: the first call of the thread");
    }
}

/// Settles at size 2 under this name when it is dropped.
struct Learns(&'static str);

impl Drop for Learns {
    fn drop(&mut self) {
        let with = toma::execute::with::<toma::GlobalCache>().name(self.0);
        let fails = |size| if size > 2 { Err(toma::classify::OutOfMemory::new(None)) } else { Ok(()) };
        with.batch(8, fails).unwrap();
    }
}

thread_local! {
    static LEARNS: RefCell<Option<Learns>> = const { RefCell::new(None) };
}

#[test]
fn sizes_learned_at_the_end_of_a_thread_are_not_lost() {
    let name = "learned at the end of a thread";
    let work = move || {
        LEARNS.set(Some(Learns(name)));
        every_form(Fails::Never);
    };
    thread::spawn(work).join().unwrap();
    let entries = <toma::GlobalCache as toma::cache::SizeCache>::shared().entries();
    let entry = entries.iter().find(|entry| entry.name == name).unwrap();
    assert_eq!(entry.remembered.settled, 2);
}

#[test]
fn a_call_works_while_the_log_and_injection_are_on() {
    let settings = [("TOMA_LOG", "1"), ("TOMA_INJECT", if cfg!(feature = "testing") { "0.3,5" } else { "" })];
    let test = "adversity::exits::a_call_works_while_the_log_and_injection_are_on";
    let Some(ended) = child::run(test, &settings) else {
        for fails in Fails::ALL {
            at_exit_of(move |sender| {
                keep(sender, fails);
                every_form(fails);
            });
        }
        return;
    };
    assert!(ended.passed().iter().any(|line| line.contains("shrinks from 8 to 4")));
}

/// The main thread ends with the process, and its thread-local values are dropped on most systems.
#[test]
fn a_call_works_at_the_end_of_the_process() {
    let Some(ended) = child::run("adversity::exits::a_call_works_at_the_end_of_the_process", &[]) else {
        let (sender, receiver) = channel();
        keep(&sender, Fails::ByPanic);
        every_form(Fails::ByError);
        std::mem::forget(receiver);
        return;
    };
    ended.passed();
}
