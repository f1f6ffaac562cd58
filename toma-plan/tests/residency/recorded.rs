//! Steps made from traces.

use toma_plan::residency::{Step, Storage, Use};
use toma_trace::{Access, Contradiction, Operand, Place, Recorder, ThreadId, Trace};

const MAIN: ThreadId = ThreadId(0);

/// A step that frees the gradient of the step before, makes a new one, and updates a weight with it.
fn training() -> Result<Trace, Contradiction> {
    let mut recorder = Recorder::new();
    let place = Place::HOST;
    let [weight, old, tiny] = [400, 400, 8].map(|bytes| recorder.existing(&place, bytes));
    let (weight, old, tiny) = (weight?, old?, tiny?);
    let operand = |storage, access| Operand::new(storage, access, &[10, 10]);
    // Operator 0 makes a result, by way of a larger temporary.
    let forward = recorder.begin_operator(MAIN, "aten::mm");
    recorder.uses(forward, operand(weight, Access::Reads))?;
    recorder.uses(forward, operand(weight, Access::Reads))?;
    recorder.uses(forward, operand(tiny, Access::Reads))?;
    let between = recorder.birth(MAIN, &place, 1000)?;
    let result = recorder.birth(MAIN, &place, 200)?;
    recorder.death(MAIN, between)?;
    recorder.uses(forward, operand(result, Access::Makes))?;
    recorder.end_operator(forward)?;
    recorder.death(MAIN, old)?;
    // Operator 1 makes the gradient.
    let backward = recorder.begin_operator(MAIN, "aten::mm_backward");
    recorder.uses(backward, operand(result, Access::Reads))?;
    recorder.uses(backward, operand(weight, Access::Views))?;
    let new = recorder.birth(MAIN, &place, 400)?;
    recorder.uses(backward, operand(new, Access::Makes))?;
    recorder.end_operator(backward)?;
    recorder.death(MAIN, result)?;
    // Operator 2 adds it to the weight, and memory is allocated after it.
    let update = recorder.begin_operator(MAIN, "aten::add_");
    recorder.uses(update, operand(weight, Access::Reads))?;
    recorder.uses(update, operand(new, Access::Reads))?;
    recorder.uses(update, operand(weight, Access::Writes))?;
    recorder.end_operator(update)?;
    let passing = recorder.birth(MAIN, &place, 30)?;
    recorder.death(MAIN, passing)?;
    Ok(recorder.finish())
}

#[test]
fn a_step_is_what_a_place_saw_of_a_trace() {
    let trace = training().unwrap();
    let step = Step::of(&trace, &Place::HOST, 64);
    step.check().unwrap();
    let storage = |bytes, birth, death| Storage { bytes, birth, death, stays: bytes < 64 };
    // Weight, tiny, result, and the gradient, which lives on into the next step up to its operator 1.
    let storages = [
        storage(400, None, None),
        storage(8, None, None),
        storage(200, Some(0), Some(2)),
        storage(400, Some(1), Some(1)),
    ];
    assert_eq!(step.storages, storages);
    let uses: Vec<_> = step.operators.iter().map(|operator| &*operator.uses).collect();
    let reads = |storage| Use { storage, writes: false };
    let writes = |storage| Use { storage, writes: true };
    assert_eq!(uses, [&[reads(0), reads(1)][..], &[reads(2)], &[writes(0), reads(3)]]);
    let inside: Vec<_> = step.operators.iter().map(|operator| operator.inside_bytes).collect();
    assert_eq!(inside, [1200, 400, 30]);
    assert_eq!(step.peak_bytes(), trace.live(&Place::HOST).peak().bytes);
    assert_eq!(step.least_budget(), (0, 1608));
    assert!(Step::of(&trace, &Place::device("cuda", 0), 64).storages.is_empty());
}

/// The outer operator uses what the inner one has made.
#[test]
fn operators_that_overlap_make_a_valid_step() -> Result<(), Contradiction> {
    let mut recorder = Recorder::new();
    let outer = recorder.begin_operator(MAIN, "outer");
    let inner = recorder.begin_operator(MAIN, "inner");
    let made = recorder.birth(MAIN, &Place::HOST, 512)?;
    recorder.end_operator(inner)?;
    recorder.uses(outer, Operand::new(made, Access::Reads, &[128]))?;
    recorder.end_operator(outer)?;
    let step = Step::of(&recorder.finish(), &Place::HOST, 64);
    assert_eq!(step.storages.len(), 1);
    step.check().unwrap();
    Ok(())
}
