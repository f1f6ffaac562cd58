//! The builder call that both expansions begin with: `at(..)`, a setter for each option, and the judge.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote};
use syn::Expr;

use crate::call::Call;
use crate::names::{local, toma};
use crate::options::{Kind, OptionSpec};
use crate::types;

/// `at(..)` with a setter for each option.
pub(crate) fn builder(call: &Call<'_>) -> TokenStream {
    let (toma, name) = (toma(), call.function.name());
    let cache = match call.options.of(Kind::Cache) {
        None => quote!(#toma::DefaultCache),
        Some(Expr::Verbatim(cache)) => cache.clone(),
        Some(_) => quote!(#toma::NoCache),
    };
    let setters = call.options.given().map(|(known, value)| setter(call, known, value));
    let judge = call.output.judge(&call.options);
    quote!(#toma::at::<#cache>(#toma::site!(#name)) #(#setters)* .judge(#judge))
}

/// The statement that undoes the changes of a failed attempt.
pub(crate) fn undo(call: &Call<'_>) -> Option<TokenStream> {
    Some(match call.options.of(Kind::Undo)? {
        undo @ Expr::Closure(_) => quote!((#undo)();),
        undo @ Expr::Path(_) => quote!(#undo();),
        undo => quote!(#undo;),
    })
}

fn setter(call: &Call<'_>, known: &OptionSpec, value: &Expr) -> Option<TokenStream> {
    let name = format_ident!("{}", known.name);
    let argument = match (known.kind, value) {
        (Kind::Undo | Kind::Classify | Kind::Crate, _) | (Kind::Cache, Expr::Verbatim(_)) => return None,
        (Kind::Cache | Kind::Reference, _) => local(known.name).into_token_stream(),
        (Kind::Size, _) => size(call, known.name, value),
        (Kind::Value, _) => quote!(#value),
    };
    Some(quote!(.#name(#argument)))
}

/// A size as `usize`. An `i64` is checked at run time, by a macro that knows the option's name.
fn size(call: &Call<'_>, option: &str, expr: &Expr) -> TokenStream {
    let ty = call.parameters.last().and_then(|parameter| types::size(&parameter.typed.ty));
    let (toma, name) = (toma(), call.function.name());
    if ty == Some("i64") { quote!(#toma::size!(#name, #option, #expr)) } else { quote!(#expr) }
}
