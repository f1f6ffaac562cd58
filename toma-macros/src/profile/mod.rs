//! `#[toma::profile]`: a mark before each statement, which says which line runs.
//!
//! A mark captures nothing, and changes no type, temporary, borrow or drop. So what compiles without the attribute
//! compiles with it, and does the same. This module alone looks into bodies.

use proc_macro2::{Group, TokenStream};
use quote::quote;
use syn::{Attribute, Error, Result};

use crate::function::Function;
use options::Options;

mod body;
mod calls;
mod emitted;
mod lines;
mod marker;
mod options;

const ATTRIBUTE: &str = "`#[toma::profile]`";

/// An attribute and its function, both found right.
struct Profile<'a> {
    options: Options,
    function: &'a Function,
    body: &'a Group,
}

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

impl<'a> Profile<'a> {
    fn check(args: TokenStream, function: &'a Function) -> Result<Self> {
        let options = Options::parse(args)?;
        let is_second = |attribute: &&Attribute| {
            let path = attribute.path();
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            ["profile", "toma::profile"].contains(&names.join("::").as_str())
        };
        if let Some(second) = function.attrs.iter().find(is_second) {
            return Err(Error::new_spanned(second, format!("{ATTRIBUTE} is given twice: once marks all")));
        }
        if let Some(constness) = function.sig.constness {
            let message = format!("{ATTRIBUTE} cannot mark a `const fn`: marks are made at run time");
            return Err(Error::new_spanned(constness, message));
        }
        let body = function.body.as_ref().ok_or_else(|| {
            let message = format!("{ATTRIBUTE} needs a body to mark: put it on the implementation");
            Error::new_spanned(&function.sig.ident, message)
        })?;
        Ok(Self { options, function, body })
    }
}
