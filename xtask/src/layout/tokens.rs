//! Rules about code, read as tokens: what stands in comments and strings is no code.

use std::str::FromStr as _;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::layout::files::TextFile;

/// Lines that need a look.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// The keyword `unsafe`.
    unsafe_lines: Vec<usize>,
    /// An `allow` or `expect` of a lint without a reason.
    bare_lines: Vec<usize>,
}

pub(super) fn problems(file: &TextFile, unsafe_is_allowed: bool) -> Vec<String> {
    let Ok(code) = TokenStream::from_str(&file.text) else {
        // Tests of mistakes may hold what is no Rust at all.
        return if file.is_under("tests") { Vec::new() } else { vec![": not readable as Rust".to_owned()] };
    };
    let mut found = Found::default();
    found.walk(code);
    let unsafe_lines = if unsafe_is_allowed { &[][..] } else { &found.unsafe_lines };
    let of_unsafe =
        unsafe_lines.iter().map(|line| format!(":{line}: `unsafe` outside the files it is allowed in"));
    let of_lints =
        found.bare_lines.iter().map(|line| format!(":{line}: a lint is lifted without `reason = \"..\"`"));
    of_unsafe.chain(of_lints).collect()
}

impl Found {
    fn walk(&mut self, tokens: TokenStream) {
        let mut after_hash = false;
        for token in tokens {
            after_hash = match token {
                TokenTree::Punct(punct) => punct.as_char() == '#' || (after_hash && punct.as_char() == '!'),
                TokenTree::Group(group) => {
                    if after_hash && group.delimiter() == Delimiter::Bracket {
                        self.walk_attribute(group.stream());
                    }
                    self.walk_group(&group);
                    false
                }
                TokenTree::Ident(ident) => {
                    if ident == "unsafe" {
                        self.unsafe_lines.push(ident.span().start().line);
                    }
                    false
                }
                TokenTree::Literal(_) => false,
            };
        }
    }

    /// `unsafe` alone in brackets names the keyword, as `Token![unsafe]` does, and lifts nothing.
    fn walk_group(&mut self, group: &Group) {
        if group.stream().to_string() != "unsafe" {
            self.walk(group.stream());
        }
    }

    /// Looks for `allow(..)` and `expect(..)`, also inside `cfg_attr(..)`.
    fn walk_attribute(&mut self, tokens: TokenStream) {
        let mut lifts = false;
        for token in tokens {
            if let TokenTree::Group(group) = &token {
                if lifts && !gives_reason(group) {
                    self.bare_lines.push(group.span_open().start().line);
                }
                self.walk_attribute(group.stream());
            }
            lifts = matches!(&token, TokenTree::Ident(ident) if ident == "allow" || ident == "expect");
        }
    }
}

fn gives_reason(group: &Group) -> bool {
    group.stream().into_iter().any(|token| matches!(token, TokenTree::Ident(ident) if ident == "reason"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Found {
        let mut found = Found::default();
        found.walk(code.parse().unwrap());
        found
    }

    #[test]
    fn unsafe_is_found_in_code_alone() {
        let code = "\
            // unsafe\n\
            /* unsafe /* unsafe */ */\n\
            /// unsafe\n\
            fn f<'a>(c: char) { let _ = (\"unsafe\", r#\"\"unsafe\"#, b\"unsafe\", '\"', 'u'); }\n\
            #![expect(unsafe_code, reason = \"unsafe\")]\n\
            unsafe fn g() {}\n\
            fn h() { m! { x => { if y { unsafe { z() } } } } }\n\
            fn i() { input.peek(Token![unsafe]) }\n\
            #[unsafe(no_mangle)]\n";
        assert_eq!(found(code), Found { unsafe_lines: vec![6, 7, 9], bare_lines: vec![] });
    }

    #[test]
    fn lifted_lints_need_a_reason() {
        let code = "\
            #![allow(dead_code)]\n\
            #[expect(a, reason = \"b\")] fn f() {}\n\
            #[cfg_attr(not(test), allow(clippy::x))] fn g() {}\n\
            #[cfg_attr(not(test), expect(c, reason = \"d\"))] fn h() { x.expect(\"y\"); }\n\
            #[should_panic(expected = \"z\")] #[deny(w)] fn i() {}\n\
            // #[allow(v)]\n\
            fn j() { #[allow(u,\n t)] let x = vec![allow(1)]; }\n";
        assert_eq!(found(code), Found { unsafe_lines: vec![], bare_lines: vec![1, 3, 7] });
    }

    #[test]
    fn what_is_no_rust_is_a_problem_except_in_tests() {
        let broken = |path: &str| TextFile { path: path.into(), text: "fn f( {".into() };
        assert_eq!(problems(&broken("src/a.rs"), false), [": not readable as Rust"]);
        assert_eq!(problems(&broken("tests/ui/a.rs"), false), [""; 0]);
    }
}
