//! The expansion of a checked attribute: one import and one call into `toma::__private`, with a `static` call site.
//!
//! Every generated name is hygienic. A parameter that callers still pass keeps its own name if it has one, so that
//! options can use it and documentation shows it.
//!
//! # Why
//!
//! `before_retry` is an expression over the function's own parameters, with the values of the failed piece. Body and
//! undo are one closure, with a flag that selects one of them, because two closures could not both borrow a `&mut`
//! argument.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, FnArg, Pat, Signature};

use crate::asynchronous;
use crate::builder::{builder, undo};
use crate::call::Call;
use crate::form::{Form, Role};
use crate::function::Function;
use crate::names::{hygienic, local, toma_at};
use crate::options::{Kind, OptionSpec};
use crate::parameters::{self, Parameter};

pub(crate) fn expand(call: &Call<'_>) -> TokenStream {
    let Function { attrs, vis, .. } = call.function;
    let (track_caller, signature) = (track_caller(call), signature(call));
    let (import, references) = (import(call), references(call));
    let run = if call.is_async() { asynchronous::run(call) } else { run(call) };
    quote! {
        #(#attrs)* #track_caller #vis #signature { #import #references #run }
    }
}

fn run(call: &Call<'_>) -> TokenStream {
    let builder = builder(call);
    let kept = call.kept().map(Parameter::outer_name);
    let inside = call.parameters.iter().map(Parameter::inside);
    let (ty, body) = (&call.output.ty, call.body);
    let generics = generics(call);
    let Some(undo) = undo(call) else {
        let run = call.method("run");
        return quote!(#builder.#run #generics (#(#kept,)* |#(#inside),*| -> #ty #body));
    };
    let (run, flag) = (call.method("undo"), local("undo"));
    // A body that consumes an argument is reported at the body.
    let attempt = quote_spanned!(call.body_span()=> (|| -> #ty #body)());
    // One closure for both, because both borrow the same arguments.
    quote! {
        #builder.#run #generics (#(#kept,)* |#(#inside,)* #flag: bool| -> ::core::option::Option<#ty> {
            if #flag {
                #undo
                return ::core::option::Option::None;
            }
            ::core::option::Option::Some(#attempt)
        })
    }
}

/// The generic arguments of `run_*` and `undo_*`. With `classify` the outcome type is given, so that a function for
/// another error type is reported, and does not decide the return type of the body.
fn generics(call: &Call<'_>) -> Option<TokenStream> {
    call.options.of(Kind::Classify)?;
    let data = (call.form == Form::Chunked).then(|| quote!(_, _,));
    let ty = &call.output.ty;
    Some(quote!(::<#data _, #ty, _>))
}

/// Call sites are distinguished by the line of the caller, which only plain functions can know.
fn track_caller(call: &Call<'_>) -> Option<TokenStream> {
    let Function { attrs, sig, .. } = call.function;
    let given = attrs.iter().any(|attr| attr.path().is_ident("track_caller"));
    (!given && !call.is_async() && sig.abi.is_none()).then(|| quote!(#[track_caller]))
}

/// The signature that callers see.
fn signature(call: &Call<'_>) -> Signature {
    let mut sig = call.function.sig.clone();
    for parameter in call.kept() {
        if let Some(FnArg::Typed(typed)) = sig.inputs.get_mut(parameter.index) {
            let name = parameter.outer_name();
            // An asynchronous loop lends pieces of the data from here.
            let lends = call.is_async() && parameter.role == Role::Data;
            *typed.pat = Pat::Verbatim(if lends { quote!(mut #name) } else { quote!(#name) });
        }
    }
    let hidden = call.parameters.iter().filter(|parameter| !call.form.keeps(parameter.role));
    parameters::remove(&mut sig, hidden);
    sig
}

/// The only place that names the crate, so that a wrong path is one error.
fn import(call: &Call<'_>) -> TokenStream {
    let given = call.options.of(Kind::Crate);
    let path = given.map_or_else(|| quote!(::toma), ToTokens::to_token_stream);
    let span = hygienic(given.map_or_else(Span::mixed_site, Spanned::span));
    let toma = toma_at(span);
    quote_spanned!(span=> use #path::__private as #toma;)
}

/// A `let` for each option that is passed by reference, so that its value outlives the call.
fn references(call: &Call<'_>) -> TokenStream {
    let bind = |(known, value): (&OptionSpec, &Expr)| {
        let name = local(known.name);
        match (known.kind, value) {
            (Kind::Cache, Expr::Verbatim(_)) => None,
            // A cache given by a reference has to be written `&*cache`, which clippy would object to.
            (Kind::Cache, _) => Some(quote! {
                #[allow(clippy::borrow_deref_ref, reason = "a name alone would be taken for a type")]
                let #name = #value;
            }),
            (Kind::Reference, _) => Some(quote!(let #name = &(#value);)),
            _ => None,
        }
    };
    call.options.given().filter_map(bind).collect()
}
