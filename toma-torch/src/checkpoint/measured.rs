//! Conversion of a region's measurements into the costs that plans are made from.

use std::iter;
use std::time::Duration;

use toma_plan::checkpoint::{Action, Costs, InvalidCosts, Plan, Stage};

use crate::ffi::{Figures, RawAction, RawStage, Region};

/// Returns the costs of a region whose whole backward has run, otherwise `None`.
pub(super) fn costs_of(region: &Region) -> Option<Result<Costs, InvalidCosts>> {
    let (figures, stages) = (region.figures(), region.stages());
    let is_whole = figures.is_over && figures.is_whole && !stages.is_empty();
    is_whole.then(|| costs(&stages, &figures))
}

fn costs(raw: &[RawStage], figures: &Figures) -> Result<Costs, InvalidCosts> {
    let gradients = raw.iter().map(|stage| stage.gradient_bytes);
    let inputs = iter::once(figures.input_gradient_bytes).chain(gradients);
    let mut stages: Vec<_> = raw.iter().zip(inputs).map(|(stage, input)| of(stage, input)).collect();
    // The last stage's `gradient_bytes` include what the program allocates after the region, such as the loss. Some of
    // it outlives the last stage's backward and is there when earlier stages are recomputed: `others_bytes`.
    let earlier = stages.len().saturating_sub(1);
    // Plans count these bytes from the start, but first runs come before they are allocated.
    let following = stages.last().map_or(0, |stage| stage.gradient_bytes);
    for stage in &mut stages {
        for peak in [&mut stage.forward_peak_bytes, &mut stage.saving_peak_bytes] {
            *peak = peak.saturating_sub(following);
        }
    }
    let mut most = 0;
    for (stage, raw) in stages[..earlier].iter_mut().zip(raw).rev() {
        most = raw.others_bytes.max(most);
        for peak in [&mut stage.repeat_peak_bytes, &mut stage.repeat_saving_peak_bytes] {
            *peak = peak.saturating_add(most);
        }
        stage.backward_peak_bytes = stage.backward_peak_bytes.saturating_add(raw.others_bytes);
    }
    Costs::new(stages)?.with_input_gradient(figures.input_gradient_bytes)
}

fn of(raw: &RawStage, input_gradient_bytes: u64) -> Stage {
    let seconds = |nanoseconds: u64| Duration::from_nanos(nanoseconds).as_secs_f64();
    // Plans save a stage that cannot be recomputed without its input, so it holds the passing bytes as well.
    let saved_bytes = if raw.is_kept { raw.united_bytes } else { raw.saved_bytes.max(raw.output_bytes) };
    // A stage that was never recomputed counts with the figures of its first run.
    let repeated = |measured: u64, first: u64| if raw.repeats == 0 { first } else { measured };
    // The first run dropped activations as well, and the program's temporaries lived longer in it.
    let repeat_peak_bytes = repeated(raw.repeat_peak_bytes, raw.peak_bytes).min(raw.peak_bytes);
    let repeat_saving_peak_bytes = repeated(raw.repeat_saving_peak_bytes, raw.saving_peak_bytes);
    // Within one operator, the first run cannot tell saved bytes from scratch bytes. A recomputation saves for real.
    let saving_peak_bytes = raw
        .saving_peak_bytes
        .max(repeat_saving_peak_bytes.saturating_add(raw.peak_bytes.saturating_sub(repeat_peak_bytes)));
    Stage {
        forward_seconds: seconds(raw.forward_ns),
        repeat_seconds: seconds(repeated(raw.repeat_ns, raw.forward_ns)),
        backward_seconds: seconds(raw.backward_ns),
        output_bytes: raw.output_bytes,
        saved_bytes,
        passing_bytes: raw.united_bytes - saved_bytes,
        gradient_bytes: raw.gradient_bytes,
        forward_peak_bytes: raw.peak_bytes.saturating_sub(raw.output_bytes),
        saving_peak_bytes: saving_peak_bytes.saturating_sub(saved_bytes),
        repeat_peak_bytes: repeat_peak_bytes.saturating_sub(raw.output_bytes),
        repeat_saving_peak_bytes: repeat_saving_peak_bytes.saturating_sub(saved_bytes),
        backward_peak_bytes: raw.backward_peak_bytes.saturating_sub(input_gradient_bytes),
        must_save: raw.is_kept,
        ..Stage::default()
    }
}

/// Converts a plan into actions of the shim.
pub(super) fn actions_of(plan: &Plan) -> Vec<RawAction> {
    let kind = |action: &Action| match action {
        Action::Drop(_) => RawAction::DROP,
        Action::Keep(_) => RawAction::KEEP,
        Action::Save { holds_input: true, .. } => RawAction::SAVE,
        Action::Save { .. } => RawAction::SAVE_ALONE,
        Action::Backward(_) => RawAction::BACKWARD,
    };
    let stage = |action: &Action| u32::try_from(action.stage()).expect("stages are few");
    plan.actions().iter().map(|action| RawAction { kind: kind(action), stage: stage(action) }).collect()
}
