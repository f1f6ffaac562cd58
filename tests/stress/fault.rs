//! Failures that can be identified wherever they come out.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use toma::classify::Class;

/// A failure of a body, with a number of its own.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) number: u64,
    pub(crate) class: Class,
    _alive: Token,
}

/// Prefix of the text of every fault, which the hook and the checks search for.
pub(crate) const MARK: &str = "stress fault ";

impl Fault {
    pub(crate) fn new(class: Class, alive: Token) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Relaxed), class, _alive: alive }
    }

    /// Returns the number of the fault in `text`.
    pub(crate) fn number_in(text: &str) -> Option<u64> {
        text.strip_prefix(MARK)?.split(':').next()?.parse().ok()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.class {
            Class::OutOfMemory => "CUDA out of memory.",
            Class::Transient => "CUBLAS_STATUS_INTERNAL_ERROR",
            Class::Poisoned => "an illegal memory access was encountered",
            _ => "a mistake",
        };
        write!(f, "{MARK}{}: {text}", self.number)
    }
}

impl Error for Fault {}

/// Counts as alive until it is dropped.
#[derive(Debug)]
pub(crate) struct Token(Arc<AtomicUsize>);

impl Token {
    pub(crate) fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn the_library_and_the_checks_know_faults() {
    let alive = Arc::default();
    for class in [Class::OutOfMemory, Class::Transient, Class::Poisoned, Class::Other] {
        let fault = Fault::new(class, Token::new(&alive));
        assert_eq!(toma::classify::classify_error(&fault).class, class);
        assert_eq!(Fault::number_in(&fault.to_string()), Some(fault.number));
    }
    assert_eq!(alive.load(Relaxed), 0);
}
