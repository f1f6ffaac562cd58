//! The attributes of `toma`: `#[toma::batch]`, `#[toma::range]`, `#[toma::chunked]` and `#[toma::profile]`.
//!
//! Users depend on the `toma` crate, which re-exports them. The first three parse the signature, check it against the
//! options, and emit calls into `toma`, which makes every decision at run time. Only the last one parses the body, and
//! marks its statements.

use proc_macro2::TokenStream;

use crate::call::Call;
use crate::form::Form;
use crate::function::{Function, refused};

mod asynchronous;
mod builder;
mod call;
mod expand;
mod form;
mod function;
mod names;
mod options;
mod output;
mod parameters;
mod profile;
#[cfg(test)]
mod tests;
mod types;

/// Runs the function with a batch size, and again with a smaller one when memory runs out.
///
/// For work whose memory depends on one number that the caller does not care about: how many images to load at once,
/// how many sequences to embed together. The attribute supplies the number, starts with `initial`, halves it after each
/// failure, and remembers the size that worked, so that the next call starts there.
///
/// ```text
/// #[toma::batch(initial = 512)]
/// fn embed(batch_size: usize, model: &Model, texts: &[String]) -> Result<Vec<Vector>, Error> {
///     texts.chunks(batch_size).map(|batch| model.embed(batch)).flatten_ok().collect()
/// }
///
/// let vectors = embed(&model, &texts)?;
/// ```
///
/// # Parameters
///
/// Identified by position, after `self`; names are free and patterns are allowed.
///
/// | parameter | type | callers |
/// |---|---|---|
/// | the batch size | `usize` or `i64` | do not pass it: it is no part of the signature |
/// | any others | any | pass them |
///
/// The function returns the value of the attempt that succeeded.
#[doc = include_str!("manual/options.md")]
#[doc = include_str!("manual/body.md")]
#[proc_macro_attribute]
pub fn batch(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Batch, args.into(), &item.into()).into()
}

/// Runs the function over a range piece by piece, in smaller pieces when memory runs out.
///
/// For work on items `start..end` that can be done in parts: the caller asks for all of them, the body sees one part at
/// a time, in order. A part that fails is tried again from its own start with a smaller step, and completed parts are
/// never repeated. The step that worked is remembered, so that the next call starts with it.
///
/// ```text
/// #[toma::range(initial = 32)]
/// fn row_sums(start: usize, end: usize, out: &mut [f32], rows: &[Row]) -> Result<(), TryReserveError> {
///     out[start..end].copy_from_slice(&sums(&rows[start..end])?);
///     Ok(())
/// }
///
/// row_sums(0, 1024, &mut out, &rows)?;
/// ```
///
/// # Parameters
///
/// Identified by position, after `self`; names are free and patterns are allowed.
///
/// | parameter | type | callers | the body |
/// |---|---|---|---|
/// | start | `usize` or `i64` | pass the first item of all | sees the first item of the part |
/// | end | as start | pass one past the last item of all | sees one past the last item of the part |
/// | any others | any | pass them | sees them |
///
/// The body returns nothing or a `Result<(), E>`. An empty range runs nothing. For values, see
/// `map` and `fold` of `toma::execute`.
#[doc = include_str!("manual/options.md")]
#[doc = include_str!("manual/body.md")]
#[proc_macro_attribute]
pub fn range(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Range, args.into(), &item.into()).into()
}

/// Runs the function over data chunk by chunk, in smaller chunks when memory runs out.
///
/// Like `#[toma::range]`, but it also cuts the data: the caller passes the whole, and the body sees one chunk of it, of
/// the same type, and the position of the chunk in the whole. Chunks are disjoint and come in order, and a chunk that
/// fails is tried again from its own start with a smaller step.
///
/// ```text
/// #[toma::chunked(initial = 512)]
/// fn normalize((out, rows): (&mut [Row], &[Row]), start: usize, end: usize) -> Result<(), TryReserveError> {
///     ..
/// }
///
/// normalize((&mut out, &rows))?;
/// ```
///
/// # Parameters
///
/// Identified by position, after `self`; names are free and patterns are allowed.
///
/// | parameter | type | callers | the body |
/// |---|---|---|---|
/// | the data | any that implements `toma::chunk::Chunked`: slices, views, tuples of them | pass the whole | sees one chunk |
/// | start | `usize` or `i64` | do not pass it | sees where the chunk starts in the whole |
/// | end | as start | do not pass it | sees where it ends |
/// | any others | any | pass them | sees them |
///
/// The body returns nothing or a `Result<(), E>`. Empty data runs nothing. For values, see `map`
/// and `fold` of `toma::execute`.
#[doc = include_str!("manual/options.md")]
#[doc = include_str!("manual/body.md")]
#[proc_macro_attribute]
pub fn chunked(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Chunked, args.into(), &item.into()).into()
}

/// Marks every statement of a function, so that a profiler can show which line took the memory.
///
/// A profiler shows how much memory each line took, and which line held it when memory ran out. For this it must know
/// which line runs, so the attribute puts a mark before each statement, at any depth, also in closures and async
/// blocks. A mark captures nothing and changes no type, borrow, temporary or drop. Without a profiler it is one relaxed
/// load.
///
/// ```text
/// #[toma::profile(every = 10, columns = [Peak, Freed])]
/// fn step(net: &Net, images: &Tensor, labels: &Tensor) -> Tensor {
///     let loss = net.forward(images).cross_entropy_for_logits(labels);
///     loss.backward();
///     loss
/// }
/// ```
///
#[doc = include_str!("manual/profile.md")]
#[proc_macro_attribute]
pub fn profile(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    profile::profile(args.into(), &item.into()).into()
}

fn attribute(form: Form, args: TokenStream, item: &TokenStream) -> TokenStream {
    let function = match Function::parse(form, item.clone()) {
        Ok(function) => function,
        Err(error) => return refused(&error, item),
    };
    match Call::check(form, args, &function) {
        Ok(call) => expand::expand(&call),
        Err(error) => function.with_error(form, &error),
    }
}
