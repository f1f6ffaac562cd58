//! Every form for synchronous bodies.

use std::ops::Range;

use crate::ending::Ending;
use crate::fault::Fault;
use crate::plan::Form;
use crate::reserving;
use crate::scene::Scene;
use crate::world::lock;

/// Makes an inline form with all options of a scene.
macro_rules! with {
    ($scene:expr) => {{
        let plan = $scene.plan;
        let with = toma::execute::with::<toma::NoCache>()
            .cache($scene.cache())
            .policy(&*plan.policy)
            .min(plan.sizes.min)
            .max(plan.sizes.max)
            .multiple_of(plan.sizes.multiple_of)
            .max_attempts(plan.sizes.max_attempts)
            .deadline(plan.deadline.unwrap_or(std::time::Duration::MAX))
            .ladder($scene.ladder())
            .observer($scene)
            .key(plan.key)
            .before_retry(|failed| $scene.undo_at(&failed));
        match $scene.device() {
            Some(device) => with.device(device),
            None => with,
        }
    }};
}

/// Defines a function with an attribute that has all options of a scene.
macro_rules! attribute {
    ($form:ident($scene:ident, $failed:expr) $($function:tt)*) => {
        #[toma::$form(
            initial = $scene.plan.sizes.initial,
            min = $scene.plan.sizes.min,
            max = $scene.plan.sizes.max,
            multiple_of = $scene.plan.sizes.multiple_of,
            max_attempts = $scene.plan.sizes.max_attempts,
            deadline = $scene.plan.deadline.unwrap_or(std::time::Duration::MAX),
            policy = &*$scene.plan.policy,
            cache = &*$scene.cache(),
            device = $scene.attribute_device(),
            key = $scene.plan.key,
            ladder = $scene.ladder(),
            observer = *$scene,
            before_retry = $scene.undo_at(&$failed),
        )]
        $($function)*
    };
}

/// Takes the values one by one, all of them or fewer.
macro_rules! take {
    ($next:expr, $scene:expr) => {{
        let mut taken = Vec::new();
        while let Some(value) = $next {
            match value {
                Ok(items) => taken.push(items),
                Err(fault) => {
                    assert!($next.is_none(), "something comes after {fault}");
                    return Err(fault);
                }
            }
            if $scene.actor.chance(20) {
                return Ok(Ending::Left);
            }
        }
        Ok(Ending::Done(Some(taken)))
    }};
}

pub(crate) use {attribute, take, with};

/// Makes the call.
pub(crate) fn perform(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let Range { start, end } = scene.plan.whole();
    let values = match scene.plan.form {
        Form::Batch => Some(vec![batch(scene)?]),
        Form::Range => without_values(range(scene)?),
        Form::RangeUnit => {
            range_unit(scene);
            None
        }
        Form::Chunked => without_values(chunked(scene)?),
        Form::Tuple => without_values(tuple(scene)?),
        Form::Map => Some(map(scene)?),
        Form::Fold => Some(fold(scene)?),
        Form::Iter => return iter(scene),
        Form::ByCost => without_values(by_cost(scene)?),
        Form::LeftOut => Some(left_out(scene)?),
        Form::Reserving => without_values(reserving::perform(scene)?),
        Form::AttributeBatch => Some(vec![attribute_batch(scene)?]),
        Form::AttributeRange => without_values(attribute_range(start, end, scene)?),
        Form::AttributeChunked => {
            let mut out = Numbers::new(scene);
            let result = attribute_chunked(&mut out.0, scene);
            without_values(out.check(result)?)
        }
        form => unreachable!("{form:?} is asynchronous"),
    };
    Ok(Ending::Done(values))
}

fn without_values((): ()) -> Option<Vec<Range<usize>>> {
    None
}

/// One slot for each element, which contains the number of the element in the end.
pub(crate) struct Numbers(pub(crate) Vec<usize>);

impl Numbers {
    pub(crate) fn new(scene: &Scene<'_>) -> Self {
        Self(vec![usize::MAX; scene.plan.total])
    }

    pub(crate) fn check(&self, result: Result<(), Fault>) -> Result<(), Fault> {
        result?;
        assert!(self.0.iter().copied().eq(0..self.0.len()), "elements are lost: {:?}", self.0);
        Ok(())
    }
}

