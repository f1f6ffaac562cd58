//! What can be said of a type by its tokens.

use syn::{GenericArgument, Lifetime, Path, PathArguments, Type, TypeParamBound, TypeReference, parse_quote};

const SIZES: [&str; 2] = ["usize", "i64"];
const NUMBERS: [&str; 14] =
    ["usize", "i64", "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i128", "isize", "f32", "f64"];

/// The name of the size type, when `ty` is one.
pub(crate) fn size(ty: &Type) -> Option<&'static str> {
    SIZES.into_iter().find(|name| is_named(ty, name))
}

/// Whether `ty` is a number, and so was meant as a size when it stands in a size's place.
pub(crate) fn is_number(ty: &Type) -> bool {
    NUMBERS.into_iter().any(|name| is_named(ty, name))
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
pub(crate) fn exclusive(ty: &Type) -> Option<&TypeReference> {
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => Some(reference),
        Type::Reference(reference) => exclusive(&reference.elem),
        Type::Group(group) => exclusive(&group.elem),
        Type::Paren(paren) => exclusive(&paren.elem),
        Type::Array(array) => exclusive(&array.elem),
        Type::Slice(slice) => exclusive(&slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(exclusive),
        Type::Path(path) => path.path.segments.iter().find_map(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(arguments) => {
                arguments.args.iter().find_map(|argument| match argument {
                    GenericArgument::Type(ty) => exclusive(ty),
                    _ => None,
                })
            }
            _ => None,
        }),
        _ => None,
    }
}

/// `ty` as a closure or a `let` can write it: `_` for each `impl Trait`, which is legal in
/// signatures only.
pub(crate) fn without_impl(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Eraser { lifetimes: false }.erase(&mut ty);
    ty
}

/// Like [`without_impl`], and every lifetime left to inference: a piece of the data lives shorter
/// than the data.
pub(crate) fn of_piece(ty: &Type) -> Type {
    let mut ty = ty.clone();
    Eraser { lifetimes: true }.erase(&mut ty);
    ty
}

struct Eraser {
    lifetimes: bool,
}

impl Eraser {
    fn erase(&self, ty: &mut Type) {
        match ty {
            Type::ImplTrait(_) => *ty = parse_quote!(_),
            Type::Array(array) => self.erase(&mut array.elem),
            Type::Group(group) => self.erase(&mut group.elem),
            Type::Paren(paren) => self.erase(&mut paren.elem),
            Type::Ptr(pointer) => self.erase(&mut pointer.elem),
            Type::Slice(slice) => self.erase(&mut slice.elem),
            Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(|elem| self.erase(elem)),
            Type::Reference(reference) => {
                reference.lifetime.take_if(|_| self.lifetimes);
                self.erase(&mut reference.elem);
            }
            Type::Path(path) => {
                path.qself.iter_mut().for_each(|qself| self.erase(&mut qself.ty));
                self.erase_path(&mut path.path);
            }
            Type::TraitObject(object) => {
                // Its lifetimes can be bound by its own `for<'a>`: they stay.
                let bounds = Self { lifetimes: false };
                for bound in &mut object.bounds {
                    if let TypeParamBound::Trait(bound) = bound {
                        bounds.erase_path(&mut bound.path);
                    }
                }
            }
            _ => {}
        }
    }

    fn erase_path(&self, path: &mut Path) {
        for segment in &mut path.segments {
            let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else { continue };
            for argument in &mut arguments.args {
                match argument {
                    GenericArgument::Type(ty) => self.erase(ty),
                    GenericArgument::AssocType(assoc) => self.erase(&mut assoc.ty),
                    GenericArgument::Lifetime(lifetime) if self.lifetimes => {
                        *lifetime = Lifetime::new("'_", lifetime.span());
                    }
                    _ => {}
                }
            }
        }
    }
}
