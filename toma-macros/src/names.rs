//! Names in expansions.

use proc_macro2::{Ident, Span};

/// A name that neither the body nor an option can see or shadow.
pub(crate) fn local(name: &str) -> Ident {
    local_at(name, Span::mixed_site())
}

/// A [`local`] name at which errors about `span`'s code can point.
pub(crate) fn local_at(name: &str, span: Span) -> Ident {
    Ident::new(&format!("__toma_{name}"), Span::mixed_site().located_at(span))
}

/// The name of `toma::__private` inside the expansion.
pub(crate) fn toma(span: Span) -> Ident {
    Ident::new("__toma", span)
}
