//! Refuses functions that the attribute cannot mark.

use proc_macro2::{Group, TokenStream};
use syn::{Attribute, Error, Result};

use super::options::{ATTRIBUTE, Options};
use crate::function::Function;

/// A checked attribute and its checked function.
pub(super) struct Profile<'a> {
    pub(super) options: Options,
    pub(super) function: &'a Function,
    pub(super) body: &'a Group,
}

impl<'a> Profile<'a> {
    pub(super) fn check(args: TokenStream, function: &'a Function) -> Result<Self> {
        let options = Options::parse(args)?;
        let is_second = |attribute: &&Attribute| {
            let path = attribute.path();
            let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            ["profile", "toma::profile"].contains(&names.join("::").as_str())
        };
        if let Some(second) = function.attrs.iter().find(is_second) {
            return Err(Error::new_spanned(second, format!("{ATTRIBUTE} is given twice: once marks all")));
        }
        if let Some(constness) = function.sig.constness {
            let message = format!("{ATTRIBUTE} cannot mark a `const fn`: marks are made at run time");
            return Err(Error::new_spanned(constness, message));
        }
        let body = function.body.as_ref().ok_or_else(|| {
            let message = format!("{ATTRIBUTE} needs a body to mark: put it on the implementation");
            Error::new_spanned(&function.sig.ident, message)
        })?;
        Ok(Self { options, function, body })
    }
}
