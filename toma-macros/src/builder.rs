//! The builder call that both expansions begin with: `at(..)`, a setter for each option, and the judge.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::Expr;

use crate::call::Call;
use crate::names::{local, toma};
use crate::options::{Kind, Known, Value};
use crate::types;

/// `at(..)` with a setter for each option.
pub(crate) fn builder(call: &Call<'_>) -> TokenStream {
    let (toma, name) = (toma(Span::mixed_site()), call.function.name());
    let cache = match call.options.of(Kind::Cache) {
        None => quote!(#toma::DefaultCache),
        Some(Value::Type(cache)) => quote!(#cache),
        Some(_) => quote!(#toma::NoCache),
    };
    let setters = call.options.given().map(|(known, value)| setter(call, known, value));
    let judge = call.output.judge(&call.options);
    quote!(#toma::at::<#cache>(#toma::site!(#name)) #(#setters)* .judge(#judge))
}

/// The statement that undoes what a failed attempt did.
pub(crate) fn undo(call: &Call<'_>) -> Option<TokenStream> {
    let Some(Value::Expr(undo)) = call.options.of(Kind::Undo) else { return None };
    Some(match undo {
        Expr::Closure(_) => quote!((#undo)();),
        Expr::Path(_) => quote!(#undo();),
        _ => quote!(#undo;),
    })
}

fn setter(call: &Call<'_>, known: &Known, value: &Value) -> Option<TokenStream> {
    let Value::Expr(expr) = value else { return None };
    let argument = match known.kind {
        Kind::Cache | Kind::Reference => {
            let bound = local(known.name);
            quote!(#bound)
        }
        Kind::Size => size(call, known.name, expr),
        Kind::Value => quote!(#expr),
        Kind::Undo | Kind::Classify | Kind::Crate => return None,
    };
    let name = format_ident!("{}", known.name);
    Some(quote!(.#name(#argument)))
}

/// A size as `usize`: an `i64` is checked when the program runs, with the option's name at hand.
fn size(call: &Call<'_>, option: &str, expr: &Expr) -> TokenStream {
    let ty = call.parameters.last().and_then(|parameter| types::size(&parameter.typed.ty));
    let (toma, name) = (toma(Span::mixed_site()), call.function.name());
    if ty == Some("i64") { quote!(#toma::size!(#name, #option, #expr)) } else { quote!(#expr) }
}
