//! The return type: how the inside of the function writes it, and who judges what comes back.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, ReturnType, Type, parse_quote};

use crate::names::toma;
use crate::options::{Kind, Options, Value};
use crate::types;

/// The return type as a closure, a `let` or a turbofish can write it.
pub(crate) struct Output {
    /// `None` for `impl Trait` and `!`, which only a signature can write.
    named: Option<Type>,
    /// Where an error about the type points.
    span: Span,
}

impl Output {
    pub(crate) fn of(output: &ReturnType) -> Self {
        let named = match output {
            ReturnType::Default => Some(parse_quote!(())),
            ReturnType::Type(_, ty) if matches!(**ty, Type::ImplTrait(_) | Type::Never(_)) => None,
            ReturnType::Type(_, ty) => Some(types::without_impl(ty)),
        };
        let span = match output {
            ReturnType::Default => Span::mixed_site(),
            ReturnType::Type(_, ty) => Span::mixed_site().located_at(ty.span()),
        };
        Self { named, span }
    }

    /// The return type of a closure.
    pub(crate) fn arrow(&self) -> Option<TokenStream> {
        self.named.as_ref().map(|ty| quote!(-> #ty))
    }

    /// The type as a generic argument.
    pub(crate) fn ty(&self) -> TokenStream {
        self.named.as_ref().map_or_else(|| quote!(_), |ty| quote!(#ty))
    }

    /// A method that asks something of the return type: an unfit type is reported at the type.
    pub(crate) fn method(&self, name: &str) -> Ident {
        Ident::new(name, self.span)
    }

    /// The value that tells success from failure.
    pub(crate) fn judge(&self, options: &Options) -> TokenStream {
        let here = toma(Span::mixed_site());
        match (options.of(Kind::Classify), &self.named) {
            (Some(Value::Expr(classify)), _) => quote!(#here::classified(#classify)),
            (_, None) => quote!(#here::AnyValue),
            (_, Some(ty)) => {
                let span = Span::mixed_site().located_at(error_type(ty).span());
                let there = toma(span);
                quote_spanned!(span=> #there::judge!(#ty))
            }
        }
    }
}

/// The `E` of a `Result<T, E>`, at which "cannot be classified" points; otherwise all of it.
fn error_type(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(PathArguments::AngleBracketed(arguments)) =
        path.path.segments.last().map(|last| &last.arguments)
    else {
        return ty;
    };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.nth(1).unwrap_or(ty)
}
