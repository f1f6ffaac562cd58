//! The return type: how the expansion writes it, and which judge classifies the returned value.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Type, parse_quote};

use crate::names::{hygienic, toma, toma_at};
use crate::options::{Kind, Options};
use crate::types;

/// The return type in a form that a closure, a `let` or a turbofish can write.
pub(crate) struct Output {
    /// `_` for `impl Trait` and `!`, which only a signature can write.
    pub(crate) ty: Type,
    /// Span of errors about the type.
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

    /// A method whose bounds check the return type: an unsuitable type is reported at the type.
    pub(crate) fn method(&self, name: &str) -> Ident {
        Ident::new(name, self.span)
    }

    /// The judge, a value that separates success from failure.
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

/// Span of the `E` of a `Result<T, E>`, at which the error "cannot be classified" points; for other types, of the whole
/// type.
fn error_span(ty: &Type) -> Span {
    let Type::Path(mut path) = ty.clone() else { return ty.span() };
    types::types_in(&mut path.path).nth(1).map_or_else(|| ty.span(), |error| error.span())
}
