//! One error for each mistake, at the token that is wrong.

use proc_macro2::TokenStream;
use quote::quote;

use super::flatten;
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

/// Like `check`, for options of a batch without other mistakes.
#[track_caller]
fn check_option(args: &str, message: &str, at: &str) {
    check(Batch, args, "fn f(n: usize) {}", message, at);
}

/// Like `check`, for a function whose options are right.
#[track_caller]
fn check_function(form: Form, item: &str, message: &str, at: &str) {
    check(form, if form == Batch { "initial = 1" } else { "" }, item, message, at);
}

#[test]
fn functions_that_no_attempt_can_run() {
    let message = "`#[toma::batch]` goes on a function";
    check_function(Batch, "pub struct Model { size: usize }", message, "struct");
    check_function(Batch, "#[inline] impl Model {}", message, "impl");
    check_function(Batch, "const SIZE: usize = 1;", message, "const");
    check_function(Batch, "unsafe extern \"C\" { fn f(n: usize); }", message, "unsafe");
    let message = "`#[toma::range]` needs a body to run: put it on the implementation";
    check_function(Range, "fn work(&self, start: usize, end: usize);", message, "work");
    let message = "`#[toma::batch]` cannot run a `const fn`: trying again happens at run time";
    check_function(Batch, "pub const fn f(n: usize) {}", message, "const");
    let message = "`#[toma::batch]` cannot run a function that returns a future: await it in an `async fn`";
    for function in [
        "fn f(n: usize) -> impl Future<Output = usize> + 'static {}",
        "fn f(&self, n: usize) -> Pin<Box<dyn std::future::Future<Output = u8> + Send + '_>> {}",
    ] {
        check_function(Batch, function, message, "Future");
    }
    check_function(Batch, "fn f(n: usize) -> BoxFuture<'static, ()> {}", message, "BoxFuture");
    let message = "`padded` has no meaning for an async function: use `by_padded_cost` with `stream`";
    let function = "async fn f(rows: &[u8], start: usize, end: usize) {}";
    check(Chunked, "padded = lengths", function, message, "lengths");
}

#[test]
fn missing_parameters() {
    let missing = |takes| format!("missing parameter: {takes}");
    check_function(Batch, "fn f() {}", &missing(BATCH), "()");
    check_function(Batch, "fn f(&self) {}", &(missing(BATCH) + " after `self`"), "(&self)");
    check_function(Range, "fn f(n: usize) {}", &missing(RANGE), "(n: usize)");
    check_function(Chunked, "fn f(a: usize, b: usize) {}", &missing(CHUNKED), "(a: usize, b: usize)");
    let message = format!("`self` cannot be the data: {CHUNKED} after `self`");
    check_function(Chunked, "fn f(&mut self, a: usize, b: usize) {}", &message, "&mut self");
    check_function(Chunked, "fn f(self, a: i64, b: i64, out: &mut [f32]) {}", &message, "self");
}

#[test]
fn wrong_types() {
    let size = format!("the batch size must be `usize` or `i64`: {BATCH}");
    check_function(Batch, "fn f(n: u32) {}", &size, "u32");
    check_function(Batch, "fn f(model: &Model, n: usize) {}", &size, "&Model");
    check_function(Batch, "fn f(n: impl Into<usize>) {}", &size, "impl Into<usize>");
    let start = "start must be `usize` or `i64`";
    check_function(Range, "fn f(a: &[f32], b: usize, c: usize) {}", &format!("{start}: {RANGE}"), "&[f32]");
    let after_self = format!("{start}: {CHUNKED} after `self`");
    check_function(Chunked, "fn f(&self, d: &[u8], a: f32, b: usize) {}", &after_self, "f32");
    let end = format!("end must be `usize` or `i64`: {RANGE}");
    check_function(Range, "fn f(a: i64, b: isize) {}", &end, "isize");
    check_function(Range, "fn f(a: usize, b: i64) {}", "end must be `usize`, as start is", "i64");
    let item = "fn f(d: &[u8], a: i64, b: usize) {}";
    check_function(Chunked, item, "end must be `i64`, as start is", "usize");
}

