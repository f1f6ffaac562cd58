//! The attribute's arguments.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, LitStr, Result, Token, bracketed};

use crate::options::{crate_path, equals, instead, read};

pub(super) const ATTRIBUTE: &str = "`#[toma::profile]`";

const NAMES: [&str; 4] = ["every", "columns", "name", "crate"];

/// The options of one attribute.
#[derive(Default)]
pub(super) struct Options {
    every: Option<LitInt>,
    columns: Option<Vec<Ident>>,
    name: Option<LitStr>,
    path: Option<Expr>,
}

impl Options {
    pub(super) fn parse(args: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        read(args, "`#[toma::profile(every = 10)]`", |name, input| options.option(name, input))?;
        Ok(options)
    }

    fn option(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<bool> {
        let text = name.unraw().to_string();
        if !NAMES.contains(&text.as_str()) {
            let message = format!("unknown option `{name}`{}", instead(&text, ATTRIBUTE, &NAMES));
            return Err(Error::new(name.span(), message));
        }
        equals(name, input)?;
        Ok(match text.as_str() {
            "every" => self.every.replace(calls(input)?).is_none(),
            "columns" => self.columns.replace(columns(input)?).is_none(),
            "name" => self.name.replace(input.parse()?).is_none(),
            _ => self.path.replace(crate_path(input)?).is_none(),
        })
    }

    /// The name that tables show, which is the function's own unless another is given.
    pub(super) fn name(&self, of_function: String) -> String {
        self.name.as_ref().map_or(of_function, LitStr::value)
    }

    /// The path of the `toma` crate.
    pub(super) fn path(&self) -> TokenStream {
        self.path.as_ref().map_or_else(|| quote!(::toma), ToTokens::to_token_stream)
    }

    /// Setters that are appended to the function's static.
    pub(super) fn setters(&self, lines: &Ident) -> TokenStream {
        let every = self.every.iter();
        let columns = self.columns.iter().map(|columns| quote!(.columns(&[#(#lines::Column::#columns),*])));
        quote!(#(.every(#every))* #(#columns)*)
    }
}

/// Reads a number of calls. Only a literal is accepted, because a macro cannot evaluate an expression.
fn calls(input: ParseStream<'_>) -> Result<LitInt> {
    let message = "every takes a number of calls from 1 on: `every = 10`";
    let token: TokenTree = input.parse()?;
    let calls = syn::parse2::<LitInt>(token.to_token_stream());
    let calls = calls.map_err(|_| Error::new_spanned(&token, message))?;
    let is_number = calls.suffix().is_empty() && calls.base10_parse::<u32>().is_ok_and(|calls| calls > 0);
    if is_number { Ok(calls) } else { Err(Error::new_spanned(&calls, message)) }
}

/// Reads the names of columns, which are those of `toma::torch::profile::Column`. The compiler refuses others.
fn columns(input: ParseStream<'_>) -> Result<Vec<Ident>> {
    if !input.peek(syn::token::Bracket) {
        return Err(input.error("columns takes a list: `columns = [Peak, Freed]`"));
    }
    let list;
    bracketed!(list in input);
    let columns = Punctuated::<Ident, Token![,]>::parse_terminated(&list)?;
    Ok(columns.into_iter().collect())
}
