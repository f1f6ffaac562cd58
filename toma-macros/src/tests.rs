use proc_macro2::{TokenStream, TokenTree};

use crate::attribute;
use crate::form::Form;

mod expansions;
mod mistakes;
mod profile;
mod programs;
mod tokens;

fn expand(form: Form, args: TokenStream, item: &TokenStream) -> String {
    print(attribute(form, args, item))
}

/// The tokens as formatted code. Panics if they are no valid Rust.
fn print(tokens: TokenStream) -> String {
    let text = tokens.to_string();
    match syn::parse2(tokens) {
        Ok(file) => prettyplease::unparse(&file),
        Err(error) => panic!("{error}: {text}"),
    }
}

/// Every token, groups opened.
fn flatten(tokens: TokenStream) -> Vec<TokenTree> {
    let open = |tree| match tree {
        TokenTree::Group(group) => flatten(group.stream()),
        leaf => vec![leaf],
    };
    tokens.into_iter().flat_map(open).collect()
}
