//! Traces as text: a written trace reads back equal, and invalid text is refused.

use std::error::Error;

use proptest::prelude::*;
use serde_json::{Value, json};
use toma_trace::{Access, Label, Operand, Recorder, ScopeKind, Trace, Unreadable};

use crate::random::{actions, recorded};
use crate::{MAIN, gpu};

/// Returns every number of a text.
fn numbers(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Number(_) => vec![value],
        Value::Array(values) => values.iter_mut().flat_map(numbers).collect(),
        Value::Object(fields) => fields.values_mut().flat_map(numbers).collect(),
        _ => Vec::new(),
    }
}

proptest! {
    #[test]
    fn a_written_trace_is_read(actions in actions()) {
        let trace = recorded(&actions);
        prop_assert_eq!(Trace::from_json(&trace.to_json()).unwrap(), trace);
    }

    /// A text with a wrong number is refused, or reads as another valid trace that writes exactly this text.
    #[test]
    fn a_wrong_number_is_refused_or_meant(actions in actions(), at: prop::sample::Index, number in 0..40_u64) {
        let mut text: Value = serde_json::from_str(&recorded(&actions).to_json()).unwrap();
        let mut numbers = numbers(&mut text);
        *numbers.swap_remove(at.index(numbers.len())) = number.into();
        if let Ok(trace) = Trace::from_json(&text.to_string()) {
            let written: Value = serde_json::from_str(&trace.to_json()).unwrap();
            prop_assert_eq!(written, text);
        }
    }
}

/// A storage that is made in an operator and gets another block, and one from before.
fn sample() -> Value {
    let mut recorder = Recorder::new();
    let scope = recorder.begin_scope(MAIN, Label::new(ScopeKind::Line, "f").at("src/main.rs", 3));
    let operator = recorder.begin_operator(MAIN, "aten::relu");
    let there = recorder.existing(&gpu(), 100).unwrap();
    let made = recorder.birth(MAIN, &gpu(), 8).unwrap();
    recorder.uses(operator, Operand::new(there, Access::Reads, &[25])).unwrap();
    recorder.death(MAIN, made).unwrap();
    recorder.rebirth(MAIN, made, &gpu(), 16).unwrap();
    recorder.end_operator(operator).unwrap();
    recorder.end_scope(scope).unwrap();
    serde_json::from_str(&recorder.finish().to_json()).unwrap()
}

/// The text with one value replaced, by its path.
fn with(path: &str, value: Value) -> String {
    let mut text = sample();
    *text.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
    text.to_string()
}

#[test]
fn a_broken_text_is_refused_by_name() {
    let first = "/trace/storages/0/blocks";
    for (text, message) in [
        (with("/format", json!("toma size cache")), "the text is no trace: its `format` is not `toma trace`"),
        ("[]".into(), "a trace cannot be read"),
        (with("/version", json!(2)), "the trace has format version 2, and this program reads 1"),
        (with("/version", Value::Null), "the trace has format version 0, and this program reads 1"),
        (with("/trace/uses/0/tick", json!(9)), "the clock goes from tick 3 to tick 5"),
        (with("/trace/uses/0/tick", json!(3)), "the clock goes from tick 3 to tick 3"),
        (
            with("/trace/scopes/0/interval/end", json!(u64::MAX)),
            "the clock goes from tick 7 to tick 18446744073709551615",
        ),
        (
            with("/trace/uses/0/operand/storage", json!(7)),
            "the event of tick 4 contradicts earlier ones: storage 7 is unknown: 2 are recorded",
        ),
        (
            with("/trace/uses/0/operator", json!(7)),
            "the event of tick 4 contradicts earlier ones: operator 7 is unknown: 1 are recorded",
        ),
        (
            with("/trace/operators/0/interval/thread", json!(1)),
            "row 1 of table `storages` does not follow from the events",
        ),
        (
            with("/trace/operators/0/scope", Value::Null),
            "row 0 of table `operators` does not follow from the events",
        ),
        (
            with(first, json!([])),
            "the event of tick 5 contradicts earlier ones: storage 1 is unknown: 1 are recorded",
        ),
        (with("/trace/storages/1/blocks/1/birth", Value::Null), "the clock goes from tick 5 to tick 7"),
        (
            with("/trace/storages/1/blocks/0/place", json!("moon")),
            "a trace cannot be read: unknown place \"moon\": expected `host` or `kind:index`",
        ),
        (
            with("/trace/uses/0/operand/access", json!("sees")),
            "a trace cannot be read: unknown variant `sees`, expected one of `reads`, `writes`, `makes`, `views`",
        ),
    ] {
        let refused = Trace::from_json(&text).expect_err(message);
        let cause = refused.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let text = format!("{refused}{cause}");
        assert!(text.starts_with(message), "{message}\n{text}");
    }
}

#[test]
fn rows_in_another_order_are_refused() {
    for table in ["uses", "scopes", "operators"] {
        let mut recorder = Recorder::new();
        let storage = recorder.birth(MAIN, &gpu(), 8).unwrap();
        for (name, access) in [("first", Access::Writes), ("second", Access::Reads)] {
            let scope = recorder.begin_scope(MAIN, Label::new(ScopeKind::Line, name));
            let operator = recorder.begin_operator(MAIN, name);
            recorder.uses(operator, Operand::new(storage, access, &[2])).unwrap();
            recorder.end_operator(operator).unwrap();
            recorder.end_scope(scope).unwrap();
        }
        let mut text: Value = serde_json::from_str(&recorder.finish().to_json()).unwrap();
        text["trace"][table].as_array_mut().unwrap().reverse();
        let refused = Trace::from_json(&text.to_string()).unwrap_err();
        assert!(
            matches!(refused, Unreadable::Row { .. } | Unreadable::Contradiction { .. }),
            "{table}: {refused}"
        );
    }
}
