//! What a mistake becomes: one error, and a function that callers can still name and call.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Error;

use crate::form::Form;
use crate::function::Function;
use crate::parameters::{self, Parameter};

/// The error, and the function with the signature it would have had.
///
/// The body stays, with the hidden parameters bound to nothing that ever exists, so that what it
/// alone uses is not reported as unused.
pub(crate) fn expand(form: Form, function: &Function, error: &Error) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let error = error.to_compile_error();
    let hidden = parameters::hidden(form, sig);
    let mut sig = sig.clone();
    parameters::remove(&mut sig, hidden.iter());
    let inside = hidden.iter().map(Parameter::inside_without_attrs);
    match body {
        None => quote!(#error #(#attrs)* #vis #sig;),
        Some(body) => quote! {
            #error
            #(#attrs)* #[allow(unused, reason = "the mistake is reported, nothing else")] #vis #sig { #(let #inside = loop {};)* #body }
        },
    }
}