fn batch(scene: &Scene<'_>) -> Result<Range<usize>, Fault> {
    with!(scene).batch(scene.plan.sizes.initial, |size| scene.act(0, size))
}

fn range(scene: &Scene<'_>) -> Result<(), Fault> {
    with!(scene)
        .range(scene.plan.whole(), scene.plan.sizes.initial, |start, end| scene.at(start, end).map(drop))
}

fn range_unit(scene: &Scene<'_>) {
    with!(scene).range(scene.plan.whole(), scene.plan.sizes.initial, |start, end| {
        scene.certain(scene.at(start, end));
    });
}

fn chunked(scene: &Scene<'_>) -> Result<(), Fault> {
    let mut out = Numbers::new(scene);
    let form = with!(scene);
    let result = form.chunked(&mut out.0[..], scene.plan.sizes.initial, |chunk, start, end| {
        write(chunk, start, end, scene)
    });
    out.check(result)
}

/// The output of a failed attempt is still there when the attempt is retried, as with every body.
fn write(chunk: &mut [usize], start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
    assert_eq!(chunk.len(), end - start);
    chunk.fill(usize::MAX);
    fill(chunk, scene.act(start, end)?);
    Ok(())
}

/// Writes the number of each element into its slot.
pub(crate) fn fill(chunk: &mut [usize], numbers: Range<usize>) {
    for (element, number) in chunk.iter_mut().zip(numbers) {
        *element = number;
    }
}

fn tuple(scene: &Scene<'_>) -> Result<(), Fault> {
    let (input, mut out) = ((0..scene.plan.total).collect::<Vec<_>>(), Numbers::new(scene));
    let form = with!(scene);
    let data = (&input[..], &mut out.0[..]);
    let result = form.chunked(data, scene.plan.sizes.initial, |(input, out), start, end| {
        assert!(input.iter().copied().eq(start..end), "{input:?} is not the chunk {start}..{end}");
        write(out, start, end, scene)
    });
    out.check(result)
}

fn map(scene: &Scene<'_>) -> Result<Vec<Range<usize>>, Fault> {
    with!(scene).map(scene.plan.whole(), scene.plan.sizes.initial, |start, end| scene.at(start, end))
}

fn fold(scene: &Scene<'_>) -> Result<Vec<Range<usize>>, Fault> {
    with!(scene).fold(scene.plan.whole(), scene.plan.sizes.initial, Vec::new(), |so_far, start, end| {
        let mut next = so_far.clone();
        next.push(scene.at(start, end)?);
        Ok(next)
    })
}

fn iter(scene: &Scene<'_>) -> Result<Ending, Fault> {
    let form = with!(scene);
    let mut values =
        form.iter(scene.plan.whole(), scene.plan.sizes.initial, |start, end| scene.at(start, end));
    take!(values.next(), scene)
}

fn by_cost(scene: &Scene<'_>) -> Result<(), Fault> {
    let form = with!(scene).by_cost(|index| scene.plan.cost(index));
    form.range(scene.plan.whole(), scene.plan.sizes.initial, |start, end| scene.at(start, end).map(drop))
}

fn left_out(scene: &Scene<'_>) -> Result<Vec<Range<usize>>, Fault> {
    let form = with!(scene).by_cost(|index| scene.plan.cost(index));
    let form = form.left_out(|item| lock(&scene.log).leave_out(item.index - scene.plan.offset, scene.plan));
    form.map(scene.plan.whole(), scene.plan.sizes.initial, |start, end| scene.at(start, end))
}

attribute! {
    batch(scene, (0..size))
    fn attribute_batch(size: usize, scene: &Scene<'_>) -> Result<Range<usize>, Fault> {
        scene.act(0, size)
    }
}

attribute! {
    range(scene, (start..end))
    fn attribute_range(start: usize, end: usize, scene: &Scene<'_>) -> Result<(), Fault> {
        scene.at(start, end).map(drop)
    }
}

attribute! {
    chunked(scene, (start..end))
    fn attribute_chunked(
        chunk: &mut [usize],
        start: usize,
        end: usize,
        scene: &Scene<'_>,
    ) -> Result<(), Fault> {
        write(chunk, start, end, scene)
    }
}
