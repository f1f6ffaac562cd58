//! Statements and expressions of every kind, compiled without and with marks, which must behave the same. Run in both
//! editions: by the test `profile`, and by the fixture `marks-2021`. The nightly step `mark-all` marks whole packages.

#![deny(warnings)]
#![allow(unsafe_code, reason = "unsafe blocks are marked, too")]
#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    clippy::undocumented_unsafe_blocks,
    reason = "everything that can be written has to work, and the compiler's own lints are what marks must not raise"
)]

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

thread_local! {
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Runs every body both ways, and returns the number of bodies.
///
/// # Panics
///
/// When a body behaves differently with marks.
pub(crate) fn compare() -> usize {
    let pairs = plain::cases().into_iter().zip(marked::cases());
    let pairs = pairs.map(|((name, plain), (_, marked))| assert_eq!(run(plain), run(marked), "{name}"));
    pairs.count()
}

/// Name of a body, and the body, which returns a string.
type Case = (&'static str, fn() -> String);

/// Returns the result of a body, or `None` if it panics, and its log.
fn run(body: fn() -> String) -> (Option<String>, Vec<&'static str>) {
    LOG.take();
    (catch_unwind(AssertUnwindSafe(body)).ok(), LOG.take())
}

/// Logs a word between the drops.
fn log(word: &'static str) {
    LOG.with_borrow_mut(|log| log.push(word));
}

/// Logs its name when it is dropped.
struct Loud(&'static str);

impl Drop for Loud {
    fn drop(&mut self) {
        log(self.0);
    }
}

/// Returns the output of a future that waits for nothing.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it waits"),
    }
}

fn is_static<T: Send + Sync + 'static>(value: T) -> T {
    value
}

