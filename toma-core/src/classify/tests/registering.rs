//! Types and texts that users add. The lists belong to the process, so each test has words and
//! types of its own.

use std::error::Error;
use std::panic::panic_any;
use std::sync::{Arc, PoisonError};
use std::{fmt, io, panic, thread};

use super::super::{
    Class, Classify, Failure, OutOfMemory, add_error, add_failure, add_text, classify_panic, classify_text,
    register,
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
fn a_registered_type_decides_before_other_types_and_texts_or_leaves_it_to_them() {
    error_type!(Coded);
    let thrown = || panic::catch_unwind(|| panic_any(Coded(3))).unwrap_err();
    assert_eq!(classify_panic(&*thrown()).class, Class::Other, "not yet known");
    add_error::<Coded>(|error| [None, Some(Class::OutOfMemory), Some(Class::Other)][error.0 as usize % 3]);
    let (undecided, full, other) = (|| Coded(0), || Coded(1), || Coded(2));
    let boxed: Box<dyn Error + Send> = Box::new(other());
    let typed = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
    for (failure, class) in [
        (full().classify(), Class::OutOfMemory),
        (io::Error::other(full()).classify(), Class::OutOfMemory),
        (Arc::new(full()).classify(), Class::OutOfMemory),
        (other().classify(), Class::Other),
        (Box::new(other()).classify(), Class::Other),
        (boxed.classify(), Class::Other),
        (typed(other()).classify(), Class::Other),
        (typed(undecided()).classify(), Class::OutOfMemory),
        (undecided().classify(), Class::OutOfMemory),
    ] {
        assert_eq!(failure.class, class, "{failure:?}");
    }
    add_error::<Coded>(|_| Some(Class::Poisoned));
    let before = register::types().len();
    for _ in 0..100 {
        add_error::<Coded>(|_| Some(Class::Transient));
    }
    assert_eq!(full().classify().class, Class::Transient, "the latest function replaces the others");
    assert_eq!(classify_panic(&*thrown()).class, Class::Transient);
    assert!(register::types().len() < before + 50, "the list must not grow");
}

/// A backend's error whose message needs a library that is missing.
#[derive(Debug)]
struct Mute;

impl fmt::Display for Mute {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no library")
    }
}

impl Error for Mute {}

#[test]
fn a_backend_classifies_its_own_errors() {
    add_failure::<Mute>(|_| Failure::new(Class::Poisoned, "classified for it").requesting(Some(3)));
    let expected = Failure::new(Class::Poisoned, "classified for it").requesting(Some(3));
    assert_eq!(io::Error::other(Mute).classify(), expected);
    assert_eq!(classify_panic(&Mute), expected);
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
