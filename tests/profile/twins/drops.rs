//! What is dropped when.

macro_rules! drops {
    ($($mark:tt)*) => {
        use crate::twins::kit::*;

        $crate::twins::table! {
            locals tail scrutinee if_let arguments early breaks captured partial wildcard replaced bodies_of_loops
            block_tail arms unwinding moved_out let_else_drops closure_arguments conditions question chained
        }

        $($mark)*
        fn locals() -> usize {
            let _a = Loud("a");
            let b = Loud("b");
            {
                let _c = Loud("c");
                log("inside");
            }
            let length = b.0.len();
            drop(b);
            log("end");
            length
        }

        $($mark)*
        fn tail() -> usize {
            let _first = Loud("first");
            let second = Box::leak(Box::new(Loud("second")));
            second.guard().len()
        }

        $($mark)*
        fn scrutinee() -> usize {
            let _a = Loud("a");
            let leaked = Box::leak(Box::new(Loud("leaked")));
            match leaked.guard().len() {
                6 => {
                    log("one");
                    let _inside = Loud("inside");
                    1
                }
                other => other,
            }
        }

        $($mark)*
        fn if_let() -> usize {
            let a = Loud("a");
            let length = if let 2 = a.guard().len() {
                log("then");
                2
            } else {
                log("else");
                3
            };
            log("after");
            length
        }

        $($mark)*
        fn take(_a: Loud, _: Loud, (b, _): (Loud, Loud), c: &Loud) -> &'static str {
            let _local = Loud("local");
            log(c.0);
            b.0
        }

        $($mark)*
        fn arguments() -> &'static str {
            let c = Loud("c");
            take(Loud("a"), Loud("unnamed"), (Loud("b"), Loud("half")), &c)
        }

        $($mark)*
        fn early() -> Loud {
            let _a = Loud("a");
            for name in ["b", "c"] {
                let current = Loud(name);
                let _second = Loud("second");
                if name == "c" {
                    return current;
                }
            }
            Loud("none")
        }

        $($mark)*
        fn breaks() -> &'static str {
            let out = 'outer: loop {
                let _a = Loud("a");
                loop {
                    let b = Loud("b");
                    let _c = Loud("c");
                    if b.0 == "b" {
                        break 'outer b;
                    }
                }
            };
            log("out");
            out.0
        }

        $($mark)*
        fn captured() -> usize {
            let (a, b) = (Loud("a"), Loud("b"));
            let once = move || {
                let length = a.0.len() + b.0.len();
                drop(b);
                log("ran");
                length
            };
            log("made");
            let length = once();
            log("called");
            length
        }

        struct Pair {
            first: Loud,
            second: Loud,
        }

        $($mark)*
        fn partial() -> &'static str {
            let pair = Pair { first: Loud("first"), second: Loud("second") };
            let first = pair.first;
            log("moved");
            let name = pair.second.0;
            drop(first);
            name
        }

        $($mark)*
        fn wildcard() -> u8 {
            let _ = Loud("at once");
            let _kept = Loud("kept");
            let (_, _second) = (Loud("x"), Loud("y"));
            log("end");
            0
        }

        $($mark)*
        fn replaced() -> &'static str {
            let mut a = Loud("old");
            log(a.0);
            a = { log("made"); let _inside = Loud("inside"); Loud("new") };
            a.0
        }

        $($mark)*
        fn bodies_of_loops() -> u32 {
            let mut sum = 0;
            for i in 0..2 {
                let _each = Loud("each");
                if i == 0 {
                    let _then = Loud("then");
                    continue;
                }
                sum += i;
            }
            while sum < 3 {
                let _round = Loud("round");
                sum += 1;
            }
            sum
        }

        $($mark)*
        fn block_tail() -> usize {
            let a = Box::leak(Box::new(Loud("a")));
            let length = {
                let _inside = Loud("inside");
                a.guard().len()
            } + { log("second"); a.guard().len() };
            log("after");
            length
        }

        $($mark)*
        fn arms() -> usize {
            let a = Loud("a");
            let length = match std::hint::black_box(2) {
                1 => a.guard().len(),
                _ => { let _b = Loud("b"); Loud("temporary").guard().len() }
            };
            log("after");
            match 2 {
                2 => log(&a.guard().len().to_string()),
                _ => {}
            }
            length
        }

        $($mark)*
        fn unwinding() -> u8 {
            let _a = Loud("a");
            let fail = |name| {
                let _inside = Loud(name);
                panic!("in {name}")
            };
            {
                let _block = Loud("block");
                match Some(1) {
                    Some(_) => fail("closure"),
                    None => {}
                }
            }
            1
        }

        $($mark)*
        fn moved_out() -> Option<Loud> {
            let maybe = Some(Loud("maybe"));
            let other = Loud("other");
            if std::hint::black_box(true) {
                return maybe;
            }
            Some(other)
        }

        $($mark)*
        fn let_else_drops() -> u8 {
            let a = Loud("a");
            let 5 = a.guard().len() else {
                log("else");
                let _inside = Loud("inside");
                return 1;
            };
            2
        }

        $($mark)*
        fn closure_arguments() -> usize {
            let take = |a: Loud, _: Loud| a.guard().len();
            let length = take(Loud("a"), Loud("unnamed"));
            let expression = |a: &Loud| Loud("temporary").guard().len() + a.0.len();
            length + expression(&Loud("lent"))
        }

        $($mark)*
        fn conditions() -> u8 {
            let a = Loud("a");
            let mut rounds = 0;
            while a.guard().len() == 1 && Loud("operand").0.len() > rounds {
                rounds += 7;
                log("round");
            }
            if Loud("condition").guard().len() > 3 { log("then") }
            0
        }

        $($mark)*
        fn question() -> Result<usize, String> {
            let _a = Loud("a");
            let fallible = |name: &'static str| -> Result<Loud, String> {
                let value = Loud(name);
                if name == "bad" { Err(name.to_owned()) } else { Ok(value) }
            };
            let good = fallible("good")?;
            {
                let _block = Loud("block");
                fallible("bad")?.guard().len();
            }
            Ok(good.0.len())
        }

        $($mark)*
        fn chained() -> usize {
            let length = Loud("one").guard().len() + { let _two = Loud("two"); 1 } + Loud("three").guard().len();
            log("after");
            length
        }
    };
}

super::both!(drops);
