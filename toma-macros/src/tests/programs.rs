//! The programs in `tests/ui/attribute`, each with one mistake: message and location of the compiler's error.

use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::flatten;
use crate::attribute;
use crate::form::Form;

#[test]
fn each_mistake_is_shown_as_the_compiler_shows_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/ui/attribute");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let programs: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    for program in &programs {
        let stderr = fs::read_to_string(program.with_extension("stderr")).unwrap();
        let (words, place) = error_of(&fs::read_to_string(program).unwrap());
        assert!(stderr.starts_with(&format!("error: {words}\n")), "{words}\n{stderr}");
        assert!(stderr.contains(&format!("{place}\n")), "{place}\n{stderr}");
    }
    assert!(programs.len() >= 2, "{programs:?}");
}

/// Message and location, as `:line:column`, of the error that a program's attribute causes.
fn error_of(program: &str) -> (String, String) {
    let (name, args, item) = annotated(&program.parse().unwrap()).expect("a program with an attribute");
    let expansion = flatten(match &*name {
        "batch" => attribute(Form::Batch, args, &item),
        "range" => attribute(Form::Range, args, &item),
        "chunked" => attribute(Form::Chunked, args, &item),
        _ => crate::profile::profile(args, &item),
    });
    let errors: Vec<_> =
        expansion.iter().enumerate().filter(|(_, tree)| tree.to_string() == "compile_error").collect();
    let [(at, error)] = errors[..] else { panic!("{errors:?}") };
    let words: syn::LitStr = syn::parse_str(&expansion[at + 2].to_string()).unwrap();
    let start = error.span().start();
    (words.value(), format!(":{}:{}", start.line, start.column + 1))
}

/// The name of the first attribute of `toma`, its arguments, and its item.
fn annotated(tokens: &TokenStream) -> Option<(String, TokenStream, TokenStream)> {
    let trees: Vec<_> = tokens.clone().into_iter().collect();
    trees.iter().enumerate().find_map(|(at, tree)| {
        let TokenTree::Group(group) = tree else { return None };
        let inside: Vec<_> = group.stream().into_iter().collect();
        if group.delimiter() != Delimiter::Bracket || inside.first()?.to_string() != "toma" {
            return annotated(&group.stream());
        }
        // `toma`, two colons, the name, and arguments.
        let args = match inside.get(4) {
            Some(TokenTree::Group(args)) => args.stream(),
            _ => TokenStream::new(),
        };
        let is_end = |tree: &&TokenTree| {
            matches!(tree, TokenTree::Punct(semicolon) if semicolon.as_char() == ';')
                || matches!(tree, TokenTree::Group(body) if body.delimiter() == Delimiter::Brace)
        };
        let rest = &trees[at + 1..];
        let end = rest.iter().position(|tree| is_end(&tree))?;
        Some((inside[3].to_string(), args, rest[..=end].iter().cloned().collect()))
    })
}