#[test]
fn reference_into_exclusive_self() {
    let message = "`#[toma::batch]` cannot return `&mut` into `self`: the body may run again while the reference is in use";
    for (output, at) in [("&mut [f32]", "&mut [f32]"), ("Result<(u8, &mut T), E>", "&mut T")] {
        let method = format!("fn f(&mut self, n: usize) -> {output} {{ todo!() }}");
        check_function(Batch, &method, message, at);
        check_function(Batch, &format!("async {method}"), message, at);
    }
}

#[test]
fn unknown_options() {
    let has = "cache, initial, min, max, multiple_of, max_attempts, deadline, key, name, device, ranks, observer, ladder, predict, policy, before_retry, classify, crate";
    for (name, known) in [("inital", "initial"), ("multiple", "multiple_of"), ("maxattempts", "max_attempts")]
    {
        let message = format!("unknown option `{name}`, did you mean `{known}`? `#[toma::batch]` has {has}");
        check_option(&format!("min = 1, {name} = 2"), &message, name);
    }
    check_option("type = 1", &format!("unknown option `type`, `#[toma::batch]` has {has}"), "type");
    let message = "`dim` has no meaning for `#[toma::range]`, only for `#[toma::chunked]`";
    check(Range, "min = 1, dim = 0", "fn f(a: usize, b: usize) {}", message, "dim");
}

#[test]
fn malformed_options() {
    check_option("min = 1, initial = 1, min = 2", "`min` is given twice", "min");
    check_option("cache = A, cache = &b", "`cache` is given twice", "cache");
    for args in ["initial", "initial,", "initial =", "initial = , min = 1", "initial(1)", "initial: 1"] {
        check_option(args, "`initial` needs a value: `initial = ..`", "initial");
    }
    let bare = "expected options, such as `#[toma::batch(initial = 512)]`";
    check_option("512", bare, "512");
    check_option("initial = 1,, min = 2", bare, ",");
    check_option("initial = 1 min = 2", "expected `,` between options", "min");
    check_option("initial = 1; min = 2", "expected `,` between options", ";");
    let message = "missing option `initial`, the size of the first batch: `#[toma::batch(initial = 512)]`";
    // The error points at the attribute itself, which has no text here.
    check_option("", message, "");
    check_option("min = 1", message, "");
}

#[test]
fn values_that_an_option_cannot_have() {
    let message = "cache takes a type, or a reference to a value: `cache = &expr`";
    check_option("initial = 1, cache = Own::new()", message, "Own::new");
    let message = "before_retry takes no parameters: the function's own parameters are in scope";
    check_option("initial = 1, before_retry = |size, _| ()", message, "size, _");
    let message = "crate takes the path of the crate: `crate = renamed`";
    for value in ["5", "\"tma\"", "a::<b>", "a + b", "<A as B>::c"] {
        check_option(&format!("initial = 1, crate = {value}"), message, value);
    }
}

#[test]
fn the_function_stays_callable() {
    let check = |form, item: TokenStream, expected: TokenStream| {
        let tokens = attribute(form, quote!(initial = 1), &item).to_string();
        let (_error, rest) = tokens.split_once('}').unwrap();
        assert_eq!(rest.trim(), expected.to_string());
    };
    let allow = quote! { #[allow(unused, reason = "the mistake is reported, nothing else")] };
    check(
        Batch,
        quote! { pub fn f<T>(&self, mut n: u32, model: &T) -> impl Sized where T: Model { model.run(n) } },
        quote! { #allow pub fn f<T>(&self, model: &T) -> impl Sized where T: Model {
            let mut n: u32 = loop {};
            { model.run(n) }
        } },
    );
    check(
        Chunked,
        quote! { fn f(&self, start: usize, end: usize, out: &mut [u8]) {} },
        quote! { #allow fn f(&self, out: &mut [u8]) {
            let start: usize = loop {};
            let end: usize = loop {};
            {}
        } },
    );
    check(Batch, quote! { fn f(&self, n: usize); }, quote! { fn f(&self,); });
    let kept = quote! { fn f(start: usize, end: i64) };
    check(Range, quote! { #kept {} }, quote! { #allow #kept { {} } });
    check(Range, quote! { struct Model; }, quote! { struct Model; });
}
