//! Names in expansions.

use proc_macro2::{Ident, Span};

/// A span located at `span`, for generated code that neither the body nor an option can see or shadow.
pub(crate) fn hygienic(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// A hygienic name.
pub(crate) fn local(name: &str) -> Ident {
    local_at(name, Span::mixed_site())
}

/// A [`local`] name at which errors about `span`'s code can point.
pub(crate) fn local_at(name: &str, span: Span) -> Ident {
    Ident::new(&format!("__toma_{name}"), hygienic(span))
}

/// The name of `toma::__private` inside the expansion.
pub(crate) fn toma() -> Ident {
    toma_at(Span::mixed_site())
}

pub(crate) fn toma_at(span: Span) -> Ident {
    Ident::new("__toma", hygienic(span))
}
