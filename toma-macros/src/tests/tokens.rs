//! Tests that the user's tokens pass through the expansion unchanged.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;

use super::{expand, flatten};
use crate::attribute;
use crate::form::Form::{Batch, Chunked, Range};

#[test]
fn the_body_is_not_parsed() {
    let item = quote! { fn f(n: usize) { yield gen |> n ~ @ } };
    let tokens = attribute(Batch, quote!(initial = 1), &item).to_string();
    assert!(tokens.contains(&quote!({ yield gen |> n ~ @ }).to_string()), "{tokens}");
}

#[test]
fn every_token_of_the_user_keeps_its_span() {
    let item = "/// Docs.\npub fn name<'a>(pattern: &'a mut [f32], from: usize, to: usize) -> Output\n{\n body(from)\n}";
    let tokens = flatten(attribute(Chunked, "policy = Own".parse().unwrap(), &item.parse().unwrap()));
    for word in ["name", "pattern", "from", "to", "Output", "body", "Own"] {
        let spans: Vec<_> =
            tokens.iter().filter(|tree| tree.to_string() == word).map(TokenTree::span).collect();
        assert!(!spans.is_empty(), "{word}");
        assert!(spans.iter().all(|span| span.source_text().as_deref() == Some(word)), "{word}");
    }
}

#[test]
fn macro_rules_fragments_are_seen_through() {
    let invisible = |tokens: TokenStream| Group::new(Delimiter::None, tokens);
    let (ty, body) = (invisible(quote!(i64)), invisible(quote!({ n * 2 })));
    let (undo, wrapped) = (quote!(|| reset(n)), invisible(quote!(|| reset(n))));
    let item = quote! { fn f(n: i64) -> i64 { n * 2 } };
    let plain = expand(Batch, quote!(initial = 1, before_retry = #undo), &item);
    let item = quote!(fn f(n: #ty) -> i64 #body);
    let fragments = expand(Batch, quote!(initial = 1, before_retry = #wrapped), &item);
    assert_eq!(plain, fragments);
}

#[test]
fn a_name_stays_and_a_pattern_is_renamed() {
    let signature = |item: TokenStream| {
        let expansion = expand(Range, quote!(), &item);
        expansion.lines().find(|line| line.starts_with("fn")).map(str::to_owned).unwrap()
    };
    assert_eq!(signature(quote! { fn f(mut a: usize, b: usize) {} }), "fn f(a: usize, b: usize) {");
    let renamed = "fn f(__toma_start: usize, __toma_end: usize) {";
    assert_eq!(signature(quote! { fn f(_: usize, ref b: usize) {} }), renamed);
    assert_eq!(signature(quote! { fn f(a @ 0..: usize, (b): usize) {} }), renamed);
}
