//! Properties of a type that its tokens show.

use proc_macro2::Ident;
use syn::visit_mut::{self, VisitMut};
use syn::{
    GenericArgument, Lifetime, Path, PathArguments, TraitBound, Type, TypeFnPtr, TypeParamBound, TypePath,
    TypeReference, parse_quote,
};

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

/// The name of the first future in a type, such as `impl Future<Output = ()>` or `BoxFuture<()>`.
pub(crate) fn future(ty: &Type) -> Option<Ident> {
    let mut futures = Futures(None);
    futures.visit_type_mut(&mut ty.clone());
    futures.0
}

struct Futures(Option<Ident>);

impl Futures {
    fn look_at(&mut self, path: &Path, names: &[&str]) {
        let name = path.segments.last().map(|segment| &segment.ident);
        self.0 = self.0.take().or_else(|| name.filter(|name| names.iter().any(|of| name == of)).cloned());
    }
}

impl VisitMut for Futures {
    fn visit_trait_bound_mut(&mut self, bound: &mut TraitBound) {
        self.look_at(&bound.path, &["Future"]);
        visit_mut::visit_trait_bound_mut(self, bound);
    }

    fn visit_type_path_mut(&mut self, path: &mut TypePath) {
        self.look_at(&path.path, &["BoxFuture", "LocalBoxFuture"]);
        visit_mut::visit_type_path_mut(self, path);
    }

    /// A function may be returned that makes futures.
    fn visit_type_fn_ptr_mut(&mut self, _function: &mut TypeFnPtr) {}
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
