//! Return types of functions: any type, and every error that can be classified.

use std::collections::TryReserveError;
use std::error::Error;
use std::rc::Rc;
use std::{fmt, io};

use toma::NoCache;

use crate::attributes::{allocate_or_panic, failures, fits};

/// Defines one function for each type, whose body returns the value if there is memory for 4 items.
macro_rules! values {
    ($($name:ident: $ty:ty = $value:expr;)*) => {$(
        #[test]
        fn $name() {
            #[toma::batch(initial = 16, cache = NoCache)]
            fn value(size: usize) -> $ty {
                allocate_or_panic(size, 4);
                $value
            }
            let expected: $ty = $value;
            assert_eq!((value(), failures()), (expected, 2));
        }
    )*};
}

#[derive(Debug, PartialEq)]
struct Own<'a, T: ?Sized>(&'a T);

type Pair<T> = (T, T);

values! {
    unit: () = ();
    number: f32 = 1.5;
    tuple: (usize, String) = (1, String::from("a"));
    array: [u8; 3] = [1, 2, 3];
    option: Option<&'static str> = Some("a");
    boxed: Box<[u8]> = Box::new([1]);
    shared: Rc<str> = Rc::from("a");
    own: Own<'static, str> = Own("a");
    alias: Pair<Own<'static, [i32]>> = (Own(&[1]), Own(&[2]));
    result_of_text: Result<u8, fmt::Error> = Ok(1);
    option_of_result: Option<Result<u8, String>> = Some(Ok(1));
    tuple_of_results: (Result<u8, String>, u8) = (Ok(1), 2);
}

/// Defines one function for each error type. The first failure is out of memory, the second something else.
macro_rules! errors {
    ($($name:ident: $output:ty, $out_of_memory:expr, $other:expr;)*) => {$(
        #[test]
        fn $name() {
            #[toma::batch(initial = 16, cache = NoCache)]
            fn fails(size: usize, to: usize) -> $output {
                match size {
                    _ if size <= to => Ok(size),
                    8 => Err($other),
                    _ => Err($out_of_memory),
                }
            }
            assert_eq!((fails(16).unwrap(), failures()), (16, 0));
            assert_eq!((fails(8).unwrap(), failures()), (8, 1));
            let error = fails(4).unwrap_err();
            assert_eq!((error.to_string(), failures()), ($other.to_string(), 1));
        }
    )*};
}

fn out_of_memory() -> io::Error {
    io::Error::from(io::ErrorKind::OutOfMemory)
}

fn other() -> io::Error {
    io::Error::other("the disk is full")
}

type Fallible<T, E = Wrapped> = Result<T, E>;

errors! {
    standard: Result<usize, io::Error>, out_of_memory(), other();
    abbreviated: io::Result<usize>, out_of_memory(), other();
    full_path: ::core::result::Result<usize, ::std::io::Error>, out_of_memory(), other();
    aliased: Fallible<usize>, Wrapped(out_of_memory()), Wrapped(other());
    in_a_box: Result<usize, Box<dyn Error>>, out_of_memory().into(), Box::<dyn Error>::from("the disk is full");
    sendable: Result<usize, Box<dyn Error + Send>>, Box::new(out_of_memory()), Box::new(other());
    shareable: Result<usize, Box<dyn Error + Send + Sync>>,
        crate::attributes::OUT_OF_MEMORY.into(), Box::<dyn Error + Send + Sync>::from("the disk is full");
}

#[derive(Debug)]
struct Wrapped(io::Error);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not run the model")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(feature = "anyhow")]
mod with_anyhow {
    use super::{NoCache, failures, other, out_of_memory};
    use anyhow::{Context, anyhow};

    errors! {
        in_anyhow: Result<usize, anyhow::Error>, anyhow!(out_of_memory()), anyhow!(other());
        abbreviated: anyhow::Result<usize>, anyhow!(crate::attributes::OUT_OF_MEMORY), anyhow!(other());
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn with_context(size: usize) -> anyhow::Result<usize> {
        crate::attributes::fits(size, 4).context("could not run the model")?;
        Ok(size)
    }

    #[test]
    fn context_hides_nothing() {
        assert_eq!((with_context().unwrap(), failures()), (4, 2));
    }
}

#[toma::batch(initial = 16, cache = NoCache)]
fn of_a_real_allocation(size: usize) -> Result<Vec<u64>, TryReserveError> {
    let mut data = Vec::new();
    data.try_reserve_exact(if size > 4 { usize::MAX / 16 } else { size })?;
    data.resize(size, 0);
    Ok(data)
}

#[test]
fn a_real_allocation_fails() {
    assert_eq!((of_a_real_allocation().unwrap().len(), failures()), (4, 2));
}

struct Owner {
    text: String,
}

impl Owner {
    #[toma::batch(initial = 16, cache = NoCache)]
    fn elided(&self, size: usize) -> &str {
        allocate_or_panic(size, 4);
        &self.text[..size]
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn of_argument<'a>(&self, size: usize, data: &'a [u8]) -> Result<&'a [u8], io::Error> {
        fits(size, 4).map_err(io::Error::other)?;
        Ok(&data[..size])
    }

    #[toma::batch(initial = 16, cache = NoCache)]
    fn owned(&mut self, size: usize) -> Result<Option<Own<'static, str>>, Box<dyn Error + Send + Sync>> {
        self.text.push('!');
        fits(size, 4)?;
        Ok(Some(Own("static")))
    }
}

#[test]
fn references_into_arguments() {
    let mut owner = Owner { text: String::from("long text") };
    assert_eq!(owner.elided(), "long");
    assert_eq!(owner.of_argument(b"long text").unwrap(), b"long");
    assert_eq!(owner.owned().unwrap(), Some(Own("static")));
    assert_eq!(owner.text, "long text!!!");
}

#[toma::batch(initial = 16, cache = NoCache)]
fn never(size: usize) -> ! {
    panic!("size {size}")
}

#[test]
fn a_function_that_never_returns() {
    assert_eq!(crate::attributes::panic_of(|| never()), "size 16");
}
