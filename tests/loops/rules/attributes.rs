//! The forms of the attributes, with every option given by an argument.

use std::convert::identity;
use std::time::Duration;

use crate::executor::pause;
use crate::rules::forms::{NAME, Scene, at, body, certain, signed, unsigned, write};
use crate::rules::stage::Fault;

/// Defines a function with an attribute whose options come from the scene, with sizes in the integer type of the
/// function. The options that differ from form to form follow.
macro_rules! played {
    ($form:ident($scene:ident, $of:ident, $($own:tt)*) $($function:tt)*) => {
        #[toma::$form(
            min = $of($scene.rules.min),
            max = $of($scene.rules.max),
            multiple_of = $of($scene.rules.multiple_of),
            max_attempts = $scene.rules.max_attempts,
            deadline = $scene.deadline.unwrap_or(Duration::MAX),
            policy = $scene.policy,
            cache = &*$scene.cache,
            device = $scene.stage,
            ladder = $scene.ladder,
            name = NAME,
            $($own)*
        )]
        $($function)*
    };
}

/// Defines a function whose first size and errors come from the scene as well, and which has `before_retry`.
macro_rules! undone {
    ($form:ident($scene:ident, $of:ident, $undo:expr $(, $($own:tt)*)?) $($function:tt)*) => {
        played! {
            $form(
                $scene, $of, initial = $of($scene.rules.initial), classify = Fault::failure, before_retry = $undo,
                $($($own)*)?
            )
            $($function)*
        }
    };
}

undone! {
    batch(scene, identity, scene.undo(0..batch_size))
    pub(crate) fn batch(batch_size: usize, scene: &Scene<'_>) -> Result<usize, Fault> {
        scene.stage.act(0, batch_size)
    }
}

undone! {
    batch(scene, signed, scene.undo(0..unsigned(batch_size)))
    pub(crate) fn batch_i64(batch_size: i64, scene: &Scene<'_>) -> Result<usize, Fault> {
        scene.stage.act(0, unsigned(batch_size))
    }
}

undone! {
    range(scene, identity, scene.undo(start..end))
    pub(crate) fn range(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
        body(scene, start, end).map(drop)
    }
}

/// Maps a position to the scene. The range starts as far below 0 as the scene's starts above 0.
fn shifted(position: i64, scene: &Scene<'_>) -> usize {
    unsigned(position + 2 * signed(scene.offset))
}

undone! {
    range(scene, signed, scene.undo(shifted(start, scene)..shifted(end, scene)))
    pub(crate) fn range_i64(start: i64, end: i64, scene: &Scene<'_>) -> Result<(), Fault> {
        body(scene, shifted(start, scene), shifted(end, scene)).map(drop)
    }
}

played! {
    range(scene, identity, initial = scene.rules.initial)
    pub(crate) fn range_unit(start: usize, end: usize, scene: &Scene<'_>) {
        certain(body(scene, start, end));
    }
}

undone! {
    chunked(scene, identity, { chunk.fill(0); scene.undo(start..end); }, dim = 0)
    pub(crate) fn chunked(
        chunk: &mut [usize],
        start: usize,
        end: usize,
        scene: &Scene<'_>,
    ) -> Result<(), Fault> {
        write(chunk, start, end, scene)
    }
}

undone! {
    chunked(scene, signed, scene.undo(unsigned(start)..unsigned(end)), dim = -1)
    pub(crate) fn chunked_i64(
        chunk: &[usize],
        start: i64,
        end: i64,
        scene: &Scene<'_>,
    ) -> Result<(), Fault> {
        let (start, end) = (unsigned(start), unsigned(end));
        assert!(chunk.iter().copied().eq(start..end), "{chunk:?} is not the chunk {start}..{end}");
        at(scene, start, end).map(drop)
    }
}

played! {
    chunked(scene, identity, classify = Fault::failure, before_retry = scene.undo(start..end))
    pub(crate) fn chunked_whole(
        chunk: &mut [usize],
        start: usize,
        end: usize,
        scene: &Scene<'_>,
    ) -> Result<(), Fault> {
        write(chunk, start, end, scene)
    }
}

undone! {
    batch(scene, identity, scene.undo(0..batch_size))
    pub(crate) async fn batch_async(batch_size: usize, scene: &Scene<'_>) -> Result<usize, Fault> {
        pause().await;
        scene.stage.act(0, batch_size)
    }
}

undone! {
    range(scene, identity, scene.undo(start..end))
    pub(crate) async fn range_async(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
        let result = body(scene, start, end).map(drop);
        pause().await;
        result
    }
}

undone! {
    chunked(scene, identity, scene.undo(start..end))
    pub(crate) async fn chunked_async(
        chunk: &mut [usize],
        start: usize,
        end: usize,
        scene: &Scene<'_>,
    ) -> Result<(), Fault> {
        pause().await;
        write(chunk, start, end, scene)
    }
}
