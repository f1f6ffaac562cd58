//! Static information about a marked function.

use std::num::NonZeroU32;

use toma::marks::{Column, Function};

use crate::profile::sink::entered;

#[rustfmt::skip]
#[toma::profile]
pub(crate) fn pair<T>(value: T, (a, _b): (&[u8], u8))
    -> (T, usize)
where
    T: Clone,
{
    // A comment.
    let pair = (
        value.clone(),
        a.len(),
    );

    pair
}

fn texts(function: &'static Function) -> Vec<(u32, &'static str)> {
    let first = function.lines[0].number;
    function.lines.iter().map(|line| (line.number - first, line.text)).collect()
}

#[test]
fn the_text_is_that_of_the_source() {
    let function = entered(|| assert_eq!(pair('a', (&[1], 2)), ('a', 1)));
    assert_eq!((function.name, function.module), ("pair", module_path!()));
    assert_eq!(function.file, file!());
    let expected = [
        (0, "pub(crate) fn pair<T>(value: T, (a, _b): (&[u8], u8)) -> (T, usize) where T: Clone, {"),
        (5, "    // A comment."),
        (6, "    let pair = ("),
        (7, "        value.clone(),"),
        (8, "        a.len(),"),
        (9, "    );"),
        (10, ""),
        (11, "    pair"),
        (12, "}"),
    ];
    assert_eq!(texts(function), expected);
    assert_eq!((function.every, function.columns), (None, &[][..]));
}

#[rustfmt::skip]
#[toma::profile(name = "one", every = 3, columns = [Peak, Ooms])]
fn one_line() -> u8 { 5 }

#[test]
fn options_are_in_the_program() {
    let function = entered(|| assert_eq!(one_line(), 5));
    assert_eq!(texts(function), [(0, "fn one_line() -> u8 {"), (0, "5 }")]);
    assert_eq!((function.name, function.every), ("one", NonZeroU32::new(3)));
    assert_eq!(function.columns, [Column::Peak, Column::Ooms]);
}

#[toma::profile(columns = [
    Peak, Reserved, Rise, Current, Allocated, Freed, Net, Kept, Fetched, Offloaded, Backward, Hits, Ooms, Time
])]
fn every_column() {
    std::hint::black_box(0);
}

#[test]
fn every_column_has_a_name() {
    assert_eq!(entered(every_column).columns, Column::ALL);
}

type Rows<'a> = (&'a mut [u8], &'a [u8]);

#[rustfmt::skip]
#[toma::profile(name = "rows")]
#[toma::chunked(initial = 2, cache = toma::NoCache)]
pub(crate) fn above<T>((out, rows): Rows<'_>, start: usize, end: usize,
    seen: T)
where T: Copy {
    let _ = (start, end, seen);
    out.copy_from_slice(rows);
}

#[rustfmt::skip]
#[toma::chunked(initial = 2, cache = toma::NoCache)]
#[toma::profile(name = "rows")]
pub(crate) fn below<T>((out, rows): Rows<'_>, start: usize, end: usize,
    seen: T)
where T: Copy {
    let _ = (start, end, seen);
    out.copy_from_slice(rows);
}

#[test]
fn attributes_in_either_order_show_the_source() {
    let (mut out, rows) = ([0; 2], [1; 2]);
    let first = texts(entered(|| above((&mut out, &rows), 'a')));
    let signature =
        "pub(crate) fn rows<T>((out, rows): Rows<'_>, start: usize, end: usize, seen: T) where T: Copy {";
    assert_eq!(first[0], (0, &*signature.replace("rows<T>", "above<T>")));
    let mut second = texts(entered(|| below((&mut out, &rows), 'a')));
    assert_eq!(second[0], (0, &*signature.replace("rows<T>", "below<T>")));
    second[0] = first[0];
    assert_eq!(second, first);
}

macro_rules! function {
    ($name:ident, $value:expr) => {
        #[toma::profile]
        fn $name(n: u32) -> u32 {
            let sum = if n > 1 { n + 1 } else { $value };
            sum
        }
    };
}

function!(generated, 3);

#[test]
fn the_text_of_a_macro_is_its_own() {
    let function = entered(|| assert_eq!(generated(1), 3));
    assert_eq!(function.name, "generated");
    let texts: Vec<_> = texts(function).into_iter().map(|(_, text)| text).collect();
    let statement = "    let sum = if n > 1 { n + 1 } else { $value };";
    assert_eq!(texts, ["fn generated (n: u32) -> u32 {", statement, "    sum", "}"]);
}
