//! The return type: how the inside of the function writes it, and what judges the value that comes back.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Type, parse_quote};

use crate::names::{hygienic, toma, toma_at};
use crate::options::{Kind, Options};
use crate::types;

/// The return type as a closure, a `let` or a turbofish can write it.
pub(crate) struct Output {
    /// `_` for `impl Trait` and `!`, which only a signature can write.
    pub(crate) ty: Type,
    /// Where an error about the type points.
    span: Span,
}

impl Output {
    pub(crate) fn of(output: &ReturnType) -> Self {
        let ReturnType::Type(_, ty) = output else {
            return Self { ty: parse_quote!(()), span: Span::mixed_site() };
        };
        let span = hygienic(ty.span());
        let mut ty = ty.as_ref().clone();
        types::erase(&mut ty, false);
        if let Type::Never(_) = ty {
            ty = parse_quote!(_);
        }
        Self { ty, span }
    }

    /// A method that asks something of the return type: an unfit type is reported at the type.
    pub(crate) fn method(&self, name: &str) -> Ident {
        Ident::new(name, self.span)
    }

    /// The value that tells success from failure.
    pub(crate) fn judge(&self, options: &Options) -> TokenStream {
        let (here, ty) = (toma(), &self.ty);
        if let Some(classify) = options.of(Kind::Classify) {
            return quote!(#here::classified(#classify));
        }
        if let Type::Infer(_) = ty {
            return quote!(#here::AnyValue);
        }
        let span = hygienic(error_span(ty));
        let there = toma_at(span);
        quote_spanned!(span=> #there::judge!(#ty))
    }
}

/// The place of the `E` of a `Result<T, E>`, at which "cannot be classified" points; otherwise of all.
fn error_span(ty: &Type) -> Span {
    let Type::Path(mut path) = ty.clone() else { return ty.span() };
    types::types_in(&mut path.path).nth(1).map_or_else(|| ty.span(), |error| error.span())
}
