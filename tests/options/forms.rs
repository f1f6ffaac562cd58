//! The columns of the table: the same work in every form.

/// The cells of one row.
///
/// The names are those under which the options may use the function's arguments; in a batch `start`
/// is an argument like any other. The module says what `Trial`, `Error` and `effect` are.
///
/// Where both write the option the same way, the row is `names: option = value`, over sizes from 16 down.
macro_rules! forms {
    ($trial:ident: $option:ident = $value:expr) => {
        forms! {
            names: $trial, start, end;
            inline: toma::execute::with::<toma::NoCache>().$option($value), initial 16;
            attribute: initial = 16, cache = toma::NoCache, $option = $value
        }
    };
    (
        names: $trial:ident, $start:ident, $end:ident;
        inline: $inline:expr, initial $initial:expr;
        attribute: $($attribute:tt)*
    ) => {
        inline_forms! { $trial, $inline, $initial }
        attribute_forms! { ($trial, $start, $end) ($($attribute)*) }
    };
}

macro_rules! inline_forms {
    ($trial:ident, $inline:expr, $initial:expr) => {
        #[test]
        fn inline_batch() {
            fn form($trial: &Trial) -> Result<(), Error> {
                $inline.batch($initial, |size| $trial.attempt(0, size))
            }
            effect(form);
        }

        #[test]
        fn inline_range() {
            fn form($trial: &Trial) -> Result<(), Error> {
                $inline.range($crate::trial::RANGE, $initial, |start, end| $trial.attempt(start, end))
            }
            effect(form);
        }

        #[test]
        fn inline_chunked() {
            fn form($trial: &Trial) -> Result<(), Error> {
                $inline.chunked($crate::trial::DATA, $initial, |chunk, start, end| {
                    assert_eq!(chunk, &$crate::trial::DATA[start..end]);
                    $trial.attempt(start, end)
                })
            }
            effect(form);
        }

        #[test]
        fn inline_map() {
            fn form($trial: &Trial) -> Result<(), Error> {
                let values: Vec<()> =
                    $inline.map($crate::trial::RANGE, $initial, |start, end| $trial.attempt(start, end))?;
                assert_eq!(values.len(), $trial.successes());
                Ok(())
            }
            effect(form);
        }

        #[test]
        fn inline_fold() {
            fn form($trial: &Trial) -> Result<(), Error> {
                let items = $inline.fold($crate::trial::RANGE, $initial, 0, |items, start, end| {
                    $trial.attempt(start, end).map(|()| items + end - start)
                })?;
                assert_eq!(items, $crate::trial::RANGE.len());
                Ok(())
            }
            effect(form);
        }

        #[test]
        fn inline_iter() {
            fn form($trial: &Trial) -> Result<(), Error> {
                let values =
                    $inline.iter($crate::trial::RANGE, $initial, |start, end| $trial.attempt(start, end));
                let values: Vec<()> = values.collect::<Result<_, _>>()?;
                assert_eq!(values.len(), $trial.successes());
                Ok(())
            }
            effect(form);
        }

        #[test]
        fn inline_stream() {
            fn form($trial: &Trial) -> Result<(), Error> {
                let mut values = $inline.stream($crate::trial::RANGE, $initial, async |start, end| {
                    $crate::executor::pause().await;
                    $trial.attempt(start, end)
                });
                while let Some(value) = $crate::executor::block_on(values.next()) {
                    value?;
                }
                Ok(())
            }
            effect(form);
        }

        #[test]
        fn inline_range_by_cost() {
            fn form($trial: &Trial) -> Result<(), Error> {
                $inline
                    .by_cost(|_| 1)
                    .range($crate::trial::RANGE, $initial, |start, end| $trial.attempt(start, end))
            }
            effect(form);
        }
    };
}

macro_rules! attribute_forms {
    ($names:tt $options:tt) => {
        batch_form! { batch_usize $names $options (usize) () }
        batch_form! { batch_i64 $names $options (i64) () }
        batch_form! { batch_usize_async $names $options (usize) (async) }
        batch_form! { batch_i64_async $names $options (i64) (async) }
        range_form! { range_usize $names $options (usize) () }
        range_form! { range_i64 $names $options (i64) () }
        range_form! { range_usize_async $names $options (usize) (async) }
        range_form! { range_i64_async $names $options (i64) (async) }
        chunked_form! { chunked_usize $names $options (usize) () }
        chunked_form! { chunked_i64 $names $options (i64) () }
        chunked_form! { chunked_usize_async $names $options (usize) (async) }
        chunked_form! { chunked_i64_async $names $options (i64) (async) }
    };
}

macro_rules! batch_form {
    ($cell:ident ($trial:ident, $start:ident, $end:ident) ($($options:tt)*) ($size:ty) ($($asynchronous:tt)?)) => {
        #[test]
        fn $cell() {
            #[toma::batch($($options)*)]
            $($asynchronous)? fn annotated($end: $size, $start: $size, $trial: &Trial) -> Result<(), Error> {
                pause!($($asynchronous)?);
                $trial.attempt($start, $end)
            }
            effect(|trial| finish!($($asynchronous)? annotated(0, trial)));
        }
    };
}

macro_rules! range_form {
    ($cell:ident ($trial:ident, $start:ident, $end:ident) ($($options:tt)*) ($size:ty) ($($asynchronous:tt)?)) => {
        #[test]
        fn $cell() {
            #[toma::range($($options)*)]
            $($asynchronous)? fn annotated($start: $size, $end: $size, $trial: &Trial) -> Result<(), Error> {
                pause!($($asynchronous)?);
                $trial.attempt($start, $end)
            }
            effect(|trial| {
                let (start, end) = $crate::trial::range::<$size>();
                finish!($($asynchronous)? annotated(start, end, trial))
            });
        }
    };
}

macro_rules! chunked_form {
    ($cell:ident ($trial:ident, $start:ident, $end:ident) ($($options:tt)*) ($size:ty) ($($asynchronous:tt)?)) => {
        #[test]
        fn $cell() {
            #[toma::chunked($($options)*)]
            $($asynchronous)? fn annotated(
                data: &[usize],
                $start: $size,
                $end: $size,
                $trial: &Trial,
            ) -> Result<(), Error> {
                pause!($($asynchronous)?);
                assert_eq!(data, &$crate::trial::DATA[$crate::trial::position($start)..][..data.len()]);
                $trial.attempt($start, $end)
            }
            effect(|trial| finish!($($asynchronous)? annotated($crate::trial::DATA, trial)));
        }
    };
}

/// An await in the middle of an asynchronous body.
macro_rules! pause {
    () => {};
    (async) => {
        $crate::executor::pause().await
    };
}

/// The outcome of a function, asynchronous or not.
macro_rules! finish {
    (async $call:expr) => {
        $crate::executor::block_on($call)
    };
    ($call:expr) => {
        $call
    };
}
