//! Async functions, blocks and closures.

macro_rules! asynchronous {
    ($($mark:tt)*) => {
        use std::cell::Cell;
        use std::error::Error;
        use std::fmt::Display;
        use std::future::Future;
        use std::pin::Pin;

        use crate::twins::kit::*;

        $crate::twins::table! {
            finished dropped_halfway not_polled sent boxed erred lent blocks moves closures recursive methods
            generic opaque opaque_erred panics joined unused stream_of trait_method never_ends conditional
        }

        $($mark)*
        async fn arguments(a: Loud, _b: Loud, (c, _): (Loud, Loud), mut times: u32) -> &'static str {
            let _local = Loud("local");
            while times > 0 {
                Once::default().await;
                times -= 1;
            }
            if times > 5 {
                drop(a);
            }
            c.0
        }

        fn made() -> impl Future<Output = &'static str> {
            arguments(Loud("a"), Loud("b"), (Loud("c"), Loud("d")), 2)
        }

        $($mark)*
        fn finished() -> &'static str {
            let made = made();
            finish(made)
        }

        $($mark)*
        fn dropped_halfway() -> Option<&'static str> {
            let none = poll_times(2, made());
            none.or(poll_times(1, made()))
        }

        $($mark)*
        fn not_polled() -> u8 {
            let made = made();
            drop(made);
            1
        }

        $($mark)*
        async fn with_cell(cell: Cell<u32>) -> u32 {
            cell.set(cell.get() + 1);
            Once::default().await;
            let block = async {
                let inside = 5;
                Once::default().await;
                inside
            };
            let more = block.await;
            cell.set(cell.get() + more);
            cell.get()
        }

        $($mark)*
        fn sent() -> u32 {
            let future = is_send(with_cell(Cell::new(1)));
            std::thread::spawn(move || finish(future)).join().unwrap_or_default()
        }

        $($mark)*
        async fn chosen(first: bool) -> Box<dyn Display + Send> {
            if first {
                return Box::new(1);
            }
            Once::default().await;
            Box::new("second")
        }

        $($mark)*
        fn boxed() -> String {
            let (first, second) = (finish(chosen(true)), finish(chosen(false)));
            format!("{first} {second}")
        }

        $($mark)*
        async fn parse(text: &str) -> Result<u8, Box<dyn Error>> {
            let _held = Loud("held");
            let number: u8 = text.parse()?;
            Once::default().await;
            if number > 9 {
                return Err("too large".into());
            }
            Ok(number)
        }

        $($mark)*
        fn erred() -> Vec<String> {
            let text = |result: Result<u8, Box<dyn Error>>| result.map_or_else(|error| error.to_string(), |n| n.to_string());
            ["1", "x", "10"].into_iter().map(|number| text(finish(parse(number)))).collect()
        }

        $($mark)*
        async fn longer<'a>(a: &'a str, b: &'a mut String) -> &'a str {
            b.push('!');
            Once::default().await;
            if a.len() > b.len() { a } else { b }
        }

        $($mark)*
        fn lent() -> String {
            let mut b = String::from("bc");
            finish(longer("a", &mut b)).to_owned()
        }

        $($mark)*
        fn number(text: String) -> Pin<Box<dyn Future<Output = Result<usize, std::num::ParseIntError>> + Send>> {
            log("number");
            Box::pin(async move {
                let number: usize = text.parse()?;
                Once::default().await;
                let add = async { number + text.len() };
                Ok(add.await)
            })
        }

        $($mark)*
        fn blocks() -> [bool; 2] {
            let of = |text: &str| finish(is_send(number(text.to_owned()))).is_ok();
            [of("12"), of("x")]
        }

        $($mark)*
        fn moves() -> usize {
            let (a, b) = (Loud("a"), Loud("b"));
            let future = async move {
                Once::default().await;
                drop(b);
                a.0.len()
            };
            let other = async {
                Once::default().await;
            };
            let length = finish(future);
            poll_times(1, other);
            length
        }

        $($mark)*
        fn closures() -> u32 {
            let mut count = 0;
            let mut add = async |by: u32| -> u32 {
                count += by;
                Once::default().await;
                count
            };
            let first = finish(add(1));
            let second = finish(add(2));
            let plain = |by: u32| async move {
                let twice = by * 2;
                twice
            };
            let short = async |x: u32| x + 1;
            first + second + finish(plain(10)) + finish(short(100))
        }

        $($mark)*
        fn depth(n: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
            Box::pin(async move {
                if n == 0 {
                    return 0;
                }
                depth(n - 1).await + 1
            })
        }

        $($mark)*
        async fn recursive_async(n: u32) -> u32 {
            if n == 0 {
                return 0;
            }
            let rest = Box::pin(recursive_async(n - 1)).await;
            rest + 1
        }

        $($mark)*
        fn recursive() -> u32 {
            finish(depth(3)) + finish(recursive_async(4))
        }

        struct Client {
            name: Loud,
            calls: Cell<u32>,
        }

        impl Client {
            $($mark)*
            async fn call(&mut self, by: u32) -> &Loud {
                self.calls.set(self.calls.get() + by);
                Once::default().await;
                &self.name
            }

            $($mark)*
            async fn close(self) -> u32 {
                let Self { name, calls } = self;
                Once::default().await;
                log(name.0);
                calls.get()
            }
        }

        $($mark)*
        fn methods() -> (&'static str, u32) {
            let mut client = Client { name: Loud("client"), calls: Cell::new(0) };
            let name = finish(is_send(client.call(5))).0;
            (name, finish(is_send(client.close())))
        }

        $($mark)*
        async fn generic_async<T: Clone, const N: usize>(value: T, f: impl AsyncFn(T) -> T) -> [T; N] {
            let mut made = Vec::new();
            for _ in 0..N {
                made.push(f(value.clone()).await);
            }
            made.try_into().unwrap_or_else(|_| unreachable!("as many as there are"))
        }

        $($mark)*
        fn generic() -> [u8; 2] {
            finish(generic_async(1, async |x| x + 1))
        }

        $($mark)*
        async fn shown(n: u8) -> impl Display + use<> {
            Once::default().await;
            if n > 1 { "many" } else { "one" }
        }

        $($mark)*
        fn opaque() -> String {
            finish(shown(2)).to_string()
        }

        $($mark)*
        async fn tried(text: &str) -> Result<impl Display + use<>, std::num::ParseIntError> {
            let number: u32 = text.parse()?;
            Once::default().await;
            Ok(number)
        }

        $($mark)*
        fn opaque_erred() -> (Option<String>, bool) {
            let good = finish(tried("5")).ok().map(|n| n.to_string());
            (good, finish(tried("x")).is_err())
        }

        $($mark)*
        async fn failing() -> u8 {
            let _a = Loud("a");
            Once::default().await;
            let _b = Loud("b");
            panic!("within a task")
        }

        $($mark)*
        fn panics() -> u8 {
            let _outside = Loud("outside");
            finish(failing())
        }

        $($mark)*
        async fn both() -> (u8, u8) {
            macro_rules! join { ($a:expr, $b:expr) => {{ let (a, b) = ($a, $b); (a.await, b.await) }} }
            let one = async { Once::default().await; 1 };
            join!(one, async { let two = 2; two })
        }

        $($mark)*
        fn joined() -> (u8, u8) {
            finish(both())
        }

        $($mark)*
        #[allow(unused_variables, unused_mut)]
        async fn unused_arguments(a: Loud, mut b: u32, _: Loud) {}

        $($mark)*
        fn unused() {
            finish(unused_arguments(Loud("a"), 1, Loud("b")))
        }

        $($mark)*
        fn stream_of() -> Vec<u32> {
            let tasks: Vec<Pin<Box<dyn Future<Output = u32>>>> = vec![
                Box::pin(async { 1 }),
                Box::pin(async {
                    Once::default().await;
                    2
                }),
            ];
            tasks.into_iter().map(finish).collect()
        }

        trait Fetch {
            fn fetch(&self) -> impl Future<Output = u32> + Send;
        }

        impl Fetch for u32 {
            $($mark)*
            async fn fetch(&self) -> u32 {
                Once::default().await;
                *self
            }
        }

        $($mark)*
        fn trait_method() -> u32 {
            finish(is_send(7.fetch()))
        }

        $($mark)*
        async fn forever() -> std::convert::Infallible {
            loop {
                Once::default().await;
            }
        }

        $($mark)*
        fn never_ends() -> bool {
            poll_times(3, forever()).is_none()
        }

        $($mark)*
        async fn maybe_moved(a: Loud, moves: bool) -> u8 {
            let _local = Loud("local");
            if moves {
                let moved = a;
                Once::default().await;
                log(moved.0);
            }
            Once::default().await;
            1
        }

        $($mark)*
        fn conditional() -> (u8, u8, Option<u8>) {
            let (moved, kept) = (finish(maybe_moved(Loud("a"), true)), finish(maybe_moved(Loud("b"), false)));
            (moved, kept, poll_times(1, maybe_moved(Loud("c"), true)))
        }
    };
}

super::both!(asynchronous);
