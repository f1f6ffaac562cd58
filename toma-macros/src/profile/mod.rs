//! `#[toma::profile]`: a mark before each statement, which records which line runs.
//!
//! A mark captures nothing, and changes no type, temporary, borrow or drop. So code that compiles without the attribute
//! compiles with it, and behaves the same. No other module of this crate parses bodies.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Result;

use crate::function::{Function, refused};
use checked::Profile;
use options::ATTRIBUTE;

mod body;
mod calls;
mod checked;
mod emitted;
mod lines;
mod marker;
mod options;

pub(crate) fn profile(args: TokenStream, item: &TokenStream) -> TokenStream {
    let function = Function::parse(ATTRIBUTE, item.clone());
    function.and_then(|function| expand(args, &function)).unwrap_or_else(|error| refused(&error, item))
}

pub(crate) fn expand(args: TokenStream, function: &Function) -> Result<TokenStream> {
    let profile = Profile::check(args, function)?;
    let Function { attrs, vis, .. } = function;
    let (sig, body) = body::expand(&profile);
    Ok(quote!(#(#attrs)* #vis #sig #body))
}
