//! `#[toma::profile]`: a mark before each statement, which records which line runs.
//!
//! A mark captures nothing, and changes no type, temporary, borrow or drop. So code that compiles without the attribute
//! compiles with it, and behaves the same. No other module of this crate parses bodies.

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
        // The compiler has already refused this code before it called the macro.
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
