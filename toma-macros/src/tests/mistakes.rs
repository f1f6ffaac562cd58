//! One error for each mistake, at the token that is wrong.

use expect_test::expect;
use proc_macro2::TokenStream;
use quote::quote;

use super::{expand, flatten};
use crate::attribute;
use crate::call::Call;
use crate::form::Form::{self, Batch, Chunked, Range};
use crate::function::Function;

/// The error for `args` on `item`, and the code it points at.
fn mistake(form: Form, args: &str, item: &str) -> (String, String) {
    let (args, item): (TokenStream, TokenStream) = (args.parse().unwrap(), item.parse().unwrap());
    let parsed = Function::parse(form, item.clone());
    let error = match &parsed {
        Err(error) => error.clone(),
        Ok(function) => Call::check(form, args.clone(), function).err().expect("a mistake"),
    };
    assert_eq!(error.clone().into_iter().count(), 1, "{error}");
    let expansion = flatten(attribute(form, args, &item));
    let errors = expansion.iter().filter(|tree| tree.to_string() == "compile_error").count();
    assert_eq!(errors, 1, "{error}");
    (error.to_string(), error.span().source_text().unwrap_or_default())
}

#[track_caller]
fn check(form: Form, args: &str, item: &str, message: &str, at: &str) {
    assert_eq!(mistake(form, args, item), (message.into(), at.into()));
}

const BATCH: &str = "`#[toma::batch]` takes the batch size as the first parameter";
const RANGE: &str = "`#[toma::range]` takes start and end as the first two parameters";
const CHUNKED: &str = "`#[toma::chunked]` takes the data, start and end as the first three parameters";

#[test]
fn not_a_function() {
    let message = "`#[toma::batch]` goes on a function";
    check(Batch, "initial = 1", "pub struct Model { size: usize }", message, "struct");
    check(Batch, "initial = 1", "#[inline] impl Model {}", message, "impl");
    check(Batch, "initial = 1", "const SIZE: usize = 1;", message, "const");
    check(Batch, "initial = 1", "unsafe extern \"C\" { fn f(n: usize); }", message, "unsafe");
}

#[test]
fn no_body() {
    let message = "`#[toma::range]` needs a body to run: put it on the implementation";
    check(Range, "", "fn work(&self, start: usize, end: usize);", message, "work");
}

#[test]
fn const_function() {
    let message = "`#[toma::batch]` cannot run a `const fn`: trying again happens at run time";
    check(Batch, "initial = 1", "pub const fn f(n: usize) {}", message, "const");
}

#[test]
fn missing_parameters() {
    check(Batch, "initial = 1", "fn f() {}", &format!("missing parameter: {BATCH}"), "()");
    check(
        Batch,
        "initial = 1",
        "fn f(&self) {}",
        &format!("missing parameter: {BATCH} after `self`"),
        "(&self)",
    );
    check(Range, "", "fn f(n: usize) {}", &format!("missing parameter: {RANGE}"), "(n: usize)");
    check(
        Chunked,
        "",
        "fn f(a: usize, b: usize) {}",
        &format!("missing parameter: {CHUNKED}"),
        "(a: usize, b: usize)",
    );
}

#[test]
fn wrong_types() {
    let size = format!("the batch size must be `usize` or `i64`: {BATCH}");
    check(Batch, "initial = 1", "fn f(n: u32) {}", &size, "u32");
    check(Batch, "initial = 1", "fn f(model: &Model, n: usize) {}", &size, "&Model");
    check(Batch, "initial = 1", "fn f(n: impl Into<usize>) {}", &size, "impl Into<usize>");
    check(
        Range,
        "",
        "fn f(a: &[f32], b: usize, c: usize) {}",
        &format!("start must be `usize` or `i64`: {RANGE}"),
        "&[f32]",
    );
    check(Range, "", "fn f(a: i64, b: isize) {}", &format!("end must be `usize` or `i64`: {RANGE}"), "isize");
    check(
        Chunked,
        "",
        "fn f(&self, d: &[u8], a: f32, b: usize) {}",
        &format!("start must be `usize` or `i64`: {CHUNKED} after `self`"),
        "f32",
    );
}

#[test]
fn different_types() {
    check(Range, "", "fn f(a: usize, b: i64) {}", "end must be `usize`, as start is", "i64");
    check(Chunked, "", "fn f(d: &[u8], a: i64, b: usize) {}", "end must be `i64`, as start is", "usize");
}

#[test]
fn self_as_data() {
    let message = format!("`self` cannot be the data: {CHUNKED} after `self`");
    check(Chunked, "", "fn f(&mut self, a: usize, b: usize) {}", &message, "&mut self");
    check(Chunked, "", "fn f(self, a: i64, b: i64, out: &mut [f32]) {}", &message, "self");
}

#[test]
fn reference_into_exclusive_self() {
    let message = "`#[toma::batch]` cannot return `&mut` into `self`: the body may run again while the reference is in use";
    let method = |output: &str| format!("fn f(&mut self, n: usize) -> {output} {{ todo!() }}");
    for (output, at) in [("&mut [f32]", "&mut [f32]"), ("Result<(u8, &mut T), E>", "&mut T")] {
        check(Batch, "initial = 1", &method(output), message, at);
        check(Batch, "initial = 1", &format!("async {}", method(output)), message, at);
    }
}

