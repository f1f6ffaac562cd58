//! What becomes of a body: a static, and a frame around the marked statements.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote};
use syn::parse::Parser as _;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, FnArg, Ident, PatIdent, Signature, Stmt};

use super::lines::Lines;
use super::marker::{Marker, verbatim};
use super::{Profile, calls, emitted};

/// The function's new body, without its braces.
pub(super) fn expand(profile: &Profile<'_>) -> TokenStream {
    let (sig, body) = (&profile.function.sig, profile.body);
    let runs_again = profile.function.attrs.iter().any(runs_again);
    match Block::parse_within.parse2(body.stream()) {
        _ if is_undetermined(sig, &body.stream()) => body.stream(),
        Ok(stmts) if emitted::is(&stmts) => {
            let mark = |Block { brace_token, stmts }| {
                let stmts = verbatim(marked(profile, stmts, brace_token.span.join(), true));
                Block { brace_token, stmts }
            };
            let stmts = emitted::expand(stmts, mark);
            quote!(#(#stmts)*)
        }
        Ok(stmts) => marked(profile, stmts, body.span(), runs_again),
        // Syntax that is unknown here counts as one line.
        Err(_) => {
            let lines = Lines::of(profile, body.span());
            let body = body.stream();
            match sig.asyncness {
                Some(_) => task(profile, lines, &body, runs_again),
                None => {
                    let frame = calls::frame(0, Span::mixed_site());
                    framed(profile, lines, &quote!(#frame #body))
                }
            }
        }
    }
}

/// The statements between the braces at `span`, each marked, in a frame.
fn marked(profile: &Profile<'_>, stmts: Vec<Stmt>, span: Span, runs_again: bool) -> TokenStream {
    let mut marker = Marker::new(Lines::of(profile, span));
    if profile.function.sig.asyncness.is_some() {
        let body = marker.statements(stmts, TokenStream::new(), span);
        return task(profile, marker.lines, &body, runs_again);
    }
    let frame = calls::frame(0, Span::mixed_site());
    let body = marker.statements(stmts, frame, span);
    framed(profile, marker.lines, &body)
}

/// The body of an `async fn`, whose polls are frames.
fn task(profile: &Profile<'_>, lines: Lines, body: &TokenStream, runs_again: bool) -> TokenStream {
    let sig = &profile.function.sig;
    let pin = calls::pin(&sig.output);
    // A body that may run again can only borrow its arguments.
    let moves = (!runs_again).then(|| quote!(move));
    let captures = (!runs_again).then(|| captures(sig));
    let future = quote!(async #moves { #pin #captures #body });
    let task = calls::profiled(0, Span::mixed_site(), &future);
    framed(profile, lines, &quote!(#task.await))
}

fn framed(profile: &Profile<'_>, lines: Lines, body: &TokenStream) -> TokenStream {
    let function = lines.function(profile);
    quote!(#function #body)
}

/// Whether only the signature says what the body returns, which a block within cannot: `?` needs to know it.
fn is_undetermined(sig: &Signature, body: &TokenStream) -> bool {
    sig.asyncness.is_some()
        && has(&sig.output.to_token_stream(), &|token| token.to_string() == "impl")
        && has(body, &|token| token.to_string() == "?")
}

/// Whether there is such a token, also within groups.
fn has(code: &TokenStream, is_meant: &dyn Fn(&TokenTree) -> bool) -> bool {
    code.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => has(&group.stream(), is_meant),
        token => is_meant(&token),
    })
}

/// Whether an attribute of ours, which is still to come, may run the body several times.
fn runs_again(attr: &Attribute) -> bool {
    let name = attr.path().segments.last().map(|last| last.ident.to_string());
    matches!(name.as_deref(), Some("batch" | "range" | "chunked"))
}

/// Moves all arguments into the task, last first: so they are dropped in the order in which the function drops them.
fn captures(sig: &Signature) -> TokenStream {
    let mut names = Names(Vec::new());
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => names.0.push(receiver.self_token.into()),
            FnArg::Typed(typed) => names.visit_pat_mut(&mut typed.pat.as_ref().clone()),
        }
    }
    let names = names.0.iter().rev();
    quote!(#(let _ = &#names;)*)
}

/// The names that patterns bind.
struct Names(Vec<Ident>);

impl VisitMut for Names {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        self.0.push(pat.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pat);
    }
}
