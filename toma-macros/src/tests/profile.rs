//! Tests the expansion of marked functions, and the errors for mistakes.

#![expect(clippy::needless_raw_string_hashes, reason = "`UPDATE_EXPECT=1` writes the snapshots")]

use expect_test::{Expect, expect};
use proc_macro2::TokenStream;

use super::{flatten, print};
use crate::attribute;
use crate::form::Form::Range;
use crate::profile::profile;

/// The marked function, without the lines of its static.
fn marked(options: &str, item: &str) -> String {
    let expansion = print(profile(options.parse().unwrap(), &item.parse().unwrap()));
    let (mut text, mut lines) = (String::new(), expansion.lines());
    while let Some(line) = lines.next() {
        text += line;
        if line.ends_with("Function::new(") {
            let end = lines.find(|line| [")", ");"].contains(&line.trim_start())).unwrap();
            text += " .. ";
            text += end.trim_start();
        }
        text.push('\n');
    }
    text
}

fn check(item: &str, expected: &Expect) {
    expected.assert_eq(&marked("", item));
}

#[test]
fn one_statement_per_statement_and_one_static() {
    let item = "pub fn step(net: &Net, images: &[Image]) -> Option<f32> {
    let mut sum = 0.0;
    for image in images {
        sum += net.forward(image)?;
    }
    Some(sum)
}";
    expect![[r#"
        pub fn step(net: &Net, images: &[Image]) -> Option<f32> {
            use ::toma::marks::expansion as __toma_lines;
            static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new(
                "step",
                ::core::module_path!(),
                "<parsed string 1>",
                &[
                    __toma_lines::Line::new(
                        1,
                        "pub fn step(net: &Net, images: &[Image]) -> Option<f32> {",
                    ),
                    __toma_lines::Line::new(2, "    let mut sum = 0.0;"),
                    __toma_lines::Line::new(3, "    for image in images {"),
                    __toma_lines::Line::new(4, "        sum += net.forward(image)?;"),
                    __toma_lines::Line::new(5, "    }"),
                    __toma_lines::Line::new(6, "    Some(sum)"),
                    __toma_lines::Line::new(7, "}"),
                ],
            );
            let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
            __toma_lines::line(&__TOMA_FUNCTION, 1);
            let mut sum = 0.0;
            __toma_lines::line(&__TOMA_FUNCTION, 2);
            for image in images {
                let __toma_block = __toma_lines::Block::<2>;
                __toma_lines::line(&__TOMA_FUNCTION, 3);
                sum += net.forward(image)?;
                #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 4);
            }
            __toma_lines::line(&__TOMA_FUNCTION, 5);
            Some(sum)
        }
    "#]]
    .assert_eq(&print(profile(TokenStream::new(), &item.parse().unwrap())));
}

#[test]
fn options_are_setters_of_the_static() {
    let options = "every = 10, columns = [Peak, Freed], name = \"attention\", crate = tma";
    expect![[r#"
        fn f() {
            use tma::marks::expansion as __toma_lines;
            static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. )
                .every(10)
                .columns(&[__toma_lines::Column::Peak, __toma_lines::Column::Freed]);
            let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
            __toma_lines::line(&__TOMA_FUNCTION, 1);
            g()
        }
    "#]]
    .assert_eq(&marked(
        options,
        "fn f() {
 g() }",
    ));
}

#[test]
fn blocks_have_guards_and_braces_have_marks() {
    check(
        "fn f(x: u8) -> u8 {
#[cfg(a)]
if x > 1 {
g();
} else if h() {
return 1;
}
let Some(y) = k(x) else {
return 2
};
#[expect(unused)]
loop {
break 'a unsafe { m!() };
}
}",
        &expect![[r#"
            fn f(x: u8) -> u8 {
                use ::toma::marks::expansion as __toma_lines;
                static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
                #[cfg(a)] __toma_lines::line(&__TOMA_FUNCTION, 2);
                #[cfg(a)]
                if x > 1 {
                    let __toma_block = __toma_lines::Block::<2>;
                    __toma_lines::line(&__TOMA_FUNCTION, 3);
                    g();
                    #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 4);
                } else if h() {
                    let __toma_block = __toma_lines::Block::<2>;
                    __toma_lines::line(&__TOMA_FUNCTION, 5);
                    return 1;
                    #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 6);
                }
                __toma_lines::line(&__TOMA_FUNCTION, 7);
                let Some(y) = k(x) else {
                    let __toma_block = __toma_lines::Block::<7>;
                    __toma_lines::line(&__TOMA_FUNCTION, 8);
                    return 2;
                };
                #[allow(unused)] __toma_lines::line(&__TOMA_FUNCTION, 11);
                #[expect(unused)]
                loop {
                    let __toma_block = __toma_lines::Block::<11>;
                    __toma_lines::line(&__TOMA_FUNCTION, 12);
                    break 'a unsafe {
                        let __toma_block = __toma_lines::Block::<12>;
                        __toma_lines::line(&__TOMA_FUNCTION, 12);
                        m!()
                    };
                    #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 13);
                }
            }
        "#]],
    );
}

#[test]
fn arms_become_blocks_but_for_the_form_that_a_lint_exempts() {
    check(
        "fn f(x: u8) {
match x {
1 => drop(g()),
2 | 3 if h() => k(),
4 => m! { x },
5 => {
n();
}
_ => {}
}
}",
        &expect![[r#"
            fn f(x: u8) {
                use ::toma::marks::expansion as __toma_lines;
                static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
                __toma_lines::line(&__TOMA_FUNCTION, 1);
                match x {
                    1 => drop(g()),
                    2 | 3 if h() => {
                        let __toma_block = __toma_lines::Block::<1>;
                        __toma_lines::line(&__TOMA_FUNCTION, 3);
                        k()
                    }
                    4 => {
                        m! {
                            x
                        }
                    }
                    5 => {
                        let __toma_block = __toma_lines::Block::<1>;
                        __toma_lines::line(&__TOMA_FUNCTION, 6);
                        n();
                        #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 7);
                    }
                    _ => {}
                }
            }
        "#]],
    );
}

#[test]
fn closures_and_async_blocks_have_frames() {
    check(
        "fn f() {
let a = |x| x + 1;
let b = move |x: u8| -> u8 {
g(x)
};
let c = async move {
h().await
};
let d = async |x| -> u8 { x };
let e = async {};
}",
        &expect![[r#"
            fn f() {
                use ::toma::marks::expansion as __toma_lines;
                static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
                __toma_lines::line(&__TOMA_FUNCTION, 1);
                let a = |x| {
                    let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 1);
                    x + 1
                };
                __toma_lines::line(&__TOMA_FUNCTION, 2);
                let b = move |x: u8| -> u8 {
                    let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 2);
                    __toma_lines::line(&__TOMA_FUNCTION, 3);
                    g(x)
                };
                __toma_lines::line(&__TOMA_FUNCTION, 5);
                let c = __toma_lines::profiled(
                    &__TOMA_FUNCTION,
                    5,
                    async move {
                        __toma_lines::line(&__TOMA_FUNCTION, 6);
                        h().await
                    },
                );
                __toma_lines::line(&__TOMA_FUNCTION, 8);
                let d = async |x| -> u8 {
                    __toma_lines::profiled(
                            &__TOMA_FUNCTION,
                            8,
                            async {
                                if false {
                                    return __toma_lines::never::<u8>();
                                }
                                __toma_lines::line(&__TOMA_FUNCTION, 8);
                                x
                            },
                        )
                        .await
                };
                __toma_lines::line(&__TOMA_FUNCTION, 9);
                let e = async {};
                #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 10);
            }
        "#]],
    );
}

#[test]
fn an_async_function_is_a_task_that_owns_its_arguments() {
    check(
        "async fn f(&self, mut a: u8, (b, _): (u8, u8), _: Loud) -> Result<u8, E> {
 Ok(g(a, b).await?)
}",
        &expect![[r#"
            async fn f(
                &self,
                a: u8,
                __toma_argument_2: (u8, u8),
                __toma_argument_3: Loud,
            ) -> Result<u8, E> {
                use ::toma::marks::expansion as __toma_lines;
                static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                __toma_lines::profiled(
                        &__TOMA_FUNCTION,
                        0,
                        async move {
                            if false {
                                return __toma_lines::never::<Result<u8, E>>();
                            }
                            let _ = &self;
                            let mut a = a;
                            let __toma_argument_2 = __toma_argument_2;
                            let (b, _) = __toma_argument_2;
                            let __toma_argument_3 = __toma_argument_3;
                            let _ = __toma_argument_3;
                            __toma_lines::line(&__TOMA_FUNCTION, 1);
                            Ok(g(a, b).await?)
                        },
                    )
                    .await
            }
        "#]],
    );
}

#[test]
fn with_an_attribute_of_ours_still_to_come_it_borrows_them() {
    check(
        "#[toma::batch(initial = 1)]
async fn f(n: usize, a: A) {
 g(n, &a).await
}",
        &expect![[r#"
        #[toma::batch(initial = 1)]
        async fn f(n: usize, a: A) {
            use ::toma::marks::expansion as __toma_lines;
            static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
            __toma_lines::profiled(
                    &__TOMA_FUNCTION,
                    0,
                    async {
                        if false {
                            return __toma_lines::never::<()>();
                        }
                        __toma_lines::line(&__TOMA_FUNCTION, 1);
                        g(n, &a).await
                    },
                )
                .await
        }
    "#]],
    );
}

#[test]
fn items_constants_patterns_types_and_macros_stay_as_they_are() {
    let item = "fn f() {
use a::b;
fn g() {
h();
}
let [x, y]: [u8; { N + 1 }] = [const { k() }; { 2 }];
m!({ n(); });
o::<{ P + 1 }>(q as [u8; { R }]);
}";
    check(
        item,
        &expect![[r#"
            fn f() {
                use ::toma::marks::expansion as __toma_lines;
                static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                use a::b;
                fn g() {
                    h();
                }
                let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
                __toma_lines::line(&__TOMA_FUNCTION, 5);
                let [x, y]: [u8; { N + 1 }] = [const { k() }; { 2 }];
                __toma_lines::line(&__TOMA_FUNCTION, 6);
                m!({ n(); });
                __toma_lines::line(&__TOMA_FUNCTION, 7);
                o::<{ P + 1 }>(q as [u8; { R }]);
                #[allow(unreachable_code)] __toma_lines::line(&__TOMA_FUNCTION, 8);
            }
        "#]],
    );
}

#[test]
fn unknown_syntax_is_one_line() {
    for item in ["fn f() -> u8 { let x = ~ 5; x }", "async fn f() -> u8 { let x = ~ 5; x }"] {
        let expansion = profile(TokenStream::new(), &item.parse().unwrap()).to_string();
        assert!(expansion.contains("let x = ~ 5 ; x }"), "{expansion}");
        assert!(expansion.contains("Frame :: enter (& __TOMA_FUNCTION , 0)") != item.contains("async"));
        assert!(expansion.contains("profiled (& __TOMA_FUNCTION , 0 , async move") == item.contains("async"));
        assert!(!expansion.contains("__toma_lines :: line"), "{expansion}");
    }
}

#[test]
fn an_expression_that_only_the_signature_can_type_is_left_unmarked() {
    let item = "async fn f() -> impl Display { g()? }";
    assert_eq!(marked("", item), print(item.parse().unwrap()));
    assert_ne!(marked("", &item.replace('?', "")), print(item.replace('?', "").parse().unwrap()));
}

/// Marks the output of another attribute.
fn beneath(options: &str, item: &str) -> String {
    let expansion = attribute(Range, options.parse().unwrap(), &item.parse().unwrap());
    marked("", &expansion.to_string())
}

#[test]
fn beneath_another_attribute_only_the_body_is_marked() {
    let options = "initial = { let n = 8; n }, observer = |event| { log(event); }";
    expect![[r##"
        #[track_caller]
        fn f(start: usize, end: usize, out: &mut Out) -> Tried {
            use ::toma::__private as __toma;
            let __toma_observer = &(|event| {
                log(event);
            });
            __toma::at::<__toma::DefaultCache>(__toma::site!("f"))
                .initial({
                    let n = 8;
                    n
                })
                .observer(__toma_observer)
                .judge(__toma::judge!(Tried))
                .run_range(
                    start,
                    end,
                    |start: usize, end: usize| -> Tried {
                        use ::toma::marks::expansion as __toma_lines;
                        static __TOMA_FUNCTION: __toma_lines::Function = __toma_lines::Function::new( .. );
                        let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 0);
                        __toma_lines::line(&__TOMA_FUNCTION, 1);
                        out.fill(|| {
                            let __toma_frame = __toma_lines::Frame::enter(&__TOMA_FUNCTION, 1);
                            start
                        })?;
                        __toma_lines::line(&__TOMA_FUNCTION, 1);
                        Ok(())
                    },
                )
        }
    "##]]
    .assert_eq(&beneath(options, FILL));
}

/// Attempts of ranks are run by another method.
#[test]
fn beneath_an_attribute_of_an_async_function_the_body_is_marked() {
    for options in ["initial = 8", "initial = 8, ranks = ranks"] {
        let marked = beneath(options, "async fn f(start: usize, end: usize) -> Tried { Ok(()) }");
        assert_eq!(marked.matches("static __TOMA_FUNCTION").count(), 1, "{options}: {marked}");
    }
}

const FILL: &str = "fn f(start: usize, end: usize, out: &mut Out) -> Tried {
out.fill(|| start)?;
Ok(())
}";

/// The error for `options` on `item`, and the code it points at.
fn mistake(options: &str, item: &str) -> (String, String) {
    let function = crate::function::Function::parse("`#[toma::profile]`", item.parse().unwrap());
    let error =
        function.and_then(|function| crate::profile::expand(options.parse()?, &function)).unwrap_err();
    let expansion = flatten(profile(options.parse().unwrap(), &item.parse().unwrap()));
    assert_eq!(expansion.iter().filter(|tree| tree.to_string() == "compile_error").count(), 1, "{error}");
    (error.to_string(), error.span().source_text().unwrap_or_default())
}

#[track_caller]
fn refused(options: &str, item: &str, message: &str, at: &str) {
    assert_eq!(mistake(options, item), (message.into(), at.into()));
}

#[test]
fn functions_that_cannot_be_marked() {
    refused("", "struct Net;", "`#[toma::profile]` goes on a function", "struct");
    let message = "`#[toma::profile]` cannot mark a `const fn`: marks are made at run time";
    refused("", "pub const fn f() {}", message, "const");
    let message = "`#[toma::profile]` needs a body to mark: put it on the implementation";
    refused("", "fn forward(&self) -> u8;", message, "forward");
    let message = "`#[toma::profile]` is given twice: once marks all";
    refused("", "#[inline] #[toma::profile(every = 2)] fn f() {}", message, "#[toma::profile(every = 2)]");
}

#[test]
fn options_that_are_wrong() {
    let refused = |options: &str, message: &str, at: &str| refused(options, "fn f() {}", message, at);
    let every = "every takes a number of calls from 1 on: `every = 10`";
    for wrong in ["0", "N", "1.5", "10u8", "\"10\"", "0x0", "99999999999"] {
        refused(&format!("every = {wrong}"), every, wrong);
    }
    let has = "`#[toma::profile]` has every, columns, name, crate";
    refused("evry = 1", &format!("unknown option `evry`, did you mean `every`? {has}"), "evry");
    refused("initial = 1", &format!("unknown option `initial`, {has}"), "initial");
    refused("columns = Peak", "columns takes a list: `columns = [Peak, Freed]`", "Peak");
    refused("every = 1, every = 2", "`every` is given twice", "every");
    refused("name", "`name` needs a value: `name = ..`", "name");
    refused("name = step", "expected string literal", "step");
    refused("10", "expected options, such as `#[toma::profile(every = 10)]`", "10");
    refused("crate = 5", "crate takes the path of the crate: `crate = renamed`", "5");
}
