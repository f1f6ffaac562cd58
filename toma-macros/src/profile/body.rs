//! The expansion of a body: a static, and a frame around the marked statements.
//!
//! # Why
//!
//! The body of an `async fn` becomes a task within it, whose polls are frames. Rewriting each `.await` would miss those
//! in macros. The task owns the arguments and binds them anew in their order, so that they are dropped in the same
//! order as without it. Beneath another attribute of `toma`, which runs the body several times, the task borrows them.
//!
//! Braces around a body keep the user's span. A block has the edition of its braces, which decides when temporaries of
//! its value are dropped.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Block, FnArg, Pat, PatIdent, PatType, Signature, Stmt, parse_quote};

use super::checked::Profile;
use super::lines::Lines;
use super::marker::{Marker, verbatim};
use super::{calls, emitted};
use crate::names::local_at;

/// The function's new signature and body.
pub(super) fn expand(profile: &Profile<'_>) -> (Signature, Group) {
    let (body, mut sig) = (profile.body, profile.function.sig.clone());
    if is_undetermined(&sig, &body.stream()) {
        return (sig, body.clone());
    }
    let stmts = Block::parse_within.parse2(body.stream());
    if let Ok(stmts) = &stmts
        && emitted::is(stmts)
    {
        return (sig, calls::braced(body.span(), within_emitted(profile, stmts)));
    }
    // A body that may run again can only borrow its arguments.
    let owns = sig.asyncness.is_some() && !profile.function.attrs.iter().any(runs_again);
    let arguments = owns.then(|| arguments(&mut sig));
    let mut marker = Marker::new(Lines::of(profile, body.span()));
    let inside = if let Ok(stmts) = stmts {
        marked(&mut marker, profile, stmts, body.span())
    } else {
        // Syntax that is unknown here counts as one line.
        let (frame, unknown) = (frame(profile), body.stream());
        quote!(#frame #unknown)
    };
    let inside = calls::braced(body.span(), quote!(#arguments #inside));
    (sig, framed(profile, marker.lines, &inside, owns))
}

fn within_emitted(profile: &Profile<'_>, stmts: &[Stmt]) -> TokenStream {
    let mark = |Block { brace_token, stmts }| {
        let span = brace_token.span.join();
        let mut marker = Marker::new(Lines::of_emitted(profile, span));
        let inside = calls::braced(span, marked(&mut marker, profile, stmts, span));
        let stmts = verbatim(framed(profile, marker.lines, &inside, false).stream());
        Block { brace_token, stmts }
    };
    let stmts = emitted::expand(stmts.to_vec(), mark);
    quote!(#(#stmts)*)
}

/// Marked statements, with the guard of their frame unless the frame is a task's.
fn marked(marker: &mut Marker, profile: &Profile<'_>, stmts: Vec<Stmt>, span: Span) -> TokenStream {
    marker.statements(stmts, frame(profile).unwrap_or_default(), span)
}

fn frame(profile: &Profile<'_>) -> Option<TokenStream> {
    profile.function.sig.asyncness.is_none().then(|| calls::frame(0, Span::mixed_site()))
}

/// Puts the function's static before the body. The body of an `async fn` becomes a task, which may own its arguments.
fn framed(profile: &Profile<'_>, lines: Lines, inside: &Group, owns: bool) -> Group {
    let (function, sig) = (lines.function(profile), &profile.function.sig);
    let code = inside.stream();
    if sig.asyncness.is_none() {
        return calls::braced(inside.span(), quote!(#function #code));
    }
    let (pin, moves) = (calls::pin(&sig.output), owns.then(|| quote!(move)));
    let code = calls::braced(inside.span(), quote!(#pin #code));
    let task = calls::profiled(0, Span::mixed_site(), &quote!(async #moves #code));
    calls::braced(inside.span(), quote!(#function #task.await))
}

/// True if only the signature determines the return type: an inner block then cannot infer the type of a `?`.
fn is_undetermined(sig: &Signature, body: &TokenStream) -> bool {
    sig.asyncness.is_some()
        && has(&sig.output.to_token_stream(), &|token| token.to_string() == "impl")
        && has(body, &|token| token.to_string() == "?")
}

/// True if any token satisfies `is_meant`, also within groups.
fn has(code: &TokenStream, is_meant: &dyn Fn(&TokenTree) -> bool) -> bool {
    code.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => has(&group.stream(), is_meant),
        token => is_meant(&token),
    })
}

/// True if another attribute of `toma`, which is expanded later, may run the body several times.
fn runs_again(attr: &Attribute) -> bool {
    let name = attr.path().segments.last().map(|last| last.ident.to_string());
    matches!(name.as_deref(), Some("batch" | "range" | "chunked"))
}

/// Moves all arguments into the task, as an `async fn` moves them into its future. Each is bound to its name there, and
/// the parts that a pattern does not bind stay alive next to it, so that all are dropped at the same time as without
/// the task.
fn arguments(sig: &mut Signature) -> TokenStream {
    let bindings = sig.inputs.iter_mut().enumerate().map(|(index, input)| match input {
        FnArg::Receiver(receiver) => {
            let this = receiver.self_token;
            quote!(let _ = &#this;)
        }
        FnArg::Typed(typed) => binding(index, typed),
    });
    bindings.collect()
}

fn binding(index: usize, PatType { attrs, pat, .. }: &mut PatType) -> TokenStream {
    let inside = pat.clone();
    if let Pat::Ident(PatIdent { by_ref: None, mutability, ident, subpat: None, .. }) = &mut **pat {
        *mutability = None;
        return quote!(#(#attrs)* let #inside = #ident;);
    }
    let whole = local_at(&format!("argument_{index}"), pat.span());
    **pat = parse_quote!(#whole);
    quote!(#(#attrs)* let #whole = #whole; #(#attrs)* let #inside = #whole;)
}
