//! `#[toma::profile]`: a mark before each statement, which says which line runs.
//!
//! A mark captures nothing, and changes no type, temporary, borrow or drop. So what compiles without the attribute
//! compiles with it, and does the same. This module alone looks into bodies.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Result;

use crate::function::Function;
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
    match Function::parse(ATTRIBUTE, item.clone()).and_then(|function| expand(args, &function)) {
        Ok(expansion) => expansion,
        // The compiler has refused this before it asked us.
        Err(error) if error.to_string() == "unexpected method receiver" => item.clone(),
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#error #item)
        }
    }
}

pub(crate) fn expand(args: TokenStream, function: &Function) -> Result<TokenStream> {
    let profile = Profile::check(args, function)?;
    let Function { attrs, vis, .. } = function;
    let (sig, body) = body::expand(&profile);
    Ok(quote!(#(#attrs)* #vis #sig #body))
}
