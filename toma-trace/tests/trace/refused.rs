//! Events that contradict earlier ones are refused with their values, and change nothing.

use toma_trace::{Access, Contradiction, Label, Operand, Place, Recorder, ScopeKind};

use crate::{MAIN, OTHER, gpu};

type Step = fn(&mut Recorder) -> Result<(), Contradiction>;

fn label() -> Label {
    Label::new(ScopeKind::Phase, "backward")
}

const REFUSED: &[(&str, Step)] = &[
    ("storage 0 is dead since tick 2", |recorder| {
        let storage = recorder.birth(MAIN, &gpu(), 8)?;
        recorder.death(MAIN, storage)?;
        recorder.death(OTHER, storage)
    }),
    ("storage 0 is dead since tick 3", |recorder| {
        let storage = recorder.birth(MAIN, &gpu(), 8)?;
        let operator = recorder.begin_operator(MAIN, "aten::relu");
        recorder.death(MAIN, storage)?;
        recorder.uses(operator, Operand::new(storage, Access::Reads, &[2]))
    }),
    ("storage 0 already has a living block of 8 bytes", |recorder| {
        let storage = recorder.birth(MAIN, &gpu(), 8)?;
        recorder.rebirth(MAIN, storage, &gpu(), 16)
    }),
    ("storage 0 already has a living block of 16 bytes", |recorder| {
        let storage = recorder.existing(&gpu(), 8)?;
        recorder.death(MAIN, storage)?;
        recorder.rebirth(MAIN, storage, &gpu(), 16)?;
        recorder.rebirth(MAIN, storage, &Place::HOST, 8)
    }),
    ("storage 3 is unknown: 1 are recorded", |recorder| {
        let mut other = Recorder::new();
        for _ in 0..3 {
            other.existing(&gpu(), 1)?;
        }
        let foreign = other.existing(&gpu(), 1)?;
        recorder.existing(&gpu(), 1)?;
        recorder.death(MAIN, foreign)
    }),
    ("operator 0 is unknown: 0 are recorded", |recorder| {
        let foreign = Recorder::new().begin_operator(MAIN, "aten::relu");
        recorder.end_operator(foreign)
    }),
    ("scope 0 is unknown: 0 are recorded", |recorder| {
        let foreign = Recorder::new().begin_scope(MAIN, label());
        recorder.end_scope(foreign)
    }),
    ("operator 0 has ended at tick 2", |recorder| {
        let operator = recorder.begin_operator(MAIN, "aten::relu");
        recorder.end_operator(operator)?;
        recorder.end_operator(operator)
    }),
    ("operator 0 has ended at tick 3", |recorder| {
        let storage = recorder.birth(MAIN, &gpu(), 8)?;
        let operator = recorder.begin_operator(MAIN, "aten::relu");
        recorder.end_operator(operator)?;
        recorder.uses(operator, Operand::new(storage, Access::Reads, &[2]))
    }),
    ("scope 0 has ended at tick 2", |recorder| {
        let scope = recorder.begin_scope(MAIN, label());
        recorder.end_scope(scope)?;
        recorder.end_scope(scope)
    }),
    ("operator 0 cannot end before operator 1, which began inside of it on thread 7", |recorder| {
        let outer = recorder.begin_operator(OTHER, "mine::layer");
        recorder.begin_operator(OTHER, "aten::relu");
        recorder.end_operator(outer)
    }),
    ("scope 0 cannot end before operator 0, which began inside of it on thread 0", |recorder| {
        let scope = recorder.begin_scope(MAIN, label());
        recorder.begin_operator(MAIN, "aten::relu");
        recorder.end_scope(scope)
    }),
    ("operator 0 cannot end before scope 0, which began inside of it on thread 0", |recorder| {
        let operator = recorder.begin_operator(MAIN, "mine::layer");
        recorder.begin_scope(MAIN, label());
        recorder.end_operator(operator)
    }),
    ("a block of 1 bytes: all blocks together exceed 18446744073709551615 bytes", |recorder| {
        let all = recorder.birth(MAIN, &gpu(), u64::MAX)?;
        recorder.death(MAIN, all)?;
        recorder.birth(MAIN, &Place::HOST, 1).map(drop)
    }),
];

#[test]
fn a_contradiction_names_its_values_and_leaves_no_trace() {
    for (message, steps) in REFUSED {
        let mut recorder = Recorder::new();
        let refused = steps(&mut recorder).unwrap_err();
        assert_eq!(refused.to_string(), *message);
        let trace = recorder.clone().finish();
        // Later events have the ticks and ids that they would have without the refused one.
        let storage = recorder.birth(MAIN, &gpu(), 0);
        match storage {
            Ok(storage) => assert_eq!(storage.index(), trace.storages().len(), "{message}"),
            Err(Contradiction::TooManyBytes { .. }) => panic!("{message}: no byte more is refused"),
            Err(other) => panic!("{message}: {other}"),
        }
    }
}

#[test]
fn threads_nest_by_themselves() -> Result<(), Contradiction> {
    let mut recorder = Recorder::new();
    let outer = recorder.begin_scope(MAIN, label());
    let elsewhere = recorder.begin_scope(OTHER, label());
    let operator = recorder.begin_operator(MAIN, "aten::relu");
    recorder.end_scope(elsewhere)?;
    let inside = recorder.birth(MAIN, &gpu(), 8)?;
    let beside = recorder.birth(OTHER, &gpu(), 8)?;
    recorder.end_operator(operator)?;
    recorder.end_scope(outer)?;
    let trace = recorder.finish();
    assert_eq!(trace[operator].scope, Some(outer));
    assert_eq!(trace[inside].blocks[0].operator, Some(operator));
    assert_eq!(trace[beside].blocks[0].operator, None);
    Ok(())
}

#[test]
fn open_scopes_end_with_the_trace_innermost_first() {
    let mut recorder = Recorder::new();
    let scope = recorder.begin_scope(MAIN, label());
    let operator = recorder.begin_operator(MAIN, "aten::relu");
    let elsewhere = recorder.begin_operator(OTHER, "aten::mm");
    let trace = recorder.finish();
    let ends = [trace[operator].interval, trace[scope].interval, trace[elsewhere].interval];
    assert_eq!(ends.map(|interval| interval.end.count()), [4, 5, 6]);
    assert_eq!(trace.end().count(), 6);
}

#[test]
fn an_innermost_operator_is_found_through_scopes() -> Result<(), Contradiction> {
    let mut recorder = Recorder::new();
    let outer = recorder.begin_operator(MAIN, "mine::layer");
    let scope = recorder.begin_scope(MAIN, label());
    let storage = recorder.birth(MAIN, &gpu(), 8)?;
    let inner = recorder.begin_operator(MAIN, "aten::relu");
    recorder.death(MAIN, storage)?;
    recorder.rebirth(MAIN, storage, &gpu(), 16)?;
    let trace = recorder.finish();
    let operators: Vec<_> = trace[storage].blocks.iter().map(|block| block.operator).collect();
    assert_eq!(operators, [Some(outer), Some(inner)]);
    assert_eq!(trace[inner].scope, Some(scope));
    Ok(())
}
