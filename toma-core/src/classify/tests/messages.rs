//! The messages of errors in events and reports.

use super::super::classify_text;
use super::{unwrapped, with_backtrace};

#[test]
fn a_message_is_the_first_line_with_a_word_in_at_most_200_characters() {
    let long = "é".repeat(200);
    for (text, message) in [
        ("\n  CUDA error: out of memory \r\nCUDA kernel errors might be\n", "CUDA error: out of memory"),
        ("shapes differ\nat layer 3", "shapes differ"),
        (" \n ", ""),
        (&with_backtrace("CUDA error: out of memory"), "CUDA error: out of memory"),
        ("Exception raised from nowhere", ""),
        // An escaped line break ends a quoted line only.
        (r"cannot open C:\new\table", r"cannot open C:\new\table"),
        (r#"cannot open "C:\\new\\table""#, r#"cannot open "C:\\new\\table""#),
        (
            &unwrapped(&with_backtrace("no room\nCUDA kernel errors might be")),
            "called `Result::unwrap()` on an `Err` value: Torch(\"no room",
        ),
        (&"é".repeat(500), &long),
        (&long, &long),
    ] {
        assert_eq!(classify_text(text).message, message, "{text:?}");
    }
}
