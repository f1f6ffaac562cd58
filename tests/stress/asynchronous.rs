//! Every form for asynchronous bodies.

use std::future::{Future, poll_fn};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use crate::ending::Ending;
use crate::fault::Fault;
use crate::forms::{Numbers, attribute, fill, take, with};
use crate::plan::Form;
use crate::reserving;
use crate::scene::Scene;

/// Makes the call.
pub(crate) async fn perform(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let Range { start, end } = scene.plan.whole();
    match scene.plan.form {
        Form::Stream => stream(scene).await,
        Form::StreamByCost => stream_by_cost(scene).await,
        Form::AsyncReserving => reserving::perform_async(scene).await,
        Form::AsyncBatch => Ok(Ending::Done(Some(vec![batch(scene).await?]))),
        Form::AsyncRange => range(start, end, scene).await.map(|()| Ending::Done(None)),
        Form::AsyncChunked => {
            let mut out = Numbers::new(scene);
            let result = chunked(&mut out.0, scene).await;
            out.check(result).map(|()| Ending::Done(None))
        }
        form => unreachable!("{form:?} is not asynchronous"),
    }
}

/// Returns how the call ends, or that it was dropped after so many polls.
pub(crate) async fn caught(
    call: impl Future<Output = Result<Ending, Fault>>,
    mut polls: Option<usize>,
) -> Ending {
    let mut call = pin!(call);
    poll_fn(|context| {
        if polls == Some(0) {
            return Poll::Ready(Ending::Left);
        }
        polls = polls.map(|polls| polls - 1);
        match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ending::from_caught(Ok(result))),
            Err(payload) => Poll::Ready(Ending::from_caught(Err(payload))),
        }
    })
    .await
}

async fn stream(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let form = with!(scene);
    let body = async |start, end| scene.at_async(start, end).await;
    let mut values = form.stream(scene.plan.whole(), scene.plan.sizes.initial, body);
    take!(values.next().await, scene)
}

async fn stream_by_cost(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let form = with!(scene).by_cost(|index| scene.plan.cost(index));
    let body = async |start, end| scene.at_async(start, end).await;
    let mut values = form.stream(scene.plan.whole(), scene.plan.sizes.initial, body);
    take!(values.next().await, scene)
}

attribute! {
    batch(scene, (0..size))
    async fn batch(size: usize, scene: &Scene<'_>) -> Result<Range<usize>, Fault> {
        scene.act_async(0, size).await
    }
}

attribute! {
    range(scene, (start..end))
    async fn range(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
        scene.at_async(start, end).await.map(drop)
    }
}

attribute! {
    chunked(scene, (start..end))
    async fn chunked(chunk: &mut [usize], start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
        chunk.fill(usize::MAX);
        fill(chunk, scene.act_async(start, end).await?);
        Ok(())
    }
}
