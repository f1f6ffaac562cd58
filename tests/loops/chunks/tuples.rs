//! Tests tuples of every arity, nested, and with shared and exclusive slices mixed, against a loop by hand.

use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, TestRunner};
use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::chunks::flaky::Flaky;
use crate::rounds::rounds;

/// Number of items, first size, and the failing attempts.
#[derive(Clone, Copy, Debug)]
struct Case {
    items: usize,
    initial: usize,
    bits: u32,
}

fn check(test: impl Fn(Case)) {
    let cases = (0..40_usize, 1..50_usize, any::<u32>());
    let cases = cases.prop_map(|(items, initial, bits)| Case { items, initial, bits });
    let config = Config { cases: rounds(250, 1000), ..Config::default() };
    let result = TestRunner::new(config).run(&cases, |case| {
        test(case);
        Ok(())
    });
    result.unwrap();
}

/// Returns the value of item `i` in part `name`, which is different for every pair.
fn value(name: &str, i: usize) -> usize {
    1000 * usize::from(name.as_bytes()[0]) + i
}

/// Sets each part in `writes` to its own value of the item plus the values of all parts in `reads`.
macro_rules! tuple {
    ($name:ident: reads [$($x:ident)*], writes [$($out:ident)*], $whole:expr => $chunk:pat) => {
        #[test]
        fn $name() {
            check(|Case { items, initial, bits }| {
                $(let $x = Vec::from_iter((0..items).map(|i| value(stringify!($x), i)));)*
                $(let mut $out = vec![0; items];)*
                let mut flaky = Flaky::new(bits);
                let body = execute::with::<NoCache>().chunked($whole, initial, |$chunk, start, end| {
                    $(assert_eq!($x.len(), end - start);)*
                    $(assert_eq!($out.len(), end - start);)*
                    for i in 0..end - start {
                        let _sum = 0 $(+ $x[i])*;
                        $($out[i] = _sum + value(stringify!($out), start + i);)*
                    }
                    flaky.end(start, end)
                });
                assert_eq!((body, flaky.covered()), (Ok::<(), OutOfMemory>(()), items));
                for i in 0..items {
                    let _sum = 0 $(+ value(stringify!($x), i))*;
                    $(assert_eq!($out[i], _sum + value(stringify!($out), i), "item {i}");)*
                }
            });
        }
    };
}

tuple!(of_one_exclusive: reads [], writes [a], (&mut a[..],) => (a,));
tuple!(of_two: reads [b], writes [a], (&mut a[..], &b[..]) => (a, b));
tuple!(of_three: reads [a c], writes [b], (&a[..], &mut b[..], &c[..]) => (a, b, c));
tuple!(of_four: reads [b d], writes [a c], (&mut a[..], &b[..], &mut c[..], &d[..]) => (a, b, c, d));
tuple!(of_five: reads [c d e], writes [a b],
    (&mut a[..], &mut b[..], &c[..], &d[..], &e[..]) => (a, b, c, d, e));
tuple!(of_six: reads [a b e], writes [c d f],
    (&a[..], &b[..], &mut c[..], &mut d[..], &e[..], &mut f[..]) => (a, b, c, d, e, f));
tuple!(of_six_exclusive: reads [], writes [a b c d e f],
    (&mut a[..], &mut b[..], &mut c[..], &mut d[..], &mut e[..], &mut f[..]) => (a, b, c, d, e, f));

tuple!(in_a_tuple_in_a_tuple: reads [a b], writes [c],
    (((&a[..],), (&b[..], (&mut c[..],))),) => (((a,), (b, (c,))),));
// Nested tuples with more parts than one tuple may have.
tuple!(of_a_six_and_a_two: reads [a b c d], writes [e f g h],
    ((&a[..], &b[..], &c[..], &d[..], &mut e[..], &mut f[..]), (&mut g[..], &mut h[..]))
        => ((a, b, c, d, e, f), (g, h)));

/// A chunk is borrowed anew for each attempt, so an attempt may move out of its parameters.
#[test]
fn a_body_may_use_up_its_chunk() {
    #[toma::chunked(initial = 4, cache = NoCache)]
    fn fill(
        (out, x): (&mut [usize], &[usize]),
        start: usize,
        end: usize,
        flaky: &mut Flaky,
    ) -> Result<(), OutOfMemory> {
        let (head, tail) = out.split_at_mut(1);
        head[0] = x[0];
        tail.copy_from_slice(&x[1..]);
        flaky.end(start, end)
    }

    let (mut out, x) = ([0; 9], [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut flaky = Flaky::new(0b101);
    fill((&mut out, &x), &mut flaky).unwrap();
    assert_eq!((out, flaky.failures(), flaky.covered()), (x, 2, 9));
}
