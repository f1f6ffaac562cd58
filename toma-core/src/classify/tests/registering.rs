//! Types and texts that users add. The lists belong to the process, so each test has words and
//! types of its own.

use std::error::Error;
use std::panic::panic_any;
use std::sync::{Arc, PoisonError};
use std::{fmt, io, panic, thread};

use super::super::{
    Class, Classify, OutOfMemory, add_error, add_text, classify_panic, classify_text, register,
};

macro_rules! error_type {
    ($name:ident) => {
        #[derive(Debug)]
        struct $name(u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "code {}: CUDA error: out of memory", self.0)
            }
        }

        impl Error for $name {}
    };
}

#[test]
fn a_text_is_found_in_any_case_and_form() {
    add_text("Tapir \"pool\"\n is EMPTY", Class::OutOfMemory);
    let text = "step 3: tapir \"POOL\" is\nempty";
    assert_eq!(classify_text(text).class, Class::OutOfMemory);
    assert_eq!(classify_text(&format!("{text:?}")).class, Class::OutOfMemory);
    assert_eq!(classify_text(&format!("fine\nException raised from {text}")).class, Class::Other);
    assert_eq!(classify_text("tapir pool is full").class, Class::Other);
}

#[test]
fn a_text_of_the_user_goes_before_ours() {
    add_text("while the okapi sleeps", Class::Other);
    assert_eq!(classify_text("CUDA error: out of memory while the okapi sleeps").class, Class::Other);
    assert_eq!(classify_text("device-side assert triggered while the okapi sleeps").class, Class::Other);
}

#[test]
fn the_latest_text_decides_and_may_change_its_class() {
    add_text("lemur full", Class::OutOfMemory);
    add_text("big lemur", Class::Transient);
    assert_eq!(classify_text("big lemur full").class, Class::Transient);
    add_text("lemur FULL", Class::Poisoned);
    assert_eq!(classify_text("big lemur full").class, Class::Poisoned);
    let texts = register::TEXTS.read().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(
        texts.iter().filter(|(pattern, _)| pattern == "lemur full").count(),
        1,
        "the list must not grow"
    );
}

#[test]
fn a_pattern_that_matches_everything_is_refused() {
    for pattern in ["", "  ", "\n\"", "\\n"] {
        let refused = panic::catch_unwind(|| add_text(pattern, Class::OutOfMemory)).unwrap_err();
        let message = refused.downcast_ref::<String>().unwrap();
        assert!(message.contains(&format!("{pattern:?}")), "{message}");
    }
}

#[test]
fn a_type_is_judged_before_its_text_and_wherever_it_stands() {
    error_type!(Judged);
    add_error::<Judged>(|error| Some(if error.0 == 2 { Class::OutOfMemory } else { Class::Other }));
    assert_eq!(Judged(2).classify().class, Class::OutOfMemory);
    assert_eq!(Judged(3).classify().class, Class::Other);
    assert_eq!(io::Error::other(Judged(2)).classify().class, Class::OutOfMemory);
    assert_eq!(Arc::new(Judged(2)).classify().class, Class::OutOfMemory);
    assert_eq!(Box::new(Judged(3)).classify().class, Class::Other);
    let boxed: Box<dyn Error + Send> = Box::new(Judged(3));
    assert_eq!(boxed.classify().class, Class::Other);
}

#[test]
fn a_function_may_leave_it_to_other_types_and_texts() {
    error_type!(Undecided);
    add_error::<Undecided>(|_| None);
    assert_eq!(Undecided(1).classify().class, Class::OutOfMemory, "its text says so");
    let typed = io::Error::new(io::ErrorKind::OutOfMemory, Undecided(1));
    assert_eq!(typed.classify().class, Class::OutOfMemory);
}

#[test]
fn a_registered_type_goes_before_the_built_in_ones() {
    error_type!(Remote);
    add_error::<Remote>(|_| Some(Class::Other));
    let error = io::Error::new(io::ErrorKind::OutOfMemory, Remote(1));
    assert_eq!(error.classify().class, Class::Other);
}

#[test]
fn adding_a_type_again_replaces_its_function() {
    error_type!(Twice);
    add_error::<Twice>(|_| Some(Class::Poisoned));
    let before = register::types().len();
    for _ in 0..100 {
        add_error::<Twice>(|_| Some(Class::Transient));
    }
    assert_eq!(Twice(1).classify().class, Class::Transient);
    assert!(register::types().len() < before + 50, "the list must not grow");
}

#[test]
fn a_registered_type_is_known_as_a_payload() {
    error_type!(Thrown);
    let thrown = || panic::catch_unwind(|| panic_any(Thrown(2))).unwrap_err();
    assert_eq!(classify_panic(&*thrown()).class, Class::Other, "not yet known");
    add_error::<Thrown>(|error| (error.0 == 2).then_some(Class::Transient));
    assert_eq!(classify_panic(&*thrown()).class, Class::Transient);
}

#[test]
fn a_function_may_register_and_classify() {
    error_type!(Reentrant);
    add_error::<Reentrant>(|_| {
        add_text("capybara", Class::Transient);
        add_error::<fmt::Error>(|_| None);
        Some(OutOfMemory::new(None).classify().class)
    });
    assert_eq!(Reentrant(1).classify().class, Class::OutOfMemory);
}

#[test]
fn a_poisoned_lock_is_used_all_the_same() {
    let died = thread::spawn(|| {
        let _texts = register::TEXTS.write();
        panic!("while the list is locked");
    });
    died.join().unwrap_err();
    add_text("quokka", Class::Transient);
    assert_eq!(classify_text("quokka").class, Class::Transient);
}

#[test]
fn threads_register_and_classify_at_once() {
    let texts = |thread: usize| (0..50).map(move |number| format!("wombat {thread}/{number};"));
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for text in texts(thread) {
                    add_text(&text, Class::OutOfMemory);
                    assert_eq!(classify_text(&text).class, Class::OutOfMemory);
                }
            });
        }
    });
    for text in (0..4).flat_map(texts) {
        assert_eq!(classify_text(&text).class, Class::OutOfMemory, "{text}");
    }
}
