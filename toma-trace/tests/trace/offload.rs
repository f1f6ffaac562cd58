//! Facts for an offload simulator in a trace: next uses, writes since a copy, and deaths.

use toma_trace::{Access, Contradiction, Operand, Recorder, StorageId, Tick, Trace};

use crate::{MAIN, gpu};

/// Reads a weight twice, with a view of it between, then updates it in place.
fn step() -> Result<(Trace, StorageId, StorageId), Contradiction> {
    let mut recorder = Recorder::new();
    let weight = recorder.existing(&gpu(), 1 << 20)?;
    let buffer = recorder.birth(MAIN, &gpu(), 64)?;
    for (name, access) in [
        ("aten::mm", Access::Reads),
        ("aten::t", Access::Views),
        ("aten::mm", Access::Reads),
        ("aten::add_", Access::Writes),
    ] {
        let operator = recorder.begin_operator(MAIN, name);
        recorder.uses(operator, Operand::new(weight, access, &[512, 512]))?;
        recorder.end_operator(operator)?;
    }
    recorder.death(MAIN, buffer)?;
    Ok((recorder.finish(), weight, buffer))
}

/// The tick of the next operator that needs the values; a view needs none.
fn next_use(trace: &Trace, storage: StorageId, now: Tick) -> Option<Tick> {
    let mut uses = trace.uses().iter().filter(|used| used.operand.storage == storage && used.tick > now);
    uses.find(|used| used.operand.access != Access::Views).map(|used| trace[used.operator].interval.begin)
}

/// The number of changes of the values up to a tick.
fn version(trace: &Trace, storage: StorageId, now: Tick) -> usize {
    let uses = trace.uses().iter().filter(|used| used.operand.storage == storage && used.tick <= now);
    uses.filter(|used| matches!(used.operand.access, Access::Writes | Access::Makes)).count()
}

fn death(trace: &Trace, storage: StorageId) -> Option<Tick> {
    trace[storage].blocks.last()?.death.map(|death| death.tick)
}

#[test]
fn next_uses_writes_and_deaths() {
    let (trace, weight, buffer) = step().unwrap();
    let begins: Vec<_> = trace.operators().map(|(_, operator)| operator.interval.begin).collect();
    let ends: Vec<_> = trace.operators().map(|(_, operator)| operator.interval.end).collect();
    assert_eq!(next_use(&trace, weight, Tick::START), Some(begins[0]));
    assert_eq!(next_use(&trace, weight, ends[0]), Some(begins[2]));
    assert_eq!(next_use(&trace, weight, ends[2]), Some(begins[3]));
    assert_eq!(next_use(&trace, weight, ends[3]), None);
    let versions: Vec<_> = ends.iter().map(|end| version(&trace, weight, *end)).collect();
    assert_eq!(versions, [0, 0, 0, 1]);
    assert_eq!(death(&trace, weight), None);
    assert_eq!(death(&trace, buffer), Some(trace.end()));
}
