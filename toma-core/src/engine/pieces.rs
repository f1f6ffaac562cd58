//! One piece after another: what all forms that have more than one do.

use super::call::Call;
use super::drive::{Care, Done, Lost, Work, drive};
use crate::nesting::Inside;
use crate::outcome::Judge;
use crate::policy::Policy;

/// The next piece that is done, or the failure to pass on; `None` when there is nothing more.
///
/// What failed alone waits in `apart` until the others are done, unless somebody takes care of it.
#[inline]
pub(crate) fn next_piece<R, M, W: Work<R>>(
    call: &mut Call<'_, impl Policy>,
    judge: &impl Judge<R, M>,
    work: &mut W,
    apart: &mut Option<Box<Lost<R>>>,
) -> Option<Done<R>> {
    while !call.is_done() {
        match drive(call, judge, work) {
            Done::SetAside(lost) if W::LEAVES_OUT => {
                let inside = Inside::of(lost.surroundings);
                leave_out(call, inside, work.care(), (lost, apart));
            }
            done => return Some(done),
        }
    }
    apart.take().map(|lost| Done::Failed(pass_on(call, *lost)))
}

/// The error of an item that failed alone, to be passed on now that the others are done; a panic goes on
/// here.
#[cold]
pub(crate) fn pass_on<R>(call: &mut Call<'_, impl Policy>, lost: Lost<R>) -> R {
    call.gives_up_alone(lost.cost);
    lost.pass_on()
}

/// Goes on without an item that failed alone: cleans up as before a retry, and then tells of it.
///
/// Of failures that nobody is told of, the first is kept; the others are in the report.
#[cold]
pub(crate) fn leave_out<R>(
    call: &mut Call<'_, impl Policy>,
    inside: Inside,
    care: &mut impl Care,
    (lost, apart): (Box<Lost<R>>, &mut Option<Box<Lost<R>>>),
) {
    let (index, cost, failure) = (lost.index, lost.cost, lost.failure.clone());
    if care.hears() || apart.is_some() {
        drop(lost);
    } else {
        *apart = Some(lost);
    }
    care.undo(index..index + 1);
    drop(inside);
    call.release();
    care.set_aside(index, cost, failure);
}
