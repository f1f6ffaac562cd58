//! The calls of `toma::marks::expansion` in a marked body.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{ReturnType, Type};

use crate::names::{hygienic, local_at};
use crate::output::Output;

/// The module of the called functions, imported once per body.
pub(super) fn lines(span: Span) -> Ident {
    local_at("lines", span)
}

/// The static that describes the function.
///
/// Statics are visible to all code within the function, so the name is one that no program uses.
pub(super) fn function(span: Span) -> Ident {
    Ident::new("__TOMA_FUNCTION", hygienic(span))
}

/// The mark of a statement on a line.
pub(super) fn line(line: u32, span: Span) -> TokenStream {
    let (lines, function, line) = (lines(span), function(span), Literal::u32_unsuffixed(line));
    quote_spanned!(hygienic(span)=> #lines::line(&#function, #line);)
}

/// The guard of a block within the statement on a line.
pub(super) fn block(enclosing: u32, span: Span) -> TokenStream {
    let (lines, block, enclosing) =
        (lines(span), local_at("block", span), Literal::u32_unsuffixed(enclosing));
    quote_spanned!(hygienic(span)=> let #block = #lines::Block::<#enclosing>;)
}

/// The guard of a frame that begins on a line.
pub(super) fn frame(line: u32, span: Span) -> TokenStream {
    let (lines, function, frame) = (lines(span), function(span), local_at("frame", span));
    let line = Literal::u32_unsuffixed(line);
    quote_spanned!(hygienic(span)=> let #frame = #lines::Frame::enter(&#function, #line);)
}

/// A future whose polls are frames that begin on a line.
pub(super) fn profiled(line: u32, span: Span, future: &impl ToTokens) -> TokenStream {
    let (lines, function, line) = (lines(span), function(span), Literal::u32_unsuffixed(line));
    quote_spanned!(hygienic(span)=> #lines::profiled(&#function, #line, #future))
}

/// A `return` with the return type of the body, because an async block cannot state its type otherwise.
pub(super) fn pin(output: &ReturnType) -> Option<TokenStream> {
    let (ty, lines) = (Output::of(output).ty, lines(Span::mixed_site()));
    let is_known = !matches!(ty, Type::Infer(_));
    is_known.then(|| quote!(if false { return #lines::never::<#ty>(); }))
}

/// Code in braces at `span`.
///
/// A block has the edition of its braces, which decides when temporaries of its value are dropped. So the braces around
/// a body are always the user's.
pub(super) fn braced(span: Span, code: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, code);
    group.set_span(span);
    group
}
