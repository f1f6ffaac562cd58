//! The `async fn` expansion: a loop around one call into `__private`.
//!
//! Each attempt is a plain async block. A closure that returns a future would have to be an
//! `AsyncFnMut`, and the future of a function that takes one is not `Send`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::call::{Call, local};
use crate::expand::{builder, undo};
use crate::form::{Form, Role};
use crate::parameters::Parameter;

pub(crate) fn run(call: &Call<'_>) -> TokenStream {
    let (running, outcome, value) = (local("call"), local("outcome"), local("value"));
    let (builder, ty, body, undo) = (builder(call), call.output.ty(), call.body, undo(call));
    let (start, arguments) = (format_ident!("start_{}", call.form.name()), call.kept().map(start_argument));
    let (piece, next) = piece(call.form);
    let bindings = call.parameters.iter().map(binding);
    quote! {
        let mut #running = #builder.#start(#(#arguments),*);
        while let ::core::option::Option::Some(#piece) = #running.#next() {
            #(#bindings)*
            let #outcome = #running.attempt(::toma::__private::typed::<#ty, _>(async #body)).await;
            match #running.end(#outcome) {
                ::toma::__private::Next::Done(#value) => return #value,
                ::toma::__private::Next::Retry => { #undo #running.recover().await; }
                ::toma::__private::Next::Piece => {}
            }
        }
        #running.finish()
    }
}

fn start_argument(parameter: &Parameter) -> TokenStream {
    let name = parameter.outer_name();
    if parameter.role == Role::Data { quote!(&#name) } else { quote!(#name) }
}

/// What the loop takes from the call each time, and the method that gives it.
fn piece(form: Form) -> (TokenStream, TokenStream) {
    let (size, start, end) = (local("size"), local("start"), local("end"));
    match form {
        Form::Batch => (quote!(#size), quote!(size)),
        Form::Range | Form::Chunked => (quote!((#start, #end)), quote!(piece)),
    }
}

/// The parameter as the body sees it, for one piece.
fn binding(parameter: &Parameter) -> TokenStream {
    let (attrs, inside) = (&parameter.typed.attrs, parameter.inside_without_attrs());
    if parameter.role == Role::Data {
        let (running, held, data) = (local("call"), local("held"), parameter.outer_name());
        let ty = parameter.inside_type();
        return quote! {
            let mut #held = #running.hold(&mut #data);
            #(#attrs)* let #inside = <#ty as ::toma::chunk::Chunked>::lend(&mut #held);
        };
    }
    let given = local(parameter.role.name());
    quote!(#(#attrs)* let #inside = #given;)
}
