//! Cost of a fingerprint against a bare walk over the same frames, and on two threads at once.
//!
//! `cargo bench -p toma-core --bench stack`. Both sides of a ratio run in turn, so that a busy machine
//! slows both. `-- count N` makes only N fingerprints at depth 20, and `-- bare N` only N bare walks,
//! for counting instructions.
#![expect(unsafe_code, reason = "the bare walk to compare with is a call of the platform's unwinder")]

#[cfg(unix)]
fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let number = |text: &String| text.parse().expect("a number of walks");
    match arguments.iter().position(|argument| argument == "count" || argument == "bare") {
        Some(at) if arguments[at] == "count" => unix::only(unix::entry, number(&arguments[at + 1])),
        Some(at) => unix::only(unix::bare_entry, number(&arguments[at + 1])),
        None => unix::compare_all(),
    }
}

#[cfg(not(unix))]
fn main() {}

#[cfg(unix)]
mod unix {
    use std::ffi::{c_int, c_void};
    use std::hint::black_box;
    use std::ptr;
    use std::sync::Barrier;
    use std::thread;
    use std::time::Instant;

    use toma_core::stack::{FRAME_LIMIT, fingerprint};

    const WALKS: u32 = 200;
    const PAIRS: usize = 301;

    pub(super) fn compare_all() {
        for depth in [5, 20, 60] {
            at_depth(depth, &mut || compare(depth));
        }
        compare_threads();
    }

    /// Makes `walks` walks at depth 20 and nothing else.
    pub(super) fn only(walk: fn(), walks: u32) {
        at_depth(20, &mut || {
            time(walk, walks);
        });
    }

    /// An entry function as the library has it.
    #[inline(never)]
    pub(super) fn entry() {
        let anchor = 0_u8;
        black_box(fingerprint(ptr::from_ref(&anchor).addr()));
    }

    /// An entry function for the bare walk: two frames of its own, then the limit.
    #[inline(never)]
    pub(super) fn bare_entry() {
        black_box(bare(2 + FRAME_LIMIT));
    }

    unsafe extern "C" {
        fn _Unwind_Backtrace(
            visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            argument: *mut c_void,
        ) -> c_int;
    }

    /// Counts frames up to `limit`.
    #[inline(never)]
    fn bare(limit: usize) -> usize {
        extern "C" fn count(_: *mut c_void, left: *mut c_void) -> c_int {
            // SAFETY: `bare` passes a number that it does not use until the walk is over.
            let left = unsafe { &mut *left.cast::<usize>() };
            *left = left.wrapping_sub(1);
            if *left == 0 { 4 } else { 0 }
        }

        let mut left = limit;
        // SAFETY: the callback has the type asked for, gets a number that outlives the call, and does
        // not unwind.
        unsafe { _Unwind_Backtrace(count, ptr::from_mut(&mut left).cast()) };
        limit - left
    }

    #[inline(never)]
    fn at_depth(depth: usize, work: &mut dyn FnMut()) {
        if depth == 0 {
            work();
        } else {
            at_depth(depth - 1, work);
        }
        black_box(depth);
    }

    fn compare(depth: usize) {
        let mut ours = Vec::with_capacity(PAIRS);
        let mut theirs = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            ours.push(time(entry, WALKS));
            theirs.push(time(bare_entry, WALKS));
        }
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
        let (ours, theirs, ratio) = (median(ours), median(theirs), median(ratios));
        println!("depth {depth:2}: fingerprint {ours:6.0} ns, bare walk {theirs:6.0} ns, ratio {ratio:.3}");
    }

    /// Nanoseconds per walk.
    fn time(walk: fn(), walks: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..walks {
            walk();
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(walks)
    }

    /// Next to arithmetic alone, which shows how much of the machine is left for two threads.
    /// Each run is shorter than a scheduler's time slice, or other programs would be measured.
    fn compare_threads() {
        let [mut walks, mut arithmetic] = [Vec::new(), Vec::new()];
        for _ in 0..301 {
            walks.push(kept_by_two(entry, 400));
            arithmetic.push(kept_by_two(count_up, 400));
        }
        let [walks, arithmetic] = [walks, arithmetic].map(|kept| 100.0 * median(kept));
        println!(
            "two threads: each keeps {walks:.1} % of its rate, and {arithmetic:.1} % with arithmetic alone"
        );
    }

    /// The rate of the slower of two threads at once, as a part of that of one thread alone.
    fn kept_by_two(work: fn(), times: u32) -> f64 {
        slowest_of(1, work, times) / slowest_of(2, work, times)
    }

    /// About as long as a walk.
    #[inline(never)]
    fn count_up() {
        for n in 0..8000_u32 {
            black_box(n);
        }
    }

    /// Nanoseconds per run of `work` on the slowest of `threads` that begin together.
    fn slowest_of(threads: usize, work: fn(), times: u32) -> f64 {
        let together = Barrier::new(threads);
        let run = || {
            let mut found = 0.0;
            at_depth(20, &mut || {
                together.wait();
                found = time(work, times);
            });
            found
        };
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            running.into_iter().map(|thread| thread.join().expect("no panic")).fold(0.0, f64::max)
        })
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }
}
