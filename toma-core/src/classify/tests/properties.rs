//! Properties of any text and any chain.

use std::fmt;

use proptest::prelude::*;

use super::super::bytes::requested_bytes;
use super::super::text::{message, normalized};
use super::super::{Class, OutOfMemory, classify_error, classify_text};
use super::{chain, unwrapped, with_backtrace};

/// Pieces that the code treats specially, so that random texts reach every branch.
const PIECES: [&str; 24] = [
    "CUDA out of memory. Tried to allocate ",
    "CUDA error: out of memory",
    "std::bad_alloc",
    "Cuda failure 2 'out of memory'",
    "an illegal memory access was encountered",
    "CUDNN_STATUS_INTERNAL_ERROR",
    "Exception raised from",
    "frame #0:",
    "Stack backtrace:",
    "2.00 GiB",
    "more than 1EB",
    "99999999999999999999 bytes",
    ".",
    "0",
    "\n",
    "\\n",
    "\\",
    "\"",
    "'",
    "\t ",
    "\\u{1b}",
    "u{7f}",
    "\u{1b}\0\u{301}\u{200b}",
    "ſßİ🦀",
];

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![3 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => "\\PC{0,8}", 1 => any::<String>()];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn neither_case_nor_a_backtrace_nor_escaping_matters(text in any_text()) {
        let failure = classify_text(&text);
        let (class, requested) = (failure.class, failure.requested_bytes);
        let traced = classify_text(&with_backtrace(&text));
        prop_assert_eq!((traced.class, traced.requested_bytes), (class, requested));
        let quoted = format!("{text:?}");
        for other in [text.to_ascii_uppercase(), text.to_ascii_lowercase(), unwrapped(&text), unwrapped(&quoted)] {
            prop_assert_eq!(classify_text(&other).class, class, "{:?}", other);
        }
        prop_assert_eq!(classify_text(&quoted).class, class);
        let (plain, quoted) = (normalized(&text), normalized(&quoted));
        prop_assert_eq!(quoted.trim(), plain.trim());
        prop_assert_eq!(&normalized(&plain), &plain);
    }

    #[test]
    fn a_message_is_one_short_line_of_the_text(text in any_text()) {
        let message = message(&text);
        prop_assert!(text.contains(&message));
        prop_assert!(message.chars().count() <= 200);
        prop_assert!(!message.contains(['\n', '\r']));
        prop_assert!(!message.to_ascii_lowercase().contains("exception raised from"));
        prop_assert_eq!(message.trim(), &message);
    }

    #[test]
    fn amounts_are_read_back(hundredths in 0_u64..=102_400, unit in 0_usize..5) {
        let (name, shift) = [("bytes", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)][unit];
        let hundredths = if shift == 0 { hundredths / 100 * 100 } else { hundredths };
        let number = if shift == 0 { (hundredths / 100).to_string() } else { format!("{}.{:02}", hundredths / 100, hundredths % 100) };
        let number = normalized(&format!("CUDA out of memory. Tried to allocate {number} {name}. GPU 0 has"));
        let bytes = u64::try_from((u128::from(hundredths) << shift) / 100).unwrap();
        prop_assert_eq!(requested_bytes(Class::OutOfMemory, &number), Some(bytes));
    }

    #[test]
    fn a_type_is_found_at_any_depth(texts in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..63), bytes: u64) {
        let error = chain(texts.into_iter().map(str::to_owned), OutOfMemory::new(Some(bytes)));
        let failure = classify_error(&*error);
        prop_assert_eq!(failure.class, Class::OutOfMemory);
        prop_assert_eq!(failure.requested_bytes, Some(bytes));
    }

    #[test]
    fn the_outermost_text_that_is_known_decides(texts in prop::collection::vec(any_text(), 1..4)) {
        // Other stands for "not known" here: a text that is a known look-alike stops the search.
        let known = |text: &&String| super::super::by_text::decide(text).is_some();
        let expected = texts.iter().rev().find(known).map_or(Class::Other, |text| classify_text(text).class);
        let error = chain(texts, fmt::Error);
        prop_assert_eq!(classify_error(&*error).class, expected);
    }
}
