//! Properties of a type that its tokens show.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::{GenericArgument, Lifetime, Path, PathArguments, Type, TypeParamBound, TypeReference, parse_quote};

const FUTURES: [&str; 3] = ["Future", "BoxFuture", "LocalBoxFuture"];
const SIZES: [&str; 2] = ["usize", "i64"];
const NUMBERS: [&str; 14] =
    ["usize", "i64", "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i128", "isize", "f32", "f64"];

/// The name of the size type, when `ty` is one.
pub(crate) fn size(ty: &Type) -> Option<&'static str> {
    SIZES.into_iter().find(|name| is_named(ty, name))
}

/// True if `ty` is a number, so that a parameter in a size's position was meant as a size.
pub(crate) fn is_number(ty: &Type) -> bool {
    NUMBERS.into_iter().any(|name| is_named(ty, name))
}

/// The first name of a future in the tokens of a type, such as `impl Future<Output = ()>`.
pub(crate) fn future(tokens: TokenStream) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(name) if FUTURES.iter().any(|future| name == future) => Some(name),
        TokenTree::Group(group) => future(group.stream()),
        _ => None,
    })
}

fn is_named(ty: &Type, name: &str) -> bool {
    match ty {
        // `macro_rules` passes `$t:ty` on inside an invisible group.
        Type::Group(group) => is_named(&group.elem, name),
        Type::Paren(paren) => is_named(&paren.elem, name),
        Type::Path(path) => path.qself.is_none() && path.path.is_ident(name),
        _ => false,
    }
}

/// The first `&mut` in `ty`, also inside of `Option`, `Result`, tuples and the like.
pub(crate) fn exclusive(ty: &mut Type) -> Option<TypeReference> {
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(reference.clone()),
        // An associated type (`<T as Trait>::Out`) hides whether it contains a `&mut`.
        Type::Path(path) if path.qself.is_some() => None,
        _ => inner(ty).into_iter().find_map(exclusive),
    }
}

/// Replaces the parts of `ty` that a closure or a `let` cannot write: each `impl Trait`, which is legal in signatures
/// only, becomes `_`. With `lifetimes`, all lifetimes are left to inference.
pub(crate) fn erase(ty: &mut Type, lifetimes: bool) {
    match ty {
        Type::ImplTrait(_) => *ty = parse_quote!(_),
        Type::Reference(reference) if lifetimes => reference.lifetime = None,
        Type::Path(path) if lifetimes => {
            for argument in arguments(&mut path.path) {
                if let GenericArgument::Lifetime(lifetime) = argument {
                    *lifetime = Lifetime::new("'_", lifetime.span());
                }
            }
        }
        Type::TraitObject(object) => {
            for bound in &mut object.bounds {
                if let TypeParamBound::Trait(bound) = bound {
                    // Its lifetimes may be bound by its own `for<'a>`, so they stay.
                    types_in(&mut bound.path).for_each(|ty| erase(ty, false));
                }
            }
        }
        _ => {}
    }
    for ty in inner(ty) {
        erase(ty, lifetimes);
    }
}

/// The types that `ty` consists of, except those inside traits and function types.
fn inner(ty: &mut Type) -> Vec<&mut Type> {
    match ty {
        Type::Array(array) => vec![&mut *array.elem],
        Type::Group(group) => vec![&mut *group.elem],
        Type::Paren(paren) => vec![&mut *paren.elem],
        Type::Ptr(pointer) => vec![&mut *pointer.elem],
        Type::Reference(reference) => vec![&mut *reference.elem],
        Type::Slice(slice) => vec![&mut *slice.elem],
        Type::Tuple(tuple) => tuple.elems.iter_mut().collect(),
        Type::Path(path) => {
            let of_self = path.qself.iter_mut().map(|qself| &mut *qself.ty);
            of_self.chain(types_in(&mut path.path)).collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn types_in(path: &mut Path) -> impl Iterator<Item = &mut Type> {
    arguments(path).filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        GenericArgument::AssocType(assoc) => Some(&mut assoc.ty),
        _ => None,
    })
}

fn arguments(path: &mut Path) -> impl Iterator<Item = &mut GenericArgument> {
    let lists = path.segments.iter_mut().filter_map(|segment| match &mut segment.arguments {
        PathArguments::AngleBracketed(list) => Some(&mut list.args),
        _ => None,
    });
    lists.flatten()
}
