//! Tests the expansion of each kind of function.

#![expect(clippy::needless_raw_string_hashes, reason = "`UPDATE_EXPECT=1` writes the snapshots")]

use expect_test::expect;
use proc_macro2::TokenStream;
use quote::quote;

use super::{expand, print};
use crate::form::Form::{self, Batch, Chunked, Range};

/// Lines that an expansion may add to the written function, plus one for each option.
const ADDED_LINES: usize = 10;

/// The loop of an `async fn` must be in the function itself for its future to be `Send`.
const ADDED_LINES_ASYNC: usize = 16;

/// Returns the expansion, after a check that it adds few lines.
fn checked(form: Form, args: TokenStream, item: &TokenStream) -> String {
    let options = args.to_string();
    let expansion = expand(form, args, item);
    let limit = if expansion.contains("async fn") { ADDED_LINES_ASYNC } else { ADDED_LINES };
    let limit = limit + options.matches(" = ").count();
    let added = expansion.lines().count() - print(item.clone()).lines().count();
    assert!(added <= limit || options.contains("before_retry"), "{added} lines added");
    expansion
}

#[test]
fn batch() {
    let item = quote! {
        /// Embeds.
        pub fn embed(batch_size: usize, model: &Model) -> Result<Tensor, TchError> {
            let batch = model.take(batch_size);
            model.run(batch)
        }
    };
    expect![[r#"
        /// Embeds.
        #[track_caller]
        pub fn embed(model: &Model) -> Result<Tensor, TchError> {
            use ::toma::__private as __toma;
            __toma::at::<__toma::DefaultCache>(__toma::site!("embed"))
                .initial(512)
                .judge(__toma::judge!(Result < Tensor, TchError >))
                .run_batch(|batch_size: usize| -> Result<Tensor, TchError> {
                    let batch = model.take(batch_size);
                    model.run(batch)
                })
        }
    "#]]
    .assert_eq(&checked(Batch, quote!(initial = 512), &item));
}

#[test]
fn every_option() {
    let args = quote! {
        classify = sort, before_retry = out.clear(), policy = Decay(0.5), dim = -1, observer = log, device = Host,
        name = "fill", key = data.len(), deadline = Duration::from_secs(9), max_attempts = 7, multiple_of = 8,
        max = data.len(), min = 8, initial = 1 << 10, cache = Shared<u8>,
    };
    let item = quote! {
        fn fill(data: &mut [f32], start: usize, end: usize, out: &mut Vec<f32>) -> Odd { out.extend(data) }
    };
    expect![[r##"
        #[track_caller]
        fn fill(data: &mut [f32], out: &mut Vec<f32>) -> Odd {
            use ::toma::__private as __toma;
            let __toma_key = &(data.len());
            let __toma_device = &(Host);
            let __toma_observer = &(log);
            __toma::at::<Shared<u8>>(__toma::site!("fill"))
                .initial(1 << 10)
                .min(8)
                .max(data.len())
                .multiple_of(8)
                .max_attempts(7)
                .deadline(Duration::from_secs(9))
                .key(__toma_key)
                .name("fill")
                .device(__toma_device)
                .observer(__toma_observer)
                .dim(-1)
                .policy(Decay(0.5))
                .judge(__toma::classified(sort))
                .undo_chunked::<
                    _,
                    _,
                    _,
                    Odd,
                    _,
                >(
                    data,
                    |
                        data: &mut [f32],
                        start: usize,
                        end: usize,
                        __toma_undo: bool,
                    | -> ::core::option::Option<Odd> {
                        if __toma_undo {
                            out.clear();
                            return ::core::option::Option::None;
                        }
                        ::core::option::Option::Some((|| -> Odd { out.extend(data) })())
                    },
                )
        }
    "##]]
    .assert_eq(&checked(Chunked, args, &item));
}

#[test]
fn a_cache_by_reference_is_bound_first() {
    let item = quote! { fn f(n: usize) -> u8 { 1 } };
    let expansion = expand(Batch, quote!(initial = 1, key = n + 1, cache = &self.sizes), &item);
    let order = ["let __toma_cache = &self.sizes;", "let __toma_key = &(n + 1);", "at::<__toma::NoCache>"];
    let order = order.map(|part| expansion.find(part));
    assert!(order.is_sorted() && order[0].is_some(), "{expansion}");
    assert!(expansion.contains(".cache(__toma_cache)"), "{expansion}");
}

#[test]
fn generics_lifetimes_impl_trait_and_where() {
    let item = quote! {
        pub(crate) unsafe fn pick<'a, 'd: 'a, T, const N: usize>(
            (a, b): (&'d mut [impl Copy], Rows<'d, N>), mut start: usize, _: usize,
            sink: &'a mut Vec<&'d T>,
        ) -> Res<'a>
        where
            T: Clone + 'd,
        {
            a.clone_from_slice(b);
            Ok(())
        }
    };
    expect![[r##"
        #[track_caller]
        pub(crate) unsafe fn pick<'a, 'd: 'a, T, const N: usize>(
            __toma_data: (&'d mut [impl Copy], Rows<'d, N>),
            sink: &'a mut Vec<&'d T>,
        ) -> Res<'a>
        where
            T: Clone + 'd,
        {
            use ::toma::__private as __toma;
            __toma::at::<__toma::DefaultCache>(__toma::site!("pick"))
                .judge(__toma::judge!(Res < 'a >))
                .run_chunked(
                    __toma_data,
                    |(a, b): (&mut [_], Rows<'_, N>), mut start: usize, _: usize| -> Res<'a> {
                        a.clone_from_slice(b);
                        Ok(())
                    },
                )
        }
    "##]]
    .assert_eq(&checked(Chunked, quote!(), &item));
}

#[test]
fn a_return_type_that_only_a_signature_can_write_is_inferred() {
    let expand = |ty| expand(Batch, quote!(initial = 1), &quote! { fn f(n: usize) -> #ty { body(n) } });
    for ty in [quote!(impl Iterator<Item = u8>), quote!(!)] {
        let expansion = expand(ty);
        assert!(expansion.contains(".judge(__toma::AnyValue)"), "{expansion}");
        assert!(expansion.contains(".run_batch(|n: usize| -> _ { body(n) })"), "{expansion}");
    }
    let nested = expand(quote!(Res<Box<dyn Iterator<Item = impl Debug>>, (impl Error, u8)>));
    for part in [
        "fn f() -> Res<Box<dyn Iterator<Item = impl Debug>>, (impl Error, u8)> {",
        "|n: usize| -> Res<Box<dyn Iterator<Item = _>>, (_, u8)> {",
        "judge!(Res < Box < dyn Iterator < Item = _ > >, (_, u8) >)",
    ] {
        assert!(nested.contains(part), "{nested}");
    }
}

#[test]
fn i64_sizes() {
    let args = quote!(initial = 512, max = n, max_attempts = 3);
    let expansion = expand(Batch, args, &quote! { fn f(#[cfg(all())] size: i64, n: i64) {} });
    let setters: Vec<_> = expansion.lines().map(str::trim).filter(|line| line.starts_with('.')).collect();
    let sizes = [r#".initial(__toma::size!("f", "initial", 512))"#, r#".max(__toma::size!("f", "max", n))"#];
    assert_eq!(setters[..3], [sizes[0], sizes[1], ".max_attempts(3)"]);
    assert!(expansion.contains("|#[cfg(all())] size: i64| -> () {"), "{expansion}");
}

#[test]
fn before_retry_is_called_or_run_as_it_stands() {
    let statement = |undo: TokenStream| {
        let item = quote! { fn f(start: usize, end: usize, out: &mut Vec<u8>) {} };
        let expansion = expand(Range, quote!(before_retry = #undo), &item);
        let (_, after) = expansion.split_once("if __toma_undo {").unwrap();
        after.trim_start().lines().next().unwrap().to_owned()
    };
    assert_eq!(statement(quote!(|| out.truncate(start))), "(|| out.truncate(start))();");
    assert_eq!(statement(quote!(Undo::all)), "Undo::all();");
    assert_eq!(statement(quote!(out.truncate(start))), "out.truncate(start);");
}

#[test]
fn async_range() {
    let item = quote! {
        async fn send(#[cfg(all())] start: i64, end: i64, to: Socket) {
            to.send(start).await;
            to.send(end).await;
        }
    };
    expect![[r#"
        async fn send(#[cfg(all())] start: i64, end: i64, to: Socket) {
            use ::toma::__private as __toma;
            let mut __toma_call = __toma::at::<__toma::DefaultCache>(__toma::site!("send"))
                .initial(__toma::size!("send", "initial", 8))
                .judge(__toma::judge!(()))
                .start_range::<(), _>(start, end);
            while __toma_call.begin().await {
                #[cfg(all())]
                let (start, end): (i64, i64) = __toma_call.sizes();
                {
                    let __toma_done = __toma_call
                        .attempt(async {
                            to.send(start).await;
                            to.send(end).await;
                        })
                        .await;
                    __toma::done!(__toma_done);
                }
                __toma_call
                    .undo(async {
                        to.reset().await;
                    })
                    .await;
            }
            __toma_call.finish()
        }
    "#]]
    .assert_eq(&checked(Range, quote!(initial = 8, before_retry = to.reset().await), &item));
}

#[test]
fn async_chunked() {
    let item = quote! {
        async fn send<'d>((a, b): Pair<'d>, start: usize, end: usize) -> Result<(), Error> {
            a.copy_from_slice(b);
            flush(a).await
        }
    };
    expect![[r#"
        async fn send<'d>(mut __toma_data: Pair<'d>) -> Result<(), Error> {
            use ::toma::__private as __toma;
            let mut __toma_call = __toma::at::<__toma::DefaultCache>(__toma::site!("send"))
                .initial(8)
                .judge(__toma::judge!(Result < (), Error >))
                .start_chunked::<Result<(), Error>, _, _>(&__toma_data);
            while __toma_call.begin().await {
                let ::core::option::Option::Some(mut __toma_held) = __toma_call
                    .hold(&mut __toma_data) else { continue };
                let (a, b) = <Pair<'_> as __toma::Chunked<_>>::lend(&mut __toma_held);
                let (start, end): (usize, usize) = __toma_call.sizes();
                let __toma_done = __toma_call
                    .attempt(async {
                        a.copy_from_slice(b);
                        flush(a).await
                    })
                    .await;
                __toma::done!(__toma_done);
            }
            __toma_call.finish()
        }
    "#]]
    .assert_eq(&checked(Chunked, quote!(initial = 8), &item));
}

#[test]
fn attributes_of_the_body_move_to_the_function() {
    let inner = quote! { #[inline] fn r#type(n: usize) { #![cfg(all())] run(); } };
    let outer = quote! { #[inline] #[cfg(all())] fn r#type(n: usize) { run(); } };
    let args = quote!(initial = 1);
    assert_eq!(expand(Batch, args.clone(), &inner), expand(Batch, args, &outer));
}

#[test]
fn track_caller_is_added_where_it_is_legal() {
    let count = |item: TokenStream| expand(Batch, quote!(initial = 1), &item).matches("track_caller").count();
    assert_eq!(count(quote! { fn f(n: usize) {} }), 1);
    assert_eq!(count(quote! { #[track_caller] fn f(n: usize) {} }), 1);
    assert_eq!(count(quote! { async fn f(n: usize) {} }), 0);
    assert_eq!(count(quote! { extern "C" fn f(n: usize) {} }), 0);
}

#[test]
fn nothing_but_the_import_names_the_crate() {
    let items = [
        (Batch, quote!(initial = 1,), quote! { fn f(n: usize) -> Result<(), Odd> {} }),
        (Range, quote!(), quote! { async fn f(start: i64, end: i64) -> impl Sized {} }),
        (Chunked, quote!(), quote! { async fn f(data: &[u8], start: usize, end: usize) {} }),
    ];
    for (form, options, item) in items {
        let plain = expand(form, quote!(#options cache = &own), &item);
        let renamed = expand(form, quote!(#options cache = &own, crate = self::renamed), &item);
        assert_eq!(renamed, plain.replace("use ::toma::", "use self::renamed::"));
        assert!(!renamed.replace("__toma", "").contains("toma::"), "{renamed}");
    }
}

#[test]
fn the_order_of_options_changes_nothing() {
    let options = "initial = 64; cache = Own; policy = Halve; key = data.len(); min = 2; max = 9; multiple_of = 2; \
        deadline = soon(); before_retry = undo; dim = 1; device = gpu; observer = log; name = \"x\"; classify = sort; \
        max_attempts = 3; ladder = steps; crate = renamed";
    let mut options: Vec<TokenStream> = options.split("; ").map(|option| option.parse().unwrap()).collect();
    let item = quote! { fn f(data: &[u8], start: usize, end: usize) -> Result<(), Odd> { Ok(()) } };
    let expected = expand(Chunked, quote!(#(#options),*), &item);
    // Over all rotations, each option stands before each other one.
    options.reverse();
    for _ in 0..options.len() {
        options.rotate_left(1);
        assert_eq!(expand(Chunked, quote!(#(#options),*), &item), expected, "{options:?}");
    }
}