macro_rules! bodies {
    ($($mark:tt)*) => {
        use super::*;

        table! {
            early question option labeled while_let guards bindings closures counting returned pointers slices
            let_else scrutinee blocks raw constants items shadowed updated macros inner_return diverges assigned
            two_phase extended borrowed repeated boxed deferred places conditional allowed nested_match tail_loop
            braced compound awaits_nothing conditions one_line empty unit_arms
        }

        $($mark)*
        fn early() -> u32 {
            for i in 0..10 {
                if i == 3 {
                    return i;
                }
            }
            0
        }

        $($mark)*
        fn question() -> Result<u8, String> {
            let parse = |text: &str| text.parse::<u8>().map_err(|error| error.to_string());
            let one = parse("1")?;
            log("parsed");
            let two = parse("two")?;
            Ok(one + two)
        }

        $($mark)*
        fn option() -> Option<char> {
            let first = "abc".chars().nth(1)?;
            (first == 'b').then_some(first)
        }

        $($mark)*
        fn labeled() -> (u32, char) {
            let mut count = 0;
            let found = 'outer: loop {
                for letter in ['a', 'b'] {
                    count += 1;
                    if count < 3 {
                        continue 'outer;
                    }
                    if letter == 'b' {
                        break 'outer letter;
                    }
                }
            };
            let early = 'block: {
                if count > 100 {
                    break 'block 1;
                }
                2
            };
            (count + early, found)
        }

        $($mark)*
        fn while_let() -> Vec<u32> {
            let mut stack = vec![1];
            let mut seen = Vec::new();
            while let Some(top) = stack.pop() {
                seen.push(top);
                if top < 4 {
                    stack.extend([top + 1, top + 2]);
                }
            }
            seen
        }

        $($mark)*
        fn guards() -> Vec<&'static str> {
            let name = |n: i32| match n {
                n if n < 0 => "negative",
                0 => "zero",
                1 | 2 | 3 => "few",
                n if { let half = n / 2; half > 50 } => "many",
                _ => "some",
            };
            [-1, 0, 2, 500, 7].map(name).to_vec()
        }

        $($mark)*
        fn bindings() -> u8 {
            match Some(5_u8) {
                all @ Some(n @ 1..=9) => n + all.map_or(0, |n| n),
                Some(n) => n,
                None => 0,
            }
        }

        $($mark)*
        fn closures() -> u32 {
            let outer = |x: u32| {
                let inner = |y| x * y;
                inner(2) + inner(3)
            };
            [1, 2].iter().copied().map(outer).sum()
        }

        $($mark)*
        fn counting() -> (u32, String) {
            let (mut count, mut text) = (0, String::new());
            let mut add = |letter| {
                count += 1;
                text.push(letter);
            };
            add('a');
            add('b');
            (count, text)
        }

        $($mark)*
        fn returned() -> u32 {
            fn make(by: u32) -> impl Fn(u32) -> u32 + Copy + Send + Sync + 'static {
                move |x| x * by
            }
            let by_three = is_static(make(3));
            let copied = by_three;
            by_three(2) + copied(1)
        }

        $($mark)*
        fn pointers() -> [u8; 3] {
            let functions: [fn(u8) -> u8; 2] = [|x| x + 1, |x| { let y = x; y * 2 }];
            let chosen = match functions.len() { 2 => u8::count_zeros, _ => u8::count_ones };
            [functions[0](1), functions[1](4), u8::try_from(chosen(1)).unwrap_or(0)]
        }

        $($mark)*
        fn slices() -> i32 {
            let [first, rest @ ..] = &[1, 2, 3][..] else { panic!("has three") };
            let (a, b) = if let [a, b] = rest { (a, b) } else { unreachable!() };
            first * 100 + a * 10 + b
        }

        $($mark)*
        fn let_else() -> usize {
            let mut skipped = 0;
            for text in ["1", "x", "3"] {
                let Ok(number) = text.parse::<usize>() else {
                    skipped += 1;
                    continue;
                };
                skipped += number * 10;
            }
            skipped
        }

        $($mark)*
        fn scrutinee() -> u32 {
            let cell = std::sync::Mutex::new(5);
            let doubled = match *cell.lock().unwrap() {
                5 => 10,
                other => other,
            };
            if let Ok(mut inside) = cell.lock() {
                *inside += doubled;
            }
            let now = *cell.lock().unwrap();
            now
        }

        $($mark)*
        fn blocks() -> i32 {
            let x = {
                let y = 2;
                y * y
            };
            let z = unsafe {
                let pointer: *const i32 = &x;
                *pointer
            };
            x + { z } + if x > 3 { 1 } else if x > 2 { 2 } else { 3 }
        }

        $($mark)*
        fn raw() -> String {
            let r#type = r#"a "quoted" text"#;
            let b = b'x';
            format!("{type} {b} {}", 'c')
        }

        $($mark)*
        fn constants() -> [usize; 4] {
            const SIZE: usize = { let two = 2; two * 2 };
            let array = [const { let three = 3; three }; SIZE];
            let length = std::mem::size_of::<[u8; { SIZE + 1 }]>();
            [array[0], array.len(), length, const { SIZE * 2 }]
        }

        $($mark)*
        fn items() -> u32 {
            use std::cmp::max;
            struct Pair(u32, u32);
            impl Pair {
                fn larger(&self) -> u32 {
                    max(self.0, self.1)
                }
            }
            macro_rules! twice { ($e:expr) => { $e * 2 } }
            static SEVEN: u32 = 7;
            let pair = Pair(3, SEVEN);
            fn helper(x: u32) -> u32 {
                x + 1
            }
            twice!(helper(pair.larger()))
        }

        $($mark)*
        fn shadowed() -> (u8, String) {
            let x = 1;
            let x = x + 1;
            let frame = { let x = x.to_string(); x };
            (x, frame)
        }

        #[allow(dead_code)]
        #[derive(Debug, Clone, Default)]
        struct Settings { a: u8, b: u8, c: Vec<u8> }

        $($mark)*
        fn updated() -> Settings {
            let base = Settings { a: 1, ..Default::default() };
            Settings { b: { let two = 2; two }, c: (0..base.a).map(|x| x + 1).collect(), ..base }
        }

        $($mark)*
        fn macros() -> Vec<String> {
            let mut lines = vec![format!("{}", 1)];
            macro_rules! define { ($name:ident) => { let $name = lines.len(); } }
            define!(length);
            assert_eq!(length, 1);
            lines.extend(vec!["x".to_owned(); 2]);
            assert!(matches!(lines.last(), Some(x) if x == "x"));
            lines
        }

        $($mark)*
        fn inner_return() -> i32 {
            let sign = |x: i32| {
                if x < 0 {
                    return -1;
                }
                1
            };
            sign(-5) + sign(5) * 10
        }

        $($mark)*
        fn diverges() -> u8 {
            let number: u8 = match "7".parse() {
                Ok(number) => number,
                Err(_) => return 0,
            };
            let checked: u8 = if number > 5 { number } else { panic!("too small") };
            loop {
                return checked;
            }
        }

        $($mark)*
        fn assigned() -> (i32, i32) {
            let (mut a, mut b) = (1, 2);
            if a < b { a = 5 } else { b = 6 }
            (a, b) = (b, a);
            for _ in 0..2 { a += 1 }
            match a { 0 => b = 0, _ => b += 1 }
            (a, b)
        }

        $($mark)*
        fn two_phase() -> Vec<usize> {
            let mut v = vec![0];
            v.push(v.len());
            let index = v[1];
            v[index] += { let extra = 5; extra };
            v
        }

        $($mark)*
        fn extended() -> usize {
            let text = &String::from("long");
            let pair = &(String::from("a"), { &String::from("bc") });
            let last = { &[1, 2, 3] };
            let chosen = match last.len() {
                3 => &String::from("three"),
                _ => &String::new(),
            };
            let branch = if last.len() > 2 { &vec![1] } else { &Vec::new() };
            text.len() + pair.0.len() + pair.1.len() + last.len() + chosen.len() + branch.len()
        }

        $($mark)*
        fn borrowed() -> Vec<i32> {
            let mut values = vec![1, 2, 3];
            match values.first_mut() {
                Some(first) => *first += 10,
                None => values.push(0),
            }
            for value in &mut values {
                *value *= 2;
            }
            let last = match values.last() { Some(last) => last, None => &0 };
            vec![values[0], *last]
        }

        $($mark)*
        fn repeated() -> usize {
            let zeros = [0_u8; 3];
            let values = [{ let x = zeros.len(); x }; 2];
            values.iter().sum()
        }

        $($mark)*
        fn boxed() -> u32 {
            fn choose(add: bool) -> Box<dyn Fn(u32) -> u32> {
                if add {
                    return Box::new(|x| x + 1);
                }
                Box::new(move |x| { let y = x; y * 2 })
            }
            choose(true)(1) + choose(false)(10)
        }

        $($mark)*
        fn deferred() -> String {
            let text;
            let number: u8;
            if std::hint::black_box(true) {
                text = String::from("late");
                number = 1;
            } else {
                return String::new();
            }
            text + &number.to_string()
        }

        $($mark)*
        fn places() -> (String, usize) {
            let pair = (String::from("a"), vec![1, 2]);
            let moved = match pair { (text, _) => text };
            let length = match &pair.1 { list if list.is_empty() => 0, list => list.len() };
            (moved, length)
        }

        $($mark)*
        fn conditional() -> u8 {
            #[cfg(any())]
            let x = "not compiled";
            #[cfg(all())]
            let x = 1;
            #[cfg(any())]
            undefined(x);
            #[cfg(all())]
            {
                x + 1
            }
            #[cfg(any())]
            {
                x.nothing()
            }
        }

        $($mark)*
        fn allowed() -> u8 {
            #[allow(unused_variables)]
            let unused = 1;
            #[expect(unused_variables)]
            let unused = 2;
            #[allow(clippy::let_and_return)]
            let value = 3;
            value
        }

        $($mark)*
        fn nested_match() -> &'static str {
            match (1, "a") {
                (1, text) => match text {
                    "a" => if text.is_empty() { "empty" } else { "a" },
                    _ => unsafe { std::str::from_utf8_unchecked(b"other") },
                },
                _ => loop { break "loop" },
            }
        }

        $($mark)*
        fn tail_loop() -> u32 {
            let mut n = 0;
            loop {
                n += 1;
                if n > 4 { break n }
            }
        }

        $($mark)*
        fn braced() -> u8 {
            macro_rules! value { ($statement:stmt; $value:expr) => { { $statement $value } } }
            let of = |x| value! { let one = 1; x + one };
            match of(1) {
                2 => value! { let y = 5; y },
                _ => 0,
            }
        }

        $($mark)*
        fn compound() -> i64 {
            let x = 5_i64;
            let y = -{ x } + (x as i32 as i64) * [1, 2][{ let i = 1; i }];
            let both = x > 1 && { let z = y; z > 0 } || !(y < 0);
            if both && y % 2 == 1 { y } else { ..x; -y }
        }

        $($mark)*
        fn awaits_nothing() -> usize {
            let future = async { 5 };
            std::mem::size_of_val(&finish(future))
        }

        $($mark)*
        fn conditions() -> Vec<u8> {
            let mut v = vec![];
            while { let length = v.len(); length < 3 } {
                if let Some(0) = { let first: Option<&u8> = v.first(); first.copied() } { v.push(9) } else { v.push(0) }
            }
            v
        }

        $($mark)*
        fn one_line() -> u8 { let x = 1; let y = |z: u8| z + x; y(2) }

        $($mark)*
        fn empty() {}

        $($mark)*
        fn unit_arms() {
            let kept = Loud("kept");
            match 5 {
                5 => drop(one_line()),
                6 => (),
                _ => {}
            }
            match &kept { _ => log(kept.0) }
            for _ in 0..2 {}
            { log("block") }
        }
    };
}

/// Builds the table of the bodies, by the names of their functions.
macro_rules! table {
    ($($case:ident)*) => {
        pub(super) fn cases() -> Vec<Case> {
            vec![$((stringify!($case), || format!("{:?}", $case()))),*]
        }
    };
}

mod plain {
    bodies!();
}
mod marked {
    bodies!(#[toma::profile]);
}