#[test]
fn unknown_option() {
    let has = "cache, initial, min, max, multiple_of, max_attempts, deadline, key, name, device, observer, ladder, policy, before_retry, classify, crate";
    let near = |name: &str, known: &str| {
        format!("unknown option `{name}`, did you mean `{known}`? `#[toma::batch]` has {has}")
    };
    check(Batch, "inital = 1", "fn f(n: usize) {}", &near("inital", "initial"), "inital");
    check(
        Batch,
        "initial = 1, multiple = 2",
        "fn f(n: usize) {}",
        &near("multiple", "multiple_of"),
        "multiple",
    );
    check(
        Batch,
        "initial = 1, maxattempts = 2",
        "fn f(n: usize) {}",
        &near("maxattempts", "max_attempts"),
        "maxattempts",
    );
    let far = format!("unknown option `type`, `#[toma::batch]` has {has}");
    check(Batch, "type = 1", "fn f(n: usize) {}", &far, "type");
}

#[test]
fn option_without_a_meaning() {
    let message = "`dim` has no meaning for `#[toma::range]`, only for `#[toma::chunked]`";
    check(Range, "min = 1, dim = 0", "fn f(a: usize, b: usize) {}", message, "dim");
}

#[test]
fn option_given_twice() {
    check(Batch, "min = 1, initial = 1, min = 2", "fn f(n: usize) {}", "`min` is given twice", "min");
    check(Batch, "cache = A, cache = &b", "fn f(n: usize) {}", "`cache` is given twice", "cache");
}

#[test]
fn option_without_a_value() {
    for args in ["initial", "initial,", "initial =", "initial = , min = 1", "initial(1)", "initial: 1"] {
        check(Batch, args, "fn f(n: usize) {}", "`initial` needs a value: `initial = ..`", "initial");
    }
}

#[test]
fn malformed_options() {
    let bare = "expected options, such as `#[toma::batch(initial = 512)]`";
    check(Batch, "512", "fn f(n: usize) {}", bare, "512");
    check(Batch, "initial = 1,, min = 2", "fn f(n: usize) {}", bare, ",");
    check(Batch, "initial = 1 min = 2", "fn f(n: usize) {}", "expected `,` between options", "min");
    check(Batch, "initial = 1; min = 2", "fn f(n: usize) {}", "expected `,` between options", ";");
    let cache = "cache takes a type, or a reference to a value: `cache = &expr`";
    check(Batch, "initial = 1, cache = Own::new()", "fn f(n: usize) {}", cache, "Own::new");
}

#[test]
fn crate_that_is_no_path() {
    let message = "crate takes the path of the crate: `crate = renamed`";
    for value in ["5", "\"tma\"", "a::<b>", "a + b", "<A as B>::c"] {
        check(Range, &format!("crate = {value}"), "fn f(a: usize, b: usize) {}", message, value);
    }
}

#[test]
fn missing_initial() {
    let message = "missing option `initial`, the size of the first batch: `#[toma::batch(initial = 512)]`";
    // The attribute itself, which has no text here.
    check(Batch, "", "fn f(n: usize) {}", message, "");
    check(Batch, "min = 1", "fn f(n: usize) {}", message, "");
}

#[test]
fn before_retry_with_parameters() {
    let message = "before_retry takes no parameters: the function's own parameters are in scope";
    check(Batch, "initial = 1, before_retry = |size, _| ()", "fn f(n: usize) {}", message, "size, _");
}

#[test]
fn the_function_stays_callable() {
    let item = quote! {
        pub fn f<T>(&self, mut n: u32, model: &T) -> impl Sized where T: Model {
            model.run(n)
        }
    };
    expect![[r#"
        ::core::compile_error! {
            "the batch size must be `usize` or `i64`: `#[toma::batch]` takes the batch size as the first parameter after `self`"
        }
        #[allow(unused, reason = "the mistake is reported, nothing else")]
        pub fn f<T>(&self, model: &T) -> impl Sized
        where
            T: Model,
        {
            let mut n: u32 = loop {};
            { model.run(n) }
        }
    "#]].assert_eq(&expand(Batch, quote!(initial = 1), &item));
    let item = quote! { fn f(&self, start: usize, end: usize, out: &mut [u8]) {} };
    expect![[r#"
        ::core::compile_error! {
            "`self` cannot be the data: `#[toma::chunked]` takes the data, start and end as the first three parameters after `self`"
        }
        #[allow(unused, reason = "the mistake is reported, nothing else")]
        fn f(&self, out: &mut [u8]) {
            let start: usize = loop {};
            let end: usize = loop {};
            {}
        }
    "#]].assert_eq(&expand(Chunked, quote!(), &item));
    let method = quote! { fn f(&self, n: usize); };
    let tokens = attribute(Batch, quote!(initial = 1), &method).to_string();
    assert!(tokens.ends_with(&quote! { fn f(&self,); }.to_string()), "{tokens}");
    let kept = quote! { fn f(start: usize, end: i64) {} };
    expect![[r#"
        ::core::compile_error! {
            "end must be `usize`, as start is"
        }
        #[allow(unused, reason = "the mistake is reported, nothing else")]
        fn f(start: usize, end: i64) {
            {}
        }
    "#]]
    .assert_eq(&expand(Range, quote!(), &kept));
}

#[test]
fn an_item_that_is_no_function_stays() {
    let item = quote! { struct Model; };
    expect![[r#"
        ::core::compile_error! {
            "`#[toma::range]` goes on a function"
        }
        struct Model;
    "#]]
    .assert_eq(&expand(Range, quote!(), &item));
}
