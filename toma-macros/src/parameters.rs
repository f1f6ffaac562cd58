//! The parameters whose meaning is given by position.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Error, FnArg, Pat, PatType, Result, Signature, Type};

use crate::form::{Form, Role};
use crate::names::local_at;
use crate::types;

/// One leading parameter.
pub(crate) struct Parameter {
    pub(crate) role: Role,
    /// Index in the signature's inputs, including `self`.
    pub(crate) index: usize,
    pub(crate) typed: PatType,
}

impl Parameter {
    /// Returns the name in the signature: the user's own if the pattern is just a name.
    pub(crate) fn outer_name(&self) -> Ident {
        match &*self.typed.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => pat.ident.clone(),
            pat => local_at(&self.role.name(), pat.span()),
        }
    }

    /// Returns the parameter as the body sees it, with the user's own pattern.
    pub(crate) fn inside(&self) -> TokenStream {
        let (PatType { attrs, pat, colon_token, .. }, ty) = (&self.typed, self.inside_type());
        quote!(#(#attrs)* #pat #colon_token #ty)
    }

    /// Returns the type inside the body: the type of one piece.
    pub(crate) fn inside_type(&self) -> Type {
        let mut ty = self.typed.ty.as_ref().clone();
        // A piece has a shorter lifetime than the data.
        types::erase(&mut ty, true);
        ty
    }
}

/// The leading parameters of a function that the attribute can work on.
pub(crate) fn check(form: Form, sig: &Signature) -> Result<Vec<Parameter>> {
    let takes = describe(form, sig);
    if let (Some(receiver), true) = (sig.receiver(), self_is_meant_as_data(form, sig)) {
        return Err(Error::new_spanned(receiver, format!("`self` cannot be the data: {takes}")));
    }
    let parameters = leading(form.roles(), sig);
    if parameters.len() < form.roles().len() {
        let message = format!("missing parameter: {takes}");
        return Err(Error::new(sig.paren_token.span.join(), message));
    }
    check_sizes(&parameters, &takes)?;
    Ok(parameters)
}

/// The parameters to leave out of the signature after a mistake, as far as they can be identified.
///
/// Then calls of the function compile, and the mistake is the only error.
pub(crate) fn hidden(form: Form, sig: &Signature) -> Vec<Parameter> {
    let roles = if self_is_meant_as_data(form, sig) { &form.roles()[1..] } else { form.roles() };
    let is_hidden =
        |parameter: &Parameter| !form.keeps(parameter.role) && types::is_number(&parameter.typed.ty);
    leading(roles, sig).into_iter().filter(is_hidden).collect()
}

/// Leaves parameters out of a signature.
pub(crate) fn remove<'a>(sig: &mut Signature, parameters: impl Iterator<Item = &'a Parameter>) {
    let removed: Vec<usize> = parameters.map(|parameter| parameter.index).collect();
    let inputs = std::mem::take(&mut sig.inputs).into_pairs().enumerate();
    sig.inputs = inputs.filter(|(index, _)| !removed.contains(index)).map(|(_, pair)| pair).collect();
}

fn leading(roles: &[Role], sig: &Signature) -> Vec<Parameter> {
    let typed = sig.inputs.iter().enumerate().filter_map(|(index, input)| match input {
        FnArg::Typed(typed) => Some((index, typed.clone())),
        FnArg::Receiver(_) => None,
    });
    roles.iter().zip(typed).map(|(&role, (index, typed))| Parameter { role, index, typed }).collect()
}

fn check_sizes(parameters: &[Parameter], takes: &str) -> Result<()> {
    let mut first = None;
    for Parameter { role, typed, .. } in parameters.iter().filter(|parameter| parameter.role != Role::Data) {
        let message = match (types::size(&typed.ty), first) {
            (None, _) => format!("{role} must be `usize` or `i64`: {takes}"),
            (Some(size), Some(first)) if size != first => format!("{role} must be `{first}`, as start is"),
            (size, _) => {
                first = size;
                continue;
            }
        };
        return Err(Error::new_spanned(&typed.ty, message));
    }
    Ok(())
}

/// True for `fn f(&self, start: usize, end: usize)`: the data is missing because `self` was meant as the data.
fn self_is_meant_as_data(form: Form, sig: &Signature) -> bool {
    let is_number =
        |index| matches!(sig.inputs.get(index), Some(FnArg::Typed(typed)) if types::is_number(&typed.ty));
    form == Form::Chunked && sig.receiver().is_some() && is_number(1) && is_number(2) && !is_number(3)
}

fn describe(form: Form, sig: &Signature) -> String {
    let after = if sig.receiver().is_some() { " after `self`" } else { "" };
    format!("{form} takes {}{after}", form.takes())
}
