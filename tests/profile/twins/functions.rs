//! Functions of every kind.

macro_rules! functions {
    ($($mark:tt)*) => {
        use std::fmt::{Debug, Display};

        use crate::twins::kit::*;

        $crate::twins::table! {
            generic_call methods traits built foreign exclusive lent tracked recursion panicking caught
            patterns iterated never_returns unsafe_call doctored threads
        }

        $($mark)*
        fn generic<'a, T: Display + ?Sized, const N: usize>(value: &'a T, more: [u8; N], f: impl Fn(u8) -> u8) -> (&'a T, String)
        where
            T: Debug,
        {
            let mut text = value.to_string();
            for n in more.map(|n| f(n)) {
                text += &n.to_string();
            }
            (value, text)
        }

        $($mark)*
        fn generic_call() -> (String, String) {
            let (value, text) = generic("x", [1, 2], |n| n + 1);
            let (number, other) = generic(&5, [], |n| n);
            (value.to_owned() + &text, number.to_string() + &other)
        }

        #[derive(Debug, Default)]
        struct Counter {
            count: u32,
            names: Vec<String>,
        }

        impl Counter {
            const STEP: u32 = 2;

            $($mark)*
            fn add(&mut self, name: &str) -> &mut Self {
                self.count += Self::STEP;
                self.names.push(name.to_owned());
                self
            }

            $($mark)*
            fn longest(&self) -> Option<&String> {
                let by_length = |name: &&String| name.len();
                self.names.iter().max_by_key(by_length)
            }

            $($mark)*
            fn into_count(self: Box<Self>) -> u32 {
                let Self { count, .. } = *self;
                count
            }
        }

        $($mark)*
        fn methods() -> (u32, Option<String>, u32) {
            let mut counter = Counter::default();
            counter.add("a").add("bcd");
            (counter.count, counter.longest().cloned(), Box::new(counter).into_count())
        }

        trait Shape {
            fn area(&self) -> f32;

            $($mark)*
            fn describe(&self) -> String {
                let area = self.area();
                format!("{area:.1}")
            }
        }

        struct Square(f32);

        impl Shape for Square {
            $($mark)*
            #[inline]
            fn area(&self) -> f32 {
                let Square(side) = self;
                side * side
            }
        }

        $($mark)*
        fn traits() -> Vec<String> {
            let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(1.0)), Box::new(Square(2.0))];
            shapes.iter().map(|shape| shape.describe()).collect()
        }

        struct Even;

        impl Iterator for Even {
            type Item = u32;

            $($mark)*
            fn next(&mut self) -> Option<Self::Item> {
                let value = 2;
                Some(value)
            }
        }

        $($mark)*
        fn iterated() -> u32 {
            let three = Even.take(3);
            three.sum()
        }

        $($mark)*
        fn constructed() -> impl Iterator<Item = u32> + Clone + Debug {
            let range = 0..3_u32;
            range.rev()
        }

        $($mark)*
        fn built() -> Vec<u32> {
            let built = constructed();
            built.clone().chain(built).collect()
        }

        $($mark)*
        extern "C" fn c_function(x: i32) -> i32 {
            let y = x + 1;
            y
        }

        $($mark)*
        fn foreign() -> i32 {
            let pointer: extern "C" fn(i32) -> i32 = c_function;
            pointer(1)
        }

        $($mark)*
        fn first_mut<'a>(values: &'a mut Vec<u8>, fallback: &'a mut u8) -> &'a mut u8 {
            if values.is_empty() {
                return fallback;
            }
            &mut values[0]
        }

        $($mark)*
        fn exclusive() -> (Vec<u8>, u8) {
            let (mut values, mut other) = (vec![1], 2);
            *first_mut(&mut values, &mut other) += 10;
            *first_mut(&mut Vec::new(), &mut other) += 20;
            (values, other)
        }

        $($mark)*
        fn longer<'a>(a: &'a str, b: &'a str) -> &'a str {
            let longer = if a.len() > b.len() { a } else { b };
            longer
        }

        $($mark)*
        fn lent() -> String {
            let a = String::from("abc");
            let longest;
            {
                let b = String::from("de");
                longest = longer(&a, &b).to_owned();
            }
            longest
        }

        $($mark)*
        #[track_caller]
        fn caller() -> u32 {
            let here = std::panic::Location::caller();
            here.column()
        }

        $($mark)*
        fn tracked() -> bool {
            let there = caller();
            there > 0
        }

        $($mark)*
        fn recursion() -> u64 {
            $($mark)*
            fn factorial(n: u64) -> u64 {
                if n < 2 {
                    return 1;
                }
                let rest = factorial(n - 1);
                n * rest
            }
            factorial(5)
        }

        $($mark)*
        fn panicking() -> u8 {
            let _first = Loud("first");
            let values = [1_u8];
            for i in 0..3 {
                let _second = Loud("second");
                assert!(values.get(i).is_some(), "no value {i}");
            }
            0
        }

        $($mark)*
        fn caught() -> String {
            let caught = std::panic::catch_unwind(|| {
                let _inside = Loud("inside");
                let empty: Vec<u8> = Vec::new();
                empty[std::hint::black_box(0)]
            });
            let _after = Loud("after");
            caught.map_or_else(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default(), |x| x.to_string())
        }

        $($mark)*
        fn patterns() -> u32 {
            let sum = |(a, b): (u32, u32), [c, .., d]: [u32; 3], (Ok(e) | Err(e)): Result<u32, u32>| a + b + c + d + e;
            sum((1, 2), [3, 4, 5], Ok(6))
        }

        $($mark)*
        fn stops() -> ! {
            let code = 7;
            panic!("stops with {code}");
        }

        $($mark)*
        fn never_returns() -> u8 {
            let _kept = Loud("kept");
            if std::hint::black_box(true) { stops() }
            1
        }

        $($mark)*
        unsafe fn read(pointer: *const u8) -> u8 {
            let value = unsafe { *pointer };
            value
        }

        $($mark)*
        fn unsafe_call() -> u8 {
            let x = 9;
            // SAFETY: the pointer is that of a value that lives.
            unsafe { read(&x) }
        }

        /// Has attributes of all kinds.
        $($mark)*
        #[must_use]
        #[inline(never)]
        #[allow(clippy::needless_return)]
        fn doctored() -> u8 {
            #![allow(unused_variables)]
            let unused = 1;
            return 2;
        }

        $($mark)*
        fn threads() -> u32 {
            let values = vec![1, 2, 3];
            let mut sums = [0; 2];
            let (left, right) = sums.split_at_mut(1);
            std::thread::scope(|scope| {
                scope.spawn(|| left[0] = values.iter().sum());
                scope.spawn(|| {
                    let product = values.iter().product::<u32>();
                    right[0] = product;
                });
            });
            is_send(sums[0] * 100 + sums[1])
        }
    };
}

super::both!(functions);
