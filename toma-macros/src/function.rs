//! The annotated function: a parsed signature and an unparsed body.
//!
//! The body stays raw tokens. This is faster, and syntax that this crate does not know keeps working inside the body.

use std::fmt::Display;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{AttrStyle, Attribute, Error, Ident, LitStr, PatType, Result, Signature, Token, Visibility};

use crate::form::Form;
use crate::parameters::{self, Parameter};

pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `None` for a trait method without a body.
    pub(crate) body: Option<Group>,
}

impl Function {
    pub(crate) fn parse(attribute: impl Display, item: TokenStream) -> Result<Self> {
        let parse = |input: ParseStream<'_>| {
            let mut attrs = input.call(Attribute::parse_outer)?;
            let vis = input.parse()?;
            if !starts_function(&input.fork()) {
                return Err(input.error(format!("{attribute} goes on a function")));
            }
            let sig = input.parse()?;
            let body = if input.parse::<Option<Token![;]>>()?.is_some() {
                None
            } else {
                Some(hoist_attributes(block(input)?, &mut attrs)?)
            };
            Ok(Self { attrs, vis, sig, body })
        };
        parse.parse2(item)
    }

    /// The function's own name without `r#`, which names its call sites.
    pub(crate) fn name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    /// The output after a mistake: the error, and the function with the signature that it would have had, so that
    /// callers can still name and call it.
    ///
    /// The body stays, and the hidden parameters are bound to values that never exist. So items that only the body uses
    /// are not reported as unused.
    pub(crate) fn with_error(&self, form: Form, error: &Error) -> TokenStream {
        let Self { attrs, vis, sig, body } = self;
        let error = error.to_compile_error();
        let hidden = parameters::hidden(form, sig);
        let mut sig = sig.clone();
        parameters::remove(&mut sig, hidden.iter());
        let inside = hidden.iter().map(|Parameter { typed: PatType { pat, ty, .. }, .. }| quote!(#pat: #ty));
        match body {
            None => quote!(#error #(#attrs)* #vis #sig;),
            Some(body) => quote! {
                #error
                #(#attrs)* #[allow(unused, reason = "the mistake is reported, nothing else")] #vis #sig { #(let #inside = loop {};)* #body }
            },
        }
    }
}

/// The output for an item that the attribute cannot change: the error, and the item.
pub(crate) fn refused(error: &Error, item: &TokenStream) -> TokenStream {
    // The compiler has already refused such a receiver before it called the macro.
    let is_new = error.to_string() != "unexpected method receiver";
    let error = is_new.then(|| error.to_compile_error());
    quote!(#error #item)
}

/// True if only qualifiers stand before `fn`.
fn starts_function(input: ParseStream<'_>) -> bool {
    loop {
        if input.peek(Token![fn]) {
            return true;
        }
        let qualifier = input.peek(Token![const])
            || input.peek(Token![async])
            || input.peek(Token![unsafe])
            || input.peek(Token![extern]);
        let is_abi = || input.parse::<LitStr>().is_ok();
        if !(qualifier && Ident::parse_any(input).is_ok() || is_abi()) {
            return false;
        }
    }
}

/// The braces of the body, also when `macro_rules` passed them on as `$body:block`.
fn block(input: ParseStream<'_>) -> Result<Group> {
    match input.parse()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => block.parse2(group.stream()),
        other => Err(Error::new_spanned(other, "expected the function's body")),
    }
}

/// Moves `#![..]` at the head of the body to the function: a closure's body cannot carry them.
fn hoist_attributes(body: Group, attrs: &mut Vec<Attribute>) -> Result<Group> {
    let split = |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse()?));
    let (inner, rest): (Vec<Attribute>, TokenStream) = split.parse2(body.stream())?;
    if inner.is_empty() {
        return Ok(body);
    }
    attrs.extend(inner.into_iter().map(|attr| Attribute { style: AttrStyle::Outer, ..attr }));
    let mut hoisted = Group::new(Delimiter::Brace, rest);
    hoisted.set_span(body.span());
    Ok(hoisted)
}
