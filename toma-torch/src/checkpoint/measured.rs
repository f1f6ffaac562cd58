//! What a region has measured, as costs that plans are made of.

use toma_plan::checkpoint::{Costs, InvalidCosts, Stage};

use crate::ffi::{RawAction, RawStage, Region};
use toma_plan::checkpoint::{Action, Plan};

/// The costs of a region whose backward has run; `None` while it has not, or has not run whole.
pub(super) fn costs_of(region: &Region) -> Option<Result<Costs, InvalidCosts>> {
    let (figures, stages) = (region.figures(), region.stages());
    let is_whole = figures.is_over && !stages.is_empty() && stages.iter().all(|stage| stage.is_measured);
    is_whole.then(|| costs(&stages, figures.input_gradient_bytes))
}

fn costs(raw: &[RawStage], input_gradient_bytes: u64) -> Result<Costs, InvalidCosts> {
    let gradients = raw.iter().map(|stage| stage.gradient_bytes);
    let inputs = std::iter::once(input_gradient_bytes).chain(gradients);
    let stages = raw.iter().zip(inputs).map(|(stage, input_gradient_bytes)| of(stage, input_gradient_bytes));
    Costs::new(stages.collect())?.with_input_gradient(input_gradient_bytes)
}

fn of(raw: &RawStage, input_gradient_bytes: u64) -> Stage {
    let seconds = |nanoseconds: u64| std::time::Duration::from_nanos(nanoseconds).as_secs_f64();
    let saved_bytes = raw.saved_bytes.max(raw.output_bytes);
    // Of stages whose slots no repetition had to fill.
    let repeated = |measured: u64, first: u64| if raw.repeats == 0 { first } else { measured };
    let repeat_peak_bytes = repeated(raw.repeat_peak_bytes, raw.peak_bytes);
    let repeat_saving_peak_bytes = repeated(raw.repeat_saving_peak_bytes, raw.saving_peak_bytes);
    // Inside one operator memory that it saves is not told from what it needs meanwhile: a repetition saves for real.
    let saving_peak_bytes = raw.saving_peak_bytes.max(
        repeat_saving_peak_bytes.saturating_add(raw.peak_bytes.saturating_sub(repeat_peak_bytes)),
    );
    Stage {
        forward_seconds: seconds(raw.forward_ns),
        repeat_seconds: seconds(repeated(raw.repeat_ns, raw.forward_ns)),
        backward_seconds: seconds(raw.backward_ns),
        output_bytes: raw.output_bytes,
        saved_bytes,
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

/// A plan in the words of the shim.
pub(super) fn actions_of(plan: &Plan) -> Vec<RawAction> {
    let kind = |action: &Action| match action {
        Action::Drop(_) => RawAction::DROP,
        Action::Keep(_) => RawAction::KEEP,
        Action::Save { .. } => RawAction::SAVE,
        Action::Backward(_) => RawAction::BACKWARD,
    };
    let stage = |action: &Action| u32::try_from(action.stage()).expect("stages are few");
    plan.actions().iter().map(|action| RawAction { kind: kind(action), stage: stage(action) }).collect()
}
