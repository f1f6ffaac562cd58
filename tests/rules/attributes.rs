//! The attributes' forms, every option given by an argument.

use std::time::Duration;

use crate::executor::pause;
use crate::forms::{NAME, Scene, at, body, certain, signed, undo, unsigned, write};
use crate::stage::Fault;

#[toma::batch(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = scene.stage.undo(0, batch_size),
)]
pub(crate) fn batch(batch_size: usize, scene: &Scene<'_>) -> Result<usize, Fault> {
    scene.stage.act(0, batch_size)
}

#[toma::batch(
    initial = signed(scene.rules.initial), min = signed(scene.rules.min), max = signed(scene.rules.max),
    multiple_of = signed(scene.rules.multiple_of), max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = scene.stage.undo(0, unsigned(batch_size)),
)]
pub(crate) fn batch_i64(batch_size: i64, scene: &Scene<'_>) -> Result<usize, Fault> {
    scene.stage.act(0, unsigned(batch_size))
}

#[toma::range(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = undo(scene, &(start..end)),
)]
pub(crate) fn range(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
    body(scene, start, end)?;
    Ok(())
}

#[toma::range(
    initial = signed(scene.rules.initial), min = signed(scene.rules.min), max = signed(scene.rules.max),
    multiple_of = signed(scene.rules.multiple_of), max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = {
        let offset = signed(scene.offset);
        scene.stage.undo(unsigned(start + offset), unsigned(end + offset));
    },
)]
pub(crate) fn range_i64(start: i64, end: i64, scene: &Scene<'_>) -> Result<(), Fault> {
    let offset = signed(scene.offset);
    at(scene, unsigned(start + offset), unsigned(end + offset)).map(drop)
}

#[toma::range(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME,
)]
pub(crate) fn range_unit(start: usize, end: usize, scene: &Scene<'_>) {
    certain(body(scene, start, end));
}

#[toma::chunked(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure, dim = 0,
    before_retry = { chunk.fill(0); scene.stage.undo(start, end); },
)]
pub(crate) fn chunked(chunk: &mut [usize], start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
    write(chunk, start, end, scene)
}

#[toma::chunked(
    initial = signed(scene.rules.initial), min = signed(scene.rules.min), max = signed(scene.rules.max),
    multiple_of = signed(scene.rules.multiple_of), max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure, dim = -1,
    before_retry = scene.stage.undo(unsigned(start), unsigned(end)),
)]
pub(crate) fn chunked_i64(chunk: &[usize], start: i64, end: i64, scene: &Scene<'_>) -> Result<(), Fault> {
    let (start, end) = (unsigned(start), unsigned(end));
    assert!(chunk.iter().copied().eq(start..end), "{chunk:?} is not the chunk {start}..{end}");
    at(scene, start, end).map(drop)
}

#[toma::chunked(
    min = scene.rules.min, max = scene.rules.max, multiple_of = scene.rules.multiple_of,
    max_attempts = scene.rules.max_attempts, deadline = scene.deadline.unwrap_or(Duration::MAX),
    policy = scene.policy, cache = &*scene.cache, device = scene.stage, ladder = scene.ladder, name = NAME,
    classify = Fault::failure, before_retry = scene.stage.undo(start, end),
)]
pub(crate) fn chunked_whole(
    chunk: &mut [usize],
    start: usize,
    end: usize,
    scene: &Scene<'_>,
) -> Result<(), Fault> {
    write(chunk, start, end, scene)
}

#[toma::batch(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = scene.stage.undo(0, batch_size),
)]
pub(crate) async fn batch_async(batch_size: usize, scene: &Scene<'_>) -> Result<usize, Fault> {
    pause().await;
    scene.stage.act(0, batch_size)
}

#[toma::range(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = undo(scene, &(start..end)),
)]
pub(crate) async fn range_async(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
    let result = body(scene, start, end).map(drop);
    pause().await;
    result
}

#[toma::chunked(
    initial = scene.rules.initial, min = scene.rules.min, max = scene.rules.max,
    multiple_of = scene.rules.multiple_of, max_attempts = scene.rules.max_attempts,
    deadline = scene.deadline.unwrap_or(Duration::MAX), policy = scene.policy, cache = &*scene.cache,
    device = scene.stage, ladder = scene.ladder, name = NAME, classify = Fault::failure,
    before_retry = scene.stage.undo(start, end),
)]
pub(crate) async fn chunked_async(
    chunk: &mut [usize],
    start: usize,
    end: usize,
    scene: &Scene<'_>,
) -> Result<(), Fault> {
    pause().await;
    write(chunk, start, end, scene)
}
