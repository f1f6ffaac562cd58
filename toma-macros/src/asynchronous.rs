//! The `async fn` expansion: a loop around one call into `__private`.
//!
//! Each attempt is a plain async block. A closure that returns a future would have to be an
//! `AsyncFnMut`, and the future of a function that takes one is not `Send`.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, quote, quote_spanned};

use crate::builder::{builder, undo};
use crate::call::Call;
use crate::form::{Form, Role};
use crate::names::{hygienic, local, local_at, toma, toma_at};
use crate::parameters::Parameter;

pub(crate) fn run(call: &Call<'_>) -> TokenStream {
    let (toma, running, done) = (toma(), local("call"), local("done"));
    let (builder, start) = (builder(call), call.method("start"));
    let arguments = call.kept().map(start_argument);
    let (data, sizes) = (call.parameters.iter().find_map(lend), sizes(call));
    let (ty, body) = (&call.output.ty, call.body);
    // A body that consumes an argument is reported at the body.
    let future = quote_spanned!(call.body_span()=> async #body);
    let finish = call.output.method("finish");
    // The types of the data and of positions, which are inferred.
    let inferred = match call.form {
        Form::Batch => quote!(),
        Form::Range => quote!(, _),
        Form::Chunked => quote!(, _, _),
    };
    // A value that waits for votes is held across an await. This is only done with the option `ranks`.
    let has_ranks = call.options.given().any(|(known, _)| known.name == "ranks");
    let run = if has_ranks { quote!(agreed) } else { quote!(attempt) };
    let attempt = quote! {
        let #done = #running.#run(#future).await;
        #toma::done!(#done);
    };
    // In a block of its own, so that no outcome is alive while undoing awaits: the outcome may not be `Send`.
    let attempt = match undo(call) {
        None => attempt,
        Some(undo) => {
            let again = again(call);
            quote!({ #attempt } #again #running.undo(async { #undo }).await;)
        }
    };
    quote! {
        let mut #running = #builder.#start::<#ty #inferred>(#(#arguments),*);
        while #running.begin().await {
            #data
            #sizes
            #attempt
        }
        #running.#finish()
    }
}

fn start_argument(parameter: &Parameter) -> TokenStream {
    let name = parameter.outer_name();
    // Data that cannot be chunked is reported at the data argument.
    let span = hygienic(name.span());
    if parameter.role == Role::Data { quote_spanned!(span=> &#name) } else { quote!(#name) }
}

/// Holds the piece of the data, and binds it to the body's own pattern.
fn lend(parameter: &Parameter) -> Option<TokenStream> {
    let data = parameter.outer_name();
    let span = hygienic(data.span());
    let (running, held, lent) = (local("call"), local_at("held", span), lent(parameter));
    (parameter.role == Role::Data).then(|| {
        quote_spanned! {span=>
            let ::core::option::Option::Some(mut #held) = #running.hold(&mut #data) else { continue };
            #lent
        }
    })
}

/// Binds the held piece of the data.
fn lent(parameter: &Parameter) -> TokenStream {
    let span = hygienic(parameter.outer_name().span());
    let (held, toma) = (local_at("held", span), toma_at(span));
    let (attrs, pat, ty) = (&parameter.typed.attrs, &parameter.typed.pat, parameter.inside_type());
    let ty = respan(quote!(#ty), span);
    quote_spanned!(span=> #(#attrs)* let #pat = <#ty as #toma::Chunked<_>>::lend(&mut #held);)
}

/// Binds sizes and data anew whose variables the body may have changed: `before_retry` sees the values of the failed
/// piece.
fn again(call: &Call<'_>) -> TokenStream {
    let is_changed = |parameter: &&Parameter| is_mutable(parameter.typed.pat.to_token_stream());
    let (data, others): (Vec<_>, Vec<_>) =
        call.parameters.iter().filter(is_changed).partition(|parameter| parameter.role == Role::Data);
    let (data, sizes) = (data.into_iter().map(lent), (!others.is_empty()).then(|| sizes(call)));
    let bindings = data.chain(sizes);
    let allow = quote_spanned!(Span::mixed_site()=> #[allow(unused)]);
    quote!(#(#allow #bindings)*)
}

/// True for a pattern with a variable that may be changed.
fn is_mutable(pattern: TokenStream) -> bool {
    pattern.into_iter().any(|token| match token {
        TokenTree::Group(group) => is_mutable(group.stream()),
        token => token.to_string() == "mut",
    })
}

/// Moves the tokens to another span.
fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    let respan = |mut token| {
        if let TokenTree::Group(group) = &mut token {
            *group = Group::new(group.delimiter(), respan(group.stream(), span));
        }
        token.set_span(span);
        token
    };
    tokens.into_iter().map(respan).collect()
}

/// Binds the sizes to the body's own patterns.
fn sizes(call: &Call<'_>) -> TokenStream {
    let (running, is_size) = (local("call"), |parameter: &&Parameter| parameter.role != Role::Data);
    let sizes: Vec<_> = call.parameters.iter().filter(is_size).map(|parameter| &parameter.typed).collect();
    let attrs = sizes.iter().flat_map(|size| &size.attrs);
    let (pats, types) = (sizes.iter().map(|size| &size.pat), sizes.iter().map(|size| &size.ty));
    match call.form {
        Form::Batch => quote!(#(#attrs)* let #(#pats: #types)* = #running.sizes();),
        Form::Range | Form::Chunked => quote!(#(#attrs)* let (#(#pats),*): (#(#types),*) = #running.sizes();),
    }
}
