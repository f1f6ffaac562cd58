//! The words of an error that go into events and reports.

use super::super::classify_text;
use super::{unwrapped, with_backtrace};

fn message(text: &str) -> String {
    classify_text(text).message.into_owned()
}

#[test]
fn the_first_line_that_says_something() {
    assert_eq!(
        message("\n  CUDA error: out of memory \r\nCUDA kernel errors might be\n"),
        "CUDA error: out of memory"
    );
    assert_eq!(message("shapes differ\nat layer 3"), "shapes differ");
    assert_eq!(message(" \n "), "");
}

#[test]
fn nothing_of_a_backtrace() {
    assert_eq!(message(&with_backtrace("CUDA error: out of memory")), "CUDA error: out of memory");
    assert_eq!(message("Exception raised from nowhere"), "");
}

#[test]
fn an_escaped_line_break_ends_a_quoted_line_only() {
    let panic = unwrapped(&with_backtrace("CUDA error: out of memory\nCUDA kernel errors might be"));
    assert!(message(&panic).ends_with("value: Torch(\"CUDA error: out of memory"), "{}", message(&panic));
    assert_eq!(message(r"cannot open C:\new\table"), r"cannot open C:\new\table");
    assert_eq!(message(r#"cannot open "C:\\new\\table""#), r#"cannot open "C:\\new\\table""#);
}

#[test]
fn at_most_two_hundred_characters() {
    assert_eq!(message(&"é".repeat(500)), "é".repeat(200));
    assert_eq!(message(&"é".repeat(200)), "é".repeat(200));
}
