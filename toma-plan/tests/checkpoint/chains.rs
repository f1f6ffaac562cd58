//! Chains of stages that the tests plan.

use proptest::bool::weighted;
use proptest::collection::{SizeRange, vec};
use proptest::prelude::Strategy;

use toma_plan::checkpoint::{Costs, Saving, Stage};

/// Stages of equal cost, as in Revolve: a plan holds outputs, and at most one saved stage at a time, because saved
/// activations are large.
pub(crate) fn revolve(length: usize) -> Costs {
    let stage = Stage { forward_seconds: 1.0, output_bytes: 1, saved_bytes: 1000, ..Stage::default() };
    Costs::new(vec![stage.repeated_alike(); length]).unwrap()
}

/// `length` times tanh, whose gradient takes the place of the output.
pub(crate) fn tanh(length: usize) -> Costs {
    let stage = Stage {
        forward_seconds: 1.0,
        backward_seconds: 2.0,
        output_bytes: 1,
        saved_bytes: 1,
        ..Stage::default()
    };
    Costs::new(vec![stage.repeated_alike(); length]).unwrap()
}

/// Stages with times of 1 to 8 and bytes of 1 to 10. A repeat costs as much as the first run.
pub(crate) fn random(lengths: impl Into<SizeRange>) -> impl Strategy<Value = Costs> {
    let stage = (1..=8_u8, 1..=5_u64, 0..=5_u64, 0..=1_u64, 0..=1_u64).prop_map(|(f, a, more, x, y)| Stage {
        forward_seconds: f.into(),
        backward_seconds: 2.0 * f64::from(f),
        output_bytes: a,
        saved_bytes: a + more,
        gradient_bytes: a,
        forward_peak_bytes: x,
        saving_peak_bytes: x,
        backward_peak_bytes: y,
        ..Stage::default()
    });
    vec(stage.prop_map(Stage::repeated_alike), lengths).prop_map(|stages| Costs::new(stages).unwrap())
}

/// Stages of all kinds, also without bytes or time, saved in part, or not repeatable. Times are whole numbers, so that
/// sums are exact.
pub(crate) fn any(lengths: impl Into<SizeRange>) -> impl Strategy<Value = Costs> {
    (any_separate(lengths), vec([0..=2_u64, 0..=2], 8)).prop_map(|(costs, parts)| {
        let mut stages = costs.stages().to_vec();
        for (stage, [idle, of_program]) in stages.iter_mut().zip(parts.into_iter().cycle()) {
            stage.idle_bytes = idle.min(stage.output_bytes);
            stage.program_bytes = of_program.min(stage.saved_bytes - stage.idle_bytes);
        }
        Costs::new(stages).unwrap().with_input_gradient(costs.input_gradient_bytes()).unwrap()
    })
}

/// Chains without bytes that are held only while certain other stages run.
fn any_separate(lengths: impl Into<SizeRange>) -> impl Strategy<Value = Costs> {
    (vec(any_stage(), lengths), 0..=6_u64)
        .prop_map(|(stages, input)| Costs::new(stages).unwrap().with_input_gradient(input).unwrap())
}

fn any_stage() -> impl Strategy<Value = Stage> {
    let bytes = (0..=6_u64, 0..=9_u64, 0..=6_u64, 0..=3_u64)
        .prop_map(|(a, more, d, passing)| [a, a + more, d, passing]);
    let peaks = [0..=4_u64, 0..=4, 0..=4, 0..=4, 0..=4, 0..=2];
    let savings = vec((0..=9_u64, 0..=4_u8, [0..=4_u64, 0..=4, 0..=4]), 0..=2);
    (seconds(), bytes, peaks, any_must_save(), savings).prop_map(
        |([f, again, b], [a, saved, d, passing], x, must_save, ways)| {
            let saving = |(less, extra, [first, later, backward]): (u64, u8, [u64; 3])| Saving {
                saved_bytes: saved.saturating_sub(less).max(a),
                extra_seconds: extra.into(),
                saving_peak_bytes: first,
                repeat_saving_peak_bytes: later,
                backward_peak_bytes: backward,
            };
            Stage {
                forward_seconds: f,
                repeat_seconds: again,
                backward_seconds: b,
                output_bytes: a,
                saved_bytes: saved,
                passing_bytes: passing,
                gradient_bytes: d,
                forward_peak_bytes: x[0],
                saving_peak_bytes: x[1],
                repeat_peak_bytes: x[2],
                repeat_saving_peak_bytes: x[3],
                backward_peak_bytes: x[4],
                variable_gradient_bytes: x[5],
                must_save,
                savings: if must_save { Vec::new() } else { ways.into_iter().map(saving).collect() },
                ..Stage::default()
            }
        },
    )
}

/// Seconds of the first run, of a later one and of backward.
fn seconds() -> impl Strategy<Value = [f64; 3]> {
    [0..=8_u8, 0..=8, 0..=8].prop_map(|seconds| seconds.map(f64::from))
}

fn any_must_save() -> impl Strategy<Value = bool> {
    weighted(0.15)
}

/// The same without parts, and without values used by later stages.
pub(crate) fn any_in_whole(lengths: impl Into<SizeRange>) -> impl Strategy<Value = Costs> {
    any_separate(lengths).prop_map(|costs| {
        let mut stages = costs.stages().to_vec();
        for stage in &mut stages {
            stage.savings.clear();
            stage.passing_bytes = 0;
        }
        Costs::new(stages).unwrap().with_input_gradient(costs.input_gradient_bytes()).unwrap()
    })
}
