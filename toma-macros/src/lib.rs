//! The attributes of toma.

use proc_macro2::TokenStream;
use quote::quote;

use crate::call::Call;
use crate::form::Form;
use crate::function::Function;

mod asynchronous;
mod call;
mod expand;
mod fallback;
mod form;
mod function;
mod options;
mod output;
mod parameters;
#[cfg(test)]
mod tests;
mod types;

/// Batch.
#[proc_macro_attribute]
pub fn batch(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Batch, args.into(), &item.into()).into()
}

/// Range.
#[proc_macro_attribute]
pub fn range(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Range, args.into(), &item.into()).into()
}

/// Chunked.
#[proc_macro_attribute]
pub fn chunked(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(Form::Chunked, args.into(), &item.into()).into()
}

fn attribute(form: Form, args: TokenStream, item: &TokenStream) -> TokenStream {
    let function = match Function::parse(form, item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    match Call::check(form, args, &function) {
        Ok(call) => expand::expand(&call),
        Err(error) => fallback::expand(form, &function, &error),
    }
}
